//! A node's sending, held to a rate: what all its connections write goes through one queue, as through one cable.
//!
//! Each write takes the next place in the queue and waits for its time. Time that a late timer leaves unused is made up for
//! within a moment, so that the rate holds although timers are coarse.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::lock::lock;
use crate::stream::WriteHalf;

/// Bytes written at a time, so that connections take turns.
const WRITE_BYTES: usize = 16 << 10;

/// The time that may be made up for.
const CATCH_UP: Duration = Duration::from_millis(5);

/// One node's cable.
#[derive(Debug)]
pub(crate) struct Cable {
    bytes_per_second: f64,
    free_from: Mutex<Option<Instant>>,
}

impl Cable {
    pub(crate) fn new(bytes_per_second: u64) -> Arc<Self> {
        Arc::new(Self { bytes_per_second: bytes_per_second as f64, free_from: Mutex::default() })
    }

    /// Takes the next place for so many bytes: when it begins.
    fn take(&self, bytes: usize) -> Instant {
        let now = Instant::now();
        let mut free_from = lock(&self.free_from);
        let earliest = now.checked_sub(CATCH_UP).unwrap_or(now);
        let begins = free_from.map_or(now, |free| free.max(earliest));
        *free_from = Some(begins + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second));
        begins
    }
}

/// A writer on a cable.
pub(crate) struct Paced {
    writer: WriteHalf,
    cable: Arc<Cable>,
    /// The place that was taken: its time, and the bytes that may still be written in it.
    place: Option<(Pin<Box<Sleep>>, usize)>,
}

impl Paced {
    pub(crate) fn new(writer: WriteHalf, cable: Arc<Cable>) -> Self {
        Self { writer, cable, place: None }
    }
}

impl AsyncWrite for Paced {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let wanted = bytes.len().min(WRITE_BYTES);
        let cable = &this.cable;
        let place = this.place.get_or_insert_with(|| (Box::pin(sleep_until(cable.take(wanted))), wanted));
        ready!(place.0.as_mut().poll(context));
        let written = ready!(Pin::new(&mut this.writer).poll_write(context, &bytes[..wanted.min(place.1)]))?;
        place.1 -= written;
        if place.1 == 0 {
            this.place = None;
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test(start_paused = true)]
    async fn two_connections_share_the_time_of_one_cable() {
        let cable = Cable::new(1 << 20);
        let begun = Instant::now();
        let mut writing = tokio::task::JoinSet::new();
        for _ in 0..2 {
            let (near, mut far) = tokio::io::duplex(64 << 10);
            let mut near = Paced::new(Box::new(near), Arc::clone(&cable));
            writing.spawn(async move { near.write_all(&vec![7; 1 << 20]).await.unwrap() });
            writing.spawn(async move {
                let mut bytes = Vec::new();
                far.read_to_end(&mut bytes).await.unwrap();
                assert_eq!(bytes.len(), 1 << 20);
            });
        }
        while let Some(outcome) = writing.join_next().await {
            outcome.unwrap();
        }
        let took = begun.elapsed().as_secs_f64();
        assert!((1.95..2.05).contains(&took), "{took} s for 2 MiB at 1 MiB/s");
    }
}
