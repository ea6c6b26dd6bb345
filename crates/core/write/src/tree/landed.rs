//! How far the backing file system has followed.

use forebay_types::{BackingId, FileId, Kind, Name, Rights};
use forebay_wire::journal::{LandedContents, StepOutcome};
use forebay_wire::write::Place;

use super::nodes::{Contents, Node};
use super::state::{Released, Tree};
use crate::extents::Extents;
use crate::landing::{Action, Identified, Removable, Step};

/// The next step on the backing file system. `LeaderEntry::Landed` notes its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Turn {
    /// The number of the step.
    pub step: u64,
    /// The step itself.
    pub action: Action,
    /// Whether its contents have changed or its file has been removed since, so that the step must be skipped.
    pub is_over: bool,
}

impl Tree {
    /// The next step on the backing file system; none if it has followed.
    pub fn next_landing(&mut self) -> Option<Turn> {
        let (step, action) = self.landing.turn()?;
        let is_over = self.is_over(&action);
        Some(Turn { step, action, is_over })
    }

    /// The same with what may be done at once with it: files of which nothing is there yet, `count` at most, and but for the first
    /// of `bytes_max` together.
    pub fn next_landings(&mut self, count: usize, bytes_max: u64) -> Vec<Turn> {
        let Some(first) = self.next_landing() else { return vec![] };
        let appears = |action: &Action| matches!(action, Action::Publish { file, .. } if !self.has_part(*file));
        let is_alone = first.is_over || !appears(&first.action);
        let mut turns = vec![first];
        if is_alone {
            return turns;
        }
        let mut room = bytes_max;
        for (step, action) in self.landing.publications_after_first().take(count - 1) {
            let Action::Publish { file, .. } = &action else { break };
            let size_bytes = self.state(*file).map_or(0, |state| state.attributes.size_bytes);
            if self.is_over(&action) || !appears(&action) || size_bytes > room {
                break;
            }
            room -= size_bytes;
            turns.push(Turn { step, action, is_over: false });
        }
        turns
    }

    /// Whether a file's contents are to land as they are.
    #[must_use]
    pub fn is_flushed(&self, file: FileId) -> bool {
        self.nodes.get(&file).is_some_and(|node| !node.is_dirty) && !self.is_lost(file)
    }

    fn is_over(&self, action: &Action) -> bool {
        match action {
            // Without a name it does not appear anew: others have taken its old name, or the contents.
            Action::Publish { file, .. } => !self.is_flushed(*file) || self.landing.is_kept(*file),
            Action::Update { file, .. } | Action::UpdateUnnamed { file, .. } => !self.is_flushed(*file),
            // A removed file's attributes are not known any more.
            Action::Make { file, kind, .. } => *kind != Kind::Directory && !self.nodes.contains_key(file),
            _ => false,
        }
    }

    /// Where a file lies on the backing file system by now; `None` when it is not there, and for the root.
    #[must_use]
    pub fn backing_place(&self, file: FileId) -> Option<&Place> {
        self.landing.place(file)
    }

    /// All its places there.
    pub fn backing_places(&self, file: FileId) -> impl Iterator<Item = &Place> {
        self.landing.places(file)
    }

    /// Whether a file lies at another place there, too.
    #[must_use]
    pub fn is_elsewhere(&self, file: FileId, place: &Place) -> bool {
        self.landing.is_elsewhere(file, place)
    }

    /// The identity of the file that is at a place there by now.
    #[must_use]
    pub fn backed_at(&self, place: &Place) -> Option<BackingId> {
        self.backed(self.landing.file_at(place)?)
    }

    /// The file of the tree that is at a place there by now.
    #[must_use]
    pub fn file_at(&self, place: &Place) -> Option<FileId> {
        self.landing.file_at(place)
    }

    /// The state of a file on the backing file system, from the entry found at its place.
    #[must_use]
    pub fn identify(&self, file: FileId, found: &BackingId) -> Identified {
        self.landing.identify(file, found)
    }

    /// The ranges that only the backing file system has: offset and length.
    #[must_use]
    pub fn backing_resident_of(&self, file: FileId) -> Vec<(u64, u64)> {
        self.extents(file).map_or_else(|_| vec![], Extents::backing_resident)
    }

    /// Whether the mode and owner that the tree has of a file are to land: programs have set them, or have made the file.
    #[must_use]
    pub fn has_own_rights(&self, file: FileId) -> bool {
        self.nodes.get(&file).is_some_and(|node| node.rights_step.is_some())
    }

    /// How much of a file is as others have left it, since they had changed it when it was to be updated: bytes.
    #[must_use]
    pub fn bytes_of_others(&self, file: FileId) -> u64 {
        self.nodes.get(&file).map_or(0, |node| node.bytes_of_others)
    }

    /// The identity of a file on the backing file system when it was met or made there, or when its contents landed last. It is kept for a
    /// file that has been removed from the tree too, as long as it is there.
    #[must_use]
    pub fn backed(&self, file: FileId) -> Option<BackingId> {
        self.landing.backed(file)
    }

    /// How many bytes a step brings at most.
    #[must_use]
    pub fn bytes_to_land(&self, turn: &Turn) -> u64 {
        let state = turn.action.brings().and_then(|file| self.state(file).ok());
        state.map_or(1, |state| state.attributes.size_bytes.max(1))
    }

    /// Files that are gone, and may be removed before their turn for room: by steps below `end`, `count` at most, and no more of them once
    /// they have so many bytes.
    #[must_use]
    pub fn removable(&self, end: u64, count: usize, bytes: u64) -> Vec<Removable> {
        let gone = self.landing.removable().take_while(|removable| removable.step < end);
        let gone = gone.filter(|removable| !self.nodes.contains_key(&removable.file));
        let mut before = 0;
        let needed = gone.take_while(|removable| {
            let is_needed = before < bytes;
            before += removable.size_bytes.max(1);
            is_needed
        });
        needed.take(count).collect()
    }

    /// The file that is at a place of the backing file system and at no other there, if it has no name any more, and a node has it open or
    /// its contents are to land for other names: its bytes may be nowhere else.
    #[must_use]
    pub fn unlinked_at(&self, place: &Place) -> Option<FileId> {
        let file = self.landing.file_at(place)?;
        let node = self.nodes.get(&file)?;
        let is_needed = !node.open_on.is_empty() || self.landing.is_kept(file);
        let is_unlinked = node.attributes.nlink == 0 && is_needed;
        (is_unlinked && !self.landing.is_elsewhere(file, place)).then_some(file)
    }

    /// Files without a name that nodes have open, and that have drafts through which nothing is to land.
    #[must_use]
    pub fn unlinked_with_drafts(&self) -> Vec<FileId> {
        let is_one = |file: &FileId| self.landing.draft_of(*file).is_some();
        let is_to_land = |file, node: &Node| {
            self.landing.has_changes_for_elsewhere(file) || node.is_dirty && self.landing.has_names_elsewhere(file)
        };
        let unlinked = self.nodes.active().filter(|(_, node)| node.attributes.nlink == 0);
        let unlinked = unlinked.filter(|(file, node)| !is_to_land(**file, node));
        unlinked.map(|(file, _)| *file).filter(is_one).collect()
    }

    /// The directory that is at a place there by now, if one is.
    #[must_use]
    pub fn directory_at(&self, place: &Place) -> Option<FileId> {
        let file = self.landing.file_at(place)?;
        let is_directory = self.nodes.get(&file).is_some_and(|node| matches!(node.contents, Contents::Directory(_)));
        is_directory.then_some(file)
    }

    /// Whether anything of the tree is at a place there by now.
    #[must_use]
    pub fn is_something_at(&self, place: &Place) -> bool {
        self.landing.file_at(place).is_some()
    }

    /// The name that a place has on the backing file system.
    #[must_use]
    pub fn backing_name<'a>(&'a self, place: &'a Place) -> &'a Name {
        self.landing.name_at(place)
    }

    /// Places where others have something, with the names that the tree's files have there.
    #[must_use]
    pub fn set_aside_places(&self) -> Vec<(Place, Name)> {
        self.landing.aside().map(|(place, name)| (place.clone(), name.clone())).collect()
    }

    pub(super) fn copied_on_conflict(&mut self, file: FileId, draft: Option<BackingId>, bytes: u64, rights: Rights) {
        self.landing.copy_on_conflict(file, draft);
        if let Some(node) = self.nodes.get_mut(&file) {
            node.bytes_of_others = bytes;
            rights.give(&mut node.attributes);
            // It appears anew, with these.
            node.rights_step = node.rights_step.or(Some(0));
        }
    }

    pub(super) fn not_there(&mut self, place: &Place) {
        if let Some(file) = self.landing.not_there(place)
            && let Some(node) = self.nodes.get_mut(&file)
        {
            // Without a name it is not to land.
            let is_to_land = node.attributes.nlink > 0;
            node.is_backing_removed = is_to_land
                && matches!(&node.contents, Contents::File(extents) if !extents.backing_resident().is_empty());
        }
    }

    /// Files that have drafts in the directory at a place.
    #[must_use]
    pub fn drafts_at(&self, place: &Place) -> Vec<FileId> {
        self.landing.drafts_at(place).collect()
    }

    /// Above the numbers of all steps so far.
    #[must_use]
    pub fn steps_end(&self) -> u64 {
        self.landing.end()
    }

    /// Steps that the backing file system has not followed.
    #[must_use]
    pub fn steps_to_land(&self) -> usize {
        self.landing.steps_left()
    }

    /// Notes a step's end, whatever has happened in the tree since it was begun.
    pub(super) fn landed(&mut self, step: u64, outcome: StepOutcome, released: &mut Released) {
        // Those before it without anything to be done are over with this.
        if let Some((_, action)) = self.landing.turn().filter(|(turn, _)| *turn == step) {
            self.follow(step, &action, outcome, released);
        }
        self.let_go(released);
    }

    /// Releases the files whose last steps are over.
    pub(super) fn let_go(&mut self, released: &mut Released) {
        for file in self.landing.let_go() {
            self.release_if_unused(file, released);
        }
    }

    /// Whether `let_go` would release a file.
    #[must_use]
    pub fn has_files_to_let_go(&self) -> bool {
        self.landing.has_files_to_let_go()
    }

    /// Whether a file has a name on the backing file system that the tree does not know.
    #[must_use]
    pub fn has_names_elsewhere(&self, file: FileId) -> bool {
        self.landing.has_names_elsewhere(file)
    }

    fn follow(&mut self, step: u64, action: &Action, outcome: StepOutcome, released: &mut Released) {
        match outcome {
            StepOutcome::LeftOut => {
                self.landing.leave_out(step);
                if let Some(file) = action.brings() {
                    self.hold_back(file);
                }
            }
            StepOutcome::Done => {
                self.landing.finish(step);
                match action {
                    Action::Publish { file, .. } => self.has_appeared(*file),
                    Action::SetAttributes { file, .. } => self.attributes_landed(*file, step),
                    _ => {}
                }
            }
            StepOutcome::Made(backed) => {
                self.landing.finish(step);
                if let Action::Make { file, .. } | Action::SetAttributes { file, .. } = action {
                    self.attributes_landed(*file, step);
                    self.landing.set_backed(*file, backed);
                }
            }
            StepOutcome::Contents(contents) => {
                self.landing.finish(step);
                if let Some(file) = action.brings() {
                    self.attributes_landed(file, step);
                    self.contents_landed(file, contents, released);
                }
            }
        }
    }

    /// A file appeared before that was known, and with what it had then: what it has now follows.
    fn has_appeared(&mut self, file: FileId) {
        self.hold_back(file);
        let is_due = self.is_flushed(file) && !self.landing.brings(file);
        let version = self.nodes.get(&file).map(|node| node.version).filter(|_| is_due);
        if let Some(version) = version {
            self.landing.push(Step::Publish { file, version });
        }
    }

    /// Releases these contents from the logs, unless there are newer ones already.
    fn contents_landed(&mut self, file: FileId, landed: LandedContents, released: &mut Released) {
        self.landing.set_backed(file, landed.backed);
        let Some(node) = self.nodes.get_mut(&file) else { return };
        node.is_backing_removed = false;
        node.sent = None;
        if let Contents::File(extents) = &mut node.contents {
            extents.forget_sent();
            if node.version == landed.version {
                if extents.backing_resident().is_empty() {
                    node.bytes_of_others = 0;
                }
                released.extents.extend(extents.written());
                *extents = Extents::over(node.attributes.size_bytes);
                node.attributes.blocks = landed.blocks;
            }
        }
    }
}
