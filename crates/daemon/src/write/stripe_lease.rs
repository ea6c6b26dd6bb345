//! The right to write a stripe for the leader that has asked for it.
//!
//! A stripe may wait long for its turn at the backing file system, and the tree may have another leader by then, which lands newer bytes in the
//! same file. So the right ends when this node learns of another leader, and it lasts no longer than `STRIPE_LEASE` from when the leader was last
//! asked and led the tree. It is looked at immediately before each call, as a leader looks at its leader lease.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_types::{Errno, Time};
use forebay_wire::write::{BURST_ROOT, Caller};
use forebay_wire::write_message::{Answer, Leadership, Question, WriteMessage};
use forebay_write::timing::{RENEW_EVERY, RENEW_RETRY_DELAY, RENEWED_WITHIN, STRIPE_LEASE};

use super::calls::MayLand;
use super::remote::Nodes;

/// See the module.
pub struct StripeLease {
    nodes: Arc<Nodes>,
    leadership: Leadership,
    /// When the leader was asked last that led the tree then.
    asked_at: Mutex<Option<Time>>,
}

impl StripeLease {
    /// Of a node that writes for this leader, which it has not asked yet.
    pub fn new(nodes: &Arc<Nodes>, leadership: Leadership) -> Arc<Self> {
        Arc::new(Self { nodes: Arc::clone(nodes), leadership, asked_at: Mutex::default() })
    }

    /// For the calls of the stripe.
    pub fn may_land(self: &Arc<Self>) -> MayLand {
        let lease = Arc::clone(self);
        MayLand::while_it_holds(move || lease.is_held())
    }

    fn is_held(&self) -> bool {
        let asked_at = *self.asked_at.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.nodes.now();
        self.nodes.leadership() == self.leadership && asked_at.is_some_and(|asked| now.since(asked) < STRIPE_LEASE)
    }

    /// Asks until the leader says that it leads the tree, for no longer than a lease lasts.
    pub async fn begin(&self) {
        let began = self.nodes.now();
        while !self.nodes.is_ending() && self.nodes.now().since(began) < STRIPE_LEASE {
            self.renew().await;
            if self.is_held() {
                break;
            }
            self.nodes.pause(RENEW_RETRY_DELAY).await;
        }
    }

    /// Asks the leader whether it leads the tree.
    async fn renew(&self) {
        let (asked, leader) = (self.nodes.now(), self.leadership.leader);
        let (caller, question) = (Caller::default(), Question::State { file: BURST_ROOT });
        // Only a leader that holds its leader lease answers it.
        let question = WriteMessage::Question { caller, question, is_leased: false };
        let answer = self.nodes.ask_once::<Result<Answer, Errno>>(leader, &question, RENEWED_WITHIN).await;
        if !matches!(answer, Some(Ok(_))) {
            return;
        }
        // It may have led the tree before and again, and another node between.
        let leadership = self.nodes.ask_once::<Leadership>(leader, &WriteMessage::WhoLeads, RENEWED_WITHIN).await;
        if leadership == Some(self.leadership) {
            *self.asked_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(asked);
        }
    }

    /// Asks repeatedly, beside the writing.
    pub async fn keep(&self) -> Infallible {
        while !self.nodes.is_ending() {
            self.nodes.pause(RENEW_EVERY).await;
            self.renew().await;
        }
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::Duration;

    use forebay_types::NodeRank;
    use forebay_wire::Outcome;
    use forebay_wire::message::encode;

    use super::super::peers::{Called, Calls, Unanswered, Waiting};
    use super::super::remote::Partners;
    use super::*;
    use crate::environment::Operation;

    const FIRST: Leadership = Leadership { term: 0, leader: NodeRank(0) };

    /// The state that the test changes.
    #[derive(Default)]
    struct Network {
        now_ms: AtomicU64,
        is_cut: AtomicBool,
        term: AtomicU64,
    }

    /// Node 0 leads the tree.
    struct FromWriter(Arc<Network>);

    impl Calls for FromWriter {
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
            _: Duration,
        ) -> Waiting<'a, Result<Called, Unanswered>> {
            let term = self.0.term.load(Ordering::Relaxed);
            let answer = match (self.0.is_cut.load(Ordering::Relaxed), message) {
                (true, _) => Err(Unanswered::Yet("it is cut off".to_owned())),
                (false, WriteMessage::WhoLeads) => Ok(encode(&Leadership { term, leader: NodeRank(0) })),
                (false, _) => Ok(encode(&Ok::<_, Errno>(Answer::Nothing))),
            };
            Box::pin(std::future::ready(answer.map(|body| (Outcome::Body, vec![body.into()]))))
        }

        fn pause(&self, time: Duration) -> Waiting<'static, ()> {
            Box::pin(tokio::time::sleep(time))
        }

        fn block(&self, operation: Operation) {
            operation();
        }

        fn spawn(&self, task: Waiting<'static, ()>) -> tokio::task::JoinHandle<()> {
            tokio::spawn(task)
        }

        fn since_boot(&self) -> Duration {
            Duration::from_millis(self.0.now_ms.load(Ordering::Relaxed))
        }
    }

    fn lease_of_writer() -> (Arc<Network>, Arc<Nodes>, Arc<StripeLease>) {
        let network = Arc::<Network>::default();
        let nodes = Nodes::new(FromWriter(Arc::clone(&network)), FIRST, vec![NodeRank(0)], Partners::None);
        let lease = StripeLease::new(&nodes, FIRST);
        (network, nodes, lease)
    }

    fn write(may_land: &MayLand) -> Result<(), Errno> {
        may_land.call(|| Ok(()))
    }

    #[tokio::test]
    async fn a_stripe_that_waits_is_not_written_for_a_leader_that_has_been_replaced() {
        let (_, nodes, lease) = lease_of_writer();
        let may_land = lease.may_land();
        assert_eq!(write(&may_land), Err(Errno::EAGAIN), "the leader has not been asked");
        lease.renew().await;
        assert_eq!(write(&may_land), Ok(()));
        nodes.switch_leader(Leadership { term: 1, leader: NodeRank(2) });
        assert_eq!(write(&may_land), Err(Errno::EAGAIN), "another node leads the tree");
        lease.renew().await;
        assert_eq!(write(&may_land), Err(Errno::EAGAIN));
    }

    #[tokio::test]
    async fn a_node_that_hears_of_no_leader_writes_no_stripe_for_longer_than_its_lease() {
        let (network, _, lease) = lease_of_writer();
        let may_land = lease.may_land();
        lease.renew().await;
        network.is_cut.store(true, Ordering::Relaxed);
        network.now_ms.fetch_add(STRIPE_LEASE.as_millis() as u64 - 1, Ordering::Relaxed);
        lease.renew().await;
        assert_eq!(write(&may_land), Ok(()));
        network.now_ms.fetch_add(1, Ordering::Relaxed);
        assert_eq!(write(&may_land), Err(Errno::EAGAIN));
        network.is_cut.store(false, Ordering::Relaxed);
        lease.renew().await;
        assert_eq!(write(&may_land), Ok(()), "the leader leads the tree still");
    }

    #[tokio::test]
    async fn a_leader_that_leads_again_has_no_stripe_written_that_it_wanted_before() {
        let (network, _, lease) = lease_of_writer();
        network.term.store(2, Ordering::Relaxed);
        lease.renew().await;
        assert_eq!(write(&lease.may_land()), Err(Errno::EAGAIN));
    }

    /// The calls go on for as long as the leader leads the tree, however long they take.
    #[tokio::test(start_paused = true)]
    async fn the_lease_is_kept_while_the_leader_leads() {
        let (network, _, lease) = lease_of_writer();
        lease.renew().await;
        let calls = async {
            for _ in 0..100 {
                tokio::time::sleep(RENEW_EVERY).await;
                network.now_ms.fetch_add(RENEW_EVERY.as_millis() as u64, Ordering::Relaxed);
                write(&lease.may_land())?;
            }
            Ok::<_, Errno>(())
        };
        tokio::select! {
            written = calls => assert_eq!(written, Ok(())),
            never = lease.keep() => match never {},
        }
    }
}
