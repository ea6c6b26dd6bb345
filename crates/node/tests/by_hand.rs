//! One core driven by hand, question by question: what follows from an answer that is not what was hoped for.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use forebay_cache::CallId;
use forebay_node::{
    Answered, Effect, Entry, InodeId, KernelAnswer, KernelRequest, KernelTicket, Options, PeerTicket, ROOT_INODE,
    ReadPath, Source, StaleInode,
};
use forebay_overlay::Forest;
use forebay_types::{Attributes, Errno, Extent, Kind, NodeRank, Time, Urgency, ViewPath};
use forebay_wire::{Listing, ListingBuilder, ListingEntry, Request};

type Node = ReadPath<&'static str>;

fn node() -> Node {
    node_of(0, 1, false)
}

fn node_of(rank: u32, nodes: u32, anticipate: bool) -> Node {
    ReadPath::new(Options {
        rank: NodeRank(rank),
        forest: Forest::single(nodes, 2).unwrap(),
        budget_bytes: 64 << 20,
        deadline: Duration::from_secs(30),
        direct_above_bytes: None,
        anticipate,
        names_last: None,
        links: None,
    })
}

/// A directory with one file, whose `size_bytes` tell its versions apart.
fn listing(size_bytes: u64) -> Listing {
    let mut builder = ListingBuilder::new();
    let attributes = Some(Attributes { ino: 7, mode: 0o100_644, size_bytes, ..Attributes::default() });
    builder.push(ListingEntry { name: b"file", kind: Kind::File, ino: 7, attributes, target: &[] }).unwrap();
    builder.finish(&Attributes { ino: 2, mode: 0o040_755, ..Attributes::default() }).unwrap()
}

fn ask(node: &mut Node, request: KernelRequest<'_>) -> Option<KernelAnswer<&'static str>> {
    node.handle_kernel(Time(0), KernelTicket(1), request)
}

fn fetched(node: &mut Node) -> (CallId, Request) {
    match node.poll_effect() {
        Some(Effect::Fetch { call, request, .. }) => (call, request),
        other => panic!("{other:?}"),
    }
}

/// Looks the file up over a listing that has to be asked for.
fn look_up_anew(node: &mut Node, size_bytes: u64) -> InodeId {
    assert!(ask(node, KernelRequest::Lookup { parent: ROOT_INODE, name: b"file" }).is_none());
    let (call, request) = fetched(node);
    assert!(matches!(request, Request::Listing { .. }));
    node.handle_answer(Time(0), call, Answered::Listing(listing(size_bytes)));
    match node.poll_effect() {
        Some(Effect::AnswerKernel { answer: KernelAnswer::Entry(Entry { inode, .. }), .. }) => inode,
        other => panic!("{other:?}"),
    }
}

fn read_fails_as_stale(node: &mut Node, inode: InodeId) {
    let extent = Extent { offset_bytes: 0, len_bytes: 10 };
    assert!(ask(node, KernelRequest::Read { inode, extent }).is_none());
    let (call, _) = fetched(node);
    node.handle_answer(Time(0), call, Answered::Failed(Errno::ESTALE));
}

#[test]
fn the_listing_is_asked_for_again_and_the_kernel_told() {
    let mut node = node();
    let old = look_up_anew(&mut node, 10);
    read_fails_as_stale(&mut node, old);
    match node.poll_effect() {
        Some(Effect::Stale(stale)) => {
            assert_eq!(stale, [StaleInode { inode: old, entry: Some((ROOT_INODE, b"file".to_vec())) }]);
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        node.poll_effect(),
        Some(Effect::AnswerKernel { answer: KernelAnswer::Failed(Errno::ESTALE), .. })
    ));
    let new = look_up_anew(&mut node, 20);
    assert_ne!(old, new, "no open file yields bytes of two versions");
}

#[test]
fn a_listing_that_has_the_new_version_stays() {
    let mut node = node();
    let old = look_up_anew(&mut node, 10);
    read_fails_as_stale(&mut node, old);
    while node.poll_effect().is_some() {}
    let new = look_up_anew(&mut node, 20);
    read_fails_as_stale(&mut node, old);
    let answer = node.poll_effect();
    assert!(matches!(answer, Some(Effect::AnswerKernel { .. })), "nothing to tell the kernel: {answer:?}");
    match ask(&mut node, KernelRequest::Lookup { parent: ROOT_INODE, name: b"file" }) {
        Some(KernelAnswer::Entry(entry)) => assert_eq!(entry.inode, new),
        other => panic!("{other:?}"),
    }
}

/// A leaf that has read five of ten small files, looks up the sixth, and reads it.
fn leaf_that_asks_for_a_bundle() -> (Node, CallId) {
    let mut leaf = node_of(1, 2, true);
    let mut builder = ListingBuilder::new();
    let names: Vec<String> = (0..10).map(|number| format!("m{number}.pyc")).collect();
    for (ino, name) in (2..).zip(&names) {
        let attributes = Some(Attributes { ino, mode: 0o100_644, size_bytes: 100, ..Attributes::default() });
        let entry = ListingEntry { name: name.as_bytes(), kind: Kind::File, ino, attributes, target: &[] };
        builder.push(entry).unwrap();
    }
    let mut listing = Some(builder.finish(&Attributes::default()).unwrap());
    for name in &names[..6] {
        let request = KernelRequest::Lookup { parent: ROOT_INODE, name: name.as_bytes() };
        let mut answer = ask(&mut leaf, request);
        if answer.is_none() {
            let (call, _) = fetched(&mut leaf);
            leaf.handle_answer(Time(0), call, Answered::Listing(listing.take().unwrap()));
            answer = match leaf.poll_effect() {
                Some(Effect::AnswerKernel { answer, .. }) => Some(answer),
                other => panic!("{other:?}"),
            };
        }
        let Some(KernelAnswer::Entry(Entry { inode, .. })) = answer else { panic!("{answer:?}") };
        let extent = Extent { offset_bytes: 0, len_bytes: 100 };
        assert!(ask(&mut leaf, KernelRequest::Read { inode, extent }).is_none());
        let (call, request) = fetched(&mut leaf);
        match request {
            Request::Chunk { .. } => {
                assert!(leaf.handle_body_started(Time(0), call, "bytes", 100));
                leaf.handle_body_ended(call, Ok(()));
                while leaf.poll_effect().is_some() {}
            }
            Request::Bundle { files, .. } => {
                assert_eq!((name, files.len()), (&names[5], 10));
                return (leaf, call);
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("no bundle was asked for");
}

/// Whatever one file of a bundle failed with, a reader of another gets its bytes: also when the backing file system
/// itself said `ETIMEDOUT`.
#[test]
fn an_error_of_a_bundle_is_not_that_of_its_files() {
    for errno in [Errno::EIO, Errno::EACCES, Errno::ETIMEDOUT] {
        let (mut leaf, call) = leaf_that_asks_for_a_bundle();
        leaf.handle_answer(Time(0), call, Answered::Failed(errno));
        let (call, request) = fetched(&mut leaf);
        assert!(matches!(request, Request::Chunk { .. }), "{errno}: {request:?}");
        assert!(leaf.handle_body_started(Time(0), call, "bytes", 100));
        let answer = leaf.poll_effect();
        assert!(matches!(answer, Some(Effect::AnswerKernel { answer: KernelAnswer::Read(_), .. })), "{answer:?}");
    }
}

#[test]
fn a_bundle_that_takes_too_long_is_told_at_once() {
    let (mut leaf, _) = leaf_that_asks_for_a_bundle();
    leaf.handle_timeout(Time(0).after(Duration::from_secs(30)));
    assert!(matches!(leaf.poll_effect(), Some(Effect::Cancel { .. })));
    let answer = leaf.poll_effect();
    assert!(
        matches!(answer, Some(Effect::AnswerKernel { answer: KernelAnswer::Failed(Errno::ETIMEDOUT), .. })),
        "{answer:?}"
    );
    let asked = std::iter::from_fn(|| leaf.poll_effect()).any(|effect| matches!(effect, Effect::Fetch { .. }));
    assert!(!asked, "nothing is asked when the time is over");
}

/// While others answer in the place of a silent parent, no question waits long enough for it to be missed; it is noticed
/// all the same, by the first question that it did not answer.
#[test]
fn a_silent_parent_is_noticed_although_others_answer() {
    let at = |ms| Time(0).after(Duration::from_millis(ms));
    let mut leaf = node_of(3, 7, false);
    let sources = |node: &mut Node| -> Vec<(CallId, Source)> {
        let fetch = |effect| match effect {
            Effect::Fetch { call, source, .. } => Some((call, source)),
            _ => None,
        };
        std::iter::from_fn(|| node.poll_effect()).filter_map(fetch).collect()
    };
    assert!(ask(&mut leaf, KernelRequest::Lookup { parent: ROOT_INODE, name: b"file" }).is_none());
    assert_eq!(sources(&mut leaf).pop().unwrap().1, Source::Peer(NodeRank(2)));
    leaf.handle_timeout(at(300));
    let (call, source) = sources(&mut leaf).pop().unwrap();
    assert_eq!(source, Source::Peer(NodeRank(0)), "a slow question is asked of the next too");
    leaf.handle_answer(at(310), call, Answered::Listing(listing(10)));
    while leaf.poll_effect().is_some() {}
    leaf.handle_timeout(at(600));
    let pinged = std::iter::from_fn(|| leaf.poll_effect())
        .any(|effect| matches!(effect, Effect::Ping { peer: NodeRank(2), .. }));
    assert!(pinged, "nothing was heard of the parent for half a second");
}

/// When the network is cut, all that a node would ask one after the other are asked together whether they are there.
#[test]
fn two_silent_nodes_make_a_node_look_up_its_line() {
    let at = |ms| Time(0).after(Duration::from_millis(ms));
    let mut leaf = node_of(5, 7, false);
    let pinged = |node: &mut Node, ms| -> Vec<u32> {
        node.handle_timeout(at(ms));
        let ping = |effect| match effect {
            Effect::Ping { peer, .. } => Some(peer.0),
            _ => None,
        };
        std::iter::from_fn(|| node.poll_effect()).filter_map(ping).collect()
    };
    assert!(ask(&mut leaf, KernelRequest::Lookup { parent: ROOT_INODE, name: b"file" }).is_none());
    assert_eq!(pinged(&mut leaf, 300), [] as [u32; 0], "the root is asked too");
    assert_eq!(pinged(&mut leaf, 600), [4], "the parent");
    assert_eq!(pinged(&mut leaf, 900), [0, 2, 3, 6], "the root, and who may be root in its place");
}

#[test]
fn a_parent_that_is_late_is_bypassed_and_nobody_else_is_asked_for_that() {
    let mut node = node_of(22, 31, false);
    node.handle_absent(Time(0), NodeRank(18));
    assert_eq!(node.suspects(), [NodeRank(18)]);
    assert!(node.poll_effect().is_none());
    assert!(ask(&mut node, KernelRequest::Lookup { parent: ROOT_INODE, name: b"file" }).is_none());
    let asked = node.poll_effect();
    assert!(matches!(asked, Some(Effect::Fetch { source: Source::Peer(NodeRank(16)), .. })), "{asked:?}");
    node.handle_ping(Time(1), NodeRank(18), Some(0));
    assert!(node.suspects().is_empty());
}

/// The listing of the view's root, for prefill.
fn list_ahead(node: &mut Node) -> (CallId, Source, Urgency) {
    node.handle_own(Time(0), PeerTicket(1), Request::Listing { dir: ViewPath::root(), epoch: 0 });
    match node.poll_effect() {
        Some(Effect::Fetch { call, source, urgency, .. }) => (call, source, urgency),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_asked_ahead_is_promoted_once_when_a_program_wants_it() {
    let mut node = node();
    let (listed, source, urgency) = list_ahead(&mut node);
    assert_eq!((source, urgency), (Source::Backing, Urgency::Ahead));
    for _ in 0..2 {
        assert!(ask(&mut node, KernelRequest::Lookup { parent: ROOT_INODE, name: b"file" }).is_none());
    }
    let promoted = node.poll_effect();
    assert!(matches!(promoted, Some(Effect::Promote { call }) if call == listed), "{promoted:?}");
    assert!(node.poll_effect().is_none());
}

#[test]
fn what_another_node_was_asked_ahead_is_not_promoted() {
    let mut leaf = node_of(1, 2, false);
    assert_eq!(list_ahead(&mut leaf).1, Source::Peer(NodeRank(0)));
    assert!(ask(&mut leaf, KernelRequest::Lookup { parent: ROOT_INODE, name: b"file" }).is_none());
    assert!(leaf.poll_effect().is_none());
}

#[test]
fn what_programs_want_here_and_elsewhere_is_asked_as_such() {
    let mut node = node_of(0, 2, false);
    let urgency = |node: &mut Node| match node.poll_effect() {
        Some(Effect::Fetch { urgency, .. }) => urgency,
        other => panic!("{other:?}"),
    };
    assert!(ask(&mut node, KernelRequest::Lookup { parent: ROOT_INODE, name: b"file" }).is_none());
    assert_eq!(urgency(&mut node), Urgency::Demand);
    let elsewhere = Request::Listing { dir: ViewPath::new(b"elsewhere").unwrap(), epoch: 0 };
    node.handle_peer(Time(0), PeerTicket(2), elsewhere, Duration::from_secs(9));
    assert_eq!(urgency(&mut node), Urgency::Demand);
    node.handle_peer(Time(0), PeerTicket(3), Request::Parcel { index: 0, epoch: 0 }, Duration::from_secs(9));
    assert_eq!(urgency(&mut node), Urgency::Ahead);
}
