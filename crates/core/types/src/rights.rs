//! Permission bits and owner of a file.

use serde::{Deserialize, Serialize};

use crate::Attributes;

/// The bits of a mode that `chmod` sets.
const PERMISSION_BITS: u32 = 0o7777;
const OF_OWNER: u32 = 0o700;

/// A file's permission bits and its owner.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Rights {
    /// Permission bits, with those that lend rights.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl Rights {
    /// Those of a file.
    #[must_use]
    pub fn of(attributes: &Attributes) -> Self {
        Self { mode: attributes.mode & PERMISSION_BITS, uid: attributes.uid, gid: attributes.gid }
    }

    /// Gives them to a file.
    pub fn give(self, attributes: &mut Attributes) {
        attributes.mode = attributes.mode & !PERMISSION_BITS | self.mode & PERMISSION_BITS;
        (attributes.uid, attributes.gid) = (self.uid, self.gid);
    }

    /// Those of a copy that has bytes of a file with the rights `theirs`: but for the copy's owner, users may do with it what they may do
    /// with that one, at most. Whether the copy gets their group is the caller's to know; members of another one may do what all may do.
    /// The copy lends no rights.
    #[must_use]
    pub fn beside(self, theirs: Self, is_their_group: bool) -> Self {
        let (group, all) = (theirs.mode >> 3 & 7, theirs.mode & 7);
        // A member of their group is one of all others where the copy has another group.
        let (group, all) = if is_their_group { (group, all) } else { (group & all, group & all) };
        Self { mode: self.mode & (OF_OWNER | group << 3 | all), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_gives_nobody_more_than_theirs() {
        let rights = |mode| Rights { mode, uid: 1, gid: 1 };
        let beside = |own, theirs, is_their_group| rights(own).beside(rights(theirs), is_their_group).mode;
        assert_eq!(beside(0o644, 0o600, true), 0o600);
        assert_eq!(beside(0o664, 0o640, true), 0o640);
        assert_eq!(beside(0o664, 0o640, false), 0o600, "members of another group");
        assert_eq!(beside(0o664, 0o644, false), 0o644);
        assert_eq!(beside(0o644, 0o604, false), 0o600, "members of theirs are shut out");
        assert_eq!(beside(0o644, 0o604, true), 0o604);
        assert_eq!(beside(0o6755, 0o6755, true), 0o755, "nothing is lent");
        assert_eq!(beside(0o700, 0o077, true), 0o700, "its owner has seen the bytes");
    }

    #[test]
    fn a_file_keeps_its_kind() {
        let mut attributes = Attributes { mode: 0o100_644, ..Attributes::default() };
        Rights { mode: 0o4711, uid: 3, gid: 4 }.give(&mut attributes);
        assert_eq!((attributes.mode, attributes.uid, attributes.gid), (0o104_711, 3, 4));
        assert_eq!(Rights::of(&attributes), Rights { mode: 0o4711, uid: 3, gid: 4 });
    }
}
