//! Interrupts: whose request is answered `EINTR`, because whoever waits for it is being killed.
//!
//! The kernel tells of a signal once for each request, whichever signal it is, and takes no "start again" for an
//! answer. A program with a timer and `SA_RESTART` would see errors that no local file system gives. So a signal that a
//! program takes ends nothing. A request whose task got one is looked at, now and then regularly until it is answered.
//! Once the task has a signal pending that ends it, it gets `EINTR`, which no program ever sees. Waits for locks, which
//! any signal may end, never come here: the kernel keeps the locks on the node itself.
//!
//! A task that this daemon cannot see (outside its pid namespace, or hidden in `/proc`) may be killed as well, and ends when
//! its request does: with the answer, or at the deadline.

use std::sync::Arc;
use std::time::Duration;

use forebay_fuse::Reply;
use forebay_read::KernelTicket;
use forebay_types::Errno;

use super::core::Core;
use super::waiting::WaitingRequests;
use crate::shared::node::Node;

/// How often those who wait are looked at: a program that is killed ends within two of these.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Tasks that are looked at each time: reading the status of one takes some 30 us of the network's thread. Of more, each
/// is looked at in its turn.
const LOOKS_AT_ONCE: usize = 64;

/// The parts that end requests.
pub struct Interrupts {
    node: Arc<Node>,
    core: Arc<Core>,
    waiting: Arc<WaitingRequests>,
}

impl Interrupts {
    pub fn new(node: &Arc<Node>, core: &Arc<Core>, waiting: &Arc<WaitingRequests>) -> Self {
        Self { node: Arc::clone(node), core: Arc::clone(core), waiting: Arc::clone(waiting) }
    }

    /// The task of a request got a signal. For a request that is not here the kernel is told a moment later to say it
    /// again: it may be about to come, and when it has been answered the kernel knows.
    pub fn handle(&self, ticket: KernelTicket, interrupt: Reply) {
        if let Some(tid) = self.waiting.note_signal(self.node.now(), ticket, interrupt)
            && self.node.environment.is_being_killed(tid)
        {
            self.end(ticket);
        }
    }

    /// Looks at the tasks that got a signal, while there are any.
    pub async fn watch(&self) {
        loop {
            self.waiting.until_signal().await;
            loop {
                tokio::time::sleep(LOOK_INTERVAL).await;
                self.waiting.take_overtaken().into_iter().for_each(|interrupt| interrupt.error(Errno::EAGAIN));
                let signalled = self.waiting.signalled(self.node.now(), LOOKS_AT_ONCE);
                if signalled.is_empty() {
                    break;
                }
                let killed = signalled.into_iter().filter(|(_, tid)| self.node.environment.is_being_killed(*tid));
                killed.for_each(|(ticket, _)| self.end(ticket));
            }
        }
    }

    /// Answers `EINTR` to a request that waits, wherever it waits.
    fn end(&self, ticket: KernelTicket) {
        if !self.core.decide(|core, _| core.handle_interrupt(ticket))
            && let Some(parked) = self.waiting.take(ticket)
        {
            parked.reply.error(Errno::EINTR);
        }
    }
}
