//! For fuzzing and for its corpus: what a node does with the bytes of anybody, without a network.

use std::cell::RefCell;
use std::io::Cursor;
use std::net::Ipv4Addr;
use std::sync::Arc;

use forebay_body::Pool;
use forebay_secret::JobKey;
use forebay_types::{Errno, NodeRank};
use forebay_wire::{Answer, Class, Envelope, FrameKind};
use tokio::runtime::{Builder, Runtime};

use crate::counts::Counts;
use crate::handshake::{Greeted, Identity, greet, welcome};
use crate::options::Security;
use crate::reader::ReadError;
use crate::stream::{NO_PLACE, Stream};

/// The job's name in the corpus.
const JOB: &str = "fuzz";

/// The session that the asking side begins.
const SESSION: u64 = 7;

thread_local! {
    static RUNTIME: RefCell<Option<Runtime>> = const { RefCell::new(None) };
}

/// Shakes hands with whoever sends `bytes`, and reads on if that went well. Its first byte says as whom: the lowest bit
/// is set for the side that connects, the next two are the level. Returns the frames read after the handshake; `None`
/// when it was refused.
///
/// # Panics
/// When somebody without the key is let in, or the machine gives no timer.
#[must_use]
pub fn handshake(bytes: &[u8]) -> Option<usize> {
    let (first, rest) = bytes.split_first()?;
    let key = JobKey::from_bytes([1; 32]);
    let security = match (first >> 1) & 3 {
        0 => Security::Off,
        1 => Security::Auth(key),
        _ => Security::Seal(key),
    };
    let is_keyed = security != Security::Off;
    let identity = Identity { job: JOB.to_owned(), rank: NodeRank(0), nodes: 2, security };
    let asks = first & 1 == 1;
    let read = on_runtime(shake(rest.to_vec(), &identity, asks));
    assert!(!is_keyed || read.is_none(), "let in without the key");
    read
}

fn on_runtime<T>(work: impl Future<Output = T>) -> T {
    RUNTIME.with_borrow_mut(|runtime| {
        let runtime = runtime.get_or_insert_with(|| {
            // One thread, and no descriptors but those of the timer.
            Builder::new_current_thread().enable_time().build().expect("a runtime without sockets needs nothing")
        });
        runtime.block_on(work)
    })
}

async fn shake(bytes: Vec<u8>, identity: &Identity, asks: bool) -> Option<usize> {
    let (counts, pool) = (Arc::<Counts>::default(), Pool::new(4));
    let stream = Stream {
        reader: Box::new(Cursor::new(bytes)),
        writer: Box::new(tokio::io::sink()),
        peer: Ipv4Addr::LOCALHOST.into(),
        place: NO_PLACE,
    };
    let greeted = if asks {
        greet(stream, identity, (NodeRank(1), Class::Bulk, SESSION), &pool, &counts).await
    } else {
        welcome(stream, identity, &pool, &counts).await.map(|(_, greeted)| greeted)
    };
    let mut greeted = greeted.ok()?;
    let mut read = 0;
    while read_frame(&mut greeted, &pool).await.is_ok() {
        read += 1;
    }
    Some(read)
}

async fn read_frame(connection: &mut Greeted, pool: &Pool) -> Result<(), ReadError> {
    let head = connection.reader.head().await?;
    match head.kind {
        FrameKind::Request => connection.reader.message::<Envelope>().map(|_| ())?,
        FrameKind::Answer => connection.reader.message::<Answer>().map(|_| ())?,
        FrameKind::Abort => connection.reader.message::<Errno>().map(|_| ())?,
        _ => {}
    }
    let body = connection.reader.body(head, pool).await?;
    let _ = body.is_sound();
    Ok(())
}
