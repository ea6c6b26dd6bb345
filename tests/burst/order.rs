//! In which order names appear on the backing file system: as an outside reader sees them there.

use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use forebay_tests::program::wait_until;
use forebay_tests::require;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use crate::bed::Bed;

/// A watch on a directory, by which the kernel reports new entries.
struct Watch(OwnedFd);

impl Watch {
    fn of(directory: &Path) -> Self {
        let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&watch, directory, WatchFlags::CREATE | WatchFlags::MOVED_TO).unwrap();
        Self(watch)
    }

    /// Names that a user gave, in the order in which they appeared, each where it did so first.
    fn appeared(&self, given: &[String]) -> Vec<String> {
        let mut space = [MaybeUninit::uninit(); 64 << 10];
        let mut reader = Reader::new(&self.0, &mut space);
        let mut names: Vec<String> = Vec::new();
        while let Ok(event) = reader.next() {
            assert!(!event.events().contains(ReadFlags::QUEUE_OVERFLOW), "the kernel has forgotten some");
            let name = event.file_name().unwrap().to_string_lossy().into_owned();
            if given.contains(&name) && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// A program has written a file. The kernel tells the daemon of that after `close` has returned: only then is it the next to land.
fn written(bed: &Bed, name: &str, bytes: &[u8]) {
    fs::write(bed.mount().join(name), bytes).unwrap();
    wait_until("the file is closed", PATIENCE, || bed.landed(name)["state"] != "dirty");
}

const PATIENCE: Duration = Duration::from_secs(60);

/// Rounds of the program: so many that a drain which takes files by size, by name or in parallel mixes some of them.
const ROUNDS: usize = 40;

/// A marker says that what it marks is there: `part-N` is written, larger and smaller in turn, and then `a-done-N`, which is
/// empty and comes first by name.
#[test]
fn a_marker_never_lands_before_what_it_marks() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "manual"]);
    let watch = Watch::of(&bed.backing());
    let names: Vec<String> =
        (0..ROUNDS).flat_map(|round| [format!("part-{round}"), format!("a-done-{round}")]).collect();
    for round in 0..ROUNDS {
        let size = if round % 3 == 0 { 4 << 20 } else { 1000 };
        written(&bed, &names[2 * round], &vec![round as u8; size]);
        written(&bed, &names[2 * round + 1], b"");
    }
    bed.drain();
    assert_eq!(watch.appeared(&names), names, "in the order in which they were made");
    bed.job.down();
}

/// The same for names that are given by rename, as checkpoints get theirs.
#[test]
fn renames_land_in_their_order() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "manual"]);
    let watch = Watch::of(&bed.backing());
    let names: Vec<String> = (0..ROUNDS).map(|round| format!("{}-step", ROUNDS - round)).collect();
    for (round, name) in names.iter().enumerate() {
        written(&bed, "being-written", &vec![1; if round % 2 == 0 { 3 << 20 } else { 10 }]);
        fs::rename(bed.mount().join("being-written"), bed.mount().join(name)).unwrap();
    }
    bed.drain();
    assert_eq!(watch.appeared(&names), names, "in the order in which they were given");
    bed.job.down();
}
