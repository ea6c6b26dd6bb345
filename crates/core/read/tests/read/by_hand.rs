//! One core driven by hand, question by question: what follows from an answer that is not what was hoped for.

use crate::node;

use std::time::Duration;

use forebay_read::AttemptId;
use forebay_read::{
    Answered, Effect, Entry, InodeId, KernelAnswer, KernelRequest, KernelTicket, Options, PeerAnswer, PeerTicket,
    ROOT_INODE, ReadPath, Source, StaleInode,
};
use forebay_types::{Attributes, Epoch, Errno, Extent, Kind, Name, NodeRank, Time, ViewPath};
use forebay_wire::{Listing, ListingBuilder, ListingEntry, ReadMessage, Request};

use node::options;

type Node = ReadPath<&'static str>;

fn node() -> Node {
    node_of(0, 1, false)
}

fn node_of(rank: u32, nodes: u32, prefetch: bool) -> Node {
    ReadPath::new(Options { prefetch, ..options(rank, nodes) })
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

fn fetched(node: &mut Node) -> (AttemptId, ReadMessage) {
    match node.poll_effect() {
        Some(Effect::Fetch { attempt, request, .. }) => (attempt, request.message),
        other => panic!("{other:?}"),
    }
}

/// Looks the file up over a listing that has to be asked for.
fn look_up_anew(node: &mut Node, size_bytes: u64) -> InodeId {
    assert!(ask(node, KernelRequest::Lookup { parent: ROOT_INODE, name: b"file" }).is_none());
    let (call, request) = fetched(node);
    assert!(matches!(request, ReadMessage::Listing { .. }));
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

/// A name that is another kind of thing now is another inode: the kernel makes one that changes its kind unusable (EIO).
#[test]
fn a_file_that_becomes_a_directory_is_stale() {
    let mut node = node();
    let old = look_up_anew(&mut node, 10);
    let _ = node.clear();
    assert!(ask(&mut node, KernelRequest::Attributes { inode: old }).is_none());
    let (call, _) = fetched(&mut node);
    let attributes = Some(Attributes { ino: 7, mode: 0o040_755, size_bytes: 10, ..Attributes::default() });
    let mut builder = ListingBuilder::new();
    builder.push(ListingEntry { name: b"file", kind: Kind::Directory, ino: 7, attributes, target: &[] }).unwrap();
    let listing = builder.finish(&Attributes { ino: 2, mode: 0o040_755, ..Attributes::default() }).unwrap();
    node.handle_answer(Time(0), call, Answered::Listing(listing));
    match node.poll_effect() {
        Some(Effect::AnswerKernel { answer, .. }) => {
            assert!(matches!(answer, KernelAnswer::Failed(Errno::ESTALE)), "{answer:?}")
        }
        other => panic!("{other:?}"),
    }
    match ask(&mut node, KernelRequest::Lookup { parent: ROOT_INODE, name: b"file" }) {
        Some(KernelAnswer::Entry(entry)) => assert_ne!(entry.inode, old),
        other => panic!("{other:?}"),
    }
}

/// A file that is gone, or whose directory is, is another version of it: its directory is listed again.
#[test]
fn a_deleted_file_is_stale_and_its_directory_is_listed_again() {
    for errno in [Errno::ENOENT, Errno::ENOTDIR, Errno::EISDIR] {
        let mut node = node();
        let inode = look_up_anew(&mut node, 10);
        assert!(
            ask(&mut node, KernelRequest::Read { inode, extent: Extent { offset_bytes: 0, len_bytes: 10 } }).is_none()
        );
        let (call, _) = fetched(&mut node);
        node.handle_answer(Time(0), call, Answered::Failed(errno));
        let told = node.poll_effect();
        assert!(matches!(told, Some(Effect::Stale(_))), "the kernel forgets it: {told:?}");
        let answer = node.poll_effect();
        let is_stale = matches!(answer, Some(Effect::AnswerKernel { answer: KernelAnswer::Failed(Errno::ESTALE), .. }));
        assert!(is_stale, "{errno}: {answer:?}");
        assert!(ask(&mut node, KernelRequest::Lookup { parent: ROOT_INODE, name: b"file" }).is_none());
        assert!(matches!(fetched(&mut node).1, ReadMessage::Listing { .. }));
    }
}

/// A leaf that has read five of ten small files, looks up the sixth, and reads it: the attempts at it and its neighbours.
fn leaf_that_asks_for_a_bundle() -> (Node, Vec<AttemptId>) {
    let (mut leaf, inode) = node_that_has_read_five(node_of(1, 2, true));
    assert!(read(&mut leaf, inode).is_none());
    let (attempts, files) = bundle_fetched(&mut leaf);
    assert_eq!((attempts.len(), &files[0]), (10, &"m5.pyc".to_owned()));
    (leaf, attempts)
}

fn bundle_fetched(node: &mut Node) -> (Vec<AttemptId>, Vec<String>) {
    match node.poll_effect() {
        Some(Effect::FetchBundle { attempts, request, .. }) => (attempts, names(&request.message)),
        other => panic!("{other:?}"),
    }
}

fn names(bundle: &ReadMessage) -> Vec<String> {
    let ReadMessage::Bundle { files, .. } = bundle else { panic!("{bundle:?}") };
    files.iter().map(|(name, _)| String::from_utf8(name.as_bytes().to_vec()).unwrap()).collect()
}

fn read(node: &mut Node, inode: InodeId) -> Option<KernelAnswer<&'static str>> {
    ask(node, KernelRequest::Read { inode, extent: Extent { offset_bytes: 0, len_bytes: 100 } })
}

/// A directory of ten small files.
fn ten_files() -> Listing {
    let mut builder = ListingBuilder::new();
    for number in 0..10 {
        let name = format!("m{number}.pyc");
        let attributes =
            Some(Attributes { ino: 2 + number, mode: 0o100_644, size_bytes: 100, ..Attributes::default() });
        let entry = ListingEntry { name: name.as_bytes(), kind: Kind::File, ino: 2 + number, attributes, target: &[] };
        builder.push(entry).unwrap();
    }
    builder.finish(&Attributes::default()).unwrap()
}

/// Looks one of the ten files up.
fn look_up_one(node: &mut Node, number: usize) -> InodeId {
    let name = format!("m{number}.pyc");
    let mut answer = ask(node, KernelRequest::Lookup { parent: ROOT_INODE, name: name.as_bytes() });
    if answer.is_none() {
        let (call, _) = fetched(node);
        node.handle_answer(Time(0), call, Answered::Listing(ten_files()));
        answer = match node.poll_effect() {
            Some(Effect::AnswerKernel { answer, .. }) => Some(answer),
            other => panic!("{other:?}"),
        };
    }
    match answer {
        Some(KernelAnswer::Entry(Entry { inode, .. })) => inode,
        other => panic!("{other:?}"),
    }
}

/// A node that has read five of ten small files and looked up the sixth.
fn node_that_has_read_five(mut node: Node) -> (Node, InodeId) {
    for number in 0..5 {
        let inode = look_up_one(&mut node, number);
        assert!(read(&mut node, inode).is_none());
        let (call, request) = fetched(&mut node);
        assert!(matches!(request, ReadMessage::Chunk { .. }), "{request:?}");
        assert!(node.handle_body_started(Time(0), call, "bytes", 100));
        node.handle_body_ended(Time(0), call, Ok(()));
        while node.poll_effect().is_some() {}
    }
    let inode = look_up_one(&mut node, 5);
    (node, inode)
}

/// `--prefetch false`: neither bundles nor anything that nobody has asked for.
#[test]
fn without_prefetching_nothing_is_asked_for_but_what_is_wanted() {
    for (rank, nodes) in [(0, 1), (1, 2)] {
        let (mut node, inode) = node_that_has_read_five(node_of(rank, nodes, false));
        assert!(read(&mut node, inode).is_none());
        let (_, request) = fetched(&mut node);
        assert!(matches!(request, ReadMessage::Chunk { .. }), "{request:?}");
        assert!(node.poll_effect().is_none());
        assert_eq!(
            (
                node.counters().prefetch_issued,
                node.counters().dispatch.asked_backing + node.counters().dispatch.asked_peers
            ),
            (0, 7)
        );
    }
}

/// The ten files, or some of them, as a peer asks for them.
fn bundle(numbers: &[usize]) -> ReadMessage {
    let listing = ten_files();
    let file = |number: &usize| {
        let entry = listing.entry(*number);
        (Name::new(entry.name).unwrap(), entry.attributes.unwrap().generation())
    };
    ReadMessage::Bundle { dir: ViewPath::root(), files: numbers.iter().map(file).collect() }
}

fn peer_asks(node: &mut Node, ticket: u64, numbers: &[usize]) {
    node.handle_peer(Time(0), NodeRank(1), PeerTicket(ticket), Request::new(bundle(numbers)), Duration::from_secs(9));
}

/// Files of a peer's bundle that are here are not requested; requests under way are joined, whichever bundle they belong to.
#[test]
fn a_bundle_s_files_are_joined_one_by_one() {
    let mut node = node_of(2, 7, true);
    peer_asks(&mut node, 1, &[0, 1, 2]);
    let (first, files) = bundle_fetched(&mut node);
    assert_eq!(files, ["m0.pyc", "m1.pyc", "m2.pyc"]);
    peer_asks(&mut node, 2, &[1, 2, 3, 4]);
    let (second, files) = bundle_fetched(&mut node);
    assert_eq!(files, ["m3.pyc", "m4.pyc"]);
    for attempt in second.into_iter().chain(first) {
        assert!(node.handle_body_started(Time(0), attempt, "bytes", 100));
        node.handle_body_ended(Time(0), attempt, Ok(()));
    }
    for (ticket, count) in [(1, 3), (2, 4)] {
        match node.poll_effect() {
            Some(Effect::AnswerPeer { ticket: PeerTicket(told), answer: PeerAnswer::Bundle(files) }) => {
                assert_eq!((told, files), (ticket, vec![Ok("bytes"); count]));
            }
            other => panic!("{other:?}"),
        }
    }
    peer_asks(&mut node, 3, &[0, 4]);
    let answer = node.poll_effect();
    assert!(matches!(answer, Some(Effect::AnswerPeer { answer: PeerAnswer::Bundle(_), .. })), "{answer:?}");
}

/// A node is lost: all that was asked of it in one message is asked of the next in one.
#[test]
fn a_bundle_fails_over_as_one() {
    let mut node = node_of(3, 7, true);
    peer_asks(&mut node, 1, &[0, 1, 2]);
    let (attempts, _) = bundle_fetched(&mut node);
    node.handle_answer(Time(0), attempts[0], Answered::Lost);
    let asked: Vec<Effect<&str>> = std::iter::from_fn(|| node.poll_effect()).collect();
    let bundles = asked.iter().filter_map(|effect| match effect {
        Effect::FetchBundle { peer, request, .. } => Some((peer.0, names(&request.message).len())),
        Effect::Fetch { .. } => panic!("{effect:?}"),
        _ => None,
    });
    assert_eq!(bundles.collect::<Vec<_>>(), [(0, 3)]);
}

/// A child may have little time left. A program that joins its request has all of its own.
#[test]
fn joined_questions_have_deadlines_of_their_own() {
    let at = |ms| Time(0).after(Duration::from_millis(ms));
    for shell_is_first in [true, false] {
        let mut node = node_of(2, 7, false);
        let request = ReadMessage::Listing { dir: ViewPath::root() };
        node.handle_peer(at(0), NodeRank(1), PeerTicket(1), Request::new(request), Duration::from_millis(100));
        let (call, _) = fetched(&mut node);
        let lookup = KernelRequest::Lookup { parent: ROOT_INODE, name: b"file" };
        assert!(node.handle_kernel(at(50), KernelTicket(1), lookup).is_none());
        match shell_is_first {
            true => node.handle_answer(at(100), call, Answered::TimedOut),
            false => node.run_timers(at(100)),
        }
        let told = node.poll_effect();
        let is_told = matches!(told, Some(Effect::AnswerPeer { answer: PeerAnswer::Failed(Errno::ETIMEDOUT), .. }));
        assert!(is_told, "the child's time is over: {told:?}");
        let asked = std::iter::from_fn(|| node.poll_effect()).find_map(|effect| match effect {
            Effect::Fetch { attempt: call, deadline, .. } => Some((call, deadline)),
            Effect::Cancel { .. } => None,
            other => panic!("{other:?}"),
        });
        let (call, deadline) = asked.expect("it is asked for the one who has time");
        assert_eq!(deadline, at(30_050));
        node.handle_answer(at(200), call, Answered::Listing(listing(10)));
        let answer = node.poll_effect();
        assert!(matches!(answer, Some(Effect::AnswerKernel { answer: KernelAnswer::Entry(_), .. })), "{answer:?}");
    }
}

/// A node that has missed a refresh makes up for it and asks again, once.
#[test]
fn a_question_that_is_fenced_is_asked_again_once() {
    let mut leaf = node_of(3, 7, false);
    assert!(ask(&mut leaf, KernelRequest::Lookup { parent: ROOT_INODE, name: b"file" }).is_none());
    let (call, _) = fetched(&mut leaf);
    leaf.handle_answer(Time(0), call, Answered::Fenced(Epoch(3)));
    let asked: Vec<Request<ReadMessage>> = std::iter::from_fn(|| leaf.poll_effect())
        .filter_map(|effect| match effect {
            Effect::Fetch { request, .. } => Some(request),
            _ => None,
        })
        .collect();
    assert_eq!(asked, [Request::new(ReadMessage::Listing { dir: ViewPath::root() }).in_epoch(Epoch(3))]);
}

/// A sparse file may have more chunks than could be counted one by one.
#[test]
fn the_largest_file_is_explained() {
    let mut root = node_of(0, 1, false);
    let inode = look_up_anew(&mut root, u64::MAX);
    assert!(read(&mut root, inode).is_none());
    let (call, _) = fetched(&mut root);
    assert!(root.handle_body_started(Time(0), call, "bytes", 1 << 20));
    let explained = |root: &Node| root.explain(&ViewPath::new(b"file").unwrap()).kept[1].clone();
    assert_eq!(explained(&root), "1 of 17592186044416 chunks");
    root.handle_body_ended(Time(0), call, Ok(()));
    assert_eq!(explained(&root), "1 of 17592186044416 chunks");
}

/// A complete listing tells of names that it does not have.
#[test]
fn an_absent_name_is_explained() {
    let mut root = node_of(0, 1, false);
    look_up_anew(&mut root, 1);
    let explained = |name: &[u8]| root.explain(&ViewPath::new(name).unwrap());
    let (absent, file) = (explained(b"none"), explained(b"file"));
    assert!(absent.answers && absent.is_absent && absent.why.ends_with("it is absent"), "{absent:?}");
    assert!(!file.is_absent, "{file:?}");
}

/// A prefetch has the time that any request has, however little was left to the one before it.
#[test]
fn early_questions_have_time() {
    let at = |ms| Time(0).after(Duration::from_millis(ms));
    let mut root = node_of(0, 1, true);
    let asked = |node: &mut Node| -> Vec<(AttemptId, Time)> {
        let fetch = |effect| match effect {
            Effect::Fetch { attempt: call, deadline, .. } => Some((call, deadline)),
            _ => None,
        };
        std::iter::from_fn(|| node.poll_effect()).filter_map(fetch).collect()
    };
    let mut calls = Vec::new();
    for number in [0, 4, 8] {
        let inode = look_up_one(&mut root, number);
        assert!(read(&mut root, inode).is_none());
        calls.push(asked(&mut root));
    }
    assert_eq!(calls.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 1], "four siblings, and two that wait");
    root.handle_answer(at(29_000), calls[0][1].0, Answered::Failed(Errno::EIO));
    let next: Vec<Time> = asked(&mut root).into_iter().map(|(_, deadline)| deadline).collect();
    assert_eq!(next, [at(59_000)]);
}

/// Whatever one file of a bundle failed with, a reader of another gets its bytes, and a peer all that there are.
#[test]
fn an_error_of_a_file_is_not_that_of_its_bundle() {
    for errno in [Errno::EIO, Errno::EACCES, Errno::ETIMEDOUT] {
        let (mut leaf, attempts) = leaf_that_asks_for_a_bundle();
        leaf.handle_answer(Time(0), attempts[1], Answered::Failed(errno));
        assert!(leaf.poll_effect().is_none());
        assert!(leaf.handle_body_started(Time(0), attempts[0], "bytes", 100));
        let answer = leaf.poll_effect();
        assert!(matches!(answer, Some(Effect::AnswerKernel { answer: KernelAnswer::Read(_), .. })), "{answer:?}");

        let mut node = node_of(2, 7, true);
        peer_asks(&mut node, 1, &[0, 1]);
        let (attempts, _) = bundle_fetched(&mut node);
        node.handle_answer(Time(0), attempts[0], Answered::Failed(errno));
        assert!(node.handle_body_started(Time(0), attempts[1], "bytes", 100));
        match node.poll_effect() {
            Some(Effect::AnswerPeer { answer: PeerAnswer::Bundle(files), .. }) => {
                assert_eq!(files, [Err(errno), Ok("bytes")]);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_bundle_that_takes_too_long_is_told_at_once() {
    let (mut leaf, _) = leaf_that_asks_for_a_bundle();
    leaf.run_timers(Time(0).after(Duration::from_secs(30)));
    let effects: Vec<Effect<&str>> = std::iter::from_fn(|| leaf.poll_effect()).collect();
    let is_told = |effect: &Effect<&str>| {
        matches!(effect, Effect::AnswerKernel { answer: KernelAnswer::Failed(Errno::ETIMEDOUT), .. })
    };
    assert!(effects.iter().any(is_told), "{effects:?}");
    let is_asked = |effect: &Effect<&str>| matches!(effect, Effect::Fetch { .. } | Effect::FetchBundle { .. });
    assert!(!effects.iter().any(is_asked), "nothing is asked when the time is over: {effects:?}");
    assert_eq!(leaf.under_way(), 0);
}

/// While others answer in the place of a silent parent, no question waits long enough for it to be missed; it is noticed
/// all the same, by the first question that it did not answer.
#[test]
fn a_silent_parent_is_noticed_although_others_answer() {
    let at = |ms| Time(0).after(Duration::from_millis(ms));
    let mut leaf = node_of(3, 7, false);
    let sources = |node: &mut Node| -> Vec<(AttemptId, Source)> {
        let fetch = |effect| match effect {
            Effect::Fetch { attempt: call, source, .. } => Some((call, source)),
            _ => None,
        };
        std::iter::from_fn(|| node.poll_effect()).filter_map(fetch).collect()
    };
    assert!(ask(&mut leaf, KernelRequest::Lookup { parent: ROOT_INODE, name: b"file" }).is_none());
    assert_eq!(sources(&mut leaf).pop().unwrap().1, Source::Peer(NodeRank(2)));
    leaf.run_timers(at(300));
    let (call, source) = sources(&mut leaf).pop().unwrap();
    assert_eq!(source, Source::Peer(NodeRank(0)), "a slow question is asked of the next too");
    leaf.handle_answer(at(310), call, Answered::Listing(listing(10)));
    while leaf.poll_effect().is_some() {}
    leaf.run_timers(at(600));
    let pinged = std::iter::from_fn(|| leaf.poll_effect())
        .any(|effect| matches!(effect, Effect::Ping { peer: NodeRank(2), .. }));
    assert!(pinged, "nothing was heard of the parent for half a second");
}

/// The node's own clock says `ETIMEDOUT` too: that is no word of the parent's, who is still asked whether it is there.
#[test]
fn a_local_time_out_is_no_sign_of_life() {
    let at = |ms| Time(0).after(Duration::from_millis(ms));
    let mut leaf = node_of(3, 7, false);
    assert!(ask(&mut leaf, KernelRequest::Lookup { parent: ROOT_INODE, name: b"file" }).is_none());
    let (call, _) = fetched(&mut leaf);
    leaf.handle_answer(at(30_000), call, Answered::TimedOut);
    while leaf.poll_effect().is_some() {}
    leaf.run_timers(at(30_100));
    let pinged = std::iter::from_fn(|| leaf.poll_effect())
        .any(|effect| matches!(effect, Effect::Ping { peer: NodeRank(2), .. }));
    assert!(pinged, "nothing was heard of the parent for half a minute");
}

/// When the network is cut, all that a node would ask one after the other are asked together whether they are there.
#[test]
fn two_silent_nodes_make_a_node_look_up_its_line() {
    let at = |ms| Time(0).after(Duration::from_millis(ms));
    let mut leaf = node_of(5, 7, false);
    let pinged = |node: &mut Node, ms| -> Vec<u32> {
        node.run_timers(at(ms));
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
    node.handle_ping(Time(1), NodeRank(18), Some(Epoch::START));
    assert!(node.suspects().is_empty());
}
