//! The record of the last run that wrote a file, for `forebay mpiio --explain FILE`.
//!
//! Rank 0 writes it to the user's own directory, not beside the file: a parallel file system with one more small file for each
//! checkpoint would be worse off. It is there from the first exchange on, so a run that died is seen by a record that says
//! `writing`.

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Records that are kept, of the files that were written last: a few MB.
const RECORDS_MAX: usize = 1000;

/// How a run that writes a file stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It has not closed the file; if it runs no more, some bytes may be missing.
    #[default]
    Writing,
    /// It has closed the file, and everything is in it.
    Complete,
    /// Some bytes are missing.
    Incomplete,
}

/// An aggregator of the last exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aggregator {
    /// Its rank.
    pub rank: usize,
    /// Its host.
    pub host: String,
}

/// An error of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The rank that could not write.
    pub rank: usize,
    /// Why.
    pub error: String,
    /// In which round of the exchange, from 1.
    pub round: u64,
    /// First byte that may be missing.
    pub offset: u64,
    /// Bytes from there on of which some are missing.
    pub length: u64,
}

/// A run's work on one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The file.
    pub file: PathBuf,
    /// How it stands.
    pub state: State,
    /// Ranks that had it open.
    pub ranks: usize,
    /// Hosts that they ran on.
    pub hosts: usize,
    /// Where the network between them is known from.
    #[serde(default)]
    pub network: String,
    /// How aggregators were chosen.
    pub strategy: String,
    /// The aggregators of the last exchange.
    pub aggregators: Vec<Aggregator>,
    /// Rounds of the last exchange.
    pub rounds: usize,
    /// Bytes of an aggregator's buffer, and that a rank held.
    pub buffer_bytes: u64,
    /// Bytes of a stripe.
    pub stripe_bytes: u64,
    /// Collective write calls whose bytes were held.
    pub held_calls: u64,
    /// Exchanges that brought them into the file.
    pub exchanges: u64,
    /// Times that each rank wrote what it held by itself, because that made as few requests.
    pub own_writes: u64,
    /// Collective calls of which each rank wrote or read its own bytes, because that was as fast.
    #[serde(default)]
    pub alone_calls: u64,
    /// Collective read calls that went through aggregators.
    pub reads: u64,
    /// Collective calls that passed through to MPI, by why.
    pub passed_through: std::collections::BTreeMap<String, u64>,
    /// Write requests of all ranks, as far as this library made them.
    pub write_requests: u64,
    /// The same, cut at stripes.
    pub striped_write_requests: u64,
    /// Bytes written by them.
    pub bytes_written: u64,
    /// Read requests of all ranks, as far as this library made them.
    pub read_requests: u64,
    /// Bytes read by them.
    pub bytes_read: u64,
    /// The missing bytes, and the errors.
    pub failures: Vec<Failure>,
    /// Exchanges for which there was no plan, and why there was none for the first: each rank wrote what it held.
    #[serde(default)]
    pub unplanned: u64,
    /// As above.
    #[serde(default)]
    pub unplanned_why: String,
}

/// Where records lie: `FOREBAY_MPIIO_RECORDS`, else below `XDG_STATE_HOME`, else below `HOME`.
#[must_use]
pub fn directory(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let given = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    given("FOREBAY_MPIIO_RECORDS")
        .or_else(|| given("XDG_STATE_HOME").map(|state| state.join("forebay/mpiio")))
        .or_else(|| given("HOME").map(|home| home.join(".local/state/forebay/mpiio")))
}

impl Record {
    /// The record of a file's last run.
    ///
    /// # Errors
    /// That of reading it; `InvalidData` if it is none.
    pub fn read(directory: &Path, file: &Path) -> io::Result<Self> {
        let text = fs::read(directory.join(name(&key(file))))?;
        serde_json::from_slice(&text).map_err(io::Error::from)
    }

    /// Writes it, in place of the one before.
    ///
    /// # Errors
    /// That of the file system.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        let path = directory.join(name(&key(&self.file)));
        let is_new = !path.exists();
        let new = path.with_extension(format!("{}.new", std::process::id()));
        let _ = fs::remove_file(&new);
        // Not through a link that somebody has put there.
        OpenOptions::new().write(true).create_new(true).open(&new)?.write_all(&serde_json::to_vec_pretty(self)?)?;
        fs::rename(&new, &path)?;
        if is_new { forget_oldest(directory) } else { Ok(()) }
    }
}

/// Keeps a directory of records within its limit. Other ranks may do the same: what is gone is gone.
fn forget_oldest(directory: &Path) -> io::Result<()> {
    let entries = fs::read_dir(directory)?.flatten();
    // The directory may be a user's, with other things in it.
    let mut records: Vec<PathBuf> =
        entries.filter(|entry| is_record(&entry.file_name())).map(|entry| entry.path()).collect();
    if records.len() <= RECORDS_MAX {
        return Ok(());
    }
    // Not with each one that is new, since it takes a look at every record.
    records.sort_by_cached_key(|path| fs::metadata(path).and_then(|record| record.modified()).ok());
    records[..records.len() - RECORDS_MAX / 4 * 3].iter().for_each(|oldest| drop(fs::remove_file(oldest)));
    Ok(())
}

/// Whether a name is one that `name` gives.
fn is_record(name: &OsStr) -> bool {
    let hash = name.as_encoded_bytes().strip_suffix(b".json").unwrap_or_default();
    hash.len() == 16 && hash.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// One path for a file however it is spelt: without links, if it is there.
fn key(file: &Path) -> PathBuf {
    let in_directory = || Some(fs::canonicalize(file.parent()?).ok()?.join(file.file_name()?));
    fs::canonicalize(file).ok().or_else(in_directory).unwrap_or_else(|| file.to_owned())
}

/// The name of a file's record: FNV-1a of its path, 64 bits, so that any path has a short one.
fn name(file: &Path) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}.json", file.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_by_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let record = Record { file: "/scratch/checkpoint".into(), rounds: 3, ..Record::default() };
        record.write(directory.path()).unwrap();
        assert_eq!(Record::read(directory.path(), &record.file).unwrap(), record);
        assert!(Record::read(directory.path(), Path::new("/scratch/other")).is_err());
    }

    #[test]
    fn a_record_is_found_however_its_file_is_spelt() {
        let directory = tempfile::tempdir().unwrap();
        let (records, file) = (directory.path().join("records"), directory.path().join("checkpoint"));
        let link = directory.path().join("latest");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        fs::write(&file, b"").unwrap();
        let record = Record { file: link, ..Record::default() };
        record.write(&records).unwrap();
        for spelling in [file.clone(), directory.path().join("records/../checkpoint")] {
            assert_eq!(Record::read(&records, &spelling).unwrap(), record, "{}", spelling.display());
        }
    }

    #[test]
    fn files_that_are_no_records_stay() {
        let directory = tempfile::tempdir().unwrap();
        let own = |number: usize| directory.path().join(format!("checkpoint-{number:06}.json"));
        (0..RECORDS_MAX + 10).for_each(|number| fs::write(own(number), "x").unwrap());
        let record = Record { file: "/scratch/file".into(), ..Record::default() };
        record.write(directory.path()).unwrap();
        assert!((0..RECORDS_MAX + 10).all(|number| own(number).exists()));
        assert!(Record::read(directory.path(), &record.file).is_ok());
    }

    #[test]
    fn the_oldest_records_make_room() {
        let directory = tempfile::tempdir().unwrap();
        let write = |number: usize| {
            let record = Record { file: format!("/scratch/{number}").into(), ..Record::default() };
            record.write(directory.path()).unwrap();
            directory.path().join(name(&record.file))
        };
        let first = write(0);
        fs::File::open(&first).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        (1..RECORDS_MAX).for_each(|number| drop(write(number)));
        let last = write(RECORDS_MAX);
        assert!(!first.exists() && last.exists());
        assert!(fs::read_dir(directory.path()).unwrap().count() <= RECORDS_MAX);
    }
}
