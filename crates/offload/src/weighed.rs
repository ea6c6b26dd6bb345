//! The times that files would take at each end, predicted by the model of the core from measurements at both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_query::{End, Prediction, Share};

use crate::dealt::Far;
use crate::files::{Contents, FileSource, PassOptions, block_count};
use crate::processors::cores_for;
use crate::speeds::seconds_per_byte;

/// Bytes that are read at most to see how fast files come which the same nodes hold, in pieces.
const SAMPLE_BYTES: u64 = 2 << 20;
const PIECE_BYTES: u64 = 128 << 10;

/// Of one file, the share that is read: more would be read again, and be in memory then.
const SAMPLE_PART: u64 = 4;

/// Files that differ in their nodes may come at different speeds: so many of these kinds are sampled.
const SAMPLES_MAX: usize = 4;

/// A large prime, so that processes one after another look at places far apart.
const PLACES_APART: u64 = 2_654_435_761;

/// Of the time that the nodes are predicted to take, what sampling may cost: over a slow link two megabytes take as long as a
/// whole query does at a fast node. In less than the shortest, links that let some hundred kilobytes pass at once look as
/// fast as the machine; more than the longest tells nothing more.
const SAMPLE_SHARE: f64 = 1.0 / 16.0;
const SAMPLE_S_MIN: f64 = 0.05;
const SAMPLE_S_MAX: f64 = 0.2;

/// Until a node has begun: one way there and one back, over two daemons.
const BEGINS_S: f64 = 0.002;

/// The prediction for some files.
pub(crate) struct Weighed {
    host: End,
    pub prediction: Prediction,
}

/// Files that the same nodes can read.
struct Alike<'f> {
    sources: Vec<&'f FileSource>,
    share: Share,
}

impl Weighed {
    /// That for files of which nodes can read one at least. Reads samples of them.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn new(far: &[Far<'_>], options: PassOptions<'_>) -> anyhow::Result<Self> {
        let PassOptions { collected, threads, .. } = options;
        let blocks: u64 = far.iter().map(|far| block_count(far.source.table_bytes())).sum();
        let threads = threads.min(blocks.max(1) as usize);
        let (alike, here) = alike(far);
        let shares: Vec<Share> = alike.iter().map(|alike| alike.share.clone()).collect();
        let job = far.iter().find_map(|far| far.makers.as_ref()).map(|makers| &makers.job);
        let (factor, read_factor) = job.map_or((1.0, 1.0), |job| (job.host_factor, job.host_read_factor));
        let (cores, per_byte) = (cores_for(threads), seconds_per_byte(collected) * factor);
        let burst = cores.burst(threads, per_byte);
        let host = End { parses: cores.cores / per_byte, reads: f64::INFINITY, begins: 0.0, burst };
        // The sample may take a share of what is at stake.
        let at_stake = Prediction::of_shares(here, host, &shares).data;
        let sampling = Duration::from_secs_f64((at_stake * SAMPLE_SHARE).clamp(SAMPLE_S_MIN, SAMPLE_S_MAX));
        let host = End { reads: bytes_read_per_s(&alike, sampling)? / read_factor, ..host };
        Ok(Self { host, prediction: Prediction::of_shares(here, host, &shares) })
    }

    /// This host took so much longer than was predicted.
    pub fn saw_host(&self, far: &[Far<'_>], factor: f64) {
        if let Some(makers) = far.iter().find_map(|far| far.makers.as_ref()) {
            // Whether it waited for its bytes, not for its processors.
            makers.job.saw_host(factor, self.host.reads < self.host.parses);
        }
    }
}

/// The files by the nodes that can read them, those with the most bytes first; and the bytes of those that none can.
fn alike<'f>(far: &[Far<'f>]) -> (Vec<Alike<'f>>, u64) {
    let (mut found, mut here) = (BTreeMap::new(), 0);
    for far in far {
        let Some(makers) = &far.makers else {
            here += far.source.table_bytes();
            continue;
        };
        let new = || Alike { sources: vec![], share: makers.share(0, BEGINS_S) };
        let alike = found.entry(Arc::as_ptr(&makers.nodes)).or_insert_with(new);
        alike.sources.push(far.source);
        alike.share.bytes += far.source.table_bytes();
    }
    let mut found: Vec<Alike<'f>> = found.into_values().collect();
    found.sort_by_key(|alike| std::cmp::Reverse(alike.share.bytes));
    (found, here)
}

/// Bytes that come in a second, by samples that take so long together.
fn bytes_read_per_s(alike: &[Alike<'_>], sampling: Duration) -> anyhow::Result<f64> {
    let sampled = &alike[..alike.len().min(SAMPLES_MAX)];
    let (mut bytes, mut seconds) = (0.0, 0.0);
    for Alike { sources, share } in sampled {
        let Some(rate) = rate(sources, sampling / sampled.len() as u32)? else { continue };
        bytes += share.bytes as f64;
        seconds += share.bytes as f64 / rate;
    }
    Ok(if seconds > 0.0 { bytes / seconds } else { f64::INFINITY })
}

/// The bytes a second of files that come in the same way; None of empty ones.
fn rate(sources: &[&FileSource], sampling: Duration) -> anyhow::Result<Option<f64>> {
    let (began, mut read) = (Instant::now(), 0);
    for source in sources {
        if read >= SAMPLE_BYTES || (read > 0 && began.elapsed() >= sampling) {
            break;
        }
        read += sample(source, SAMPLE_BYTES - read, sampling.saturating_sub(began.elapsed()))?;
    }
    Ok((read > 0).then(|| read as f64 / began.elapsed().as_secs_f64().max(1e-9)))
}

/// Reads so many bytes of a file at most, or for so long, but one piece at least, from two places; how many. The places differ
/// from run to run: what the one before has read is in memory.
fn sample(source: &FileSource, bytes_max: u64, sampling: Duration) -> anyhow::Result<u64> {
    let piece = PIECE_BYTES.min(source.bytes());
    if piece == 0 {
        return Ok(0);
    }
    let bytes_max = bytes_max.min(source.bytes() / SAMPLE_PART);
    let places = (source.bytes() / PIECE_BYTES).max(1);
    let first = u64::from(std::process::id()).wrapping_mul(PLACES_APART) % places;
    let mut sample = vec![0; piece as usize];
    let (began, mut read) = (Instant::now(), 0);
    while read == 0 || (read < bytes_max && began.elapsed() < sampling) {
        let at = first + read / PIECE_BYTES + if read < bytes_max / 2 { 0 } else { places / 2 };
        source.read(&mut sample, (at % places) * piece)?;
        read += piece;
    }
    Ok(read)
}
