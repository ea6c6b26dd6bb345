//! Files that appear on the backing file system, several at once: each has to wait for its disks more than once.
//!
//! They are drafted at the same time, and take their names one after the other in the tree's order. Steps that are not noted
//! when the daemon ends are done again: the next one knows files that have appeared by their inodes.

use std::sync::Arc;

use forebay_store::Draft;
use forebay_types::{Backed, Errno, FileId, ViewPath};
use forebay_wire::journal::{LandedContents, LeaderEntry};
use forebay_wire::write::Place;
use forebay_write::{Action, Turn};

use super::conflicts::{Conflicts, Occupant};
use super::sending::{Meter, Snapshot};
use super::striping::Striping;
use crate::write::contents::Reader;
use crate::write::tree::owner::Owner;
use crate::write::tree::paths::draft_path;

/// Files that are published at once, and how many bytes more than one of them may have together.
pub const FILES_MAX: usize = 64;
pub const BYTES_MAX: u64 = 64 << 20;

/// Files that are written at the same time.
const WRITERS: usize = 8;

/// See the module.
pub struct Publisher {
    pub owner: Arc<Owner>,
    pub reader: Arc<Reader>,
    pub meter: Arc<Meter>,
}

/// A file whose draft is whole.
struct WholeDraft {
    file: FileId,
    backed: Backed,
    snapshot: Snapshot,
    draft: Draft,
    paths: Vec<ViewPath>,
    /// Whether something is at the first of them.
    replaces: bool,
}

/// How far it came.
pub struct Publication {
    /// The landed contents of the first of those that were to be published.
    pub landed: Vec<LandedContents>,
    /// The error of the one after them.
    pub failed: Option<Errno>,
}

impl Publisher {
    /// Publishes the first of `turns`: all if nothing fails, and none has changed meanwhile. All are to be publications, and their drafts
    /// noted durably.
    ///
    /// # Errors
    /// Where it is not known how far it came: what the backing file system says, or the store.
    pub fn publish(&self, turns: &[Turn]) -> Result<Publication, Errno> {
        let mut failed = None;
        let drafted = at_once(turns, |turn| match &turn.action {
            Action::Publish { file, places, .. } => self.draft(*file, places),
            _ => Err(Errno::EINVAL),
        });
        let drafted = drafted.into_iter().map_while(|drafted| {
            drafted.unwrap_or_else(|errno| {
                failed = Some(errno);
                None
            })
        });
        let drafted: Vec<WholeDraft> = drafted.collect();
        // A daemon after this one knows them again, after a loss of power too.
        for WholeDraft { file, backed, .. } in &drafted {
            self.owner.note(&LeaderEntry::Publishing { file: *file, backed: *backed })?;
        }
        self.owner.make_durable()?;
        let (place, calls) = (&self.owner.local.place, &self.owner.local.calls);
        let (drafts, published): (Vec<_>, Vec<_>) = drafted
            .into_iter()
            .map(|WholeDraft { file, backed, snapshot, draft, paths, replaces }| {
                ((draft, replaces), (file, backed, snapshot, paths))
            })
            .unzip();
        let paths = published.iter().map(|(.., paths)| &paths[0]);
        let drafts: Vec<_> =
            drafts.into_iter().zip(paths).map(|((draft, replaces), path)| (draft, path, replaces)).collect();
        // One rename each, and one more for the directories.
        let _ = calls.wait_for(0, drafts.len() as u64);
        calls.land(|| place.publish(drafts))?;
        let mut landed = vec![];
        for (file, draft, snapshot, paths) in &published {
            let (first, others) = paths.split_first().ok_or(Errno::ENOENT)?;
            let (mut backed, mut blocks) = calls.land(|| place.landed(first))?;
            // Users who may change the directory can put a file of their own at the draft's name. That is not what has landed.
            if !backed.is_same_file(draft) {
                return Ok(Publication { landed, failed: Some(Errno::ESTALE) });
            }
            if !others.is_empty() {
                let number = self.owner.tree().draft_number(*file);
                others.iter().try_for_each(|other| calls.land(|| place.link(first, other, number)))?;
                (backed, blocks) = calls.land(|| place.landed(first))?;
            }
            landed.push(LandedContents { version: snapshot.version, backed, blocks });
        }
        Ok(Publication { landed, failed })
    }

    /// Gives a file that has appeared at one of its places the others, too.
    ///
    /// # Errors
    /// The backing file system's error.
    pub fn complete(&self, action: &Action) -> Result<(), Errno> {
        let Action::Publish { file, places, .. } = action else { return Ok(()) };
        let (backed, number) = {
            let tree = self.owner.tree();
            (tree.backed(*file), tree.draft_number(*file))
        };
        let (place, calls) = (&self.owner.local.place, &self.owner.local.calls);
        let paths = places.iter().map(|place| self.owner.path_of(place)).collect::<Result<Vec<_>, _>>()?;
        let is_at = |path: &ViewPath| {
            calls.land(|| place.backed(path)).is_ok_and(|found| backed.is_some_and(|own| own.is_same_file(&found)))
        };
        let (there, missing): (Vec<_>, Vec<_>) = paths.iter().partition(|path| is_at(path));
        let Some(from) = there.first() else { return Err(Errno::ESTALE) };
        missing.into_iter().try_for_each(|to| calls.land(|| place.link(from, to, number)))
    }

    /// The draft of a file; `None` where it has changed or gone meanwhile, or somebody else has come: the next look sees that.
    fn draft(&self, file: FileId, places: &[Place]) -> Result<Option<WholeDraft>, Errno> {
        let paths = places.iter().map(|place| self.owner.path_of(place)).collect::<Result<Vec<_>, _>>()?;
        let Some(snapshot) = Snapshot::of_settled(&self.owner, file) else { return Ok(None) };
        let first = places.first().ok_or(Errno::ENOENT)?;
        let (path, number) = {
            let tree = self.owner.tree();
            (draft_path(&tree, file).ok_or(Errno::ESTALE)?, tree.draft_number(file))
        };
        let (place, calls) = (&self.owner.local.place, &self.owner.local.calls);
        // A place that is empty now may be taken by others while this is written: they are not replaced.
        let replaces = match (Conflicts { owner: &self.owner }).occupant(first, Some(file))? {
            Occupant::Nobody => false,
            Occupant::Tree => true,
            Occupant::Stranger => return Ok(None),
        };
        let draft = if Striping::is_for(&snapshot) {
            let striping = Striping { owner: &self.owner, reader: &self.reader, meter: &self.meter };
            striping.draft(file, &snapshot, &path, number)?
        } else {
            let draft = calls.land(|| place.draft(&path, number))?;
            snapshot.write(&self.reader, &self.meter, draft.file())?;
            draft
        };
        if let Some(extended) = &snapshot.extended {
            calls.land(|| draft.set_extended(&extended.attributes))?;
        }
        calls.land(|| draft.set_attributes(&snapshot.attributes))?;
        calls.land(|| draft.make_durable())?;
        let backed = calls.land(|| place.backed_draft(&draft))?;
        Ok(Some(WholeDraft { file, backed, snapshot, draft, paths, replaces }))
    }
}

/// The results of `run` for each, several at a time.
fn at_once<T: Sync, R: Send>(items: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    if let [item] = items {
        return vec![run(item)];
    }
    let every = |first: usize| items.iter().skip(first).step_by(WRITERS).map(&run).collect::<Vec<R>>();
    let mut parts: Vec<_> = std::thread::scope(|scope| {
        let every = &every;
        let begin =
            |first| std::thread::Builder::new().name("drafts".to_owned()).spawn_scoped(scope, move || every(first));
        let writers: Vec<_> = (0..WRITERS.min(items.len())).map(|first| (first, begin(first))).collect();
        let ended = writers.into_iter().map(|(first, writer)| match writer {
            Ok(writer) => writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // There are no more threads.
            Err(_) => every(first),
        });
        ended.map(Vec::into_iter).collect()
    });
    (0..items.len()).filter_map(|index| parts[index % WRITERS].next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_run_and_stay_in_order() {
        for count in [0, 1, 7, 8, 9, 100] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(at_once(&items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        }
    }
}
