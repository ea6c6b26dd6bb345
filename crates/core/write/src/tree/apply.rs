//! Carrying operations out.

use forebay_wire::write::{Change, Done, Operation};

use super::nodes::SentStripes;
use super::state::{Refusal, Released, Tree};

impl Tree {
    /// Carries `change` out, once however often it comes. Released extents and files are added to `released`.
    ///
    /// # Errors
    /// The program's error, or that a directory is to be adopted first.
    pub fn apply(&mut self, change: &Change, released: &mut Released) -> Result<Done, Refusal> {
        if let Some(result) = self.results.of(change.id) {
            return result.map_err(Refusal::Errno);
        }
        let outcome = self.carry_out(change, released);
        self.nodes.settle(outcome.is_err());
        let result = match outcome {
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
            Operation::CloseAll { node } => Ok(self.close_all(*node, released)),
            Operation::Commit { file, extents, at } => self.commit(change, *file, extents, *at, released),
            Operation::Allocate { file, least_bytes } => self.allocate(change, *file, *least_bytes),
            Operation::SetExtended { file, name, value, rule } => {
                self.set_extended(change, *file, (name, value.as_deref()), *rule)
            }
            Operation::AdoptExtended { file, found } => self.adopt_extended(*file, found),
            Operation::Adopt { directory, entries, is_last } => self.adopt(*directory, entries, *is_last),
            Operation::Unlist { directory } => self.unlist(*directory),
            Operation::Publish { file } => self.publish_now(*file),
            Operation::Drained { file, drained } => Ok(self.drained(*file, drained, released)),
            Operation::Drafting { file, directory } => Ok(self.drafting(*file, *directory)),
            Operation::Publishing { file, backed } => Ok(self.publishing(*file, *backed)),
            Operation::Changing { file } => Ok(self.changing(*file)),
            Operation::Verified { file, version, draft, stripe_bytes, stripes } => {
                Ok(self.verified(*file, SentStripes::new(*version, *draft, *stripe_bytes), stripes))
            }
            Operation::Forked { file, draft, bytes, rights } => Ok(self.forked(*file, *draft, *bytes, *rights)),
            Operation::SetAside { place, name } => Ok(self.set_aside(place, name)),
            Operation::Gone { place } => Ok(self.gone(place)),
            Operation::Lost { nodes } => Ok(self.lose(nodes)),
            Operation::Moved { node, to, copies } => Ok(self.move_records(*node, *to, copies)),
            Operation::Landed { step, outcome } => Ok(self.landed(*step, *outcome, released)),
        }
    }
}
