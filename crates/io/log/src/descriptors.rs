//! Descriptors of segments for readers: few, as a store has more segments than a process may have descriptors.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::OFlags;

use crate::directory::Directory;
use crate::limits;

/// The least recently used one leaves first.
#[derive(Default)]
pub(crate) struct Descriptors {
    open: Mutex<VecDeque<(u64, Arc<File>)>>,
}

impl Descriptors {
    /// A descriptor to read a segment by.
    pub fn of(&self, directory: &Directory, number: u64) -> io::Result<Arc<File>> {
        if let Some(file) = self.find(number) {
            return Ok(file);
        }
        let file = Arc::new(directory.open_segment(number, OFlags::RDONLY)?);
        let mut open = self.lock();
        open.truncate(limits::DESCRIPTORS_MAX - 1);
        open.push_front((number, Arc::clone(&file)));
        Ok(file)
    }

    fn find(&self, number: u64) -> Option<Arc<File>> {
        let mut open = self.lock();
        let index = open.iter().position(|(known, _)| *known == number)?;
        let found = open.remove(index)?;
        let file = Arc::clone(&found.1);
        open.push_front(found);
        Some(file)
    }

    /// A segment goes: its blocks are free when nobody reads it any more.
    pub fn forget(&self, number: u64) {
        self.lock().retain(|(known, _)| *known != number);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(u64, Arc<File>)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
