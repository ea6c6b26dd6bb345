//! A node that can reach no other one: what its programs and those below it are told.

use crate::node;

use std::time::Duration;

use forebay_read::{
    Effect, KernelAnswer, KernelRequest, KernelTicket, PeerAnswer, PeerTicket, ROOT_INODE, ReadPath, Source,
};
use forebay_types::{Errno, NodeRank, Time, ViewPath};
use forebay_wire::{ReadMessage, Request};

use node::options;

/// One that may not be root in the root's place, and read what it likes.
const LEAF: u32 = 25;

/// More than a node may read itself within the time that they have.
const PEERS: u64 = 800;

const TIME: Duration = Duration::from_secs(30);

/// A request without a token ends with `EHOSTUNREACH`, at its deadline; it might have been answered until then.
#[test]
fn waits_without_a_token_end_with_unreachable() {
    let mut node: ReadPath<&'static str> = ReadPath::new(options(LEAF, 31));
    (0..31).filter(|rank| *rank != LEAF).for_each(|rank| node.handle_absent(Time(0), NodeRank(rank)));
    for ticket in 0..PEERS {
        let dir = ViewPath::new(format!("dir-{ticket}").as_bytes()).unwrap();
        node.handle_peer(Time(0), NodeRank(1), PeerTicket(ticket), Request::new(ReadMessage::Listing { dir }), TIME);
    }
    let lookup = KernelRequest::Lookup { parent: ROOT_INODE, name: b"file" };
    assert!(node.handle_kernel(Time(0), KernelTicket(1), lookup).is_none());
    let (mut reads, mut peers, mut programs) = (0, Vec::new(), Vec::new());
    for ms in (0..=30_000).step_by(100) {
        let now = Time(0).after(Duration::from_millis(ms));
        node.run_timers(now);
        while let Some(effect) = node.poll_effect() {
            match effect {
                Effect::Fetch { source: Source::Backing, .. } => reads += 1,
                Effect::Fetch { source, .. } => panic!("{source:?} is asked"),
                Effect::Ping { peer, .. } => node.handle_ping(now, peer, None),
                Effect::AnswerPeer { answer: PeerAnswer::Failed(errno), .. } => peers.push((ms, errno)),
                Effect::AnswerKernel { answer: KernelAnswer::Failed(errno), .. } => programs.push((ms, errno)),
                _ => {}
            }
        }
    }
    assert!((64..PEERS as usize).contains(&reads), "{reads} reads of its own");
    assert_eq!(programs, [(30_000, Errno::EHOSTUNREACH)]);
    let of = |errno| peers.iter().filter(|told| **told == (30_000, errno)).count();
    assert_eq!((of(Errno::ETIMEDOUT), of(Errno::EHOSTUNREACH)), (reads, PEERS as usize - reads));
}
