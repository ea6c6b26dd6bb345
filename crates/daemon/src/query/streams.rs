//! Streams of bytes between a process of a statement on this node and one on another: their local ends are Unix sockets.
//!
//! The daemon does not know what the bytes say. Each end pulls from the other by requests of the job's transport, and asks for more only when the
//! local socket has taken the last answer: a slow reader holds back the writer, and a stream takes bounded memory. A pull names how many
//! bytes have arrived, so that it may be repeated. Either end closes the whole stream, by an empty answer or by being gone.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use forebay_transport::CallError;
use forebay_types::{Errno, NodeRank};
use forebay_wire::query::QUERY_PULL_BYTES_MAX;
use forebay_wire::{Outcome, QueryMessage};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;

use crate::shared::node::Node;

/// Streams of a node: with two buffers each they take 256 MiB at most. 64 nodes of 4 statements.
const STREAMS_MAX: usize = 256;

/// Bytes of a read of a local socket: more than one usually has.
const READ_BYTES: usize = 128 << 10;

/// How long a pull may take; a node that is silent for so long is lost.
const PULL_DEADLINE: Duration = Duration::from_secs(20);

/// The part of a pull's deadline after which it is answered without bytes.
const WAIT_SHARE: f64 = 0.4;

/// How long the other end may take to pull the rest of a stream whose process has ended.
const REST_DEADLINE: Duration = Duration::from_secs(10);

/// How often it is looked whether a process is gone.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Pulls that are repeated one after the other when connections break.
const REPEATS_MAX: u32 = 2;

/// The open streams of this node, by their numbers.
#[derive(Default)]
pub struct Streams(Mutex<HashMap<u64, Arc<Outgoing>>>);

/// The bytes of a stream on their way to the other node.
#[derive(Default)]
struct Outgoing {
    state: Mutex<Unpulled>,
    changed: Notify,
}

/// The last answer, which may be asked for again, and the bytes after it.
#[derive(Default)]
struct Unpulled {
    sent_from: u64,
    sent: Bytes,
    unsent: BytesMut,
    is_over: bool,
}

impl Unpulled {
    /// The bytes from an offset on, empty at the end; none while there are none.
    fn pull(&mut self, offset_bytes: u64) -> Result<Option<Bytes>, Errno> {
        if offset_bytes == self.sent_from && !self.sent.is_empty() {
            return Ok(Some(self.sent.clone()));
        }
        if offset_bytes != self.sent_from + self.sent.len() as u64 {
            return Err(Errno::ESTALE);
        }
        self.sent_from = offset_bytes;
        self.sent = self.unsent.split().freeze();
        let has_answer = !self.sent.is_empty() || self.is_over;
        Ok(has_answer.then(|| self.sent.clone()))
    }

    /// Whether the other end has it all.
    fn is_taken(&self) -> bool {
        self.is_over && self.unsent.is_empty() && self.sent.is_empty()
    }
}

/// A stream's place in the list, until it is dropped.
pub struct Open {
    streams: Arc<Streams>,
    number: u64,
    outgoing: Arc<Outgoing>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.streams.list().remove(&self.number);
        // A pull that waits hears that the stream has ended.
        self.outgoing.end();
    }
}

impl Streams {
    fn list(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Outgoing>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new stream.
    ///
    /// # Errors
    /// `EBUSY` where there are as many as there may be, `EEXIST` where there is one of this number.
    pub fn open(self: &Arc<Self>, number: u64) -> Result<Open, Errno> {
        let mut list = self.list();
        if list.len() >= STREAMS_MAX {
            return Err(Errno::EBUSY);
        }
        if list.contains_key(&number) {
            return Err(Errno::EEXIST);
        }
        let outgoing = Arc::new(Outgoing::default());
        list.insert(number, Arc::clone(&outgoing));
        Ok(Open { streams: Arc::clone(self), number, outgoing })
    }

    /// Answers a pull of the other end.
    ///
    /// # Errors
    /// As `QueryMessage::PullStream` has them.
    pub async fn pull(&self, number: u64, offset_bytes: u64, remaining: Duration) -> Result<Bytes, Errno> {
        let outgoing = self.list().get(&number).cloned().ok_or(Errno::ENOENT)?;
        let pulled = async {
            loop {
                let changed = outgoing.changed.notified();
                if let Some(bytes) = outgoing.locked(|state| state.pull(offset_bytes))? {
                    // There is room again, or the end has been taken.
                    outgoing.changed.notify_waiters();
                    return Ok(bytes);
                }
                changed.await;
            }
        };
        tokio::time::timeout(remaining.mul_f64(WAIT_SHARE), pulled).await.unwrap_or(Err(Errno::EAGAIN))
    }
}

impl Outgoing {
    fn locked<T>(&self, of: impl FnOnce(&mut Unpulled) -> T) -> T {
        of(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn end(&self) {
        self.locked(|state| state.is_over = true);
        self.changed.notify_waiters();
    }

    /// Waits until it is so.
    async fn until(&self, is_so: impl Fn(&Unpulled) -> bool) {
        loop {
            let changed = self.changed.notified();
            if self.locked(|state| is_so(state)) {
                return;
            }
            changed.await;
        }
    }

    /// Takes what the process writes, until it writes no more and the other end has it.
    async fn fill(&self, mut from: OwnedReadHalf) {
        let mut bytes = BytesMut::with_capacity(READ_BYTES);
        loop {
            let has_room = |state: &Unpulled| state.unsent.len() < QUERY_PULL_BYTES_MAX;
            // A process that is gone waits for nobody who takes nothing.
            while tokio::time::timeout(REST_DEADLINE, self.until(has_room)).await.is_err() {
                if is_closed(from.as_ref()) {
                    return self.end();
                }
            }
            let room = QUERY_PULL_BYTES_MAX - self.locked(|state| state.unsent.len());
            let read = (&mut from).take(room as u64).read_buf(&mut bytes).await;
            if !read.is_ok_and(|read| read > 0) {
                break;
            }
            self.locked(|state| state.unsent.unsplit(bytes.split()));
            self.changed.notify_waiters();
            bytes.reserve(READ_BYTES);
        }
        self.end();
        let taken = self.until(Unpulled::is_taken);
        let _ = tokio::time::timeout(REST_DEADLINE, taken).await;
    }
}

/// How an end of a stream came to its end.
enum Ended {
    /// The other node closed it, or is lost.
    There,
    /// The process on this node takes no more.
    Here,
}

/// Carries a stream between a process on this node and the other end, until either closes it.
pub async fn carry(node: &Node, open: &Open, peer: NodeRank, local: UnixStream) {
    let (read, write) = local.into_split();
    let give = open.outgoing.fill(read);
    tokio::pin!(give);
    let ended = tokio::select! {
        () = &mut give => return,
        ended = take(node, open.number, peer, write) => ended,
    };
    if matches!(ended, Ended::Here) {
        give.await;
    }
}

/// Carries a stream between two processes on this node, until either closes it.
pub async fn carry_here(mut asks: UnixStream, mut worker: UnixStream) {
    // A worker that takes nothing keeps neither the stream nor, with it, itself.
    let Ok(watched) = asks.as_fd().try_clone_to_owned() else { return };
    let ((from, to), (from_worker, to_worker)) = (&mut asks.split(), &mut worker.split());
    tokio::select! {
        _ = tokio::io::copy(from, to_worker) => {}
        _ = tokio::io::copy(from_worker, to) => {}
        () = until_closed(&watched) => {}
    }
}

/// Waits until a socket's process is gone, and a while longer for what it has written.
async fn until_closed(socket: &impl AsFd) {
    while !is_closed(socket) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    tokio::time::sleep(REST_DEADLINE).await;
}

/// Whether the process at the other end of a socket is gone.
fn is_closed(socket: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&at_once)).is_ok() && polled[0].revents().contains(PollFlags::HUP)
}

/// Writes what comes from the other end.
async fn take(node: &Node, stream: u64, peer: NodeRank, mut to: OwnedWriteHalf) -> Ended {
    let (mut offset_bytes, mut repeats) = (0, 0);
    loop {
        match pulled(node, peer, QueryMessage::PullStream { stream, offset_bytes }).await {
            Ok(bytes) if bytes.is_empty() => return Ended::There,
            Ok(bytes) => {
                repeats = 0;
                offset_bytes += bytes.len() as u64;
                tokio::select! {
                    written = to.write_all(&bytes) => if written.is_err() { return Ended::Here },
                    () = is_gone(node, peer, stream, offset_bytes) => return Ended::There,
                }
            }
            Err(Failed::Nothing) => repeats = 0,
            Err(Failed::Broken) if repeats < REPEATS_MAX => repeats += 1,
            Err(_) => return Ended::There,
        }
    }
}

/// Waits, while the process takes nothing, until the other end is gone. Bytes that come meanwhile are pulled again.
async fn is_gone(node: &Node, peer: NodeRank, stream: u64, offset_bytes: u64) {
    loop {
        tokio::time::sleep(PULL_DEADLINE).await;
        match pulled(node, peer, QueryMessage::PullStream { stream, offset_bytes }).await {
            Ok(bytes) if bytes.is_empty() => return,
            Ok(_) | Err(Failed::Nothing | Failed::Broken) => {}
            Err(Failed::Lost) => return,
        }
    }
}

/// Why a pull brought no bytes.
enum Failed {
    /// There were none yet.
    Nothing,
    /// Its connection broke.
    Broken,
    /// The stream has ended, or the node is silent.
    Lost,
}

async fn pulled(node: &Node, peer: NodeRank, message: QueryMessage) -> Result<Bytes, Failed> {
    let endpoint = node.endpoint().ok_or(Failed::Lost)?;
    let reply = endpoint.call(peer, message, PULL_DEADLINE).await.map_err(|error| match error {
        CallError::ConnectionLost { .. } => Failed::Broken,
        _ => Failed::Lost,
    })?;
    let body = match (reply.outcome, reply.body) {
        (Outcome::Body, Some(body)) if body.expected_bytes() <= QUERY_PULL_BYTES_MAX => body,
        (Outcome::Failed(Errno::EAGAIN), _) => return Err(Failed::Nothing),
        _ => return Err(Failed::Lost),
    };
    let whole = tokio::time::timeout(PULL_DEADLINE, body.whole_bytes()).await;
    whole.map_err(|_| Failed::Lost)?.map_err(|_| Failed::Broken)?;
    body.contiguous().ok_or(Failed::Broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pull_may_be_repeated_and_acknowledges_what_came_before() {
        let mut bytes = Unpulled::default();
        assert_eq!(bytes.pull(0), Ok(None));
        bytes.unsent.extend_from_slice(b"abc");
        assert_eq!(bytes.pull(0), Ok(Some(Bytes::from("abc"))));
        bytes.unsent.extend_from_slice(b"de");
        assert_eq!(bytes.pull(0), Ok(Some(Bytes::from("abc"))));
        assert_eq!(bytes.pull(2), Err(Errno::ESTALE));
        assert_eq!(bytes.pull(3), Ok(Some(Bytes::from("de"))));
        assert_eq!(bytes.pull(0), Err(Errno::ESTALE));
        bytes.is_over = true;
        assert!(!bytes.is_taken());
        assert_eq!(bytes.pull(5), Ok(Some(Bytes::new())));
        assert!(bytes.is_taken());
    }

    #[tokio::test]
    async fn a_writer_waits_for_its_reader_and_an_end_is_told_after_the_last_byte() {
        let streams = Arc::new(Streams::default());
        let open = streams.open(7).unwrap();
        assert_eq!(streams.open(7).err(), Some(Errno::EEXIST));
        let (mut process, local) = UnixStream::pair().unwrap();
        let (read, _write) = local.into_split();
        let outgoing = Arc::clone(&open.outgoing);
        let fill = tokio::spawn(async move { outgoing.fill(read).await });
        let all: Vec<u8> = (0..4 * QUERY_PULL_BYTES_MAX).map(|at| (at % 251) as u8).collect();
        let written = all.clone();
        let writer = tokio::spawn(async move { process.write_all(&written).await });
        let minute = Duration::from_secs(60);
        let mut came = vec![];
        loop {
            let bytes = streams.pull(7, came.len() as u64, minute).await.unwrap();
            assert!(bytes.len() <= QUERY_PULL_BYTES_MAX);
            if bytes.is_empty() {
                break;
            }
            came.extend_from_slice(&bytes);
        }
        assert!(came == all);
        writer.await.unwrap().unwrap();
        fill.await.unwrap();
        drop(open);
        assert_eq!(streams.pull(7, 0, minute).await, Err(Errno::ENOENT));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pull_that_finds_nothing_is_answered_in_time() {
        let streams = Arc::new(Streams::default());
        let _open = streams.open(1).unwrap();
        assert_eq!(streams.pull(1, 0, PULL_DEADLINE).await, Err(Errno::EAGAIN));
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_is_gone_ends_its_stream_though_nobody_takes_its_bytes() {
        let streams = Arc::new(Streams::default());
        let open = streams.open(7).unwrap();
        let (process, local) = UnixStream::pair().unwrap();
        let (read, _write) = local.into_split();
        // As much as the stream and both sockets take.
        while process.try_write(&[0; 4096]).is_ok() {}
        let fill = open.outgoing.fill(read);
        tokio::pin!(fill);
        assert!(tokio::time::timeout(REST_DEADLINE * 3, &mut fill).await.is_err(), "it may go on");
        while process.try_write(&[0; 4096]).is_ok() {}
        drop(process);
        let ended = tokio::time::timeout(REST_DEADLINE * 3, fill).await;
        assert!(ended.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_on_one_node_ends_with_its_process_though_the_worker_takes_nothing() {
        let ((process, asks), (worker, _stopped)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let carried = tokio::spawn(carry_here(asks, worker));
        for _ in 0..1000 {
            tokio::task::yield_now().await;
            while process.try_write(&[0; 4096]).is_ok() {}
        }
        assert!(!carried.is_finished());
        drop(process);
        assert!(tokio::time::timeout(REST_DEADLINE * 3, carried).await.is_ok());
    }

    #[test]
    fn a_node_has_so_many_streams_at_most() {
        let streams = Arc::new(Streams::default());
        let mut open: Vec<Open> = (0..STREAMS_MAX as u64).map(|number| streams.open(number).unwrap()).collect();
        assert_eq!(streams.open(u64::MAX).err(), Some(Errno::EBUSY));
        open.pop();
        assert!(streams.open(u64::MAX).is_ok());
    }
}
