//! SIGINT, SIGTERM and SIGHUP while a job is being started: the start ends, and what was begun is undone.

use std::sync::{Arc, Mutex, PoisonError, mpsc};

use anyhow::Context;
use forebay_launch::Interrupt;
use tokio::signal::unix::{SignalKind, signal};

/// Whether a signal has come, and whom to tell.
#[derive(Default)]
struct State {
    came: bool,
    interrupt: Option<Interrupt>,
}

/// Catches the signals from its making on; they never end the process by themselves any more.
#[derive(Clone)]
pub struct Signals(Arc<Mutex<State>>);

impl Signals {
    /// Begins to catch.
    pub fn catch() -> anyhow::Result<Self> {
        let signals = Self(Arc::default());
        let (ready, is_ready) = mpsc::channel();
        let caught = signals.clone();
        let listen = move || ready.send(caught.listen(&ready));
        std::thread::Builder::new().spawn(listen).context("no thread can be started for signals (ulimit -u)")?;
        is_ready.recv().context("the thread for signals has ended")?.context("cannot catch signals")?;
        Ok(signals)
    }

    /// Tells `interrupt` of a signal, also of one that came before.
    pub fn tell(&self, interrupt: Interrupt) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.came {
            interrupt.now();
        }
        state.interrupt = Some(interrupt);
    }

    /// Tells `ready` that the signals are caught, and never returns unless they cannot be.
    fn listen(&self, ready: &mpsc::Sender<std::io::Result<()>>) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        runtime.block_on(async {
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut terminate = signal(SignalKind::terminate())?;
            let mut hangup = signal(SignalKind::hangup())?;
            ready.send(Ok(())).ok();
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
                self.came();
            }
        })
    }

    fn came(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.came = true;
        if let Some(interrupt) = &state.interrupt {
            interrupt.now();
        }
    }
}
