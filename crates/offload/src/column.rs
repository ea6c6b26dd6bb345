//! A column normalised near the data: by the nodes that hold the file, to a file of the device that has it, or to one of this host.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow, ensure};
use forebay_query::limits::BLOCK_BYTES;
use forebay_query::{Collected, InOrder, Kept, OnText, State};
use forebay_wire::query::QUERY_HEAD_BYTES_MAX;
use serde_json::{Value, json};

use crate::dealing::{Dealing, HostPart, Made};
use crate::files::{
    Contents, FileSource, NormalisedColumn, PassOptions, Run, Unfinished, WantedRows, block_count, column_mode,
    encoded_values, lines_of_encoded,
};
use crate::makers::{Makers, PART_TIMEOUT, rows_of};
use crate::messages::{AskedColumn, AskedDraft, Holder, Holds, bytes_of, request};
use crate::pieces::ColumnBlocks;

/// Blocks that a device writes by one request: some tenths of a second on a slow one.
const DRAFT_BLOCKS: u64 = 8;

/// How long it is tried to have a device drop a draft, which it does by itself later.
const DROP_TIMEOUT: Duration = Duration::from_secs(1);

/// Blocks that may be under way or wait for their turn, for each thread that makes them.
const WINDOW_EACH: usize = 2;

/// A file, its state, and who reads it again, if not this host.
pub struct Answered {
    /// Its own.
    pub state: State,
    /// None: this host does.
    pub reread: Option<Reread>,
}

/// The second pass over a file that nodes have made parts of.
pub struct Reread {
    /// They.
    pub makers: Makers,
    /// Of each block, whether it begins within quotes.
    pub quoted: Vec<bool>,
    /// The share of this host beside them.
    pub host_part: HostPart,
}

/// A column that was written.
pub struct Written {
    /// The device that wrote the file; None if this host did.
    pub by: Option<u32>,
    /// The makers of its values.
    pub made: Made,
}

/// Where a column goes.
#[derive(Clone, Copy)]
pub struct Destination<'a> {
    /// The file.
    pub output: &'a Path,
    /// The path by which nodes know it.
    pub place: &'a Path,
    /// The file that a device fills before it has this name, by its number.
    pub draft: &'a (dyn Fn(u64) -> Option<PathBuf> + Sync),
}

/// A column, and how many rows it has.
struct Asked<'a> {
    source: &'a FileSource,
    column: &'a NormalisedColumn<'a>,
    to: Destination<'a>,
    rows: u64,
    options: PassOptions<'a>,
}

impl Reread {
    /// Writes a column of so many rows. A device does it if the file is to lie in its directory; else the nodes make the values, and
    /// this host writes them.
    ///
    /// # Errors
    /// The file cannot be read or changes, or the other cannot be written.
    pub fn write(
        &self,
        source: &FileSource,
        column: &NormalisedColumn<'_>,
        to: Destination<'_>,
        rows: u64,
        options: PassOptions<'_>,
    ) -> anyhow::Result<Written> {
        let asked = Asked { source, column, to, rows, options };
        let mut lost = vec![];
        let all = self.makers.holders();
        for device in all.iter().filter(|holder| may_write(holder, to.place, column)) {
            let done_before = options.done_bytes.load(Ordering::Relaxed);
            match self.write_there(device, &asked) {
                Ok(()) => {
                    let bytes = [(Some(device.rank), source.bytes())].into();
                    return Ok(Written { by: Some(device.rank), made: Made { bytes, lost } });
                }
                Err(error) => {
                    source.check()?;
                    lost.push(format!("node {} on {}: {error:#}", device.rank, device.host));
                    options.done_bytes.store(done_before, Ordering::Relaxed);
                }
            }
        }
        let is_left = |holder: &&Holder| lost.is_empty() || holder.holds != Holds::Device;
        let holders: Vec<Holder> = all.iter().filter(is_left).cloned().collect();
        let mut made = self.write_here(&holders, &asked)?;
        lost.append(&mut made.lost);
        Ok(Written { by: None, made: Made { lost, ..made } })
    }

    /// Has a device write the column in its directory.
    fn write_there(&self, device: &Holder, asked: &Asked<'_>) -> anyhow::Result<()> {
        let output = asked.to.place.to_str().context("the path is not valid UTF-8")?.to_owned();
        let draft = AskedDraft { output, number: draft_number(), head: asked.column.head() };
        let written = self.fill_draft(device, asked, &draft);
        if written.is_err() {
            // Remains of it. The device may be dead, and its directory visible from here or not.
            let _ = self.end_draft(device, draft.number, false, DROP_TIMEOUT);
            let _ = (asked.to.draft)(draft.number).map(std::fs::remove_file);
        }
        written
    }

    fn fill_draft(&self, device: &Holder, asked: &Asked<'_>, draft: &AskedDraft) -> anyhow::Result<()> {
        let blocks = block_count(asked.source.bytes());
        let mut rows = 0;
        for first in (0..blocks).step_by(DRAFT_BLOCKS as usize) {
            let run = Run { first, end: blocks.min(first + DRAFT_BLOCKS), begins_quoted: self.quoted[first as usize] };
            rows = number(&self.ask(device, asked, run, Some(draft.clone()))?)?;
            let bytes = asked.source.bytes().min(run.end * BLOCK_BYTES) - first * BLOCK_BYTES;
            asked.options.done_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        asked.source.check()?;
        ensure!(rows == asked.rows, "it has written {rows} rows of {}", asked.rows);
        self.end_draft(device, draft.number, true, PART_TIMEOUT).map(drop)
    }

    /// Has the nodes make the values, and writes them.
    fn write_here(&self, holders: &[Holder], asked: &Asked<'_>) -> anyhow::Result<Made> {
        let Asked { source, column, to, rows, options } = *asked;
        let mut file = Unfinished::create(to.output, Some(column_mode(source.mode())))?;
        file.write(column.head().as_bytes())?;
        let threads = holders.iter().map(|holder| holder.threads).sum::<usize>() + options.threads;
        let lines = InOrder::new(block_count(source.bytes()), (threads * WINDOW_EACH) as u64);
        let homes = self.makers.homes.clone();
        let pieces = ColumnBlocks { lines, homes, bytes: source.bytes(), is_given_up: false };
        let dealing = Dealing::new(pieces, holders, options.done_bytes);
        let run = |block: u64| Run { first: block, end: block + 1, begins_quoted: self.quoted[block as usize] };
        let lines = |values: &[u8]| lines_of_encoded(values).context("the answer cannot be decoded");
        let ask = |holder: &Holder, block| lines(&self.ask(holder, asked, run(block), None)?);
        let here = |block| {
            let options = PassOptions { threads: 1, done_bytes: &Default::default(), ..options };
            lines(&encoded_values(source, column, run(block), options)?)
        };
        let (made, written) = thread::scope(|scope| {
            let writing = scope.spawn(|| write_in_order(&dealing, &mut file));
            let made = dealing.run(holders, self.host_part, options.threads, ask, here);
            if made.is_err() {
                give_up(&dealing);
            }
            (made, writing.join().unwrap_or_else(|_| Err(anyhow!("a thread of the query panicked"))))
        });
        // Where it cannot be written, nobody has made the rest.
        let written = written.and_then(|written| made.map(|()| written))?;
        source.check()?;
        ensure!(written == rows, "the nodes have made {written} values of {rows}; --where host reads the file here");
        file.finish()?;
        Ok(dealing.finish().1)
    }

    fn ask(&self, holder: &Holder, asked: &Asked<'_>, run: Run, draft: Option<AskedDraft>) -> anyhow::Result<Vec<u8>> {
        let NormalisedColumn { schema, columns, mean, deviation } = *asked.column;
        let asked = AskedColumn {
            rank: holder.rank,
            path: self.makers.path.clone(),
            generation: holder.generation,
            table: rows_of(
                asked.source,
                WantedRows { schema, kept: Kept::summed(columns, OnText::Bad) },
                Collected::default(),
            ),
            first: run.first,
            // A run is one request's.
            blocks: (run.end - run.first) as u32,
            begins_quoted: run.begins_quoted,
            mean_bits: mean.to_bits(),
            deviation_bits: deviation.to_bits(),
            draft,
            timeout_ms: PART_TIMEOUT.as_millis() as u64,
        };
        // One that is written to a draft is not made twice.
        let ask = if asked.draft.is_some() { forebay_control::ask_once } else { forebay_control::ask };
        decoded(&ask(&self.makers.job.socket, &request("querycolumn", &asked)?, PART_TIMEOUT)?)
    }

    fn end_draft(&self, device: &Holder, number: u64, publishes: bool, timeout: Duration) -> anyhow::Result<Vec<u8>> {
        let request = json!({
            "command": "queryenddraft",
            "rank": device.rank,
            "number": number,
            "publishes": publishes,
            "timeout_ms": timeout.as_millis() as u64,
        });
        decoded(&forebay_control::ask_once(&self.makers.job.socket, &request, timeout)?)
    }
}

/// The column is not wanted any more.
fn give_up(dealing: &Dealing<'_, ColumnBlocks>) {
    dealing.wait(|pieces| {
        pieces.is_given_up = true;
        Some(())
    });
}

/// Writes lines in the order of the blocks; how many there are.
fn write_in_order(dealing: &Dealing<'_, ColumnBlocks>, file: &mut Unfinished) -> anyhow::Result<u64> {
    let mut written = 0;
    loop {
        let next = dealing.wait(|pieces| match pieces.lines.deliver() {
            Some(lines) => Some(Some(lines)),
            None => (pieces.is_given_up || pieces.lines.is_delivered()).then_some(None),
        });
        let Some(lines) = next else { return Ok(written) };
        written += lines.iter().filter(|byte| **byte == b'\n').count() as u64;
        if let Err(error) = file.write(&lines) {
            give_up(dealing);
            return Err(error);
        }
    }
}

/// Whether a device may write what is to lie at `place`.
fn may_write(holder: &Holder, place: &Path, column: &NormalisedColumn<'_>) -> bool {
    let is_own = |data: &PathBuf| place.starts_with(data) && place != data;
    holder.holds == Holds::Device
        && holder.data.as_ref().is_some_and(is_own)
        && column.head().len() <= QUERY_HEAD_BYTES_MAX
}

fn decoded(answer: &Value) -> anyhow::Result<Vec<u8>> {
    answer.as_str().and_then(bytes_of).context("the answer cannot be decoded")
}

fn number(bytes: &[u8]) -> anyhow::Result<u64> {
    Ok(u64::from_le_bytes(bytes.try_into().context("the answer cannot be decoded")?))
}

/// Tells this query's draft from others: by process and time.
fn draft_number() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (u64::from(std::process::id()) << 40) ^ since.as_nanos() as u64
}
