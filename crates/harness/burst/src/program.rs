//! Programs on a burst mount: they write files of their own, look at those of others, race and append. After a loss
//! they look which state is left.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_fuse::ROOT_NODE;
use forebay_random::Random;
use forebay_types::Errno;

use crate::contents::{SLOT_BYTES, Slot, slot, slots};
use crate::log::{note, wrong};
use crate::node::Node;
use crate::oracle::{self, Append, Contents, Oracle, contents_of, file_of};
use crate::reached::{Reach, reached};
use crate::turns;

const SLOTS_MAX: u64 = 24;
const SLOTS_AT_ONCE_MAX: u64 = 6;
const NAMES: u64 = 8;
const RACES: u64 = 12;

/// Slots of all programs in `log`, whose file is none of theirs.
pub const LOG: u64 = 1 << 30;

/// Appends of one program.
const APPENDS_MAX: u64 = 12;

/// Errors with a reason after which a program gives up.
const REFUSALS_MAX: u32 = 60;

/// A program.
pub struct Program {
    pub index: usize,
    pub node: Arc<Node>,
    pub random: Random,
    pub operations: u32,
    pub directory: u64,
    pub appends: u64,
}

impl Program {
    /// Does all that it does.
    pub fn run(mut self) {
        let mut refusals = 0;
        while self.operations > 0 && refusals < REFUSALS_MAX {
            if let Err(errno) = self.go_on() {
                refusals += 1;
                let now = turns::now_ns();
                let is_full = errno == Errno::ENOSPC && self.node.may_be_full();
                if !is_full && !oracle::with(|oracle| oracle.is_excused(now)) {
                    wrong("error", &format!("program {} is told {errno} without a reason", self.index));
                }
                reached(Reach::Refused);
                note(|| format!("program {}: {errno}", self.index));
                oracle::with(|oracle| oracle.directories[self.index].is_uncertain = true);
                turns::sleep_ns(1_000_000_000);
            }
        }
        note(|| format!("program {} has ended", self.index));
    }

    fn go_on(&mut self) -> Result<(), Errno> {
        let name = format!("p{}", self.index);
        self.directory = match self.node.mount.look_up(ROOT_NODE, &name) {
            Ok(found) => found.node,
            Err(Errno::ENOENT) => match self.node.mount.make_directory(ROOT_NODE, &name) {
                Ok(found) => found.node,
                Err(Errno::EEXIST) => self.node.mount.look_up(ROOT_NODE, &name)?.node,
                Err(errno) => return Err(errno),
            },
            Err(errno) => return Err(errno),
        };
        if oracle::with(|oracle| oracle.directories[self.index].is_uncertain) {
            self.look_what_is_left()?;
        }
        while self.operations > 0 {
            self.operations -= 1;
            if self.random.below(2) == 0 {
                turns::sleep_ns(self.random.below(600) * 1_000_000);
            }
            match self.random.below(16) {
                0..=3 => self.make_file()?,
                4..=6 => self.change_file()?,
                7 | 8 => self.checkpoint()?,
                9 => self.rename()?,
                10 => self.remove()?,
                11 | 12 => self.read_others()?,
                13 => self.race()?,
                14 => self.append()?,
                _ => turns::sleep_ns(self.random.below(1_000) * 1_000_000),
            }
        }
        Ok(())
    }

    fn name(&mut self) -> String {
        format!("f{}", self.random.below(NAMES))
    }

    fn any_own(&mut self) -> Option<(String, u64)> {
        let own = oracle::with(|oracle| {
            let mut own = oracle.directories[self.index].now();
            own.retain(|_, file| !oracle.files[file].is_lost);
            own
        });
        let count = own.len() as u64;
        own.into_iter().nth(self.random.below(count) as usize)
    }

    /// A new file under a name, over what was there where that is replaced.
    fn make_file(&mut self) -> Result<(), Errno> {
        let name = self.name();
        if oracle::with(|oracle| oracle.directories[self.index].now().contains_key(&name)) {
            return Ok(());
        }
        self.write_new(&name)
    }

    fn write_new(&mut self, name: &str) -> Result<(), Errno> {
        let file = oracle::with(|oracle| {
            let file = oracle.new_file(self.index);
            oracle.directories[self.index].begin(|names| _ = names.insert(name.to_owned(), file));
            file
        });
        note(|| format!("program {} makes {name}, file {file}", self.index));
        let flags = libc::O_RDWR | libc::O_EXCL;
        let (found, handle) = self.node.mount.create(self.directory, name, flags)?;
        let written = self.write_some(file, found.node, handle);
        self.close(file, found.node, handle, written)
    }

    fn write_some(&mut self, file: u64, node: u64, handle: u64) -> Result<(), Errno> {
        for _ in 0..1 + self.random.below(5) {
            self.write_once(file, node, handle)?;
            match self.random.below(8) {
                0 => self.sync(file, node, handle)?,
                1 => self.read_own(file, node, handle)?,
                2 => self.cut_off(file, node)?,
                3 => turns::sleep_ns(self.random.below(100) * 1_000_000),
                _ => {}
            }
        }
        if self.random.below(3) == 0 { self.sync(file, node, handle) } else { Ok(()) }
    }

    fn write_once(&mut self, file: u64, node: u64, handle: u64) -> Result<(), Errno> {
        let count = 1 + self.random.below(SLOTS_AT_ONCE_MAX);
        let first = self.random.below(SLOTS_MAX - count);
        let number =
            oracle::with(|oracle| oracle.files.entry(file).or_default().begin_write(first as usize, count as usize));
        let bytes: Vec<u8> = (first..first + count).flat_map(|index| slot(file, number, index)).collect();
        self.node.mount.write(node, handle, first * SLOT_BYTES as u64, &bytes, libc::O_RDWR)?;
        reached(Reach::Wrote);
        Ok(())
    }

    fn sync(&mut self, file: u64, node: u64, handle: u64) -> Result<(), Errno> {
        let (state, names) = oracle::with(|oracle| {
            (oracle.files[&file].states.len() - 1, oracle.directories[self.index].states.len() - 1)
        });
        self.node.mount.sync(node, handle)?;
        reached(Reach::Synced);
        note(|| format!("program {}: file {file} is synced as {state}", self.index));
        oracle::with(|oracle| {
            let model = oracle.files.entry(file).or_default();
            (model.durable, model.committed) = (state, state);
            oracle.directories[self.index].durable = names;
        });
        Ok(())
    }

    /// Closes a file. Refused writes of `written` are dropped.
    fn close(&mut self, file: u64, node: u64, handle: u64, written: Result<(), Errno>) -> Result<(), Errno> {
        let closed = self.node.mount.close(node, handle, libc::O_RDWR);
        if written.and(closed).is_ok() {
            oracle::with(|oracle| {
                let model = oracle.files.entry(file).or_default();
                model.committed = model.states.len() - 1;
            });
        }
        written.and(closed)
    }

    fn cut_off(&mut self, file: u64, node: u64) -> Result<(), Errno> {
        let len = self.random.below(SLOTS_MAX) as usize;
        oracle::with(|oracle| oracle.files.entry(file).or_default().begin_cut_off(len));
        self.node.mount.cut_off(node, (len * SLOT_BYTES) as u64)?;
        reached(Reach::Truncated);
        Ok(())
    }

    fn read_own(&mut self, file: u64, node: u64, handle: u64) -> Result<(), Errno> {
        let found = slots(&self.node.mount.read(node, handle)?);
        reached(Reach::ReadOwn);
        let known = oracle::with(|oracle| oracle.files[&file].now());
        if contents_of(&found).as_ref() != Some(&known) {
            wrong("own", &format!("program {} has written {known:?} to file {file}, and finds {found:?}", self.index));
        }
        Ok(())
    }

    fn change_file(&mut self) -> Result<(), Errno> {
        let Some((name, file)) = self.any_own() else { return Ok(()) };
        let node = self.node.mount.look_up(self.directory, &name)?.node;
        let handle = self.node.mount.open(node, libc::O_RDWR)?;
        note(|| format!("program {} changes {name}, file {file}", self.index));
        let written = self.read_own(file, node, handle).and_then(|()| self.write_some(file, node, handle));
        self.close(file, node, handle, written)
    }

    /// A checkpoint: readers are to find one whole file or the other, whatever happens.
    fn checkpoint(&mut self) -> Result<(), Errno> {
        let name = "new";
        if oracle::with(|oracle| oracle.directories[self.index].now().contains_key(name)) {
            return self.move_name(name, "checkpoint");
        }
        let file = oracle::with(|oracle| {
            let file = oracle.new_file(self.index);
            oracle.directories[self.index].begin(|names| _ = names.insert(name.to_owned(), file));
            file
        });
        let (found, handle) = self.node.mount.create(self.directory, name, libc::O_RDWR | libc::O_EXCL)?;
        let written = self.write_some(file, found.node, handle).and_then(|()| self.sync(file, found.node, handle));
        self.close(file, found.node, handle, written)?;
        self.move_name(name, "checkpoint")
    }

    fn move_name(&mut self, from: &str, to: &str) -> Result<(), Errno> {
        let is_over = oracle::with(|oracle| {
            let names = &mut oracle.directories[self.index];
            let is_over = names.now().contains_key(to);
            names.begin(|names| {
                if let Some(file) = names.remove(from) {
                    names.insert(to.to_owned(), file);
                }
            });
            is_over
        });
        note(|| format!("program {} renames {from} to {to}", self.index));
        self.node.mount.rename(self.directory, from, to)?;
        if is_over {
            reached(Reach::Renamed);
        }
        Ok(())
    }

    fn rename(&mut self) -> Result<(), Errno> {
        let (to, from) = (self.name(), self.any_own());
        match from {
            Some((from, _)) if from != to => self.move_name(&from, &to),
            _ => Ok(()),
        }
    }

    fn remove(&mut self) -> Result<(), Errno> {
        let Some((name, file)) = self.any_own() else { return Ok(()) };
        if self.random.below(2) == 0 {
            return self.remove_name(&name);
        }
        let node = self.node.mount.look_up(self.directory, &name)?.node;
        let handle = self.node.mount.open(node, libc::O_RDWR)?;
        let used = self.remove_name(&name).and_then(|()| self.use_unlinked(file, node, handle));
        self.close(file, node, handle, used)
    }

    fn remove_name(&self, name: &str) -> Result<(), Errno> {
        oracle::with(|oracle| oracle.directories[self.index].begin(|names| _ = names.remove(name)));
        note(|| format!("program {} removes {name}", self.index));
        self.node.mount.remove(self.directory, name)?;
        reached(Reach::Unlinked);
        Ok(())
    }

    /// Its name goes from the backing file system meanwhile, or does not.
    fn use_unlinked(&mut self, file: u64, node: u64, handle: u64) -> Result<(), Errno> {
        for _ in 0..1 + self.random.below(3) {
            turns::sleep_ns(self.random.below(4_000) * 1_000_000);
            self.read_own(file, node, handle)?;
            reached(Reach::ReadUnlinked);
            if self.random.below(3) == 0 {
                self.write_once(file, node, handle)?;
            }
        }
        Ok(())
    }

    /// A file of any program: one of its states, not older than what its program has made visible before.
    fn read_others(&mut self) -> Result<(), Errno> {
        let chosen = oracle::with(|oracle| {
            let other = self.random.below(oracle.directories.len() as u64) as usize;
            let names = oracle.directories[other].now();
            let name = names.keys().nth(self.random.below(names.len() as u64) as usize).cloned()?;
            Some((other, name))
        });
        let Some((other, name)) = chosen else { return Ok(()) };
        let floors: BTreeMap<u64, usize> =
            oracle::with(|oracle| oracle.files.iter().map(|(file, model)| (*file, model.committed)).collect());
        let found = self.node.mount.look_up(ROOT_NODE, &format!("p{other}"));
        let found = found.and_then(|directory| self.node.mount.look_up(directory.node, &name));
        let node = match found {
            // Its program may remove it at any time.
            Err(Errno::ENOENT) => return Ok(()),
            found => found?.node,
        };
        let handle = match self.node.mount.open(node, libc::O_RDONLY) {
            Err(Errno::ESTALE | Errno::ENOENT) => return Ok(()),
            opened => opened?,
        };
        let read = self.node.mount.read(node, handle);
        self.node.mount.close(node, handle, libc::O_RDONLY)?;
        let found = slots(&match read {
            Err(Errno::ESTALE) => return Ok(()),
            Err(Errno::EIO) if oracle::with(|oracle| oracle.may_be_lost(other, &name)) => return Ok(()),
            read => read?,
        });
        let Some(file) = file_of(&found) else { return Ok(()) };
        reached(Reach::ReadOther);
        let contents = contents_of(&found);
        oracle::with(|oracle| {
            let Some(model) = oracle.files.get(&file) else {
                return wrong("other", &format!("p{other}/{name} has bytes of no file"));
            };
            let floor = floors.get(&file).copied().unwrap_or(0).min(model.committed);
            if contents.as_ref().and_then(|contents| model.find(floor, contents)).is_none() {
                let states = &model.states[floor..];
                wrong(
                    "other",
                    &format!(
                        "program {} finds {found:?} in p{other}/{name}, file {file}, which is none of {states:?}",
                        self.index
                    ),
                );
            }
        });
        Ok(())
    }

    fn race(&mut self) -> Result<(), Errno> {
        let name = format!("race{}", self.random.below(RACES));
        match self.node.mount.create(ROOT_NODE, &name, libc::O_WRONLY | libc::O_EXCL) {
            Ok((found, handle)) => {
                reached(Reach::WonRace);
                let winners = oracle::with(|oracle| {
                    let winners = oracle.winners.entry(name.clone()).or_default();
                    *winners += 1;
                    *winners
                });
                if winners > 1 {
                    wrong("exclusive", &format!("{winners} programs have made {name}"));
                }
                self.node.mount.close(found.node, handle, libc::O_WRONLY)
            }
            Err(Errno::EEXIST) => {
                reached(Reach::LostRace);
                Ok(())
            }
            Err(errno) => Err(errno),
        }
    }

    fn append(&mut self) -> Result<(), Errno> {
        if self.appends % 1000 >= APPENDS_MAX {
            return Ok(());
        }
        self.appends += 1;
        let flags = libc::O_WRONLY | libc::O_APPEND;
        let (found, handle) = self.node.mount.create(ROOT_NODE, "log", flags)?;
        let append = Append { program: self.index as u64, number: self.appends };
        let bytes = slot(LOG + append.program, append.number, 0);
        let written = self.node.mount.write(found.node, handle, 0, &bytes, flags);
        if written.is_ok() {
            oracle::with(|oracle| oracle.appended.insert(append));
            reached(Reach::Appended);
            if self.random.below(3) == 0 && self.node.mount.sync(found.node, handle).is_ok() {
                oracle::with(|oracle| oracle.appended_durably.insert(append));
            }
        }
        let closed = self.node.mount.close(found.node, handle, flags);
        written.and(closed)
    }

    /// Looks which state is left after a loss: it is one of the states since the last that may not be lost.
    pub fn look_what_is_left(&mut self) -> Result<(), Errno> {
        let names = self.node.mount.list(self.directory)?;
        let mut left: BTreeMap<String, Left> = BTreeMap::new();
        for name in names {
            match self.node.mount.look_up(self.directory, &name) {
                Err(Errno::ENOENT) => {}
                Err(errno) => return Err(errno),
                Ok(found) => {
                    left.insert(name, self.left_of(found.node)?);
                }
            }
        }
        reached(Reach::Resynced);
        oracle::with(|oracle| self.go_back(oracle, &left));
        Ok(())
    }

    /// Goes on from the state that was found.
    fn go_back(&self, oracle: &mut Oracle, left: &BTreeMap<String, Left>) {
        let model = &oracle.directories[self.index];
        let is_it = |names: &BTreeMap<String, u64>| {
            names.keys().eq(left.keys())
                && left.iter().all(|(name, left)| match left {
                    Left::Contents(Some(file), _) => names[name] == *file,
                    Left::Contents(None, _) => true,
                    Left::Lost => oracle.files[&names[name]].may_be_lost,
                })
        };
        let state = (model.durable..model.states.len()).rev().find(|state| is_it(&model.states[*state]));
        let Some(state) = state else {
            let states = &model.states[model.durable..];
            return wrong("left", &format!("p{} holds {left:?}, which is none of {states:?}", self.index));
        };
        let model = &mut oracle.directories[self.index];
        model.states.truncate(state + 1);
        (model.durable, model.is_uncertain) = (state, false);
        let names = model.now();
        for (name, left) in left {
            let file = names[name];
            let model = oracle.files.entry(file).or_default();
            let Left::Contents(_, contents) = left else {
                model.is_lost = true;
                continue;
            };
            match model.find_left(contents) {
                Some(state) => model.go_back(state, contents.clone()),
                None => {
                    let states = &model.states[model.durable..];
                    wrong(
                        "left",
                        &format!(
                            "p{}/{name}, file {file}, holds {contents:?}, which is none of {states:?}",
                            self.index
                        ),
                    );
                }
            }
        }
    }

    fn left_of(&self, node: u64) -> Result<Left, Errno> {
        let handle = self.node.mount.open(node, libc::O_RDONLY)?;
        let read = self.node.mount.read(node, handle);
        self.node.mount.close(node, handle, libc::O_RDONLY)?;
        match read {
            Err(Errno::EIO) if oracle::with(|oracle| oracle.may_have_lost()) => {
                reached(Reach::LostFile);
                Ok(Left::Lost)
            }
            Err(errno) => Err(errno),
            Ok(bytes) => {
                let found = slots(&bytes);
                match contents_of(&found) {
                    Some(contents) => Ok(Left::Contents(file_of(&found), contents)),
                    None => {
                        wrong("left", &format!("p{}: a file is torn: {found:?}", self.index));
                        Ok(Left::Contents(file_of(&found), found.iter().map(number_of).collect()))
                    }
                }
            }
        }
    }
}

/// The rest of a file.
#[derive(Debug)]
enum Left {
    /// Of which file it is, where it says so, and its slots.
    Contents(Option<u64>, Contents),
    Lost,
}

fn number_of(slot: &Slot) -> u64 {
    match slot {
        Slot::Hole => 0,
        Slot::Written(_, number) => *number,
        Slot::Torn => u64::MAX,
    }
}
