//! Bodies between two and three nodes: every byte arrives, while it arrives, and ends when nobody wants it.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use forebay_body::Body;
use forebay_transport::{Address, CallError, Endpoint, Replier, Service};
use forebay_types::{Errno, NodeRank, PIECE_BYTES};
use forebay_wire::{FrameKind, JobMessage, Message, Outcome};
use net::raw::{self, Raw};
use net::{
    KINDS, Kind, PATIENCE, ask, chunk, in_pieces, index_of, job, mute, pair, pattern, push_pieces, service, until,
};

use crate::net;

const SIZES: [usize; 14] = [
    0,
    1,
    4096,
    forebay_transport::limits::CONTROL_BODY_BYTES_MAX - 1,
    forebay_transport::limits::CONTROL_BODY_BYTES_MAX,
    forebay_transport::limits::CONTROL_BODY_BYTES_MAX + 1,
    PIECE_BYTES - 1,
    PIECE_BYTES,
    PIECE_BYTES + 1,
    forebay_transport::limits::BODY_CREDIT_BYTES,
    forebay_transport::limits::BODY_CREDIT_BYTES + 1,
    1 << 20,
    (3 << 20) + 12_345,
    4 << 20,
];

#[tokio::test]
async fn bodies_of_all_sizes_arrive_byte_for_byte() {
    for kind in KINDS {
        let answer = service(|call| {
            let bytes = pattern(index_of(&call.request) as usize);
            call.reply.answer(Outcome::Body, Some(in_pieces(&bytes)));
        });
        let (root, leaf) = pair(kind, answer);
        for size in SIZES {
            assert_eq!(ask(&leaf, size as u64).await, pattern(size), "{size} bytes over {kind:?}");
        }
        assert_eq!(root.counters().requests_served, SIZES.len() as u64);
        assert_eq!(leaf.counters().requests_sent, SIZES.len() as u64);
        assert!(leaf.counters().bytes_received > SIZES.iter().sum::<usize>() as u64);
        assert_eq!((leaf.counters().connections, root.counters().connections), (2, 2));
    }
}

#[tokio::test]
async fn bodies_in_one_block_and_in_odd_pieces_arrive_whole() {
    let answer = service(|call| {
        let bytes = pattern(2 << 20);
        let piece_bytes = index_of(&call.request) as usize;
        let body = Body::filling(bytes.len());
        bytes.chunks(piece_bytes).for_each(|piece| body.push(bytes.slice_ref(piece)));
        call.reply.answer(Outcome::Body, Some(body));
    });
    let (_root, leaf) = pair(Kind::Tcp, answer);
    for piece_bytes in [2 << 20, (1 << 20) + 1, PIECE_BYTES + 1, 100_000, 4099] {
        assert_eq!(ask(&leaf, piece_bytes as u64).await, pattern(2 << 20), "pieces of {piece_bytes}");
    }
}

#[tokio::test]
async fn many_bodies_at_once_do_not_mix() {
    for kind in KINDS {
        let answer = service(|call| {
            let bytes = pattern(index_of(&call.request) as usize);
            let body = Body::filling(bytes.len());
            call.reply.answer(Outcome::Body, Some(Arc::clone(&body)));
            tokio::spawn(async move {
                for start in (0..bytes.len()).step_by(PIECE_BYTES) {
                    tokio::task::yield_now().await;
                    body.push(bytes.slice(start..bytes.len().min(start + PIECE_BYTES)));
                }
            });
        });
        let (_root, leaf) = pair(kind, answer);
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..40 {
            let (leaf, size) = (leaf.clone(), number * 33_333);
            calls.spawn(async move { assert_eq!(ask(&leaf, size).await, pattern(size as usize)) });
        }
        while let Some(outcome) = calls.join_next().await {
            outcome.unwrap();
        }
    }
}

/// A node that asks node 0 whatever it is asked, and answers with what it gets, as it gets it.
fn forwarder() -> (Arc<OnceLock<Endpoint>>, Arc<dyn Service>) {
    let own: Arc<OnceLock<Endpoint>> = Arc::default();
    let endpoint = Arc::clone(&own);
    let forward = service(move |call| {
        let endpoint = endpoint.get().unwrap().clone();
        tokio::spawn(async move {
            let reply = endpoint.call(NodeRank(0), call.request, call.remaining).await.unwrap();
            call.reply.answer(reply.outcome, reply.body);
        });
    });
    (own, forward)
}

#[tokio::test]
async fn a_growing_body_is_forwarded_before_its_source_has_it() {
    for kind in KINDS {
        let bytes = pattern(1 << 20);
        let source = Body::filling(bytes.len());
        let body = Arc::clone(&source);
        let root = service(move |call| call.reply.answer(Outcome::Body, Some(Arc::clone(&body))));
        let (own, forward) = forwarder();
        let nodes = job(kind, vec![root, forward, mute()]);
        own.set(nodes[1].clone()).unwrap();

        source.push(bytes.slice(..PIECE_BYTES));
        let reply = nodes[2].call(NodeRank(1), chunk(0), PATIENCE).await.unwrap();
        let far = reply.body.unwrap();
        assert_eq!(far.piece(0).await.unwrap().unwrap(), bytes.slice(..PIECE_BYTES));
        assert_eq!(source.filled_bytes(), PIECE_BYTES, "the far end had the first piece before the second was made");
        push_pieces(&source, &bytes.slice(PIECE_BYTES..));
        far.whole_bytes().await.unwrap();
        assert_eq!(far.contiguous().unwrap(), bytes);
    }
}

#[tokio::test]
async fn a_small_body_is_answered_when_it_is_whole() {
    for kind in KINDS {
        let source = Body::filling(20);
        let body = Arc::clone(&source);
        let (_root, leaf) = pair(kind, service(move |call| call.reply.answer(Outcome::Text, Some(Arc::clone(&body)))));
        let call = tokio::spawn(async move { leaf.call(NodeRank(0), JobMessage::Status, PATIENCE).await });
        until("the answer waits for its body", || Arc::strong_count(&source) == 3).await;
        source.push(Bytes::from_static(b"0123456789"));
        source.push(Bytes::from_static(b"0123456789"));
        let reply = call.await.unwrap().unwrap();
        assert_eq!(reply.body.unwrap().contiguous().unwrap(), &b"01234567890123456789"[..]);
    }
}

#[tokio::test]
async fn a_body_that_fails_fails_at_the_far_end() {
    for kind in KINDS {
        let answer = service(|call| {
            let body = Body::filling(1 << 20);
            match index_of(&call.request) {
                0 => {}
                pieces => push_pieces(&body, &pattern(pieces as usize * PIECE_BYTES)),
            }
            call.reply.answer(Outcome::Body, Some(Arc::clone(&body)));
            body.fail(Errno::ESTALE);
        });
        let (_root, leaf) = pair(kind, answer);
        let reply = leaf.call(NodeRank(0), chunk(0), PATIENCE).await.unwrap();
        assert_eq!(reply.outcome, Outcome::Failed(Errno::ESTALE), "before the first piece the answer itself fails");
        let body = leaf.call(NodeRank(0), chunk(3), PATIENCE).await.unwrap().body.unwrap();
        assert_eq!(body.whole_bytes().await, Err(Errno::ESTALE));
        assert_eq!(body.filled_bytes(), 3 * PIECE_BYTES, "what came before stays readable");
    }
}

#[tokio::test]
async fn a_body_that_nobody_wants_is_cancelled() {
    for kind in KINDS {
        let source = Body::filling(1 << 20);
        let body = Arc::clone(&source);
        let (_root, leaf) = pair(kind, service(move |call| call.reply.answer(Outcome::Body, Some(Arc::clone(&body)))));
        source.push(pattern(PIECE_BYTES));
        let reply = leaf.call(NodeRank(0), chunk(0), PATIENCE).await.unwrap();
        assert_eq!(Arc::strong_count(&source), 3, "the test, the service and the sender");
        drop(reply);
        source.push(pattern(PIECE_BYTES));
        until("the sender lets go", || Arc::strong_count(&source) == 2).await;
    }
}

#[tokio::test]
async fn a_body_still_growing_at_the_deadline_is_lost_on_its_way() {
    for kind in KINDS {
        let source = Body::filling(1 << 20);
        let body = Arc::clone(&source);
        let (_root, leaf) = pair(kind, service(move |call| call.reply.answer(Outcome::Body, Some(Arc::clone(&body)))));
        source.push(pattern(PIECE_BYTES));
        let reply = leaf.call(NodeRank(0), chunk(0), Duration::from_millis(300)).await.unwrap();
        let body = reply.body.unwrap();
        // Not `ETIMEDOUT`: who has joined it has a deadline of his own, and may ask again.
        assert_eq!(body.whole_bytes().await, Err(Errno::WAY_LOST));
        until("the sender is told", || Arc::strong_count(&source) == 2).await;
    }
}

#[tokio::test]
async fn a_peer_that_dies_fails_its_growing_bodies() {
    for kind in KINDS {
        let source = Body::filling(1 << 20);
        let body = Arc::clone(&source);
        let held: Arc<Mutex<Vec<Replier>>> = Arc::default();
        let repliers = Arc::clone(&held);
        let answer = service(move |call| match index_of(&call.request) {
            0 => call.reply.answer(Outcome::Body, Some(Arc::clone(&body))),
            _ => repliers.lock().unwrap().push(call.reply),
        });
        let (root, leaf) = pair(kind, answer);
        source.push(pattern(PIECE_BYTES));
        let reply = leaf.call(NodeRank(0), chunk(0), PATIENCE).await.unwrap();
        let asking = leaf.clone();
        let waiting = tokio::spawn(async move { asking.call(NodeRank(0), chunk(1), PATIENCE).await });
        until("the second call arrives", || held.lock().unwrap().len() == 1).await;
        root.shutdown().await;
        assert_eq!(reply.body.unwrap().whole_bytes().await, Err(Errno::WAY_LOST));
        let error = waiting.await.unwrap().unwrap_err();
        assert!(matches!(error, CallError::ConnectionLost { to: NodeRank(0) }), "{error:?}");
        assert_eq!(error.errno(), Errno::ECONNRESET);
    }
}

/// Node 0 with a body of 4 MiB for every chunk and a word for `Status`.
fn large_bodies() -> (Endpoint, Address) {
    let answer = service(|call| match call.request.message {
        Message::Job(JobMessage::Status) => {
            call.reply.answer(Outcome::Text, Some(Body::whole(Bytes::from_static(b"[]"))))
        }
        _ => call.reply.answer(Outcome::Body, Some(in_pieces(&pattern(4 << 20)))),
    });
    let (listener, address) = net::loopback();
    let addresses = vec![address.clone(), net::loopback().1];
    (Endpoint::start(net::options(0, addresses), listener, answer).unwrap(), address)
}

#[tokio::test]
async fn no_more_is_sent_than_was_granted() {
    let (_root, address) = large_bodies();
    let mut leaf = Raw::connect(&address).await;
    leaf.ask(5, chunk(0)).await;
    let mut received = 0;
    while received < forebay_transport::limits::BODY_CREDIT_BYTES {
        let (head, _, body) = raw::receive(&mut leaf.bulk).await;
        assert_eq!(head.stream, 5);
        assert_eq!(head.kind, if received == 0 { FrameKind::Answer } else { FrameKind::Body });
        received += body.len();
    }
    assert_eq!(received, forebay_transport::limits::BODY_CREDIT_BYTES);
    assert!(leaf.bulk_is_silent().await, "more came than was granted");
    leaf.credit(5, PIECE_BYTES).await;
    let (_, _, body) = raw::receive(&mut leaf.bulk).await;
    assert_eq!(body.len(), PIECE_BYTES);
    assert!(leaf.bulk_is_silent().await, "more came than was granted");
}

#[tokio::test]
async fn a_small_request_is_answered_while_bodies_are_stuck() {
    let (_root, address) = large_bodies();
    let mut leaf = Raw::connect(&address).await;
    for stream in 1..=16 {
        leaf.ask(stream, chunk(0)).await;
        leaf.credit(stream, 4 << 20).await;
    }
    // 64 MiB are on their way to a socket that nobody reads.
    leaf.ask(17, JobMessage::Status).await;
    let (stream, answer) = leaf.answer().await;
    assert_eq!((stream, answer.outcome), (17, Outcome::Text));
}

#[tokio::test]
async fn a_body_cancelled_by_a_peer_is_sent_no_further() {
    let (_root, address) = large_bodies();
    let mut leaf = Raw::connect(&address).await;
    leaf.ask(1, chunk(0)).await;
    let (head, ..) = raw::receive(&mut leaf.bulk).await;
    assert_eq!(head.kind, FrameKind::Answer);
    raw::send(&mut leaf.control, FrameKind::Cancel, 1, &[], &[]).await;
    leaf.credit(1, 4 << 20).await;
    leaf.ask(2, chunk(0)).await;
    loop {
        let (head, ..) = raw::receive(&mut leaf.bulk).await;
        if head.stream == 2 {
            break;
        }
    }
    let mut after = forebay_transport::limits::BODY_CREDIT_BYTES - PIECE_BYTES;
    while after > 0 {
        let (head, _, body) = raw::receive(&mut leaf.bulk).await;
        assert_eq!(head.stream, 2, "the cancelled body came on");
        after -= body.len();
    }
}
