//! Versions that nodes have shown to their programs.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::NodeIndex;
use crate::history::Versions;

/// Versions that nodes have shown, by their paths.
#[derive(Default)]
pub(crate) struct Shown(Mutex<BTreeMap<NodeIndex, Versions>>);

impl Shown {
    /// Held by whoever looks or adds.
    pub fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeIndex, Versions>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
