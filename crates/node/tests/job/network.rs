//! Nodes, messages and programs in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use forebay_cache::{CallId, ObjectKind};
use forebay_node::{
    Answered, Effect, KernelAnswer, KernelRequest, KernelTicket, Options, Part, PeerAnswer, PeerTicket, ROOT_INODE,
    ReadPath, Source,
};
use forebay_overlay::Forest;
use forebay_types::{Errno, Extent, Kind, NodeRank, Time, ViewPath, chunk_bytes};
use forebay_wire::Request;

use crate::model::{Model, Random, Said};

const DEADLINE: Duration = Duration::from_secs(30);

/// The handle of a body: which bytes of which files it stands for, one after the other; several for a bundle.
type Handle = Vec<(ViewPath, Extent)>;

#[derive(Clone, Copy, Default)]
pub struct Faults {
    pub backing_error_percent: u64,
    pub lost_percent: u64,
}

/// A program: looks a path up, component by component, then does one thing with it.
pub struct Walk {
    node: usize,
    names: Vec<Vec<u8>>,
    extent: Extent,
    at: usize,
    inode: forebay_node::InodeId,
    started: Time,
    ended: bool,
}

impl Walk {
    pub fn random(model: &Model, nodes: u32, seed: u64, number: u64) -> Self {
        let mut random = Random((seed ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1);
        let paths: Vec<&ViewPath> = model.nodes.keys().collect();
        let path = paths[random.below(paths.len() as u64) as usize];
        let mut names: Vec<Vec<u8>> = path.components().map(<[u8]>::to_vec).collect();
        if random.below(4) == 0 {
            names.push(b"absent".to_vec());
        }
        let extent = Extent { offset_bytes: random.below(6 << 20), len_bytes: random.below(2 << 20) };
        Self::new(random.below(u64::from(nodes)) as usize, names, extent)
    }

    pub fn whole_file(model: &Model, node: usize, number: u64) -> Self {
        let files: Vec<&ViewPath> =
            model.nodes.iter().filter(|(_, node)| node.attributes.kind() == Kind::File).map(|(path, _)| path).collect();
        let path = files[number as usize % files.len()];
        Self::new(node, path.components().map(<[u8]>::to_vec).collect(), Extent { offset_bytes: 0, len_bytes: 6 << 20 })
    }

    fn new(node: usize, names: Vec<Vec<u8>>, extent: Extent) -> Self {
        Self { node, names, extent, at: 0, inode: ROOT_INODE, started: Time(0), ended: false }
    }

    fn path(&self, components: usize) -> ViewPath {
        self.names[..components].iter().fold(ViewPath::root(), |path, name| path.join(name).unwrap())
    }
}

enum Event {
    Request { node: usize, from: usize, call: CallId, request: Request },
    Backing { node: usize, call: CallId, request: Request },
    Answer { node: usize, call: CallId, answered: Answered },
    Body { node: usize, call: CallId, handle: Handle, bytes: usize },
    BodyEnded { node: usize, call: CallId, handle: Handle },
    Interrupt { walk: usize },
}

/// The bytes of files that a part of a body stands for.
fn extents_of(part: &Part<Handle>) -> Vec<(ViewPath, Extent)> {
    let (mut start, from, to) = (0, part.offset_bytes as u64, (part.offset_bytes + part.len_bytes) as u64);
    let mut found = Vec::new();
    for (file, extent) in &part.body {
        let (first, last) = (from.max(start), to.min(start + extent.len_bytes));
        if first < last {
            let offset_bytes = extent.offset_bytes + (first - start);
            found.push((file.clone(), Extent { offset_bytes, len_bytes: last - first }));
        }
        start += extent.len_bytes;
    }
    found
}

pub struct Network<'a> {
    model: &'a Model,
    nodes: Vec<ReadPath<Handle>>,
    walks: Vec<Walk>,
    events: BTreeMap<(Time, u64), Event>,
    peers: BTreeMap<u64, (usize, usize, CallId)>,
    asked: BTreeMap<String, u64>,
    wrong: Vec<String>,
    failed: usize,
    interrupt_every: Option<u64>,
    interrupted: BTreeSet<usize>,
    faults: Faults,
    random: Random,
    now: Time,
    sequence: u64,
    kept_bytes_max: u64,
    bundles: usize,
}

impl<'a> Network<'a> {
    pub fn new(model: &'a Model, nodes: u32, fan_out: u32, seed: u64, budget_bytes: u64, faults: Faults) -> Self {
        let forest = Forest::single(nodes, fan_out).unwrap();
        let options = |rank| Options {
            rank,
            forest: forest.clone(),
            budget_bytes,
            deadline: DEADLINE,
            direct_above_bytes: None,
            anticipate: true,
        };
        Self {
            model,
            nodes: (0..nodes).map(|rank| ReadPath::new(options(NodeRank(rank)))).collect(),
            walks: Vec::new(),
            events: BTreeMap::new(),
            peers: BTreeMap::new(),
            asked: BTreeMap::new(),
            wrong: Vec::new(),
            failed: 0,
            interrupt_every: None,
            interrupted: BTreeSet::new(),
            faults,
            random: Random(seed.rotate_left(17) | 1),
            now: Time(0),
            sequence: 0,
            kept_bytes_max: 0,
            bundles: 0,
        }
    }

    pub fn heal(&mut self) {
        self.faults = Faults::default();
    }

    pub fn interrupt_every(&mut self, count: u64) {
        self.interrupt_every = Some(count);
    }

    pub fn wrong(&self) -> &[String] {
        &self.wrong
    }

    pub fn failed(&self) -> usize {
        self.failed
    }

    pub fn kept_bytes_max(&self) -> u64 {
        self.kept_bytes_max
    }

    pub fn bundles(&self) -> usize {
        self.bundles
    }

    pub fn kept_chunks(&self, node: usize) -> u64 {
        self.nodes[node].kept(ObjectKind::Chunks).entries
    }

    pub fn asked_more_than_once(&self) -> Vec<String> {
        self.asked.iter().filter(|(_, count)| **count > 1).map(|(what, _)| what.clone()).collect()
    }

    /// Runs the programs, all at once, until nothing is under way.
    pub fn run(&mut self, walks: Vec<Walk>) {
        let first = self.walks.len();
        self.walks.extend(walks);
        for walk in first..self.walks.len() {
            self.walks[walk].started = self.now;
            self.step(walk);
        }
        loop {
            let timeout = self.nodes.iter().filter_map(ReadPath::poll_timeout).min();
            let next = self.events.first_key_value().map(|((time, _), _)| *time);
            match (next, timeout) {
                (Some(event), Some(timeout)) if timeout < event => self.time_out(timeout),
                (None, Some(timeout)) => self.time_out(timeout),
                (Some(_), _) => self.next_event(),
                (None, None) => break,
            }
        }
        let hanging = self.walks[first..].iter().filter(|walk| !walk.ended).count();
        if hanging > 0 {
            self.wrong.push(format!("{hanging} programs hang"));
        }
    }

    fn time_out(&mut self, at: Time) {
        self.now = self.now.max(at);
        for node in 0..self.nodes.len() {
            self.nodes[node].handle_timeout(self.now);
            self.drain(node);
        }
    }

    fn next_event(&mut self) {
        let Some(((time, _), event)) = self.events.pop_first() else {
            return;
        };
        self.now = self.now.max(time);
        match event {
            Event::Request { node, from, call, request } => {
                self.sequence += 1;
                let ticket = self.sequence;
                self.peers.insert(ticket, (node, from, call));
                self.nodes[node].handle_peer(self.now, PeerTicket(ticket), request, DEADLINE);
                self.drain(node);
            }
            Event::Backing { node, call, request } => self.backing(node, call, &request),
            Event::Answer { node, call, answered } => {
                self.nodes[node].handle_answer(call, answered);
                self.drain(node);
            }
            Event::Body { node, call, handle, bytes } => {
                if self.nodes[node].handle_body_started(call, handle.clone(), bytes) {
                    self.at_random(Event::BodyEnded { node, call, handle });
                }
                self.drain(node);
            }
            Event::BodyEnded { node, call, handle } => {
                match handle.len() {
                    1 => self.nodes[node].handle_body_ended(call, Ok(())),
                    _ => self.nodes[node]
                        .handle_bundle_ended(call, Ok(handle.into_iter().map(|file| vec![file]).collect())),
                }
                self.drain(node);
            }
            Event::Interrupt { walk } => {
                let node = self.walks[walk].node;
                self.interrupted.insert(walk);
                self.nodes[node].handle_interrupt(KernelTicket(walk as u64));
                self.drain(node);
            }
        }
    }

    fn backing(&mut self, node: usize, call: CallId, request: &Request) {
        if self.random.below(100) < self.faults.backing_error_percent {
            return self.at_random(Event::Answer { node, call, answered: Answered::Failed(Errno::EIO) });
        }
        let said = self.model.answer(request);
        if !matches!(said, Said::Failed(_) | Said::FileSystem(_)) {
            *self.asked.entry(format!("{request:?}")).or_default() += 1;
        }
        let event = match said {
            Said::Chunk => {
                let Request::Chunk { file, generation, index } = request else {
                    return;
                };
                let bytes = chunk_bytes(generation.size_bytes, *index);
                let extent = Extent { offset_bytes: index.start_bytes(), len_bytes: bytes as u64 };
                Event::Body { node, call, handle: vec![(file.clone(), extent)], bytes }
            }
            Said::Listing(listing) => Event::Answer { node, call, answered: Answered::Listing(listing) },
            Said::Entries(records) => Event::Answer { node, call, answered: Answered::Entries(records) },
            Said::FileSystem(sizes) => Event::Answer { node, call, answered: Answered::FileSystem(sizes) },
            Said::Failed(errno) => Event::Answer { node, call, answered: Answered::Failed(errno) },
        };
        self.at_random(event);
    }

    /// Carries out what a node decided.
    fn drain(&mut self, node: usize) {
        self.kept_bytes_max = self.kept_bytes_max.max(self.nodes[node].kept_bytes());
        while let Some(effect) = self.nodes[node].poll_effect() {
            match effect {
                Effect::Fetch { call, source: Source::Backing, request, .. } => {
                    self.at_random(Event::Backing { node, call, request });
                }
                Effect::Fetch { call, source: Source::Peer(to), request, .. } => {
                    self.send(Event::Request { node: to.0 as usize, from: node, call, request });
                }
                Effect::Cancel { .. } | Effect::Stale(_) => {}
                Effect::AnswerPeer { ticket, answer } => self.answer_peer(ticket, answer),
                Effect::AnswerKernel { ticket, answer } => self.answered(ticket.0 as usize, answer),
            }
        }
    }

    fn answer_peer(&mut self, ticket: PeerTicket, answer: PeerAnswer<Handle>) {
        let Some((_, node, call)) = self.peers.remove(&ticket.0) else {
            return;
        };
        let answered = match answer {
            PeerAnswer::Body(handle) => return self.send_body(node, call, handle),
            PeerAnswer::Parts(parts) => {
                return self.send_body(node, call, parts.iter().flat_map(extents_of).collect());
            }
            PeerAnswer::Listing(listing) => Answered::Listing(listing),
            PeerAnswer::Entries(records) => Answered::Entries(records.to_vec()),
            PeerAnswer::FileSystem(sizes) => Answered::FileSystem(sizes),
            PeerAnswer::Failed(errno) => Answered::Failed(errno),
        };
        self.send(Event::Answer { node, call, answered });
    }

    fn send_body(&mut self, node: usize, call: CallId, handle: Handle) {
        let bytes = handle.iter().map(|(_, extent)| extent.len_bytes as usize).sum();
        self.bundles += usize::from(handle.len() > 1);
        self.send(Event::Body { node, call, handle, bytes });
    }

    fn send(&mut self, event: Event) {
        if self.random.below(100) >= self.faults.lost_percent {
            self.at_random(event);
        }
    }

    fn at_random(&mut self, event: Event) {
        self.sequence += 1;
        let time = self.now.after(Duration::from_micros(self.random.below(10_000)));
        self.events.insert((time, self.sequence), event);
    }

    /// A program's next request.
    fn step(&mut self, walk: usize) {
        let ticket = KernelTicket(walk as u64);
        if self.interrupt_every.is_some_and(|every| (walk as u64).is_multiple_of(every)) {
            self.at_random(Event::Interrupt { walk });
        }
        let Walk { node, inode, at, extent, started, .. } = self.walks[walk];
        if self.now.since(started) > DEADLINE * (at as u32 + 3) {
            self.wrong.push(format!("program {walk} waited beyond its deadlines"));
        }
        let name = self.walks[walk].names.get(at).cloned();
        let kind = self.model.nodes.get(&self.walks[walk].path(at)).map(|found| found.attributes.kind());
        let request = match (&name, kind) {
            (Some(name), _) => KernelRequest::Lookup { parent: inode, name },
            (None, Some(Kind::File)) => KernelRequest::Read { inode, extent },
            (None, Some(Kind::Symlink)) => KernelRequest::Readlink { inode },
            (None, _) => KernelRequest::Directory { inode },
        };
        let answer = self.nodes[node].handle_kernel(self.now, ticket, request);
        self.drain(node);
        if let Some(answer) = answer {
            self.answered(walk, answer);
        }
    }

    fn answered(&mut self, walk: usize, answer: KernelAnswer<Handle>) {
        let at = self.walks[walk].at;
        let path = self.walks[walk].path(at.min(self.walks[walk].names.len()));
        if let KernelAnswer::Failed(errno) = answer {
            return self.failed_with(walk, &path, errno);
        }
        if at == self.walks[walk].names.len() {
            self.check_end(walk, &path, answer);
            self.walks[walk].ended = true;
            return;
        }
        let path = self.walks[walk].path(at + 1);
        match (self.model.nodes.get(&path), answer) {
            (Some(node), KernelAnswer::Entry(entry)) if entry.attributes == node.attributes => {
                self.walks[walk].inode = entry.inode;
                self.walks[walk].at += 1;
                self.step(walk);
            }
            (None, KernelAnswer::Absent) => self.walks[walk].ended = true,
            (_, answer) => self.wrong.push(format!("lookup of {path}: {answer:?}")),
        }
    }

    fn failed_with(&mut self, walk: usize, path: &ViewPath, errno: Errno) {
        self.walks[walk].ended = true;
        let unlistable = self.model.nodes.get(path).is_some_and(|node| !node.listable);
        let put_in = self.faults.backing_error_percent > 0 && [Errno::EIO, Errno::ETIMEDOUT].contains(&errno);
        let under_file = errno == Errno::ENOENT && self.walks[walk].names.last().is_some_and(|name| name == b"absent");
        match errno {
            Errno::EACCES if unlistable => {}
            Errno::EINTR if self.interrupted.contains(&walk) => {}
            _ if put_in || under_file => self.failed += usize::from(put_in),
            _ => self.wrong.push(format!("{path}: {errno}")),
        }
    }

    fn check_end(&mut self, walk: usize, path: &ViewPath, answer: KernelAnswer<Handle>) {
        let node = &self.model.nodes[path];
        let right = match &answer {
            KernelAnswer::Target(target) => *target == node.target,
            KernelAnswer::Directory(listing) => listing
                .entries()
                .map(|entry| entry.name)
                .eq(self.model.children(path).map(|(child, _)| child.split().unwrap().1.to_vec())),
            KernelAnswer::Read(parts) => {
                let wanted = self.walks[walk].extent.clamped(node.attributes.size_bytes);
                let mut at = wanted.offset_bytes;
                let in_order = parts.iter().flat_map(extents_of).all(|(file, extent)| {
                    file == *path && extent.offset_bytes == std::mem::replace(&mut at, extent.end_bytes())
                });
                in_order && at == wanted.end_bytes()
            }
            _ => false,
        };
        if !right {
            self.wrong.push(format!("{path}: {answer:?}"));
        }
    }
}
