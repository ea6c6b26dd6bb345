//! The tree on a node that does not own it: the leader is asked, unless it has told the same lately (`forebay_write::MetadataCache`).

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_types::{Errno, FileId, NodeRank, Time};
use forebay_wire::write::{Caller, Change, Done, FileState, Place};
use forebay_wire::write_message::{Answer, Contents, Entries, Question, WriteMessage};
use forebay_write::{Found, MetadataCache};

use crate::write::remote::{Nodes, UNEXPECTED_REPLY};

/// So far on is asked where the bytes of a file are.
const CONTENTS_AHEAD_BYTES: u64 = 8 << 20;

/// See the module.
pub struct RemoteTree {
    pub(super) nodes: Arc<Nodes>,
    known: Mutex<MetadataCache>,
    /// Epoch of the leader that has told it.
    term: AtomicU64,
}

impl RemoteTree {
    pub fn new(nodes: &Arc<Nodes>) -> Self {
        let term = AtomicU64::new(nodes.leadership().term);
        Self { nodes: Arc::clone(nodes), known: Mutex::default(), term }
    }

    /// See `TreeLink`.
    pub async fn carry_out(&self, change: &Change) -> Result<Done, Errno> {
        let changing = self.known().begin(self.now(), &change.operation);
        let told = self.nodes.change(change).await;
        if told.is_err() {
            self.known().stop();
        }
        let outcome = told.and_then(|outcome| outcome);
        self.known().end(self.now(), &changing, &change.operation, outcome.as_ref().map_err(|errno| *errno));
        outcome
    }

    /// Asks the leader, which tells of changes afterwards if the answer `is_leased`.
    ///
    /// # Errors
    /// The error for the program.
    pub async fn ask(&self, caller: &Caller, question: Question, is_leased: bool) -> Result<Answer, Errno> {
        self.nodes.ask_leader(&WriteMessage::Question { caller: caller.clone(), question, is_leased }).await?
    }

    pub async fn lookup(&self, caller: &Caller, place: Place) -> Result<FileState, Errno> {
        let found = self.known().lookup(self.now(), caller, &place);
        match found {
            Found::Answer(answer) => return answer,
            Found::File(file) => return self.state(file).await,
            Found::Unknown => {}
        }
        // The directory's search rights are needed for what comes after this.
        if self.known().rights(self.now(), place.directory).is_none() {
            self.state(place.directory).await?;
        }
        let asked = self.known().ask(self.now(), place.directory);
        let told = self.ask(caller, Question::Lookup { place: place.clone() }, asked.is_leased).await;
        let state = match told {
            Ok(Answer::State(state)) => Ok(state),
            Ok(_) => return Err(UNEXPECTED_REPLY),
            Err(errno) => Err(errno),
        };
        if matches!(state, Ok(_) | Err(Errno::ENOENT)) {
            self.known().told_name(self.now(), asked, &place, state.ok());
        }
        state
    }

    pub async fn state(&self, file: FileId) -> Result<FileState, Errno> {
        let known = self.known().state(self.now(), file);
        if let Some((state, _)) = known {
            return Ok(state);
        }
        let asked = self.known().ask(self.now(), file);
        match self.ask(&Caller::default(), Question::State { file }, asked.is_leased).await? {
            Answer::State(state) => {
                self.known().told_state(self.now(), asked, state);
                Ok(state)
            }
            _ => Err(UNEXPECTED_REPLY),
        }
    }

    /// See `TreeLink`.
    pub async fn leased_state(&self, file: FileId) -> Result<(FileState, Duration), Errno> {
        let state = self.state(file).await?;
        // It may have been forgotten since.
        let known = self.known().state(self.now(), file);
        Ok(known.map_or((state, Duration::ZERO), |(state, until)| (state, until.since(self.now()))))
    }

    /// See `TreeLink`.
    pub async fn check_access(&self, caller: &Caller, file: FileId, wanted: u32) -> Result<(), Errno> {
        let rights = self.known().rights(self.now(), file);
        let attributes = match rights {
            Some(attributes) => attributes,
            None => self.state(file).await?.attributes,
        };
        forebay_write::check_access(caller, &attributes, wanted)
    }

    pub async fn list(&self, directory: FileId) -> Result<Entries, Errno> {
        let asked = self.known().ask(self.now(), directory);
        match self.ask(&Caller::default(), Question::List { directory }, asked.is_leased).await? {
            Answer::Entries(entries) => {
                self.known().told_entries(self.now(), asked, &entries);
                Ok(entries)
            }
            _ => Err(UNEXPECTED_REPLY),
        }
    }

    /// See `TreeLink`.
    pub async fn contents(&self, file: FileId, range: Range<u64>) -> Result<Contents, Errno> {
        let known = self.known().contents(self.now(), file, &range);
        if let Some(contents) = known {
            return Ok(contents);
        }
        // A reader in order reads on.
        let wider = range.start..range.start.saturating_add(CONTENTS_AHEAD_BYTES).max(range.end);
        let asked = self.known().ask(self.now(), file);
        let asked_for = if asked.is_leased { wider } else { range.clone() };
        let question = Question::Contents { file, range: asked_for.clone() };
        let Answer::Contents(mut contents) = self.ask(&Caller::default(), question, asked.is_leased).await? else {
            return Err(UNEXPECTED_REPLY);
        };
        self.known().told_contents(self.now(), asked, asked_for, &contents);
        contents.pieces = contents.pieces.iter().filter_map(|piece| piece.part(range.clone())).collect();
        Ok(contents)
    }

    /// Bytes of a file are not where the leader has told.
    pub fn drop_places(&self, file: FileId) {
        self.known().drop_places(file);
    }

    /// See `TreeLink`.
    pub async fn failover(&self, node: NodeRank) -> Result<bool, Errno> {
        self.nodes.ask_leader::<Result<bool, Errno>>(&WriteMessage::Failover { node }).await?
    }

    /// The leader tells that files are not what they were; none means all.
    pub fn invalidate(&self, files: &[FileId]) {
        self.known().invalidate(self.now(), files);
    }

    fn now(&self) -> Time {
        self.nodes.now()
    }

    fn known(&self) -> MutexGuard<'_, MetadataCache> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let term = self.nodes.leadership().term;
        if self.term.swap(term, Ordering::Relaxed) != term {
            // The leader knows nothing of what the one before has told.
            known.invalidate(self.now(), &[]);
        }
        known
    }
}
