//! Whose turn it is to have a test bed: there is one at a time, because its addresses are fixed and two cores have enough to do
//! with one.
//!
//! Bringing one up takes longer than most of what is done with it. So whoever has done no harm to it hands it on, if another
//! test waits for one like it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::testbed::Testbed;

/// How many nodes a test bed has, and the name of the files that it was filled with.
pub type Kind = (usize, String);

struct Turns {
    is_taken: bool,
    waiting: Vec<Kind>,
    /// Handed on, and not taken yet.
    left: Option<(Kind, Testbed)>,
}

static TURNS: Mutex<Turns> = Mutex::new(Turns { is_taken: false, waiting: Vec::new(), left: None });
static CHANGED: Condvar = Condvar::new();

fn turns() -> MutexGuard<'static, Turns> {
    TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right to have a test bed, given back when dropped.
pub struct Turn(());

impl Turn {
    /// Waits for it. With it comes what another test has handed on.
    pub fn take(kind: &Kind) -> (Self, Option<Testbed>) {
        let mut all = turns();
        all.waiting.push(kind.clone());
        let is_anothers = |all: &mut Turns| all.is_taken || all.left.as_ref().is_some_and(|(other, _)| other != kind);
        let mut all = CHANGED.wait_while(all, is_anothers).unwrap_or_else(PoisonError::into_inner);
        let place = all.waiting.iter().position(|other| other == kind);
        place.map(|place| all.waiting.swap_remove(place));
        all.is_taken = true;
        (Self(()), all.left.take().map(|(_, testbed)| testbed))
    }

    /// Leaves a test bed to whoever waits for one of its kind; gives it back if nobody does.
    pub fn hand_on(&self, kind: Kind, testbed: Testbed) -> Option<Testbed> {
        let mut all = turns();
        if !all.waiting.contains(&kind) {
            return Some(testbed);
        }
        all.left = Some((kind, testbed));
        None
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        turns().is_taken = false;
        CHANGED.notify_all();
    }
}
