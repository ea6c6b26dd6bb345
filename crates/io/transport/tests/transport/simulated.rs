//! Whole jobs in virtual time on the memory network: every run the same, with delays, cuts, pauses and crashes.

use crate::net;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use forebay_body::Body;
use forebay_transport::life::Life;
use forebay_transport::memory::Network;
use forebay_transport::{CallError, Endpoint, EndpointOptions, IncomingCall, Service};
use forebay_types::NodeRank;
use forebay_wire::Outcome;
use net::{PATIENCE, chunk, index_of, mute, options, service};
use tokio::runtime::{Builder, Handle};
use tokio::time::{Instant, sleep};

const MS: Duration = Duration::from_millis(1);

/// Events, with their times.
type Log = Arc<Mutex<Vec<(Duration, String)>>>;

/// A node that can be stopped, with its life.
struct Node {
    endpoint: Endpoint,
    life: Life,
}

fn start(rank: u32, network: &Network, service: Arc<dyn Service>) -> Node {
    let life = Life::new();
    let options = EndpointOptions { life: Some(life.clone()), ..options(rank, Vec::new()) };
    Node { endpoint: Endpoint::start_memory(options, network, service), life }
}

/// Bytes of chunk `index`.
fn body_bytes(index: u64) -> usize {
    (index * index * 1_000) as usize
}

fn answer(call: IncomingCall) {
    let body = Body::whole(Bytes::from(vec![7; body_bytes(index_of(&call.request))]));
    call.reply.answer(Outcome::Body, Some(body));
}

async fn ask(node: &Endpoint, to: u32, index: u64) -> Result<usize, String> {
    let reply = node.call(NodeRank(to), chunk(index), PATIENCE).await.map_err(|error| error.to_string())?;
    let body = reply.body.unwrap();
    body.whole_bytes().await.map_err(|errno| errno.to_string())?;
    Ok(body.filled_bytes())
}

/// Delays of one to eight milliseconds, drawn by seed.
fn drawn(seed: u64) -> impl Fn(NodeRank, NodeRank) -> Duration + Send + Sync {
    let state = Mutex::new(seed);
    move |_, _| {
        let mut state = state.lock().unwrap();
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        MS * (1 + (*state >> 61) as u32)
    }
}

/// Five nodes that ask each other for everything at once, while one is cut off, one stands still and one ends and comes
/// again.
async fn job(seed: u64) -> Vec<(Duration, String)> {
    let (begun, log) = (Instant::now(), Log::default());
    let network = Network::new(5).with_latency(drawn(seed));
    let note = {
        let log = Arc::clone(&log);
        move |what: String| log.lock().unwrap().push((begun.elapsed(), what))
    };
    let serve = |rank: u32| {
        let note = note.clone();
        service(move |call| {
            let index = index_of(&call.request);
            note(format!("{rank} is asked {index} by {}", call.from));
            let cancelled = note.clone();
            call.reply.on_cancel(move || cancelled(format!("{rank} is asked {index} no more")));
            tokio::spawn(async move {
                sleep(8 * MS * index as u32).await;
                answer(call);
            });
        })
    };
    let nodes: Vec<Node> = (0..5).map(|rank| start(rank, &network, serve(rank))).collect();
    let mut asking = Vec::new();
    for (from, to) in (0..5).flat_map(|from| (0..5).map(move |to| (from, to))).filter(|(from, to)| from != to) {
        for index in 0..12 {
            let (endpoint, note) = (nodes[from as usize].endpoint.clone(), note.clone());
            asking.push(nodes[from as usize].life.spawn(&Handle::current(), async move {
                let outcome = ask(&endpoint, to, index).await;
                note(format!("{from} asked {to} for {index}: {outcome:?}"));
            }));
        }
    }
    sleep(60 * MS).await;
    network.partition(&[NodeRank(1)]);
    nodes[2].life.pause();
    sleep(12 * MS).await;
    nodes[3].life.kill();
    let again = start(3, &network, serve(3));
    sleep(20 * MS).await;
    network.mend_all();
    nodes[2].life.resume();
    for task in asking {
        task.await.unwrap();
    }
    note(format!("{:?}", ask(&nodes[0].endpoint, 3, 5).await));
    for node in nodes.iter().chain([&again]) {
        note(format!("{:?}", node.endpoint.counters()));
    }
    let mut log = log.lock().unwrap();
    std::mem::take(&mut *log)
}

fn run(seed: u64) -> Vec<(Duration, String)> {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(job(seed))
}

#[test]
fn every_run_of_a_seed_is_the_same() {
    let log = run(1);
    assert!(log.iter().any(|(_, what)| what.ends_with("for 11: Ok(121000)")), "{log:#?}");
    assert!(log.iter().any(|(_, what)| what.contains("Err")), "the end of a node breaks calls: {log:#?}");
    for _ in 0..4 {
        assert_eq!(log, run(1));
    }
    assert_ne!(log, run(2));
}

/// Node 1 asks node 0, each of whose packets takes 10 ms there and 5 back.
fn pair() -> (Network, Node, Node) {
    let latency = |from: NodeRank, _| if from.0 == 0 { 10 * MS } else { 5 * MS };
    let network = Network::new(2).with_latency(latency);
    let (root, leaf) = (start(0, &network, service(answer)), start(1, &network, mute()));
    (network, root, leaf)
}

async fn took<T>(work: impl Future<Output = T>) -> (Duration, T) {
    let begun = Instant::now();
    let output = work.await;
    (begun.elapsed(), output)
}

#[tokio::test(start_paused = true)]
async fn bytes_take_their_time_and_slow_nodes_more() {
    let (network, _root, leaf) = pair();
    let (first, _) = took(ask(&leaf.endpoint, 0, 1)).await;
    assert_eq!(first, 4 * 15 * MS, "to connect, to greet, to say hello, to ask");
    assert_eq!(took(ask(&leaf.endpoint, 0, 1)).await.0, 15 * MS);
    network.slow(NodeRank(0), 100 * MS);
    assert_eq!(took(ask(&leaf.endpoint, 0, 1)).await.0, 215 * MS);
}

#[tokio::test(start_paused = true)]
async fn messages_on_a_cut_link_arrive_when_it_is_mended() {
    let (network, _root, leaf) = pair();
    for (from, to) in [(0, 1), (1, 0)].map(|(from, to)| (NodeRank(from), NodeRank(to))) {
        ask(&leaf.endpoint, 0, 1).await.unwrap();
        network.cut(from, to);
        let mend = async {
            sleep(1000 * MS).await;
            network.mend(from, to);
        };
        let ((took, asked), ()) = tokio::join!(took(ask(&leaf.endpoint, 0, 30)), mend);
        assert_eq!(asked, Ok(body_bytes(30)));
        assert!((1000 * MS..1100 * MS).contains(&took), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_cut_off_cannot_be_connected_to() {
    let (network, _root, leaf) = pair();
    network.partition(&[NodeRank(1)]);
    let error = leaf.endpoint.call(NodeRank(0), chunk(1), PATIENCE).await.unwrap_err();
    assert!(matches!(error, CallError::Unreachable { .. }), "{error:?}");
    network.mend_all();
    assert_eq!(ask(&leaf.endpoint, 0, 1).await, Ok(body_bytes(1)));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stands_still_keeps_its_connections_and_answers_late() {
    let (_network, root, leaf) = pair();
    ask(&leaf.endpoint, 0, 1).await.unwrap();
    root.life.pause();
    let resume = async {
        sleep(2000 * MS).await;
        root.life.resume();
    };
    let ((took, asked), ()) = tokio::join!(took(ask(&leaf.endpoint, 0, 40)), resume);
    assert_eq!(asked, Ok(body_bytes(40)));
    assert!((2000 * MS..2100 * MS).contains(&took), "{took:?}");
    assert_eq!(leaf.endpoint.counters().connections, 2);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_node_breaks_its_connections_and_another_takes_its_place() {
    let (network, root, leaf) = pair();
    ask(&leaf.endpoint, 0, 1).await.unwrap();
    let kill = async {
        sleep(5 * MS).await;
        root.life.kill();
    };
    let call = leaf.endpoint.call(NodeRank(0), chunk(1), PATIENCE);
    let ((took_lost, lost), ()) = tokio::join!(took(call), kill);
    assert!(matches!(lost, Err(CallError::ConnectionLost { .. })), "{lost:?}");
    assert_eq!(took_lost, 15 * MS, "the news travels as bytes do");
    let error = leaf.endpoint.call(NodeRank(0), chunk(1), PATIENCE).await.unwrap_err();
    assert!(matches!(error, CallError::Unreachable { .. }), "{error:?}");
    let _again = start(0, &network, service(answer));
    assert_eq!(ask(&leaf.endpoint, 0, 1).await, Ok(body_bytes(1)));
}

#[tokio::test(start_paused = true)]
async fn bodies_of_every_size_come_whole() {
    let (_network, _root, leaf) = pair();
    for index in [0, 1, 4, 11, 12, 33, 60] {
        assert_eq!(ask(&leaf.endpoint, 0, index).await, Ok(body_bytes(index)));
    }
}
