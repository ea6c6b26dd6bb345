//! The inodes of which a node's programs want most: directories whose names are absent, and files that are read. Within a bound, however many
//! there are.
//!
//! Space-saving (Metwally, Agrawal and El Abbadi, "Efficient computation of frequent and top-k elements in data streams", ICDT 2005): a new
//! inode takes the place of that with the least, and its amount, which is not its own, is kept apart. An inode
//! that has more than one part in `INODES_MAX` of all is always among them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay_read::InodeId;

/// Inodes that are known at a time: a search path has fewer directories.
pub const INODES_MAX: usize = 64;

/// The sort of a name, by which variables search paths are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameSort {
    /// As the dynamic linker looks for: `libm.so.6`.
    Library,
    /// As Python looks for: `torch.py`, `_C.cpython-312-x86_64-linux-gnu.so`.
    Python,
    Other,
}

/// An inode, and amounts that are surely its own, by sort.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amounts {
    pub inode: InodeId,
    pub by_sort: [u64; 3],
}

#[derive(Clone, Copy)]
struct Entry {
    amounts: Amounts,
    /// The amount with which it came: of others before it.
    of_others: u64,
}

/// See the module.
#[derive(Default)]
pub struct Frequent(Mutex<Vec<Entry>>);

impl NameSort {
    /// The sort of a name.
    pub fn of(name: &[u8]) -> Self {
        let has = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
        let ends = |end: &[u8]| name.ends_with(end);
        match () {
            () if ends(b".py") || ends(b".pyc") || has(b".cpython-") || has(b".abi3.so") => Self::Python,
            () if name == b"__init__" || name == b"__pycache__" => Self::Python,
            () if ends(b".so") || has(b".so.") => Self::Library,
            () => Self::Other,
        }
    }
}

impl Entry {
    fn total(&self) -> u64 {
        self.amounts.by_sort.iter().fold(self.of_others, |sum, amount| sum.saturating_add(*amount))
    }
}

impl Frequent {
    /// Counts `amount` more of an inode.
    pub fn note(&self, inode: InodeId, sort: NameSort, amount: u64) {
        let mut entries = self.entries();
        let found = entries.iter().position(|entry| entry.amounts.inode == inode);
        let index = found.unwrap_or_else(|| {
            let new = |of_others| Entry { amounts: Amounts { inode, by_sort: [0; 3] }, of_others };
            if entries.len() < INODES_MAX {
                entries.push(new(0));
                return entries.len() - 1;
            }
            let (index, total) =
                entries.iter().map(Entry::total).enumerate().min_by_key(|(_, total)| *total).unwrap_or((0, 0));
            entries[index] = new(total);
            index
        });
        let of_sort = &mut entries[index].amounts.by_sort[sort as usize];
        *of_sort = of_sort.saturating_add(amount);
    }

    /// The amounts that are sure, in no order.
    pub fn amounts(&self) -> Vec<Amounts> {
        self.entries().iter().map(|entry| entry.amounts).collect()
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(frequent: &Frequent, inode: u64) -> Option<u64> {
        let amounts = frequent.amounts().into_iter().find(|amounts| amounts.inode == InodeId(inode))?;
        Some(amounts.by_sort.iter().sum())
    }

    #[test]
    fn few_inodes_are_counted_exactly_by_sort() {
        let frequent = Frequent::default();
        for (inode, sort) in
            [(1, NameSort::Python), (2, NameSort::Other), (1, NameSort::Library), (1, NameSort::Python)]
        {
            frequent.note(InodeId(inode), sort, 1);
        }
        let one = frequent.amounts().into_iter().find(|amounts| amounts.inode == InodeId(1)).unwrap();
        assert_eq!((one.by_sort, sum(&frequent, 2)), ([1, 2, 0], Some(1)));
    }

    #[test]
    fn a_frequent_inode_stays_among_thousands_and_is_never_given_more_than_its_own() {
        let frequent = Frequent::default();
        for round in 0..10_000 {
            frequent.note(InodeId(1_000_000 + round), NameSort::Other, 1);
            if round % 10 == 0 {
                frequent.note(InodeId(7), NameSort::Library, 1);
            }
        }
        let found = sum(&frequent, 7).unwrap();
        // It comes again after its first loss with at most a 64th of all as others'.
        assert!((700..=1000).contains(&found), "{found}");
        assert_eq!(frequent.amounts().len(), INODES_MAX);
        assert!(frequent.amounts().iter().all(|amounts| amounts.inode == InodeId(7) || amounts.by_sort[2] <= 1));
        frequent.note(InodeId(7), NameSort::Library, u64::MAX);
        assert_eq!(sum(&frequent, 7), Some(u64::MAX));
    }

    #[test]
    fn names_tell_which_search_path_they_are_looked_for_by() {
        let sort = |name: &str| NameSort::of(name.as_bytes());
        for name in ["torch.py", "a.pyc", "_C.cpython-312-x86_64-linux-gnu.so", "x.abi3.so", "__pycache__"] {
            assert_eq!(sort(name), NameSort::Python, "{name}");
        }
        assert_eq!(["libm.so.6", "libz.so"].map(sort), [NameSort::Library; 2]);
        assert_eq!(["python3", "x.sock", "", "so"].map(sort), [NameSort::Other; 4]);
    }
}
