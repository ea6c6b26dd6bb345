//! The power goes at random moments while programs write and while it lands: what was safe is there afterwards, and nothing is torn.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use forebay_tests::power::{Power, PowerDisk};
use forebay_tests::program::{file_of_tests, run, wait_until};
use forebay_tests::{Sandbox, require};
use tempfile::TempDir;

use crate::bed::{Bed, DIR, arguments};
use crate::salvage::salvage;

const PATIENCE: Duration = Duration::from_secs(60);

/// The disk that loses writes that were not flushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Under {
    Store,
    Backing,
}

/// How it goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum After {
    Up,
    Salvage,
}

/// `make test-write` has as many as there are to be shown.
#[test]
fn synced_bytes_are_there_when_the_power_is_back() {
    require!(Fuse, Root, LoopDevices, Command("python3"), Command("mkfs.ext4"));
    let first = env::var("FOREBAY_TEST_CUT").ok().map(|text| text.parse().expect("a number"));
    let wanted = env::var("FOREBAY_TEST_CUTS").map_or(20, |text| text.parse().expect("a number"));
    let seeds = first.map_or(1..wanted + 1, |seed| seed..seed + 1);
    let mut said = String::new();
    for seed in seeds {
        // Each with a mount namespace of its own, which is the thread's.
        let one = std::thread::Builder::new().name(format!("seed {seed}")).spawn(move || cut(seed)).unwrap();
        said = one.join().unwrap_or_else(|_| panic!("seed {seed}"));
    }
    println!("the last of {wanted}: {said}");
}

fn cut(seed: u64) -> String {
    let under = if seed.is_multiple_of(3) { Under::Backing } else { Under::Store };
    let after = if seed.is_multiple_of(2) { After::Up } else { After::Salvage };
    let power = Power::begin();
    let places = Places::new();
    let mut disk = PowerDisk::new(if under == Under::Store { &places.store } else { &places.mounted }, seed);
    fs::create_dir(&places.backing).unwrap();
    let sandbox = Sandbox::new();
    let words = places.arguments(&sandbox);
    let mut bed = Bed::up_with(sandbox, &words);
    let mut program = Command::new("python3")
        .arg(file_of_tests("burst/promises.py"))
        .arg(seed.to_string())
        .current_dir(bed.mount())
        .stdin(Stdio::null())
        .stdout(fs::File::create(&places.said).unwrap())
        .spawn()
        .unwrap();
    places.wait_for_the_end(&disk, seed);
    if under == Under::Backing {
        // The program does not notice: all that it writes until the machine is gone is recorded.
        let length = || fs::metadata(&places.said).unwrap().len();
        let before = length();
        wait_until("the program goes on", PATIENCE, || length() > before + 200);
    }
    program.kill().unwrap();
    bed.job.kill_all_and(|| disk.fail());
    program.wait().unwrap();
    power.boot();
    disk = disk.on_again();
    match after {
        After::Salvage => {
            let (status, told) = salvage(&bed.job.sandbox, &places.store.display().to_string());
            assert_eq!((status, &told["landed"]), (Some(0), &true.into()), "{under:?}: {told}");
        }
        After::Up => {
            let words: Vec<_> = words.iter().map(std::ffi::OsStr::new).collect();
            bed.job.up_again(&words);
            places.check(&bed.mount());
            bed.drain();
        }
    }
    let text = places.check(&places.backing);
    let is_ours = |entry: &fs::DirEntry| entry.file_name().as_bytes().starts_with(b".forebay");
    assert_eq!(fs::read_dir(&places.backing).unwrap().flatten().filter(is_ours).count(), 0, "a draft is left");
    bed.job.down();
    // The mounts here are removed after those that lie on them.
    drop(disk);
    text
}

/// The directories of one cut.
struct Places {
    _root: TempDir,
    store: PathBuf,
    /// Where a disk under `backing` is mounted.
    mounted: PathBuf,
    backing: PathBuf,
    /// The program's output.
    said: PathBuf,
}

impl Places {
    /// Out of the sandbox, which goes before what is mounted here.
    fn new() -> Self {
        let root = tempfile::Builder::new().prefix("forebay-power-").tempdir().unwrap();
        let [store, mounted, said] = ["store", "mounted", "said"].map(|name| root.path().join(name));
        fs::create_dir(&store).unwrap();
        fs::create_dir(&mounted).unwrap();
        Self { backing: mounted.join("landed"), _root: root, store, mounted, said }
    }

    /// Of `up`.
    fn arguments(&self, sandbox: &Sandbox) -> Vec<String> {
        let mut words = arguments(sandbox, 1);
        for word in &mut words {
            match word.as_str() {
                "1GiB" => "256MiB".clone_into(word),
                pair if pair.starts_with(DIR) => *word = format!("{DIR}={}", self.backing.display()),
                path if path.ends_with("/store") => *word = self.store.display().to_string(),
                _ => {}
            }
        }
        words
    }

    /// The power goes: after some writes and flushes, or as soon as something has landed.
    fn wait_for_the_end(&self, disk: &PowerDisk, seed: u64) {
        if seed % 4 < 2 {
            disk.cut_after(seed * 137 % 1201);
            wait_until("the power goes", PATIENCE, || disk.is_off());
        } else {
            self.wait_for_landing(seed % 29);
            disk.off();
        }
    }

    /// Returns when something has landed so many times more.
    fn wait_for_landing(&self, times: u64) {
        let look = || {
            let entries = fs::read_dir(&self.backing).unwrap().flatten();
            let inodes = entries.filter(|entry| !entry.file_name().as_bytes().starts_with(b".forebay"));
            inodes.map(|entry| (entry.file_name(), entry.ino())).collect::<BTreeSet<_>>()
        };
        let (mut before, began) = (look(), Instant::now());
        for _ in 0..=times {
            // Without a pause: the next thing that the landing does is not to be done any more.
            while look() == before {
                assert!(began.elapsed() < PATIENCE, "nothing lands");
            }
            before = look();
        }
    }

    /// Checks that a directory has all data that were safe. Returns the check's output.
    #[track_caller]
    fn check(&self, directory: &Path) -> String {
        run(Command::new("python3").arg(file_of_tests("burst/held.py")).arg(directory).arg(&self.said)).good().text()
    }
}
