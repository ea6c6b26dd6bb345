//! The epilogue runs as root on a node that the job's user still has processes on: whatever they do to it, it comes to its end, in limited
//! time, with limited memory and output. No scheduler is needed for that.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command as Program, Stdio};
use std::time::{Duration, Instant};

use forebay_tests::job::binary;
use forebay_tests::program::{Finished, copy_program, file_of_tests, run};
use forebay_tests::require;

/// As long as a store may take here, seconds, and what the script adds to end what does not end by itself.
const LIMIT: u64 = 1;
const GRACE: Duration = Duration::from_secs(12);

/// The time that a busy machine may add.
const SOON: Duration = Duration::from_secs(20);

struct Bed {
    directory: tempfile::TempDir,
}

impl Bed {
    /// With an empty store, and a command that is this script.
    fn of(command: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let bed = Self { directory };
        fs::set_permissions(bed.directory.path(), Permissions::from_mode(0o755)).unwrap();
        let store = bed.path("nobody/forebay-7");
        fs::create_dir_all(&store).unwrap();
        for path in [bed.path("nobody"), store] {
            std::os::unix::fs::chown(path, Some(65_534), Some(65_534)).unwrap();
        }
        fs::write(bed.path("forebay"), format!("#!/bin/sh\n{command}\n")).unwrap();
        fs::set_permissions(bed.path("forebay"), Permissions::from_mode(0o755)).unwrap();
        bed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs the script as Slurm does: with hardly an environment, and without `PATH`.
    fn epilogue(&self, limit: u64, more: &[(&str, &str)]) -> (Finished, Duration) {
        let mut script = Program::new("/bin/sh");
        script.arg(fs::canonicalize(file_of_tests("../packaging/epilog.sh")).unwrap()).env_clear();
        script.env("SLURM_JOB_ID", "7").env("SLURM_JOB_USER", "nobody").env("FOREBAY", self.path("forebay"));
        script.env("FOREBAY_EPILOG_STORES", self.path("%u/forebay-%j")).env("FOREBAY_EPILOG_LIMIT", limit.to_string());
        let began = Instant::now();
        let ended = run(script.envs(more.iter().copied()).stdin(Stdio::null()));
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        (ended, began.elapsed())
    }
}

#[test]
fn an_epilogue_without_a_path_lands_stores_and_keeps_what_is_said() {
    require!(Root, Command("setpriv"));
    let bed = Bed::of(r#"echo "$(id -un): $*, $(ulimit -d)"; exit 0"#);
    let (ended, _) = bed.epilogue(60, &[]);
    let store = bed.path("nobody/forebay-7");
    let said = format!("nobody: salvage --burst-store {} --meet 2min --timeout 5min, 4194304", store.display());
    assert!(ended.text().contains("(status 0): ") && ended.text().contains(&said), "{}{}", ended.text(), ended.stderr);
    assert!(!store.exists(), "the directory that the store was in");
    let bed = Bed::of("exit 3");
    assert!(bed.epilogue(60, &[]).0.text().contains("(status 3)"));
    assert!(bed.path("nobody/forebay-7").exists());
    let (ended, _) = bed.epilogue(60, &[("FOREBAY", "/nonexistent/forebay")]);
    assert!(ended.text().contains("there is no command /nonexistent/forebay; set FOREBAY"), "{}", ended.text());
}

#[test]
fn a_command_that_never_ends_is_killed() {
    require!(Root, Command("setpriv"));
    for (command, status) in [("kill -STOP $$", 124), ("trap '' TERM; while :; do read line; done </dev/zero", 137)] {
        let (ended, took) = Bed::of(command).epilogue(LIMIT, &[]);
        assert!(ended.text().contains(&format!("(status {status})")), "{command}: {}", ended.text());
        assert!(took < Duration::from_secs(LIMIT) + GRACE + SOON, "{command}: {took:?}");
    }
}

#[test]
fn a_process_that_holds_the_output_does_not_hold_the_epilogue() {
    require!(Root, Command("setpriv"), Command("setsid"));
    let bed = Bed::of("setsid sh -c 'echo $$ >\"$0\"; exec sleep 600' \"${0%/*}/nobody/holder\" & echo over; exit 0");
    let (ended, took) = bed.epilogue(LIMIT, &[]);
    assert!(ended.text().contains("(status 0): over"), "{}", ended.text());
    assert!(took < Duration::from_secs(LIMIT) + GRACE + SOON, "{took:?}");
    let holder = fs::read_to_string(bed.path("nobody/holder")).unwrap();
    let _ = run(Program::new("kill").arg(holder.trim())).good();
}

#[test]
fn a_flood_of_output_is_cut() {
    require!(Root, Command("setpriv"));
    let (ended, _) = Bed::of("yes 'a line' | head -c 8000000; printf '\\033[2J'; exit 4").epilogue(60, &[]);
    assert!(ended.text().contains("(status 4)"), "it is read to its end: {}", ended.text());
    assert!(ended.text().len() < 20_000, "{} bytes", ended.text().len());
    let (ended, _) = Bed::of("printf 'a\\033[2Jb\\n'").epilogue(60, &[]);
    assert!(ended.text().contains("a[2Jb"), "{}", ended.text());
}

/// The command itself, on stores that are none.
#[test]
fn pipes_and_huge_files_in_a_store_cost_neither_time_nor_memory() {
    require!(Root, Command("setpriv"));
    let bed = Bed::of("");
    copy_program(&binary(), &bed.path("forebay"));
    let store = bed.path("nobody/forebay-7");
    let as_nobody = |script: &str| {
        let ids = ["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-euc", script];
        let _ = run(Program::new("setpriv").args(ids).current_dir(&store)).good();
    };
    as_nobody("chmod 700 .");
    for (plant, said) in [
        ("mkfifo head", "not a regular file"),
        ("rm -f head lock; mkfifo lock; echo x > head", "not a regular file"),
        ("rm -f head lock; truncate -s 200G head", "head"),
    ] {
        as_nobody(plant);
        let (ended, took) = bed.epilogue(60, &[]);
        assert!(ended.text().contains("(status 1)") && ended.text().contains(said), "{plant}: {}", ended.text());
        assert!(took < SOON, "{plant}: {took:?}");
    }
}
