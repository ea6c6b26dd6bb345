//! Cuts of CSV whose quoted fields may have newlines: a part begins where a record does, which depends on all bytes before.
//!
//! The planner cuts files anywhere, as if no field had newlines. Before a plan is carried out, its cuts are moved to the next record, by a
//! look at the bytes before them for nothing but quotes. That is faster than reading columns by a multiple, and each thread has its part then.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use bytes::Bytes;
use datafusion::common::config::{ConfigOptions, CsvOptions};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::datasource::listing::{FileRange, PartitionedFile};
use datafusion::datasource::physical_plan::{CsvSource, FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::object_store::path::Path;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use memchr::memchr;

use crate::opening;
use crate::quotes::{Quotes, Quoting};
use crate::residency::{replaced, scan_of};

/// Bytes that are read at once.
const READ_BYTES: u64 = 1 << 20;

/// Bytes of an open file.
pub type Read = Box<dyn Fn(Range<u64>) -> io::Result<Bytes> + Send>;

/// The records that are known to begin somewhere, by the file: of the places that were asked about, the first record from there on.
#[derive(Debug, Default)]
pub struct Records(Mutex<HashMap<Path, BTreeMap<u64, u64>>>);

/// A scan of CSV whose reader expects newlines in quoted fields.
fn with_newlines(scan: &FileScanConfig) -> Option<FileScanConfig> {
    let csv = scan.file_source().downcast_ref::<CsvSource>()?;
    let options = CsvOptions {
        has_header: Some(csv.has_header()),
        delimiter: csv.delimiter(),
        quote: csv.quote(),
        escape: csv.escape(),
        comment: csv.comment(),
        terminator: csv.terminator(),
        truncated_rows: Some(csv.truncate_rows()),
        newlines_in_values: Some(true),
        ..CsvOptions::default()
    };
    let source = csv.clone().with_csv_options(options);
    Some(FileScanConfigBuilder::from(scan.clone()).with_source(Arc::new(source)).build())
}

/// Says so in each scan of a plan, once it is cut.
#[derive(Debug)]
pub struct Newlines;

impl PhysicalOptimizerRule for Newlines {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        replaced(plan, with_newlines)
    }

    fn name(&self) -> &'static str {
        "newlines_in_quoted_fields"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether the files of a scan may be read in parts.
pub fn can_be_cut(scan: &FileScanConfig) -> bool {
    let is_known = scan.file_source.supports_repartitioning() || quoting_of(scan).is_some();
    is_known && !scan.file_compression_type.is_compressed()
}

/// Reads a file of this host.
pub fn of_host(name: &Path) -> io::Result<Read> {
    let file = opening::open(&std::path::Path::new("/").join(name.as_ref()))?;
    Ok(Box::new(move |range| {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        file.read_exact_at(&mut bytes, range.start)?;
        Ok(bytes.into())
    }))
}

impl Records {
    /// A plan whose cuts are at records, where newlines may be in quoted fields.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn moved(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        open: impl Fn(&Path) -> io::Result<Read> + Sync,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut cuts: BTreeMap<Path, Cuts> = BTreeMap::new();
        plan.apply(|plan| {
            if let Some(scan) = scan_of(plan.as_ref())
                && let Some(quoting) = quoting_of(scan).filter(|quoting| quoting.has_newlines)
            {
                for file in scan.file_groups.iter().flat_map(|group| group.files()) {
                    let size = file.object_meta.size;
                    let places = file.range.iter().flat_map(|range| [range.start as u64, range.end as u64]);
                    let new = || Cuts { quoting, size, places: BTreeSet::new() };
                    let cuts = cuts.entry(file.object_meta.location.clone()).or_insert_with(new);
                    cuts.places.extend(places.filter(|place| (1..size).contains(place)));
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let files: Vec<(Path, Cuts)> = cuts.into_iter().filter(|(_, cuts)| !cuts.places.is_empty()).collect();
        if files.is_empty() {
            return Ok(plan);
        }
        self.find(&files, open)?;
        self.ensure_found(&files)?;
        replaced(plan, |scan| quoting_of(scan).filter(|quoting| quoting.has_newlines).map(|_| self.scan(scan)))
    }

    /// Finds the records at the cuts of files, several of which are read at once.
    fn find(&self, files: &[(Path, Cuts)], open: impl Fn(&Path) -> io::Result<Read> + Sync) -> Result<()> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let each = files.len().div_ceil(threads);
        let find = |files: &[(Path, Cuts)]| {
            files.iter().try_for_each(|(name, cuts)| {
                let failed = |error: io::Error| DataFusionError::Execution(format!("/{name}: {error}"));
                self.find_in(name, cuts, || open(name)).map_err(failed)
            })
        };
        thread::scope(|scope| {
            let finding: Vec<_> = files.chunks(each).map(|files| scope.spawn(move || find(files))).collect();
            finding.into_iter().try_for_each(|finding| match finding.join() {
                Ok(found) => found,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })
    }

    /// A cut that stayed where it was would lose rows, or make some up.
    fn ensure_found(&self, files: &[(Path, Cuts)]) -> Result<()> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, cuts) in files {
            let is_known = |place: &u64| known.get(name).is_some_and(|starts| starts.contains_key(place));
            if !cuts.places.iter().all(is_known) {
                return internal_err!("/{name}: a cut is at no record");
            }
        }
        Ok(())
    }

    fn find_in(&self, name: &Path, cuts: &Cuts, open: impl FnOnce() -> io::Result<Read>) -> io::Result<()> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (places, from) = {
            let known = lock();
            let known = known.get(name);
            let is_new = |place: &&u64| !known.is_some_and(|known| known.contains_key(place));
            let places: Vec<u64> = cuts.places.iter().filter(is_new).copied().collect();
            let Some(first) = places.first() else { return Ok(()) };
            // A record that is known to begin before is as good as the first.
            let before = known.and_then(|known| known.values().filter(|start| *start <= first).max().copied());
            (places, before.unwrap_or(0))
        };
        let found = starts(&*open()?, cuts, from, &places)?;
        lock().entry(name.clone()).or_default().extend(found);
        Ok(())
    }

    fn scan(&self, scan: &FileScanConfig) -> FileScanConfig {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let moved = |file: &PartitionedFile| {
            let Some(range) = &file.range else { return Some(file.clone()) };
            let starts = known.get(&file.object_meta.location);
            let (start, end) = (range.start as u64, range.end as u64);
            // A file's own beginning and end are no cuts.
            let of = |place: u64| starts.and_then(|starts| starts.get(&place)).copied().unwrap_or(place);
            let (start, end) = (of(start), of(end));
            let range = Some(FileRange { start: start as i64, end: end as i64 });
            // It may lie in one record as a whole.
            (start < end).then(|| PartitionedFile { range, ..file.clone() })
        };
        let groups =
            scan.file_groups.iter().map(|group| FileGroup::new(group.files().iter().filter_map(moved).collect()));
        FileScanConfigBuilder::from(scan.clone()).with_file_groups(groups.collect()).build()
    }
}

/// The cuts of a file.
struct Cuts {
    quoting: Quoting,
    size: u64,
    places: BTreeSet<u64>,
}

/// The first record from each place on, or the end of the file, by a look at its bytes from a record on.
fn starts(
    read: &dyn Fn(Range<u64>) -> io::Result<Bytes>,
    cuts: &Cuts,
    from: u64,
    places: &[u64],
) -> io::Result<Vec<(u64, u64)>> {
    let mut quotes = Quotes::from_record(cuts.quoting, from);
    let mut found = vec![];
    let (mut at, mut bytes) = (from, Bytes::new());
    for place in places {
        // A record begins behind a newline, which may be the byte before the place.
        while at < *place || !quotes.is_between_records() {
            if bytes.is_empty() {
                if at == cuts.size {
                    break;
                }
                bytes = read(at..cuts.size.min(at + READ_BYTES))?;
            }
            let before = (place - 1).saturating_sub(at).min(bytes.len() as u64) as usize;
            let line = || memchr(b'\n', &bytes[before..]).map_or(bytes.len(), |end| before + end + 1);
            let taken = bytes.split_to(if before < bytes.len() { line() } else { before });
            quotes.pass(&taken);
            at += taken.len() as u64;
        }
        found.push((*place, at));
    }
    Ok(found)
}

fn quoting_of(scan: &FileScanConfig) -> Option<Quoting> {
    scan.file_source().downcast_ref::<CsvSource>().map(Quoting::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAS: Quoting = Quoting { delimiter: b',', quote: b'"', escape: None, comment: None, has_newlines: true };

    /// The records of a text begin here, byte by byte.
    fn all_starts(text: &[u8]) -> Vec<u64> {
        let mut quotes = Quotes::from_record(COMMAS, 0);
        let mut starts = vec![0];
        for (at, byte) in text.iter().enumerate() {
            quotes.pass(&[*byte]);
            if *byte == b'\n' && quotes.is_between_records() {
                starts.push(at as u64 + 1);
            }
        }
        starts
    }

    #[test]
    fn cuts_are_moved_to_the_next_record_wherever_they_are() {
        for text in [
            "a,b\n1,\"x\ny\"\n2,z\n",
            "a\n\"\n\"\n\"\"\n\"\"\"\n\"\n5\" x\n6",
            "\n\n\"\n\n\"\n\n",
            "a,b\r\n\"1\r\n\",2\r\n3,4",
            "\"never closed\n1\n",
        ] {
            let all = all_starts(text.as_bytes());
            let size = text.len() as u64;
            let cuts = Cuts { quoting: COMMAS, size, places: (1..size).collect() };
            let next = |place: u64| all.iter().copied().find(|start| *start >= place).unwrap_or(size);
            let read = |range: Range<u64>| {
                Ok(Bytes::copy_from_slice(&text.as_bytes()[range.start as usize..range.end as usize]))
            };
            let places: Vec<u64> = cuts.places.iter().copied().collect();
            for from in all.iter().filter(|start| **start < size) {
                let places: Vec<u64> = places.iter().copied().filter(|place| place >= from).collect();
                let expected: Vec<_> = places.iter().map(|place| (*place, next(*place))).collect();
                assert_eq!(starts(&read, &cuts, *from, &places).unwrap(), expected, "{text:?} {from}");
                for place in places {
                    assert_eq!(
                        starts(&read, &cuts, *from, &[place]).unwrap(),
                        [(place, next(place))],
                        "{text:?} {from}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_second_look_begins_at_a_record_that_is_known() {
        let text = "a\n\"x\ny\"\n".repeat(1000);
        let size = text.len() as u64;
        let name = Path::from("t.csv");
        let records = Records::default();
        let look = |places: &[u64]| {
            let cuts = Cuts { quoting: COMMAS, size, places: places.iter().copied().collect() };
            let read_from = Arc::new(Mutex::new(None));
            let (from, text) = (Arc::clone(&read_from), text.clone());
            let read: Read = Box::new(move |range: Range<u64>| {
                from.lock().unwrap().get_or_insert(range.start);
                Ok(Bytes::copy_from_slice(&text.as_bytes()[range.start as usize..range.end as usize]))
            });
            records.find_in(&name, &cuts, || Ok(read)).unwrap();
            *read_from.lock().unwrap()
        };
        assert_eq!(look(&[4500]), Some(0));
        assert_eq!(look(&[4500]), None);
        assert_eq!(look(&[2000, 4500]), Some(0));
        assert_eq!(look(&[6000]), Some(4504));
    }
}
