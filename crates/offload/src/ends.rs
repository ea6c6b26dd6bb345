//! The end that answers a query: this host, the nodes that can read the files, or both. All files are weighed and dealt out together. The model of the core predicts the time of each from
//! measurements at both ends, and a choice that turns out wrong is corrected.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;
use forebay_query::limits::BLOCK_BYTES;
use forebay_query::{Choice, Pace, Prediction};

use crate::column::{Answered, Reread};
use crate::dealing::{HostPart, Made};
use crate::dealt::{DealOptions, Far, deal, is_in_logs};
use crate::files::{AT_ONCE, FileSource, PassOptions, Table, collect, each_at_once};
use crate::makers::Makers;
use crate::several::Finished;
use crate::weighed::Weighed;

/// How often it is looked at whether the host is behind.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Of files that are no larger together, too much would have been read when it is known who should.
const WEIGHED_BYTES_MIN: u64 = 8 << 20;

/// A smaller file is read faster than it is asked about.
const ASKED_BYTES_MIN: u64 = 1 << 20;

/// Files below that are read several at a time on this host.
const SMALL_BYTES: u64 = 8 << 20;

/// Small files that are read before their states are passed on.
const BATCH: usize = 256;

/// Files that are asked about and dealt out together: what is known of each takes some hundred bytes.
const FILES_MAX: usize = 4096;

/// Files of which more are closed whenever they are not being read.
const OPEN_MAX: usize = 64;

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

/// Finds the nodes that can read each of some files; None if no node can.
pub type MakersOf<'a> = &'a dyn Fn(&[&FileSource]) -> anyhow::Result<Vec<Option<Makers>>>;

/// The files of a query, and what is wanted of their rows, by their places.
pub type FileAt<'a> = &'a (dyn Fn(usize) -> (&'a FileSource, Table<'a>) + Sync);

/// Gets the states of files in their order.
pub type TakeState<'a> = &'a mut dyn FnMut(usize, Answered);

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
    /// Finds the nodes that can read files; None without a job.
    pub makers_of: Option<MakersOf<'a>>,
    /// Hears of nodes that were lost.
    pub note: &'a dyn Fn(&Made),
    /// The ends that have read so far.
    pub makings: Makings,
}

impl Collector<'_> {
    /// The states of files, made by whoever is chosen; `take` gets them in their order.
    ///
    /// # Errors
    /// A file cannot be read, changes, or nobody can read it who was asked for.
    pub fn states(&mut self, count: usize, file: FileAt<'_>, take: TakeState<'_>) -> anyhow::Result<()> {
        for first in (0..count).step_by(FILES_MAX) {
            self.some(first..count.min(first + FILES_MAX), file, take)?;
        }
        Ok(())
    }

    /// Those of some of the files.
    fn some(&mut self, files: Range<usize>, file: FileAt<'_>, take: TakeState<'_>) -> anyhow::Result<()> {
        let far = self.far(files.clone(), file)?;
        if far.is_empty() {
            self.choose(Choice::Host);
            let mut made = HereProgress { next: files.start, kept_bytes: 0 };
            return here(files.end, file, self.options, &mut made, take);
        }
        let bytes: u64 = far.iter().map(|far| far.source.table_bytes()).sum();
        let weighs = self.explains || (self.asked == Place::Auto && bytes >= WEIGHED_BYTES_MIN);
        let weighed = weighs.then(|| Weighed::new(&far, self.options)).transpose()?;
        let choice = match (self.asked, &weighed) {
            (Place::Data, _) => Choice::Data,
            (Place::Split, _) => Choice::Split,
            (Place::Auto, Some(weighed)) => weighed.prediction.choice(),
            (Place::Host | Place::Auto, _) => Choice::Host,
        };
        let began = Instant::now();
        let corrects = weighed.as_ref().filter(|_| self.asked == Place::Auto);
        let choice = match choice {
            Choice::Host => self.here_first(files, &far, corrects, file, take)?,
            _ => {
                let host_part = match (choice, corrects) {
                    (Choice::Split, _) => HostPart::Half,
                    (_, Some(weighed)) => HostPart::Help(Pace::new(bytes, weighed.prediction.host)),
                    (_, None) => HostPart::Rest,
                };
                self.dealt(files, &far, host_part, file, take, corrects)?;
                choice
            }
        };
        let took_s = began.elapsed().as_secs_f64();
        if let Some(weighed) = weighed {
            self.note(weighed.prediction, took_s);
            if choice == Choice::Host {
                weighed.saw_host(&far, took_s / weighed.prediction.host);
            }
        }
        self.choose(choice);
        Ok(())
    }

    /// The files that nodes may be asked about, and who can read them; none if this host is to read all.
    fn far<'f>(&self, files: Range<usize>, file: FileAt<'f>) -> anyhow::Result<Vec<Far<'f>>> {
        let all_bytes: u64 = files.clone().map(|index| file(index).0.table_bytes()).sum();
        let asked: Vec<usize> = files.filter(|index| !self.is_small(file(*index).0, all_bytes)).collect();
        self.ensure_by_place(asked.iter().map(|index| file(*index).0))?;
        let asked: Vec<usize> = asked.into_iter().filter(|index| is_by_place(file(*index).0)).collect();
        let sources: Vec<&FileSource> = asked.iter().map(|index| file(*index).0).collect();
        let makers = self.makers(&sources)?;
        if makers.iter().all(Option::is_none) {
            return Ok(vec![]);
        }
        let far = |(index, makers)| {
            let (source, table) = file(index);
            Far { index, source, table, makers }
        };
        Ok(asked.into_iter().zip(makers).map(far).collect())
    }

    /// Refuses files that nodes are to read and cannot: their bytes come in order, or they are several files.
    fn ensure_by_place<'f>(&self, mut sources: impl Iterator<Item = &'f FileSource>) -> anyhow::Result<()> {
        let refused = sources.find(|source| !is_by_place(source));
        match (refused, self.asked) {
            (Some(source), Place::Data | Place::Split) if source.is_store() => {
                let path = source.path().display();
                bail!("{path} is a directory of Zarr arrays, which this host reads alone; --where host reads it here")
            }
            (Some(source), Place::Data | Place::Split) => {
                let why = match source {
                    source if source.is_pipe() => "is a pipe",
                    source if source.is_converted() => "is Parquet",
                    _ => "is compressed",
                };
                let path = source.path().display();
                bail!(
                    "{path} {why}: it is read from its beginning on, so nodes cannot have parts of it; --where host reads it here"
                )
            }
            _ => Ok(()),
        }
    }

    /// Whether this host reads a file without a question to anybody: it is small, or one of few bytes, and no other end was asked for.
    fn is_small(&self, source: &FileSource, all_bytes: u64) -> bool {
        let is_free = self.asked == Place::Auto && !self.explains;
        is_free && (source.table_bytes() < ASKED_BYTES_MIN || all_bytes < WEIGHED_BYTES_MIN)
    }

    /// Those who may be asked about files; None where this host is to read one.
    fn makers(&self, sources: &[&FileSource]) -> anyhow::Result<Vec<Option<Makers>>> {
        let nobody = || sources.iter().map(|_| None).collect();
        let Some(makers_of) = self.makers_of.filter(|_| !sources.is_empty()) else { return Ok(nobody()) };
        match (makers_of(sources), self.asked) {
            (Ok(makers), Place::Auto | Place::Host) => Ok(makers),
            (Err(_), Place::Auto | Place::Host) => Ok(nobody()),
            (makers, _) => {
                let makers = makers?;
                match sources.iter().zip(&makers).find(|(_, makers)| makers.is_none()) {
                    Some((source, _)) => {
                        bail!("no node of the job holds {}; --where host reads it here", source.path().display())
                    }
                    None => Ok(makers),
                }
            }
        }
    }

    /// The states of some files, made by this host; where nodes turn out to be much faster, of the rest by both ends. The choice that
    /// was made in the end.
    fn here_first(
        &mut self,
        files: Range<usize>,
        far: &[Far<'_>],
        corrects: Option<&Weighed>,
        file: FileAt<'_>,
        take: TakeState<'_>,
    ) -> anyhow::Result<Choice> {
        let mut made = HereProgress { next: files.start, kept_bytes: 0 };
        let Some(weighed) = corrects else {
            here(files.end, file, self.options, &mut made, take)?;
            return Ok(Choice::Host);
        };
        let bytes = files.clone().map(|index| file(index).0.table_bytes()).sum();
        let pace = Pace::new(bytes, weighed.prediction.data);
        match here_unless_lost(files.end, file, self.options, &mut made, pace, take)? {
            None => Ok(Choice::Host),
            Some(would_take_s) => {
                weighed.saw_host(far, would_take_s / weighed.prediction.host);
                let left = &far[far.partition_point(|far| far.index < made.next)..];
                self.dealt(made.next..files.end, left, HostPart::Half, file, take, None)?;
                Ok(Choice::Split)
            }
        }
    }

    /// The states of some files, of which `far` are dealt out and this host reads the others.
    fn dealt(
        &mut self,
        files: Range<usize>,
        far: &[Far<'_>],
        host_part: HostPart,
        file: FileAt<'_>,
        take: TakeState<'_>,
        corrects: Option<&Weighed>,
    ) -> anyhow::Result<()> {
        let (pass, is_reread, began) = (self.options, self.rereads, Instant::now());
        let walk = |next: &mut dyn FnMut() -> anyhow::Result<Finished>| {
            let mut progress = HereProgress { next: files.start, kept_bytes: 0 };
            for far in far {
                here(far.index, file, pass, &mut progress, take)?;
                let finished = next()?;
                take(far.index, answered(far, finished, host_part, is_reread));
                progress.next = far.index + 1;
            }
            here(files.end, file, pass, &mut progress, take)
        };
        let made = deal(far, DealOptions { pass, host_part, is_reread }, walk)?;
        (self.note)(&made);
        self.makings.is_in_logs |= far.iter().any(is_in_logs);
        if far.len() < files.len() || far.iter().any(|far| far.makers.is_none()) {
            self.choose(Choice::Host);
        }
        if let (HostPart::Half, Some(weighed), Some(host)) = (host_part, corrects, made.bytes.get(&None)) {
            let bytes: u64 = far.iter().map(|far| far.source.table_bytes()).sum();
            let alone_s = began.elapsed().as_secs_f64() * bytes as f64 / (*host).max(1) as f64;
            weighed.saw_host(far, alone_s / weighed.prediction.host);
        }
        for (node, bytes) in made.bytes {
            *self.makings.bytes.entry(node).or_default() += bytes;
        }
        Ok(())
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

/// A file's state, and for the second pass, if nodes are to make that too, how its blocks begin and what this host does.
fn answered(far: &Far<'_>, finished: Finished, host_part: HostPart, is_reread: bool) -> Answered {
    let Finished { state, quoted, host_made, .. } = finished;
    // The second pass has no prediction of its own: a host that had to help makes its share of it from the beginning.
    let host_part = match host_part {
        HostPart::Help(_) if host_made => HostPart::Half,
        HostPart::Help(_) | HostPart::Rest => HostPart::Rest,
        HostPart::Half => HostPart::Half,
    };
    let makers = far.makers.clone().filter(|_| is_reread);
    Answered { state, reread: makers.map(|makers| Reread { makers, quoted, host_part }) }
}

/// Whether nodes may read parts of a file.
fn is_by_place(source: &FileSource) -> bool {
    !source.is_in_order() && !source.is_store()
}

/// How far this host is, file by file.
struct HereProgress {
    /// The file whose state comes next.
    next: usize,
    /// Bytes of those whose states were passed on.
    kept_bytes: u64,
}

/// The states of the files up to `end`, made by this host; several small ones are read at once.
fn here(
    end: usize,
    file: FileAt<'_>,
    options: PassOptions<'_>,
    progress: &mut HereProgress,
    take: TakeState<'_>,
) -> anyhow::Result<()> {
    while progress.next < end {
        let first = progress.next;
        let (count, at_once, threads) = run_of(first..end, file, options.threads);
        let states = match count {
            0 | 1 => {
                let (source, table) = file(first);
                let state = collect(source, table, options);
                if end > OPEN_MAX {
                    source.release();
                }
                vec![state?]
            }
            count => each_at_once(at_once, count, |number| {
                let (source, table) = file(first + number);
                let state = collect(source, table, PassOptions { threads, ..options });
                source.release();
                state
            })?,
        };
        for state in states {
            progress.kept_bytes += file(progress.next).0.table_bytes();
            take(progress.next, Answered { state, reread: None });
            progress.next += 1;
        }
    }
    Ok(())
}

/// How many of some files are read next, how many of them at once, and by how many threads each. Small ones wait for the file system.
/// Compressed ones, which one thread decompresses, keep a processor each.
fn run_of(files: Range<usize>, file: FileAt<'_>, threads: usize) -> (usize, usize, usize) {
    let has_no_size = |source: &FileSource| source.is_pipe() || source.is_converted();
    let is_small = |index: &usize| file(*index).0.table_bytes() < SMALL_BYTES && !has_no_size(file(*index).0);
    let small = files.clone().take(BATCH).take_while(is_small).count();
    if small > 1 {
        return (small, AT_ONCE, 1);
    }
    let is_packed = |source: &FileSource| source.packing().is_some() || source.is_converted();
    let packed = files.take(BATCH).take_while(|index| is_packed(file(*index).0)).count();
    let at_once = packed.clamp(1, threads.max(1));
    (packed, at_once, (threads / at_once).max(1))
}

/// The same, unless the nodes would be much faster: then how long all of it would take. States that were not passed on are given up.
fn here_unless_lost(
    end: usize,
    file: FileAt<'_>,
    options: PassOptions<'_>,
    progress: &mut HereProgress,
    pace: Pace,
    take: TakeState<'_>,
) -> anyhow::Result<Option<f64>> {
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
        let all = here(end, file, PassOptions { is_given_up: &is_lost, ..options }, progress, take);
        drop(over);
        match all {
            Err(_) if is_lost.load(Ordering::Relaxed) => {
                let would_take_s = pace.seconds_for_all(began.elapsed().as_secs_f64(), made(), under_way);
                options.done_bytes.fetch_sub(made() - progress.kept_bytes.min(made()), Ordering::Relaxed);
                Ok(Some(would_take_s))
            }
            all => all.map(|()| None),
        }
    })
}
