//! Jobs of `sbatch`: the script of the README, and jobs that end otherwise than their scripts meant.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::time::Duration;

use forebay_tests::job::running;
use forebay_tests::program::{Finished, file_of_tests, run, wait_until};
use forebay_tests::{require, tree};

use crate::{NODES, Slurm};

/// How long a job may take to start and to do what it does here.
const JOB: Duration = Duration::from_secs(60);

/// A job of one minute that is ended by its time limit: Slurm looks every half minute.
const LIMIT: Duration = Duration::from_secs(150);

/// The time that `down` waits for silent daemons, where it does not notice that they are silent.
const DOWN_TIMEOUT: Duration = Duration::from_secs(12);

/// A job that `sbatch` took.
pub struct Batch<'a> {
    slurm: &'a Slurm,
    pub id: String,
    output: PathBuf,
}

impl Slurm {
    pub fn program(&self, name: &str) -> Program {
        let mut program = Program::new(name);
        self.surround(&mut program);
        let path = std::env::var("PATH").unwrap();
        program.env("PATH", format!("{}:{path}", self.sandbox.base().display()));
        program.env("forebay", &self.command).env("source", self.sandbox.source()).env("view", self.sandbox.view());
        program
    }

    /// Submits a script with more options; `$log` is a file of its own.
    pub fn submit(&self, name: &str, options: &[&str], script: &str) -> Batch<'_> {
        let [file, output, log] = ["sh", "out", "log"].map(|end| self.sandbox.base().join(format!("{name}.{end}")));
        fs::write(&file, script).unwrap();
        fs::write(&log, "").unwrap();
        let mut sbatch = self.program("sbatch");
        sbatch.env("log", log).arg("--parsable").arg("--output").arg(&output).args(options).arg(&file);
        let id = run(&mut sbatch).good().text().trim().to_owned();
        Batch { slurm: self, id, output }
    }

    pub fn scontrol(&self, arguments: &[&str]) -> Finished {
        run(self.program("scontrol").args(arguments))
    }

    /// Remains of these jobs, and of views at `$view`, on any of the nodes. A node's mounts begin as a copy of this
    /// machine's, with those of other tests.
    pub fn left_on_nodes(&self, jobs: &[&Batch<'_>]) -> String {
        let ids: String = jobs.iter().map(|job| format!("^forebay:{}/|", job.id)).collect();
        let look =
            r#"srun --ntasks-per-node=1 sh -c 'grep -hE "$ids $view" /proc/self/mounts; ls -d "$view"* 2>/dev/null'"#;
        self.batch(&format!("export ids='{ids}'; {look} || true")).good().text()
    }
}

impl Batch<'_> {
    pub fn state(&self) -> String {
        let shown = self.slurm.scontrol(&["--oneliner", "show", "job", &self.id]).good().text();
        let state = shown.split_whitespace().find_map(|word| word.strip_prefix("JobState="));
        state.unwrap_or_default().to_owned()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.output.with_extension("log")).unwrap()
    }

    pub fn said(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }

    #[track_caller]
    pub fn wait_for_log(&self, line: &str) {
        let what = format!("job {} comes to '{line}'", self.id);
        wait_until(&what, JOB, || self.log().lines().any(|known| known == line) || self.is_over());
        assert!(self.log().contains(line), "{}: {}", self.state(), self.said());
    }

    pub fn is_over(&self) -> bool {
        !matches!(self.state().as_str(), "PENDING" | "RUNNING" | "COMPLETING" | "REQUEUED" | "CONFIGURING")
    }

    /// Slurm lets a job that is queued anew wait for two minutes; not here. But a node refuses a job that it has killed in the same second
    /// ("Job credential revoked"), and the job has failed then.
    #[track_caller]
    pub fn start_again(&self) {
        let title = format!("slurmstepd: [{}.", self.id);
        let is_step = |process: PathBuf| {
            fs::read(process.join("cmdline")).is_ok_and(|command| command.starts_with(title.as_bytes()))
        };
        let is_over = || !fs::read_dir("/proc").unwrap().flatten().any(|entry| is_step(entry.path()));
        wait_until(&format!("no step of job {} is left", self.id), JOB, is_over);
        let _ = self.slurm.scontrol(&["update", &format!("jobid={}", self.id), "StartTime=now+2"]).good();
    }

    /// Slurm has ended its processes, and runs its epilogue.
    pub fn is_completing(&self) -> bool {
        let shown = run(self.slurm.program("squeue").args(["--noheader", "--format=%T", "--jobs", &self.id]));
        shown.text().trim() == "COMPLETING"
    }

    /// Waits until its log ends with this line.
    #[track_caller]
    pub fn wait_for_log_end(&self, line: &str) {
        let has_come = || self.log().trim_end().ends_with(line);
        wait_until(&format!("job {} comes to '{line}'", self.id), JOB, || has_come() || self.is_over());
        assert!(has_come(), "{}: {}", self.state(), self.said());
    }

    #[track_caller]
    pub fn wait_for_end(&self, state: &str, deadline: Duration) {
        wait_until(&format!("job {} ends", self.id), deadline, || self.is_over());
        assert_eq!(self.state(), state, "{}", self.said());
    }
}

/// The type of a FUSE mount as statfs(2) returns it, hexadecimal.
const FUSE_MAGIC: &str = "65735546";

/// The first block of the README that is a job's script.
fn script_of_readme() -> String {
    let readme = fs::read_to_string(file_of_tests("../README.md")).unwrap();
    let begin = readme.find("#!/bin/sh -e\n#SBATCH").expect("the README has a job's script");
    let script = &readme[begin..];
    script[..script.find("```").unwrap()].to_owned()
}

#[test]
fn the_script_of_the_readme_runs() {
    require_slurm!();
    let slurm = Slurm::up();
    let script = script_of_readme();
    assert_eq!(script.lines().count(), 5, "{script}");
    // Stands for an environment with a Python; says what task it is, where, what is to be run, and from what kind of file
    // system (statfs(2)).
    let python = slurm.sandbox.source().join("bin/python3");
    fs::create_dir(python.parent().unwrap()).unwrap();
    tree::write(
        &python,
        b"#!/bin/sh\necho \"task $SLURM_PROCID on $(hostname) runs $0 $1 from $(stat -f -c %t $0)\"\n",
    );
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(script.contains("/soft/env"), "{script}");
    let script = script.replace("/soft/env", &slurm.sandbox.source().display().to_string());
    let batch = slurm.submit("readme", &[], &script);
    batch.wait_for_end("COMPLETED", JOB);
    let said = batch.said();
    assert!(said.contains(&format!("{NODES} nodes ready in ")) && said.contains("is down"), "{said}");
    for task in 0..2 * NODES {
        let line = said.lines().find(|line| line.starts_with(&format!("task {task} on n")));
        let line = line.unwrap_or_else(|| panic!("task {task}: {said}"));
        assert!(line.ends_with(&format!("runs {} train.py from {FUSE_MAGIC}", python.display())), "{line}");
    }
    assert_eq!(slurm.left_on_nodes(&[&batch]), "");
    assert_eq!(running(&slurm.command), [] as [u32; 0]);
    assert!(!Path::new("/tmp/forebay-0").join(&batch.id).exists());
}

/// Brings the job's tier up, tells so, and computes for ever with two tasks on each node.
const FOR_EVER: &str = r#"#!/bin/sh -e
#SBATCH --nodes=4 --ntasks-per-node=2
"$forebay" up --export "$source" --view "$view-$SLURM_JOB_ID" --fanout 2
srun sh -c 'cat "$view-$SLURM_JOB_ID$source/file" && echo read >>"$log" && exec sleep 600'
"#;

/// The same at first; when it is started again it comes to its end.
const ONCE_FOR_EVER: &str = r#"#!/bin/sh -e
#SBATCH --nodes=4 --ntasks-per-node=2 --requeue --open-mode=append
"$forebay" up --export "$source" --view "$view-$SLURM_JOB_ID" --fanout 2
srun sh -c 'cat "$view-$SLURM_JOB_ID$source/file" && echo "read ${SLURM_RESTART_COUNT:-0}" >>"$log"'
test "${SLURM_RESTART_COUNT:-0}" = 1 || { echo waits >>"$log"; exec sleep 600; }
"$forebay" down
"#;

/// Three jobs on the same nodes at once, ended by the user, by the scheduler and by their time.
#[test]
fn jobs_that_are_ended_leave_nothing_behind() {
    require_slurm!();
    let slurm = Slurm::up();
    tree::write(&slurm.sandbox.source().join("file"), b"hello\n");
    let limited = slurm.submit("limited", &["--time=1"], FOR_EVER);
    limited.wait_for_log("read");
    let cancelled = slurm.submit("cancelled", &[], FOR_EVER);
    cancelled.wait_for_log("read");
    let daemons = running(&slurm.command).len();
    assert!(daemons >= 2 * 2 * NODES, "two jobs on the same nodes: {daemons}");
    let _ = run(slurm.program("scancel").arg(&cancelled.id)).good();
    cancelled.wait_for_end("CANCELLED", JOB);

    let requeued = slurm.submit("requeued", &[], ONCE_FOR_EVER);
    // A step that the requeue cancels fails its script: Slurm may call the job FAILED then.
    requeued.wait_for_log("waits");
    let _ = slurm.scontrol(&["requeue", &requeued.id]).good();
    wait_until("the job is queued anew", JOB, || requeued.state() == "PENDING");
    requeued.start_again();
    requeued.wait_for_log("read 1");
    requeued.wait_for_end("COMPLETED", JOB);
    assert_eq!(requeued.log().matches("read 1").count(), 2 * NODES);
    assert!(!requeued.said().contains("cleaned up after a dead job"), "{}", requeued.said());

    limited.wait_for_end("TIMEOUT", LIMIT);
    let gone = || running(&slurm.command).is_empty();
    wait_until("no process of any of them is left", JOB, gone);
    assert_eq!(slurm.left_on_nodes(&[&limited, &cancelled, &requeued]), "");
    for batch in [&limited, &cancelled, &requeued] {
        let directory = Path::new("/tmp/forebay-0").join(&batch.id);
        assert!(!directory.exists(), "{}: {:?}", batch.said(), fs::read_dir(directory).map(Iterator::count));
    }
}

/// The directory `local` is another one on each node.
#[test]
fn a_job_goes_on_without_a_node_that_fails() {
    require_slurm!();
    let slurm = Slurm::up();
    let done = slurm.batch(
        r#"
        export local="$FB_SLURM/local"
        srun --overlap --ntasks-per-node=1 sh -c 'mkdir -p "$local"; [ "$(hostname)" = n3 ] || mkdir "$local/data"'
        srun --overlap --ntasks-per-node=1 sh -c '[ "$(hostname)" = n3 ] || hostname >"$local/data/file"'
        if "$forebay" up --export "$local/data" --view "$view" >&2; then echo up; fi
        "$forebay" up --export "$local/data" --view "$view" --on-missing continue >&2; echo "up: $?"
        srun --overlap --ntasks-per-node=1 sh -c 'cat "$view$local/data/file" 2>/dev/null || echo "$(hostname): nothing"'
        "$forebay" status >&2 || echo "status: $?"
        "$forebay" down >&2
        echo "down: $?"
    "#,
    );
    let (printed, said) = (done.text(), done.stderr);
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    // The first node reads for others; all see its file.
    assert_eq!(lines, ["down: 0", "n1", "n1", "n1", "n3: nothing", "status: 3", "up: 0"], "{said}");
    assert!(said.contains("node 2 (n3): ") && said.contains("cannot export"), "{said}");
    assert!(said.contains("missing"), "{said}");
    assert_eq!(running(&slurm.command), [] as [u32; 0]);
}

/// A daemon on another node that is stopped cannot be told over the overlay; its host can.
#[test]
fn a_stopped_daemon_does_not_hold_down_up() {
    require_slurm!();
    let slurm = Slurm::up();
    tree::write(&slurm.sandbox.source().join("file"), b"hello\n");
    let done = slurm.batch(
        r#"
        "$forebay" up --export "$source" --view "$view" >&2
        record="/tmp/forebay-0/$SLURM_JOB_ID/node-3.json"
        pid=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["daemon"]["pid"])' "$record")
        srun --overlap --nodes=1 --ntasks=1 -w n4 kill -STOP "$pid"
        date +%s
        "$forebay" down --json
        date +%s
    "#,
    );
    let printed = done.good().text();
    let lines: Vec<&str> = printed.lines().collect();
    let [before, down, after] = lines.as_slice() else { panic!("{printed}") };
    let took: u64 = after.parse::<u64>().unwrap() - before.parse::<u64>().unwrap();
    let down: serde_json::Value = serde_json::from_str(down).unwrap();
    assert_eq!(down["ended"], serde_json::json!([0, 1, 2, 3]), "{down}");
    assert!(took < DOWN_TIMEOUT.as_secs(), "{took} s: {down}");
    assert_eq!(running(&slurm.command), [] as [u32; 0]);
    assert_eq!(slurm.left_on_nodes(&[]), "");
}
