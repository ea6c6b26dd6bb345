//! Bundles: small files of one directory, asked for in one message.
//!
//! Each of them is a request like any other, with its own waiters, attempts and errors. Attempts at the same node that are
//! decided at the same time travel together, whatever led to them: a file and its neighbours, what a peer's bundle lacks
//! here, what is asked again because a node is lost. All files of a bundle are of one directory, so of one tree.

use forebay_cache::Key;
use forebay_dispatch::{AttemptId, Source};
use forebay_types::{ChunkIndex, Errno, Generation, Name, NodeRank, Priority, Time, ViewPath, limits};
use forebay_wire::{ReadMessage, Request};

use super::{ReadPath, Waiter};
use crate::{Effect, PeerAnswer, PeerTicket};

/// A peer's bundle of which something is missing: what became of each file so far.
pub(super) type PendingBundle<B> = Vec<Option<Result<B, Errno>>>;

impl<B: Clone> ReadPath<B> {
    /// Answers a peer that asks for a bundle, from what is here and what is asked for.
    pub(super) fn serve_bundle(
        &mut self,
        deadline: Time,
        ticket: PeerTicket,
        message: &ReadMessage,
        priority: Priority,
    ) {
        let ReadMessage::Bundle { dir, files } = message else { return };
        let chunk = |(name, generation): &(Name, Generation)| {
            let file = dir.join(name.as_bytes()).ok()?;
            Some(Key::Chunk { file, generation: *generation, index: ChunkIndex(0) })
        };
        let Some(keys) = files.iter().map(chunk).collect::<Option<Vec<Key>>>() else {
            return self.tell_peer(ticket, PeerAnswer::Failed(Errno::ENAMETOOLONG));
        };
        let here = |key: &Key| self.find_chunk_for_peer(key).map(|chunk| Ok(chunk.body));
        let bundle: PendingBundle<B> = keys.iter().map(here).collect();
        let missing: Vec<usize> = (0..keys.len()).filter(|slot| bundle[*slot].is_none()).collect();
        self.pending_bundles.insert(ticket, bundle);
        keys.iter().for_each(|key| self.note_used(key));
        for slot in missing {
            let (key, waiter) = (keys[slot].clone(), Waiter::BundleFile { ticket, slot });
            if let Some(message) = key.message() {
                self.ask(key, message, priority, deadline, Some(waiter));
            }
        }
        self.answer_bundle(ticket);
    }

    /// A file of a peer's bundle is here, or will not come.
    pub(super) fn fill_bundle(&mut self, ticket: PeerTicket, slot: usize, file: Result<B, Errno>) {
        if let Some(bundle) = self.pending_bundles.get_mut(&ticket) {
            bundle[slot] = Some(file);
            self.answer_bundle(ticket);
        }
    }

    /// Answers with a bundle that lacks nothing.
    fn answer_bundle(&mut self, ticket: PeerTicket) {
        let is_complete = |bundle: &PendingBundle<B>| bundle.iter().all(Option::is_some);
        if self.pending_bundles.get(&ticket).is_some_and(is_complete) {
            let files = self.pending_bundles.remove(&ticket).into_iter().flatten().flatten().collect();
            self.tell_peer(ticket, PeerAnswer::Bundle(files));
        }
    }

    /// Has an attempt made: in the message of the last one that was decided, where both may travel together.
    pub(super) fn fetch(&mut self, attempt: AttemptId, source: Source, request: Request<ReadMessage>, deadline: Time) {
        if let (Some(file), Some(last)) = (BundleFile::of(source, &request.message), self.effects.back_mut())
            && file.join(last, attempt, request.priority, deadline)
        {
            self.counters.bundled += 1;
            return;
        }
        self.effects.push_back(Effect::Fetch { attempt, source, request, deadline });
    }
}

/// What may travel in a bundle.
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
