//! Who answers a query: this host, the nodes that hold the bytes, or both; by what the model of the core predicts from what
//! is measured here and there.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Context;
use forebay_daemon::query::{
    Contents, FileSource, PassOptions, Table, block_count, collect, cores_for, seconds_per_byte,
};
use forebay_query::{Choice, End, Prediction, State};

use crate::cli::WherePlace;
use crate::commands::query_column::{Answered, Reread};
use crate::commands::query_near::{Makers, Near};
use crate::jobs;
use crate::settings::Effective;

/// What is read of a file to see how fast its bytes come: two places, for a link of 100 Mbit/s a sixth of a second.
const SAMPLE_BYTES: u64 = 1 << 20;

/// Of a file that is no larger, too much would have been read when it is known who should.
const WEIGHED_BYTES_MIN: u64 = 8 << 20;

/// Until a node has begun: one way there and one back, over two daemons.
const BEGINS_S: f64 = 0.002;

/// Who read.
pub struct Makings {
    /// By whose choice; None if there were no files.
    pub place: Option<Choice>,
    /// Bytes that each node read, where some did; None is this host.
    pub bytes: BTreeMap<Option<u32>, u64>,
    /// What each choice was predicted to take, over all files that were weighed.
    pub predicted: Option<Prediction>,
    /// What those took.
    pub took_s: f64,
    /// Whether nodes read the logs of the burst tier.
    pub is_in_logs: bool,
}

/// Makes the states of files.
pub struct Collector<'a> {
    pub options: PassOptions<'a>,
    pub asked: WherePlace,
    /// Whether it is to be predicted what is not chosen.
    pub explains: bool,
    /// Whether files are to be read again, for a column.
    pub rereads: bool,
    pub near: Option<Near>,
    pub makings: Makings,
}

impl<'a> Collector<'a> {
    /// For queries that are asked in this way, in the job that there is.
    ///
    /// # Errors
    /// Nodes were asked for, and there is no job.
    pub fn new(
        options: PassOptions<'a>,
        asked: WherePlace,
        explains: bool,
        rereads: bool,
        effective: &Effective,
    ) -> anyhow::Result<Self> {
        let near = match (asked, jobs::find(effective)) {
            (WherePlace::Host, _) if !explains => None,
            (_, Ok(directory)) => Some(Near::new(directory, options.collected)),
            (WherePlace::Host, Err(_)) => None,
            (WherePlace::Auto, Err(_)) if effective.job()?.is_none() => None,
            (_, Err(error)) => return Err(error.context("a query is answered near the data by the nodes of a job")),
        };
        let makings = Makings { place: None, bytes: BTreeMap::new(), predicted: None, took_s: 0.0, is_in_logs: false };
        Ok(Self { options, asked, explains, rereads, near, makings })
    }

    /// The state of a file, made by whoever is chosen.
    ///
    /// # Errors
    /// It cannot be read, changes, or nobody holds it who was asked for.
    pub fn state(&mut self, source: &FileSource, table: Table<'_>) -> anyhow::Result<Answered> {
        let Some(makers) = self.makers(source)? else {
            self.choose(Choice::Host);
            return Ok(Answered { state: collect(source, table, self.options)?, reread: None });
        };
        let weighs = self.explains || (self.asked == WherePlace::Auto && source.bytes() >= WEIGHED_BYTES_MIN);
        let host_end = weighs.then(|| host_end(source, self.options, makers.host_factor)).transpose()?;
        let prediction = host_end.map(|host| Prediction::new(source.bytes(), host, &makers.ends(BEGINS_S)));
        let choice = match (self.asked, prediction) {
            (WherePlace::Data, _) => Choice::Data,
            (WherePlace::Split, _) => Choice::Split,
            (WherePlace::Auto, Some(prediction)) => prediction.choice(),
            (WherePlace::Host | WherePlace::Auto, _) => Choice::Host,
        };
        let began = Instant::now();
        let host_threads = if choice == Choice::Split { self.options.threads } else { 0 };
        let (state, quoted) = match choice {
            Choice::Host => (collect(source, table, self.options)?, vec![]),
            Choice::Data | Choice::Split => self.far(source, table, &makers, host_threads)?,
        };
        let took_s = began.elapsed().as_secs_f64();
        if let (Some(prediction), Some(host)) = (prediction, host_end) {
            self.note(prediction, took_s);
            // Reading that is slower than parsing says nothing about parsing.
            if choice == Choice::Host && host.parses < host.reads {
                makers.saw_host(took_s / prediction.host);
            }
        }
        self.choose(choice);
        let reread = (choice != Choice::Host).then_some(Reread { makers, quoted, host_threads });
        Ok(Answered { state, reread })
    }

    /// Those who may be asked about a file; None if this host is to read it.
    fn makers(&self, source: &FileSource) -> anyhow::Result<Option<Makers>> {
        let Some(near) = &self.near else { return Ok(None) };
        match (near.makers(source), self.asked) {
            (Ok(makers), WherePlace::Auto | WherePlace::Host) => Ok(makers),
            (Err(_), WherePlace::Auto | WherePlace::Host) => Ok(None),
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
        host_threads: usize,
    ) -> anyhow::Result<(State, Vec<bool>)> {
        let (state, quoted, made) = makers.collect(source, table, self.options, host_threads, self.rereads)?;
        made.note_lost();
        self.makings.is_in_logs |= makers.homes.are_known();
        for (node, bytes) in made.bytes {
            *self.makings.bytes.entry(node).or_default() += bytes;
        }
        Ok((state, quoted))
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

/// This host, as it is now.
fn host_end(source: &FileSource, options: PassOptions<'_>, factor: f64) -> anyhow::Result<End> {
    let PassOptions { collected, threads, .. } = options;
    let threads = threads.min(block_count(source.bytes()).max(1) as usize);
    let parses = cores_for(threads) / seconds_per_byte(collected) / factor;
    Ok(End { parses, reads: bytes_read_per_s(source)?, begins: 0.0 })
}

/// Bytes of a file that come in a second, by samples from its middle.
fn bytes_read_per_s(source: &FileSource) -> anyhow::Result<f64> {
    let len = SAMPLE_BYTES.min(source.bytes() / 2);
    if len == 0 {
        return Ok(f64::INFINITY);
    }
    let mut sample = vec![0; len as usize];
    let began = Instant::now();
    source.read(&mut sample, source.bytes() / 2 - len / 2)?;
    source.read(&mut sample, source.bytes() - len)?;
    Ok(2.0 * len as f64 / began.elapsed().as_secs_f64().max(1e-9))
}
