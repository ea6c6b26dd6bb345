//! Parcels: a root makes one of each directory, with the beginnings of some files in it, by asking its own core as the
//! daemon does; every node takes them apart as they arrive. The first one says of the beginnings of all files that they
//! come with their directories, which is not true of all.

use std::sync::Arc;

use forebay_node::{Answered, ParcelChunk, PeerAnswer, PeerTicket};
use forebay_types::{ChunkIndex, Errno, Extent, Generation, Kind, ViewPath, chunk_bytes};
use forebay_wire::{Listing, ParcelPlace, ReadMessage};

use crate::NodeIndex;
use crate::body::{Handle, Piece, State};
use crate::event::Event;
use crate::job::Job;
use crate::tables::{Caller, Made, Making};

/// Files of each directory that travel with its listing.
const FILES: usize = 3;

impl Job<'_> {
    /// How many parcels there are.
    #[must_use]
    pub fn parcels_count(&self) -> u64 {
        self.parcel_dirs().len() as u64
    }

    /// Every node begins to ask for parcels.
    pub(crate) fn start_prefill(&mut self) {
        for node in 0..self.nodes.len() {
            self.with_core(node, |core, now| core.start_prefill(now));
        }
    }

    fn parcel_dirs(&self) -> Vec<ViewPath> {
        let is_dir = |kind: Kind| kind == Kind::Directory;
        let dirs = self.model.nodes.iter().filter(|(_, node)| is_dir(node.attributes.kind()) && node.listable);
        dirs.map(|(path, _)| path.clone()).collect()
    }

    fn parcel_places(&self) -> Vec<ParcelPlace> {
        let dirs = self.parcel_dirs();
        let place = |file: &ViewPath| {
            let dir = dirs.iter().position(|dir| file.split().is_some_and(|(of_file, _)| of_file == *dir))?;
            Some(ParcelPlace::new(file, ChunkIndex(0), dir as u32))
        };
        self.model.nodes.keys().filter_map(place).collect()
    }

    /// A node that reads the backing file system is to make a parcel.
    pub(crate) fn make_parcel(&mut self, by: Caller, index: u32) {
        let Some(dir) = self.parcel_dirs().get(index as usize).cloned() else {
            return self.world.soon(Event::Answer { to: vec![by], answered: Answered::Failed(Errno::ENODATA) });
        };
        let request = ReadMessage::Listing { dir: dir.clone() };
        let making = Making { by, dir, listing: None, wanted: Vec::new(), chunks: Vec::new() };
        self.ask_own(making, request);
    }

    fn ask_own(&mut self, making: Making, request: ReadMessage) {
        let (node, ticket) = (making.by.node, self.new_ticket());
        self.parcels.making.insert(ticket, making);
        self.with_core(node, |core, now| core.handle_own(now, PeerTicket(ticket), request));
    }

    /// Takes an answer to a node's own question; gives back one to anything else.
    pub(crate) fn answer_own(&mut self, ticket: PeerTicket, answer: PeerAnswer<Handle>) -> Option<PeerAnswer<Handle>> {
        let Some(mut making) = self.parcels.making.remove(&ticket.0) else { return Some(answer) };
        if self.nodes[making.by.node].life != making.by.life {
            return None;
        }
        match answer {
            PeerAnswer::Listing(listing) => {
                making.wanted = files_of(&making.dir, &listing);
                making.listing = Some(listing);
            }
            PeerAnswer::Body(body) => return self.own_body(ticket.0, making, body),
            // What cannot be had is left out.
            _ => {}
        }
        self.go_on_making(making);
        None
    }

    fn own_body(&mut self, ticket: u64, mut making: Making, body: Handle) -> Option<PeerAnswer<Handle>> {
        match self.bodies[body.id].state {
            State::Growing => {
                self.parcels.making.insert(ticket, making);
                self.when_whole_answer(body, ticket);
            }
            State::Whole => {
                making.chunks.extend(body.pieces.iter().cloned());
                self.go_on_making(making);
            }
            State::Failed(_) => self.go_on_making(making),
        }
        None
    }

    fn go_on_making(&mut self, mut making: Making) {
        if let Some(Piece { file, generation, .. }) = making.wanted.pop() {
            return self.ask_own(making, ReadMessage::Chunk { file, generation, index: ChunkIndex(0) });
        }
        let to = making.by;
        let Some(listing) = making.listing else {
            return self.world.soon(Event::Answer { to: vec![to], answered: Answered::Failed(Errno::EIO) });
        };
        self.parcels.made.push(Made { dir: making.dir, listing, chunks: making.chunks });
        let number = format!("parcel {}", self.parcels.made.len() - 1);
        let extent = Extent { offset_bytes: 0, len_bytes: 1000 };
        let file = ViewPath::new(number.as_bytes()).unwrap();
        let handle = self.new_body(to, None, [Piece { file, generation: Generation::default(), extent }].into());
        self.world.soon(Event::BodyStart { to, handle });
    }

    /// A node takes a parcel apart.
    pub(crate) fn open_parcel(&mut self, node: NodeIndex, index: u32, body: &Handle) {
        let name = body.pieces[0].file.as_bytes();
        let number: usize = std::str::from_utf8(&name["parcel ".len()..]).unwrap().parse().unwrap();
        let Made { dir, listing, chunks } = self.parcels.made[number].clone();
        let count = self.parcel_dirs().len() as u32;
        let (life, call) = (self.nodes[node].life, forebay_node::AttemptId(0));
        let chunks: Vec<ParcelChunk<Handle>> = chunks
            .into_iter()
            .map(|piece| {
                let (file, generation) = (piece.file.clone(), piece.generation);
                let body = self.new_body(Caller { node, life, call }, None, Arc::new([piece]));
                self.bodies[body.id].state = State::Whole;
                ParcelChunk { file, generation, index: ChunkIndex(0), body }
            })
            .collect();
        let places = if index == 0 { self.parcel_places() } else { Vec::new() };
        self.with_core(node, |core, now| {
            core.handle_parcel_places(&places);
            if core.handle_parcel_opened(now, index, count, vec![(dir, listing)], &chunks) {
                core.handle_parcel_stored(now, index, &chunks);
            }
        });
    }
}

/// The beginnings of the first files of a directory.
fn files_of(dir: &ViewPath, listing: &Listing) -> Vec<Piece> {
    let first = |entry: forebay_wire::ListingEntry<'_>| {
        let attributes = entry.attributes.filter(|attributes| attributes.kind() == Kind::File)?;
        let (file, generation) = (dir.join(entry.name).ok()?, attributes.generation());
        let len_bytes = chunk_bytes(generation.size_bytes, ChunkIndex(0)) as u64;
        (len_bytes > 0).then_some(Piece { file, generation, extent: Extent { offset_bytes: 0, len_bytes } })
    };
    listing.entries().filter_map(first).take(FILES).collect()
}
