//! Requests that wait leave readers for those that do not, however many they are.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use forebay_fuse::abi::opcode;
use forebay_fuse::{Change, Handler, Operation, Reply, Request, Session, SessionOptions};
use forebay_types::Errno;
use forebay_types::threads::SPARE_THREADS_MAX;

use crate::fixture::{alone, eventually};
use crate::protocol::Kernel;

const READERS: usize = 4;

/// Lookups wait until they may end. Of some it answers only when they are interrupted.
#[derive(Default)]
struct Slow {
    may_end: Mutex<bool>,
    changed: Condvar,
    under_way: AtomicUsize,
    handed_over: AtomicUsize,
    unanswered: Mutex<Vec<(u64, Reply)>>,
}

impl Slow {
    fn let_all_end(&self) {
        *self.may_end.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

impl Handler for Slow {
    fn handle(&self, request: Request<'_>, reply: Reply) {
        match request.operation {
            Operation::Change(Change::SetLockWaiting(_)) => {
                self.under_way.fetch_add(1, Ordering::SeqCst);
                drop(self.changed.wait_while(self.may_end.lock().unwrap(), |may_end| !*may_end).unwrap());
                self.unanswered.lock().unwrap().push((request.unique, reply));
            }
            Operation::Lookup { name } => {
                self.under_way.fetch_add(1, Ordering::SeqCst);
                drop(self.changed.wait_while(self.may_end.lock().unwrap(), |may_end| !*may_end).unwrap());
                if name == b"late" {
                    self.unanswered.lock().unwrap().push((request.unique, reply));
                } else {
                    reply.error(Errno::ENOENT);
                }
            }
            Operation::Interrupt { unique } => {
                let mut unanswered = self.unanswered.lock().unwrap();
                let at = unanswered.iter().position(|(of, _)| *of == unique);
                let found = at.map(|at| unanswered.swap_remove(at));
                drop(unanswered);
                found.into_iter().for_each(|(_, reply)| reply.error(Errno::EINTR));
                reply.none();
            }
            _ => reply.error(Errno::ENODATA),
        }
    }

    fn may_wait(&self, request: &Request<'_>) -> bool {
        matches!(request.operation, Operation::Lookup { .. })
    }

    fn hand_over(&self, _request: &Request<'_>) -> Box<dyn Send> {
        self.handed_over.fetch_add(1, Ordering::SeqCst);
        Box::new(())
    }
}

fn started() -> (Session, Kernel, Arc<Slow>) {
    let (kernel, descriptor) = Kernel::pair();
    let slow = Arc::new(Slow::default());
    let handler = Arc::clone(&slow);
    let options = SessionOptions { readers: READERS, ..Default::default() };
    let starting = thread::spawn(move || Session::start(descriptor, &options, handler));
    assert_eq!(kernel.init(7, 31, 0).0.error, 0);
    (starting.join().unwrap().unwrap(), kernel, slow)
}

/// Asks for so many names, with numbers from 1000 on, until all have been read.
fn ask(kernel: &Kernel, session: &Session, count: usize) {
    for number in 0..count as u64 {
        kernel.request(opcode::LOOKUP, 1000 + 2 * number, b"name\0");
    }
    eventually("all are read", || session.message_counts().of("lookup") == count as u64);
}

fn uniques_of_replies(kernel: &Kernel, count: usize, error: Errno) -> BTreeSet<u64> {
    let one = || {
        let (head, _) = kernel.reply();
        assert_eq!(head.error, -error.number());
        head.unique
    };
    (0..count).map(|_| one()).collect()
}

#[test]
fn other_requests_are_answered_while_any_number_waits() {
    let _alone = alone();
    for count in [1, READERS, 20, SPARE_THREADS_MAX + 50] {
        let (session, kernel, slow) = started();
        ask(&kernel, &session, count);
        for unique in 0..100 {
            kernel.request(opcode::STATFS, 2 * unique + 2, &[]);
            assert_eq!(kernel.reply().0.unique, 2 * unique + 2);
        }
        let expected = count.min(READERS - 2 + SPARE_THREADS_MAX);
        eventually("threads wait", || slow.under_way.load(Ordering::SeqCst) == expected);
        let handed_over = slow.handed_over.load(Ordering::SeqCst);
        assert_eq!(handed_over, count.saturating_sub(READERS - 2), "only where few readers are free");
        slow.let_all_end();
        assert_eq!(uniques_of_replies(&kernel, count, Errno::ENOENT).len(), count);
        drop(kernel);
        session.wait();
    }
}

#[test]
fn an_interrupt_that_comes_before_its_request_is_handled_is_not_lost() {
    let _alone = alone();
    let (session, kernel, slow) = started();
    ask(&kernel, &session, READERS);
    kernel.request(opcode::LOOKUP, 2, b"late\0");
    eventually("it is handed over", || slow.under_way.load(Ordering::SeqCst) == READERS + 1);
    kernel.request(opcode::INTERRUPT, 4, &2u64.to_ne_bytes());
    kernel.request(opcode::STATFS, 6, &[]);
    assert_eq!(kernel.reply().0.unique, 6);
    eventually("the interrupt is read", || session.message_counts().of("interrupt") == 1);
    slow.let_all_end();
    let mut replies: Vec<_> = (0..=READERS).map(|_| kernel.reply().0).map(|head| (head.unique, head.error)).collect();
    replies.sort_unstable();
    assert_eq!(replies[0], (2, -Errno::EINTR.number()));
    drop(kernel);
    session.wait();
}

#[test]
fn an_interrupt_of_a_lock_that_a_reader_is_handling_is_not_lost() {
    let _alone = alone();
    let (session, kernel, slow) = started();
    kernel.request(opcode::SETLKW, 2, &[0; 48]);
    eventually("it is being handled", || slow.under_way.load(Ordering::SeqCst) == 1);
    kernel.request(opcode::INTERRUPT, 4, &2u64.to_ne_bytes());
    kernel.request(opcode::STATFS, 6, &[]);
    assert_eq!(kernel.reply().0.unique, 6);
    eventually("the interrupt is read", || session.message_counts().of("interrupt") == 1);
    assert_eq!(slow.handed_over.load(Ordering::SeqCst), 0);
    slow.let_all_end();
    let head = kernel.reply().0;
    assert_eq!((head.unique, head.error), (2, -Errno::EINTR.number()));
    drop(kernel);
    session.wait();
}

#[test]
fn requests_that_still_queue_when_the_session_ends_are_answered() {
    let _alone = alone();
    let (session, kernel, slow) = started();
    let queued = 50;
    let threads = READERS - 2 + SPARE_THREADS_MAX;
    ask(&kernel, &session, threads + queued);
    eventually("threads wait", || slow.under_way.load(Ordering::SeqCst) == threads);
    thread::scope(|scope| {
        scope.spawn(|| session.stop());
        let given_back = uniques_of_replies(&kernel, queued, Errno::EIO);
        assert_eq!(given_back.len(), queued);
        slow.let_all_end();
        assert_eq!(uniques_of_replies(&kernel, threads, Errno::ENOENT).len(), threads);
    });
    assert!(session.is_ended());
}
