//! Requests that wait are tasks: they take no reader and few threads, however many they are.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use forebay_fuse::abi::opcode;
use forebay_fuse::limits::{KERNEL_REQUESTS_KEPT, LOCK_WAITS_MAX, TASKS_MAX, TASKS_RESERVE};
use forebay_fuse::{
    Access, Change, Handler, KeptRequests, Negotiated, Operation, OwnedRequest, Reply, Request, Session,
    SessionOptions, Task,
};
use forebay_types::Errno;
use forebay_types::threads::{FUSE_TASK_THREADS_MAX, KERNEL_READERS_MAX};

use crate::fixture::{alone, eventually};
use crate::protocol::Kernel;

const READERS: usize = 4;

/// Lookups and locks are tasks that wait until they may end or are interrupted. `slow` holds its reader first.
#[derive(Default)]
struct Slow {
    may_end: Mutex<(bool, Vec<Waker>)>,
    slow: Mutex<bool>,
    changed: Condvar,
    begun: AtomicUsize,
    held: AtomicUsize,
}

impl Slow {
    fn let_all_end(&self) {
        let mut may_end = self.may_end.lock().unwrap();
        may_end.0 = true;
        may_end.1.drain(..).for_each(Waker::wake);
    }

    fn let_slow_go_on(&self) {
        *self.slow.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

impl Handler for Slow {
    fn handle(&self, request: Request<'_>, reply: Reply) -> Option<Reply> {
        match request.operation {
            Operation::Lookup { name: b"slow" } => {
                self.held.fetch_add(1, Ordering::SeqCst);
                drop(self.changed.wait_while(self.slow.lock().unwrap(), |may_go_on| !*may_go_on).unwrap());
                return Some(reply);
            }
            Operation::Change(Change::SetLockWaiting(_)) | Operation::Lookup { .. } => return Some(reply),
            Operation::Interrupt { .. } => reply.none(),
            _ => reply.error(Errno::ENODATA),
        }
        None
    }

    fn may_block(&self, request: &Request<'_>) -> bool {
        matches!(request.operation, Operation::Lookup { .. })
    }

    fn task(self: Arc<Self>, request: OwnedRequest, reply: Reply) -> Task {
        self.begun.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let interruption = Arc::clone(request.interruption());
            let mut interrupted = Box::pin(interruption.come());
            let errno = poll_fn(|context| {
                if let Operation::Lookup { name: b"panic" } = request.request().operation {
                    panic!("expected by this test");
                }
                if interrupted.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Errno::EINTR);
                }
                let mut may_end = self.may_end.lock().unwrap();
                if may_end.0 {
                    return Poll::Ready(Errno::ENOENT);
                }
                may_end.1.push(context.waker().clone());
                Poll::Pending
            });
            reply.error(errno.await);
        })
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

/// Asks for so many names, with numbers from 10,000 on, until all are tasks.
fn ask(kernel: &Kernel, slow: &Slow, count: usize) {
    for number in 0..count as u64 {
        kernel.request(opcode::LOOKUP, 10_000 + 2 * number, b"name\0");
    }
    eventually("all are tasks", || slow.begun.load(Ordering::SeqCst) == count);
}

fn uniques_of_replies(kernel: &Kernel, count: usize, error: Errno) -> BTreeSet<u64> {
    let one = || {
        let (head, _) = kernel.reply();
        assert_eq!(head.error, -error.number());
        head.unique
    };
    (0..count).map(|_| one()).collect()
}

/// Requests that do not wait are answered.
fn others_are_answered(kernel: &Kernel, count: u64) {
    for unique in 1..=count {
        kernel.request(opcode::STATFS, 2 * unique, &[]);
        assert_eq!(kernel.reply().0.unique, 2 * unique);
    }
}

fn task_threads() -> usize {
    let names = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    names
        .filter(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name == "fuse-task\n"))
        .count()
}

/// Whether all readers sleep: for a request, or for room.
fn do_readers_wait() -> bool {
    let stats = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let stats = stats.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    let is_reader = |stat: &String| (0..READERS).any(|index| stat.contains(&format!("(fuse-{index})")));
    stats.filter(is_reader).filter(|stat| stat.contains(") S ")).count() == READERS
}

#[test]
fn other_requests_are_answered_while_any_number_waits_on_few_threads() {
    let _alone = alone();
    for count in [1, READERS, 20, 1000] {
        let (session, kernel, slow) = started();
        ask(&kernel, &slow, count);
        others_are_answered(&kernel, 100);
        assert!((1..=FUSE_TASK_THREADS_MAX).contains(&task_threads()), "{}", task_threads());
        eventually("idle threads end", || task_threads() <= 2);
        slow.let_all_end();
        assert_eq!(uniques_of_replies(&kernel, count, Errno::ENOENT).len(), count);
        eventually("all threads end", || task_threads() == 0);
        drop(kernel);
        session.wait();
    }
}

#[test]
fn an_interrupt_that_comes_before_its_request_is_known_is_not_lost() {
    let _alone = alone();
    let (session, kernel, slow) = started();
    kernel.request(opcode::LOOKUP, 2, b"slow\0");
    eventually("a reader has it", || slow.held.load(Ordering::SeqCst) == 1);
    kernel.request(opcode::INTERRUPT, 4, &2u64.to_ne_bytes());
    kernel.request(opcode::STATFS, 6, &[]);
    assert_eq!(kernel.reply().0.unique, 6);
    eventually("the interrupt is read", || session.message_counts().of("interrupt") == 1);
    slow.let_slow_go_on();
    assert_eq!(uniques_of_replies(&kernel, 1, Errno::EINTR), [2].into());
    drop(kernel);
    session.wait();
}

#[test]
fn an_interrupt_of_a_request_that_waits_finds_it_alone() {
    let _alone = alone();
    let (session, kernel, slow) = started();
    ask(&kernel, &slow, 10);
    kernel.request(opcode::INTERRUPT, 4, &10_004u64.to_ne_bytes());
    assert_eq!(uniques_of_replies(&kernel, 1, Errno::EINTR), [10_004].into());
    slow.let_all_end();
    assert_eq!(uniques_of_replies(&kernel, 9, Errno::ENOENT).len(), 9);
    drop(kernel);
    session.wait();
}

#[test]
fn a_task_that_panics_answers_an_error_and_ends_nothing_else() {
    let _alone = alone();
    let (session, kernel, slow) = started();
    ask(&kernel, &slow, 3);
    kernel.request(opcode::LOOKUP, 2, b"panic\0");
    assert_eq!(uniques_of_replies(&kernel, 1, Errno::EIO), [2].into());
    others_are_answered(&kernel, 10);
    slow.let_all_end();
    assert_eq!(uniques_of_replies(&kernel, 3, Errno::ENOENT).len(), 3);
    drop(kernel);
    session.wait();
}

/// Three readers hold a request each, and the fourth takes what is in the reserve.
#[test]
fn beyond_all_limits_requests_fail_and_the_last_reader_reads_on() {
    let _alone = alone();
    let (session, kernel, slow) = started();
    let readers = READERS - 1;
    let asked = TASKS_MAX + readers + TASKS_RESERVE;
    ask(&kernel, &slow, TASKS_MAX);
    for number in TASKS_MAX as u64..asked as u64 {
        // A reader that comes back from another request would take this one for the last that can be read.
        if number <= (TASKS_MAX + readers) as u64 {
            eventually("all readers wait", do_readers_wait);
        }
        kernel.request(opcode::LOOKUP, 10_000 + 2 * number, b"name\0");
        eventually("it is read", || session.message_counts().of("lookup") > number);
    }
    eventually("all are read", || session.message_counts().of("lookup") == asked as u64);
    eventually("most are tasks", || slow.begun.load(Ordering::SeqCst) == asked - readers);
    others_are_answered(&kernel, 100);
    kernel.request(opcode::LOOKUP, 2, b"name\0");
    assert_eq!(uniques_of_replies(&kernel, 1, Errno::ENOMEM), [2].into());
    kernel.request(opcode::SETLKW, 4, &[0; 48]);
    assert_eq!(uniques_of_replies(&kernel, 1, Errno::ENOLCK), [4].into());
    kernel.request(opcode::INTERRUPT, 6, &10_000u64.to_ne_bytes());
    assert_eq!(uniques_of_replies(&kernel, 1, Errno::EINTR), [10_000].into());
    slow.let_all_end();
    assert_eq!(uniques_of_replies(&kernel, asked - 1, Errno::ENOENT).len(), asked - 1);
    drop(kernel);
    session.wait();
}

/// The memory is sealed, so that none comes to what is there at first.
#[test]
fn readers_without_memory_wait_for_some_and_read_on() {
    let _alone = alone();
    let memory = KeptRequests::create(KERNEL_REQUESTS_KEPT, Access::ReadOnly).unwrap();
    rustix::fs::fcntl_add_seals(&memory, rustix::fs::SealFlags::GROW).unwrap();
    let (kernel, descriptor) = Kernel::pair();
    let negotiated = Negotiated { minor: 31, flags: 0, offered: 0, max_background: 64, request_bytes_max: 1 << 20 };
    let options = SessionOptions { readers: READERS, ..Default::default() };
    let (slow, kept) = (Arc::new(Slow::default()), KeptRequests::open(memory).unwrap());
    let session = Session::resume(descriptor, negotiated, &options, Some(kept), Arc::clone(&slow)).unwrap();
    // Too large for a slot: each stays where it was read.
    let name = [&[b'n'; 1000][..], b"\0"].concat();
    let asked = 2 * KERNEL_READERS_MAX;
    (0..asked as u64).for_each(|number| kernel.request(opcode::LOOKUP, 10_000 + 2 * number, &name));
    eventually("all memory is taken", || slow.begun.load(Ordering::SeqCst) == asked);
    kernel.request(opcode::STATFS, 2, &[]);
    kernel.has_no_reply();
    slow.let_all_end();
    eventually("a reader reads on", || session.message_counts().of("statfs") == 1);
    let mut replies: BTreeSet<u64> = (0..=asked).map(|_| kernel.reply().0.unique).collect();
    assert!(replies.remove(&2));
    assert_eq!(replies.len(), asked);
    others_are_answered(&kernel, 100);
    drop(kernel);
    session.wait();
}

/// Nor do they hold up what gives a lock free, which comes by the same call.
#[test]
fn waits_for_locks_have_a_share_of_what_may_wait() {
    let _alone = alone();
    let (session, kernel, slow) = started();
    let lock = |unique, kind: u32| {
        let mut arguments = [0; 48];
        arguments[32..36].copy_from_slice(&kind.to_ne_bytes());
        kernel.request(opcode::SETLKW, unique, &arguments);
    };
    (0..LOCK_WAITS_MAX as u64).for_each(|number| lock(10_000 + 2 * number, 1));
    eventually("all are tasks", || slow.begun.load(Ordering::SeqCst) == LOCK_WAITS_MAX);
    lock(2, 1);
    assert_eq!(uniques_of_replies(&kernel, 1, Errno::ENOLCK), [2].into());
    lock(4, 2);
    kernel.request(opcode::LOOKUP, 6, b"name\0");
    eventually("others are tasks", || slow.begun.load(Ordering::SeqCst) == LOCK_WAITS_MAX + 2);
    slow.let_all_end();
    assert_eq!(uniques_of_replies(&kernel, LOCK_WAITS_MAX + 2, Errno::ENOENT).len(), LOCK_WAITS_MAX + 2);
    lock(8, 1);
    assert_eq!(uniques_of_replies(&kernel, 1, Errno::ENOENT), [8].into());
    drop(kernel);
    session.wait();
}

#[test]
fn requests_that_still_wait_when_the_session_has_ended_are_answered() {
    let _alone = alone();
    let (session, kernel, slow) = started();
    ask(&kernel, &slow, 50);
    session.stop();
    assert_eq!(uniques_of_replies(&kernel, 50, Errno::EIO).len(), 50);
    assert!(session.is_ended());
    eventually("all threads end", || task_threads() == 0);
}

#[test]
fn a_session_that_hands_over_leaves_what_waits_to_the_next() {
    let _alone = alone();
    let (session, kernel, slow) = started();
    ask(&kernel, &slow, 50);
    session.hand_over(Duration::ZERO);
    drop((session, slow));
    kernel.has_no_reply();
}
