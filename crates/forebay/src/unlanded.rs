//! Notes about stores whose files had not landed when their job ended, one for each host, in `~/.local/state/forebay/JOB/`. `down`, `status` and
//! `report` tell of them until the store has landed.
//!
//! `kept_logs` writes them. A note is never removed with old logs: it goes when its stores on its own host are gone.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use forebay_daemon::{LastStatus, holds_store};
use forebay_launch::{JobDirectory, JobRecord, state_directory};
use serde::{Deserialize, Serialize};

use crate::health::amounts::size;
use crate::jobs::variable;
use crate::kept_files::{make_directory, write_whole};
use crate::left::{self, Left};
use crate::output::{quoted_path, shown_path};

/// A note, bytes: the paths of the stores of one host.
const NOTE_BYTES_MAX: u64 = 1 << 20;

/// Stores that are named at most where they have no common directory.
const NAMED_MAX: usize = 8;

/// The stores of one host with files that have not landed.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Unlanded {
    host: String,
    stores: Vec<PathBuf>,
    /// As far as the host's nodes knew; no files where they knew the bytes in their stores alone.
    bytes: u64,
    files: u64,
    /// Whether other hosts have nodes of the job: stores land together.
    #[serde(default)]
    has_others: bool,
}

impl Unlanded {
    /// None any more.
    pub fn none() -> Self {
        Self { host: this_host(), ..Self::default() }
    }

    /// The stores of a job whose last node on this host has ended; `None` without a burst tier.
    pub fn of(directory: &JobDirectory) -> Option<Self> {
        let all = LastStatus::read_all(directory);
        let is_of_hosts = JobRecord::read(directory).ok().flatten().is_none_or(|record| record.remote_call().is_some());
        let has_others = is_of_hosts && all.iter().any(|last| last.node_count() > all.len());
        let has_burst = all.iter().any(|last| last.store.is_some());
        has_burst.then(|| Self { has_others, ..Self::of_statuses(&all) })
    }

    fn of_statuses(all: &[LastStatus]) -> Self {
        let stores: Vec<&LastStatus> = all.iter().filter(|last| may_hold_unlanded(last, all)).collect();
        let paths = stores.iter().filter_map(|last| last.store.as_ref()).map(|store| store.path.clone()).collect();
        let (bytes, files) = match left::amount(&lefts(all)) {
            (0, 0) => (stores.iter().filter_map(|last| last.store.as_ref()).map(|store| store.live_bytes).sum(), 0),
            amount => amount,
        };
        Self { stores: paths, bytes, files, ..Self::none() }
    }

    /// The host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether no store holds anything.
    pub fn is_none(&self) -> bool {
        self.stores.is_empty()
    }

    /// The command that lands them on their host.
    pub fn command(&self) -> String {
        let parent = self.stores.first().and_then(|store| store.parent());
        let is_one_job = self.stores.len() > 1 && self.stores.iter().all(|store| store.parent() == parent);
        let together = parent.filter(|_| is_one_job).map(Path::to_owned);
        let places = together.map_or_else(|| self.stores.clone(), |parent| vec![parent]);
        let words: Vec<String> = places.iter().map(|store| format!(" --burst-store {}", quoted_path(store))).collect();
        format!("forebay salvage{}{}", if self.has_others { " --meet 2min" } else { "" }, words.concat())
    }

    /// Of a job, for people.
    pub fn line(&self, job: &str) -> String {
        let Self { host, stores, bytes, files, has_others } = self;
        let mut named: Vec<String> = stores.iter().take(NAMED_MAX).map(|store| shown_path(store)).collect();
        named.extend((stores.len() > NAMED_MAX).then(|| format!("{} more", stores.len() - NAMED_MAX)));
        let amount = match files {
            0 => format!("files of job {job} ({} in stores)", size(*bytes)),
            1 => format!("1 file of job {job} ({})", size(*bytes)),
            files => format!("{files} files of job {job} ({})", size(*bytes)),
        };
        let (has, them) = if *files == 1 { ("has", "it") } else { ("have", "them") };
        let there = if *has_others { "on all hosts of the job at about the same time" } else { "there" };
        let (stores, command) = (named.join(", "), self.command());
        format!("{amount} {has} not landed: on host {host} in {stores}. Land {them} {there}: {command}")
    }

    /// Brings the note in a job's kept directory up to date. The process of `kept_logs` does this.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep_in(mut self, directory: &Path) -> anyhow::Result<()> {
        let name = note_name(&self.host);
        let path = directory.join(&name);
        // Of an earlier job of this name, with another store.
        if let Some(earlier) = read(&path).filter(|earlier| earlier.host == self.host) {
            let others = earlier.stores.into_iter().filter(|store| !self.stores.contains(store) && holds_store(store));
            let others: Vec<PathBuf> = others.collect();
            if !others.is_empty() {
                (self.bytes, self.files) = (self.bytes + earlier.bytes, self.files + earlier.files);
            }
            self.stores.extend(others);
        }
        if self.is_none() {
            let _ = fs::remove_file(path);
            let _ = fs::remove_dir(directory);
            return Ok(());
        }
        make_directory(directory)?;
        Ok(write_whole(directory, &name, &serde_json::to_vec(&self)?)?)
    }
}

/// The files that have not landed, as the nodes of a host told at their end. Of several that led the tree the last one knows.
pub fn lefts(all: &[LastStatus]) -> Vec<Left> {
    let leader = last_leader(all).map(LastStatus::rank);
    let ends = all.iter().filter_map(|last| last.end.as_ref().map(|end| (last.rank(), end)));
    let ends = ends.filter(|(rank, end)| !end.is_leader || Some(*rank) == leader);
    ends.filter_map(|(_, end)| serde_json::from_value(end.left.clone()?).ok()).collect()
}

fn last_leader(all: &[LastStatus]) -> Option<&LastStatus> {
    let led = all.iter().filter(|last| last.end.as_ref().is_some_and(|end| end.is_leader));
    led.max_by_key(|last| last.at_unix_ms)
}

/// Whether a node's store may hold files that have not landed. The leader knows of the files of all nodes.
pub fn may_hold_unlanded(last: &LastStatus, all: &[LastStatus]) -> bool {
    let Some(store) = &last.store else { return false };
    let is_needed = match (&last.end, last_leader(all).and_then(|leader| leader.end.as_ref())) {
        (None, _) => true,
        (Some(end), Some(leader)) => end.left.is_some() || leader.left.is_some(),
        (Some(end), None) => end.left.is_some() || store.live_bytes > 0,
    };
    is_needed && holds_store(&store.path)
}

/// The notes, without stores of this host that are gone; whether there were such.
pub fn look(job: &str) -> (Vec<Unlanded>, bool) {
    let Some(state) = state_directory(&variable) else { return (vec![], false) };
    let (mut notes, mut has_landed, here) = (vec![], false, this_host());
    for mut note in notes_in(&state.join(job)).iter().filter_map(|path| read(path)) {
        let count = note.stores.len();
        note.stores.retain(|store| note.host != here || holds_store(store));
        has_landed |= note.stores.len() < count;
        notes.extend((!note.is_none()).then_some(note));
    }
    (notes, has_landed)
}

/// The files of notes in a job's kept directory.
pub fn notes_in(directory: &Path) -> Vec<PathBuf> {
    let is_note = |name: &str| name.starts_with("unlanded-") && name.ends_with(".json");
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_note));
    let mut notes: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    notes.sort();
    notes
}

fn read(path: &Path) -> Option<Unlanded> {
    let mut text = vec![];
    File::open(path).ok()?.take(NOTE_BYTES_MAX).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The file of a host's note.
fn note_name(host: &str) -> String {
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || letter == '.' || letter == '-' { letter } else { '_' };
    format!("unlanded-{}.json", host.chars().map(plain).collect::<String>())
}

fn this_host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(stores: &[&str], files: u64) -> Unlanded {
        let stores = stores.iter().map(PathBuf::from).collect();
        Unlanded { stores, bytes: 250 << 20, files, host: "n1".to_owned(), has_others: false }
    }

    #[test]
    fn a_line_names_host_store_amount_and_command() {
        assert_eq!(
            of(&["/s/0", "/s/1"], 3).line("7"),
            "3 files of job 7 (250 MiB) have not landed: on host n1 in /s/0, /s/1. Land them there: forebay salvage --burst-store /s"
        );
        assert_eq!(
            of(&["/s"], 1).line("7"),
            "1 file of job 7 (250 MiB) has not landed: on host n1 in /s. Land it there: forebay salvage --burst-store /s"
        );
        let part = Unlanded { has_others: true, ..of(&["/s"], 2) }.line("7");
        assert!(
            part.ends_with(
                "on all hosts of the job at about the same time: forebay salvage --meet 2min --burst-store /s"
            ),
            "{part}"
        );
        assert!(of(&["/a/s", "/b/s"], 0).command().ends_with(" --burst-store /a/s --burst-store /b/s"));
    }

    #[test]
    fn a_note_goes_with_its_stores() {
        let state = tempfile::tempdir().unwrap();
        let job = state.path().join("7");
        let note = Unlanded { stores: vec!["/nowhere/store".into()], ..Unlanded::none() };
        note.clone().keep_in(&job).unwrap();
        assert_eq!(notes_in(&job).iter().filter_map(|path| read(path)).collect::<Vec<_>>(), [note]);
        Unlanded::none().keep_in(&job).unwrap();
        assert!(!job.exists());
    }
}
