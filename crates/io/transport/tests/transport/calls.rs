//! Calls: answered, late, cancelled, refused for want of room, lost and made again.

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use forebay_body::Body;
use forebay_transport::memory::Network;
use forebay_transport::{Address, CallError, Endpoint, IncomingCall, Replier, Service};
use forebay_types::{Errno, FileSystem, NodeRank};
use forebay_wire::{JobMessage, Outcome};
use net::raw::{self, Raw};
use net::{KINDS, Kind, PATIENCE, ask, chunk, index_of, loopback, mute, options, pair, pattern, service, until};

use crate::net;

type Held = Arc<Mutex<Vec<IncomingCall>>>;

/// A service that answers nothing by itself.
fn holding() -> (Held, Arc<dyn Service>) {
    let held: Held = Arc::default();
    let calls = Arc::clone(&held);
    (held, service(move |call| calls.lock().unwrap().push(call)))
}

fn replier(held: &Held) -> Replier {
    held.lock().unwrap().remove(0).reply
}

/// The number asked for as many bytes of body.
fn sized() -> Arc<dyn Service> {
    service(|call| {
        let bytes = pattern(index_of(&call.request) as usize);
        call.reply.answer(Outcome::Body, Some(Body::whole(bytes)));
    })
}

#[tokio::test]
async fn a_call_arrives_with_who_asks_what_and_for_how_long() {
    for kind in KINDS {
        let (held, holding) = holding();
        let (_root, leaf) = pair(kind, holding);
        let asking = tokio::spawn(async move { leaf.call(NodeRank(0), chunk(9), Duration::from_secs(7)).await });
        until("the call arrives", || held.lock().unwrap().len() == 1).await;
        let call = held.lock().unwrap().remove(0);
        assert_eq!((call.from, &call.request), (NodeRank(1), &chunk(9)));
        assert!(call.remaining <= Duration::from_secs(7) && call.remaining > Duration::from_secs(4));
        assert!(!call.reply.is_cancelled());
        let outcome = Outcome::FileSystem(FileSystem { blocks: 5, ..FileSystem::default() });
        call.reply.answer(outcome.clone(), None);
        let reply = asking.await.unwrap().unwrap();
        assert_eq!(reply.outcome, outcome);
        assert!(reply.body.is_none());
    }
}

#[tokio::test]
async fn an_unanswered_call_fails_instead_of_waiting() {
    for kind in KINDS {
        let (_root, leaf) = pair(kind, mute());
        let reply = leaf.call(NodeRank(0), JobMessage::Status, PATIENCE).await.unwrap();
        assert_eq!(reply.outcome, Outcome::Failed(Errno::EIO));
    }
}

#[tokio::test]
async fn the_service_hears_of_a_cancelled_call() {
    for kind in KINDS {
        let (held, holding) = holding();
        let (_root, leaf) = pair(kind, holding);
        let asking = tokio::spawn(async move { leaf.call(NodeRank(0), chunk(0), PATIENCE).await });
        until("the call arrives", || held.lock().unwrap().len() == 1).await;
        let reply = replier(&held);
        let told = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&told);
        reply.on_cancel(move || count.store(count.load(Ordering::SeqCst) + 1, Ordering::SeqCst));
        asking.abort();
        until("the service is told", || told.load(Ordering::SeqCst) == 1).await;
        assert!(reply.is_cancelled());
        let count = Arc::clone(&told);
        reply.on_cancel(move || count.store(count.load(Ordering::SeqCst) + 1, Ordering::SeqCst));
        assert_eq!(told.load(Ordering::SeqCst), 2, "who comes late is told at once");
        reply.answer(Outcome::Text, None);
        assert_eq!(told.load(Ordering::SeqCst), 2);
    }
}

#[tokio::test]
async fn the_service_hears_of_a_peer_that_is_gone() {
    for kind in KINDS {
        let (held, holding) = holding();
        let (root, leaf) = pair(kind, holding);
        let asking = leaf.clone();
        let call = tokio::spawn(async move { asking.call(NodeRank(0), chunk(0), PATIENCE).await });
        until("the call arrives", || held.lock().unwrap().len() == 1).await;
        let told = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&told);
        held.lock().unwrap()[0]
            .reply
            .on_cancel(move || count.store(count.load(Ordering::SeqCst) + 1, Ordering::SeqCst));
        leaf.shutdown().await;
        assert!(matches!(call.await.unwrap(), Err(CallError::ShutDown)));
        until("the service is told", || told.load(Ordering::SeqCst) == 1).await;
        assert_eq!(root.counters().connections, 0);
    }
}

#[tokio::test]
async fn a_call_past_its_deadline_times_out_and_is_cancelled() {
    for kind in KINDS {
        let (held, holding) = holding();
        let (_root, leaf) = pair(kind, holding);
        // On a busy machine a call's time may be over before it has left.
        for deadline in [200, 2000, 20_000].map(Duration::from_millis) {
            let start = Instant::now();
            let error = leaf.call(NodeRank(0), chunk(0), deadline).await.unwrap_err();
            assert!(start.elapsed() >= deadline);
            assert!(matches!(error, CallError::TimedOut { to: NodeRank(0), .. }), "{error:?}");
            assert_eq!(error.errno(), Errno::ETIMEDOUT);
            if !held.lock().unwrap().is_empty() {
                break;
            }
        }
        let is_told = || held.lock().unwrap().iter().all(|call| call.reply.is_cancelled());
        until("the service is told", is_told).await;
        let late: Vec<IncomingCall> = held.lock().unwrap().drain(..).collect();
        assert!(!late.is_empty(), "no call has arrived");
        late.into_iter().for_each(|call| call.reply.answer(Outcome::Text, None));
        let later = tokio::spawn(async move { leaf.call(NodeRank(0), chunk(1), PATIENCE).await });
        until("the next call arrives", || held.lock().unwrap().len() == 1).await;
        replier(&held).answer(Outcome::Text, None);
        assert_eq!(later.await.unwrap().unwrap().outcome, Outcome::Text, "the late answer was nobody else's");
    }
}

#[tokio::test]
async fn an_earlier_deadline_is_kept_beside_a_later_one() {
    let (held, holding) = holding();
    let (_root, leaf) = pair(Kind::Memory, holding);
    let asking = leaf.clone();
    let late = tokio::spawn(async move { asking.call(NodeRank(0), chunk(0), PATIENCE).await });
    until("the call arrives", || held.lock().unwrap().len() == 1).await;
    let error = leaf.call(NodeRank(0), chunk(1), Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(error.errno(), Errno::ETIMEDOUT);
    replier(&held).answer(Outcome::Text, None);
    assert!(late.await.unwrap().is_ok());
}

#[tokio::test]
async fn concurrent_calls_share_one_connection() {
    for kind in KINDS {
        let (root, leaf) = pair(kind, sized());
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let leaf = leaf.clone();
            calls.spawn(async move { ask(&leaf, 64).await.len() });
        }
        assert_eq!(calls.join_all().await, [64; 50]);
        assert_eq!((root.counters().connections, leaf.counters().connections), (2, 2));
    }
}

#[tokio::test]
async fn each_direction_has_its_own_connections() {
    for kind in KINDS {
        let nodes = net::job(kind, vec![sized(), sized()]);
        assert_eq!(ask(&nodes[1], 10).await.len(), 10);
        let reply = nodes[0].call(NodeRank(1), chunk(11), PATIENCE).await.unwrap();
        assert_eq!(reply.body.unwrap().expected_bytes(), 11);
        assert_eq!((nodes[0].counters().connections, nodes[1].counters().connections), (4, 4));
    }
}

#[tokio::test]
async fn calls_beyond_the_limit_wait_for_room() {
    let (held, holding) = holding();
    let (_root, leaf) = pair(Kind::Tcp, holding);
    let extra = 40;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..forebay_transport::limits::PEER_REQUESTS_MAX + extra {
        let leaf = leaf.clone();
        calls.spawn(async move { leaf.call(NodeRank(0), JobMessage::Status, PATIENCE).await.unwrap().outcome });
    }
    until("a full window arrives", || held.lock().unwrap().len() == forebay_transport::limits::PEER_REQUESTS_MAX).await;
    for _ in 0..extra {
        let before = leaf.counters().requests_sent;
        replier(&held).answer(Outcome::Text, None);
        until("the next is sent", || leaf.counters().requests_sent == before + 1).await;
    }
    until("all arrive", || held.lock().unwrap().len() == forebay_transport::limits::PEER_REQUESTS_MAX).await;
    held.lock().unwrap().drain(..).for_each(|call| call.reply.answer(Outcome::Text, None));
    assert_eq!(calls.join_all().await.len(), forebay_transport::limits::PEER_REQUESTS_MAX + extra);
}

#[tokio::test]
async fn a_peer_beyond_the_limit_is_read_no_further() {
    let (held, holding) = holding();
    let (listener, address) = loopback();
    let addresses = vec![address.clone(), address.clone()];
    let _root = Endpoint::start(options(0, addresses), listener, holding).unwrap();
    let mut leaf = Raw::connect(&address).await;
    let many = forebay_transport::limits::PEER_REQUESTS_MAX as u32;
    for stream in 0..many + 2 {
        leaf.ask(stream, JobMessage::Status).await;
    }
    let waiting = || held.lock().unwrap().len();
    until("a full window arrives", || waiting() == forebay_transport::limits::PEER_REQUESTS_MAX).await;
    replier(&held).answer(Outcome::Text, None);
    assert_eq!(leaf.answer().await.0, 0);
    until("one more arrives", || waiting() == forebay_transport::limits::PEER_REQUESTS_MAX).await;
    assert_eq!(held.lock().unwrap().len(), forebay_transport::limits::PEER_REQUESTS_MAX);
    replier(&held).answer(Outcome::Text, None);
    assert_eq!(leaf.answer().await.0, 1);
}

#[tokio::test]
async fn an_unreachable_node_is_named_with_its_reason() {
    let (listener, dead) = loopback();
    drop(listener);
    let (own, address) = loopback();
    let unknown = Address::Tcp { host: "no-such-host.invalid".to_owned(), ports: vec![1] };
    let leaf = Endpoint::start(options(1, vec![dead.clone(), address, unknown]), own, mute()).unwrap();
    for to in [0, 2, 3] {
        let error = leaf.call(NodeRank(to), JobMessage::Status, PATIENCE).await.unwrap_err();
        assert!(matches!(error, CallError::Unreachable { .. }), "{error:?}");
        assert_eq!(error.errno(), Errno::EHOSTUNREACH);
        assert!(std::error::Error::source(&error).is_some());
    }
    let error = leaf.call(NodeRank(0), JobMessage::Status, PATIENCE).await.unwrap_err();
    assert_eq!(error.to_string(), format!("node 0 cannot be reached at {dead}"));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_starts_a_moment_later_is_not_lost() {
    let network = Network::new(2);
    let leaf = Endpoint::start_memory(options(1, Vec::new()), &network, mute());
    let start_late = async {
        tokio::time::sleep(forebay_transport::limits::START_SKEW / 2).await;
        Endpoint::start_memory(options(0, Vec::new()), &network, sized())
    };
    let (bytes, _root) = tokio::join!(ask(&leaf, 7), start_late);
    assert_eq!(bytes.len(), 7);
}

#[tokio::test]
async fn a_peer_that_accepts_and_stays_silent_is_given_up() {
    let (silent, address) = loopback();
    let (own, own_address) = loopback();
    let mut options = options(1, vec![address, own_address]);
    options.connect_deadline = Duration::from_millis(100);
    let leaf = Endpoint::start(options, own, mute()).unwrap();
    let error = leaf.call(NodeRank(0), JobMessage::Status, PATIENCE).await.unwrap_err();
    assert!(matches!(error, CallError::Unreachable { .. }), "{error:?}");
    let error = leaf.call(NodeRank(0), JobMessage::Status, Duration::from_millis(10)).await.unwrap_err();
    assert!(matches!(error, CallError::TimedOut { .. }), "the call's own deadline comes first: {error:?}");
    drop(silent);
}

#[tokio::test]
async fn a_peer_that_restarts_on_its_port_is_found_again() {
    let (listener, address) = loopback();
    let (own, own_address) = loopback();
    let addresses = vec![address.clone(), own_address];
    let leaf = Endpoint::start(options(1, addresses.clone()), own, mute()).unwrap();
    let mut listener = Some(listener);
    for life in 0..3 {
        let listener = listener.take().unwrap_or_else(|| TcpListener::bind(raw::address_of(&address)).unwrap());
        let root = Endpoint::start(options(0, addresses.clone()), listener, sized()).unwrap();
        assert_eq!(ask(&leaf, 100 + life).await.len() as u64, 100 + life);
        root.shutdown().await;
        until("the loss is noticed", || leaf.counters().connections == 0).await;
        let error = leaf.call(NodeRank(0), chunk(1), PATIENCE).await.unwrap_err();
        assert!(matches!(error, CallError::Unreachable { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_rank_that_comes_again_replaces_its_earlier_session() {
    let (listener, address) = loopback();
    let root = Endpoint::start(options(0, vec![address.clone(), address.clone()]), listener, sized()).unwrap();
    let mut first = Raw::connect(&address).await;
    first.ask(1, chunk(5)).await;
    assert_eq!(first.answer().await.0, 1);
    let mut second = Raw::connect(&address).await;
    second.ask(1, chunk(5)).await;
    assert_eq!(second.answer().await.0, 1);
    raw::closed(&mut first.control).await;
    raw::closed(&mut first.bulk).await;
    assert_eq!(root.counters().connections, 2);
}

#[tokio::test]
async fn shutdown_leaves_no_task_and_no_listener() {
    for kind in KINDS {
        let before = net::tasks();
        let (held, holding) = holding();
        let (root, leaf) = pair(kind, holding);
        let asking = leaf.clone();
        let call = tokio::spawn(async move { asking.call(NodeRank(0), chunk(0), PATIENCE).await });
        until("the call arrives", || held.lock().unwrap().len() == 1).await;
        tokio::join!(leaf.shutdown(), root.shutdown());
        assert!(call.await.unwrap().is_err());
        root.shutdown().await;
        assert_eq!(net::tasks(), before);
        assert_eq!((root.counters().connections, leaf.counters().connections), (0, 0));
        let error = leaf.call(NodeRank(0), chunk(0), PATIENCE).await.unwrap_err();
        assert!(matches!(error, CallError::ShutDown), "{error:?}");
        if let Some(Address::Tcp { host, ports }) = root.peers().address(NodeRank(0)) {
            assert!(std::net::TcpStream::connect((host.as_str(), ports[0])).is_err());
        }
        drop(held);
    }
}

#[tokio::test]
async fn an_answer_given_before_shutdown_leaves() {
    for (kind, size) in KINDS.into_iter().flat_map(|kind| [(kind, 100), (kind, 3 << 20)]) {
        let (held, holding) = holding();
        let (root, leaf) = pair(kind, holding);
        let call = tokio::spawn(async move { ask(&leaf, 0).await });
        until("the call arrives", || held.lock().unwrap().len() == 1).await;
        replier(&held).answer(Outcome::Body, Some(Body::whole(pattern(size))));
        root.shutdown().await;
        assert_eq!(call.await.unwrap(), pattern(size), "{size} bytes over {kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_may_come_from_any_thread() {
    let answer = service(|call| {
        std::thread::spawn(move || {
            let body = Body::filling(300_000);
            call.reply.answer(Outcome::Body, Some(Arc::clone(&body)));
            let bytes: Bytes = pattern(300_000);
            net::push_pieces(&body, &bytes);
        });
    });
    let (_root, leaf) = pair(Kind::Tcp, answer);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..30 {
        let leaf = leaf.clone();
        calls.spawn(async move { assert_eq!(ask(&leaf, 0).await, pattern(300_000)) });
    }
    assert_eq!(calls.join_all().await.len(), 30);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_calls_given_up_leaves_nothing_behind() {
    for kind in KINDS {
        let (held, holding) = holding();
        let answer = service(move |call| match index_of(&call.request) {
            0 => holding.handle(call),
            size => {
                let body = Body::filling(size as usize);
                call.reply.answer(Outcome::Body, Some(Arc::clone(&body)));
                tokio::spawn(async move {
                    tokio::task::yield_now().await;
                    net::push_pieces(&body, &pattern(size as usize));
                });
            }
        });
        let (_root, leaf) = pair(kind, answer);
        let mut calls = tokio::task::JoinSet::new();
        for number in 1..600_u64 {
            let leaf = leaf.clone();
            calls.spawn(async move {
                let size = 1 + number * 997 % 300_000;
                let deadline = if number % 5 == 0 { Duration::from_millis(number % 7) } else { PATIENCE };
                let call = leaf.call(NodeRank(0), chunk(size), deadline);
                match number % 3 {
                    // Given up in the midst of it, wherever that is.
                    0 => drop(tokio::time::timeout(Duration::from_micros(number * 7), call).await),
                    // Given up with the body in hand.
                    1 => drop(call.await),
                    _ => match call.await {
                        Ok(reply) => match reply.body.unwrap().whole_bytes().await {
                            Ok(()) | Err(Errno::WAY_LOST) => {}
                            Err(errno) => panic!("{errno}"),
                        },
                        Err(error) => assert_eq!(error.errno(), Errno::ETIMEDOUT),
                    },
                }
            });
        }
        calls.join_all().await;
        assert_eq!(ask(&leaf, 4 << 20).await, pattern(4 << 20));
        // Every place for a request is free again, at either end.
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..forebay_transport::limits::PEER_REQUESTS_MAX {
            let leaf = leaf.clone();
            calls.spawn(async move { leaf.call(NodeRank(0), chunk(0), PATIENCE).await.unwrap() });
        }
        until("a full window arrives", || held.lock().unwrap().len() == forebay_transport::limits::PEER_REQUESTS_MAX)
            .await;
        assert_eq!(leaf.counters().corrupt_frames, 0);
        drop(held.lock().unwrap().drain(..));
        assert_eq!(calls.join_all().await.len(), forebay_transport::limits::PEER_REQUESTS_MAX);
    }
}
