//! A file that is another version than its listing says: told as `ESTALE` once, then found as it is now.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use forebay_cache::CallId;
use forebay_node::{
    Answered, Effect, Entry, InodeId, KernelAnswer, KernelRequest, KernelTicket, Options, ROOT_INODE, ReadPath,
};
use forebay_overlay::Forest;
use forebay_types::{Attributes, Errno, Extent, Kind, NodeRank, Time};
use forebay_wire::{Listing, ListingBuilder, ListingEntry, Request};

type Node = ReadPath<&'static str>;

fn node() -> Node {
    ReadPath::new(Options {
        rank: NodeRank(0),
        forest: Forest::single(1, 2).unwrap(),
        budget_bytes: 64 << 20,
        deadline: Duration::from_secs(30),
        direct_above_bytes: None,
        anticipate: false,
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
    node.handle_answer(call, Answered::Listing(listing(size_bytes)));
    match node.poll_effect() {
        Some(Effect::AnswerKernel { answer: KernelAnswer::Entry(Entry { inode, .. }), .. }) => inode,
        other => panic!("{other:?}"),
    }
}

fn read_fails_as_stale(node: &mut Node, inode: InodeId) {
    let extent = Extent { offset_bytes: 0, len_bytes: 10 };
    assert!(ask(node, KernelRequest::Read { inode, extent }).is_none());
    let (call, _) = fetched(node);
    node.handle_answer(call, Answered::Failed(Errno::ESTALE));
}

#[test]
fn the_listing_is_asked_for_again_and_the_kernel_told() {
    let mut node = node();
    let old = look_up_anew(&mut node, 10);
    read_fails_as_stale(&mut node, old);
    match node.poll_effect() {
        Some(Effect::Stale(stale)) => {
            assert_eq!((stale.inode, stale.entry), (old, Some((ROOT_INODE, b"file".to_vec()))));
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
