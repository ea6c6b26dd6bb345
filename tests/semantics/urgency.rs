//! What a program asks goes before what is asked ahead of it, also at the backing file system: over one that is slow, while
//! prefill asks it for a thousand files.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_bench::model::{Model, Parameters};
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

/// A job of one node over a model's mount, with a profile beside it.
fn up(place: &Path, export: &Path) -> Job {
    let profile = profile(place);
    let options = ["--profile", profile.to_str().unwrap(), "--pack", "off", "--backing-concurrency", "8"];
    Job::up_local(Sandbox::new(), 1, export, &options)
}

fn opens(job: &Job) -> u64 {
    job.status()["totals"]["backing"]["opens"].as_u64().unwrap()
}

#[test]
fn a_program_does_not_wait_for_what_prefill_asks() {
    require!(Fuse, Root);
    let place = tempfile::tempdir().unwrap();
    let [source, export] = ["source", "export"].map(|name| place.path().join(name));
    for dir in [source.join("used"), source.join("else"), export.clone()] {
        fs::create_dir_all(dir).unwrap();
    }
    (0..FILES).for_each(|number| tree::write(&source.join(format!("used/{number}")), &[7; 100]));
    tree::write(&source.join("else/file"), b"contents");

    let mount = Model::new(&source, FAST).unwrap().mount(&export).unwrap();
    let job = up(place.path(), &export);
    for number in 0..FILES {
        assert_eq!(fs::read(job.path(0, &export.join(format!("used/{number}")))).unwrap(), [7; 100]);
    }
    wait_until("the start-up is written down", PATIENCE, || profile(place.path()).exists());
    job.down();
    drop(mount);

    let mount = Model::new(&source, SLOW).unwrap().mount(&export).unwrap();
    let job = up(place.path(), &export);
    wait_until("prefill reads files", PATIENCE, || opens(&job) >= 20);
    assert_eq!(fs::read(job.path(0, &export.join("else/file"))).unwrap(), b"contents");
    let opened = opens(&job);
    assert!(opened < FILES as u64 / 2, "a program waited until {opened} files were open");
    job.down();
    drop(mount);
}
