//! Whether collective writes follow each other with nothing between, learned call by call.
//!
//! Bytes that a rank holds must be in the file before the rank makes any other MPI call, because another rank may then write
//! newer ones there: programs rely on a barrier alone, as plain MPI-IO lets them. So holding gains something only where the next
//! MPI call is a collective write of the same file. That is believed when some calls in a row were so, and believed less
//! each time that it turned out wrong: then every rank has written its own pieces, which is what aggregation is to avoid.
//!
//! All ranks of a file decide alike, because they tell each other what they have seen (`file::calls`).

/// Calls in a row that make the next one worth holding. HDF5 and PnetCDF set a view or make other calls between any two.
const NEEDED: u32 = 2;

/// Where doubling ends: a program that is wrong once in 1,024 calls loses nothing that matters.
const DOUBLINGS_MAX: u32 = 9;

/// The history of one file's calls; the same at all its ranks, but for the doublings that it begins with.
#[derive(Clone, Copy, Debug)]
pub struct Following {
    in_a_row: u32,
    doublings: u32,
}

impl Following {
    /// Of a file that is being opened, by a process whose other files were wrong so often.
    #[must_use]
    pub const fn new(doublings: u32) -> Self {
        Self { in_a_row: 0, doublings }
    }

    /// How often this was wrong.
    #[must_use]
    pub const fn doublings(&self) -> u32 {
        self.doublings
    }

    /// A call that follows the one before at all ranks, or does not. `doublings` is the largest of all ranks.
    pub fn call(&mut self, follows: bool, doublings: u32) {
        self.doublings = doublings.min(DOUBLINGS_MAX);
        self.in_a_row = if follows { self.in_a_row.saturating_add(1) } else { 0 };
    }

    /// Bytes were held in vain.
    pub fn was_wrong(&mut self) {
        self.doublings = (self.doublings + 1).min(DOUBLINGS_MAX);
        self.in_a_row = 0;
    }

    /// Whether the call's bytes are to be held. Where the user says so (`forebay_aggregation=enable`), from the first call on,
    /// and again soon after each mistake.
    #[must_use]
    pub const fn holds(&self, always: bool) -> bool {
        let needed = match (always, self.doublings) {
            (true, 0) => 0,
            (true, _) => NEEDED,
            (false, doublings) => NEEDED << doublings,
        };
        self.in_a_row >= needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls until one is held.
    fn calls_until_held(following: &mut Following) -> u32 {
        (1..)
            .find(|_| {
                following.call(true, following.doublings());
                following.holds(false)
            })
            .unwrap_or_default()
    }

    #[test]
    fn each_mistake_doubles_what_it_takes() {
        let mut following = Following::new(0);
        following.call(false, 0);
        assert!(!following.holds(false) && following.holds(true));
        let takes: Vec<u32> = (0..12)
            .map(|_| {
                let calls = calls_until_held(&mut following);
                following.was_wrong();
                calls
            })
            .collect();
        assert_eq!(takes, [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024]);
        following.call(false, following.doublings());
        assert!(!following.holds(true));
        following.call(true, following.doublings());
        following.call(true, following.doublings());
        assert!(following.holds(true) && !following.holds(false), "where the user says so, soon again");
    }

    #[test]
    fn another_call_between_begins_anew() {
        let mut following = Following::new(0);
        for _ in 0..10 {
            following.call(false, 0);
            following.call(true, 0);
            assert!(!following.holds(false));
        }
    }
}
