//! Columns that this node, a device, writes beside its own files: drafts that get blocks in their order, from one request to the next.
//!
//! A draft has its place when it is whole. It goes when something fails, when nobody asks for its next blocks, and with the daemon.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_offload::files::{Contents, NormalisedColumn, PassOptions, Run, column_mode, each_values, lines};
use forebay_query::limits::BLOCK_BYTES;
use forebay_store::{Draft, LandingPlace};
use forebay_types::{Errno, Generation, ViewPath};
use forebay_wire::QueryDraft;

/// Drafts at once: one a query.
const DRAFTS_MAX: usize = 16;

/// How long a draft waits for its next blocks. A query that has not been given up asks at once.
pub const IDLE_MAX: Duration = Duration::from_secs(30);

/// Tells drafts of queries from those of the burst tier, whose numbers are smaller.
const NUMBERS_FROM: u128 = 1 << 127;

/// Those of a node.
#[derive(Default)]
pub struct Drafts(Mutex<BTreeMap<u64, OpenDraft>>);

/// Where a draft is to lie.
pub struct DraftPlace<'a> {
    /// The device's directory.
    pub directory: &'a Path,
    /// Below it.
    pub output: ViewPath,
    /// The mode of the file that the column is of.
    pub mode: u32,
}

struct OpenDraft {
    draft: Draft,
    /// Below the device's directory.
    output: ViewPath,
    generation: Generation,
    /// The block that comes next.
    next: u64,
    rows: u64,
}

/// No other daemon removes it. Its number is random, so that its name is never another draft's.
impl Drop for OpenDraft {
    fn drop(&mut self) {
        if let Err(errno) = self.draft.remove() {
            tracing::warn!(output = %self.output, %errno, "a draft stays beside what it was to be");
        }
    }
}

/// The name under which a device writes what is to be `output`.
pub fn draft_path(output: &Path, number: u64) -> Option<PathBuf> {
    let name = Draft::path(&ViewPath::root(), NUMBERS_FROM + u128::from(number)).ok()?;
    Some(output.with_file_name(std::str::from_utf8(name.as_bytes()).ok()?))
}

impl Drafts {
    /// Appends some blocks of a column; the rows that the draft has now. The first blocks make it.
    pub fn append(
        &self,
        place: DraftPlace<'_>,
        asked: &QueryDraft,
        (source, generation): (&impl Contents, Generation),
        column: &NormalisedColumn<'_>,
        run: Run,
        options: PassOptions<'_>,
    ) -> anyhow::Result<u64> {
        let mut open = match run.first {
            0 => self.create(place, asked, generation)?,
            _ => self.take(asked.number).ok_or(Errno::ESTALE)?,
        };
        if (open.next, open.generation) != (run.first, generation) {
            return Err(Errno::ESTALE.into());
        }
        let mut file = open.draft.file();
        let text = |values: Vec<f64>| (values.len() as u64, lines(values.into_iter()));
        each_values(source, column, run, options, text, |(rows, text)| {
            open.rows += rows;
            file.write_all(&text).map_err(|error| Errno::of(&error).into())
        })?;
        open.next = run.end;
        let rows = open.rows;
        self.lock().insert(asked.number, open);
        Ok(rows)
    }

    fn create(&self, place: DraftPlace<'_>, asked: &QueryDraft, generation: Generation) -> Result<OpenDraft, Errno> {
        let DraftPlace { directory, output, mode } = place;
        if self.lock().len() >= DRAFTS_MAX {
            return Err(Errno::EBUSY);
        }
        let draft = LandingPlace::open(directory)?.draft(&output, NUMBERS_FROM + u128::from(asked.number))?;
        let open = OpenDraft { draft, output, generation, next: 0, rows: 0 };
        let made = open.draft.file().set_permissions(Permissions::from_mode(column_mode(mode)));
        made.and_then(|()| open.draft.file().write_all(&asked.head)).map_err(|error| Errno::of(&error))?;
        Ok(open)
    }

    /// Ends a draft, which takes its place if it `publishes`; the rows that it has.
    pub fn end(&self, directory: &Path, number: u64, publishes: bool) -> Result<u64, Errno> {
        let open = self.take(number).ok_or(Errno::ESTALE)?;
        if publishes {
            if open.next != open.generation.size_bytes.div_ceil(BLOCK_BYTES) {
                return Err(Errno::EINVAL);
            }
            open.draft.make_durable()?;
            LandingPlace::open(directory)?.publish(&[(&open.draft, &open.output, true)], || Ok(()))?;
        }
        Ok(open.rows)
    }

    /// How far a draft is.
    pub fn next(&self, number: u64) -> Option<u64> {
        self.lock().get(&number).map(|open| open.next)
    }

    /// Drops a draft that has come no further.
    pub fn drop_idle(&self, number: u64, next: u64) {
        if self.next(number) == Some(next) {
            drop(self.take(number));
        }
    }

    fn take(&self, number: u64) -> Option<OpenDraft> {
        self.lock().remove(&number)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, OpenDraft>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
