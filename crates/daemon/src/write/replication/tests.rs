//! A leader and its follower, in virtual time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_types::NodeRank;
use forebay_wire::Outcome;
use forebay_wire::message::encode;
use forebay_wire::write_message::{Followed, Leadership, ReplicatedIndex, WriteMessage};
use forebay_write::timing::{FOLLOW_RETRY_DELAY, FOLLOWED_AFTER, FOLLOWED_TOGETHER, FOLLOWED_WITHIN, FOLLOWER_SILENT};
use forebay_write::{Backlog, Next};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::follower::{Stream, follow};
use super::replicator::Replicator;
use crate::environment::Operation;
use crate::write::peers::{Called, Calls, Unanswered, Waiting};
use crate::write::remote::{Nodes, Partners};

/// Both, and what is between them.
struct Between {
    began: Instant,
    leader: Replicator<Vec<u8>>,
    leaders: std::sync::OnceLock<Arc<Nodes>>,
    is_cut: AtomicBool,
    is_ending: tokio::sync::watch::Sender<bool>,
    questions: AtomicUsize,
}

struct Way(Arc<Between>);

impl Calls for Way {
    fn own(&self) -> NodeRank {
        NodeRank(1)
    }

    fn others(&self) -> Vec<NodeRank> {
        vec![NodeRank(0)]
    }

    fn call<'a>(
        &'a self,
        _: NodeRank,
        message: &'a WriteMessage,
        within: Duration,
    ) -> Waiting<'a, Result<Called, Unanswered>> {
        Box::pin(async move {
            let between = &self.0;
            between.questions.fetch_add(1, Ordering::Relaxed);
            let (Some(nodes), WriteMessage::Follow { have, .. }) = (between.leaders.get(), message) else {
                return Err(Unanswered::Ever("another message".to_owned()));
            };
            if between.is_cut.load(Ordering::Relaxed) {
                tokio::time::sleep(within).await;
                return Err(Unanswered::Yet("it is silent".to_owned()));
            }
            between.leader.hear(nodes, *have);
            let followed = match between.leader.next(nodes).await {
                Next::Entries { have, entries } => Followed::Changes { have, changes: entries },
                Next::All => Followed::NotNow,
            };
            Ok((Outcome::Body, vec![encode(&followed).into()]))
        })
    }

    fn pause(&self, time: Duration) -> Waiting<'static, ()> {
        let mut is_ending = self.0.is_ending.subscribe();
        Box::pin(async move {
            let _ = tokio::time::timeout(time, is_ending.wait_for(|is_ending| *is_ending)).await;
        })
    }

    fn block(&self, operation: Operation) {
        operation();
    }

    fn spawn(&self, task: Waiting<'static, ()>) -> JoinHandle<()> {
        tokio::spawn(task)
    }

    fn end(&self) {
        self.0.is_ending.send_replace(true);
    }

    fn since_boot(&self) -> Duration {
        self.0.began.elapsed()
    }
}

/// The follower's copy: its index and the entries. It has the leader's first incarnation, and fails once where it is to.
struct Copy {
    has: Arc<Mutex<(ReplicatedIndex, Vec<Vec<u8>>)>>,
    fails: bool,
}

impl Stream for Copy {
    type Answer = Followed;

    fn leader(&self) -> NodeRank {
        NodeRank(0)
    }

    fn question(&self) -> WriteMessage {
        WriteMessage::Follow { have: Some(self.has.lock().unwrap().0), parts: None }
    }

    async fn take(&mut self, answer: Followed) -> Result<(), String> {
        let Followed::Changes { have, changes } = answer else { return Err("no entries".to_owned()) };
        if !changes.is_empty() && std::mem::take(&mut self.fails) {
            return Err("its disk is full".to_owned());
        }
        let mut has = self.has.lock().unwrap();
        has.0 = have;
        has.1.extend(changes);
        Ok(())
    }

    async fn fail(&mut self, _: String) -> bool {
        false
    }
}

struct World {
    between: Arc<Between>,
    nodes: Arc<Nodes>,
    has: Arc<Mutex<(ReplicatedIndex, Vec<Vec<u8>>)>>,
    task: JoinHandle<()>,
}

impl World {
    fn new(fails: bool) -> Self {
        let between = Arc::new(Between {
            began: Instant::now(),
            leader: Replicator::new(Backlog::begin(7, [], forebay_types::Time::default())),
            leaders: std::sync::OnceLock::new(),
            is_cut: AtomicBool::new(false),
            is_ending: tokio::sync::watch::Sender::new(false),
            questions: AtomicUsize::new(0),
        });
        let nodes = Nodes::new(Way(Arc::clone(&between)), Leadership::default(), vec![], Partners::None);
        let _ = between.leaders.set(Arc::clone(&nodes));
        let has = Arc::new(Mutex::new((ReplicatedIndex { incarnation: 7, count: 0 }, vec![])));
        let (copy, of_follower) = (Copy { has: Arc::clone(&has), fails }, Arc::clone(&nodes));
        let task = tokio::spawn(async move { follow(&of_follower, copy).await });
        Self { between, nodes, has, task }
    }

    fn note(&self, entry: u8) {
        self.between.leader.backlog().note(vec![entry]);
        self.between.leader.wake();
    }

    /// Until the follower has everything, or is not waited for. Whether it has, and how long that took.
    async fn wait(&self) -> (bool, Duration) {
        let began = Instant::now();
        let count = self.between.leader.want();
        let waited = self.between.leader.wait(&self.nodes, |backlog| {
            let has = backlog.has(count);
            (has || backlog.is_silent(self.nodes.now())).then_some(has)
        });
        (waited.await.unwrap_or(false), began.elapsed())
    }

    fn entries(&self) -> Vec<u8> {
        self.has.lock().unwrap().1.concat()
    }

    fn questions(&self) -> usize {
        self.between.questions.load(Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_has_its_entries_sent_without_a_pause() {
    let world = World::new(false);
    for entry in 1..=3 {
        world.note(entry);
        let (has, took) = world.wait().await;
        assert!(has && took < Duration::from_millis(1), "{took:?}");
    }
    assert_eq!(world.entries(), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn entries_that_nobody_waits_for_travel_together() {
    let world = World::new(false);
    tokio::time::sleep(FOLLOWED_AFTER / 2).await;
    let before = world.questions();
    for entry in 0..10 {
        world.note(entry);
        tokio::time::sleep(FOLLOWED_TOGETHER / 20).await;
    }
    assert!(world.entries().is_empty());
    tokio::time::sleep(FOLLOWED_TOGETHER).await;
    assert_eq!(world.entries(), (0..10).collect::<Vec<_>>());
    assert!(world.questions() <= before + 2, "{} questions", world.questions() - before);
}

#[tokio::test(start_paused = true)]
async fn a_question_waits_for_something_to_happen_and_not_for_ever() {
    let world = World::new(false);
    tokio::time::sleep(FOLLOWED_AFTER * 10).await;
    assert!((10..=12).contains(&world.questions()), "{} questions", world.questions());
    assert!(!world.between.leader.backlog().is_silent(world.nodes.now()));
}

#[tokio::test(start_paused = true)]
async fn a_silent_follower_is_waited_for_until_it_is_given_up_and_catches_up() {
    let world = World::new(false);
    world.note(1);
    assert!(world.wait().await.0);
    world.between.is_cut.store(true, Ordering::Relaxed);
    // A question that is under way is still answered.
    tokio::time::sleep(FOLLOWED_AFTER * 2).await;
    world.note(2);
    let (has, took) = world.wait().await;
    assert!(!has && took > FOLLOWER_SILENT - FOLLOWED_WITHIN && took < FOLLOWER_SILENT + FOLLOWED_WITHIN, "{took:?}");
    assert_eq!(world.entries(), [1]);
    world.between.is_cut.store(false, Ordering::Relaxed);
    tokio::time::sleep(2 * FOLLOWED_WITHIN + FOLLOW_RETRY_DELAY).await;
    assert_eq!((world.wait().await.0, world.entries()), (true, vec![1, 2]));
}

#[tokio::test(start_paused = true)]
async fn entries_that_could_not_be_written_down_are_asked_for_again() {
    let world = World::new(true);
    world.note(1);
    let (has, took) = world.wait().await;
    assert!(has && took >= FOLLOW_RETRY_DELAY, "{took:?}");
    assert_eq!(world.entries(), [1]);
}

#[tokio::test(start_paused = true)]
async fn all_waits_end_with_the_daemon() {
    let world = World::new(false);
    tokio::time::sleep(FOLLOWED_AFTER / 2).await;
    world.between.is_cut.store(true, Ordering::Relaxed);
    let began = Instant::now();
    let (nodes, leader) = (Arc::clone(&world.nodes), Arc::clone(&world.between));
    let waiter = tokio::spawn(async move { leader.leader.wait(&nodes, |_| None::<()>).await });
    tokio::task::yield_now().await;
    world.nodes.end();
    assert_eq!(waiter.await.unwrap(), None);
    world.task.await.unwrap();
    assert!(began.elapsed() <= FOLLOWED_AFTER, "{:?}", began.elapsed());
}
