//! A body that is spoilt on its way or where it was kept: it is asked for elsewhere.

use crate::node;

use std::time::Duration;

use forebay_read::{AttemptId, Effect, PeerTicket, ReadPath, Source};
use forebay_types::{ChunkIndex, Errno, Generation, NodeRank, Time, ViewPath};
use forebay_wire::{ReadMessage, Request};

use node::options;

type Node = ReadPath<&'static str>;

fn at(ms: u64) -> Time {
    Time(0).after(Duration::from_millis(ms))
}

/// A node below asks for a file's only chunk: whom this one asks.
fn ask(node: &mut Node, ms: u64, name: &str) -> (AttemptId, Source) {
    let file = ViewPath::new(name.as_bytes()).unwrap();
    let generation = Generation { size_bytes: 100, ..Generation::default() };
    let message = ReadMessage::Chunk { file, generation, index: ChunkIndex(0) };
    node.run_timers(at(ms));
    node.handle_peer(at(ms), NodeRank(1), PeerTicket(ms), Request::new(message), Duration::from_secs(30));
    let fetch = |effect| match effect {
        Effect::Fetch { attempt, source, .. } => Some((attempt, source)),
        _ => None,
    };
    std::iter::from_fn(|| node.poll_effect()).find_map(fetch).expect("it is asked for")
}

fn arrives(node: &mut Node, ms: u64, attempt: AttemptId, outcome: Result<(), Errno>) {
    assert!(node.handle_body_started(at(ms), attempt, "bytes", 100));
    node.handle_body_ended(at(ms), attempt, outcome);
}

#[test]
fn senders_of_spoilt_bytes_are_not_asked_for_them_again() {
    let mut node: Node = ReadPath::new(options(3, 7));
    let parent = Source::Peer(NodeRank(2));
    let (attempt, source) = ask(&mut node, 0, "file");
    assert_eq!(source, parent);
    arrives(&mut node, 1, attempt, Err(Errno::WAY_LOST));
    let (again, source) = ask(&mut node, 2, "file");
    assert_eq!(source, Source::Peer(NodeRank(0)));
    assert_eq!(ask(&mut node, 3, "other").1, parent, "it is there, and has other things");
    arrives(&mut node, 4, again, Err(Errno::WAY_LOST));
    assert_eq!(ask(&mut node, 5, "file").1, Source::Peer(NodeRank(4)), "neither of them");
    let mut later: Node = ReadPath::new(options(3, 7));
    let (attempt, _) = ask(&mut later, 0, "file");
    arrives(&mut later, 1, attempt, Err(Errno::WAY_LOST));
    // Heard of meanwhile, or it would be taken for silent.
    later.handle_ping(at(59_900), NodeRank(2), Some(later.epoch()));
    assert_eq!(ask(&mut later, 60_100, "file").1, parent, "it may have it anew");
}

/// An error of the backing file system during a read says nothing about the node that passes it on.
#[test]
fn an_error_of_the_file_system_passes_nobody_over() {
    let mut node: Node = ReadPath::new(options(3, 7));
    let (attempt, source) = ask(&mut node, 0, "file");
    arrives(&mut node, 1, attempt, Err(Errno::EIO));
    assert_eq!(ask(&mut node, 2, "file").1, source);
}
