//! The steps of a drain: each is done, or turns out to be done, or gives way to what others have done, and is noted in the tree.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_types::{Errno, FileId, ViewPath};
use forebay_wire::journal::{LeaderEntry, StepOutcome};
use forebay_wire::write::{BURST_ROOT, Place};
use forebay_write::{Action, Turn};

use super::conflicts::Conflicts;
use super::drafts;
use super::drain_messages;
use super::failure::Failure;
use super::in_place::{CHANGED, InPlace};
use super::making::Maker;
use super::meter::Meter;
use super::publishing::{Publication, Publisher};
use crate::write::contents::Reader;
use crate::write::tree::leader::Leader;
use crate::write::tree::paths::draft_path;

/// See the module.
pub struct Steps {
    leader: Arc<Leader>,
    /// Where it all lands.
    backing: PathBuf,
    meter: Arc<Meter>,
    publisher: Publisher,
    in_place: InPlace,
    maker: Maker,
}

impl Steps {
    /// Steps in the directory `backing`.
    pub fn new(leader: &Arc<Leader>, backing: &Path, reader: &Arc<Reader>, meter: &Arc<Meter>) -> Self {
        let (maker, meter, reader) = (Maker::new(leader), Arc::clone(meter), Arc::clone(reader));
        let publisher =
            Publisher { leader: Arc::clone(leader), reader: Arc::clone(&reader), meter: Arc::clone(&meter) };
        let in_place = InPlace { leader: Arc::clone(leader), reader, meter: Arc::clone(&meter) };
        Self { leader: Arc::clone(leader), backing: backing.to_owned(), meter, publisher, in_place, maker }
    }

    /// Does one thing, or several of which each is a file that appears, and says so to the tree.
    pub async fn take(&self, turns: &[Turn]) -> Result<(), Failure> {
        let [first, ..] = turns else { return self.let_go().await };
        tracing::debug!(?first, turns = turns.len(), "landing");
        let is_whole = |file| !first.is_over && !self.leader.tree().has_part(file);
        let taken = match &first.action {
            Action::Publish { file, .. } if is_whole(*file) => self.publish(turns).await,
            _ => self.take_one(first).await,
        };
        // A step whose file programs have removed meanwhile is no failure: the next look sees the present ones.
        taken.or_else(|failed| if self.is_outdated(first) { Ok(()) } else { Err(failed) })
    }

    /// Files whose last steps had nothing to do are released.
    async fn let_go(&self) -> Result<(), Failure> {
        let has_any = self.leader.tree().has_files_to_let_go();
        // No step has this number: one that a program adds meanwhile stays.
        if has_any { self.landed(u64::MAX, StepOutcome::LeftOut).await } else { Ok(()) }
    }

    /// Whether something else is to be done next by now than what has failed.
    fn is_outdated(&self, turn: &Turn) -> bool {
        self.leader.tree().next_landing().as_ref() != Some(turn)
    }

    async fn take_one(&self, turn: &Turn) -> Result<(), Failure> {
        let Turn { step, action, is_over } = turn;
        let told = |errno| Failure::of(self.told(action), errno);
        // No loss of power or of this node takes back what is followed here.
        self.leader.make_durable().await.map_err(told)?;
        let conflicts = Conflicts { leader: &self.leader };
        if *is_over {
            // It may have been done and not noted: the last thing that the daemon before this one did, or a file that appeared
            // together with others.
            let may_be_done = match action {
                Action::Publish { .. } => true,
                Action::Make { file, .. } => self.maker.may_be_made(*file),
                _ => !self.maker.has_taken_any(),
            };
            let is_done = may_be_done && conflicts.is_there(action).await.map_err(told)?;
            return self.landed(*step, if is_done { StepOutcome::Done } else { StepOutcome::LeftOut }).await;
        }
        if let Action::Update { file, .. } | Action::UpdateUnnamed { file, .. } = action
            && let Some(why) = self.leader.why_unverified(*file)
        {
            return Err(Failure::because(format!("{}: {why}", self.told(action))));
        }
        drafts::keep_open(&self.leader, action).await.map_err(told)?;
        // Last, so that others have little time between this look and what is done.
        if conflicts.make_way(action).await.map_err(told)? {
            return Ok(());
        }
        let outcome = match (self.act(action).await, action) {
            (Err(Errno::EEXIST), Action::Make { place, .. }) => {
                return conflicts.set_aside(place).await.map_err(told);
            }
            (Err(Errno::ENOTEMPTY), Action::Remove { place, is_directory: true }) => {
                return conflicts.removed_externally(place).await.map_err(told);
            }
            (Err(Errno::ENOENT | Errno::ESTALE), Action::SetAttributes { .. }) => StepOutcome::LeftOut,
            // A program goes on changing it: the next look finds that it is over.
            (Err(CHANGED), Action::Publish { .. } | Action::Update { .. } | Action::UpdateUnnamed { .. }) => {
                return Ok(());
            }
            (Err(Errno::ENOENT), action) if conflicts.remake_directories(action).await.map_err(told)? => {
                return Ok(());
            }
            (outcome, _) => outcome.map_err(told)?,
        };
        self.landed(*step, outcome).await
    }

    async fn publish(&self, turns: &[Turn]) -> Result<(), Failure> {
        let conflicts = Conflicts { leader: &self.leader };
        let told = |turn: &Turn, errno| Failure::of(self.told(&turn.action), errno);
        let places: Vec<Place> = turns.iter().flat_map(|turn| places_of(&turn.action)).cloned().collect();
        let found = conflicts.at_all(&places).await.map_err(|errno| told(&turns[0], errno))?;
        let (mut rest, mut begun) = (&found[..], vec![]);
        for turn in turns {
            let told = |errno| told(turn, errno);
            let Action::Publish { file, places, .. } = &turn.action else { break };
            let (found, after) = rest.split_at(places.len());
            rest = after;
            drafts::keep_open(&self.leader, &turn.action).await.map_err(told)?;
            if conflicts.set_aside_taken(*file, places, found).await.map_err(told)? {
                break;
            }
            // By the daemon before, which has not said so. After another draft it would be a stranger's.
            if conflicts.is_among(*file, found) {
                if begun.is_empty() {
                    self.publisher.complete(&turn.action).await.map_err(told)?;
                    return self.landed(turn.step, StepOutcome::Done).await;
                }
                break;
            }
            let directory = {
                let tree = self.leader.tree();
                let directory = places.first().map(|place| place.directory);
                directory.filter(|directory| tree.backing_place(*directory).is_some())
            };
            drafts::note_draft(&self.leader, *file, directory.unwrap_or(BURST_ROOT)).await.map_err(told)?;
            begun.push((&turn.action, found.first().copied().flatten()));
        }
        let Some(first) = turns.first().filter(|_| !begun.is_empty()) else { return Ok(()) };
        self.leader.make_durable().await.map_err(|errno| told(first, errno))?;
        let published = self.publisher.publish(&begun).await;
        let (landed, failed) = match published {
            Ok(Publication { landed, failed }) => (landed, failed),
            Err(errno) => (vec![], Some(errno)),
        };
        let done = landed.len();
        for (turn, contents) in turns.iter().zip(landed) {
            self.landed(turn.step, StepOutcome::Contents(contents)).await?;
        }
        let Some(errno) = failed else { return Ok(()) };
        let failed = &turns[done];
        let is_remade = errno == Errno::ENOENT
            && conflicts.remake_directories(&failed.action).await.map_err(|errno| told(failed, errno))?;
        if is_remade { Ok(()) } else { Err(told(failed, errno)) }
    }

    async fn landed(&self, step: u64, outcome: StepOutcome) -> Result<(), Failure> {
        let landed = LeaderEntry::Landed { step, outcome };
        self.leader
            .note_found(landed)
            .await
            .map_err(|errno| Failure::because(format!("recording what has landed: {errno}")))?;
        self.maker.note_step();
        self.meter.step();
        Ok(())
    }

    async fn act(&self, action: &Action) -> Result<StepOutcome, Errno> {
        let local = &self.leader.local;
        drafts::save_drafts(&self.leader, action).await?;
        match action {
            Action::Make { file, kind, place } => return self.maker.make(*file, *kind, &self.path(place)?).await,
            Action::Publish { file, places, .. } => {
                return self.in_place.publish_sent(action, *file, places).await.map(StepOutcome::Contents);
            }
            Action::Update { file, place, .. } => {
                return self.in_place.update(*file, &self.path(place)?).await.map(StepOutcome::Contents);
            }
            Action::UpdateUnnamed { file, .. } => return self.in_place.update_unnamed(*file).await,
            Action::Link { file, from, to } => {
                let (from, to) = (self.path(from)?, self.path(to)?);
                let number = self.leader.tree().draft_number(*file);
                local.land(move |place| place.link(&from, &to, number)).await?;
            }
            Action::Rename { from, to, is_exchange } => {
                let ino = self.leader.tree().backed_at(from).map(|backed| backed.generation.ino);
                let (from, to, is_exchange) = (self.path(from)?, self.path(to)?, *is_exchange);
                local.land(move |place| place.rename(&from, &to, is_exchange, ino)).await?;
            }
            Action::Remove { place: at, is_directory } => {
                let (path, is_directory) = (self.path(at)?, *is_directory);
                local.land(move |place| place.remove(&path, is_directory)).await?;
            }
            Action::SetAttributes { file, place: at } => {
                let path = at.as_ref().map_or_else(|| Ok(ViewPath::root()), |at| self.path(at))?;
                return self.in_place.set_attributes(*file, &path).await;
            }
            Action::Discard { file, .. } => self.discard(*file).await?,
        }
        Ok(StepOutcome::Done)
    }

    async fn discard(&self, file: FileId) -> Result<(), Errno> {
        let draft = draft_path(&self.leader.tree(), file);
        let Some(draft) = draft else { return Ok(()) };
        let path = draft.clone();
        match self.leader.local.land(move |place| place.remove(&path, false)).await {
            Err(Errno::EISDIR) => {
                tracing::warn!(%draft, "others have put a directory here; it is left as it is");
                Ok(())
            }
            removed => removed,
        }
    }

    /// The failure of an action, in words.
    fn told(&self, action: &Action) -> String {
        drain_messages::action(&self.leader, &self.backing, action)
    }

    fn path(&self, place: &Place) -> Result<ViewPath, Errno> {
        self.leader.path_of(place)
    }
}

fn places_of(action: &Action) -> &[Place] {
    if let Action::Publish { places, .. } = action { places } else { &[] }
}
