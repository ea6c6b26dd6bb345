//! Attackers without the key, or between two nodes that have it, get no data: one test an attack, over real sockets.

use std::sync::Arc;

use bytes::Bytes;
use forebay_body::Body;
use forebay_secret::JobKey;
use forebay_transport::{Address, CallError, Endpoint, Refusal, Security};
use forebay_types::{Errno, NodeRank};
use forebay_wire::message::{PROTOCOL_VERSION, encode};
use forebay_wire::{Class, FrameKind, JobMessage, Level, Message, Outcome, ReadMessage, TAG_BYTES};
use net::middle::{Passing, Tamper, between, pass, recorder};
use net::raw::{self, closed, greeting, hello};
use net::{PATIENCE, ask, chunk, in_pieces, index_of, key, loopback, mute, options_with, pattern, service, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::net;

const KEYED: [Level; 2] = [Level::Auth, Level::Seal];

fn security(level: Level, key: JobKey) -> Security {
    match level {
        Level::Off => Security::Off,
        Level::Auth => Security::Auth(key),
        Level::Seal => Security::Seal(key),
    }
}

/// Node 0 of a job of two, which answers with as many bytes as the chunk's number says.
fn root(security: Security) -> (Endpoint, Address) {
    let (listener, address) = loopback();
    let options = options_with(0, vec![address.clone(), address.clone()], security);
    let answer = service(|call| match call.request.message {
        Message::Read(ReadMessage::Chunk { .. }) => {
            let bytes = pattern(index_of(&call.request) as usize);
            call.reply.answer(Outcome::Body, Some(in_pieces(&bytes)));
        }
        _ => call.reply.answer(Outcome::Text, Some(Body::whole(Bytes::from_static(b"[]")))),
    });
    (Endpoint::start(options, listener, answer).unwrap(), address)
}

/// A node 1 that takes `address` for node 0's.
fn leaf(security: Security, address: &Address) -> Endpoint {
    let (listener, own) = loopback();
    Endpoint::start(options_with(1, vec![address.clone(), own], security), listener, mute()).unwrap()
}

/// Both, with somebody in between.
async fn deceived(level: Level, tamper: impl Fn(Passing) -> Vec<Vec<u8>> + Send + Sync + 'static) -> [Endpoint; 2] {
    deceived_by(level, Arc::new(tamper)).await
}

async fn deceived_by(level: Level, tamper: Arc<Tamper>) -> [Endpoint; 2] {
    let (root, address) = root(security(level, key()));
    let middle = between(&address, level, tamper);
    [root, leaf(security(level, key()), &middle)]
}

async fn status(node: &Endpoint) -> Result<(), CallError> {
    node.call(NodeRank(0), JobMessage::Status, PATIENCE).await.map(drop)
}

fn refusal(error: &CallError) -> &Refusal {
    match error {
        CallError::Refused { source, .. } => source,
        other => panic!("not refused but {other:?}"),
    }
}

/// A hello as long as a sealed one, by somebody without the key.
fn false_hello(message: &[u8]) -> Vec<u8> {
    [&raw::frame(FrameKind::Hello, 0, message, &[])[..], &[0; TAG_BYTES]].concat()
}

async fn connect(address: &Address) -> TcpStream {
    TcpStream::connect(raw::address_of(address)).await.unwrap()
}

#[tokio::test]
async fn a_relay_that_only_forwards_is_not_noticed() {
    for level in [Level::Off, Level::Auth, Level::Seal] {
        let [root, leaf] = deceived(level, pass).await;
        assert_eq!(ask(&leaf, 3 << 20).await, pattern(3 << 20));
        assert_eq!((root.counters().refused, leaf.counters().corrupt_frames), (0, 0));
    }
}

#[tokio::test]
async fn another_jobs_daemon_is_refused_on_both_sides() {
    for level in KEYED {
        let (root, address) = root(security(level, key()));
        let other = leaf(security(level, JobKey::from_bytes([12; 32])), &address);
        let error = status(&other).await.unwrap_err();
        assert!(matches!(refusal(&error), Refusal::Closed), "{error:?}");
        assert_eq!(error.errno(), Errno::EPROTO);
        until("both connections are counted", || root.counters().refused == 2).await;
        status(&leaf(security(level, key()), &address)).await.unwrap();
    }
}

/// Another user of the node has the port, the protocol and perhaps the job's name, but not the key.
#[tokio::test]
async fn a_stranger_learns_nothing_about_the_job() {
    for level in KEYED {
        let (root, address) = root(security(level, key()));
        let hellos: [(&[u8], u64); 3] = [(&encode(&hello(1, 0, Class::Control)), 1), (&[0; 40], 2), (&[], 3)];
        for (hello, count) in hellos {
            let mut stranger = connect(&address).await;
            raw::send(&mut stranger, FrameKind::Greeting, 0, &encode(&greeting(level)), &[]).await;
            stranger.write_all(&false_hello(hello)).await.unwrap();
            let mut heard = vec![];
            // It may be reset: that is an end too.
            let _ = stranger.read_to_end(&mut heard).await;
            let own = raw::frame(FrameKind::Greeting, 0, &encode(&greeting(level)), &[]);
            let said_before_its_nonce = own.len() - 32;
            assert_eq!(heard[..said_before_its_nonce], own[..said_before_its_nonce]);
            assert_eq!(heard.len(), own.len(), "only what a greeting is");
            until("it is counted", || root.counters().refused == count).await;
        }
    }
}

/// An attacker that has taken a node's port learns neither which peer connects nor which one it wants.
#[tokio::test]
async fn a_false_parent_learns_nothing_about_the_job() {
    let (listener, address) = loopback();
    listener.set_nonblocking(true).unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    let leaf = leaf(Security::Auth(key()), &address);
    let call = tokio::spawn(async move { status(&leaf).await });
    let (mut connection, _) = listener.accept().await.unwrap();
    let (_, first, _) = raw::receive(&mut connection).await;
    raw::send(&mut connection, FrameKind::Greeting, 0, &encode(&greeting(Level::Auth)), &[]).await;
    let (_, second, _) = raw::receive(&mut connection).await;
    for said in [&first, &second] {
        assert!(!said.windows(net::JOB.len()).any(|window| window == net::JOB.as_bytes()), "the job's name");
    }
    connection.write_all(&false_hello(&[0; 40])).await.unwrap();
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(refusal(&error), Refusal::Key), "{error:?}");
}

#[tokio::test]
async fn a_recorded_connection_cannot_be_played_again() {
    for level in KEYED {
        let (recorded, tamper) = recorder();
        let (root, address) = root(security(level, key()));
        let middle = between(&address, level, tamper);
        let leaf = leaf(security(level, key()), &middle);
        status(&leaf).await.unwrap();
        let served = root.counters().requests_served;
        let recorded: Vec<u8> = recorded.lock().unwrap().concat();
        let mut stranger = connect(&address).await;
        stranger.write_all(&recorded).await.unwrap();
        closed(&mut stranger).await;
        until("it is counted", || root.counters().refused == 1).await;
        assert_eq!(root.counters().requests_served, served);
    }
}

#[tokio::test]
async fn a_nodes_proof_cannot_be_reflected_to_it() {
    let (listener, address) = loopback();
    listener.set_nonblocking(true).unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    tokio::spawn(async move {
        while let Ok((mut mirror, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = mirror.split();
                tokio::io::copy(&mut read, &mut write).await.ok();
            });
        }
    });
    for level in KEYED {
        let error = status(&leaf(security(level, key()), &address)).await.unwrap_err();
        assert!(matches!(refusal(&error), Refusal::Key), "{error:?}");
    }
}

/// A node's connection to its parent is led to the node's own port: it holds the key, but it is not the parent.
#[tokio::test]
async fn a_node_that_is_led_to_itself_notices() {
    for level in KEYED {
        let (listener, own) = loopback();
        let middle = between(&own, level, Arc::new(pass));
        let addresses = vec![middle, own];
        let node = Endpoint::start(options_with(1, addresses, security(level, key())), listener, mute()).unwrap();
        let error = status(&node).await.unwrap_err();
        assert!(matches!(refusal(&error), Refusal::Rank { from: NodeRank(1), .. }), "{error:?}");
    }
}

#[tokio::test]
async fn no_peer_lowers_the_level() {
    // The level's place in a greeting: after the frame's head, the magic and the version.
    const AT: usize = 16 + 8 + 1;
    const { assert!(PROTOCOL_VERSION < 128, "the version has one byte") };
    for level in KEYED {
        for claimed in [Level::Off, Level::Auth, Level::Seal].into_iter().filter(|claimed| *claimed != level) {
            let [root, leaf] = deceived(level, move |mut passing| {
                if passing.kind == FrameKind::Greeting {
                    passing.bytes[AT] = claimed as u8;
                }
                pass(passing)
            })
            .await;
            let error = status(&leaf).await.unwrap_err();
            assert!(matches!(refusal(&error), Refusal::Level { theirs, .. } if *theirs == claimed), "{error:?}");
            until("both connections are counted", || root.counters().refused == 2).await;
        }
    }
    // A daemon that was really started with another level.
    let (_root, address) = root(Security::Seal(key()));
    let error = status(&leaf(Security::Auth(key()), &address)).await.unwrap_err();
    assert_eq!(refusal(&error).to_string(), "it speaks with --security seal, this job with auth");
}

#[tokio::test]
async fn an_altered_greeting_spoils_the_keys() {
    for level in KEYED {
        for asks in [false, true] {
            let [root, leaf] = deceived(level, move |mut passing| {
                if passing.kind == FrameKind::Greeting && passing.asks == asks {
                    *passing.bytes.last_mut().unwrap() ^= 1;
                }
                pass(passing)
            })
            .await;
            assert!(matches!(refusal(&status(&leaf).await.unwrap_err()), Refusal::Closed));
            until("both connections are counted", || root.counters().refused == 2).await;
        }
    }
}

/// Any byte of head, message, checksum and tag, of requests and of answers.
#[tokio::test]
async fn an_altered_frame_ends_the_connection() {
    for level in KEYED {
        for (kind, asks) in [(FrameKind::Request, true), (FrameKind::Answer, false)] {
            // The kind and the lengths are changed to others that could be; and the last byte of the tag.
            for at in [0, 4, 8, 12, 17, usize::MAX] {
                let [root, leaf] = deceived(level, move |mut passing| {
                    if (passing.kind, passing.asks, passing.number) == (kind, asks, 0) {
                        let at = at.min(passing.body_at - 1);
                        passing.bytes[at] ^= if at == 0 { 4 } else { 1 };
                    }
                    pass(passing)
                })
                .await;
                let call = leaf.call(NodeRank(0), chunk(9000), std::time::Duration::from_secs(2)).await;
                assert!(call.is_err(), "{level:?} {kind:?} {at}");
                // A longer length makes it wait for bytes that never come; then the deadline ends it.
                let longer = matches!(at, 8 | 12);
                let noticed = || root.counters().corrupt_frames + leaf.counters().corrupt_frames == 1;
                if !longer {
                    until("it is noticed", noticed).await;
                }
            }
        }
    }
}

#[tokio::test]
async fn a_frame_that_is_repeated_left_out_or_moved_ends_the_connection() {
    type Change = fn(Passing, &mut Vec<Vec<u8>>) -> Vec<Vec<u8>>;
    let changes: [(&str, Change); 3] = [
        ("repeated", |passing, _| vec![passing.bytes.clone(), passing.bytes]),
        ("left out", |passing, _| if passing.number == 1 { vec![] } else { vec![passing.bytes] }),
        ("moved", |passing, held| match passing.number {
            1 => {
                held.push(passing.bytes);
                vec![]
            }
            2 => [vec![passing.bytes], std::mem::take(held)].concat(),
            _ => vec![passing.bytes],
        }),
    ];
    for level in KEYED {
        for (how, change) in changes {
            let held = std::sync::Mutex::new(vec![]);
            let [root, leaf] = deceived(level, move |passing| match passing.kind {
                FrameKind::Request => change(passing, &mut held.lock().unwrap()),
                _ => pass(passing),
            })
            .await;
            let mut calls = tokio::task::JoinSet::new();
            for _ in 0..4 {
                let leaf = leaf.clone();
                calls.spawn(async move { status(&leaf).await });
            }
            until(how, || root.counters().corrupt_frames == 1).await;
            let outcomes = calls.join_all().await;
            assert!(how == "repeated" || outcomes.iter().any(Result::is_err), "{level:?} {how}");
        }
    }
}

/// Bytes of a body that change on their way fail the call they belong to, are counted, and are never delivered.
#[tokio::test]
async fn an_altered_body_is_noticed() {
    for level in [Level::Off, Level::Auth, Level::Seal] {
        for (len, spoiled) in [(9000, 0), (1 << 20, 0), (1 << 20, 1), (1 << 20, 5)] {
            let [root, leaf] = deceived(level, move |mut passing| {
                let kind = if spoiled == 0 { FrameKind::Answer } else { FrameKind::Body };
                if passing.kind == kind && passing.number == spoiled.max(1) - 1 {
                    let at = passing.body_at + 1000;
                    passing.bytes[at] ^= 0x10;
                }
                pass(passing)
            })
            .await;
            let refused = if level == Level::Seal { Errno::EPROTO } else { Errno::EBADMSG };
            let expected = if spoiled == 0 { refused } else { Errno::WAY_LOST };
            let outcome = match leaf.call(NodeRank(0), chunk(len), PATIENCE).await {
                Ok(reply) => {
                    let body = reply.body.unwrap();
                    let outcome = body.whole_bytes().await;
                    let there = body.filled_bytes();
                    assert_eq!(
                        body.slices(0, there).concat(),
                        pattern(len as usize)[..there],
                        "what is there is right"
                    );
                    outcome
                }
                Err(error) => Err(error.errno()),
            };
            assert_eq!(outcome, Err(expected), "{level:?} {len} {spoiled}");
            let counters = leaf.counters();
            if level == Level::Seal {
                assert_eq!((counters.checksum_failures, counters.corrupt_frames), (0, 1));
            } else {
                assert_eq!((counters.checksum_failures, counters.corrupt_frames), (1, 0));
                assert_eq!(counters.connections, 2, "other calls go on");
            }
            assert_eq!(ask(&leaf, len).await, pattern(len as usize), "asked again");
            assert_eq!(root.counters().refused, 0);
        }
    }
}

/// A node whose memory spoils what it passes on is found out by the next one: the first node's checksum travels along.
#[tokio::test]
async fn bytes_spoiled_in_a_nodes_memory_are_noticed_by_the_next() {
    let bytes = pattern(300_000);
    let source = in_pieces(&bytes);
    // The pieces that the node holds: those of the body with the checksums that they came with, one of them spoiled since.
    let spoiled = Body::filling(bytes.len());
    for index in 0..3 {
        let piece = match source.poll_checked(index, &std::task::Context::from_waker(std::task::Waker::noop())) {
            std::task::Poll::Ready(Ok(Some(piece))) => piece,
            other => panic!("{other:?}"),
        };
        let mut held = piece.bytes().to_vec();
        if index == 1 {
            held[77] ^= 1;
        }
        spoiled.push_checked(&forebay_body::Piece::with_checksum(held.into(), piece.checksum()));
    }
    let (_root, leaf) = net::pair(
        net::Kind::Authentic,
        service(move |call| {
            call.reply.answer(Outcome::Body, Some(Arc::clone(&spoiled)));
        }),
    );
    let reply = leaf.call(NodeRank(0), chunk(0), PATIENCE).await.unwrap();
    assert_eq!(reply.body.unwrap().whole_bytes().await, Err(Errno::WAY_LOST), "to be asked for elsewhere");
    assert_eq!(leaf.counters().checksum_failures, 1);
}

#[tokio::test]
async fn a_sealed_connection_shows_no_byte_of_what_it_carries() {
    for (level, shown) in [(Level::Auth, true), (Level::Seal, false)] {
        let (seen, tamper) = {
            let seen = Arc::new(std::sync::Mutex::new(vec![]));
            let own = Arc::clone(&seen);
            (seen, move |passing: Passing| {
                own.lock().unwrap().extend_from_slice(&passing.bytes);
                pass(passing)
            })
        };
        let [_root, leaf] = deceived(level, tamper).await;
        ask(&leaf, 100_000).await;
        let seen = seen.lock().unwrap();
        let is_seen = |what: &[u8]| seen.windows(what.len()).any(|window| window == what);
        assert_eq!(is_seen(&pattern(64)), shown, "the body");
        assert_eq!(is_seen(b"lib.so"), shown, "the request");
        assert!(!is_seen(net::JOB.as_bytes()), "the job's name is sealed on both levels");
    }
}
