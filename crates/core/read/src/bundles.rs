//! Bundles: small files of one directory, asked for in one message.
//!
//! Each of them is a request like any other, with its own waiters, attempts and errors. Attempts at the same node that are
//! decided at the same time travel together, whatever led to them: a file and its neighbours, what a peer's bundle lacks
//! here, what is asked again because a node is lost. All files of a bundle are of one directory, so of one tree.

use std::collections::VecDeque;

use forebay_cache::Key;
use forebay_dispatch::{AttemptId, Source};
use forebay_types::{ChunkIndex, Errno, Generation, Map, Name, NodeRank, Priority, Time, ViewPath, limits};
use forebay_wire::{ReadMessage, Request};

use crate::effect::{Effect, PeerTicket};

/// The results of a bundle's files so far.
type PendingBundle<B> = Vec<Option<Result<B, Errno>>>;

/// Bundles that peers asked for, of which something is missing.
pub(crate) struct Bundles<B>(Map<PeerTicket, PendingBundle<B>>);

impl<B: Clone> Bundles<B> {
    pub fn new() -> Self {
        Self(Map::default())
    }

    /// Begins one with what is here: the files that it lacks, by their places.
    pub fn begin(&mut self, ticket: PeerTicket, here: Vec<Option<B>>) -> Vec<usize> {
        let missing = (0..here.len()).filter(|slot| here[*slot].is_none()).collect();
        self.0.insert(ticket, here.into_iter().map(|body| body.map(Ok)).collect());
        missing
    }

    /// A file is here, or will not come.
    pub fn fill(&mut self, ticket: PeerTicket, slot: usize, file: Result<B, Errno>) {
        if let Some(bundle) = self.0.get_mut(&ticket) {
            bundle[slot] = Some(file);
        }
    }

    /// All files of a bundle that lacks nothing.
    pub fn take_complete(&mut self, ticket: PeerTicket) -> Option<Vec<Result<B, Errno>>> {
        self.0.get(&ticket).filter(|bundle| bundle.iter().all(Option::is_some))?;
        Some(self.0.remove(&ticket)?.into_iter().flatten().collect())
    }

    /// Whether one waited.
    pub fn remove(&mut self, ticket: PeerTicket) -> bool {
        self.0.remove(&ticket).is_some()
    }
}

/// The chunks that a bundle asks for; `None` where a path would be too long.
pub(crate) fn files_of(dir: &ViewPath, files: &[(Name, Generation)]) -> Option<Vec<Key>> {
    let chunk = |(name, generation): &(Name, Generation)| {
        let file = dir.join(name.as_bytes()).ok()?;
        Some(Key::Chunk { file, generation: *generation, index: ChunkIndex(0) })
    };
    files.iter().map(chunk).collect()
}

/// Has an attempt made: in the message of the last one that was decided, where both may travel together; whether they do.
pub(crate) fn push_fetch<B>(
    effects: &mut VecDeque<Effect<B>>,
    attempt: AttemptId,
    source: Source,
    request: Request<ReadMessage>,
    deadline: Time,
) -> bool {
    if let (Some(file), Some(last)) = (BundleFile::of(source, &request.message), effects.back_mut())
        && file.join(last, attempt, request.priority, deadline)
    {
        return true;
    }
    effects.push_back(Effect::Fetch { attempt, source, request, deadline });
    false
}

/// A file that may travel in a bundle.
struct BundleFile {
    peer: NodeRank,
    dir: ViewPath,
    file: (Name, Generation),
}

impl BundleFile {
    fn of(source: Source, message: &ReadMessage) -> Option<Self> {
        let (Source::Peer(peer), ReadMessage::Chunk { file, generation, index: ChunkIndex(0) }) = (source, message)
        else {
            return None;
        };
        let (dir, name) = file.split().filter(|_| generation.size_bytes <= limits::BUNDLE_FILE_BYTES_MAX)?;
        Some(Self { peer, dir, file: (Name::new(name).ok()?, *generation) })
    }

    /// Joins an attempt that has not been made yet. `false` if they may not travel together.
    fn join<B>(self, last: &mut Effect<B>, attempt: AttemptId, priority: Priority, deadline: Time) -> bool {
        if let Effect::Fetch { attempt: first, source, request, deadline: until } = last
            && let Some(other) =
                Self::of(*source, &request.message).filter(|other| self.is_with(other.peer, &other.dir))
        {
            let bundle = ReadMessage::Bundle { dir: other.dir, files: vec![other.file] };
            let request = request.clone().with(bundle);
            *last = Effect::FetchBundle { attempts: vec![*first], peer: other.peer, request, deadline: *until };
        }
        let Effect::FetchBundle { attempts, peer, request, deadline: until } = last else { return false };
        let ReadMessage::Bundle { dir, files } = &mut request.message else { return false };
        let bytes: u64 = files.iter().chain([&self.file]).map(|(_, generation)| generation.size_bytes).sum();
        let has_room = files.len() < limits::BUNDLE_FILES_MAX && bytes <= limits::BUNDLE_BYTES_MAX;
        if !has_room || !self.is_with(*peer, dir) {
            return false;
        }
        files.push(self.file);
        attempts.push(attempt);
        (request.priority, *until) = (request.priority.max(priority), (*until).max(deadline));
        true
    }

    fn is_with(&self, peer: NodeRank, dir: &ViewPath) -> bool {
        self.peer == peer && self.dir == *dir
    }
}
