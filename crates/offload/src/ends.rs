//! The end that answers a query: this host, the nodes that hold the bytes, or both. The model of the core predicts the time of each from
//! measurements at both ends, and a choice that turns out wrong is corrected.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use forebay_query::limits::BLOCK_BYTES;
use forebay_query::{Choice, End, Pace, Prediction, State};

use crate::column::{Answered, Reread};
use crate::dealing::{HostPart, Made};
use crate::files::{Contents, FileSource, PassOptions, Table, block_count, collect, each_of_many};
use crate::makers::Makers;
use crate::processors::cores_for;
use crate::speeds::seconds_per_byte;

/// Bytes of a file that are read at most to see how fast they come: from two places, in pieces.
const SAMPLE_BYTES: u64 = 2 << 20;
const PIECE_BYTES: u64 = 128 << 10;

/// A large prime, so that processes one after another look at places far apart.
const PLACES_APART: u64 = 2_654_435_761;

/// Of the time that the nodes are predicted to take, what that may cost: over a slow link two megabytes take as long as a
/// whole query does at a fast node. In less than the shortest, links that let some hundred kilobytes pass at once look as
/// fast as the machine; more than the longest tells nothing more.
const SAMPLE_SHARE: f64 = 1.0 / 16.0;
const SAMPLE_S_MIN: f64 = 0.05;
const SAMPLE_S_MAX: f64 = 0.2;

/// How often it is looked at whether the host is behind.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Of a file that is no larger, too much would have been read when it is known who should.
const WEIGHED_BYTES_MIN: u64 = 8 << 20;

/// Until a node has begun: one way there and one back, over two daemons.
const BEGINS_S: f64 = 0.002;

/// The ends that have read.
#[derive(Default)]
pub struct Makings {
    /// By whose choice; None if there were no files.
    pub place: Option<Choice>,
    /// Bytes that each node read, where some did; None is this host.
    pub bytes: BTreeMap<Option<u32>, u64>,
    /// The time that each choice was predicted to take, over all files that were weighed.
    pub predicted: Option<Prediction>,
    /// The time that those took.
    pub took_s: f64,
    /// Whether nodes read the logs of the burst tier.
    pub is_in_logs: bool,
}

/// The first pass over a file: its state, and for the second one, if nodes are to make that too, which blocks begin within
/// quotes and what this host does.
struct Passed {
    state: State,
    rest: Option<(Vec<bool>, HostPart)>,
}

/// The end that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The fastest.
    Auto,
    /// This host.
    Host,
    /// The nodes that hold the file.
    Data,
    /// Both.
    Split,
}

/// Finds the nodes that hold a file; None if no node does.
pub type MakersOf<'a> = &'a dyn Fn(&FileSource) -> anyhow::Result<Option<Makers>>;

/// Makes the states of files.
pub struct Collector<'a> {
    /// The statistics that are collected, and how this host reads.
    pub options: PassOptions<'a>,
    /// The end that is asked for.
    pub asked: Place,
    /// Whether it is to be predicted what is not chosen.
    pub explains: bool,
    /// Whether files are to be read again, for a column.
    pub rereads: bool,
    /// Finds the nodes that hold a file; None without a job.
    pub makers_of: Option<MakersOf<'a>>,
    /// Hears of nodes that were lost, file by file.
    pub note: &'a dyn Fn(&Made),
    /// The ends that have read so far.
    pub makings: Makings,
}

impl Collector<'_> {
    /// The state of a file, made by whoever is chosen.
    ///
    /// # Errors
    /// It cannot be read, changes, or nobody holds it who was asked for.
    pub fn state(&mut self, source: &FileSource, table: Table<'_>) -> anyhow::Result<Answered> {
        let makers = if self.is_small(source) { None } else { self.makers(source)? };
        let Some(makers) = makers else {
            self.choose(Choice::Host);
            return Ok(Answered { state: collect(source, table, self.options)?, reread: None });
        };
        let weighs = self.explains || (self.asked == Place::Auto && source.bytes() >= WEIGHED_BYTES_MIN);
        let weighed = weighs.then(|| Weighed::new(source, self.options, &makers)).transpose()?;
        let choice = match (self.asked, &weighed) {
            (Place::Data, _) => Choice::Data,
            (Place::Split, _) => Choice::Split,
            (Place::Auto, Some(weighed)) => weighed.prediction.choice(),
            (Place::Host | Place::Auto, _) => Choice::Host,
        };
        let began = Instant::now();
        let (choice, Passed { state, rest }) = match &weighed {
            Some(weighed) if self.asked == Place::Auto => self.corrected(source, table, &makers, (choice, weighed))?,
            _ => (choice, self.as_asked(source, table, &makers, choice)?),
        };
        let took_s = began.elapsed().as_secs_f64();
        if let Some(weighed) = weighed {
            self.note(weighed.prediction, took_s);
            if choice == Choice::Host {
                makers.saw_host(took_s / weighed.prediction.host, weighed.waits_for_bytes());
            }
        }
        self.choose(choice);
        let reread = rest.map(|(quoted, host_part)| Reread { makers, quoted, host_part });
        Ok(Answered { state, reread })
    }

    /// Whether this host reads a file without a question to anybody: it is small, and no other end was asked for.
    #[must_use]
    pub fn is_small(&self, source: &FileSource) -> bool {
        let is_free = self.makers_of.is_none() || (self.asked == Place::Auto && !self.explains);
        is_free && source.bytes() < WEIGHED_BYTES_MIN
    }

    /// The states of small files, several of which are read at once.
    ///
    /// # Errors
    /// One cannot be read, or changes.
    pub fn states_of_small<'s>(
        &mut self,
        count: usize,
        file: impl Fn(usize) -> (&'s FileSource, Table<'s>) + Sync,
    ) -> anyhow::Result<Vec<Answered>> {
        self.choose(Choice::Host);
        let options = PassOptions { threads: 1, ..self.options };
        each_of_many(count, |number| {
            let (source, table) = file(number);
            let state = collect(source, table, options);
            source.release();
            Ok(Answered { state: state?, reread: None })
        })
    }

    /// The state of a file, made by those who were asked for.
    fn as_asked(
        &mut self,
        source: &FileSource,
        table: Table<'_>,
        makers: &Makers,
        choice: Choice,
    ) -> anyhow::Result<Passed> {
        match choice {
            Choice::Host => Ok(Passed { state: collect(source, table, self.options)?, rest: None }),
            Choice::Data => self.far(source, table, makers, HostPart::Rest),
            Choice::Split => self.far(source, table, makers, HostPart::Half),
        }
    }

    /// The state of a file, made by those who were chosen, and by both ends where that turns out wrong; and who it was.
    fn corrected(
        &mut self,
        source: &FileSource,
        table: Table<'_>,
        makers: &Makers,
        (choice, weighed): (Choice, &Weighed),
    ) -> anyhow::Result<(Choice, Passed)> {
        match choice {
            Choice::Host => {
                let pace = Pace::new(source.bytes(), weighed.prediction.data);
                match here_unless_lost(source, table, self.options, pace)? {
                    Ok(state) => Ok((choice, Passed { state, rest: None })),
                    Err(would_take_s) => {
                        makers.saw_host(would_take_s / weighed.prediction.host, weighed.waits_for_bytes());
                        Ok((Choice::Split, self.far(source, table, makers, HostPart::Half)?))
                    }
                }
            }
            Choice::Data => {
                let pace = Pace::new(source.bytes(), weighed.prediction.host);
                Ok((choice, self.far(source, table, makers, HostPart::Help(pace))?))
            }
            Choice::Split => {
                let (before, began) = (self.host_bytes(), Instant::now());
                let passed = self.as_asked(source, table, makers, choice)?;
                let made = (self.host_bytes() - before) as f64;
                if made > 0.0 {
                    let alone_s = began.elapsed().as_secs_f64() * source.bytes() as f64 / made;
                    makers.saw_host(alone_s / weighed.prediction.host, weighed.waits_for_bytes());
                }
                Ok((choice, passed))
            }
        }
    }

    /// Bytes that this host made beside nodes.
    fn host_bytes(&self) -> u64 {
        self.makings.bytes.get(&None).copied().unwrap_or(0)
    }

    /// Those who may be asked about a file; None if this host is to read it.
    fn makers(&self, source: &FileSource) -> anyhow::Result<Option<Makers>> {
        let Some(makers_of) = self.makers_of else { return Ok(None) };
        match (makers_of(source), self.asked) {
            (Ok(makers), Place::Auto | Place::Host) => Ok(makers),
            (Err(_), Place::Auto | Place::Host) => Ok(None),
            (makers, _) => {
                let nobody =
                    || format!("no node of the job holds {}; --where host reads it here", source.path().display());
                Ok(Some(makers?.with_context(nobody)?))
            }
        }
    }

    fn far(
        &mut self,
        source: &FileSource,
        table: Table<'_>,
        makers: &Makers,
        host_part: HostPart,
    ) -> anyhow::Result<Passed> {
        let (state, quoted, made) = makers.collect(source, table, self.options, host_part, self.rereads)?;
        (self.note)(&made);
        self.makings.is_in_logs |= makers.homes.are_known();
        // The second pass has no prediction of its own: a host that had to help makes its share of it from the beginning.
        let host_part = match host_part {
            HostPart::Help(_) if made.bytes.contains_key(&None) => HostPart::Half,
            HostPart::Help(_) | HostPart::Rest => HostPart::Rest,
            HostPart::Half => HostPart::Half,
        };
        for (node, bytes) in made.bytes {
            *self.makings.bytes.entry(node).or_default() += bytes;
        }
        Ok(Passed { state, rest: Some((quoted, host_part)) })
    }

    fn note(&mut self, more: Prediction, took_s: f64) {
        let all = self.makings.predicted.get_or_insert(Prediction { host: 0.0, data: 0.0, split: 0.0 });
        all.host += more.host;
        all.data += more.data;
        all.split += more.split;
        self.makings.took_s += took_s;
    }

    /// Files that different ends answered were answered by both.
    fn choose(&mut self, choice: Choice) {
        let before = self.makings.place.replace(choice);
        if before.is_some_and(|before| before != choice) {
            self.makings.place = Some(Choice::Split);
        }
    }
}

/// The prediction for a file.
struct Weighed {
    host: End,
    prediction: Prediction,
}

impl Weighed {
    fn new(source: &FileSource, options: PassOptions<'_>, makers: &Makers) -> anyhow::Result<Self> {
        let PassOptions { collected, threads, .. } = options;
        let threads = threads.min(block_count(source.bytes()).max(1) as usize);
        let nodes = makers.ends(BEGINS_S);
        let (cores, per_byte) = (cores_for(threads), seconds_per_byte(collected) * makers.host_factor);
        let burst = cores.burst(threads, per_byte);
        let host = End { parses: cores.cores / per_byte, reads: f64::INFINITY, begins: 0.0, burst };
        // The sample may take a share of what is at stake.
        let at_stake = Prediction::new(source.bytes(), host, &nodes).data;
        let sampling = Duration::from_secs_f64((at_stake * SAMPLE_SHARE).clamp(SAMPLE_S_MIN, SAMPLE_S_MAX));
        let host = End { reads: bytes_read_per_s(source, sampling)? / makers.host_read_factor, ..host };
        Ok(Self { host, prediction: Prediction::new(source.bytes(), host, &nodes) })
    }

    /// Whether the host would wait for its bytes, not for its processors.
    fn waits_for_bytes(&self) -> bool {
        self.host.reads < self.host.parses
    }
}

/// The state of a file, made by this host alone; or how long that would take, where it is given up since the nodes would be
/// much faster.
fn here_unless_lost(
    source: &FileSource,
    table: Table<'_>,
    options: PassOptions<'_>,
    pace: Pace,
) -> anyhow::Result<Result<State, f64>> {
    let (is_lost, began) = (AtomicBool::new(false), Instant::now());
    let (before, under_way) = (options.done_bytes.load(Ordering::Relaxed), options.threads as u64 * BLOCK_BYTES);
    let made = || options.done_bytes.load(Ordering::Relaxed) - before;
    let (over, is_over) = sync_channel::<()>(0);
    thread::scope(|scope| {
        let (made, lost) = (&made, &is_lost);
        scope.spawn(move || {
            // Ends with the pass, which drops its end of the channel.
            while is_over.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                if pace.is_lost(began.elapsed().as_secs_f64(), made(), under_way) {
                    lost.store(true, Ordering::Relaxed);
                }
            }
        });
        let state = collect(source, table, PassOptions { is_given_up: &is_lost, ..options });
        drop(over);
        match state {
            Err(_) if is_lost.load(Ordering::Relaxed) => {
                let would_take_s = pace.seconds_for_all(began.elapsed().as_secs_f64(), made(), under_way);
                options.done_bytes.fetch_sub(made(), Ordering::Relaxed);
                Ok(Err(would_take_s))
            }
            state => state.map(Ok),
        }
    })
}

/// Bytes of a file that come in a second, by a sample from two places that takes so long. The places differ from run to run:
/// what the one before has read is in memory.
fn bytes_read_per_s(source: &FileSource, sampling: Duration) -> anyhow::Result<f64> {
    let piece = PIECE_BYTES.min(source.bytes());
    if piece == 0 {
        return Ok(f64::INFINITY);
    }
    let places = (source.bytes() / PIECE_BYTES).max(1);
    let first = u64::from(std::process::id()).wrapping_mul(PLACES_APART) % places;
    let mut sample = vec![0; piece as usize];
    let (began, mut read) = (Instant::now(), 0);
    while read < SAMPLE_BYTES && (read == 0 || began.elapsed() < sampling) {
        let at = first + read / PIECE_BYTES + if read < SAMPLE_BYTES / 2 { 0 } else { places / 2 };
        source.read(&mut sample, (at % places) * piece)?;
        read += piece;
    }
    Ok(read as f64 / began.elapsed().as_secs_f64().max(1e-9))
}
