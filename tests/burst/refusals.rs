//! Burst tiers that cannot be.

use std::ffi::OsStr;
use std::fs;

use forebay_tests::program::{Finished, run};
use forebay_tests::{Job, Sandbox, require};

use crate::bed::{DIR, arguments};

/// The output of `up` with one of the arguments changed.
#[track_caller]
fn refused(sandbox: &Sandbox, change: impl Fn(&mut Vec<String>)) -> String {
    let mut words = arguments(sandbox, 1);
    change(&mut words);
    let ended = sandbox.up(&words.iter().map(OsStr::new).collect::<Vec<_>>());
    assert!(!ended.status.success(), "it was not refused");
    assert_eq!(sandbox.left(), Vec::<String>::new());
    assert!(!sandbox.base().join("mounts").exists(), "what was made for it is gone");
    ended.stderr
}

fn set(words: &mut [String], option: &str, value: &str) {
    let at = words.iter().position(|word| word == option).unwrap();
    words[at + 1] = value.to_owned();
}

#[test]
fn errors_are_reported_before_the_first_write() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let said = refused(&sandbox, |_| {});
    assert!(said.contains("backing is not a directory; create it"), "{said}");
    fs::create_dir(sandbox.base().join("backing")).unwrap();
    let said = refused(&sandbox, |words| set(words, "--burst-capacity", "1MiB"));
    assert!(said.contains("too small"), "{said}");
    let said = refused(&sandbox, |words| set(words, "--burst-store", "/proc/store"));
    assert!(said.contains("/proc/store"), "{said}");
    let with = |more: &[&str]| refused(&sandbox, |words| words.extend(more.iter().map(|word| (*word).to_owned())));
    let said = with(&["--time-limit", "1h", "--drain", "manual"]);
    assert!(
        said.contains("--time-limit makes everything land in time, and --drain manual lets nothing land"),
        "{said}"
    );
    let said = with(&["--time-limit", "auto"]);
    assert!(said.contains("--time-limit auto; give a time"), "{said}");
    assert!(said.contains("this is not a job of Slurm or LSF"), "{said}");
    let said = with(&["--time-limit", "@1000000000"]);
    assert!(said.contains("--time-limit @1000000000: this time was "), "{said}");
    let said = with(&["--time-limit", "@1767225600000"]);
    assert!(said.contains("in more than ten years; give seconds since 1970 (now "), "{said}");
    let said = with(&["--partner", "all"]);
    assert!(said.contains("--partner: this job has one node"), "{said}");
    let said = with(&["--partner", "/elsewhere/some"]);
    assert!(said.contains("--partner: /elsewhere/some is not below /burst/ckpt"), "{said}");
    let said = with(&["--partner", "all", "--partner", "/burst/ckpt/d"]);
    assert!(said.contains("--partner: give none, all, or directories, and only one of these"), "{said}");
    let said = with(&["--drain-rate", "0"]);
    assert!(said.contains("'0' is not a rate; write for example 500MB/s"), "{said}");
    let said = with(&["--drain-ops", "0/s"]);
    assert!(said.contains("'0/s' is not a number of calls a second; write for example 2000/s"), "{said}");
    let said = refused(&sandbox, |words| set(words, "--burst", DIR));
    assert!(said.contains("/burst/ckpt is not a directory; create it"), "{said}");
    let said = refused(&sandbox, |words| {
        let at = words.iter().position(|word| word == "--burst-store").unwrap();
        words.drain(at..at + 2);
    });
    assert!(said.contains("--burst needs --burst-store"), "{said}");
}

#[test]
fn a_store_is_of_one_job() {
    require!(Fuse, Root);
    let bed = crate::bed::Bed::new();
    let _ = bed.shell("echo x > a").good();
    let other = Sandbox::new();
    fs::create_dir(other.base().join("backing")).unwrap();
    let store = bed.job.sandbox.base().join("store");
    let said = refused(&other, |words| set(words, "--burst-store", &store.display().to_string()));
    assert!(said.contains("in use by another daemon"), "{said}");
    bed.job.down();
}

/// `up` with a store that is found, and nothing in the environment but this `TMPDIR`.
fn auto(sandbox: &Sandbox, temporary: &str) -> Finished {
    let mut words = arguments(sandbox, 2);
    set(&mut words, "--burst-store", "auto");
    let mut up = sandbox.command();
    up.args(["up", "--job", &sandbox.name]).args(words);
    run(up.env_remove("SLURM_TMPDIR").env("USER", &sandbox.name).env("TMPDIR", temporary))
}

#[test]
fn a_store_is_found_and_named() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.base().join("backing")).unwrap();
    let refused = auto(&sandbox, "/dev/shm");
    assert_eq!(refused.status.code(), Some(1));
    let said = &refused.stderr;
    for looked_at in ["/mnt/bb/$USER: /mnt/bb/", "$SLURM_TMPDIR: not set", "$TMPDIR: /dev/shm lies in memory (tmpfs)"] {
        assert!(said.contains(looked_at), "{looked_at}: {said}");
    }
    let local = sandbox.base().join("local");
    fs::create_dir(&local).unwrap();
    let up = auto(&sandbox, &local.display().to_string()).good();
    let store = local.join(format!("forebay-{}", sandbox.name));
    let told = format!("the burst store is {} (auto: $TMPDIR)", store.display());
    assert_eq!(up.stderr.matches(&told).count(), 1, "{}", up.stderr);
    assert!(store.join("1/head").exists(), "each node has its own");
    Job::of(sandbox).down();
    assert!(!store.exists(), "it is gone with the job");
}

/// Holes that are punched into a file.
#[test]
fn operations_that_the_tier_lacks_are_refused_by_name() {
    require!(Fuse, Root);
    let bed = crate::bed::Bed::new();
    let script = r#"
        head -c 8192 /dev/zero | tr '\0' x > f
        LC_ALL=C fallocate -p -o 0 -l 4096 f 2>&1 || true
        tr -d x < f | wc -c
    "#;
    let said = bed.shell(script).good().text();
    let [hole, others] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    // As util-linux says EOPNOTSUPP.
    assert!(hole.contains("unsupported") && others == "0", "{said}");
    bed.job.down();
}
