//! Reads that wait for a parcel, by a core that is driven by hand.

use crate::node;

use forebay_read::AttemptId;
use forebay_read::{
    Answered, Effect, InodeId, KernelAnswer, KernelRequest, KernelTicket, ParcelChunk, ROOT_INODE, ReadPath,
};
use forebay_types::{Attributes, CHUNK_BYTES, ChunkIndex, Errno, Extent, Kind, Time, ViewPath, limits};
use forebay_wire::{Listing, ListingBuilder, ListingEntry, ParcelPlace, ReadMessage};

use node::options;

const START: Time = Time(0);
/// The last one has two chunks.
const FILES: [&str; 4] = ["a", "b", "c", "large"];
const LARGE: usize = 3;
/// More than a node asks for ahead.
const PARCELS: u32 = 30;

/// A node whose kernel knows the files; all of its parcels are still to come.
struct Node {
    core: ReadPath<&'static str>,
    inodes: Vec<InodeId>,
    asked: Vec<(AttemptId, ReadMessage)>,
    answered: Vec<(u64, Result<&'static str, Errno>)>,
}

impl Node {
    fn new() -> Self {
        let core = ReadPath::new(options(1, 2));
        let mut node = Self { core, inodes: Vec::new(), asked: Vec::new(), answered: Vec::new() };
        node.core.start_prefill(START);
        for name in FILES {
            let request = KernelRequest::Lookup { parent: ROOT_INODE, name: name.as_bytes() };
            let mut answer = node.core.handle_kernel(START, KernelTicket(0), request);
            while let Some(effect) = node.core.poll_effect() {
                match effect {
                    Effect::Fetch { attempt: call, request, .. }
                        if matches!(request.message, ReadMessage::Listing { .. }) =>
                    {
                        node.core.handle_answer(START, call, Answered::Listing(listing()));
                    }
                    Effect::AnswerKernel { answer: found, .. } => answer = Some(found),
                    other => node.note(other),
                }
            }
            let Some(KernelAnswer::Entry(entry)) = answer else { panic!("{answer:?}") };
            node.inodes.push(entry.inode);
        }
        let place = |(parcel, name): (u32, &str)| ParcelPlace::new(&file(name), ChunkIndex(0), parcel);
        let second = ParcelPlace::new(&file("large"), ChunkIndex(1), 4);
        let places = [place((1, "a")), place((20, "b")), place((PARCELS, "c")), place((3, "large")), second];
        node.core.handle_parcel_places(&places);
        node.open(0, &[]);
        node
    }

    fn note(&mut self, effect: Effect<&'static str>) {
        match effect {
            Effect::Fetch { attempt: call, request, .. } => self.asked.push((call, request.message)),
            Effect::AnswerKernel { ticket, answer } => self.answered.push((
                ticket.0,
                match answer {
                    KernelAnswer::Read(parts) => Ok(parts[0].body),
                    KernelAnswer::Failed(errno) => Err(errno),
                    other => panic!("{other:?}"),
                },
            )),
            Effect::Ping { .. } | Effect::Cancel { .. } => {}
            other => panic!("{other:?}"),
        }
    }

    fn settle(&mut self) {
        while let Some(effect) = self.core.poll_effect() {
            self.note(effect);
        }
    }

    fn open(&mut self, parcel: u32, names: &[&str]) {
        let chunks: Vec<_> = names.iter().map(|name| chunk(name, 0)).collect();
        self.open_chunks(parcel, &chunks);
    }

    fn open_chunks(&mut self, parcel: u32, chunks: &[ParcelChunk<&'static str>]) {
        assert!(self.core.handle_parcel_opened(START, parcel, PARCELS, Vec::new(), chunks));
        self.settle();
    }

    /// Reads a file; the ticket is its number.
    fn read(&mut self, number: usize) {
        let extent = Extent { offset_bytes: 0, len_bytes: attributes(FILES[number]).size_bytes };
        let request = KernelRequest::Read { inode: self.inodes[number], extent };
        let answer = self.core.handle_kernel(START, KernelTicket(number as u64), request);
        assert!(answer.is_none(), "{answer:?}");
        self.settle();
    }

    fn asked_for_chunks(&self) -> Vec<AttemptId> {
        let is_chunk = |(_, request): &&(AttemptId, ReadMessage)| matches!(request, ReadMessage::Chunk { .. });
        self.asked.iter().filter(is_chunk).map(|(call, _)| *call).collect()
    }

    fn parcels_asked(&self) -> Vec<u32> {
        let parcel = |(_, request): &(AttemptId, ReadMessage)| match request {
            ReadMessage::Parcel { index, .. } => Some(*index),
            _ => None,
        };
        self.asked.iter().filter_map(parcel).collect()
    }
}

fn file(name: &str) -> ViewPath {
    ViewPath::new(name.as_bytes()).unwrap()
}

fn attributes(name: &str) -> Attributes {
    let size_bytes = if name == FILES[LARGE] { CHUNK_BYTES + 100 } else { 100 };
    Attributes { ino: 7, mode: 0o100_644, size_bytes, ..Attributes::default() }
}

fn chunk(name: &str, index: u64) -> ParcelChunk<&'static str> {
    let generation = attributes(name).generation();
    ParcelChunk { file: file(name), generation, index: ChunkIndex(index), body: "of a parcel" }
}

fn listing() -> Listing {
    let mut builder = ListingBuilder::new();
    for name in FILES {
        let entry = ListingEntry {
            name: name.as_bytes(),
            kind: Kind::File,
            ino: 7,
            attributes: Some(attributes(name)),
            target: &[],
        };
        builder.push(entry).unwrap();
    }
    builder.finish(&Attributes { ino: 2, mode: 0o040_755, ..Attributes::default() }).unwrap()
}

#[test]
fn a_read_is_answered_by_its_parcel_and_asks_for_nothing() {
    let mut node = Node::new();
    node.read(0);
    assert!(node.answered.is_empty());
    node.open(1, &["a"]);
    assert_eq!(node.answered, [(0, Ok("of a parcel"))]);
    assert_eq!(node.asked_for_chunks(), []);
}

#[test]
fn a_parcel_that_is_wanted_is_asked_for_before_its_turn_and_once() {
    let mut node = Node::new();
    let in_turn: Vec<u32> = (0..limits::PARCELS_AHEAD).collect();
    assert_eq!(node.parcels_asked(), in_turn);
    node.read(1);
    assert_eq!(node.parcels_asked()[in_turn.len()..], [20]);
    node.open(20, &["b"]);
    assert_eq!(node.answered, [(1, Ok("of a parcel"))]);
    for index in [20].into_iter().chain(0..20).chain(21..PARCELS) {
        node.core.handle_parcel_stored(START, index, &[]);
        node.settle();
    }
    let mut asked = node.parcels_asked();
    asked.sort_unstable();
    assert_eq!(asked, (0..PARCELS).collect::<Vec<_>>());
}

#[test]
fn contents_that_a_parcel_lacks_are_requested() {
    let mut node = Node::new();
    node.read(0);
    node.open(1, &[]);
    assert!(node.answered.is_empty());
    assert_eq!(node.asked_for_chunks().len(), 1);
    // From now on, nobody waits for it any more.
    node.core.handle_interrupt(KernelTicket(0));
    node.settle();
    node.read(0);
    assert_eq!(node.asked_for_chunks().len(), 2);
}

#[test]
fn a_parcel_that_fails_or_does_not_exist_keeps_nobody_waiting() {
    let mut node = Node::new();
    node.read(2);
    assert_eq!(node.asked_for_chunks().len(), 1, "there are no more parcels than it was said");
    node.read(0);
    let (call, _) = node.asked[1].clone();
    assert!(matches!(node.asked[1].1, ReadMessage::Parcel { index: 1, .. }));
    node.core.handle_answer(START, call, Answered::Failed(Errno::EIO));
    node.settle();
    assert_eq!(node.asked_for_chunks().len(), 2);
}

#[test]
fn a_parcel_that_takes_long_is_not_waited_for() {
    let mut node = Node::new();
    node.read(0);
    let end = node.core.poll_timeout().unwrap();
    assert!(end <= START.after(limits::PARCEL_WAIT));
    node.core.run_timers(START.after(limits::PARCEL_WAIT));
    node.settle();
    let [call] = node.asked_for_chunks()[..] else { panic!("{:?}", node.asked) };
    assert!(node.core.handle_body_started(START, call, "of its file", 100));
    node.settle();
    assert_eq!(node.answered, [(0, Ok("of its file"))]);
}

#[test]
fn a_reader_that_is_gone_asks_for_nothing() {
    let mut node = Node::new();
    node.read(0);
    assert!(node.core.handle_interrupt(KernelTicket(0)));
    node.settle();
    assert_eq!(node.answered, [(0, Err(Errno::EINTR))]);
    node.open(1, &[]);
    assert_eq!(node.asked_for_chunks(), []);
}

#[test]
fn a_read_of_two_chunks_waits_for_two_parcels_and_nothing_is_stored_below_it() {
    let mut node = Node::new();
    node.read(LARGE);
    let (first, second) = (chunk(FILES[LARGE], 0), chunk(FILES[LARGE], 1));
    node.open_chunks(3, std::slice::from_ref(&first));
    assert!(node.answered.is_empty());
    assert_eq!(node.core.inodes_to_fill(&[first]), [None], "the read that waits has its pages locked");
    node.open_chunks(4, &[second]);
    assert_eq!(node.answered, [(LARGE as u64, Ok("of a parcel"))]);
    assert_eq!(node.asked_for_chunks(), []);
}

#[test]
fn a_read_of_which_some_is_here_does_not_wait() {
    let mut node = Node::new();
    node.open_chunks(3, &[chunk(FILES[LARGE], 0)]);
    node.read(LARGE);
    assert_eq!(node.asked_for_chunks().len(), 1);
}
