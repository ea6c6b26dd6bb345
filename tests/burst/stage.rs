//! Inputs that are on the nodes before programs read them, and results that go to other places.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use forebay_tests::program::Finished;
use forebay_tests::{Sandbox, require, tree};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::Value;

use crate::bed::{Bed, DIR};

const NODES: u32 = 4;

/// Bytes of the one file that is more than one block.
const LARGE: usize = (20 << 20) + 3;

/// A job whose export has a tree of inputs.
fn bed() -> (Bed, PathBuf) {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.base().join("backing")).unwrap();
    let inputs = sandbox.source().join("inputs");
    fs::create_dir_all(inputs.join("below/deeper")).unwrap();
    tree::write(&inputs.join("below/large"), &tree::contents(LARGE));
    tree::fill(&inputs.join("below/deeper"), "small", 50);
    tree::write(&inputs.join("empty"), b"");
    std::os::unix::fs::symlink("below/large", inputs.join("link")).unwrap();
    (Bed::up(sandbox, NODES), inputs)
}

impl Bed {
    fn stage(&self, words: &[&str], source: &Path, destination: &Path) -> Finished {
        let (source, destination) = (source.display().to_string(), destination.display().to_string());
        let split = words.iter().copied().chain([source.as_str(), destination.as_str()]);
        let mut all = vec!["stage", words[0], "--job", &self.job.sandbox.name];
        all.extend(split.skip(1));
        forebay_tests::program::run(self.job.sandbox.command().args(all))
    }

    #[track_caller]
    fn staged(&self, words: &[&str], source: &Path, destination: &Path) -> Value {
        let words: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
        serde_json::from_slice(&self.stage(&words, source, destination).good().stdout).unwrap()
    }

    fn backing_bytes(&self) -> u64 {
        let status = self.job.status();
        status["nodes"].as_array().unwrap().iter().map(|node| node["backing"]["bytes"].as_u64().unwrap()).sum()
    }
}

fn number(staged: &Value, key: &str) -> u64 {
    staged[key].as_u64().unwrap_or_else(|| panic!("{key}: {staged}"))
}

#[test]
fn every_node_gets_inputs_and_they_are_read_once() {
    require!(Fuse, Root);
    let (bed, inputs) = bed();
    let local = bed.job.sandbox.base().join("local");
    let before = bed.backing_bytes();
    let staged = bed.staged(&["in"], &inputs, &local);
    let (files, bytes) = (number(&staged, "files"), number(&staged, "bytes"));
    assert_eq!((files, number(&staged, "copied_bytes")), (u64::from(NODES) * 53, bytes), "{staged}");
    let (read, one) = (bed.backing_bytes() - before, bytes / u64::from(NODES));
    assert!(
        (one..2 * one).contains(&read),
        "{read} of {bytes} bytes are read from the backing file system, by the job"
    );
    for node in 0..NODES {
        assert_eq!(Bed::listing(&local.join(node.to_string())), Bed::listing(&inputs));
    }
    // Again: it is looked at, and what is wrong is put right.
    let spoiled = local.join("2/below/large");
    let modified = spoiled.metadata().unwrap().modified().unwrap();
    let file = fs::File::options().write(true).open(&spoiled).unwrap();
    file.write_all_at(b"spoiled", 1 << 20).unwrap();
    file.set_modified(modified).unwrap();
    fs::remove_file(local.join("3/empty")).unwrap();
    let again = bed.staged(&["in"], &inputs, &local);
    assert_eq!(number(&again, "files_that_were_there"), files - 2, "{again}");
    assert_eq!(number(&again, "copied_bytes"), LARGE as u64);
    assert_eq!(Bed::listing(&local.join("2")), Bed::listing(&inputs));
    let told = bed.stage(&["in"], &inputs, &local).good().text();
    assert!(told.starts_with(&format!("staged in: {files} files, ")), "{told}");
    assert!(told.contains(&format!("on {NODES} nodes; {files} were there, 0B copied")), "{told}");
    bed.job.down();
}

#[test]
fn scattered_inputs_are_on_one_node_each() {
    require!(Fuse, Root);
    let (bed, inputs) = bed();
    let local = bed.job.sandbox.base().join("local");
    let staged = bed.staged(&["in", "--scatter"], &inputs, &local);
    assert_eq!((number(&staged, "files"), number(&staged, "missing_files")), (53, 0));
    let mut seen = vec![];
    for node in 0..NODES {
        let own = local.join(node.to_string());
        let listing = Bed::listing(&own);
        seen.extend(listing.lines().map(str::to_owned));
        let small = fs::read_dir(own.join("below/deeper")).unwrap().count();
        assert!(small < 50, "node {node} has {small} of the small files");
    }
    seen.sort();
    let mut expected: Vec<String> = Bed::listing(&inputs).lines().map(str::to_owned).collect();
    expected.sort();
    assert_eq!(seen, expected);
    bed.job.down();
}

#[test]
fn inputs_for_the_burst_tier_are_everywhere_and_land() {
    require!(Fuse, Root);
    let (bed, inputs) = bed();
    let staged = bed.staged(&["in"], &inputs, &Path::new(DIR).join("inputs"));
    assert_eq!((number(&staged, "files"), number(&staged, "copied_bytes")), (53, number(&staged, "bytes")));
    for node in 0..NODES {
        assert_eq!(Bed::listing(&bed.mount_of(node).join("inputs")), Bed::listing(&inputs));
    }
    bed.drain();
    assert_eq!(Bed::listing(&bed.backing().join("inputs")), Bed::listing(&inputs));
    // Files below BACKING are in the tier without staging; to stage them is to read them ahead, on all nodes.
    let told = bed.stage(&["in"], &bed.backing().join("inputs"), &Path::new(DIR).join("inputs")).good().text();
    assert!(told.starts_with(&format!("read ahead: {} files, ", NODES * 53)), "{told}");
    bed.job.down();
}

#[test]
fn results_go_out_whole_or_not_at_all() {
    require!(Fuse, Root);
    let bed = Bed::of(NODES);
    for node in 0..NODES {
        let script = format!(
            "mkdir results{node}; head -c 9000000 /dev/urandom > results{node}/part; ln -s part results{node}/link"
        );
        let _ = bed.shell_on(node, &script).good();
    }
    let out = bed.job.sandbox.base().join("out");
    let staged = bed.staged(&["out"], Path::new(DIR), &out);
    assert_eq!((number(&staged, "files"), number(&staged, "copied_bytes")), (8, 36_000_000), "{staged}");
    assert_eq!(Bed::listing(&out), Bed::listing(&bed.mount()));
    assert_eq!(number(&bed.staged(&["out"], Path::new(DIR), &out), "files_that_were_there"), 8);

    // Each node finds room for its part, and all of them together do not have it.
    let full = bed.job.sandbox.base().join("full");
    fs::create_dir(&full).unwrap();
    mount("tmpfs", &full, "tmpfs", MountFlags::empty(), Some(c"size=20m")).unwrap();
    let place = full.join("results");
    let ended = bed.stage(&["out", "--json"], Path::new(DIR), &place);
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    let told: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let missing = told["missing"].as_array().unwrap();
    assert!(!missing.is_empty() && number(&told, "missing_files") == missing.len() as u64, "{told}");
    assert!(missing.iter().any(|file| file["why"].as_str().unwrap().contains("No space left on device")), "{told}");
    for node in 0..NODES {
        let name = format!("results{node}/part");
        let is_missing = missing.iter().any(|file| file["path"] == place.join(&name).display().to_string());
        let there = place.join(&name).metadata().map(|there| there.size()).ok();
        assert_eq!(there, (!is_missing).then_some(9_000_000), "{name}: {told}");
    }
    let said = bed.stage(&["out"], Path::new(DIR), &full.join("again")).stderr;
    assert!(said.contains("of free space, and ") && said.contains("nothing was copied"), "{said}");
    assert!(!full.join("again").exists());
    unmount(&full, UnmountFlags::DETACH).unwrap();
    bed.job.down();
}

#[test]
fn unstageable_files_are_reported() {
    require!(Fuse, Root);
    let (bed, inputs) = bed();
    let refused = |words: &[&str], source: &Path, destination: &Path| {
        let ended = bed.stage(words, source, destination);
        assert_eq!(ended.status.code(), Some(1), "{words:?} {}: {}", destination.display(), ended.stderr);
        ended.stderr
    };
    let base = bed.job.sandbox.base();
    let said = refused(&["out"], &inputs, &base.join("out"));
    assert!(said.contains("inputs is not in the burst tier, which is at /burst/ckpt"), "{said}");
    let said = refused(&["out"], Path::new(DIR), &bed.backing().join("elsewhere"));
    assert!(said.contains("lands by itself; forebay drain --wait"), "{said}");
    let said = refused(&["in"], &inputs.join("none"), &base.join("local"));
    assert!(said.contains("inputs/none") && said.contains("No such file"), "{said}");
    let view = bed.job.view(0).join("local");
    let said = refused(&["in"], &inputs, &view);
    assert!(said.contains("network file system (FUSE)") && said.contains("overwrite each other's files"), "{said}");
    let _ = bed.shell("mkfifo pipe; echo x > file").good();
    let said = bed.stage(&["out"], Path::new(DIR), &base.join("out"));
    assert_eq!(said.status.code(), Some(3), "{}", said.stderr);
    assert!(said.stderr.contains("pipe is not a file, directory or symbolic link"), "{}", said.stderr);
    assert_eq!(fs::read(base.join("out/file")).unwrap(), b"x\n");
    bed.job.down();
}

/// A user that is neither root nor the job's.
const STRANGER: u32 = 12_345;

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// In a directory that others may write to they could change what programs read.
#[test]
fn inputs_are_staged_only_where_nobody_else_can_put_files() {
    require!(Fuse, Root);
    let (bed, inputs) = bed();
    let base = bed.job.sandbox.base();
    let local = base.join("local");
    let planted = local.join("1/below/large");
    fs::create_dir_all(planted.parent().unwrap()).unwrap();
    tree::write(&planted, b"not an input");
    let refused = |problem: &str| {
        let ended = bed.stage(&["in"], &inputs, &local);
        assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
        let what = format!("node 1: nothing is staged to {}", local.join("1").display());
        assert!(ended.stderr.contains(&what) && ended.stderr.contains(problem), "{}", ended.stderr);
        assert_eq!(fs::read(&planted).unwrap(), b"not an input");
    };
    chmod(&local.join("1"), 0o777);
    refused("others may write to it");
    chmod(&local.join("1"), 0o755);
    chown(local.join("1"), Some(STRANGER), None).unwrap();
    refused(&format!("belongs to user {STRANGER}"));
    chown(local.join("1"), Some(0), None).unwrap();
    chmod(&local.join("1/below"), 0o1777);
    // With the sticky bit, another user's file stays another user's.
    chown(&planted, Some(STRANGER), None).unwrap();
    let _ = bed.stage(&["in"], &inputs, &local).good();
    assert_eq!(Bed::listing(&local.join("1")), Bed::listing(&inputs));
    assert_eq!(planted.metadata().unwrap().uid(), 0);
    let made = local.join("0/below").metadata().unwrap();
    assert_eq!(made.mode() & 0o022, 0, "{:o}", made.mode());
    bed.job.down();
}

/// A project's directory: its other users may write there.
#[test]
fn results_are_not_written_into_files_that_others_have_put_there() {
    require!(Fuse, Root);
    let bed = Bed::of(1);
    let _ = bed.shell("umask 077; echo secret > a; echo secret > b; echo secret > c; echo secret > d").good();
    let elsewhere = tempfile::tempdir().unwrap();
    let out = elsewhere.path().join("out");
    fs::create_dir(&out).unwrap();
    chmod(&out, 0o777);
    let at = |name: &str| out.join(name);
    fs::write(at(".forebay-stage-6d1f0b52c8a94e37-a"), "").unwrap();
    chmod(&at(".forebay-stage-6d1f0b52c8a94e37-a"), 0o666);
    chown(at(".forebay-stage-6d1f0b52c8a94e37-a"), Some(STRANGER), None).unwrap();
    let pipe = |name: &str| mknodat(CWD, at(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    pipe(".forebay-stage-6d1f0b52c8a94e37-b.sums");
    let reader = fs::File::open(at(".forebay-stage-6d1f0b52c8a94e37-a")).unwrap();
    let ended = bed.stage(&["out"], Path::new(DIR), &out);
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    for (name, planted) in [("a", ".forebay-stage-6d1f0b52c8a94e37-a"), ("b", ".forebay-stage-6d1f0b52c8a94e37-b.sums")]
    {
        let why = format!("{} is there and is not a file that this user alone has made", at(planted).display());
        assert!(ended.stderr.contains(&why), "{name}: {}", ended.stderr);
        assert!(!at(name).exists(), "{name}");
    }
    assert_eq!(reader.metadata().unwrap().len(), 0, "nothing was written to the stranger's file");
    for name in ["c", "d"] {
        assert_eq!(fs::read(at(name)).unwrap(), b"secret\n", "{name}");
    }
    bed.job.down();
}

/// The end of a job waits for no pipe.
#[test]
fn down_is_not_held_by_a_pipe_in_place_of_a_journal() {
    require!(Fuse, Root);
    let elsewhere = tempfile::tempdir().unwrap();
    let out = elsewhere.path().join("out");
    let pair = format!("{DIR}={}", out.display());
    let bed = Bed::with(1, &["--stage-out", &pair]);
    let _ = bed.shell("echo result > result").good();
    fs::create_dir(&out).unwrap();
    mknodat(CWD, out.join(".forebay-stage-6d1f0b52c8a94e37-result.sums"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .unwrap();
    let down = bed.command(&["down"]);
    assert_eq!(down.status.code(), Some(3), "{}", down.stderr);
    assert!(
        down.stderr.contains(".forebay-stage-6d1f0b52c8a94e37-result.sums is there and is not a file"),
        "{}",
        down.stderr
    );
    assert_eq!(fs::read(bed.backing().join("result")).unwrap(), b"result\n", "it has landed all the same");
    bed.job.forget();
}

#[test]
fn a_job_stages_what_its_script_says() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let base = sandbox.base();
    fs::create_dir(base.join("backing")).unwrap();
    tree::write(&sandbox.source().join("input"), b"input\n");
    // Outlives the job's directories.
    let elsewhere = tempfile::tempdir().unwrap();
    let (script, local, out) = (base.join("job.sh"), base.join("local"), elsewhere.path().join("out"));
    let directives = |capacity: &str| {
        format!(
            "#!/bin/sh\n#FB capacity={capacity} policy=end\n#FB stage_in source={} destination={}/%j\n\
             #FB stage_out source={DIR}/result destination={}\n",
            sandbox.source().join("input").display(),
            local.display(),
            out.display()
        )
    };
    let mut words = crate::bed::arguments(&sandbox, 2);
    let at = words.iter().position(|word| word == "--burst-capacity").unwrap();
    words.drain(at..at + 2);
    words.extend(["--directives".to_owned(), script.display().to_string()]);
    let words: Vec<&std::ffi::OsStr> = words.iter().map(std::ffi::OsStr::new).collect();
    fs::write(&script, directives("lots")).unwrap();
    let refused = sandbox.up(&words);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("job.sh, line 2: #FB capacity=lots policy=end: 'lots' is not a size"),
        "{}",
        refused.stderr
    );

    fs::write(&script, directives("512MiB")).unwrap();
    let up = sandbox.up(&words).good();
    assert!(up.stderr.contains("staged in: 2 files, 12B on 2 nodes"), "{}", up.stderr);
    let name = sandbox.name.clone();
    for node in 0..2 {
        assert_eq!(fs::read(local.join(&name).join(node.to_string())).unwrap(), b"input\n");
    }
    let bed = Bed { job: forebay_tests::Job::of(sandbox) };
    assert_eq!(bed.job.status()["nodes"][1]["burst"]["capacity_bytes"], 512 << 20);
    let _ = bed.shell_on(1, "echo result > result").good();
    assert_eq!(bed.landed("result")["state"], "committed", "the policy is to wait for the end");
    bed.job.down();
    assert_eq!(fs::read(&out).unwrap(), b"result\n");
}
