//! One core driven by hand through refreshes and rechecks: what is asked when, and with which epoch.

use crate::node;

use std::time::Duration;

use forebay_read::{
    Answered, AttemptId, Effect, Entry, InodeId, KernelAnswer, KernelRequest, KernelTicket, PeerTicket, ROOT_INODE,
    ReadPath,
};
use forebay_types::{Attributes, Epoch, Errno, Extent, Kind, NodeRank, Time, ViewPath};
use forebay_wire::{Listing, ListingBuilder, ListingEntry, ReadMessage, Request};

use node::options;

type Node = ReadPath<&'static str>;

fn node_of(rank: u32, nodes: u32) -> Node {
    ReadPath::new(options(rank, nodes))
}

fn at(ms: u64) -> Time {
    Time(0).after(Duration::from_millis(ms))
}

fn path(text: &str) -> ViewPath {
    ViewPath::new(text.as_bytes()).unwrap()
}

fn peer_lists(node: &mut Node, ms: u64, ticket: u64, dir: &str, epoch: u64, has: Duration) {
    let request = Request::new(ReadMessage::Listing { dir: path(dir) }).in_epoch(Epoch(epoch));
    node.handle_peer(at(ms), NodeRank(1), PeerTicket(ticket), request, has);
}

/// The requests of now, with the epoch that they carry.
fn asked(node: &mut Node) -> Vec<(AttemptId, Request<ReadMessage>)> {
    let fetch = |effect| match effect {
        Effect::Fetch { attempt, request, .. } => Some((attempt, request)),
        _ => None,
    };
    std::iter::from_fn(|| node.poll_effect()).filter_map(fetch).collect()
}

const TIME: Duration = Duration::from_secs(9);

/// With more than one root, a node is asked by one that holds already before it is told to hold itself.
#[test]
fn meeting_an_epoch_after_its_first_step_is_its_second() {
    let mut node = node_of(1, 3);
    node.handle_quiet(at(0), Epoch(5), vec![path("a")]);
    peer_lists(&mut node, 1, 1, "b", 5, TIME);
    assert_eq!(asked(&mut node)[0].1.epoch, Epoch(5), "what is elsewhere is answered");
    assert_eq!(node.counters().refreshes_missed, 0);
    peer_lists(&mut node, 2, 2, "a", 5, TIME);
    assert!(asked(&mut node).is_empty(), "what is refreshed waits");
    assert!(node.handle_hold(at(3), Epoch(5), vec![path("a")]), "it has taken the step");
    assert!(node.handle_release(at(4), Epoch(5)));
    assert_eq!(asked(&mut node).len(), 1);
}

/// One that was not told the first step has missed it; it still takes part in what follows.
#[test]
fn a_node_that_made_up_for_a_refresh_takes_its_steps() {
    let mut node = node_of(1, 3);
    assert_eq!(node.handle_epoch(at(0), Epoch(5)), Epoch(5));
    assert_eq!(node.counters().refreshes_missed, 1);
    assert!(node.handle_hold(at(1), Epoch(5), vec![path("a")]) && node.handle_release(at(2), Epoch(5)));
    assert!(!node.handle_hold(at(3), Epoch(5), vec![path("a")]), "it is over");
}

/// A kernel that was not told to forget still believes what was before: a node that did not take the first step, or failed to,
/// cannot take the second.
#[test]
fn a_hold_without_its_first_step_is_a_refresh_that_was_missed() {
    for has_failed in [false, true] {
        let mut node = node_of(1, 3);
        if has_failed {
            node.handle_quiet(at(0), Epoch(5), vec![path("a")]);
            node.handle_quiet_failed(Epoch(5));
        }
        assert!(!node.handle_hold(at(1), Epoch(5), vec![path("a")]));
        assert_eq!((node.epoch(), node.counters().refreshes_missed, node.is_refreshing(at(0))), (Epoch(5), 1, false));
        assert!(std::iter::from_fn(|| node.poll_effect()).any(|effect| matches!(effect, Effect::Stale(_))));
    }
}

/// The leader is lost when this node holds: it waits for ten seconds and goes on automatically.
#[test]
fn a_hold_that_nobody_ends_ends_after_ten_seconds() {
    let mut node = node_of(1, 3);
    node.handle_quiet(at(0), Epoch(5), vec![path("a")]);
    assert!(node.handle_hold(at(500), Epoch(5), vec![path("a")]));
    peer_lists(&mut node, 600, 1, "a", 5, Duration::from_secs(30));
    node.run_timers(at(10_499));
    assert!(asked(&mut node).is_empty() && node.poll_timeout() == Some(at(10_500)));
    node.run_timers(at(10_500));
    assert_eq!(asked(&mut node).len(), 1);
    assert!(!node.is_refreshing(at(10_500)) && node.epoch() == Epoch(5));
}

/// A step of an older refresh that comes late is refused, and changes nothing.
#[test]
fn a_hold_never_goes_back() {
    let mut node = node_of(1, 3);
    node.handle_quiet(at(0), Epoch(5), vec![path("a")]);
    assert!(node.handle_hold(at(0), Epoch(5), vec![path("a")]));
    assert!(!node.handle_hold(at(2), Epoch(4), vec![path("c")]));
    peer_lists(&mut node, 3, 2, "d", 4, TIME);
    assert_eq!(asked(&mut node)[0].1.epoch, Epoch(5));
    assert!(node.handle_release(at(4), Epoch(5)));
}

/// Two nodes lead at once. The second step of the later refresh is that of the earlier one too, whose first was taken; each ends
/// what it began.
#[test]
fn refreshes_of_two_leaders_end_each_by_itself() {
    let mut node = node_of(1, 3);
    assert!(node.handle_quiet(at(0), Epoch(5), vec![path("a")]) && node.handle_quiet(at(0), Epoch(6), vec![path("b")]));
    assert!(node.handle_hold(at(1), Epoch(6), vec![path("b")]));
    peer_lists(&mut node, 2, 1, "a", 6, TIME);
    peer_lists(&mut node, 2, 2, "b", 6, TIME);
    assert!(asked(&mut node).is_empty(), "both wait");
    assert!(node.handle_hold(at(3), Epoch(5), vec![path("a")]), "it has taken that step");
    assert!(node.handle_release(at(4), Epoch(6)) && node.is_refreshing(at(4)));
    assert_eq!(asked(&mut node).len(), 1, "b alone goes on");
    assert!(node.handle_release(at(5), Epoch(5)) && !node.is_refreshing(at(5)));
    assert_eq!(asked(&mut node).len(), 1);
    assert_eq!((node.met_epoch(), node.counters().refreshes_missed), (Epoch(6), 0));
}

/// A first step that comes after a later refresh's second is too late: the leader is told, and leads it anew.
#[test]
fn a_refresh_that_is_overtaken_is_led_anew() {
    let mut node = node_of(1, 3);
    node.handle_quiet(at(0), Epoch(6), vec![path("b")]);
    assert!(node.handle_hold(at(1), Epoch(6), vec![path("b")]));
    assert!(
        !node.handle_quiet(at(2), Epoch(5), vec![path("a")]) && !node.handle_hold(at(3), Epoch(5), vec![path("a")])
    );
    assert_eq!(node.met_epoch(), Epoch(6));
    assert!(node.handle_quiet(at(4), Epoch(7), vec![path("a")]) && node.handle_release(at(5), Epoch(6)));
    assert!(node.is_refreshing(at(5)), "the kernel still must not remember");
    assert!(node.handle_hold(at(6), Epoch(7), vec![path("a")]) && node.handle_release(at(7), Epoch(7)));
}

/// A refresh that is led anew takes the place of what it held before, or that would wait for its time-out.
#[test]
fn a_hold_that_is_led_anew_is_one_hold() {
    let mut node = node_of(1, 3);
    node.handle_quiet(at(0), Epoch(5), vec![path("a")]);
    assert!(node.handle_hold(at(1), Epoch(5), vec![path("a")]));
    peer_lists(&mut node, 2, 1, "a", 5, TIME);
    node.handle_quiet(at(3), Epoch(7), vec![path("a")]);
    assert!(node.handle_hold(at(4), Epoch(7), vec![path("a")]) && asked(&mut node).is_empty());
    assert!(node.handle_release(at(5), Epoch(7)));
    assert_eq!(asked(&mut node).len(), 1);
}

/// A number that no leader gave is not believed from any node: the next real one would be passed over.
#[test]
fn a_number_that_cannot_be_a_refreshs_changes_nothing() {
    const TODAY: u64 = 1_790_000_000_000;
    let mut node = node_of(1, 3);
    assert_eq!(node.handle_epoch(at(0), Epoch(u64::MAX)), Epoch::START);
    node.handle_quiet(at(1), Epoch(u64::MAX), vec![path("a")]);
    assert!(!node.handle_hold(at(1), Epoch(u64::MAX), vec![path("a")]));
    peer_lists(&mut node, 2, 1, "b", u64::MAX, TIME);
    let (attempt, request) = asked(&mut node).remove(0);
    assert_eq!(request.epoch, Epoch::START);
    node.handle_answer(at(3), attempt, Answered::Fenced(Epoch(u64::MAX)));
    let again = asked(&mut node);
    assert!(again.iter().all(|(_, request)| request.epoch == Epoch::START), "{again:?}");
    assert_eq!(node.handle_epoch(at(4), Epoch(TODAY)), Epoch(TODAY), "a node that has met none meets today's");
    assert_eq!(node.handle_epoch(at(5), Epoch(u64::MAX)), Epoch(TODAY));
}

#[test]
fn held_requests_are_sent_once_after_a_missed_refresh() {
    let mut node = node_of(1, 3);
    node.handle_quiet(at(0), Epoch(5), vec![path("a")]);
    assert!(node.handle_hold(at(0), Epoch(5), vec![path("a")]));
    peer_lists(&mut node, 1, 1, "a", 5, TIME);
    assert!(asked(&mut node).is_empty());
    node.handle_epoch(at(2), Epoch(6));
    assert_eq!(asked(&mut node).len(), 1);
}

/// A peer gives up at the deadline that it was told; a later waiter has more time.
#[test]
fn a_peers_time_out_is_that_of_whoever_asked_first() {
    let mut node = node_of(1, 3);
    peer_lists(&mut node, 0, 1, "a", 0, Duration::from_secs(1));
    let (attempt, _) = asked(&mut node)[0].clone();
    peer_lists(&mut node, 900, 2, "a", 0, TIME);
    node.handle_answer(at(999), attempt, Answered::Failed(Errno::ETIMEDOUT));
    let told = |effect| match effect {
        Effect::AnswerPeer { ticket, .. } => Some(ticket.0),
        _ => None,
    };
    assert_eq!(std::iter::from_fn(|| node.poll_effect()).filter_map(told).collect::<Vec<_>>(), [1]);
}

/// A broken peer that refuses for an epoch that this node has come to is not asked repeatedly.
#[test]
fn a_refusal_that_makes_no_sense_goes_elsewhere() {
    let mut node = node_of(3, 7);
    peer_lists(&mut node, 0, 1, "a", 0, TIME);
    let (attempt, _) = asked(&mut node)[0].clone();
    node.handle_answer(at(1), attempt, Answered::Fenced(Epoch::START));
    let sources: Vec<_> = std::iter::from_fn(|| node.poll_effect()).collect();
    assert!(matches!(sources[..], [Effect::Fetch { source, .. }] if source != forebay_read::Source::Peer(NodeRank(2))));
}

/// Two large files of one directory.
fn two_files() -> Listing {
    files_of_sizes([64 << 20; 2])
}

/// Two files of one directory, whose sizes tell their versions apart.
fn files_of_sizes(sizes_bytes: [u64; 2]) -> Listing {
    let mut builder = ListingBuilder::new();
    for ((name, ino), size_bytes) in [(&b"a"[..], 7), (b"b", 8)].into_iter().zip(sizes_bytes) {
        let attributes = Some(Attributes { ino, mode: 0o100_644, size_bytes, ..Attributes::default() });
        builder.push(ListingEntry { name, kind: Kind::File, ino, attributes, target: &[] }).unwrap();
    }
    builder.finish(&Attributes { ino: 2, mode: 0o040_755, ..Attributes::default() }).unwrap()
}

fn look_up(node: &mut Node, name: &[u8]) -> Option<KernelAnswer<&'static str>> {
    node.handle_kernel(Time(0), KernelTicket(1), KernelRequest::Lookup { parent: ROOT_INODE, name })
}

fn inode_of(answer: Option<KernelAnswer<&'static str>>) -> InodeId {
    match answer {
        Some(KernelAnswer::Entry(Entry { inode, .. })) => inode,
        other => panic!("{other:?}"),
    }
}

/// Looks the two files up, in a listing that has to be asked for.
fn look_both_up(node: &mut Node, listing: Listing) -> [InodeId; 2] {
    assert!(look_up(node, b"a").is_none());
    let (attempt, _) = asked(node)[0].clone();
    node.handle_answer(Time(0), attempt, Answered::Listing(listing));
    let answer = |effect| match effect {
        Effect::AnswerKernel { answer, .. } => Some(answer),
        _ => None,
    };
    let first = inode_of(std::iter::from_fn(|| node.poll_effect()).find_map(answer));
    [first, inode_of(look_up(node, b"b"))]
}

/// So programs that have it open, mapped or locked share it with those that open it afterwards. A file that changed is
/// another inode: no open file yields bytes of two versions.
#[test]
fn a_file_that_did_not_change_keeps_its_inode_over_a_refresh() {
    let mut node = node_of(3, 7);
    let before = look_both_up(&mut node, files_of_sizes([10, 10]));
    node.handle_quiet(Time(0), Epoch(5), vec![ViewPath::root()]);
    assert!(node.handle_hold(Time(0), Epoch(5), vec![ViewPath::root()]) && node.handle_release(Time(0), Epoch(5)));
    while node.poll_effect().is_some() {}
    let after = look_both_up(&mut node, files_of_sizes([10, 20]));
    assert_eq!((before[0] == after[0], before[1] == after[1]), (true, false));
}

/// Reads a file, which turns out to be another version; the recheck that is sent.
fn read_stale(node: &mut Node, inode: InodeId) -> AttemptId {
    let extent = Extent { offset_bytes: 0, len_bytes: 10 };
    assert!(node.handle_kernel(Time(0), KernelTicket(2), KernelRequest::Read { inode, extent }).is_none());
    let (attempt, _) = asked(node)[0].clone();
    node.handle_answer(Time(0), attempt, Answered::Failed(Errno::ESTALE));
    let is_recheck = |(_, request): &(_, Request<_>)| matches!(request.message, ReadMessage::Recheck { .. });
    asked(node).into_iter().find(is_recheck).map(|(attempt, _)| attempt).unwrap()
}

/// A directory in which two files have changed is listed again when both have been told of.
#[test]
fn a_listing_waits_for_all_rechecks_of_its_directory() {
    let mut node = node_of(3, 7);
    let rechecks = look_both_up(&mut node, two_files()).map(|inode| read_stale(&mut node, inode));
    assert!(look_up(&mut node, b"b").is_none());
    assert!(asked(&mut node).is_empty());
    node.handle_answer(Time(0), rechecks[0], Answered::Entries(vec![None]));
    assert!(asked(&mut node).is_empty(), "the other is on its way");
    node.handle_answer(Time(0), rechecks[1], Answered::Entries(vec![None]));
    assert_eq!(asked(&mut node).len(), 1);
}
