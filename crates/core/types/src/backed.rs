//! A file of the backing file system, so that it is known again: which one it is, and in which version.

use serde::{Deserialize, Serialize};

use crate::{Generation, Kind, Timestamp};

/// A file as it was seen at a place of the backing file system.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct BackingId {
    /// Its version.
    pub generation: Generation,
    /// When it was made; the epoch where the file system does not say.
    pub born: Timestamp,
    /// Its kind.
    pub kind: Kind,
}

impl BackingId {
    /// Whether it is the same file: an inode number may be given again, but not with the same time of birth.
    #[must_use]
    pub fn is_same_file(&self, other: &Self) -> bool {
        other.is_file(self.generation.ino, self.born)
    }

    /// Whether it is the file with this inode number that was made at this time.
    #[must_use]
    pub fn is_file(&self, ino: u64, born: Timestamp) -> bool {
        let is_known = |time: Timestamp| time != Timestamp::default();
        self.generation.ino == ino && (self.born == born || !is_known(self.born) || !is_known(born))
    }

    /// Whether its contents are the same in both, if both are the same file. Entries that are no regular files never change.
    /// The change time says nothing: it moves with names, modes and links too.
    #[must_use]
    pub fn is_same_version(&self, other: &Self) -> bool {
        let (one, other_one) = (&self.generation, &other.generation);
        self.kind != Kind::File || one.size_bytes == other_one.size_bytes && is_same_time(one.mtime, other_one.mtime)
    }
}

/// A file system that keeps whole seconds may have shown more of a time while it was new.
fn is_same_time(one: Timestamp, other: Timestamp) -> bool {
    one.seconds == other.seconds && (one.nanos == other.nanos || one.nanos == 0 || other.nanos == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64, nanos: u32) -> Timestamp {
        Timestamp { seconds, nanos }
    }

    fn backed(ino: u64, born: Timestamp, mtime: Timestamp) -> BackingId {
        BackingId { generation: Generation { ino, mtime, ..Generation::default() }, born, kind: Kind::File }
    }

    #[test]
    fn an_inode_number_given_again_is_another_file() {
        let first = backed(7, at(5, 1), at(9, 0));
        assert!(first.is_same_file(&backed(7, at(5, 1), at(10, 0))));
        assert!(!first.is_same_file(&backed(8, at(5, 1), at(9, 0))));
        assert!(!first.is_same_file(&backed(7, at(5, 2), at(9, 0))));
        assert!(
            first.is_same_file(&backed(7, Timestamp::default(), at(9, 0))),
            "where it is not known, the number counts"
        );
    }

    #[test]
    fn length_and_time_make_a_version_and_names_and_modes_do_not() {
        let first = backed(7, at(5, 0), at(9, 3));
        let generation = first.generation;
        let with = |generation| BackingId { generation, ..first };
        assert!(first.is_same_version(&with(Generation { ctime: at(99, 0), ..generation })));
        assert!(!first.is_same_version(&with(Generation { size_bytes: 1, ..generation })));
        assert!(!first.is_same_version(&with(Generation { mtime: at(9, 4), ..generation })));
        assert!(
            first.is_same_version(&with(Generation { mtime: at(9, 0), ..generation })),
            "whole seconds are kept there"
        );
        let entries = Generation { mtime: at(10, 0), ..generation };
        let directory = BackingId { kind: Kind::Directory, ..first };
        assert!(directory.is_same_version(&BackingId { generation: entries, ..directory }), "entries come and go");
    }
}
