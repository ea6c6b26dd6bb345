//! The costs of many pending handshakes and slow children: bounded memory, and no delay of other peers.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use forebay_body::Body;
use forebay_transport::{Address, Endpoint, Security};
use forebay_types::{ChunkIndex, Errno, Generation, NodeRank, ViewPath};
use forebay_wire::message::{decode, encode};
use forebay_wire::{Envelope, FrameKind, JobMessage, Outcome, ReadMessage};
use net::raw::{self, Raw};
use net::{PATIENCE, ask, chunk, in_pieces, key, loopback, mute, options, options_with, pattern, service, until};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use crate::net;

const FLOOD: usize = 10_000;

/// Some wait for the kernel while others go on.
const THREADS: usize = 8;

/// Connections that each of them keeps open: no more than a process may have at the least.
const HELD: usize = 60;

/// Held by each test: what one measures of the process must not be another's.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// The address from which a flood's connection of that number comes.
type Sources = fn(usize) -> Ipv4Addr;

/// Opens connections that say nothing, each from the loopback address that `source` names, as fast as the kernel lets it.
fn flood(source: Sources, target: SocketAddr, opened: &AtomicUsize) {
    let mut held = VecDeque::new();
    while opened.load(Ordering::Relaxed) < FLOOD {
        let connection = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&connection, &SocketAddrV4::new(source(opened.load(Ordering::Relaxed)), 0)).unwrap();
        // A full backlog refuses for a moment; what counts is what came through.
        if connect(&connection, &target).is_ok() {
            opened.fetch_add(1, Ordering::Relaxed);
            held.push_back(connection);
        }
        if held.len() > HELD {
            held.pop_front();
        }
    }
}

fn answering(security: Security) -> (Endpoint, Address) {
    let (listener, address) = loopback();
    let options = options_with(0, vec![address.clone(), address.clone()], security);
    let answer = service(|call| call.reply.answer(Outcome::Text, Some(Body::whole(Bytes::from_static(b"[]")))));
    (Endpoint::start(options, listener, answer).unwrap(), address)
}

/// A new node 1 connects and asks, as a child does that was just started.
async fn child_is_served(address: &Address) -> bool {
    let (listener, own) = loopback();
    let options = options_with(1, vec![address.clone(), own], Security::Auth(key()));
    let child = Endpoint::start(options, listener, mute()).unwrap();
    let served = child.call(NodeRank(0), JobMessage::Status, PATIENCE).await.is_ok();
    child.shutdown().await;
    served
}

#[tokio::test]
async fn ten_thousand_pending_handshakes_keep_no_child_out_and_cost_no_memory() {
    let _alone = ALONE.lock().await;
    // From one other address a flood takes no child's place; from the child's own, or from all of loopback when the child is
    // there too, it may, and the child comes again.
    let sources: [(&str, Sources, bool); 3] = [
        ("one other address", |_| Ipv4Addr::new(127, 0, 0, 2), false),
        ("the child's address", |_| Ipv4Addr::LOCALHOST, true),
        ("many addresses", |count| Ipv4Addr::from_bits(0x7f01_0000 + count as u32), true),
    ];
    for (name, source, may_fail) in sources {
        let (root, address) = answering(Security::Auth(key()));
        assert!(child_is_served(&address).await);
        let before = resident_bytes();
        let opened = Arc::new(AtomicUsize::new(0));
        let target = raw::address_of(&address);
        let start = |_| {
            let count = Arc::clone(&opened);
            std::thread::spawn(move || flood(source, target, &count))
        };
        let flooding: Vec<_> = (0..THREADS).map(start).collect();
        let (mut served, mut failed) = (0, 0);
        while !flooding.iter().all(std::thread::JoinHandle::is_finished) {
            match child_is_served(&address).await {
                true => served += 1,
                false => failed += 1,
            }
        }
        flooding.into_iter().for_each(|thread| thread.join().unwrap());
        println!("{served} children served during the flood from {name}, {failed} not");
        assert!(served > 0 && (may_fail || failed == 0), "{served} served, {failed} not");
        assert!(opened.load(Ordering::Relaxed) >= FLOOD);
        let grown = resident_bytes().saturating_sub(before);
        assert!(grown < 32 << 20, "{grown} bytes");
        until("all are turned away", || root.counters().refused >= FLOOD as u64).await;
        assert!(child_is_served(&address).await);
        root.shutdown().await;
    }
}

/// Node 0, which answers any chunk with 1 MiB; what it holds for its answers shows in the list.
fn large() -> (Endpoint, Address, Arc<std::sync::Mutex<Vec<Weak<Body>>>>) {
    let held: Arc<std::sync::Mutex<Vec<Weak<Body>>>> = Arc::default();
    let (listener, address) = loopback();
    let own = Arc::clone(&held);
    let bytes = pattern(1 << 20);
    let answer = service(move |call| {
        let body = in_pieces(&bytes);
        own.lock().unwrap().push(Arc::downgrade(&body));
        call.reply.answer(Outcome::Body, Some(body));
    });
    let options = options(0, vec![address.clone(), address.clone(), address.clone()]);
    (Endpoint::start(options, listener, answer).unwrap(), address, held)
}

#[tokio::test]
async fn a_child_that_does_not_read_delays_nobody() {
    let _alone = ALONE.lock().await;
    let (_root, address, _) = large();
    let mut slow = Raw::connect(&address).await;
    for stream in 1..=64 {
        slow.ask(stream, chunk(0)).await;
    }
    // Its connection is full by the time that others have had this much.
    let (listener, own) = loopback();
    let addresses = vec![address.clone(), address, own];
    let child = Endpoint::start(options(2, addresses), listener, mute()).unwrap();
    for _ in 0..32 {
        assert_eq!(ask(&child, 0).await.len(), 1 << 20);
    }
    // And what it asked for is still there for it.
    assert_eq!(raw::receive(&mut slow.bulk).await.0.kind, FrameKind::Answer);
}

/// A child that asks for all that it may at once and then takes nothing has a window's worth of bodies held for it, while what
/// it asks about names is answered; what it cancels makes room for the next.
#[tokio::test]
async fn no_more_is_held_for_a_slow_child_than_a_window() {
    const CHUNKS: u64 = forebay_transport::limits::PEER_REQUESTS_MAX as u64 / 2;
    let _alone = ALONE.lock().await;
    let (_root, address, held) = large();
    let mut slow = Raw::connect(&address).await;
    let file = ViewPath::new(b"soft/lib.so").unwrap();
    let generation = Generation { size_bytes: CHUNKS << 20, ..Generation::default() };
    for index in 0..CHUNKS {
        let chunk = ReadMessage::Chunk { file: file.clone(), generation, index: ChunkIndex(index) };
        slow.ask(index as u32 + 1, chunk).await;
    }
    let last = CHUNKS as u32 + 1;
    slow.ask(last, JobMessage::Status).await;
    let alive = || held.lock().unwrap().iter().filter(|body| body.upgrade().is_some()).count();
    // The first answers fill its connection; the request behind all the others is answered.
    until("it has what there is room for", || alive() >= forebay_transport::limits::PEER_BODIES_BYTES_MAX >> 20).await;
    assert_eq!(raw::receive(&mut slow.bulk).await.0.stream, 1);
    let asked = held.lock().unwrap().len();
    // One body is that of the last request.
    let room = (forebay_transport::limits::PEER_BODIES_BYTES_MAX >> 20) + 1;
    assert!(alive() <= room, "{} bodies of a MiB are held, of {asked}", alive());
    for stream in 1..last {
        raw::send(&mut slow.control, FrameKind::Cancel, stream, &[], &[]).await;
    }
    let reading = async {
        loop {
            raw::receive(&mut slow.bulk).await;
        }
    };
    tokio::select! {
        () = until("only the last one is held", || alive() <= 1) => {}
        () = reading => {}
    }
}

/// A child that reads what comes, but grants nothing and cancels nothing, has bodies held for it no longer than it said
/// it would wait.
#[tokio::test]
async fn bodies_are_not_held_for_a_child_that_has_given_up() {
    let _alone = ALONE.lock().await;
    let (_root, address, held) = large();
    let mut child = Raw::connect(&address).await;
    let message = encode(&Envelope { remaining_ms: 10, request: chunk(0) });
    for stream in 1..=4 {
        raw::send(&mut child.control, FrameKind::Request, stream, &message, &[]).await;
    }
    let mut ended = vec![];
    let start = std::time::Instant::now();
    while ended.len() < 4 {
        let (head, message, _) = raw::receive(&mut child.bulk).await;
        if head.kind == FrameKind::Abort {
            assert_eq!(decode::<Errno>(&message), Ok(Errno::ETIMEDOUT));
            ended.push(head.stream);
        }
    }
    assert!(
        start.elapsed() >= forebay_transport::limits::ANSWER_GRACE - Duration::from_millis(100),
        "not before its time"
    );
    assert!(held.lock().unwrap().iter().all(|body| body.upgrade().is_none()), "nothing is held any more");
}
