//! An attacker on the network between two nodes, who sees every frame and may change, drop or repeat it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use forebay_transport::Address;
use forebay_wire::{FRAME_HEAD_BYTES, FrameHead, FrameKind, Level, TAG_BYTES};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use super::raw::address_of;

/// A frame on its way.
pub struct Passing {
    pub kind: FrameKind,
    /// Whether it comes from the side that asks.
    pub asks: bool,
    /// Which of its kind in its direction, over all connections, from 0.
    pub number: usize,
    /// Where the body begins in `bytes`; their end when there is none.
    pub body_at: usize,
    pub bytes: Vec<u8>,
}

/// The frames that are passed on instead of one.
pub type Tamper = dyn Fn(Passing) -> Vec<Vec<u8>> + Send + Sync;

/// Where whoever is to be deceived connects.
pub fn between(target: &Address, level: Level, tamper: Arc<Tamper>) -> Address {
    let target = address_of(target);
    // The same port, at another address of this machine: keys are bound to the port.
    let host = "127.0.0.2";
    let listener = std::net::TcpListener::bind((host, target.port())).unwrap();
    pass_on(listener, target, level, tamper);
    Address::Tcp { host: host.to_owned(), ports: vec![target.port()] }
}

/// Passes on what comes to `listener`; ends with the test's runtime.
pub fn pass_on(listener: std::net::TcpListener, target: SocketAddr, level: Level, tamper: Arc<Tamper>) {
    listener.set_nonblocking(true).unwrap();
    tokio::spawn(relay(TcpListener::from_std(listener).unwrap(), target, level, tamper));
}

/// Frames as they were sent.
pub type Recorded = Arc<Mutex<Vec<Vec<u8>>>>;

/// Everything as it is.
pub fn pass(passing: Passing) -> Vec<Vec<u8>> {
    vec![passing.bytes]
}

/// Passes everything on and keeps what the asking side sends.
pub fn recorder() -> (Recorded, Arc<Tamper>) {
    let recorded = Recorded::default();
    let own = Arc::clone(&recorded);
    let tamper = move |passing: Passing| {
        if passing.asks {
            own.lock().unwrap().push(passing.bytes.clone());
        }
        pass(passing)
    };
    (recorded, Arc::new(tamper))
}

async fn relay(listener: TcpListener, target: SocketAddr, level: Level, tamper: Arc<Tamper>) {
    let seen: Arc<[[AtomicUsize; 9]; 2]> = Arc::default();
    while let Ok((near, _)) = listener.accept().await {
        let far = TcpStream::connect(target).await.unwrap();
        let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
        for (asks, read, write) in [(true, near_read, far_write), (false, far_read, near_write)] {
            tokio::spawn(pump(asks, read, write, level, Arc::clone(&tamper), Arc::clone(&seen)));
        }
    }
}

async fn pump(
    asks: bool,
    mut read: OwnedReadHalf,
    mut write: OwnedWriteHalf,
    level: Level,
    tamper: Arc<Tamper>,
    seen: Arc<[[AtomicUsize; 9]; 2]>,
) {
    while let Some(mut passing) = next(&mut read, level).await {
        passing.asks = asks;
        passing.number = seen[usize::from(asks)][passing.kind as usize].fetch_add(1, Ordering::Relaxed);
        for bytes in tamper(passing) {
            if write.write_all(&bytes).await.is_err() {
                return;
            }
        }
    }
}

/// The next frame; `None` at the end.
async fn next(read: &mut OwnedReadHalf, level: Level) -> Option<Passing> {
    let mut bytes = vec![0; FRAME_HEAD_BYTES];
    read.read_exact(&mut bytes).await.ok()?;
    let head = FrameHead::decode(bytes[..].try_into().unwrap()).unwrap();
    let has_tag = level != Level::Off && head.kind != FrameKind::Greeting;
    let body_at = head.plain_bytes() + if has_tag { TAG_BYTES } else { 0 };
    let has_body_tag = level == Level::Seal && head.body_on_connection() > 0;
    let len = body_at + head.body_on_connection() + if has_body_tag { TAG_BYTES } else { 0 };
    bytes.resize(len, 0);
    read.read_exact(&mut bytes[FRAME_HEAD_BYTES..]).await.ok()?;
    Some(Passing { kind: head.kind, asks: false, number: 0, body_at, bytes })
}
