//! The tree's second home: a node that does not own it, and has all of it written down.
//!
//! It asks the owner for what has happened since (`forebay_write::History`), writes that down and asks for more, which tells the
//! owner how far it is. When the owner's node is lost, what landed there is lost with it, and the tree is not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_wire::message::{Checked, decode};
use forebay_wire::write::Change;
use forebay_wire::write_message::{Followed, Have, WriteMessage};
use forebay_write::{Released, Tree};
use serde::{Deserialize, Serialize};

use super::local::Local;
use super::notes::Note;
use super::remote::Nodes;

/// How long the owner is asked before it is looked whether all is over: longer than it waits for something to happen.
const PATIENCE: Duration = Duration::from_secs(2);

/// Pause after something went wrong.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// The tree as it is known here.
#[derive(Clone, Serialize, Deserialize)]
pub struct Mirror {
    pub have: Have,
    pub tree: Tree,
}

/// See the module.
pub struct SecondHome {
    local: Arc<Local>,
    nodes: Arc<Nodes>,
    mirror: Mutex<Option<Mirror>>,
}

/// A tree as it travels.
#[derive(Deserialize)]
#[serde(transparent)]
struct Travelling(Tree);

impl Checked for Travelling {
    fn is_within_limits(&self) -> bool {
        // The owner's.
        true
    }
}

impl Mirror {
    /// One more change.
    pub fn follow(&mut self, change: &Change) {
        // It was carried out before: it has the same outcome again.
        let _ = self.tree.apply(change, &mut Released::default());
        self.have.count += 1;
    }
}

impl SecondHome {
    /// With what was found of it in the node's log.
    pub fn new(local: &Arc<Local>, nodes: &Arc<Nodes>, mirror: Option<Mirror>) -> Self {
        Self { local: Arc::clone(local), nodes: Arc::clone(nodes), mirror: Mutex::new(mirror) }
    }

    /// What is known.
    pub fn mirror(&self) -> MutexGuard<'_, Option<Mirror>> {
        self.mirror.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows until all is over. `keep` makes a checkpoint.
    pub fn follow(&self, keep: impl Fn() -> Result<(), String>) {
        while !self.nodes.is_ending() {
            if let Err(failed) = self.follow_once(&keep)
                && !self.nodes.is_ending()
            {
                tracing::warn!(failed, "the tree's second home does not follow");
                std::thread::sleep(AGAIN_AFTER);
            }
        }
    }

    fn follow_once(&self, keep: &impl Fn() -> Result<(), String>) -> Result<(), String> {
        let have = self.mirror().as_ref().map(|mirror| mirror.have);
        let asked = self.nodes.ask::<Followed>(self.nodes.owner(), &WriteMessage::Follow { have }, PATIENCE);
        match asked.map_err(|errno| format!("the owner does not answer: {errno}"))? {
            Followed::Changes(changes) => changes.iter().try_for_each(|change| self.take(change)),
            Followed::Tree { have, tree } => {
                let Travelling(tree) = decode(&tree).map_err(|error| format!("the tree is not understood: {error}"))?;
                *self.mirror() = Some(Mirror { have, tree });
                // What is not written down is not known.
                keep().inspect_err(|_| *self.mirror() = None)
            }
        }
    }

    fn take(&self, change: &[u8]) -> Result<(), String> {
        let change: Change = decode(change).map_err(|error| format!("a change is not understood: {error}"))?;
        let mut mirror = self.mirror();
        let Some(known) = &mut *mirror else { return Ok(()) };
        self.local.log.append_note(&Note::followed(&change)).map_err(|error| error.to_string())?;
        known.follow(&change);
        Ok(())
    }
}
