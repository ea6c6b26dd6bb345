//! Operations begin and end by hand; each is its own number.

use proptest::prelude::*;

use super::*;

fn submit(scheduler: &mut IoScheduler<u64>, priority: Priority, numbers: impl IntoIterator<Item = u64>) {
    numbers.into_iter().for_each(|number| scheduler.submit(number, priority, number));
}

/// Ends what is under way and tells what begins next, `count` times.
fn order(scheduler: &mut IoScheduler<u64>, count: usize) -> Vec<u64> {
    let mut begun = Vec::new();
    for _ in 0..count {
        let Some((operation, priority)) = scheduler.begin() else { break };
        begun.push(operation);
        scheduler.end(priority);
    }
    begun
}

#[test]
fn a_program_finds_room_however_much_is_prefetched() {
    let mut scheduler = IoScheduler::new(2 * OPERATIONS_PER_PREFETCH);
    submit(&mut scheduler, Priority::Prefetch, 1..100);
    assert_eq!(std::iter::from_fn(|| scheduler.begin()).count(), 2, "a part of the operations");
    submit(&mut scheduler, Priority::Demand, [200]);
    assert_eq!(scheduler.begin(), Some((200, Priority::Demand)));
}

#[test]
fn demands_begin_before_prefetches_that_came_first() {
    let mut scheduler = IoScheduler::new(1);
    submit(&mut scheduler, Priority::Prefetch, 2..5);
    submit(&mut scheduler, Priority::Demand, [5, 6]);
    assert_eq!(order(&mut scheduler, 9), [5, 6, 2, 3, 4]);
}

#[test]
fn what_is_promoted_goes_with_the_demands_also_before_it_comes() {
    let mut scheduler = IoScheduler::new(1);
    submit(&mut scheduler, Priority::Prefetch, 2..5);
    assert!(scheduler.promote(3));
    assert!(!scheduler.promote(7));
    submit(&mut scheduler, Priority::Demand, [5]);
    submit(&mut scheduler, Priority::Prefetch, [6, 7]);
    assert_eq!(order(&mut scheduler, 9), [3, 5, 7, 2, 4, 6]);
}

#[test]
fn what_is_withdrawn_never_begins() {
    let mut scheduler = IoScheduler::new(1);
    submit(&mut scheduler, Priority::Demand, 1..4);
    submit(&mut scheduler, Priority::Prefetch, 4..6);
    assert_eq!([2, 4, 9].map(|number| scheduler.withdraw(number)), [Some(2), Some(4), None]);
    assert_eq!(order(&mut scheduler, 9), [1, 3, 5]);
}

#[test]
fn prefetches_come_through_beside_a_program_that_never_stops() {
    let mut scheduler = IoScheduler::new(1);
    submit(&mut scheduler, Priority::Prefetch, 1000..1002);
    submit(&mut scheduler, Priority::Demand, 1..100);
    let round = DEMANDS_PER_PREFETCH + 1;
    let begun = order(&mut scheduler, 2 * round);
    let prefetched: Vec<usize> = (0..begun.len()).filter(|place| begun[*place] >= 1000).collect();
    assert_eq!(prefetched, [round - 1, 2 * round - 1]);
}

proptest! {
    /// Whatever is submitted, promoted, withdrawn and ended: no more are under way than may be, prefetches keep to their
    /// part, each operation begins once or is withdrawn, and all that waits begins in the end.
    #[test]
    fn each_begins_once_and_within_the_limits(
        limit in 1usize..12,
        steps in proptest::collection::vec((0u8..6, 0u64..40), 0..200),
    ) {
        let mut scheduler = IoScheduler::new(limit);
        let (mut waiting, mut under_way) = (BTreeSet::new(), Vec::new());
        for (number, (action, pick)) in (1000u64..).zip(steps) {
            match action {
                0 | 1 => {
                    let priority = if action == 0 { Priority::Demand } else { Priority::Prefetch };
                    scheduler.submit(number, priority, number);
                    waiting.insert(number);
                }
                2 => drop(scheduler.promote(1000 + pick)),
                3 => if let Some(gone) = scheduler.withdraw(1000 + pick) {
                    prop_assert!(waiting.remove(&gone));
                },
                4 => if let Some(priority) = under_way.pop() { scheduler.end(priority) },
                _ => if let Some((operation, priority)) = scheduler.begin() {
                    prop_assert!(waiting.remove(&operation), "it began once before");
                    under_way.push(priority);
                },
            }
            prop_assert!(under_way.len() <= limit);
            let prefetches = under_way.iter().filter(|priority| **priority == Priority::Prefetch).count();
            prop_assert!(prefetches <= limit.div_ceil(OPERATIONS_PER_PREFETCH));
            prop_assert_eq!(scheduler.counters().under_way, under_way.len() as u64);
        }
        under_way.drain(..).for_each(|priority| scheduler.end(priority));
        let count = waiting.len();
        prop_assert_eq!(order(&mut scheduler, count + 1).len(), count, "all that waits begins in the end");
    }
}
