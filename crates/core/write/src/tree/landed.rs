//! How far the backing file system has followed.

use forebay_types::{FileId, Kind};
use forebay_wire::write::{Done, LandedContents, Place};

use super::nodes::Contents;
use super::state::{Refusal, Released, Tree};
use crate::extents::Extents;
use crate::landing::Action;

/// What is to be done next on the backing file system. When it is, `Operation::Landed` says so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Turn {
    /// The number of the step.
    pub step: u64,
    /// What is to be done; nothing where what was to land has changed or gone since.
    pub action: Option<Action>,
}

impl Tree {
    /// What is to be done next on the backing file system, which has followed when there is nothing.
    pub fn next_landing(&mut self) -> Option<Turn> {
        let (step, action) = self.landing.turn()?;
        let is_over = match &action {
            Action::Publish { file, .. } | Action::Update { file, .. } => {
                self.nodes.get(file).is_none_or(|node| node.is_dirty)
            }
            // What it was is not known any more.
            Action::Make { file, kind, .. } => *kind != Kind::Directory && !self.nodes.contains_key(file),
            _ => false,
        };
        Some(Turn { step, action: Some(action).filter(|_| !is_over) })
    }

    /// Where a file lies on the backing file system by now; `None` when it is not there, and for the root.
    #[must_use]
    pub fn backing_place(&self, file: FileId) -> Option<&Place> {
        self.landing.place(file)
    }

    /// Steps that the backing file system has not followed.
    #[must_use]
    pub fn steps_to_land(&self) -> usize {
        self.landing.steps_left()
    }

    pub(super) fn landed(
        &mut self,
        step: u64,
        contents: Option<LandedContents>,
        released: &mut Released,
    ) -> Result<Done, Refusal> {
        // Those before it without anything to be done are over with this.
        let Some(turn) = self.next_landing().filter(|turn| turn.step == step) else { return Ok(Done::Nothing) };
        match (&turn.action, contents) {
            (None, _) => self.landing.leave_out(step),
            (Some(Action::Publish { file, .. } | Action::Update { file, .. }), Some(contents)) => {
                self.landing.finish(step);
                self.contents_landed(*file, contents, released);
            }
            // Contents that did not come: tried again.
            (Some(Action::Publish { .. } | Action::Update { .. }), None) => {}
            (Some(_), _) => self.landing.finish(step),
        }
        Ok(Done::Nothing)
    }

    /// What the logs have of these contents is not needed any more, unless there are newer ones already.
    fn contents_landed(&mut self, file: FileId, landed: LandedContents, released: &mut Released) {
        let Some(node) = self.nodes.get_mut(&file) else { return };
        node.backed = Some(landed.generation);
        if node.version == landed.version
            && let Contents::File(extents) = &mut node.contents
        {
            released.extents.extend(extents.written());
            *extents = Extents::over(node.attributes.size_bytes);
        }
    }
}
