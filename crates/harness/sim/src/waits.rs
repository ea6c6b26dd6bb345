//! The waits of programs: the scheduler of the backing file system must hear of each object that a program waits for.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_cache::Key;
use forebay_types::{Extent, Generation, Time, ViewPath, limits};

/// The objects that programs wait for, by the programs' numbers.
#[derive(Default)]
pub(crate) struct Waits(Mutex<BTreeMap<usize, (Time, Wanted)>>);

/// The object that a program waits for.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// A name in a directory, or its listing.
    Names(ViewPath),
    /// Bytes of a version of a file.
    Bytes(ViewPath, Generation, Extent),
}

impl Waits {
    /// A program begins to wait.
    pub fn begin(&self, program: usize, now: Time, wanted: Wanted) {
        self.lock().insert(program, (now, wanted));
    }

    /// It waits no longer.
    pub fn end(&self, program: usize) {
        self.lock().remove(&program);
    }

    /// The program that has waited for `key` for so long that every node on the way must have heard of it.
    pub fn heard(&self, key: &Key, now: Time, heard_within: Duration) -> Option<String> {
        let is_heard = |(since, wanted): &&(Time, Wanted)| match (wanted, key) {
            (Wanted::Names(dir), Key::Listing { dir: asked }) => dir == asked && since.after(heard_within) < now,
            (Wanted::Bytes(file, generation, extent), Key::Chunk { file: asked, generation: version, index }) => {
                // A read waits for a parcel first.
                let heard = since.after(limits::PARCEL_WAIT + heard_within) < now;
                heard && (file, generation) == (asked, version) && extent.chunks().any(|(chunk, _)| chunk == *index)
            }
            _ => false,
        };
        self.lock().values().find(is_heard).map(|wait| format!("{key:?} at {now:?}: {wait:?}"))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, (Time, Wanted)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
