//! Calls that are made ahead of anybody's want, and what the peer hears when somebody comes to want them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use forebay_transport::{Endpoint, IncomingCall, Service};
use forebay_types::{NodeRank, Priority};
use forebay_wire::{FrameKind, JobMessage, Outcome};
use net::raw::{self, Raw};
use net::{KINDS, Kind, PATIENCE, chunk, index_of, loopback, options, pair, service, until};
use tokio::sync::oneshot;

use crate::net;

/// The requests that a service got, and the number of promotions it heard of.
#[derive(Clone, Default)]
struct Heard {
    calls: Arc<Mutex<Vec<IncomingCall>>>,
    promotions: Arc<AtomicUsize>,
}

impl Heard {
    /// A service that answers nothing by itself.
    fn service(&self) -> Arc<dyn Service> {
        let heard = self.clone();
        service(move |call| {
            let promotions = Arc::clone(&heard.promotions);
            call.reply.on_promote(move || {
                promotions.fetch_add(1, Ordering::SeqCst);
            });
            heard.calls.lock().unwrap().push(call);
        })
    }

    async fn call(&self) -> IncomingCall {
        until("the call arrives", || !self.calls.lock().unwrap().is_empty()).await;
        self.calls.lock().unwrap().remove(0)
    }

    async fn promotion(&self, count: usize) {
        until("the promotion arrives", || self.promotions.load(Ordering::SeqCst) == count).await;
    }
}

#[tokio::test]
async fn a_call_says_who_waits_for_it() {
    for kind in KINDS {
        let heard = Heard::default();
        let (_root, leaf) = pair(kind, heard.service());
        let (_promote, promoted) = oneshot::channel();
        let asking = leaf.clone();
        let ahead = tokio::spawn(async move { asking.call_prefetch(NodeRank(0), chunk(0), PATIENCE, promoted).await });
        let first = heard.call().await;
        let demand = tokio::spawn(async move { leaf.call(NodeRank(0), chunk(1), PATIENCE).await });
        let second = heard.call().await;
        assert_eq!((first.request.priority, second.request.priority), (Priority::Prefetch, Priority::Demand));
        first.reply.answer(Outcome::Text, None);
        second.reply.answer(Outcome::Text, None);
        assert!(ahead.await.unwrap().is_ok() && demand.await.unwrap().is_ok());
        assert_eq!(heard.promotions.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn the_service_hears_of_a_promotion_and_the_answer_comes_as_before() {
    for kind in KINDS {
        let heard = Heard::default();
        let (_root, leaf) = pair(kind, heard.service());
        let (promote, promoted) = oneshot::channel();
        let asking = tokio::spawn(async move { leaf.call_prefetch(NodeRank(0), chunk(0), PATIENCE, promoted).await });
        let call = heard.call().await;
        promote.send(()).unwrap();
        heard.promotion(1).await;
        call.reply.answer(Outcome::Text, None);
        assert_eq!(asking.await.unwrap().unwrap().outcome, Outcome::Text);
    }
}

#[tokio::test]
async fn a_request_promoted_before_its_connection_is_demand() {
    for kind in KINDS {
        let heard = Heard::default();
        let (_root, leaf) = pair(kind, heard.service());
        let (promote, promoted) = oneshot::channel();
        promote.send(()).unwrap();
        let asking = tokio::spawn(async move { leaf.call_prefetch(NodeRank(0), chunk(0), PATIENCE, promoted).await });
        let call = heard.call().await;
        assert_eq!(call.request.priority, Priority::Demand);
        call.reply.answer(Outcome::Text, None);
        assert!(asking.await.unwrap().is_ok());
    }
}

/// Requests of programs find room beside any number of prefetches, also when a program wants one of these.
#[tokio::test]
async fn calls_ahead_leave_room_for_others() {
    let heard = Heard::default();
    let (_root, leaf) = pair(Kind::Tcp, heard.service());
    let ahead = |number| {
        let (leaf, (promote, promoted)) = (leaf.clone(), oneshot::channel());
        let call = async move { leaf.call_prefetch(NodeRank(0), chunk(number), PATIENCE, promoted).await };
        (tokio::spawn(call), promote)
    };
    let under_way = forebay_transport::limits::PEER_REQUESTS_AHEAD_MAX;
    let mut asking: Vec<_> = (0..under_way as u64).map(ahead).collect();
    let arrived = |count| {
        let calls = Arc::clone(&heard.calls);
        async move { until("the calls arrive", || calls.lock().unwrap().len() == count).await }
    };
    arrived(under_way).await;
    asking.extend([10_000, 20_000].map(ahead));
    let asker = leaf.clone();
    let demand = tokio::spawn(async move { asker.call(NodeRank(0), chunk(30_000), PATIENCE).await });
    arrived(under_way + 1).await;
    let (wanted, promote) = asking.pop().unwrap();
    promote.send(()).unwrap();
    arrived(under_way + 2).await;
    let calls = std::mem::take(&mut *heard.calls.lock().unwrap());
    let last = calls[under_way..].iter().map(|call| (index_of(&call.request), call.request.priority));
    assert_eq!(last.collect::<Vec<_>>(), [(30_000, Priority::Demand), (20_000, Priority::Demand)]);
    calls.into_iter().for_each(|call| call.reply.answer(Outcome::Text, None));
    heard.call().await.reply.answer(Outcome::Text, None);
    assert!(demand.await.unwrap().is_ok() && wanted.await.unwrap().is_ok());
    for (call, _promote) in asking {
        assert!(call.await.unwrap().is_ok());
    }
}

/// It can be cancelled all the same.
#[tokio::test]
async fn a_call_that_nobody_will_promote_is_answered_and_a_promoted_one_cancelled() {
    for kind in KINDS {
        let heard = Heard::default();
        let (_root, leaf) = pair(kind, heard.service());
        let (promote, promoted) = oneshot::channel();
        drop(promote);
        let asking = leaf.clone();
        let unpromoted =
            tokio::spawn(async move { asking.call_prefetch(NodeRank(0), chunk(0), PATIENCE, promoted).await });
        heard.call().await.reply.answer(Outcome::Text, None);
        assert!(unpromoted.await.unwrap().is_ok());
        let (promote, promoted) = oneshot::channel();
        promote.send(()).unwrap();
        let asking = tokio::spawn(async move { leaf.call_prefetch(NodeRank(0), chunk(0), PATIENCE, promoted).await });
        let call = heard.call().await;
        heard.promotion(1).await;
        asking.abort();
        until("the service is told", || call.reply.is_cancelled()).await;
    }
}

/// It and the answer pass each other on their ways.
#[tokio::test]
async fn a_promotion_of_what_is_answered_is_nothing_and_a_second_one_neither() {
    let heard = Heard::default();
    let (listener, address) = loopback();
    let _root = Endpoint::start(options(0, vec![address.clone(), address.clone()]), listener, heard.service()).unwrap();
    let mut leaf = Raw::connect(&address).await;
    raw::send(&mut leaf.control, FrameKind::Promote, 7, &[], &[]).await;
    leaf.ask(1, JobMessage::Status).await;
    heard.call().await.reply.answer(Outcome::Text, None);
    assert_eq!(leaf.answer().await.0, 1);
    raw::send(&mut leaf.control, FrameKind::Promote, 1, &[], &[]).await;
    leaf.ask(2, JobMessage::Status).await;
    let call = heard.call().await;
    for _ in 0..2 {
        raw::send(&mut leaf.control, FrameKind::Promote, 2, &[], &[]).await;
    }
    heard.promotion(1).await;
    leaf.ask(3, JobMessage::Status).await;
    heard.call().await;
    assert_eq!(heard.promotions.load(Ordering::SeqCst), 1);
    call.reply.answer(Outcome::Text, None);
}
