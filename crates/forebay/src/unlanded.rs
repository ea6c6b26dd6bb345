//! Notes about stores whose files had not landed when their job ended, one for each host, in `~/.local/state/forebay/JOB/`. `down`, `status` and
//! `report` tell of them until the store has landed.
//!
//! `kept_logs` writes them. A note is never removed with old logs: it goes when its stores on its own host are gone.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use forebay_daemon::{LastStatus, holds_store};
use forebay_launch::{JobDirectory, JobRecord, state_directory};
use rustix::fs::OFlags;
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
        let earlier = read(&path);
        if matches!(&earlier, Err(error) if error.kind() != io::ErrorKind::NotFound) {
            // It may be of an earlier job's stores, and people have to look at it.
            if self.is_none() {
                return Ok(());
            }
            fs::rename(&path, path.with_extension("unread.json"))?;
        }
        // Of an earlier job of this name, with another store.
        if let Some(earlier) = earlier.ok().filter(|earlier| earlier.host == self.host) {
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

/// The notes of a job in lines for people, without stores of this host that are gone; whether there were such.
pub fn look(job: &str) -> (Vec<String>, bool) {
    state_directory(&variable).map_or((vec![], false), |state| look_in(&state.join(job), job))
}

fn look_in(directory: &Path, job: &str) -> (Vec<String>, bool) {
    let (mut lines, mut has_landed, here) = (vec![], false, this_host());
    for path in notes_in(directory) {
        let mut note = match read(&path) {
            Ok(note) => note,
            // The process of `kept_logs` has just removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                lines.push(unread_line(job, &path, &error));
                continue;
            }
        };
        let count = note.stores.len();
        note.stores.retain(|store| note.host != here || holds_store(store));
        has_landed |= note.stores.len() < count;
        lines.extend((!note.is_none()).then(|| note.line(job)));
    }
    (lines, has_landed)
}

/// Of a note that says nothing: its host may have stores.
fn unread_line(job: &str, path: &Path, error: &io::Error) -> String {
    format!(
        "files of job {job} may not have landed: the note {} cannot be read ({error}). Look on the host of its name for a store of the job, \
         land that by forebay salvage --burst-store DIR, and then remove the note",
        shown_path(path)
    )
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

/// A note that is a file itself: a link is not followed, and a FIFO holds nobody.
fn read(path: &Path) -> io::Result<Unlanded> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = vec![];
    file.take(NOTE_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > NOTE_BYTES_MAX {
        return Err(io::Error::other(format!("it is larger than {}", size(NOTE_BYTES_MAX))));
    }
    Ok(serde_json::from_slice(&text)?)
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
        assert_eq!(notes_in(&job).iter().map(|path| read(path).unwrap()).collect::<Vec<_>>(), [note]);
        Unlanded::none().keep_in(&job).unwrap();
        assert!(!job.exists());
    }

    #[test]
    fn a_note_that_cannot_be_read_is_named() {
        let job = tempfile::tempdir().unwrap();
        let place = |host: &str| job.path().join(note_name(host));
        fs::write(place("a"), "{").unwrap();
        fs::write(place("b"), vec![b' '; 1 + NOTE_BYTES_MAX as usize]).unwrap();
        fs::create_dir(place("c")).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, place("d"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        fs::write(job.path().join("good"), serde_json::to_vec(&of(&["/s"], 1)).unwrap()).unwrap();
        std::os::unix::fs::symlink("good", place("e")).unwrap();
        fs::copy(job.path().join("good"), place("f")).unwrap();
        let (lines, has_landed) = look_in(job.path(), "7");
        let whys =
            ["EOF", "it is larger than 1.0 MiB", "it is no regular file", "it is no regular file", "symbolic link"];
        for ((line, why), host) in lines.iter().zip(whys).zip(["a", "b", "c", "d", "e"]) {
            let named = format!("may not have landed: the note {} cannot be read (", place(host).display());
            assert!(line.contains(&named) && line.contains(why), "{line}");
        }
        assert_eq!((lines.len(), has_landed), (6, false));
        assert_eq!(lines[5], of(&["/s"], 1).line("7"));
    }

    #[test]
    fn a_note_that_cannot_be_read_goes_with_no_other() {
        let job = tempfile::tempdir().unwrap();
        let path = job.path().join(note_name(&this_host()));
        fs::write(&path, "{").unwrap();
        Unlanded::none().keep_in(job.path()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"{");
        let note = Unlanded { stores: vec!["/nowhere/store".into()], ..Unlanded::none() };
        note.clone().keep_in(job.path()).unwrap();
        assert_eq!(read(&path).unwrap(), note);
        assert_eq!(look_in(job.path(), "7").0.len(), 1, "the unread one");
    }
}
