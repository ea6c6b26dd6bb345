//! Merging a start into a profile: new uses are added where they occurred, and those that were prefetched and not used leave.
//!
//! Once contents are fetched ahead, a node no longer sees every use of them: the kernel answers by itself. So a profile
//! keeps uses without a report, and loses those that are known not to have occurred. A new use goes behind the one
//! before it, so that the order stays that of the program.

use std::collections::BTreeSet;

use forebay_types::{ChunkIndex, Map, ViewPath, limits};

use crate::{Profile, Use};

/// The uses that were seen of a start, which a profile may have prefetched.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Start {
    /// Uses, as far as they were seen, in the order of first use.
    pub used: Vec<Use>,
    /// Prefetches that were not used: directories, absent names, a file's chunks.
    pub unused: Vec<Use>,
}

/// The changes of a profile by a start, in directories and files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Learned {
    /// New in the profile.
    pub added: usize,
    /// There in another version, or with other chunks.
    pub changed: usize,
    /// No longer in the profile.
    pub dropped: usize,
}

/// A path as what it was used: it may be a directory in one version of its parent and a file in another.
type Place = (ViewPath, std::mem::Discriminant<Use>);

fn place(each: &Use) -> Place {
    (each.path().clone(), std::mem::discriminant(each))
}

impl Profile {
    /// Learns from a start: the profile is then what the next one fetches ahead. Uses above a limit are left out, the
    /// last used first.
    pub fn merge(&mut self, start: &Start) -> Learned {
        let mut learned = Learned::default();
        let unused: Map<Place, &Use> = start.unused.iter().map(|each| (place(each), each)).collect();
        let used: Map<Place, &Use> = start.used.iter().map(|each| (place(each), each)).collect();
        let (present, absent): (BTreeSet<&ViewPath>, BTreeSet<&ViewPath>) = present_and_absent(&start.used);
        let is_outdated = |each: &Use| match each {
            Use::Absent { path } => present.contains(path),
            _ => absent.contains(each.path()) && !present.contains(each.path()),
        };
        let old: Vec<Use> = std::mem::take(&mut self.uses);
        let known: Map<Place, usize> = (0..).zip(&old).map(|(at, each)| (place(each), at)).collect();
        let mut new_ones = behind(start, &known, old.len());
        learned.added = new_ones.iter().map(Vec::len).sum();
        self.uses = new_ones[0].drain(..).collect();
        for (each, followers) in old.into_iter().zip(new_ones.into_iter().skip(1)) {
            let place = place(&each);
            match keep(&each, used.get(&place).copied(), unused.get(&place).copied()) {
                Some(kept) if is_outdated(&kept) => learned.dropped += 1,
                None => learned.dropped += 1,
                Some(kept) => {
                    learned.changed += usize::from(kept != each);
                    self.uses.push(kept);
                }
            }
            self.uses.extend(followers);
        }
        self.starts = self.starts.saturating_add(1);
        learned.dropped += self.bound();
        learned
    }

    /// Leaves out what is above the limits; how many directories and files that is.
    fn bound(&mut self) -> usize {
        let before = self.uses.len();
        let mut chunks = 0;
        let within = self.uses.iter().take(limits::PROFILE_USES_MAX).take_while(|each| {
            chunks += each.chunks().len();
            chunks <= crate::limits::PROFILE_CHUNKS_MAX
        });
        let within = within.count();
        self.uses.truncate(within);
        before - within
    }
}

/// The paths that a start found, and those that it did not find.
fn present_and_absent(used: &[Use]) -> (BTreeSet<&ViewPath>, BTreeSet<&ViewPath>) {
    let (absent, present): (Vec<&Use>, Vec<&Use>) = used.iter().partition(|each| matches!(each, Use::Absent { .. }));
    (present.into_iter().map(Use::path).collect(), absent.into_iter().map(Use::path).collect())
}

/// New uses of a start, by the known use that they follow: first those before all known uses, then
/// those behind the first one, and so on.
fn behind(start: &Start, known: &Map<Place, usize>, known_count: usize) -> Vec<Vec<Use>> {
    let mut new_ones = vec![Vec::new(); known_count + 1];
    let mut seen = Map::<Place, ()>::default();
    let mut last = 0;
    for each in &start.used {
        let place = place(each);
        match known.get(&place) {
            Some(at) => last = at + 1,
            None if is_empty_file(each) || seen.insert(place, ()).is_some() => {}
            None => new_ones[last].push(each.clone()),
        }
    }
    new_ones
}

fn is_empty_file(each: &Use) -> bool {
    matches!(each, Use::File { chunks, .. } if chunks.is_empty())
}

/// The use that replaces a known one; `None` when it leaves.
fn keep<'a>(known: &Use, used: Option<&'a Use>, unused: Option<&'a Use>) -> Option<Use> {
    let Use::File { path, generation, chunks } = known else {
        return if used.is_none() && unused.is_some() { None } else { Some(used.unwrap_or(known).clone()) };
    };
    let current = used.and_then(Use::generation).unwrap_or(generation);
    let of_current = |each: Option<&'a Use>| {
        each.filter(|each| each.generation() == Some(current)).map(Use::chunks).unwrap_or_default()
    };
    let used_chunks: BTreeSet<ChunkIndex> = of_current(used).iter().copied().collect();
    let unused_chunks: BTreeSet<ChunkIndex> = of_current(unused).iter().copied().collect();
    // Chunks of another version may not even exist in this one.
    let known_chunks = if generation == current { &chunks[..] } else { &[] };
    let stays = |index: &&ChunkIndex| !unused_chunks.contains(index) || used_chunks.contains(index);
    let mut seen = BTreeSet::new();
    let both = known_chunks.iter().filter(stays).chain(of_current(used));
    let kept: Vec<ChunkIndex> = both.copied().filter(|index| seen.insert(*index)).collect();
    (!kept.is_empty()).then(|| Use::File { path: path.clone(), generation: *current, chunks: kept })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{generation, path, profile};
    use forebay_types::CHUNK_BYTES;
    use proptest::prelude::*;

    fn directory(name: &str, seed: u64) -> Use {
        Use::Directory { path: path(name), generation: generation(seed, 1) }
    }

    fn file(name: &str, seed: u64, chunks: &[u64]) -> Use {
        let chunks = chunks.iter().copied().map(ChunkIndex).collect();
        Use::File { path: path(name), generation: generation(seed, 9 * CHUNK_BYTES), chunks }
    }

    fn merged(old: &[Use], used: &[Use], unused: &[Use]) -> (Vec<Use>, Learned) {
        let mut profile = Profile { uses: old.to_vec(), ..Profile::new("x".into(), vec![], 0) };
        let learned = profile.merge(&Start { used: used.to_vec(), unused: unused.to_vec() });
        assert_eq!(profile.starts, 1);
        (profile.uses, learned)
    }

    #[test]
    fn a_first_start_is_recorded_as_it_was() {
        let used = [directory("a", 1), file("a/b", 2, &[3, 0]), directory("c", 1)];
        let (uses, learned) = merged(&[], &used, &[]);
        assert_eq!((&uses[..], learned), (&used[..], Learned { added: 3, changed: 0, dropped: 0 }));
    }

    #[test]
    fn new_files_are_packed_where_they_were_used() {
        let old = [directory("a", 1), directory("b", 1), directory("c", 1)];
        let used = [directory("new", 1), directory("b", 1), file("f", 1, &[0]), file("f", 1, &[0]), file("g", 1, &[1])];
        let (uses, learned) = merged(&old, &used, &[]);
        let expected = [&used[0], &old[0], &old[1], &used[2], &used[4], &old[2]].map(Clone::clone);
        assert_eq!((&uses[..], learned), (&expected[..], Learned { added: 3, changed: 0, dropped: 0 }));
    }

    #[test]
    fn useless_prefetches_leave_and_silence_keeps() {
        let old = [directory("a", 1), file("f", 1, &[0, 1, 2]), file("g", 1, &[5]), directory("kept", 1)];
        let unused = [directory("a", 1), file("f", 1, &[1, 2]), file("g", 1, &[5])];
        let (uses, learned) = merged(&old, &[file("f", 1, &[2, 7])], &unused);
        assert_eq!(uses, [file("f", 1, &[0, 2, 7]), directory("kept", 1)]);
        assert_eq!(learned, Learned { added: 0, changed: 1, dropped: 2 });
    }

    #[test]
    fn another_version_replaces_the_one_before() {
        let old = [directory("a", 1), file("f", 1, &[0, 1]), file("g", 1, &[0])];
        let used = [directory("a", 2), file("f", 2, &[1, 3])];
        let (uses, learned) = merged(&old, &used, &[file("f", 1, &[0, 1])]);
        assert_eq!(uses, [directory("a", 2), file("f", 2, &[1, 3]), file("g", 1, &[0])]);
        assert_eq!(learned, Learned { added: 0, changed: 2, dropped: 0 });
    }

    #[test]
    fn a_name_that_appears_or_vanishes_is_one_thing_only() {
        let absent = |name: &str| Use::Absent { path: path(name) };
        let old = [absent("a"), file("b", 1, &[0]), absent("c"), absent("d")];
        let used = [file("a", 1, &[0]), absent("b"), absent("c")];
        let (uses, learned) = merged(&old, &used, &[absent("c"), absent("d")]);
        assert_eq!(uses, [file("a", 1, &[0]), absent("b"), absent("c")]);
        assert_eq!(learned, Learned { added: 2, changed: 0, dropped: 3 });
    }

    #[test]
    fn a_profile_stays_within_its_limits() {
        let old: Vec<Use> = (0..limits::PROFILE_USES_MAX).map(|number| directory(&number.to_string(), 1)).collect();
        let (uses, learned) = merged(&old, &[directory("first", 1)], &[]);
        assert_eq!((uses.len(), learned.dropped), (limits::PROFILE_USES_MAX, 1));
        assert_eq!(uses[0], directory("first", 1));
    }

    proptest! {
        #[test]
        fn what_a_start_makes_of_a_profile_can_be_written(mut old in profile(), new in profile(), cut: prop::sample::Index) {
            let (used, unused) = new.uses.split_at(cut.index(new.uses.len() + 1));
            old.merge(&Start { used: used.to_vec(), unused: unused.to_vec() });
            prop_assert!(old.encode().is_ok());
            let places: Map<Place, ()> = old.uses.iter().map(|each| (place(each), ())).collect();
            prop_assert_eq!(places.len(), old.uses.len(), "a path twice");
            prop_assert!(used.iter().all(|each| old.uses.iter().any(|kept| place(kept) == place(each))));
        }
    }
}
