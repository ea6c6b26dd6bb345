//! The ends of a session: unmounted or stopped, handed over in order, or left to the next daemon as it is.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{Session, Shared};
use crate::{limits, wake};

/// How often a waiting reader is interrupted until it ends: an interruption just before it waits is lost.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(5);

/// How often a session that is handed over looks whether all is answered, or that leaves, whether its readers have ended.
const END_POLL: Duration = Duration::from_millis(1);

impl Session {
    /// Takes no more requests, and waits `drain` at most until those taken are answered. The session that resumes when
    /// this process has ended answers the rest, also requests that only an error could answer now.
    pub fn hand_over(&self, drain: Duration) {
        let device = &self.shared.device;
        device.begin_to_hand_over();
        let deadline = Instant::now() + drain;
        if !self.stop_until(deadline.max(Instant::now() + limits::KERNEL_READERS_HAND_OVER)) {
            tracing::info!("requests that wait for something else are left to the next daemon");
        }
        while device.in_flight.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
            thread::sleep(END_POLL);
        }
        device.leave();
        self.shared.tasks.drop_all();
    }

    /// Takes no more requests and answers none, not those that it has taken either: the session that resumes when this process has ended answers
    /// all of them. Waits only for readers that wait for a request; those that handle one are left behind, and so are
    /// tasks.
    pub fn leave(&self) {
        let device = &self.shared.device;
        device.begin_to_hand_over();
        device.leave();
        self.shared.begin_to_stop();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let deadline = Instant::now() + limits::KERNEL_READERS_HAND_OVER;
        while self.shared.reading.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
            threads.iter().filter(|reader| !reader.is_finished()).for_each(wake::interrupt);
            thread::sleep(END_POLL);
        }
    }

    /// Gives the connection up for this whole process, which is about to end and may be held by a thread that waits for
    /// something else: the kernel then ends what programs wait for as soon as no other process has the connection.
    pub fn disconnect(&self) {
        if let Err(error) = self.shared.device.close_for_all() {
            tracing::warn!(%error, "the connection stays open until this process has ended");
        }
    }

    /// Ends the readers, each after the request it is handling, and waits for tasks; those that take too long are dropped, and what they were
    /// to answer is answered EIO. Unmount first: what is asked of a mount that nobody reads waits until its descriptor is closed. Called from
    /// within a handler it does not wait for that reader.
    pub fn stop(&self) {
        if !self.stop_until(Instant::now() + limits::KERNEL_READERS_STOP) {
            tracing::error!("requests that are still being handled are given up");
        }
        self.shared.tasks.drop_all();
        self.notifier.end_invalidator();
    }

    /// Whether all have ended in time.
    fn stop_until(&self, deadline: Instant) -> bool {
        self.shared.begin_to_stop();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        threads.iter().for_each(wake::interrupt);
        let mut all_end = true;
        for thread in threads {
            if thread.thread().id() == thread::current().id() {
                continue;
            }
            if self.shared.wait_finished(&thread, deadline) {
                // A panic would have aborted the process; joining cannot fail.
                let _ = thread.join();
            } else {
                all_end = false;
            }
        }
        self.shared.tasks.wait(deadline) && all_end
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Those that are left behind in one that has left answer nothing.
        if !self.shared.device.leaves(false) {
            self.stop();
        }
    }
}

impl Shared {
    /// Readers take no more requests from now on, once they have been interrupted.
    fn begin_to_stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        if let Some(kept) = &self.device.kept {
            kept.end_waits();
        }
        self.tasks.close();
    }

    /// Waits for a reader to end, and interrupts it when unmounting has not ended it already. False: not in time.
    fn wait_finished(&self, reader: &JoinHandle<()>, deadline: Instant) -> bool {
        let mut running = self.running();
        while !reader.is_finished() && Instant::now() < deadline {
            let waited = self.ended.wait_timeout(running, INTERRUPT_INTERVAL).unwrap_or_else(PoisonError::into_inner);
            running = waited.0;
            if waited.1.timed_out() {
                wake::interrupt(reader);
            }
        }
        drop(running);
        reader.is_finished()
    }
}
