//! Requests of programs have priority over prefetches, also at the backing file system and from whatever node: over
//! one that is slow, while prefill asks it for a thousand files.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_testkit::model::{Model, Parameters};
use forebay_tests::program::wait_until;
use forebay_tests::{Job, Sandbox, require, tree};

const FILES: usize = 1000;

const PATIENCE: Duration = Duration::from_secs(60);

/// A file system that answers at once.
const FAST: Parameters =
    Parameters { metadata_us: 0, at_once: 64, link_bits_per_second: 10_000_000_000, client_ttl_ms: 1000 };

/// One that needs ten seconds for opening the files, with all that it can do at once.
const SLOW: Parameters = Parameters { metadata_us: 20_000, at_once: 2, ..FAST };

fn profile(place: &Path) -> PathBuf {
    place.join("start.profile")
}

/// A job of some nodes over a model's mount, with a profile beside it.
fn up(place: &Path, export: &Path, nodes: u32) -> Job {
    let profile = profile(place);
    let options = ["--profile", profile.to_str().unwrap(), "--pack", "off", "--backing-concurrency", "8"];
    Job::up_local(Sandbox::new(), nodes, export, &options)
}

fn opens(job: &Job) -> u64 {
    job.status()["totals"]["backing"]["opens"].as_u64().unwrap()
}

/// A source and where it is exported.
fn site(place: &Path) -> [PathBuf; 2] {
    let [source, export] = ["source", "export"].map(|name| place.join(name));
    for dir in [source.join("used"), source.join("else"), export.clone()] {
        fs::create_dir_all(dir).unwrap();
    }
    (0..FILES).for_each(|number| tree::write(&source.join(format!("used/{number}")), &[7; 100]));
    tree::write(&source.join("else/file"), b"contents");
    [source, export]
}

/// A start-up that reads the files is written down.
fn record(place: &Path, source: &Path, export: &Path) {
    let mount = Model::new(source, FAST).unwrap().mount(export).unwrap();
    let job = up(place, export, 1);
    for number in 0..FILES {
        assert_eq!(fs::read(job.path(0, &export.join(format!("used/{number}")))).unwrap(), [7; 100]);
    }
    wait_until("the start-up is written down", PATIENCE, || profile(place).exists());
    job.down();
    drop(mount);
}

#[test]
fn a_program_does_not_wait_for_what_prefill_asks() {
    require!(Fuse, Root);
    let place = tempfile::tempdir().unwrap();
    let [source, export] = site(place.path());
    record(place.path(), &source, &export);
    let mount = Model::new(&source, SLOW).unwrap().mount(&export).unwrap();
    let job = up(place.path(), &export, 1);
    wait_until("prefill reads files", PATIENCE, || opens(&job) >= 20);
    assert_eq!(fs::read(job.path(0, &export.join("else/file"))).unwrap(), b"contents");
    let opened = opens(&job);
    assert!(opened < FILES as u64 / 2, "a program waited until {opened} files were open");
    job.down();
    drop(mount);
}

const MIB: usize = 1 << 20;

/// A node that reads a file in order asks another for the next part before its program does. When that part is wanted, the
/// other node is told.
#[test]
fn a_prefetch_for_another_node_is_promoted_there() {
    require!(Fuse, Root);
    let place = tempfile::tempdir().unwrap();
    let [source, export] = site(place.path());
    tree::write(&source.join("else/large"), &vec![5; 8 * MIB]);
    record(place.path(), &source, &export);
    let mount = Model::new(&source, SLOW).unwrap().mount(&export).unwrap();
    let job = up(place.path(), &export, 2);
    wait_until("prefill reads files", PATIENCE, || opens(&job) >= 20);
    let file = File::open(job.path(1, &export.join("else/large"))).unwrap();
    // Or the kernel would read ahead itself.
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
    let mut bytes = vec![0; 7 * MIB / 4];
    file.read_exact_at(&mut bytes, 0).unwrap();
    for chunk in 2..6 {
        // Both nodes answer this after what was asked before; most of the time, which is enough.
        opens(&job);
        file.read_exact_at(&mut bytes[..MIB], (chunk * MIB) as u64).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 5));
    }
    let opened = opens(&job);
    assert!(opened < FILES as u64 / 2, "a program waited until {opened} files were open");
    let promoted = job.status()["nodes"][0]["overlay"]["promoted"].as_u64().unwrap();
    assert!((1..=4).contains(&promoted), "the node that reads was asked ahead, and told: {promoted}");
    job.down();
    drop(mount);
}
