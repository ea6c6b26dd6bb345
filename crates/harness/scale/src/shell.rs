//! The daemon's work around its core, with bytes counted instead of moved.

use forebay_read::AttemptId;
use forebay_read::{Answered, Effect, PeerAnswer, PeerTicket, Source};
use forebay_types::{Epoch, Errno, NodeRank, chunk_bytes};
use forebay_wire::{EntryRecord, ReadMessage, Request};

use super::bodies::{Filling, Handle, Watcher};
use super::files::{PathIndex, Weight};
use super::job::{DEADLINE, Event, Job, Piece};
use super::network::NodeIndex;
use super::parameters::MODEL;
use super::servers::Nanos;
use super::tickets::{OWN, asker, ticket};

/// The unit in which bodies are forwarded, bytes.
const PIECE_BYTES: u32 = MODEL.piece.count() as u32;

/// Calls of a client for a listing: open, read, close.
const LISTING_CALLS: u32 = 3;

/// A head, or a message without a body, bytes.
const HEAD_BYTES: u64 = MODEL.head.count() as u64;

impl Job<'_> {
    /// Carries out what a core decided, at the time at which its processor has come to it.
    pub(super) fn carry_out(&mut self, node: NodeIndex, at: Nanos, effect: Effect<Handle>) {
        match effect {
            Effect::Fetch { attempt: call, source: Source::Backing, request, .. } => {
                self.ask_backing(node, at, call, &request.message)
            }
            Effect::Fetch { attempt: call, source: Source::Peer(NodeRank(to)), request, .. } => {
                self.ask_peer(node, at, call, to, request);
            }
            Effect::FetchBundle { attempts, peer: NodeRank(to), request, .. } => {
                let sizes = sizes_of(&request.message);
                let files = attempts.iter().copied().zip(sizes).collect();
                self.nodes[node as usize].bundles.push((attempts[0], files));
                self.ask_peer(node, at, attempts[0], to, request);
            }
            Effect::Cancel { attempt: call } => self.cancel(node, call),
            Effect::Ping { peer: NodeRank(peer), epoch, deadline } => {
                self.next_ping += 1;
                let number = self.next_ping;
                self.nodes[node as usize].pinged.push((peer, number));
                let sent = self.work(node, self.cost_of_message(1, 0)).max(at);
                let arrives = sent + self.network.latency(node, peer);
                self.queue.at(arrives, Event::Ping { to: peer, from: node, epoch });
                self.queue.at(deadline.0, Event::Silent { to: node, peer, number });
            }
            // The model of a backing file system serves in the order of asking.
            Effect::Stale(_) | Effect::Promote { .. } => {}
            Effect::OpenParcel { index, .. } => self.queue.at(at, Event::ParcelHere { node, index }),
            Effect::AnswerPeer { ticket, answer } => self.answer_peer(node, at, ticket, answer),
            Effect::NoteSlow { .. } => {}
            Effect::AnswerKernel { answer, .. } => self.answer_kernel(node, at, answer),
        }
    }

    fn ask_peer(&mut self, node: NodeIndex, at: Nanos, call: AttemptId, to: NodeIndex, request: Request<ReadMessage>) {
        let weight = self.weight_of(&request.message);
        self.nodes[node as usize].asked.push((call, to));
        let sent = self.work(node, self.cost_of_message(weight.things, 0)).max(at);
        let left = self.network.leave(node, sent, HEAD_BYTES * u64::from(weight.things));
        let arrives = left + self.network.latency(node, to) * u64::from(weight.in_turn);
        self.queue.at(arrives, Event::Ask { to, from: node, call, request });
    }

    pub(super) fn be_asked(&mut self, to: NodeIndex, from: NodeIndex, call: AttemptId, request: Request<ReadMessage>) {
        let weight = self.weight_of(&request.message);
        let work = self.cost_of_message(weight.things, 0);
        self.decide_after(to, work, |core, now| {
            core.handle_peer(now, NodeRank(from), ticket(from, call), request, DEADLINE);
        });
    }

    fn weight_of(&self, request: &ReadMessage) -> Weight {
        match request {
            ReadMessage::Chunk { generation, .. } => self.files.weight(generation),
            ReadMessage::Bundle { files, .. } => {
                files.first().map_or(Weight::ONE, |(_, generation)| self.files.weight(generation))
            }
            ReadMessage::Listing { dir, .. } => self.files.weight_of(dir),
            ReadMessage::Parcel { .. } => self.pack.map_or(Weight::ONE, |pack| pack.weight),
            _ => Weight::ONE,
        }
    }

    fn ask_backing(&mut self, node: NodeIndex, at: Nanos, call: AttemptId, request: &ReadMessage) {
        let weight = self.weight_of(request);
        match request {
            ReadMessage::Listing { dir, .. } => {
                let calls = LISTING_CALLS * weight.things;
                let sent = self.ask_client(node, calls, calls, 0).max(at);
                let Some(listing) = self.files.listing(dir).cloned() else {
                    return self
                        .queue
                        .at(at, Event::Told { to: node, call, answered: Answered::Failed(Errno::ENOENT) });
                };
                let done = self.backing.list(sent, listing.len(), weight);
                self.queue.at(done, Event::Told { to: node, call, answered: Answered::Listing(listing) });
            }
            ReadMessage::Chunk { generation, index, .. } => {
                let bytes = chunk_bytes(generation.size_bytes, *index) as u32;
                let place = generation.ino << 20 | index.0;
                let total = u64::from(bytes) * u64::from(weight.things);
                let mut sent = self.ask_client(node, weight.things, weight.things, total).max(at);
                if self.open.insert((node, generation.ino)) {
                    // Opening and closing.
                    sent = self.ask_client(node, 2 * weight.things, 2 * weight.things, 0).max(sent);
                    sent = self.backing.open(sent, weight);
                }
                let (done, took) = self.backing.read(sent, place, total, u64::from(weight.things));
                self.fill_from_backing(
                    Piece { to: node, call, bytes, total: bytes, weight: weight.things },
                    done,
                    took,
                );
            }
            ReadMessage::Parcel { index } => self.make_parcel(node, at, call, *index),
            _ => {
                let records: Vec<Option<EntryRecord>> = Vec::new();
                self.queue.at(at, Event::Told { to: node, call, answered: Answered::Entries(records) });
            }
        }
    }

    /// The pieces of a body that the file system sends, one after the other until `done`.
    pub(super) fn fill_from_backing(&mut self, body: Piece, done: Nanos, took: Nanos) {
        let pieces = u64::from(body.total.div_ceil(PIECE_BYTES)).max(1);
        for piece in 0..pieces {
            let first = piece as u32 * PIECE_BYTES;
            let bytes = (body.total - first).min(PIECE_BYTES);
            let at = done.saturating_sub(took * (pieces - 1 - piece) / pieces);
            self.queue.at(at, Event::Arrive(Piece { bytes, ..body }));
        }
    }

    fn answer_peer(&mut self, node: NodeIndex, at: Nanos, ticket: PeerTicket, answer: PeerAnswer<Handle>) {
        let (to, call) = asker(ticket);
        if to == OWN {
            return self.queue.at(at, Event::Listed { node, dir: call.0 as PathIndex });
        }
        let (answered, bytes, weight) = match answer {
            PeerAnswer::Body(handle) => return self.send_on(node, at, to, call, handle),
            PeerAnswer::Bundle(files) => return self.send_bundle(node, at, ticket, files),
            PeerAnswer::Listing(listing) => {
                let weight = self.files.weight(&listing.generation());
                let bytes = listing.bytes().len() as u64;
                (Answered::Listing(listing), bytes, weight)
            }
            PeerAnswer::Entries(records) => (Answered::Entries(records.to_vec()), HEAD_BYTES, Weight::ONE),
            PeerAnswer::FileSystem(sizes) => (Answered::FileSystem(sizes), HEAD_BYTES, Weight::ONE),
            PeerAnswer::Failed(errno) => (Answered::Failed(errno), HEAD_BYTES, Weight::ONE),
            PeerAnswer::Fenced(epoch) => (Answered::Fenced(epoch), HEAD_BYTES, Weight::ONE),
            PeerAnswer::Referred(to) => (Answered::Referred(to), HEAD_BYTES, Weight::ONE),
        };
        let bytes = (bytes + HEAD_BYTES) * u64::from(weight.things);
        let sent = self.work(node, self.cost_of_message(weight.things, bytes)).max(at);
        let left = self.network.leave(node, sent, bytes);
        let arrives = left + self.network.latency(node, to) * u64::from(weight.in_turn);
        let arrives = self.network.arrive(to, arrives, bytes);
        self.queue.at(arrives, Event::Answer { to, call, answered, bytes });
    }

    /// Sends a body on while it arrives.
    fn send_on(&mut self, node: NodeIndex, at: Nanos, to: NodeIndex, call: AttemptId, handle: Handle) {
        let Handle { bytes: total, weight, .. } = handle;
        let arrived = match self.filling(node, handle) {
            Some(filling) => {
                filling.watchers.push(Watcher::Peer { to, call });
                filling.arrived
            }
            None => total,
        };
        let mut first = 0;
        while first < arrived {
            let bytes = (arrived - first).min(PIECE_BYTES);
            self.send_piece(node, at, Piece { to, call, bytes, total, weight }, first == 0);
            first += bytes;
        }
    }

    fn filling(&mut self, node: NodeIndex, handle: Handle) -> Option<&mut Filling> {
        self.nodes[node as usize].filling.iter_mut().find(|filling| filling.handle.body == handle.body)
    }

    /// Sends the files of a bundle in one when all are there. A model's file system refuses no file.
    fn send_bundle(&mut self, node: NodeIndex, at: Nanos, ticket: PeerTicket, files: Vec<Result<Handle, Errno>>) {
        let Ok(whole) = files.iter().copied().collect::<Result<Vec<Handle>, Errno>>() else {
            return self.answer_peer(node, at, ticket, PeerAnswer::Failed(Errno::WAY_LOST));
        };
        if let Some(filling) = whole.iter().find(|body| self.filling(node, **body).is_some())
            && let Some(filling) = self.filling(node, *filling)
        {
            return filling.watchers.push(Watcher::Bundle { ticket, files });
        }
        let (bytes, weight) = (whole.iter().map(|body| body.bytes).sum(), whole.first().map_or(1, |body| body.weight));
        let (to, call) = asker(ticket);
        self.send_on(node, at, to, call, Handle { body: u32::MAX, bytes, weight });
    }

    fn send_piece(&mut self, node: NodeIndex, at: Nanos, piece: Piece, is_first: bool) {
        let bytes = u64::from(piece.bytes) * u64::from(piece.weight);
        let messages = if is_first { piece.weight } else { 0 };
        let sent = self.work(node, self.cost_of_message(messages, bytes)).max(at);
        let left = self.network.leave(node, sent, bytes);
        if self.network.is_shared(node, piece.to) {
            return self.queue.at(left, Event::Cross { from: node, piece });
        }
        self.queue.at(left + self.network.latency(node, piece.to), Event::Arrive(piece));
    }

    pub(super) fn cross(&mut self, from: NodeIndex, piece: Piece) {
        let bytes = u64::from(piece.bytes) * u64::from(piece.weight);
        let passed = self.network.cross(from, piece.to, self.queue.now(), bytes);
        self.queue.at(passed + self.network.latency(from, piece.to), Event::Arrive(piece));
    }

    /// A piece is there: the first begins its body, each goes on to who waits, the last ends it.
    pub(super) fn take_piece(&mut self, piece: Piece) {
        let Piece { to, call, bytes, total, weight } = piece;
        let place = self.nodes[to as usize].filling.iter().position(|filling| filling.call == call);
        let messages = if place.is_none() { weight } else { 0 };
        let work = self.cost_of_message(messages, u64::from(bytes) * u64::from(weight));
        let done = match place {
            Some(_) => self.work(to, work),
            None => match self.begin_body(piece, work) {
                Some(done) => done,
                None => return,
            },
        };
        let Some(place) = self.nodes[to as usize].filling.iter().position(|filling| filling.call == call) else {
            return;
        };
        let filling = &mut self.nodes[to as usize].filling[place];
        filling.arrived += bytes;
        if filling.arrived >= total {
            return self.end_body(to, place, bytes, done);
        }
        let (arrived, is_first) = (filling.arrived, filling.arrived == bytes);
        let next: Vec<(NodeIndex, AttemptId)> = filling.watchers.iter().filter_map(Watcher::peer).collect();
        let wakes =
            filling.watchers.iter().any(|watcher| matches!(watcher, Watcher::Read { until } if *until <= arrived));
        if wakes {
            filling.watchers.retain(|watcher| !matches!(watcher, Watcher::Read { until } if *until <= arrived));
        }
        for (peer, call) in next {
            self.send_piece(to, done, Piece { to: peer, call, bytes, total, weight }, is_first);
        }
        if wakes {
            self.look_at_read(to, done);
        }
    }

    /// The first piece: the core learns of the body. When that is done, if it wants it.
    fn begin_body(&mut self, piece: Piece, work: Nanos) -> Option<Nanos> {
        let Piece { to, call, total, weight, .. } = piece;
        self.next_body += 1;
        let handle = Handle { body: self.next_body, bytes: total, weight };
        let place = &mut self.nodes[to as usize];
        if piece.bytes >= total {
            place.asked.retain(|(other, _)| *other != call);
        }
        let files = place.take_bundle(call);
        let is_bundle = files.is_some();
        place.filling.push(Filling { handle, call, arrived: 0, files, watchers: Vec::new() });
        if is_bundle {
            return Some(self.work(to, work));
        }
        let (wanted, done) =
            self.decide_after(to, work, |core, now| core.handle_body_started(now, call, handle, total as usize));
        if wanted {
            let now = forebay_types::Time(self.queue.now());
            self.nodes[to as usize].core.note_bytes(now, call);
        } else {
            self.nodes[to as usize].filling.retain(|filling| filling.call != call);
        }
        wanted.then_some(done)
    }

    fn end_body(&mut self, node: NodeIndex, place: usize, last: u32, at: Nanos) {
        let Filling { handle, call, files, watchers, .. } = self.nodes[node as usize].filling.swap_remove(place);
        self.nodes[node as usize].asked.retain(|(other, _)| *other != call);
        let Handle { bytes: total, weight, .. } = handle;
        self.decide(node, |core, now| match files {
            None => core.handle_body_ended(now, call, Ok(())),
            Some(files) => {
                for (call, bytes) in files {
                    let whole = Handle { body: u32::MAX, bytes, weight };
                    if core.handle_body_started(now, call, whole, bytes as usize) {
                        core.handle_body_ended(now, call, Ok(()));
                    }
                }
            }
        });
        for watcher in watchers {
            match watcher {
                Watcher::Peer { to, call } => {
                    self.send_piece(node, at, Piece { to, call, bytes: last, total, weight }, last == total);
                }
                Watcher::Bundle { ticket, files } => self.send_bundle(node, at, ticket, files),
                Watcher::Read { .. } => self.look_at_read(node, at),
            }
        }
    }

    /// A body will not be whole: those who wait for it are told, and ask elsewhere.
    pub(super) fn lose_body(&mut self, node: NodeIndex, call: AttemptId) {
        let filling = &mut self.nodes[node as usize].filling;
        let Some(place) = filling.iter().position(|filling| filling.call == call) else {
            return self.be_answered(node, call, 0, &Answered::Failed(Errno::WAY_LOST));
        };
        let lost = filling.swap_remove(place);
        self.decide(node, |core, now| match lost.files {
            None => core.handle_body_ended(now, call, Err(Errno::WAY_LOST)),
            Some(files) => {
                files.iter().for_each(|(call, _)| core.handle_answer(now, *call, Answered::Failed(Errno::WAY_LOST)));
            }
        });
        let now = self.queue.now();
        for watcher in lost.watchers {
            match watcher {
                Watcher::Peer { to, call } => {
                    let arrives = now + self.network.latency(node, to);
                    self.queue.at(arrives, Event::Lost { to, call });
                }
                Watcher::Bundle { ticket, .. } => {
                    self.answer_peer(node, now, ticket, PeerAnswer::Failed(Errno::WAY_LOST));
                }
                Watcher::Read { .. } => self.lose_read(node),
            }
        }
    }

    /// An answer without a body arrives, for all that travelled in one message.
    pub(super) fn be_answered(&mut self, node: NodeIndex, call: AttemptId, work: Nanos, answered: &Answered) {
        let place = &mut self.nodes[node as usize];
        place.asked.retain(|(other, _)| *other != call);
        let bundle = place.take_bundle(call).unwrap_or_else(|| vec![(call, 0)]);
        self.decide_after(node, work, |core, now| {
            bundle.iter().for_each(|(call, _)| core.handle_answer(now, *call, answered.clone()));
        });
    }

    fn cancel(&mut self, node: NodeIndex, call: AttemptId) {
        let Some(call) = self.nodes[node as usize].leave_bundle(call) else { return };
        let place = &mut self.nodes[node as usize];
        if let Some(at) = place.asked.iter().position(|(other, _)| *other == call) {
            let (_, to) = place.asked.swap_remove(at);
            let arrives = self.queue.now() + self.network.latency(node, to);
            self.queue.at(arrives, Event::Cancel { to, from: node, call });
        }
        if self.nodes[node as usize].filling.iter().any(|filling| filling.call == call) {
            self.queue.at(self.queue.now(), Event::Lost { to: node, call });
        }
    }

    /// The requester wants no answer any more: the request is taken back, or the rest of the body is not sent.
    pub(super) fn be_cancelled(&mut self, node: NodeIndex, by: NodeIndex, call: AttemptId) {
        for filling in &mut self.nodes[node as usize].filling {
            filling.watchers.retain(|watcher| watcher.peer() != Some((by, call)));
        }
        self.decide(node, |core, _| core.handle_peer_cancel(ticket(by, call)));
    }

    pub(super) fn be_pinged(&mut self, to: NodeIndex, from: NodeIndex, epoch: Epoch) {
        let work = self.cost_of_message(2, 0);
        let (epoch, done) = self.decide_after(to, work, |core, now| core.handle_epoch(now, epoch));
        let arrives = done + self.network.latency(to, from);
        self.queue.at(arrives, Event::Pong { to: from, peer: to, epoch });
    }

    pub(super) fn hear_of(&mut self, node: NodeIndex, peer: NodeIndex, alive_in: Option<Epoch>) {
        self.nodes[node as usize].pinged.retain(|(other, _)| *other != peer);
        self.decide(node, |core, now| core.handle_ping(now, NodeRank(peer), alive_in));
    }
}

/// The sizes of a bundle's files.
fn sizes_of(bundle: &ReadMessage) -> Vec<u32> {
    match bundle {
        ReadMessage::Bundle { files, .. } => files.iter().map(|(_, generation)| generation.size_bytes as u32).collect(),
        _ => Vec::new(),
    }
}

impl Watcher {
    fn peer(&self) -> Option<(NodeIndex, AttemptId)> {
        match self {
            Self::Peer { to, call } => Some((*to, *call)),
            _ => None,
        }
    }
}
