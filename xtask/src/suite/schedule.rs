//! Which batch of tests starts next.
//!
//! Decides and does nothing: the batches that may run are known, those that run are told to it, and it names the next one.

use super::groups::Group;

/// Tests that run in one process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Index of the program.
    pub program: usize,
    pub tests: Vec<String>,
    pub group: Group,
    /// How long it took last time, or a guess.
    pub expected_ms: u64,
}

/// So many tests that wait run beside each other, for each processor: with four, two processors are busy.
const WAITING_PER_PROCESSOR: usize = 4;

/// The queue of batches that have not started, and the room that running ones use.
pub struct Schedule {
    /// The longest first, so that no long one is left at the end; those that run alone come last.
    queue: Vec<Batch>,
    /// Room in waiting tests.
    room: usize,
    /// Room used by batches that compute, and by those that wait.
    computing: usize,
    waiting: usize,
    is_one_alone: bool,
}

impl Schedule {
    /// For a machine with so many processors.
    pub fn new(mut queue: Vec<Batch>, processors: usize) -> Self {
        queue.sort_by_key(|batch| (batch.group == Group::Alone, std::cmp::Reverse(batch.expected_ms)));
        Self { queue, room: processors.max(1) * WAITING_PER_PROCESSOR, computing: 0, waiting: 0, is_one_alone: false }
    }

    /// Takes the next batch that may start beside what runs: rather one of the kind that has less room, so that some wait
    /// while others compute.
    pub fn next(&mut self) -> Option<Batch> {
        // Where nothing runs yet, those that fill the machine: later they would have to wait until it is empty.
        let fills = self.queue.iter().position(|batch| batch.group == Group::Fills && self.fits(batch));
        let computes_less = self.computing < self.waiting;
        let rather = self.queue.iter().position(|batch| self.fits(batch) && computes(batch.group) == computes_less);
        let place = fills.or(rather).or_else(|| self.queue.iter().position(|batch| self.fits(batch)))?;
        let batch = self.queue.remove(place);
        let weight = self.weight(batch.group);
        *self.used_by(batch.group) += weight;
        self.is_one_alone = batch.group == Group::Alone;
        Some(batch)
    }

    fn fits(&self, batch: &Batch) -> bool {
        let used = self.computing + self.waiting;
        match batch.group {
            _ if self.is_one_alone => false,
            Group::Fills => used == 0,
            Group::Alone => used == 0 && self.queue.iter().all(|other| other.group == Group::Alone),
            group => used + self.weight(group) <= self.room,
        }
    }

    /// A batch has ended.
    pub fn ended(&mut self, group: Group) {
        let weight = self.weight(group);
        *self.used_by(group) -= weight;
        self.is_one_alone = false;
    }

    fn used_by(&mut self, group: Group) -> &mut usize {
        if computes(group) { &mut self.computing } else { &mut self.waiting }
    }

    /// How much room a batch takes.
    fn weight(&self, group: Group) -> usize {
        match group {
            Group::Fills => self.room,
            Group::Computes | Group::Alone | Group::Shares => WAITING_PER_PROCESSOR,
            Group::Waits | Group::Turns => 1,
        }
    }

    /// How many batches have not started.
    pub fn left(&self) -> usize {
        self.queue.len()
    }

    /// Drops all batches that have not started.
    pub fn clear(&mut self) {
        self.queue.clear();
    }
}

/// Whether a batch keeps a processor busy.
fn computes(group: Group) -> bool {
    !matches!(group, Group::Waits | Group::Turns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(group: Group, expected_ms: u64) -> Batch {
        Batch { program: 0, tests: vec![], group, expected_ms }
    }

    fn started(schedule: &mut Schedule) -> Vec<(Group, u64)> {
        std::iter::from_fn(|| schedule.next()).map(|batch| (batch.group, batch.expected_ms)).collect()
    }

    #[test]
    fn processors_are_shared_by_those_that_compute_and_those_that_wait() {
        use Group::{Computes, Waits};
        let mut queue = vec![batch(Computes, 9), batch(Computes, 8), batch(Computes, 7)];
        queue.extend((0..6).map(|expected_ms| batch(Waits, expected_ms)));
        let mut schedule = Schedule::new(queue, 2);
        assert_eq!(started(&mut schedule), [(Waits, 5), (Computes, 9), (Waits, 4), (Waits, 3), (Waits, 2)]);
        schedule.ended(Waits);
        assert_eq!(started(&mut schedule), [(Waits, 1)], "another that computes does not fit");
        schedule.ended(Computes);
        assert_eq!(started(&mut schedule), [(Computes, 8)]);
        (0..2).for_each(|_| schedule.ended(Waits));
        assert_eq!(started(&mut schedule), [(Waits, 0)]);
    }

    #[test]
    fn one_that_runs_alone_has_the_machine() {
        use Group::{Alone, Turns, Waits};
        let mut schedule = Schedule::new(vec![batch(Alone, 9), batch(Alone, 8), batch(Waits, 1), batch(Turns, 2)], 2);
        assert_eq!(started(&mut schedule), [(Turns, 2), (Waits, 1)], "the long ones that run alone come last");
        schedule.ended(Waits);
        assert_eq!(started(&mut schedule), []);
        schedule.ended(Turns);
        assert_eq!(started(&mut schedule), [(Alone, 9)]);
        schedule.ended(Alone);
        assert_eq!((started(&mut schedule), schedule.left()), (vec![(Alone, 8)], 0));
    }

    #[test]
    fn those_that_fill_the_machine_come_first_and_by_themselves() {
        use Group::{Computes, Fills, Waits};
        let mut schedule = Schedule::new(vec![batch(Waits, 9), batch(Fills, 1), batch(Computes, 2)], 2);
        assert_eq!(started(&mut schedule), [(Fills, 1)]);
        schedule.ended(Fills);
        assert_eq!(started(&mut schedule), [(Waits, 9), (Computes, 2)]);
    }

    #[test]
    fn a_machine_of_one_processor_gets_on() {
        let mut schedule = Schedule::new(vec![batch(Group::Computes, 1), batch(Group::Alone, 1)], 1);
        assert_eq!(started(&mut schedule).len(), 1);
        schedule.ended(Group::Computes);
        assert_eq!(started(&mut schedule).len(), 1);
    }
}
