//! One session goes on where another ended: requests in flight are answered, interrupts find them, and nobody sees more
//! than a wait. Both ways: the kernel sends them again, or they were kept.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use forebay_fuse::abi::opcode;
use forebay_fuse::{
    Access, Handler, KeptRequests, Mount, MountOptions, Negotiated, Operation, OwnedRequest, ROOT_NODE, Reply, Request,
    Session, SessionOptions, Task, agree, mount,
};
use tempfile::TempDir;

use crate::fixture::{alone, eventually, skip};
use crate::protocol::Kernel;
use crate::tree::Tree;

/// The mark of a request that the kernel sent again (`FUSE_UNIQUE_RESEND`).
const SENT_AGAIN: u64 = 1 << 63;

const BYTES: usize = 4096;

/// The only file.
const FILE_NODE: u64 = ROOT_NODE + 1;

/// A mount, and what outlives its sessions.
struct Held {
    mount: Option<Mount>,
    negotiated: Negotiated,
    requests: Option<OwnedFd>,
    dir: TempDir,
}

impl Held {
    /// `None`, said aloud, where this machine cannot mount, or cannot send requests again.
    fn new(keeps_requests: bool) -> Option<Self> {
        Self::with_slots(keeps_requests, forebay_fuse::limits::KERNEL_REQUESTS_KEPT)
    }

    /// The same, with room for `slots` requests.
    fn with_slots(keeps_requests: bool, slots: usize) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mount = match mount(dir.path(), &MountOptions::default()) {
            Ok(mount) => mount,
            Err(error) => {
                skip(&error.to_string());
                return None;
            }
        };
        let negotiated = agree(&mount.descriptor(), &SessionOptions::default()).unwrap();
        if !keeps_requests && !negotiated.can_resend() {
            skip("this kernel does not send requests again");
            return None;
        }
        let requests = keeps_requests.then(|| KeptRequests::create(slots, Access::ReadOnly).unwrap());
        Some(Self { mount: Some(mount), negotiated, requests, dir })
    }

    /// A session on it, that serves a tree with one file.
    fn serve(&self) -> (Session, Arc<Tree>) {
        self.serve_holding(None)
    }

    /// The same, with reads of a node held back from the first on.
    fn serve_holding(&self, node: Option<u64>) -> (Session, Arc<Tree>) {
        let tree = Arc::new(Tree::new());
        tree.file(ROOT_NODE, "file", 0o644, vec![7; BYTES]);
        tree.hold_reads(node);
        (self.serve_by(Arc::clone(&tree)), tree)
    }

    fn serve_by(&self, handler: Arc<impl Handler>) -> Session {
        let kept = self.requests.as_ref().map(|memory| KeptRequests::open(memory.try_clone().unwrap()).unwrap());
        let descriptor = self.mount.as_ref().unwrap().descriptor();
        Session::resume(descriptor, self.negotiated, &SessionOptions::default(), kept, handler).unwrap()
    }

    /// A program that reads the file and repeats what a signal interrupts.
    fn reader(&self) -> Child {
        let mut dd = Command::new("dd");
        dd.arg(format!("if={}", self.dir.path().join("file").display()));
        dd.args(["iflag=direct", "bs=4096", "status=none"]).stdout(Stdio::piped()).stderr(Stdio::null());
        dd.spawn().unwrap()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(mount) = self.mount.take() {
            mount.unmount().unwrap();
        }
    }
}

/// A session that takes a read and never answers it.
fn take_and_leave(held: &Held) -> Child {
    let (session, tree) = held.serve_holding(Some(FILE_NODE));
    let reader = held.reader();
    tree.wait_held();
    session.hand_over(Duration::ZERO);
    drop(session);
    // With it the reply that nobody gave, which would be EIO if the session were not handed over.
    drop(tree);
    reader
}

#[track_caller]
fn has_read_all(mut reader: Child) {
    let mut bytes = Vec::new();
    reader.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
    assert!(reader.wait().unwrap().success());
    assert_eq!(bytes, vec![7; BYTES]);
}

#[test]
fn a_request_in_flight_is_answered_by_the_next_session() {
    let _alone = alone();
    for keeps_requests in [false, true] {
        let Some(held) = Held::new(keeps_requests) else { return };
        let reader = take_and_leave(&held);
        let (_session, _tree) = held.serve();
        has_read_all(reader);
    }
}

#[test]
fn a_request_survives_several_sessions() {
    let _alone = alone();
    for keeps_requests in [false, true] {
        let Some(held) = Held::new(keeps_requests) else { return };
        let reader = take_and_leave(&held);
        for _ in 0..3 {
            let (session, tree) = held.serve_holding(Some(FILE_NODE));
            tree.wait_held();
            session.hand_over(Duration::ZERO);
        }
        let (_session, _tree) = held.serve();
        has_read_all(reader);
    }
}

/// Serves a tree, and keeps the thread that has a read until it may go on. Then it answers what is wrong.
struct Slow {
    tree: Tree,
    /// Whether a read is being handled, and whether its handler may go on.
    read: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Handler for Slow {
    fn handle(&self, request: Request<'_>, reply: Reply) -> Option<Reply> {
        if !matches!(request.operation, Operation::Read { .. }) {
            return self.tree.handle(request, reply);
        }
        let mut read = self.read.lock().unwrap();
        read.0 = true;
        self.changed.notify_all();
        drop(self.changed.wait_while(read, |(_, may_go_on)| !*may_go_on).unwrap());
        reply.bytes(b"an answer of the session that has left");
        None
    }
}

/// A reader of it handles a request for as long as it likes: nobody waits for that one. The others take no more requests.
#[test]
fn a_session_that_leaves_waits_for_no_handler_and_leaves_all_requests_to_the_next() {
    let _alone = alone();
    for keeps_requests in [false, true] {
        let Some(held) = Held::new(keeps_requests) else { return };
        let tree = Tree::new();
        tree.file(ROOT_NODE, "file", 0o644, vec![7; BYTES]);
        let slow = Arc::new(Slow { tree, read: Mutex::default(), changed: Condvar::new() });
        let session = held.serve_by(Arc::clone(&slow));
        let taken = held.reader();
        drop(slow.changed.wait_while(slow.read.lock().unwrap(), |(is_read, _)| !*is_read).unwrap());
        let began = Instant::now();
        session.leave();
        drop(session);
        assert!(began.elapsed() < forebay_fuse::limits::KERNEL_READERS_STOP, "the handler was waited for");
        let later = held.reader();
        slow.read.lock().unwrap().1 = true;
        slow.changed.notify_all();
        let (_session, _tree) = held.serve();
        has_read_all(taken);
        has_read_all(later);
    }
}

#[test]
fn an_interrupt_finds_a_request_of_the_session_before() {
    let _alone = alone();
    for keeps_requests in [false, true] {
        let Some(held) = Held::new(keeps_requests) else { return };
        let reader = take_and_leave(&held);
        let (session, tree) = held.serve_holding(Some(FILE_NODE));
        let unique = tree.wait_held();
        assert_eq!(unique & SENT_AGAIN != 0, !keeps_requests);
        tree.hold_reads(None);
        let pid = rustix::process::Pid::from_child(&reader);
        rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
        tree.wait_interrupted(unique);
        has_read_all(reader);
        drop(session);
    }
}

/// More programs wait than requests can be kept: none is lost, and neither the end of a session nor the start of the
/// next one waits for a slot that only an answer can free.
#[test]
fn sessions_come_and_go_while_every_slot_is_taken() {
    const SLOTS: usize = 4;
    let _alone = alone();
    let Some(held) = Held::with_slots(true, SLOTS) else { return };
    let mut readers = Vec::new();
    for generation in 0..3 {
        let (session, tree) = held.serve_holding(Some(FILE_NODE));
        if generation == 0 {
            readers.extend((0..3 * SLOTS).map(|_| held.reader()));
        }
        tree.wait_held_count(SLOTS);
        let started = Instant::now();
        session.hand_over(Duration::ZERO);
        assert!(started.elapsed() < forebay_fuse::limits::KERNEL_READERS_STOP, "a reader is left behind");
    }
    let (_session, _tree) = held.serve();
    readers.into_iter().for_each(has_read_all);
}

/// Ioctls are tasks, which wait for ever or not at all.
struct Ioctls {
    wait: bool,
}

impl Handler for Ioctls {
    fn handle(&self, request: Request<'_>, reply: Reply) -> Option<Reply> {
        if let Operation::Ioctl { .. } = request.operation {
            return Some(reply);
        }
        reply.error(forebay_types::Errno::ENODATA);
        None
    }

    fn task(self: Arc<Self>, request: OwnedRequest, reply: Reply) -> Task {
        Box::pin(async move {
            if self.wait {
                std::future::pending::<()>().await;
            }
            let request = request.request();
            let Operation::Ioctl { input, .. } = request.operation else { return };
            assert!(input.iter().all(|byte| *byte == request.unique as u8), "the bytes are those of the request");
            reply.ioctl(0, &[]);
        })
    }
}

/// Each of three daemons leaves more large requests than there are intakes at first; the readers of each next one read on meanwhile.
#[test]
fn large_requests_in_any_number_are_answered_by_the_next_session() {
    const EACH: u64 = 250;
    const INPUT_BYTES: usize = 2000;
    let _alone = alone();
    let memory = KeptRequests::create(forebay_fuse::limits::KERNEL_REQUESTS_KEPT, Access::ReadOnly).unwrap();
    let (kernel, descriptor) = Kernel::pair();
    let negotiated = Negotiated { minor: 31, flags: 0, offered: 0, max_background: 64, request_bytes_max: 1 << 20 };
    let serve = |wait| {
        let kept = KeptRequests::open(memory.try_clone().unwrap()).unwrap();
        let options = SessionOptions { readers: 8, ..SessionOptions::default() };
        Session::resume(Arc::clone(&descriptor), negotiated, &options, Some(kept), Arc::new(Ioctls { wait })).unwrap()
    };
    let others_are_answered = || {
        kernel.request(opcode::STATFS, 2, &[]);
        assert_eq!(kernel.reply().0.unique, 2);
    };
    let mut asked = BTreeSet::new();
    for daemon in 0..3 {
        let session = serve(true);
        others_are_answered();
        for number in 0..EACH {
            let unique = 10 + 2 * (daemon * EACH + number);
            let mut arguments = vec![0; 32];
            arguments[24..28].copy_from_slice(&(INPUT_BYTES as u32).to_ne_bytes());
            arguments.extend([unique as u8; INPUT_BYTES]);
            kernel.request(opcode::IOCTL, unique, &arguments);
            asked.insert(unique);
        }
        let all = asked.len() as u64;
        eventually("all are taken", || session.message_counts().of("ioctl") == all);
        others_are_answered();
        session.hand_over(Duration::ZERO);
    }
    let session = serve(false);
    while !asked.is_empty() {
        let head = kernel.reply().0;
        assert_eq!(head.error, 0);
        assert!(asked.remove(&head.unique), "{} is answered once", head.unique);
    }
    others_are_answered();
    drop(kernel);
    session.wait();
    assert!(KeptRequests::open(memory.try_clone().unwrap()).is_ok());
}
