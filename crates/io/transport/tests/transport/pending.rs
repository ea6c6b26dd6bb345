//! Peers outside the job, and peers that send invalid bytes, are turned away and counted, and harm no other peer.

use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::Bytes;
use forebay_body::Body;
use forebay_transport::{Address, CallError, Endpoint, Refusal};
use forebay_types::{Errno, NodeRank, PIECE_BYTES, limits};
use forebay_wire::message::{PROTOCOL_VERSION, encode};
use forebay_wire::{Answer, Class, Envelope, FrameKind, Greeting, JobMessage, Level, Outcome};
use net::raw::{self, Raw, closed, greeting, head, hello};
use net::{PATIENCE, chunk, loopback, mute, options, service, until};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::net;

/// Node 0 of a job of two, which answers any request with a word.
fn root() -> (Endpoint, Address) {
    root_with(forebay_transport::limits::HANDSHAKE_DEADLINE)
}

fn root_with(handshake_deadline: Duration) -> (Endpoint, Address) {
    let (listener, address) = loopback();
    let mut options = options(0, vec![address.clone(), address.clone()]);
    options.handshake_deadline = handshake_deadline;
    let answer = service(|call| call.reply.answer(Outcome::Text, Some(Body::whole(Bytes::from_static(b"[]")))));
    (Endpoint::start(options, listener, answer).unwrap(), address)
}

/// A node 1 that takes `address` for node 0's.
fn leaf(job: &str, address: &Address) -> Endpoint {
    let (listener, own) = loopback();
    let mut options = options(1, vec![address.clone(), own]);
    options.job = job.to_owned();
    Endpoint::start(options, listener, mute()).unwrap()
}

async fn connect(address: &Address) -> TcpStream {
    TcpStream::connect(raw::address_of(address)).await.unwrap()
}

fn refusal(error: &CallError) -> &Refusal {
    match error {
        CallError::Refused { source, .. } => source,
        other => panic!("not refused but {other:?}"),
    }
}

#[tokio::test]
async fn garbage_is_closed_and_counted() {
    let (root, address) = root();
    let long_hello =
        [&head(FrameKind::Greeting, 0, forebay_transport::limits::HELLO_BYTES_MAX + 1, 0)[..], &[0; 64]].concat();
    let wrong_magic = encode(&Greeting { magic: *b"notforeb", ..greeting(Level::Off) });
    let good = raw::frame(FrameKind::Greeting, 0, &encode(&greeting(Level::Off)), &[]);
    let garbage: [&[u8]; 10] = [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        &[0xff; 64],
        &head(FrameKind::Request, 1, 10, 0),
        &head(FrameKind::Hello, 1, 10, 0),
        &long_hello,
        &raw::frame(FrameKind::Greeting, 0, &wrong_magic, &[]),
        &raw::frame(FrameKind::Greeting, 0, &[0x55; 40], &[]),
        &raw::frame(FrameKind::Hello, 0, &encode(&hello(1, 0, Class::Control)), &[]),
        &[&good[..], &good].concat(),
        &[&good[..], &raw::frame(FrameKind::Hello, 0, &[0x55; 40], &[])].concat(),
    ];
    for (index, bytes) in garbage.iter().enumerate() {
        let mut connection = connect(&address).await;
        connection.write_all(bytes).await.unwrap();
        closed(&mut connection).await;
        until("it is counted", || root.counters().refused == index as u64 + 1).await;
    }
    assert_eq!(
        leaf(net::JOB, &address).call(NodeRank(0), JobMessage::Status, PATIENCE).await.unwrap().outcome,
        Outcome::Text
    );
}

#[tokio::test]
async fn another_job_is_refused_on_both_sides() {
    let (root, address) = root();
    let error = leaf("other", &address).call(NodeRank(0), JobMessage::Status, PATIENCE).await.unwrap_err();
    assert_eq!(error.errno(), Errno::EPROTO);
    assert_eq!(refusal(&error).to_string(), "it belongs to job \"test\", not to \"other\"");
    until("both connections are counted", || root.counters().refused == 2).await;
}

#[tokio::test]
async fn a_wrong_address_is_noticed() {
    let (root, address) = root();
    let (listener, _) = loopback();
    // By this list node 2 is where node 0 is.
    let addresses = vec![address.clone(), address.clone(), address];
    let leaf = Endpoint::start(options(1, addresses), listener, mute()).unwrap();
    let error = leaf.call(NodeRank(2), JobMessage::Status, PATIENCE).await.unwrap_err();
    assert!(matches!(refusal(&error), Refusal::Rank { from: NodeRank(0), .. }), "{error:?}");
    until("both connections are counted", || root.counters().refused == 2).await;
}

#[tokio::test]
async fn a_rank_that_the_job_does_not_have_is_refused() {
    let (root, address) = root();
    let mut connection = connect(&address).await;
    raw::send(&mut connection, FrameKind::Greeting, 0, &encode(&greeting(Level::Off)), &[]).await;
    raw::send(&mut connection, FrameKind::Hello, 0, &encode(&hello(2, 0, Class::Control)), &[]).await;
    closed(&mut connection).await;
    until("it is counted", || root.counters().refused == 1).await;
}

#[tokio::test]
async fn another_version_is_refused_on_both_sides() {
    let (root, address) = root();
    let version = PROTOCOL_VERSION + 300;
    let mut theirs = encode(&Greeting { version, ..greeting(Level::Off) });
    theirs.extend_from_slice(b"a field that this version does not have");
    let mut connection = connect(&address).await;
    raw::send(&mut connection, FrameKind::Greeting, 0, &theirs, &[]).await;
    let (head, ..) = raw::receive(&mut connection).await;
    assert_eq!(head.kind, FrameKind::Greeting, "it is told which version is spoken here");
    closed(&mut connection).await;
    until("it is counted", || root.counters().refused == 1).await;

    let (listener, address) = loopback();
    listener.set_nonblocking(true).unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    let leaf = leaf(net::JOB, &address);
    let call = tokio::spawn(async move { leaf.call(NodeRank(0), JobMessage::Status, PATIENCE).await });
    let (mut connection, _) = listener.accept().await.unwrap();
    raw::receive(&mut connection).await;
    raw::send(&mut connection, FrameKind::Greeting, 0, &theirs, &[]).await;
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(refusal(&error), Refusal::Version { theirs } if *theirs == version), "{error:?}");
}

#[tokio::test]
async fn a_silent_connection_is_closed_after_its_time() {
    let (root, address) = root_with(Duration::from_millis(50));
    let mut silent = connect(&address).await;
    let mut half = connect(&address).await;
    raw::send(&mut half, FrameKind::Greeting, 0, &encode(&greeting(Level::Off)), &[]).await;
    raw::send(&mut half, FrameKind::Hello, 0, &encode(&hello(1, 0, Class::Bulk)), &[]).await;
    closed(&mut silent).await;
    closed(&mut half).await;
    until("they are counted", || root.counters().refused == 2).await;
}

#[tokio::test]
async fn a_pending_handshake_beyond_the_limit_takes_the_place_of_the_oldest() {
    let (root, address) = root_with(Duration::from_secs(60));
    let mut silent = vec![];
    for _ in 0..forebay_transport::limits::PENDING_HANDSHAKES_MAX {
        silent.push(connect(&address).await);
    }
    let mut late = connect(&address).await;
    raw::send(&mut late, FrameKind::Greeting, 0, &encode(&greeting(Level::Off)), &[]).await;
    assert_eq!(raw::receive(&mut late).await.0.kind, FrameKind::Greeting);
    closed(&mut silent[0]).await;
    until("the oldest is counted", || root.counters().refused == 1).await;
}

/// A connection from another loopback address, which any local user has without asking.
async fn connect_from(source: Ipv4Addr, address: &Address) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((source, 0).into()).unwrap();
    socket.connect(raw::address_of(address)).await.unwrap()
}

#[tokio::test]
async fn a_flood_from_many_loopback_addresses_pushes_out_itself() {
    let (root, address) = root_with(Duration::from_secs(60));
    let source = |index: usize| Ipv4Addr::from_bits(0x7f01_0000 + index as u32);
    let mut flood = vec![];
    for index in 0..forebay_transport::limits::PENDING_HANDSHAKES_MAX {
        flood.push(connect_from(source(index), &address).await);
    }
    let mut child = [connect(&address).await, connect(&address).await];
    for index in 0..forebay_transport::limits::PENDING_HANDSHAKES_MAX / 2 {
        flood.push(connect_from(source(forebay_transport::limits::PENDING_HANDSHAKES_MAX + index), &address).await);
    }
    let pushed_out = forebay_transport::limits::PENDING_HANDSHAKES_MAX as u64 / 2 + 2;
    until("as many as came too many are pushed out", || root.counters().refused == pushed_out).await;
    for connection in &mut child {
        raw::send(connection, FrameKind::Greeting, 0, &encode(&greeting(Level::Off)), &[]).await;
        assert_eq!(raw::receive(connection).await.0.kind, FrameKind::Greeting, "the child has kept its place");
    }
}

#[tokio::test]
async fn a_corrupt_frame_from_an_asking_peer_closes_its_connection_only() {
    let (root, address) = root();
    let request = encode(&Envelope { remaining_ms: 1, request: JobMessage::Status.into() });
    let probe = encode(&Envelope { remaining_ms: 1, request: JobMessage::Probe { payload_bytes: u32::MAX }.into() });
    let frames: [Vec<u8>; 9] = [
        vec![0xff; 16],
        head(FrameKind::Request, 1, limits::HEAD_BYTES_MAX + 1, 0).to_vec(),
        head(FrameKind::Request, 1, 0, PIECE_BYTES + 1).to_vec(),
        [&head(FrameKind::Request, 1, 3, 0)[..], &[0xff; 3]].concat(),
        raw::frame(FrameKind::Request, 1, &request, b"body"),
        [&head(FrameKind::Request, 1, probe.len(), 0)[..], &probe].concat(),
        head(FrameKind::Answer, 1, 0, 0).to_vec(),
        head(FrameKind::Hello, 0, 0, 0).to_vec(),
        head(FrameKind::Greeting, 0, 0, 0).to_vec(),
    ];
    for (index, frame) in frames.iter().enumerate() {
        let mut peer = Raw::connect(&address).await;
        peer.control.write_all(frame).await.unwrap();
        closed(&mut peer.control).await;
        closed(&mut peer.bulk).await;
        assert_eq!(root.counters().corrupt_frames, index as u64 + 1);
    }
    let mut peer = Raw::connect(&address).await;
    peer.bulk.write_all(&head(FrameKind::Request, 1, 0, 0)).await.unwrap();
    closed(&mut peer.control).await;
    let mut peer = Raw::connect(&address).await;
    peer.ask(1, JobMessage::Status).await;
    assert_eq!(peer.answer().await.0, 1, "the next one is served");
}

#[tokio::test]
async fn a_corrupt_frame_from_an_answering_peer_fails_the_calls_with_eproto() {
    let (listener, address) = loopback();
    listener.set_nonblocking(true).unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    let leaf = leaf(net::JOB, &address);
    let whole = |body_bytes| encode(&Answer { outcome: Outcome::Body, body_bytes });
    let (small, large, abort) = (whole(4), whole(1 << 20), encode(&Errno::EIO));
    let on_control: [Vec<u8>; 6] = [
        vec![0xff; 16],
        head(FrameKind::Answer, 1, limits::HEAD_BYTES_MAX + 1, 0).to_vec(),
        raw::frame(FrameKind::Answer, 1, &small, b"ab"),
        raw::frame(FrameKind::Answer, 1, &small, b"abcde"),
        raw::frame(FrameKind::Body, 1, &[], b"a"),
        head(FrameKind::Cancel, 1, 0, 0).to_vec(),
    ];
    let on_bulk: [Vec<u8>; 3] = [
        [&head(FrameKind::Answer, 1, large.len(), 0)[..], &large].concat(),
        raw::frame(FrameKind::Body, 1, &[], b"a"),
        [&head(FrameKind::Abort, 1, abort.len(), 0)[..], &abort].concat(),
    ];
    let cases = on_control.iter().map(|frame| (true, frame)).chain(on_bulk.iter().map(|frame| (false, frame)));
    for (index, (control, frame)) in cases.enumerate() {
        let asking = leaf.clone();
        let call = tokio::spawn(async move { asking.call(NodeRank(0), chunk(0), PATIENCE).await });
        let mut peer = Raw::accept(&listener).await;
        let (head, ..) = raw::receive(&mut peer.control).await;
        assert_eq!((head.kind, head.stream), (FrameKind::Request, 1));
        let connection = if control { &mut peer.control } else { &mut peer.bulk };
        connection.write_all(frame).await.unwrap();
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error, CallError::Corrupt { .. }), "case {index}: {error:?}");
        assert_eq!(error.errno(), Errno::EPROTO);
        assert_eq!(leaf.counters().corrupt_frames, index as u64 + 1);
    }
}

#[tokio::test]
async fn a_body_longer_than_announced_fails_with_eproto() {
    let (listener, address) = loopback();
    listener.set_nonblocking(true).unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    let leaf = leaf(net::JOB, &address);
    let asking = leaf.clone();
    let call = tokio::spawn(async move { asking.call(NodeRank(0), chunk(0), PATIENCE).await });
    let mut peer = Raw::accept(&listener).await;
    raw::receive(&mut peer.control).await;
    let answer = encode(&Answer { outcome: Outcome::Body, body_bytes: PIECE_BYTES as u32 + 10 });
    let piece = vec![7; PIECE_BYTES];
    raw::send(&mut peer.bulk, FrameKind::Answer, 1, &answer, &piece).await;
    let body = call.await.unwrap().unwrap().body.unwrap();
    raw::send(&mut peer.bulk, FrameKind::Body, 1, &[], &piece[..11]).await;
    assert_eq!(body.whole_bytes().await, Err(Errno::WAY_LOST));
    assert_eq!(body.filled_bytes(), PIECE_BYTES);
    assert_eq!((leaf.counters().corrupt_frames, leaf.counters().connections), (1, 0));
    closed(&mut peer.control).await;
}
