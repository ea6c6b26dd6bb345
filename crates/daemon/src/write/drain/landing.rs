//! Following the tree on the backing file system.
//!
//! One thread does what is to be done, in the tree's order (`forebay_write::Landing`). A file's contents are written to a draft,
//! read back and compared, and take their name when they are whole and durable. A step that fails is tried again, and later ones
//! wait: the order is the promise.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_types::{Backed, Errno, FileId, Kind, ViewPath};
use forebay_wire::journal::{LandedContents, LeaderEntry, StepOutcome};
use forebay_wire::write::{BURST_ROOT, Place};
use forebay_write::timing::LANDS_AFTER;
use forebay_write::{Action, Recognised, Turn};

use super::conflicts::Conflicts;
use super::drafts;
use super::drain_words;
use super::draining::Draining;
use super::making::Maker;
use super::progress::Progress;
use super::publishing::{self, Publication, Publisher};
use super::rights;
use super::sending::{Meter, Snapshot};
use crate::options::DrainPolicy;
use crate::write::commits::Commits;
use crate::write::contents::Reader;
use crate::write::tree::checkpoint::{self, Parts};
use crate::write::tree::owner::Owner;
use crate::write::tree::paths::{draft_path, landed_attributes};

/// A file that was to land has changed.
const CHANGED: Errno = Errno::EAGAIN;

/// How long nothing happens after something failed.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long the thread waits for a change at most, before it looks whether it is to end; and how often it looks at the store.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The steps that may be followed.
#[derive(Clone, Copy)]
enum Allowed {
    All,
    /// Those before this one: of a drain, whatever the policy.
    Below(u64),
}

impl Allowed {
    fn has(self, step: u64) -> bool {
        match self {
            Self::All => true,
            Self::Below(end) => step < end,
        }
    }
}

/// The thread's state, as others see it.
pub struct Landings {
    owner: Arc<Owner>,
    reader: Arc<Reader>,
    commits: Arc<Commits>,
    draining: Draining,
    publisher: Publisher,
    /// How much is sent.
    pub meter: Arc<Meter>,
    policy: DrainPolicy,
    allowed: Mutex<Allowed>,
    maker: Maker,
    is_ending: AtomicBool,
    trouble: Mutex<Option<String>>,
}

impl Landings {
    pub fn new(owner: &Arc<Owner>, reader: &Arc<Reader>, commits: &Arc<Commits>, policy: DrainPolicy) -> Arc<Self> {
        let meter = Arc::new(Meter::default());
        let allowed = if policy.waits_for_drain() { Allowed::Below(0) } else { Allowed::All };
        let draining = Draining::new(owner, reader, commits, &meter);
        let maker = Maker::new(owner);
        let (owner, reader, commits) = (Arc::clone(owner), Arc::clone(reader), Arc::clone(commits));
        let publisher = Publisher { owner: Arc::clone(&owner), reader: Arc::clone(&reader), meter: Arc::clone(&meter) };
        Arc::new(Self {
            owner,
            reader,
            commits,
            draining,
            publisher,
            meter,
            policy,
            allowed: Mutex::new(allowed),
            maker,
            is_ending: AtomicBool::new(false),
            trouble: Mutex::default(),
        })
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let attempt_bytes = self.meter.attempt_bytes();
        let (steps, landed_steps) = {
            let tree = self.owner.tree();
            (tree.steps_to_land(), tree.steps_end() - tree.steps_to_land() as u64)
        };
        Progress { steps, why: self.trouble().clone(), is_final: false, landed_steps, attempt_bytes }
    }

    /// A drain has begun: all changes until now are followed whatever the policy.
    pub fn allow(&self) {
        let end = self.owner.tree().steps_end();
        let mut allowed = self.allowed();
        if let Allowed::Below(before) = &mut *allowed {
            *before = end.max(*before);
        }
    }

    /// No more is begun.
    pub fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Follows until `end`. May block.
    pub fn follow(&self) {
        let (began, mut looked_at, mut count) = (Instant::now(), Instant::now(), publishing::FILES_MAX);
        let may_have_another = self.owner.local.owns().epoch > 0 && !self.owner.nodes.council().is_empty();
        let lands_after = if may_have_another { LANDS_AFTER } else { Duration::ZERO };
        while !self.is_ending.load(Ordering::Relaxed) {
            if looked_at.elapsed() >= LOOK_EVERY {
                checkpoint::write_if_due(
                    &self.owner.local,
                    Parts { owner: Some(&self.owner), second: None },
                    &self.commits.files,
                );
                self.owner.verify_logs();
                looked_at = Instant::now();
            }
            if self.owner.has_failed() {
                // Refused changes are in the tree, and must not be followed.
                *self.trouble() =
                    Some("the store has failed: nothing can be recorded any more, so nothing lands".to_owned());
                std::thread::sleep(AGAIN_AFTER);
                continue;
            }
            if let Some(why) = self.owner.council.why_not() {
                *self.trouble() = Some(why);
                self.owner.wait_for_change(LOOK_EVERY);
                continue;
            }
            if began.elapsed() < lands_after {
                self.owner.wait_for_change(LOOK_EVERY);
                continue;
            }
            let allowed = *self.allowed();
            let mut turns = self.owner.tree().next_landings(count, publishing::BYTES_MAX);
            turns.retain(|turn| allowed.has(turn.step));
            let taken = self.meter.measure(|| self.owner.nodes.now(), || self.take(&turns));
            // After a failure, steps are taken singly: the one that fails is found.
            count = if taken.is_ok() { publishing::FILES_MAX } else { 1 };
            let sent = taken.and_then(|()| match self.policy {
                DrainPolicy::Auto => self.draining.send_ahead(!turns.is_empty()),
                _ => Ok(false),
            });
            match sent {
                Ok(has_sent) => {
                    *self.trouble() = None;
                    if turns.is_empty() && !has_sent {
                        self.owner.wait_for_change(LOOK_EVERY);
                    }
                }
                Err(_) if self.is_ending.load(Ordering::Relaxed) => return,
                Err(failed) => {
                    tracing::warn!(failed, "landing failed and is tried again");
                    *self.trouble() = Some(failed);
                    std::thread::sleep(AGAIN_AFTER);
                }
            }
        }
    }

    fn allowed(&self) -> std::sync::MutexGuard<'_, Allowed> {
        self.allowed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trouble(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does one thing, or several of which each is a file that appears, and says so to the tree.
    fn take(&self, turns: &[Turn]) -> Result<(), String> {
        let [first, ..] = turns else { return self.let_go() };
        tracing::debug!(?first, turns = turns.len(), "landing");
        let taken = match &first.action {
            Action::Publish { file, .. } if !first.is_over && !self.owner.tree().has_part(*file) => self.publish(turns),
            _ => self.take_one(first),
        };
        // A step whose file programs have removed meanwhile is no failure: the next look sees the present ones.
        taken.or_else(|failed| if self.is_outdated(first) { Ok(()) } else { Err(failed) })
    }

    /// Files whose last steps had nothing to do are released.
    fn let_go(&self) -> Result<(), String> {
        let has_any = self.owner.tree().has_files_to_let_go();
        if has_any { self.has_landed(&LeaderEntry::LetGo) } else { Ok(()) }
    }

    /// Whether something else is to be done next by now than what has failed.
    fn is_outdated(&self, turn: &Turn) -> bool {
        self.owner.tree().next_landing().as_ref() != Some(turn)
    }

    fn take_one(&self, turn: &Turn) -> Result<(), String> {
        let Turn { step, action, is_over } = turn;
        let told = |errno| format!("{}: {errno}", self.told(action));
        // No loss of power or of this node takes back what is followed here.
        self.owner.make_durable().map_err(told)?;
        let conflicts = Conflicts { owner: &self.owner };
        if *is_over {
            // It may have been done and not noted: the last thing that the daemon before this one did, or a file that appeared
            // together with others.
            let may_be_done = match action {
                Action::Publish { .. } => true,
                Action::Make { file, .. } => self.maker.may_be_made(*file),
                _ => !self.maker.has_taken_any(),
            };
            let is_done = may_be_done && conflicts.is_there(action).map_err(told)?;
            return self.landed(*step, if is_done { StepOutcome::Done } else { StepOutcome::LeftOut });
        }
        if let Action::Update { file, .. } | Action::UpdateUnnamed { file, .. } = action
            && let Some(why) = self.owner.why_unverified(*file)
        {
            return Err(format!("{}: {why}", self.told(action)));
        }
        drafts::keep_open(&self.owner, action).map_err(told)?;
        // Last, so that others have little time between this look and what is done.
        if conflicts.make_way(action).map_err(told)? {
            return Ok(());
        }
        let outcome = match (self.act(action), action) {
            (Err(Errno::EEXIST), Action::Make { place, .. }) => {
                return conflicts.set_aside(place).map_err(told);
            }
            (Err(Errno::ENOTEMPTY), Action::Remove { place, is_directory: true }) => {
                return conflicts.gone(place).map_err(told);
            }
            (Err(Errno::ENOENT), action) if conflicts.remake_directories(action).map_err(told)? => {
                return Ok(());
            }
            (Err(Errno::ENOENT | Errno::ESTALE), Action::SetAttributes { .. }) => StepOutcome::LeftOut,
            // A program goes on changing it: the next look finds that it is over.
            (Err(CHANGED), Action::Publish { .. } | Action::Update { .. } | Action::UpdateUnnamed { .. }) => {
                return Ok(());
            }
            (outcome, _) => outcome.map_err(told)?,
        };
        self.landed(*step, outcome)
    }

    fn publish(&self, turns: &[Turn]) -> Result<(), String> {
        let conflicts = Conflicts { owner: &self.owner };
        let mut count = 0;
        for turn in turns {
            let told = |errno| format!("{}: {errno}", self.told(&turn.action));
            drafts::keep_open(&self.owner, &turn.action).map_err(told)?;
            if conflicts.make_way(&turn.action).map_err(told)? {
                break;
            }
            // By the daemon before, which has not said so. After another draft it would be a stranger's.
            if conflicts.is_there(&turn.action).map_err(told)? {
                if count == 0 {
                    self.publisher.complete(&turn.action).map_err(told)?;
                    return self.landed(turn.step, StepOutcome::Done);
                }
                break;
            }
            if let Action::Publish { file, places, .. } = &turn.action {
                let directory = places.first().map(|place| place.directory);
                let directory = directory.filter(|directory| self.owner.tree().backing_place(*directory).is_some());
                drafts::note_draft(&self.owner, *file, directory.unwrap_or(BURST_ROOT)).map_err(told)?;
            }
            count += 1;
        }
        let Some(first) = turns[..count].first() else { return Ok(()) };
        let told = |turn: &Turn, errno| format!("{}: {errno}", self.told(&turn.action));
        self.owner.make_durable().map_err(|errno| told(first, errno))?;
        let published = self.publisher.publish(&turns[..count]);
        let (landed, failed) = match published {
            Ok(Publication { landed, failed }) => (landed, failed),
            Err(errno) => (vec![], Some(errno)),
        };
        let done = landed.len();
        for (turn, contents) in turns.iter().zip(landed) {
            self.landed(turn.step, StepOutcome::Contents(contents))?;
        }
        match failed {
            None => Ok(()),
            Some(Errno::ENOENT)
                if conflicts.remake_directories(&turns[done].action).map_err(|errno| told(&turns[done], errno))? =>
            {
                Ok(())
            }
            Some(errno) => Err(told(&turns[done], errno)),
        }
    }

    fn landed(&self, step: u64, outcome: StepOutcome) -> Result<(), String> {
        self.has_landed(&LeaderEntry::Landed { step, outcome })
    }

    fn has_landed(&self, entry: &LeaderEntry) -> Result<(), String> {
        self.owner.note(entry).map_err(|errno| format!("recording what has landed: {errno}"))?;
        self.maker.note_step();
        self.meter.step();
        Ok(())
    }

    fn act(&self, action: &Action) -> Result<StepOutcome, Errno> {
        let (place, calls) = (&self.owner.local.place, &self.owner.local.calls);
        drafts::save_drafts(&self.owner, action)?;
        match action {
            Action::Make { file, kind, place } => return self.maker.make(*file, *kind, &self.path(place)?),
            Action::Publish { file, places, .. } => {
                return self.publish_sent(action, *file, places).map(StepOutcome::Contents);
            }
            Action::Update { file, place, .. } => {
                return self.update(*file, &self.path(place)?).map(StepOutcome::Contents);
            }
            Action::UpdateUnnamed { file, .. } => return self.update_unnamed(*file),
            Action::Link { file, from, to } => {
                let (from, to) = (self.path(from)?, self.path(to)?);
                let number = self.owner.tree().draft_number(*file);
                calls.land(|| place.link(&from, &to, number))?;
            }
            Action::Rename { from, to, is_exchange } => {
                let ino = self.owner.tree().backed_at(from).map(|backed| backed.generation.ino);
                let (from, to) = (self.path(from)?, self.path(to)?);
                calls.land(|| place.rename(&from, &to, *is_exchange, ino))?;
            }
            Action::Remove { place: at, is_directory } => {
                let path = self.path(at)?;
                calls.land(|| place.remove(&path, *is_directory))?;
            }
            Action::SetAttributes { file, place: at } => {
                return self
                    .set_attributes(*file, &at.as_ref().map_or_else(|| Ok(ViewPath::root()), |at| self.path(at))?);
            }
            Action::Discard { file, .. } => {
                let draft = draft_path(&self.owner.tree(), *file);
                if let Some(draft) = draft {
                    match calls.land(|| place.remove(&draft, false)) {
                        Err(Errno::EISDIR) => {
                            tracing::warn!(%draft, "others have put a directory here; it is left as it is")
                        }
                        removed => removed?,
                    }
                }
            }
        }
        Ok(StepOutcome::Done)
    }

    /// An action in words.
    fn told(&self, action: &Action) -> String {
        drain_words::action(&self.owner, action)
    }

    fn path(&self, place: &Place) -> Result<ViewPath, Errno> {
        self.owner.path_of(place)
    }

    fn set_attributes(&self, file: FileId, path: &ViewPath) -> Result<StepOutcome, Errno> {
        let (attributes, is_own, extended) = {
            let tree = self.owner.tree();
            (landed_attributes(&tree, file), tree.has_own_rights(file), tree.extended_to_land(file).cloned())
        };
        let Some(attributes) = attributes else { return Ok(StepOutcome::Done) };
        let calls = &self.owner.local.calls;
        let held = self.owner.hold(file, path)?;
        let found = held.backed();
        if self.owner.tree().recognise(file, &found) == Recognised::Changed {
            tracing::warn!(%path, "others have changed this file; its mode, owner, times and extended attributes are left as they are");
            return Ok(StepOutcome::LeftOut);
        }
        if let Some(extended) = &extended {
            calls.land(|| held.set_extended(&extended.attributes, Some(&extended.changed)))?;
        }
        // The time of change tells others' changes from ours.
        if found.kind != Kind::File || found.generation.mtime == attributes.mtime {
            rights::give(&self.owner, &held, (&attributes, is_own), path)?;
            // The tree keeps them no longer.
            return extended.map_or(Ok(()), |_| calls.land(|| held.sync())).map(|()| StepOutcome::Done);
        }
        self.owner.note(&LeaderEntry::Changing { file })?;
        self.owner.make_durable()?;
        rights::give(&self.owner, &held, (&attributes, is_own), path)?;
        calls.land(|| held.sync())?;
        let backed = calls.land(|| self.owner.local.place.backed(path))?;
        drafts::check_same(&self.owner, file, &backed)?;
        Ok(StepOutcome::Made(backed))
    }

    /// Publishes a file of which a part was sent ahead.
    fn publish_sent(&self, action: &Action, file: FileId, places: &[Place]) -> Result<LandedContents, Errno> {
        let paths: Vec<ViewPath> = places.iter().map(|place| self.path(place)).collect::<Result<_, _>>()?;
        let Some((first, others)) = paths.split_first() else { return Err(Errno::ENOENT) };
        let mut snapshot = Snapshot::of_settled(&self.owner, file).ok_or(CHANGED)?;
        snapshot.leave_out_sent(&self.owner, file);
        // It may get its name without this being noted.
        self.owner.note(&LeaderEntry::Changing { file })?;
        self.owner.make_durable()?;
        let (place, calls) = (&self.owner.local.place, &self.owner.local.calls);
        let draft = draft_path(&self.owner.tree(), file).ok_or(Errno::ESTALE)?;
        let written = self.write_draft(file, &snapshot, &draft, first).and_then(|is_named| {
            // Others may have put something there while it was written.
            if !is_named && (Conflicts { owner: &self.owner }).make_way(action)? {
                return Err(CHANGED);
            }
            let ino = self.owner.tree().backed(file).map(|backed| backed.generation.ino);
            if is_named { Ok(()) } else { calls.land(|| place.rename(&draft, first, false, ino)) }
        });
        written.or_else(|errno| drafts::begin_anew(&self.owner, file, errno))?;
        let number = self.owner.tree().draft_number(file);
        others.iter().try_for_each(|other| calls.land(|| place.link(first, other, number)))?;
        self.contents(file, first, &snapshot)
    }

    fn update(&self, file: FileId, path: &ViewPath) -> Result<LandedContents, Errno> {
        let snapshot = Snapshot::of_settled(&self.owner, file).ok_or(CHANGED)?;
        self.owner.note(&LeaderEntry::Changing { file })?;
        self.owner.make_durable()?;
        let written = self.write_at(file, &snapshot, path, false);
        written.inspect_err(|_| drafts::note_as_left(&self.owner, file, path))?;
        self.contents(file, path, &snapshot)
    }

    /// Changes a file that only others have names of. Its draft is one, too.
    fn update_unnamed(&self, file: FileId) -> Result<StepOutcome, Errno> {
        let path = draft_path(&self.owner.tree(), file).ok_or(Errno::ESTALE)?;
        let is_as_left = match self.owner.hold(file, &path) {
            Err(Errno::ENOENT | Errno::ESTALE) => false,
            held => self.owner.tree().recognise(file, &held?.backed()) == Recognised::AsLeft,
        };
        if is_as_left {
            return self.update(file, &path).map(StepOutcome::Contents);
        }
        tracing::warn!(%path, "others have changed or removed this file, whose name the job has removed; it is left as it is");
        Ok(StepOutcome::LeftOut)
    }

    /// Whether it has its name already.
    fn write_draft(&self, file: FileId, snapshot: &Snapshot, draft: &ViewPath, to: &ViewPath) -> Result<bool, Errno> {
        let (place, calls) = (&self.owner.local.place, &self.owner.local.calls);
        let backed = self.owner.tree().backed(file);
        // A daemon that died after the renaming has not said so.
        let is_renamed = |at: &Backed| backed.is_some_and(|backed| backed.is_same_file(at));
        let at = match calls.land(|| place.backed(draft)) {
            Err(Errno::ENOENT) if calls.land(|| place.backed(to)).is_ok_and(|found| is_renamed(&found)) => to,
            found => found.map(|_| draft)?,
        };
        self.write_at(file, snapshot, at, true)?;
        Ok(at == to)
    }

    /// Writes to a file that is there: a draft gets all attributes, what others may have changed those that programs have changed.
    fn write_at(&self, file: FileId, snapshot: &Snapshot, path: &ViewPath, is_draft: bool) -> Result<(), Errno> {
        let (held, calls) = (self.owner.hold(file, path)?, &self.owner.local.calls);
        let open = calls.land(|| held.open_to_write())?;
        rights::write_to(&self.owner, file, &held, || snapshot.write_in_place(&self.reader, &self.meter, &open))?;
        if let Some(extended) = &snapshot.extended {
            let names = (!is_draft).then_some(&extended.changed);
            calls.land(|| held.set_extended(&extended.attributes, names))?;
        }
        match is_draft {
            true => rights::give_all(&self.owner, &held, &snapshot.attributes, path)?,
            false => rights::give(&self.owner, &held, (&snapshot.attributes, snapshot.has_own_rights), path)?,
        }
        calls.land(|| open.sync_all()).map_err(|error| Errno::of(&error))?;
        Ok(())
    }

    /// The landed contents at a path. A user who may change its directory can have put another file there meanwhile.
    fn contents(&self, file: FileId, path: &ViewPath, snapshot: &Snapshot) -> Result<LandedContents, Errno> {
        let (backed, blocks) = self.owner.local.calls.land(|| self.owner.local.place.landed(path))?;
        drafts::check_same(&self.owner, file, &backed)?;
        Ok(LandedContents { version: snapshot.version, backed, blocks })
    }
}
