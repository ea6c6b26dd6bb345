//! The writes and promises of programs, and the states that must be found.
//!
//! Each program has a directory and files of its own, so that their contents are a series of states, one for each request.
//! A reader finds one of them, from the last that must be visible there to the newest. A loss of power or of a node may
//! take a program back to an earlier one, but not behind its last `fsync`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::contents::{Slot, records, slots};
use crate::log::wrong;

/// The numbers of a file's slots; 0 for one that was never written.
pub type Contents = Vec<u64>;

/// A file.
#[derive(Clone, Debug, Default)]
pub struct FileModel {
    pub states: Vec<Contents>,
    /// The state that survives all that a program may lose.
    pub durable: usize,
    /// The state that all nodes see.
    pub committed: usize,
    pub program: usize,
    /// Some of its bytes may be gone: with the only node that had them, or since they were not synced when power went.
    pub may_be_lost: bool,
    /// They were found to be gone. Its program leaves it alone.
    pub is_lost: bool,
    /// Power was cut, and no program has looked since: see `find_left`.
    is_of_two_logs: bool,
    last_number: u64,
}

/// A program's directory.
#[derive(Clone, Debug)]
pub struct DirectoryModel {
    pub states: Vec<BTreeMap<String, u64>>,
    pub durable: usize,
    /// Its program has not found out what is left.
    pub is_uncertain: bool,
}

/// An append.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Append {
    pub program: u64,
    pub number: u64,
}

/// All of it.
#[derive(Default)]
pub struct Oracle {
    pub files: BTreeMap<u64, FileModel>,
    pub directories: Vec<DirectoryModel>,
    pub winners: BTreeMap<String, u32>,
    /// Appends that were answered, and those that survive.
    pub appended: BTreeSet<Append>,
    pub appended_durably: BTreeSet<Append>,
    /// By program: of its next append.
    next_append: BTreeMap<usize, u64>,
    last_file: u64,
    /// The same of the file that all append to.
    log_may_be_lost: bool,
    excused_until_ns: u64,
}

static ORACLE: Mutex<Option<Oracle>> = Mutex::new(None);

/// Looks at it, or notes an event. The caller must not wait meanwhile.
pub fn with<T>(look: impl FnOnce(&mut Oracle) -> T) -> T {
    look(ORACLE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// The file that slots are of, by the first that says so.
pub fn file_of(found: &[Slot]) -> Option<u64> {
    found.iter().find_map(|slot| match slot {
        Slot::Written(file, _) => Some(*file),
        _ => None,
    })
}

/// The numbers that are found; nothing where a slot is torn, or of another file.
pub fn contents_of(found: &[Slot]) -> Option<Contents> {
    let file = file_of(found);
    let numbers = found.iter().map(|slot| match slot {
        Slot::Hole => Some(0),
        Slot::Written(of, number) => (Some(*of) == file).then_some(*number),
        Slot::Torn => None,
    });
    numbers.collect()
}

impl Oracle {
    pub fn new_directory(&mut self) -> usize {
        let states = vec![BTreeMap::new()];
        self.directories.push(DirectoryModel { states, durable: 0, is_uncertain: true });
        self.directories.len() - 1
    }

    pub fn new_file(&mut self, program: usize) -> u64 {
        self.last_file += 1;
        let states = vec![vec![]];
        self.files.insert(self.last_file, FileModel { states, program, ..FileModel::default() });
        self.last_file
    }

    /// A program begins, or one that goes on with its files. How many appends the ones before may have made.
    pub fn begin_program(&mut self, index: usize) -> u64 {
        let appends = self.next_append.entry(index).or_default();
        std::mem::replace(appends, *appends + 1000)
    }

    /// For so long errors have a reason.
    pub fn excuse_until(&mut self, until_ns: u64) {
        self.excused_until_ns = self.excused_until_ns.max(until_ns);
    }

    /// Whether bytes of any file may be gone.
    pub fn may_have_lost(&self) -> bool {
        self.log_may_be_lost || self.files.values().any(|file| file.may_be_lost)
    }

    /// Whether bytes of a file may be gone that a program has had at a name.
    pub fn may_be_lost(&self, program: usize, name: &str) -> bool {
        let states = &self.directories[program].states;
        states.iter().filter_map(|names| names.get(name)).any(|file| self.files[file].may_be_lost)
    }

    pub fn is_excused(&self, now_ns: u64) -> bool {
        now_ns < self.excused_until_ns
    }

    /// Takes programs back to the states that `fsync` has promised: the power was cut, or their node is lost. With no other copy of their
    /// bytes, even those may be lost. Writes over the last synced state may be known and gone. If two logs have parts of a file, each may
    /// have lost its end.
    pub fn fall_back(&mut self, programs: &[usize], is_copied: bool, is_of_two_logs: bool) {
        for file in self.files.values_mut().filter(|file| programs.contains(&file.program)) {
            file.committed = file.durable;
            file.is_of_two_logs |= is_of_two_logs;
            file.may_be_lost |= !is_copied || file.durable + 1 < file.states.len();
        }
        self.log_may_be_lost = true;
        programs.iter().for_each(|program| self.directories[*program].is_uncertain = true);
        let durably = &self.appended_durably;
        self.appended.retain(|append| !programs.contains(&(append.program as usize)) || durably.contains(append));
        self.winners.clear();
    }
}

impl FileModel {
    pub fn now(&self) -> Contents {
        self.states.last().cloned().unwrap_or_default()
    }

    /// The number of a write that begins, which makes these slots.
    pub fn begin_write(&mut self, first: usize, count: usize) -> u64 {
        self.last_number += 1;
        let mut new = self.now();
        new.resize(new.len().max(first + count), 0);
        new[first..first + count].fill(self.last_number);
        self.states.push(new);
        self.last_number
    }

    pub fn begin_cut_off(&mut self, len: usize) {
        let mut new = self.now();
        new.resize(len, 0);
        self.states.push(new);
    }

    /// The newest state after the last promised one, if it is as found or becomes so by later writes.
    ///
    /// Unsynced records may be lost of one log and not of another. The leader's has lengths and commits; that of the writing
    /// node has its writes.
    pub fn find_left(&self, found: &Contents) -> Option<usize> {
        self.find(self.durable, found).or_else(|| {
            let is_left = |from: &usize| self.is_of_two_logs && self.with_later_writes(*from, found) == *found;
            (self.durable..self.states.len()).rev().find(is_left)
        })
    }

    /// A state, and over it what later writes have made of which anything is found.
    fn with_later_writes(&self, from: usize, found: &Contents) -> Contents {
        let mut left = self.states[from].clone();
        for states in self.states[from..].windows(2) {
            let (before, after) = (&states[0], &states[1]);
            let Some(number) = after.iter().find(|number| **number != 0 && !before.contains(number)) else { continue };
            if found.contains(number) {
                for (index, _) in after.iter().enumerate().filter(|(_, of)| *of == number) {
                    left.resize(left.len().max(index + 1), 0);
                    left[index] = *number;
                }
            }
        }
        left
    }

    /// Its program goes on from what is left.
    pub fn go_back(&mut self, state: usize, found: Contents) {
        self.states.truncate(state + 1);
        if self.states[state] != found {
            self.states.push(found);
        }
        self.committed = self.states.len() - 1;
        self.is_of_two_logs = false;
    }

    /// The newest state not before one that is as found.
    pub fn find(&self, from: usize, found: &Contents) -> Option<usize> {
        (from..self.states.len()).rev().find(|index| self.states[*index] == *found)
    }
}

impl DirectoryModel {
    pub fn now(&self) -> BTreeMap<String, u64> {
        self.states.last().cloned().unwrap_or_default()
    }

    pub fn begin(&mut self, change: impl FnOnce(&mut BTreeMap<String, u64>)) {
        let mut new = self.now();
        change(&mut new);
        self.states.push(new);
    }
}

/// A file has got its name on the backing file system: it is whole, and one of its states.
pub fn published(path: &Path, bytes: &[u8]) {
    if path.ends_with("log") {
        if records(bytes).contains(&Slot::Torn) {
            wrong("torn", &format!("{} is published with a record that is torn", path.display()));
        }
        return;
    }
    let found = slots(bytes);
    let Some(file) = file_of(&found) else { return };
    let Some(contents) = contents_of(&found) else {
        return wrong("torn", &format!("{} is published torn: {found:?}", path.display()));
    };
    with(|oracle| {
        let Some(model) = oracle.files.get_mut(&file) else {
            return wrong("serialisation", &format!("{} is published with bytes of no file", path.display()));
        };
        match model.find(0, &contents) {
            // Landed contents are not taken back.
            Some(state) if state >= model.durable => {
                model.durable =
                    (model.durable..=state).find(|state| model.states[*state] == contents).unwrap_or(model.durable)
            }
            Some(_) => {}
            None if model.find_left(&contents).is_some() => {}
            None => wrong(
                "serialisation",
                &format!("{} is published as {contents:?}, which is no state of file {file}", path.display()),
            ),
        }
    });
}
