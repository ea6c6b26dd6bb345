//! The session against a kernel played over a socket: what no real kernel sends, or no longer.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;

use forebay_fuse::abi::{InHeader, InitOut, OutHeader, init_flag, opcode};
use forebay_fuse::{Operation, Reply, Request, Session, SessionOptions};
use forebay_types::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use zerocopy::{FromBytes, IntoBytes};

/// The kernel's side.
pub struct Kernel(OwnedFd);

impl Kernel {
    pub fn pair() -> (Self, Arc<OwnedFd>) {
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        (Self(ours), Arc::new(theirs))
    }

    fn send(&self, bytes: &[u8]) {
        rustix::net::send(&self.0, bytes, SendFlags::empty()).unwrap();
    }

    pub fn request(&self, code: u32, unique: u64, arguments: &[u8]) {
        let len = (size_of::<InHeader>() + arguments.len()) as u32;
        let head = InHeader { len, opcode: code, unique, nodeid: 1, ..InHeader::default() };
        self.send(&[head.as_bytes(), arguments].concat());
    }

    pub fn reply(&self) -> (OutHeader, Vec<u8>) {
        let mut bytes = vec![0; 1 << 20];
        let (len, _) = rustix::net::recv(&self.0, bytes.as_mut_slice(), RecvFlags::empty()).unwrap();
        let (head, rest) = OutHeader::read_from_prefix(&bytes[..len]).unwrap();
        assert_eq!(head.len as usize, len);
        (head, rest.to_vec())
    }

    pub fn has_no_reply(&self) {
        let received = rustix::net::recv(&self.0, &mut [0; 16][..], RecvFlags::DONTWAIT);
        assert!(received.is_err() || received.is_ok_and(|(len, _)| len == 0));
    }

    pub fn init(&self, major: u32, minor: u32, flags: u32) -> (OutHeader, Vec<u8>) {
        self.request(opcode::INIT, 2, [major, minor, 131_072, flags].as_bytes());
        self.reply()
    }
}

fn refuse_all(request: Request<'_>, reply: Reply) {
    match request.operation {
        Operation::Statfs => drop(reply),
        Operation::Interrupt { unique: 77 } => reply.error(Errno::EAGAIN),
        Operation::Interrupt { .. } => reply.error(Errno::ENOSYS),
        Operation::Forget { .. } => reply.none(),
        other => reply.error(other.default_error()),
    }
}

/// The session first: it is dropped last, when the kernel's side has hung up.
fn started(flags: u32) -> (Session, Kernel) {
    let (kernel, descriptor) = Kernel::pair();
    let starting = thread::spawn(move || {
        Session::start(descriptor, &SessionOptions { readers: 1, ..Default::default() }, Arc::new(refuse_all))
    });
    assert_eq!(kernel.init(7, 31, flags).0.error, 0);
    (starting.join().unwrap().unwrap(), kernel)
}

#[test]
fn an_older_kernel_is_answered_in_its_version_with_what_it_offers() {
    let _alone = crate::fixture::alone();
    let (kernel, descriptor) = Kernel::pair();
    let starting = thread::spawn(move || Session::start(descriptor, &SessionOptions::default(), Arc::new(refuse_all)));
    let offered = (init_flag::ASYNC_READ | init_flag::AUTO_INVAL_DATA | init_flag::POSIX_LOCKS) as u32;
    let (head, body) = kernel.init(7, 31, offered);
    let out = InitOut::read_from_bytes(&body).unwrap();
    assert_eq!((head.error, head.unique), (0, 2));
    assert_eq!((out.major, out.minor, out.flags, out.flags2), (7, 31, init_flag::ASYNC_READ as u32, 0));
    assert_eq!((out.max_background, out.congestion_threshold, out.time_gran), (64, 48, 1));
    drop(kernel);
    starting.join().unwrap().unwrap().wait();
}

#[test]
fn a_kernel_too_old_is_refused() {
    let _alone = crate::fixture::alone();
    let (kernel, descriptor) = Kernel::pair();
    let starting = thread::spawn(move || Session::start(descriptor, &SessionOptions::default(), Arc::new(refuse_all)));
    assert_eq!(kernel.init(7, 30, 0).0.error, -Errno::EPROTO.number());
    let error = starting.join().unwrap().err().expect("refused");
    assert_eq!(Errno::of(&error), Errno::EPROTO);
}

#[test]
fn a_kernel_of_a_later_major_version_is_told_ours_and_asks_again() {
    let _alone = crate::fixture::alone();
    let (kernel, descriptor) = Kernel::pair();
    let starting = thread::spawn(move || Session::start(descriptor, &SessionOptions::default(), Arc::new(refuse_all)));
    let (_, body) = kernel.init(8, 1, u32::MAX);
    assert_eq!(InitOut::read_from_bytes(&body).unwrap().major, 7);
    assert_eq!(kernel.init(7, 45, 0).0.error, 0);
    drop(kernel);
    starting.join().unwrap().unwrap().wait();
}

#[test]
fn a_first_request_other_than_init_ends_the_start() {
    let _alone = crate::fixture::alone();
    let (kernel, descriptor) = Kernel::pair();
    kernel.request(opcode::STATFS, 2, &[]);
    assert!(Session::start(descriptor, &SessionOptions::default(), Arc::new(refuse_all)).is_err());
}

#[test]
fn malformed_requests_are_answered_eio_and_the_session_goes_on() {
    let _alone = crate::fixture::alone();
    let (session, kernel) = started(0);
    kernel.send(b"too short for a head");
    kernel.request(opcode::READ, 10, &[0; 8]);
    kernel.request(opcode::LOOKUP, 11, b"no end");
    kernel.request(opcode::LOOKUP, 12, b"");
    let lying = InHeader { len: 4000, opcode: opcode::GETATTR, unique: 13, ..InHeader::default() };
    kernel.send(lying.as_bytes());
    let extended = InHeader { len: 40, opcode: opcode::STATFS, unique: 14, total_extlen: 9, ..InHeader::default() };
    kernel.send(extended.as_bytes());
    for unique in 10..15 {
        let (head, body) = kernel.reply();
        assert_eq!((head.unique, head.error, body.len()), (unique, -Errno::EIO.number(), 0));
    }
    kernel.request(4000, 20, b"anything");
    let (head, _) = kernel.reply();
    assert_eq!((head.unique, head.error), (20, -Errno::ENOSYS.number()));
    assert_eq!(session.message_counts().of("lookup"), 2);
}

#[test]
fn the_session_answers_what_needs_no_file_system() {
    let _alone = crate::fixture::alone();
    let (_session, kernel) = started((init_flag::NO_OPEN_SUPPORT | init_flag::NO_OPENDIR_SUPPORT) as u32);
    for (unique, code) in [(30, opcode::OPEN), (31, opcode::OPENDIR)] {
        kernel.request(code, unique, &[0; 8]);
        let (head, _) = kernel.reply();
        assert_eq!((head.unique, head.error), (unique, -Errno::ENOSYS.number()));
    }
    kernel.request(opcode::DESTROY, 32, &[]);
    assert_eq!(kernel.reply().0, OutHeader { len: 16, error: 0, unique: 32 });
    kernel.request(opcode::INIT, 33, &[0; 64]);
    assert_eq!(kernel.reply().0.error, -Errno::EIO.number());
}

#[test]
fn a_kernel_that_must_open_is_told_to_keep_its_caches() {
    let _alone = crate::fixture::alone();
    let (_session, kernel) = started(0);
    for (code, flags) in [(opcode::OPEN, 2), (opcode::OPENDIR, 2 | 8)] {
        kernel.request(code, 30, &[0; 8]);
        let (head, body) = kernel.reply();
        assert_eq!((head.error, body.len()), (0, 16));
        assert_eq!(u32::from_ne_bytes(body[8..12].try_into().unwrap()), flags);
    }
}

#[test]
fn a_dropped_reply_is_eio_and_forgets_and_interrupts_are_not_answered() {
    let _alone = crate::fixture::alone();
    let (_session, kernel) = started(0);
    kernel.request(opcode::FORGET, 40, &1u64.to_ne_bytes());
    kernel.request(opcode::INTERRUPT, 42, &5u64.to_ne_bytes());
    kernel.request(opcode::NOTIFY_REPLY, 44, &[0; 40]);
    kernel.request(opcode::STATFS, 46, &[]);
    let (head, _) = kernel.reply();
    assert_eq!((head.unique, head.error), (46, -Errno::EIO.number()));
    kernel.request(opcode::INTERRUPT, 48, &77u64.to_ne_bytes());
    let (head, _) = kernel.reply();
    assert_eq!((head.unique, head.error), (48, -Errno::EAGAIN.number()));
}
