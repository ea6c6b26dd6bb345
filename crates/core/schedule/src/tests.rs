//! Operations begin and end by hand; each is its own number.

use proptest::prelude::*;

use super::*;

fn submit(scheduler: &mut IoScheduler<u64>, class: Class, numbers: impl IntoIterator<Item = u64>) {
    numbers.into_iter().for_each(|number| scheduler.submit(number, class, number));
}

/// Ends what is under way and tells what begins next, `count` times.
fn order(scheduler: &mut IoScheduler<u64>, count: usize) -> Vec<u64> {
    let mut begun = Vec::new();
    for _ in 0..count {
        let Some((operation, class)) = scheduler.begin() else { break };
        begun.push(operation);
        scheduler.end(class);
    }
    begun
}

#[test]
fn a_program_finds_room_however_much_is_prefetched() {
    let mut scheduler = IoScheduler::new(2 * OPERATIONS_PER_PREFETCH);
    submit(&mut scheduler, Class::Prefetch, 1..100);
    assert_eq!(std::iter::from_fn(|| scheduler.begin()).count(), 2, "a part of the operations");
    submit(&mut scheduler, Class::Demand, [200]);
    assert_eq!(scheduler.begin(), Some((200, Class::Demand)));
}

#[test]
fn demands_begin_before_prefetches_that_came_first() {
    let mut scheduler = IoScheduler::new(1);
    submit(&mut scheduler, Class::Prefetch, 2..5);
    submit(&mut scheduler, Class::Demand, [5, 6]);
    assert_eq!(order(&mut scheduler, 9), [5, 6, 2, 3, 4]);
}

#[test]
fn promoted_operations_go_with_demand_also_before_they_arrive() {
    let mut scheduler = IoScheduler::new(1);
    submit(&mut scheduler, Class::Prefetch, 2..5);
    assert!(scheduler.promote(3));
    assert!(!scheduler.promote(7));
    submit(&mut scheduler, Class::Demand, [5]);
    submit(&mut scheduler, Class::Prefetch, [6, 7]);
    assert_eq!(order(&mut scheduler, 9), [3, 5, 7, 2, 4, 6]);
}

#[test]
fn withdrawn_operations_never_begin() {
    let mut scheduler = IoScheduler::new(1);
    submit(&mut scheduler, Class::Demand, 1..4);
    submit(&mut scheduler, Class::Prefetch, 4..6);
    assert_eq!([2, 4, 9].map(|number| scheduler.withdraw(number)), [Some(2), Some(4), None]);
    assert_eq!(order(&mut scheduler, 9), [1, 3, 5]);
}

#[test]
fn prefetches_come_through_beside_a_program_that_never_stops() {
    let mut scheduler = IoScheduler::new(1);
    submit(&mut scheduler, Class::Prefetch, 1000..1002);
    submit(&mut scheduler, Class::Demand, 1..100);
    let round = DEMANDS_PER_PREFETCH + 1;
    let begun = order(&mut scheduler, 2 * round);
    let prefetched: Vec<usize> = (0..begun.len()).filter(|place| begun[*place] >= 1000).collect();
    assert_eq!(prefetched, [round - 1, 2 * round - 1]);
}

#[test]
fn landing_comes_last_and_one_at_a_time_while_a_program_uses_the_file_system() {
    let mut scheduler = IoScheduler::new(4 * OPERATIONS_PER_BACKGROUND);
    submit(&mut scheduler, Class::Background, 100..200);
    submit(&mut scheduler, Class::Prefetch, [50]);
    submit(&mut scheduler, Class::Demand, [1, 2]);
    let begun: Vec<u64> = std::iter::from_fn(|| scheduler.begin()).map(|(operation, _)| operation).collect();
    assert_eq!(begun, [1, 2, 50, 100]);
    scheduler.end(Class::Background);
    assert_eq!(scheduler.begin(), Some((101, Class::Background)), "it goes on, one at a time");
    assert_eq!((scheduler.ready_count(), scheduler.begin()), (0, None));
    scheduler.end(Class::Demand);
    scheduler.end(Class::Demand);
    assert_eq!(scheduler.ready_count(), 3, "its part, when no program uses the file system");
    assert_eq!(std::iter::from_fn(|| scheduler.begin()).count(), 3);
    assert!(scheduler.begin_at_once(Class::Demand), "a program finds room");
    assert!(!scheduler.begin_at_once(Class::Background));
}

#[test]
fn landing_goes_on_beside_a_program_that_never_stops() {
    let mut scheduler = IoScheduler::new(1);
    submit(&mut scheduler, Class::Background, 1000..1002);
    submit(&mut scheduler, Class::Demand, 1..100);
    let round = OTHERS_PER_BACKGROUND + 1;
    let begun = order(&mut scheduler, 2 * round);
    let landed: Vec<usize> = (0..begun.len()).filter(|place| begun[*place] >= 1000).collect();
    assert_eq!(landed, [round - 1, 2 * round - 1]);
}

#[test]
fn an_immediate_start_overtakes_no_operation_of_its_class_or_above() {
    let mut scheduler = IoScheduler::new(2);
    assert!(scheduler.begin_at_once(Class::Background));
    assert!(!scheduler.begin_at_once(Class::Background), "its part is one of two");
    assert!(scheduler.begin_at_once(Class::Demand));
    assert!(!scheduler.begin_at_once(Class::Demand), "two are under way");
    submit(&mut scheduler, Class::Demand, [1]);
    scheduler.end(Class::Demand);
    assert!(!scheduler.begin_at_once(Class::Demand), "another waits");
    assert_eq!(scheduler.begin(), Some((1, Class::Demand)));
}

proptest! {
    /// Whatever is submitted, promoted, withdrawn and ended: no more are under way than may be, prefetches keep to their
    /// part, each operation begins once or is withdrawn, and all that waits begins in the end.
    #[test]
    fn each_begins_once_and_within_the_limits(
        limit in 1usize..12,
        steps in proptest::collection::vec((0u8..8, 0u64..40), 0..200),
    ) {
        let mut scheduler = IoScheduler::new(limit);
        let (mut waiting, mut under_way) = (BTreeSet::new(), Vec::new());
        for (number, (action, pick)) in (1000u64..).zip(steps) {
            match action {
                0 | 1 | 6 => {
                    let class = [Class::Demand, Class::Prefetch, Class::Background][usize::from(action.min(2))];
                    scheduler.submit(number, class, number);
                    waiting.insert(number);
                }
                2 => drop(scheduler.promote(1000 + pick)),
                3 => if let Some(gone) = scheduler.withdraw(1000 + pick) {
                    prop_assert!(waiting.remove(&gone));
                },
                4 => if let Some(class) = under_way.pop() { scheduler.end(class) },
                7 => {
                    let class = [Class::Demand, Class::Prefetch, Class::Background][pick as usize % 3];
                    if scheduler.begin_at_once(class) {
                        under_way.push(class);
                    }
                }
                _ => {
                    let (ready, begun) = (scheduler.ready_count(), scheduler.begin());
                    prop_assert_eq!(ready > 0, begun.is_some());
                    if let Some((operation, class)) = begun {
                        prop_assert!(waiting.remove(&operation), "it began once before");
                        under_way.push(class);
                    }
                }
            }
            prop_assert!(under_way.len() <= limit);
            let of = |class: Class| under_way.iter().filter(|of| **of == class).count();
            prop_assert!(of(Class::Prefetch) <= limit.div_ceil(OPERATIONS_PER_PREFETCH));
            prop_assert!(of(Class::Background) <= limit.div_ceil(OPERATIONS_PER_BACKGROUND));
            prop_assert_eq!(scheduler.counters().under_way, under_way.len() as u64);
        }
        under_way.drain(..).for_each(|class| scheduler.end(class));
        let count = waiting.len();
        prop_assert_eq!(order(&mut scheduler, count + 1).len(), count, "all that waits begins in the end");
    }
}
