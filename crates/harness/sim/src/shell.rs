//! What the daemon does around its core, with bytes named instead of moved: questions carried to their sources, bodies
//! followed, the kernel's requests answered when their bytes are there and asked again when these got lost.

use std::sync::Arc;
use std::time::Duration;

use forebay_node::{
    Answered, AttemptId, Effect, KernelAnswer, KernelRequest, KernelTicket, Part, PeerAnswer, PeerTicket, Source,
};
use forebay_types::{Attributes, ChunkIndex, Errno, Extent, Generation, Kind, Name, Priority, ViewPath, chunk_bytes};
use forebay_wire::{ReadMessage, Request};

use crate::NodeIndex;
use crate::body::{Handle, Piece, State, pieces_of};
use crate::event::Event;
use crate::job::{DEADLINE, GRACE, Job};
use crate::model::Said;
use crate::tables::{Body, Call, Caller, Watcher};

/// How long after a loss its bytes are asked for again.
const AGAIN_AFTER: Duration = Duration::from_millis(10);

impl Job<'_> {
    pub(crate) fn carry_out(&mut self, node: NodeIndex, effect: Effect<Handle>) {
        let life = self.nodes[node].life;
        match effect {
            Effect::Fetch { attempt: call, source, request, .. } => {
                let from = Caller { node, life, call };
                self.note(|| format!("node {node} asks {source:?} as {}: {request:?}", call.0));
                self.new_call(from, call, source, &request);
                match source {
                    Source::Backing => self.queue_backing(from, request.message, request.priority),
                    Source::Peer(to) => self.ask_peer(vec![from], to.0 as usize, request),
                }
            }
            Effect::FetchBundle { attempts, peer, request, .. } => {
                self.bundles += 1;
                let from: Vec<Caller> = attempts.iter().map(|call| Caller { node, life, call: *call }).collect();
                self.note(|| format!("node {node} asks node {peer} as {attempts:?}: {request:?}"));
                for (caller, message) in from.iter().zip(files_of(&request.message)) {
                    self.new_call(*caller, attempts[0], Source::Peer(peer), &request.clone().with(message));
                }
                self.ask_peer(from, peer.0 as usize, request);
            }
            Effect::Promote { attempt: call, source } => self.promote(Caller { node, life, call }, source),
            Effect::Cancel { attempt: call } => self.cancel(Caller { node, life, call }),
            Effect::Ping { peer, epoch, deadline } => {
                let to = peer.0 as usize;
                self.next_ping += 1;
                let number = self.next_ping;
                self.pings.insert(number);
                self.world.send(node, to, Event::Ping { to, from: node, life, number, epoch });
                self.world.at(deadline, Event::Pong { to: node, life, peer: to, number, alive_in: None });
            }
            Effect::Stale(_) => {}
            Effect::OpenParcel { index, body } => {
                self.world.soon(Event::OpenParcel { at: node, life, index, body });
            }
            Effect::AnswerPeer { ticket, answer } => self.answer_peer(ticket, answer),
            Effect::AnswerKernel { ticket, answer } => self.answered(ticket.0 as usize, answer),
        }
    }

    fn new_call(&mut self, from: Caller, with: AttemptId, source: Source, request: &Request<ReadMessage>) {
        let wanted_since = (request.priority == Priority::Demand).then_some(self.world.now);
        self.calls.insert(from, Call { request: request.message.clone(), source, wanted_since, body: None, with });
    }

    fn ask_peer(&mut self, from: Vec<Caller>, to: NodeIndex, request: Request<ReadMessage>) {
        self.messages += 1;
        self.world.send(from[0].node, to, Event::Ask { to, from, request });
    }

    fn cancel(&mut self, caller: Caller) {
        let Some(call) = self.calls.remove(&caller) else { return };
        let of_node = Caller { call: AttemptId(0), ..caller }..=Caller { call: AttemptId(u64::MAX), ..caller };
        match call.source {
            // Somebody waits for what travels with it.
            Source::Peer(_) if self.calls.range(of_node).any(|(_, other)| other.with == call.with) => {}
            Source::Peer(to) => {
                let (to, from) = (to.0 as usize, Caller { call: call.with, ..caller });
                self.world.send(caller.node, to, Event::PeerCancel { to, from });
            }
            Source::Backing => self.withdraw_turn(caller),
        }
        if let Some(body) = call.body {
            self.world.at(self.world.now, Event::BodyEnd { body, state: State::Failed(Errno::WAY_LOST) });
        }
    }

    pub(crate) fn ask_backing(&mut self, by: Caller, request: &ReadMessage, priority: Priority) {
        if let Err(until) = self.backing_mood() {
            return self.world.at(until, Event::Backing { by, request: request.clone(), priority });
        }
        self.end_operation(by, priority);
        if self.backing_fails_now() {
            return self.world.soon(Event::Answer { to: vec![by], answered: Answered::Failed(Errno::EIO) });
        }
        if let ReadMessage::Parcel { index, .. } = request {
            return self.make_parcel(by, *index);
        }
        let said = self.model.answer(request, &self.versions);
        if !matches!(said, Said::Failed(_) | Said::FileSystem(_)) {
            self.note_asked(by, request);
        }
        let answered = match said {
            Said::Chunk => return self.read_chunk(by, request),
            Said::Listing(listing) => Answered::Listing(listing),
            Said::Entries(records) => Answered::Entries(records),
            Said::FileSystem(sizes) => Answered::FileSystem(sizes),
            Said::Failed(errno) => Answered::Failed(errno),
        };
        self.world.soon(Event::Answer { to: vec![by], answered });
    }

    fn read_chunk(&mut self, by: Caller, request: &ReadMessage) {
        let ReadMessage::Chunk { file, generation, index } = request else { return };
        let bytes = chunk_bytes(generation.size_bytes, *index) as u64;
        let extent = Extent { offset_bytes: index.start_bytes(), len_bytes: bytes };
        let pieces = [Piece { file: file.clone(), generation: *generation, extent }].into();
        let handle = self.new_body(by, None, pieces);
        self.world.soon(Event::BodyStart { to: by, handle });
    }

    pub(crate) fn body_starts(&mut self, to: Caller, handle: Handle) {
        let Some(call) = self.calls.get_mut(&to) else { return };
        let body = handle.id;
        call.body = Some(body);
        let (from, bytes) = (self.bodies[body].from, handle.bytes());
        let wanted = self.with_core(to.node, |core, now| core.handle_body_started(now, to.call, handle, bytes));
        if wanted != Some(true) {
            self.calls.remove(&to);
            return;
        }
        self.bodies[body].has_started = true;
        match self.bodies[body].state {
            State::Growing if from.is_none() => self.world.soon(Event::BodyEnd { body, state: State::Whole }),
            State::Growing => {}
            // The end came before the beginning.
            _ => self.tell_end(body),
        }
    }

    pub(crate) fn body_ends(&mut self, body: usize, state: State) {
        if self.bodies[body].state != State::Growing {
            return;
        }
        if self.bodies[body].from.is_none()
            && let Err(until) = self.backing_mood()
            && state == State::Whole
        {
            return self.world.at(until, Event::BodyEnd { body, state });
        }
        self.bodies[body].state = state;
        if self.bodies[body].has_started {
            self.tell_end(body);
        }
    }

    /// Tells a core, and whoever waits for a body, that it is whole or lost.
    fn tell_end(&mut self, body: usize) {
        let Body { at, state, .. } = self.bodies[body];
        let outcome = match state {
            State::Failed(errno) => Err(errno),
            _ => Ok(()),
        };
        self.calls.remove(&at);
        if self.nodes[at.node].life == at.life {
            self.with_core(at.node, |core, _| core.handle_body_ended(at.call, outcome));
        }
        for watcher in std::mem::take(&mut self.bodies[body].watchers) {
            self.tell(watcher, at.node, state);
        }
    }

    fn tell(&mut self, watcher: Watcher, node: NodeIndex, state: State) {
        match (watcher, state) {
            (Watcher::Next(body), _) => {
                let to = self.bodies[body].at.node;
                self.world.send(node, to, Event::BodyEnd { body, state });
            }
            (Watcher::Read(program, request, parts), State::Whole) => self.answer_read(program, request, parts),
            (Watcher::Read(program, request, _), State::Failed(Errno::WAY_LOST)) => {
                self.world.at(self.world.now.after(AGAIN_AFTER), Event::ReadAgain { program, request });
            }
            (Watcher::Read(program, request, _), State::Failed(errno)) if self.waits(program, request) => {
                self.answered(program, KernelAnswer::Failed(errno));
            }
            (Watcher::Own(ticket, body), _) => {
                drop(self.answer_own(PeerTicket(ticket), PeerAnswer::Body(body)));
            }
            (Watcher::Bundle(ticket, files), _) => self.answer_bundle(ticket, files),
            _ => {}
        }
    }

    fn answer_peer(&mut self, ticket: PeerTicket, answer: PeerAnswer<Handle>) {
        let Some(answer) = self.answer_own(ticket, answer) else { return };
        let answered = match answer {
            PeerAnswer::Body(handle) => return self.send_on(ticket.0, &handle),
            PeerAnswer::Bundle(files) => return self.answer_bundle(ticket.0, files),
            PeerAnswer::Listing(listing) => Answered::Listing(listing),
            PeerAnswer::Entries(records) => Answered::Entries(records.to_vec()),
            PeerAnswer::FileSystem(sizes) => Answered::FileSystem(sizes),
            PeerAnswer::Failed(errno) => Answered::Failed(errno),
            PeerAnswer::Fenced(epoch) => Answered::Fenced(epoch),
        };
        let Some((node, to)) = self.tickets.remove(&ticket.0) else { return };
        self.world.send(node, to[0].node, Event::Answer { to, answered });
    }

    /// Sends a body on while it arrives.
    fn send_on(&mut self, ticket: u64, handle: &Handle) {
        let Some((node, to)) = self.tickets.remove(&ticket) else { return };
        let to = to[0];
        let next = self.new_body(to, Some(node), Arc::clone(&handle.pieces));
        let body = next.id;
        self.world.send(node, to.node, Event::BodyStart { to, handle: next });
        match self.bodies[handle.id].state {
            State::Growing => self.bodies[handle.id].watchers.push(Watcher::Next(body)),
            state => self.world.send(node, to.node, Event::BodyEnd { body, state }),
        }
    }

    /// Sends the files of a bundle in one when they are there or will not come.
    fn answer_bundle(&mut self, ticket: u64, files: Vec<Result<Handle, Errno>>) {
        let mut known = Vec::new();
        for file in &files {
            let state = file.as_ref().map(|handle| (handle.id, self.bodies[handle.id].state));
            known.push(match state {
                Ok((body, State::Growing)) => return self.bodies[body].watchers.push(Watcher::Bundle(ticket, files)),
                Ok((_, State::Failed(errno))) | Err(&errno) => Err(errno),
                Ok((body, State::Whole)) => Ok(Arc::clone(&self.bodies[body].handle.pieces)),
            });
        }
        let Some((node, to)) = self.tickets.remove(&ticket) else { return };
        self.world.send(node, to[0].node, Event::Bundle { to, files: known });
    }

    /// A bundle arrives: bodies of their own for its files.
    pub(crate) fn bundle_arrives(&mut self, to: Vec<Caller>, files: Vec<Result<Arc<[Piece]>, Errno>>) {
        for (to, file) in to.into_iter().zip(files) {
            if self.calls.remove(&to).is_none() {
                continue;
            }
            let file = file.map(|pieces| {
                let handle = self.new_body(to, None, pieces);
                self.bodies[handle.id].state = State::Whole;
                handle
            });
            self.with_core(to.node, |core, now| match file {
                Ok(handle) => {
                    let bytes = handle.bytes();
                    if core.handle_body_started(now, to.call, handle, bytes) {
                        core.handle_body_ended(to.call, Ok(()));
                    }
                }
                Err(errno) => core.handle_answer(now, to.call, Answered::Failed(errno)),
            });
        }
    }

    pub(crate) fn start(&mut self, program: usize) {
        if self.nodes[self.programs[program].node].core.is_none() {
            // Nothing is mounted there.
            self.programs[program].ended = true;
            return;
        }
        self.step(program);
    }

    /// A program's next request.
    fn step(&mut self, program: usize) {
        self.maybe_interrupt(program);
        let now = self.world.now;
        let asking = &mut self.programs[program];
        (asking.asked, asking.waits) = (now, true);
        asking.floor = self.nodes[asking.node].floor.clone();
        asking.requests += 1;
        let (node, inode, extent, number) = (asking.node, asking.inode, asking.extent, asking.requests);
        let name = asking.names.get(asking.at).cloned();
        let path = asking.path(asking.at);
        let kind = self.model.nodes.get(&path).map(|found| found.attributes.kind());
        let request = match (&name, kind) {
            (Some(name), _) => KernelRequest::Lookup { parent: inode, name },
            (None, Some(Kind::File)) => KernelRequest::Read { inode, extent },
            (None, Some(Kind::Symlink)) => KernelRequest::Readlink { inode },
            (None, _) => KernelRequest::Directory { inode },
        };
        self.world.at(now.after(DEADLINE + GRACE), Event::TooLate { program, request: number });
        let ticket = KernelTicket(program as u64);
        let answer = self.with_core(node, |core, now| core.handle_kernel(now, ticket, request)).flatten();
        if let Some(answer) = answer {
            self.answered(program, answer);
        }
    }

    fn waits(&self, program: usize, request: u32) -> bool {
        let asking = &self.programs[program];
        asking.waits && !asking.ended && asking.requests == request
    }

    pub(crate) fn read_again(&mut self, program: usize, request: u32) {
        if !self.waits(program, request) {
            return;
        }
        let asking = &self.programs[program];
        let (node, inode, extent, deadline) = (asking.node, asking.inode, asking.extent, asking.asked.after(DEADLINE));
        let ticket = KernelTicket(program as u64);
        let again = self.with_core(node, |core, now| core.handle_read_again(now, deadline, ticket, inode, extent));
        if let Some(answer) = again.flatten() {
            self.answered(program, answer);
        }
    }

    pub(crate) fn too_late(&mut self, program: usize, request: u32) {
        if self.waits(program, request) {
            self.answered(program, KernelAnswer::Failed(Errno::ETIMEDOUT));
        }
    }

    fn answered(&mut self, program: usize, answer: KernelAnswer<Handle>) {
        if self.programs[program].ended || !self.programs[program].waits {
            return;
        }
        if let KernelAnswer::Read(parts) = answer {
            return self.answer_read(program, self.programs[program].requests, parts);
        }
        self.programs[program].waits = false;
        self.note(|| format!("program {program} is told {answer:?}"));
        self.check_time(program);
        let asking = &self.programs[program];
        if let KernelAnswer::Failed(errno) = answer {
            let path = asking.path(asking.at);
            return self.failed_with(program, &path, errno);
        }
        if asking.has_arrived() {
            return self.check_end(program, &answer);
        }
        let path = asking.path(asking.at + 1);
        match (self.model.nodes.get(&path), answer) {
            (Some(_), KernelAnswer::Entry(entry)) if self.may_be_seen(program, &path, &entry.attributes) => {
                self.programs[program].inode = entry.inode;
                self.programs[program].generation = entry.attributes.generation();
                self.programs[program].at += 1;
                self.step(program);
            }
            (None, KernelAnswer::Absent) => self.programs[program].ended = true,
            (_, answer) => self.is_wrong(program, format!("lookup of {path}: {answer:?}")),
        }
    }

    /// Whether these are a file's attributes in a version that a program may be told: not behind the last refresh.
    fn may_be_seen(&self, program: usize, path: &ViewPath, attributes: &Attributes) -> bool {
        let versions = self.programs[program].floor.of(path)..=self.versions.of(path);
        let version = attributes.mtime.seconds;
        versions.contains(&version) && *attributes == self.model.nodes[path].in_version(version)
    }

    /// Answers a read when all its bytes are there.
    fn answer_read(&mut self, program: usize, request: u32, parts: Vec<Part<Handle>>) {
        if !self.waits(program, request) {
            return;
        }
        let waits_for = parts.iter().map(|part| part.body.id).find(|body| self.bodies[*body].state != State::Whole);
        match waits_for.map(|body| (body, self.bodies[body].state)) {
            Some((body, State::Growing)) => {
                self.bodies[body].watchers.push(Watcher::Read(program, request, parts));
            }
            Some((_, state)) => self.tell(Watcher::Read(program, request, parts), 0, state),
            None => {
                self.programs[program].waits = false;
                self.check_time(program);
                self.check_end(program, &KernelAnswer::Read(parts));
            }
        }
    }

    fn check_time(&mut self, program: usize) {
        let asking = &self.programs[program];
        let took = self.world.now.since(asking.asked);
        let node = asking.node;
        self.note(|| format!("program {program} at node {node} waited {took:?}"));
        let allowed = DEADLINE + GRACE + self.nodes[node].paused;
        if took > allowed {
            self.is_wrong(program, format!("answered after {took:?}"));
        }
        self.longest = self.longest.max(took.saturating_sub(self.nodes[self.programs[program].node].paused));
    }

    fn is_wrong(&mut self, program: usize, what: String) {
        self.note(|| format!("WRONG program {program}: {what}"));
        self.wrong.push(format!("program {program}: {what}"));
        self.programs[program].ended = true;
    }

    fn failed_with(&mut self, program: usize, path: &ViewPath, errno: Errno) {
        self.programs[program].ended = true;
        let unlistable = self.model.nodes.get(path).is_some_and(|node| !node.listable);
        let put_in = self.has_backing_failed && errno == Errno::EIO;
        let under_file = self.programs[program].names.last().is_some_and(|name| name == b"absent");
        match errno {
            Errno::EACCES if unlistable => {}
            Errno::EINTR if self.is_interrupted(program) => {}
            Errno::ENOENT if under_file => {}
            Errno::ESTALE if self.versions.of(path) != self.programs[program].generation.mtime.seconds => {
                self.stale += 1
            }
            _ if put_in => self.failed += 1,
            _ => self.is_wrong(program, format!("{path}: {errno}")),
        }
    }

    fn check_end(&mut self, program: usize, answer: &KernelAnswer<Handle>) {
        let asking = &self.programs[program];
        let path = asking.path(asking.at);
        let node = &self.model.nodes[&path];
        let right = match answer {
            KernelAnswer::Target(target) => *target == node.target,
            KernelAnswer::Directory(listing) => listing
                .entries()
                .map(|entry| entry.name)
                .eq(self.model.children(&path).map(|(child, _)| child.split().unwrap().1.to_vec())),
            KernelAnswer::Read(parts) => {
                let wanted = asking.extent.clamped(node.attributes.size_bytes);
                let mut at = wanted.offset_bytes;
                let in_order = parts.iter().flat_map(pieces_of).all(|piece| {
                    piece.file == path
                        && piece.generation == asking.generation
                        && piece.extent.offset_bytes == std::mem::replace(&mut at, piece.extent.end_bytes())
                });
                in_order && at == wanted.end_bytes()
            }
            _ => false,
        };
        if !right {
            return self.is_wrong(program, format!("{path}: {answer:?}"));
        }
        self.programs[program].ended = true;
    }
}

/// What a bundle asks for, file by file.
fn files_of(bundle: &ReadMessage) -> impl Iterator<Item = ReadMessage> {
    let ReadMessage::Bundle { dir, files } = bundle else { panic!("{bundle:?}") };
    let chunk = |(name, generation): &(Name, Generation)| {
        let file = dir.join(name.as_bytes()).unwrap();
        ReadMessage::Chunk { file, generation: *generation, index: ChunkIndex(0) }
    };
    files.iter().map(chunk)
}
