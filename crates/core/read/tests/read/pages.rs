//! Pages of attributes of a large directory, by cores driven by hand: two listings of it may have one generation, because a
//! clock ticks slower than files are made, and the places of names in them differ.

use crate::node;

use std::time::Duration;

use forebay_read::AttemptId;
use forebay_read::{
    Answered, Effect, KernelAnswer, KernelRequest, KernelTicket, Options, PeerAnswer, PeerTicket, ROOT_INODE, ReadPath,
};
use forebay_types::{Attributes, Kind, NodeRank, Time};
use forebay_wire::{EntryRecord, Listing, ListingBuilder, ListingEntry, ReadMessage, Request};

use node::options;

const BEFORE: [&str; 2] = ["b", "c"];
const AFTER: [&str; 3] = ["a", "b", "c"];

type Node = ReadPath<&'static str>;

fn node_of(rank: u32, nodes: u32, entry_ttl: Option<Duration>) -> Node {
    ReadPath::new(Options { entry_ttl, ..options(rank, nodes) })
}

/// Names alone, as of a large directory; its generation is the same whatever is in it.
fn listing(names: &[&str]) -> Listing {
    let mut builder = ListingBuilder::new();
    for name in names {
        let entry =
            ListingEntry { name: name.as_bytes(), kind: Kind::File, ino: ino(name), attributes: None, target: &[] };
        builder.push(entry).unwrap();
    }
    builder.finish(&Attributes { ino: 2, mode: 0o040_755, ..Attributes::default() }).unwrap()
}

fn ino(name: &str) -> u64 {
    u64::from(name.as_bytes()[0])
}

/// The backing file system's records of names.
fn records(request: &ReadMessage) -> Vec<Option<EntryRecord>> {
    let ReadMessage::Page { names, .. } = request else { panic!("{request:?}") };
    let of = |name: &str| Attributes { ino: ino(name), mode: 0o100_644, ..Attributes::default() };
    let record = |name| Some(EntryRecord { attributes: of(name), target: Vec::new() });
    names.iter().map(|name| record(std::str::from_utf8(name.as_bytes()).unwrap())).collect()
}

fn fetched(node: &mut Node) -> (AttemptId, ReadMessage) {
    match node.poll_effect() {
        Some(Effect::Fetch { attempt: call, request, .. }) => (call, request.message),
        other => panic!("{other:?}"),
    }
}

/// The inode number that a program is told for a name, by a backing file system that lists these names.
fn look_up(node: &mut Node, at: Time, name: &str, listed: &[&str]) -> Option<u64> {
    let request = KernelRequest::Lookup { parent: ROOT_INODE, name: name.as_bytes() };
    let mut answer = node.handle_kernel(at, KernelTicket(1), request);
    while answer.is_none() {
        match node.poll_effect().unwrap() {
            Effect::Fetch { attempt: call, request, .. } if matches!(request.message, ReadMessage::Listing { .. }) => {
                node.handle_answer(at, call, Answered::Listing(listing(listed)));
            }
            Effect::Fetch { attempt: call, request, .. } => {
                node.handle_answer(at, call, Answered::Entries(records(&request.message)));
            }
            Effect::AnswerKernel { answer: told, .. } => answer = Some(told),
            _ => {}
        }
    }
    match answer {
        Some(KernelAnswer::Entry(entry)) => Some(entry.attributes.ino),
        Some(KernelAnswer::Absent) => None,
        other => panic!("{other:?}"),
    }
}

/// `--revalidate`: the page is younger than the listing, and outlives it.
#[test]
fn a_page_that_is_kept_is_not_that_of_another_listing() {
    let at = |seconds| Time(0).after(Duration::from_secs(seconds));
    let mut node = node_of(0, 1, Some(Duration::from_secs(10)));
    assert_eq!(look_up(&mut node, at(0), "a", &BEFORE), None);
    assert_eq!(look_up(&mut node, at(5), "b", &BEFORE), Some(ino("b")));
    for name in AFTER {
        assert_eq!(look_up(&mut node, at(11), name, &AFTER), Some(ino(name)), "{name} is told as another file");
    }
}

/// The request of a node of this rank when a program looks a name up in these.
fn page_request(rank: u32, name: &str, listed: &[&str]) -> ReadMessage {
    let mut leaf = node_of(rank, 7, None);
    let request = KernelRequest::Lookup { parent: ROOT_INODE, name: name.as_bytes() };
    assert!(leaf.handle_kernel(Time(0), KernelTicket(1), request).is_none());
    let (call, _) = fetched(&mut leaf);
    leaf.handle_answer(Time(0), call, Answered::Listing(listing(listed)));
    fetched(&mut leaf).1
}

fn asks(parent: &mut Node, number: u64, message: ReadMessage) {
    parent.handle_peer(Time(0), NodeRank(1), PeerTicket(number), Request::new(message), Duration::from_secs(9));
}

/// Nodes got their listings from different readers, one after the other; their pages come from one parent.
#[test]
fn pages_of_two_listings_are_neither_joined_nor_taken_for_each_other() {
    let mut parent = node_of(2, 7, None);
    let asked = [page_request(3, "b", &BEFORE), page_request(4, "b", &AFTER)];
    let mut calls = Vec::new();
    for (request, number) in asked.iter().zip(1..) {
        asks(&mut parent, number, request.clone());
        calls.push(fetched(&mut parent));
    }
    for (call, request) in calls {
        parent.handle_answer(Time(0), call, Answered::Entries(records(&request)));
    }
    for (request, number) in asked.into_iter().zip(3..) {
        asks(&mut parent, number, request);
    }
    let told = |effect| match effect {
        Effect::AnswerPeer { ticket, answer: PeerAnswer::Entries(records) } => {
            let inos = records.iter().flatten().map(|record| record.attributes.ino).collect::<Vec<_>>();
            (ticket.0, inos)
        }
        other => panic!("{other:?}"),
    };
    let told: Vec<(u64, Vec<u64>)> = std::iter::from_fn(|| parent.poll_effect()).map(told).collect();
    let inos = |names: &[&str]| names.iter().map(|name| ino(name)).collect::<Vec<_>>();
    let expected = [(1, inos(&BEFORE)), (2, inos(&AFTER)), (3, inos(&BEFORE)), (4, inos(&AFTER))];
    assert_eq!(told, expected);
}
