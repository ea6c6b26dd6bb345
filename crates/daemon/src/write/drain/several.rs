//! Several tasks at once, carried out by the task that waits for them, a few at a time.

use std::pin::Pin;
use std::task::Poll;

/// The outcomes of tasks in their order, so many of them at the same time.
pub async fn several<T>(at_once: usize, tasks: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let (mut tasks, mut outcomes) = (tasks.into_iter().enumerate().fuse(), vec![]);
    let mut under_way: Vec<(usize, Pin<Box<_>>)> = vec![];
    std::future::poll_fn(|context| {
        loop {
            let room = at_once.max(1) - under_way.len();
            under_way.extend(tasks.by_ref().take(room).map(|(index, task)| (index, Box::pin(task))));
            let before = under_way.len();
            under_way.retain_mut(|(index, task)| match task.as_mut().poll(context) {
                Poll::Ready(outcome) => {
                    outcomes.push((*index, outcome));
                    false
                }
                Poll::Pending => true,
            });
            match under_way.len() {
                0 if before == 0 => return Poll::Ready(()),
                left if left == before => return Poll::Pending,
                // Those that come next have not been asked yet.
                _ => {}
            }
        }
    })
    .await;
    outcomes.sort_unstable_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn all_are_carried_out_so_many_at_once_and_stay_in_order() {
        for count in [0, 1, 7, 8, 9, 100] {
            let (under_way, most) = (Cell::new(0), Cell::new(0));
            let tasks = (0..count).map(async |item| {
                under_way.set(under_way.get() + 1);
                most.set(most.get().max(under_way.get()));
                for _ in 0..item % 5 {
                    tokio::task::yield_now().await;
                }
                under_way.set(under_way.get() - 1);
                item * 2
            });
            assert_eq!(several(8, tasks).await, (0..count).map(|item| item * 2).collect::<Vec<_>>());
            assert!(most.get() <= 8 && (count < 8 || most.get() > 1), "{} of {count} at once", most.get());
        }
    }

    #[tokio::test]
    async fn one_that_waits_for_another_does_not_keep_it_from_going_on() {
        let (go, gone) = oneshot::channel();
        let (mut go, mut gone) = (Some(go), Some(gone));
        let tasks: [Pin<Box<dyn Future<Output = u32>>>; 2] = [
            Box::pin(async move { gone.take().unwrap().await.unwrap() }),
            Box::pin(async move { go.take().unwrap().send(3).map_or(0, |()| 4) }),
        ];
        assert_eq!(several(2, tasks).await, [3, 4]);
    }
}
