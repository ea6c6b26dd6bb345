//! The priority of a request, as it travels: cores driven by hand, from one that asks to the one that reads.

use crate::node;

use std::time::Duration;

use forebay_overlay::Forest;
use forebay_read::AttemptId;
use forebay_read::{Effect, KernelRequest, KernelTicket, Options, PeerTicket, ROOT_INODE, ReadPath, Source};
use forebay_types::{ChunkIndex, Epoch, Generation, Name, NodeRank, Priority, Time, ViewPath};
use forebay_wire::{ReadMessage, Request};

use node::options;

type Node = ReadPath<&'static str>;

fn node_of(rank: u32) -> Node {
    node_in(Forest::single(7, 2).unwrap(), rank)
}

fn node_in(forest: Forest, rank: u32) -> Node {
    ReadPath::new(Options { forest, prefetch: true, ..options(rank, 1) })
}

/// Node 3, node 2, which it asks, and node 0, which reads.
fn way_up() -> [Node; 3] {
    [3, 2, 0].map(node_of)
}

fn listing_of(dir: &str) -> ReadMessage {
    ReadMessage::Listing { dir: ViewPath::new(dir.as_bytes()).unwrap() }
}

/// A program looks for something in the view's root.
fn look_up(node: &mut Node) {
    let request = KernelRequest::Lookup { parent: ROOT_INODE, name: b"file" };
    assert!(node.handle_kernel(Time(0), KernelTicket(1), request).is_none());
}

fn is_asked(node: &mut Node, ticket: u64, message: ReadMessage, priority: Priority) {
    node.handle_peer(
        Time(0),
        NodeRank(1),
        PeerTicket(ticket),
        Request::new(message).at(priority),
        Duration::from_secs(9),
    );
}

fn fetched(node: &mut Node) -> (AttemptId, Source, ReadMessage, Priority) {
    match node.poll_effect() {
        Some(Effect::Fetch { attempt, source, request, .. }) => (attempt, source, request.message, request.priority),
        other => panic!("{other:?}"),
    }
}

fn promoted(node: &mut Node) -> Option<(AttemptId, Source)> {
    match node.poll_effect() {
        Some(Effect::Promote { attempt: call, source }) => Some((call, source)),
        None => None,
        other => panic!("{other:?}"),
    }
}

/// Carries a question from its asker to the reader; how urgent it is there, and its number at each node.
fn carry_up(nodes: &mut [Node; 3]) -> (Priority, Vec<AttemptId>) {
    let (mut calls, mut last) = (Vec::new(), Priority::Demand);
    for at in 0..nodes.len() {
        let (call, source, request, priority) = fetched(&mut nodes[at]);
        calls.push(call);
        last = priority;
        match nodes.get_mut(at + 1) {
            Some(next) => is_asked(next, 7, request, priority),
            None => assert_eq!(source, Source::Backing),
        }
    }
    (last, calls)
}

#[test]
fn a_question_is_at_the_reader_what_it_was_where_it_began() {
    let mut nodes = way_up();
    nodes[0].handle_own(Time(0), PeerTicket(1), listing_of(""));
    assert_eq!(carry_up(&mut nodes).0, Priority::Prefetch);
    let mut nodes = way_up();
    look_up(&mut nodes[0]);
    assert_eq!(carry_up(&mut nodes).0, Priority::Demand);
}

#[test]
fn a_prefetch_is_promoted_on_its_way_once() {
    let mut nodes = way_up();
    nodes[0].handle_own(Time(0), PeerTicket(1), listing_of(""));
    let (_, calls) = carry_up(&mut nodes);
    for again in [false, true] {
        look_up(&mut nodes[0]);
        for (at, source) in
            [Source::Peer(NodeRank(2)), Source::Peer(NodeRank(0)), Source::Backing].into_iter().enumerate()
        {
            assert_eq!(nodes[0].priority_of(calls[0]), Some(Priority::Demand));
            assert_eq!(promoted(&mut nodes[at]), (!again).then_some((calls[at], source)));
            if let Some(next) = nodes.get_mut(at + 1) {
                next.handle_peer_promote(Time(0), PeerTicket(7));
            }
        }
    }
}

/// Two nodes ask one another ahead, a program of a third joins them: one question, which is a program's from then on.
#[test]
fn of_those_who_join_the_most_urgent_counts() {
    let mut parent = node_of(2);
    is_asked(&mut parent, 1, listing_of("a"), Priority::Prefetch);
    let (call, source, ..) = fetched(&mut parent);
    is_asked(&mut parent, 2, listing_of("a"), Priority::Prefetch);
    assert_eq!(promoted(&mut parent), None);
    is_asked(&mut parent, 3, listing_of("a"), Priority::Demand);
    assert_eq!(promoted(&mut parent), Some((call, source)));
    is_asked(&mut parent, 4, listing_of("a"), Priority::Prefetch);
    parent.handle_peer_promote(Time(0), PeerTicket(4));
    assert_eq!(promoted(&mut parent), None);
}

/// The promoted request has been answered, or has gone: no message follows.
#[test]
fn a_promotion_that_comes_too_late_is_nothing() {
    let mut parent = node_of(2);
    is_asked(&mut parent, 1, listing_of("a"), Priority::Prefetch);
    is_asked(&mut parent, 2, listing_of("a"), Priority::Prefetch);
    fetched(&mut parent);
    parent.handle_peer_cancel(PeerTicket(1));
    for gone in [1, 99] {
        parent.handle_peer_promote(Time(0), PeerTicket(gone));
        assert_eq!(promoted(&mut parent), None);
    }
}

/// Whom a node asks for what.
fn asked(node: &mut Node) -> Vec<(Source, ReadMessage)> {
    let fetches = std::iter::from_fn(|| node.poll_effect()).filter_map(|effect| match effect {
        Effect::Fetch { source, request, .. } => Some((source, request.message)),
        _ => None,
    });
    fetches.collect()
}

/// A prefetch may be slow. Once a program waits for it, a second node is asked immediately, and in the end the backing file
/// system itself.
#[test]
fn only_what_is_waited_for_is_asked_of_others_when_it_is_slow() {
    let at = |ms| Time(0).after(Duration::from_millis(ms));
    let mut leaf = node_of(3);
    leaf.handle_own(Time(0), PeerTicket(1), listing_of(""));
    fetched(&mut leaf);
    for ms in [300, 21_000] {
        leaf.run_timers(at(ms));
        assert_eq!(asked(&mut leaf), []);
        [0, 2].into_iter().for_each(|rank| leaf.handle_ping(at(ms), NodeRank(rank), Some(Epoch::START)));
    }
    look_up(&mut leaf);
    leaf.run_timers(at(21_300));
    assert_eq!(
        asked(&mut leaf).into_iter().map(|(source, _)| source).collect::<Vec<_>>(),
        [Source::Peer(NodeRank(0)), Source::Backing]
    );
}

/// A node that has nobody to ask reads for itself, but only so much at a time.
#[test]
fn a_program_has_leave_to_read_before_what_is_asked_ahead() {
    let forest = Forest::single(31, 2).unwrap();
    let mut leaf = node_in(forest.clone(), 22);
    forest.first().failover_order(NodeRank(22)).for_each(|rank| leaf.handle_absent(Time(0), rank));
    for number in 0..200 {
        leaf.handle_own(Time(0), PeerTicket(number), listing_of(&format!("d{number}")));
    }
    let begun = asked(&mut leaf).len();
    assert!(begun < 200);
    look_up(&mut leaf);
    leaf.run_timers(Time(0).after(Duration::from_secs(1)));
    assert_eq!(asked(&mut leaf)[0], (Source::Backing, listing_of("")));
}

/// A question that lost its way is asked elsewhere as what it is by then.
#[test]
fn promoted_requests_stay_promoted_wherever_they_are_sent_again() {
    let mut leaf = node_of(3);
    leaf.handle_own(Time(0), PeerTicket(1), listing_of(""));
    let (call, ..) = fetched(&mut leaf);
    look_up(&mut leaf);
    assert!(promoted(&mut leaf).is_some());
    leaf.handle_answer(Time(0), call, forebay_read::Answered::Lost);
    let asked = std::iter::from_fn(|| leaf.poll_effect()).find_map(|effect| match effect {
        Effect::Fetch { source, request, .. } => Some((source, request.priority)),
        _ => None,
    });
    assert_eq!(asked, Some((Source::Peer(NodeRank(0)), Priority::Demand)));
}

fn bundle() -> ReadMessage {
    let generation = Generation { size_bytes: 10, ..Generation::default() };
    let file = |name: &[u8]| (Name::new(name).unwrap(), generation);
    let files = vec![file(b"a"), file(b"b")];
    ReadMessage::Bundle { dir: ViewPath::root(), files }
}

/// At the reader, all files of a bundle have its priority.
#[test]
fn the_files_of_a_bundle_are_promoted_with_it() {
    let mut root = node_of(0);
    is_asked(&mut root, 1, bundle(), Priority::Prefetch);
    let files: Vec<_> = (0..2).map(|_| fetched(&mut root)).collect();
    assert!(files.iter().all(|(_, source, _, priority)| (*source, *priority) == (Source::Backing, Priority::Prefetch)));
    assert!(files.iter().all(|(_, _, request, _)| matches!(request, ReadMessage::Chunk { index: ChunkIndex(0), .. })));
    root.handle_peer_promote(Time(0), PeerTicket(1));
    for (call, source, ..) in files {
        assert_eq!(promoted(&mut root), Some((call, source)));
    }
}
