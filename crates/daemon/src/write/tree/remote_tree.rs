//! The tree on a node that does not own it: the owner is asked, unless it has told the same lately (`forebay_write::Known`).

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_types::{Errno, FileId, NodeRank, Time};
use forebay_wire::write::{Caller, Change, Done, FileState, Place};
use forebay_wire::write_message::{Contents, Entries, Question, Told, WriteMessage};
use forebay_write::{Found, Known};

use crate::write::remote::{Nodes, SENSELESS};

/// So far on is asked where the bytes of a file are.
const CONTENTS_AHEAD_BYTES: u64 = 8 << 20;

/// See the module.
pub struct RemoteTree {
    nodes: Arc<Nodes>,
    known: Mutex<Known>,
    /// Epoch of the owner that has told it.
    epoch: AtomicU64,
}

impl RemoteTree {
    pub fn new(nodes: &Arc<Nodes>) -> Self {
        let epoch = AtomicU64::new(nodes.owns().epoch);
        Self { nodes: Arc::clone(nodes), known: Mutex::default(), epoch }
    }

    /// See `TreeLink`.
    pub fn carry_out(&self, change: &Change) -> Result<Done, Errno> {
        let changing = self.known().begin(self.now(), &change.operation);
        let told = self.nodes.change(change);
        if told.is_err() {
            self.known().stop();
        }
        let outcome = told.and_then(|outcome| outcome);
        self.known().end(self.now(), &changing, &change.operation, outcome.as_ref().map_err(|errno| *errno));
        outcome
    }

    /// Asks the owner, which tells of changes afterwards if the answer `is_leased`.
    ///
    /// # Errors
    /// The error for the program.
    pub fn ask(&self, caller: &Caller, question: Question, is_leased: bool) -> Result<Told, Errno> {
        self.nodes.ask_owner(&WriteMessage::Question { caller: caller.clone(), question, is_leased })?
    }

    /// The same by a task, for the daemon itself.
    ///
    /// # Errors
    /// As `ask`.
    pub async fn ask_by_task(&self, question: Question) -> Result<Told, Errno> {
        let message = WriteMessage::Question { caller: Caller::default(), question, is_leased: false };
        self.nodes.answer_of_owner::<Result<Told, Errno>>(&message).await?
    }

    pub fn lookup(&self, caller: &Caller, place: Place) -> Result<FileState, Errno> {
        let found = self.known().lookup(self.now(), caller, &place);
        match found {
            Found::Answer(answer) => return answer,
            Found::File(file) => return self.state(file),
            Found::Unknown => {}
        }
        // The directory's search rights are needed for what comes after this.
        if self.known().rights(self.now(), place.directory).is_none() {
            self.state(place.directory)?;
        }
        let asked = self.known().ask(self.now(), place.directory);
        let told = self.ask(caller, Question::Lookup { place: place.clone() }, asked.is_leased);
        let state = match told {
            Ok(Told::State(state)) => Ok(state),
            Ok(_) => return Err(SENSELESS),
            Err(errno) => Err(errno),
        };
        if matches!(state, Ok(_) | Err(Errno::ENOENT)) {
            self.known().told_name(self.now(), asked, &place, state.ok());
        }
        state
    }

    pub fn state(&self, file: FileId) -> Result<FileState, Errno> {
        let known = self.known().state(self.now(), file);
        if let Some((state, _)) = known {
            return Ok(state);
        }
        let asked = self.known().ask(self.now(), file);
        match self.ask(&Caller::default(), Question::State { file }, asked.is_leased)? {
            Told::State(state) => {
                self.known().told_state(self.now(), asked, state);
                Ok(state)
            }
            _ => Err(SENSELESS),
        }
    }

    /// See `TreeLink`.
    pub fn knows(&self, file: FileId) -> bool {
        self.known().state(self.now(), file).is_some()
    }

    /// See `TreeLink`.
    pub fn leased_state(&self, file: FileId) -> Result<(FileState, Duration), Errno> {
        let state = self.state(file)?;
        // It may have been forgotten since.
        let known = self.known().state(self.now(), file);
        Ok(known.map_or((state, Duration::ZERO), |(state, until)| (state, until.since(self.now()))))
    }

    /// See `TreeLink`.
    pub fn check_access(&self, caller: &Caller, file: FileId, wanted: u32) -> Result<(), Errno> {
        let rights = self.known().rights(self.now(), file);
        let attributes = match rights {
            Some(attributes) => attributes,
            None => self.state(file)?.attributes,
        };
        forebay_write::check_access(caller, &attributes, wanted)
    }

    pub fn list(&self, directory: FileId) -> Result<Entries, Errno> {
        let asked = self.known().ask(self.now(), directory);
        match self.ask(&Caller::default(), Question::List { directory }, asked.is_leased)? {
            Told::Entries(entries) => {
                self.known().told_entries(self.now(), asked, &entries);
                Ok(entries)
            }
            _ => Err(SENSELESS),
        }
    }

    /// See `TreeLink`.
    pub fn contents(&self, file: FileId, range: Range<u64>) -> Result<Contents, Errno> {
        if let Some(contents) = self.known_contents(file, &range) {
            return Ok(contents);
        }
        // A reader in order reads on.
        let wider = range.start..range.start.saturating_add(CONTENTS_AHEAD_BYTES).max(range.end);
        let asked = self.known().ask(self.now(), file);
        let asked_for = if asked.is_leased { wider } else { range.clone() };
        let question = Question::Contents { file, range: asked_for.clone() };
        let Told::Contents(mut contents) = self.ask(&Caller::default(), question, asked.is_leased)? else {
            return Err(SENSELESS);
        };
        self.known().told_contents(self.now(), asked, asked_for, &contents);
        contents.pieces = contents.pieces.iter().filter_map(|piece| piece.part(range.clone())).collect();
        Ok(contents)
    }

    /// See `TreeLink`.
    pub fn known_contents(&self, file: FileId, range: &Range<u64>) -> Option<Contents> {
        self.known().contents(self.now(), file, range)
    }

    /// Bytes of a file are not where the owner has told.
    pub fn drop_places(&self, file: FileId) {
        self.known().drop_places(file);
    }

    /// See `TreeLink`.
    pub fn rescue(&self, node: NodeRank) -> Result<bool, Errno> {
        self.nodes.ask_owner::<Result<bool, Errno>>(&WriteMessage::Rescue { node })?
    }

    /// The owner tells that files are not what they were; none means all.
    pub fn forget(&self, files: &[FileId]) {
        self.known().forget(self.now(), files);
    }

    fn now(&self) -> Time {
        self.nodes.now()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let epoch = self.nodes.owns().epoch;
        if self.epoch.swap(epoch, Ordering::Relaxed) != epoch {
            // The owner knows nothing of what the one before has told.
            known.forget(self.now(), &[]);
        }
        known
    }
}
