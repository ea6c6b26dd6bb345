//! Threads that read the exports, in virtual time: operations begin as the daemon's I/O scheduler says, take some
//! milliseconds, and wait while the backing file system hangs, or what it has of their path.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_daemon::environment::{BackingThreads, CallNumber, Operation, Turn};
use forebay_read::AttemptId;
use forebay_schedule::{Class, IoScheduler};
use forebay_transport::life::Life;
use forebay_types::{Priority, ViewPath};
use tokio::sync::Notify;

use crate::world::World;

/// The threads of one life of a node.
pub(crate) struct VirtualThreads(Arc<Shared>);

struct Shared {
    world: Arc<World>,
    life: Life,
    scheduler: Mutex<IoScheduler<(AttemptId, Operation)>>,
    look_again: Notify,
    /// Told of every operation that begins.
    begins: Begins,
}

/// Hears of every operation that begins, and says which path it is about, if anybody still wants it.
pub(crate) type Begins = Box<dyn Fn(AttemptId, Priority) -> Option<ViewPath> + Send + Sync>;

impl VirtualThreads {
    pub fn new(world: &Arc<World>, life: &Life, limit: usize, begins: Begins) -> Self {
        let (world, life) = (Arc::clone(world), life.clone());
        Self(Arc::new(Shared {
            world,
            life,
            scheduler: Mutex::new(IoScheduler::new(limit)),
            look_again: Notify::new(),
            begins,
        }))
    }
}

impl BackingThreads for VirtualThreads {
    fn submit(&self, attempt: AttemptId, priority: Priority, operation: Operation) {
        self.0.scheduler().submit(attempt.0, priority, (attempt, operation));
        self.0.begin_all();
    }

    fn promote(&self, attempt: AttemptId) {
        if self.0.scheduler().promote(attempt.0) {
            self.0.begin_all();
        }
    }

    fn withdraw(&self, attempt: AttemptId) {
        let withdrawn = self.0.scheduler().withdraw(attempt.0);
        drop(withdrawn);
    }

    /// No file lands here.
    fn call(&self, _: Class, call: Operation) -> Result<CallNumber, Operation> {
        Err(call)
    }

    fn take_back(&self, _: CallNumber) -> Option<Operation> {
        None
    }

    fn look_again(&self) -> &Notify {
        &self.0.look_again
    }

    fn take_turn(&self, _: Class, _: &dyn Fn() -> bool) -> Option<Turn> {
        Some(Box::new(()))
    }
}

impl Shared {
    fn begin_all(self: &Arc<Self>) {
        loop {
            let begun = self.scheduler().begin();
            let Some(((attempt, operation), class)) = begun else { return };
            let at = Arc::clone(self);
            tokio::spawn(self.life.gate(async move { at.carry_out(attempt, operation, class).await }));
        }
    }

    async fn carry_out(self: Arc<Self>, attempt: AttemptId, operation: Operation, class: Class) {
        let priority = if class == Class::Demand { Priority::Demand } else { Priority::Prefetch };
        let about = (self.begins)(attempt, priority).unwrap_or_else(ViewPath::root);
        tokio::time::sleep(self.world.latency()).await;
        loop {
            let until = self.world.state().troubles.hangs_until(&about);
            if until <= self.world.now() {
                break;
            }
            tokio::time::sleep_until(self.world.instant(until)).await;
        }
        operation();
        self.scheduler().end(class);
        self.begin_all();
    }

    fn scheduler(&self) -> MutexGuard<'_, IoScheduler<(AttemptId, Operation)>> {
        self.scheduler.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
