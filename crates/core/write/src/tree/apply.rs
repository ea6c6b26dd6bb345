//! Carrying out the steps of a tree's history.

use forebay_wire::journal::{EntryRef, LeaderEntry};
use forebay_wire::write::{Change, Done, Operation};

use super::nodes::SentStripes;
use super::state::{Refusal, Released, Tree};

impl Tree {
    /// Takes the next step of the history. Released extents and files are added to `released`.
    ///
    /// # Errors
    /// As `request` and `note`.
    pub fn apply<'a>(&mut self, entry: impl Into<EntryRef<'a>>, released: &mut Released) -> Result<Done, Refusal> {
        let outcome = match entry.into() {
            EntryRef::Request(change) => self.request(change, released),
            EntryRef::Leader(entry) => self.note(entry, released).map(|()| Done::Nothing),
        };
        self.nodes.settle(outcome.is_err());
        outcome
    }

    /// Carries out what a node asks for, once however often it comes.
    ///
    /// # Errors
    /// The program's error, or that a directory is to be imported first.
    fn request(&mut self, change: &Change, released: &mut Released) -> Result<Done, Refusal> {
        if let Some(result) = self.results.of(change.id) {
            return result.map_err(Refusal::Errno);
        }
        let result = match self.carry_out(change, released) {
            Ok(done) => Ok(done),
            Err(Refusal::Errno(errno)) => Err(errno),
            // Not an answer: it comes again, and is carried out then.
            Err(unlisted) => return Err(unlisted),
        };
        self.results.note(change, result);
        result.map_err(Refusal::Errno)
    }

    fn carry_out(&mut self, change: &Change, released: &mut Released) -> Result<Done, Refusal> {
        match &change.operation {
            Operation::Create { .. } => self.create(change, released),
            Operation::CreateUnnamed { directory, file, mode, may_be_named } => {
                self.create_unnamed(change, *directory, *file, *mode, *may_be_named)
            }
            Operation::Link { file, place } => self.link(change, *file, place),
            Operation::Unlink { place } => self.unlink(change, place, released),
            Operation::RemoveDirectory { place } => self.remove_directory(change, place, released),
            Operation::Rename { from, to, rule } => self.rename(change, from, to, *rule, released),
            Operation::SetAttributes { file, changes } => self.set_attributes(change, *file, changes, released),
            Operation::Open { file } => self.open(change, *file),
            Operation::Close { file, handle } => self.close(change, *file, *handle, released),
            Operation::Lock { file, request } => self.lock(change, *file, request),
            Operation::CloseAll => {
                self.close_all(change.id.node, released);
                Ok(Done::Nothing)
            }
            Operation::Commit { file, extents, at } => self.commit(change, *file, extents, *at, released),
            Operation::Allocate { file, least_bytes } => self.allocate(change, *file, *least_bytes),
            Operation::SetExtended { file, name, value, rule } => {
                self.set_extended(change, *file, (name, value.as_deref()), *rule)
            }
        }
    }

    /// Takes in what the leader has found out.
    ///
    /// # Errors
    /// That it is about nothing which the tree knows; the tree is unchanged.
    fn note(&mut self, entry: &LeaderEntry, released: &mut Released) -> Result<(), Refusal> {
        match entry {
            LeaderEntry::ImportExtended { file, found } => return self.import_extended(*file, found),
            LeaderEntry::Import { directory, entries, is_last } => return self.import(*directory, entries, *is_last),
            LeaderEntry::Unlist { directory } => return self.unlist(*directory),
            LeaderEntry::Publish { file } => return self.publish_now(*file),
            LeaderEntry::Drained { file, drained } => self.drained(*file, drained, released),
            LeaderEntry::Drafting { file, directory } => self.drafting(*file, *directory),
            LeaderEntry::Publishing { file, backed } => self.landing.set_backed(*file, *backed),
            LeaderEntry::Changing { file } => self.landing.change(*file),
            LeaderEntry::Verified { file, version, draft, stripe_bytes, stripes } => {
                self.verified(*file, SentStripes::new(*version, *draft, *stripe_bytes), stripes);
            }
            LeaderEntry::CopiedOnConflict { file, draft, bytes, rights } => {
                self.copied_on_conflict(*file, *draft, *bytes, *rights)
            }
            LeaderEntry::SetAside { place, name } => self.landing.set_aside(place, name),
            LeaderEntry::NotThere { place } => self.not_there(place),
            LeaderEntry::Lost { nodes } => self.lose(nodes),
            LeaderEntry::Relocated { node, to, copies } => self.move_records(*node, *to, copies),
            LeaderEntry::Landed { step, outcome } => self.landed(*step, *outcome, released),
            LeaderEntry::GiveUp { node } => self.close_all(*node, released),
            LeaderEntry::LetGo => self.let_go(released),
        }
        Ok(())
    }
}
