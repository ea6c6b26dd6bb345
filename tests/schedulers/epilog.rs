//! Files that a job leaves in its burst stores land when Slurm ends it, whatever ends it and whenever.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command as Program;
use std::time::Instant;

use forebay_tests::program::{run, wait_until};
use forebay_tests::require;

use crate::batch::Batch;
use crate::stores::{JOB, NAMES, Stores};

/// Every node writes a file of its own and a line of a common one, says so, and computes for ever.
const WRITE: &str = r#"bring_up
srun sh -c 'hostname >"$mount/$(hostname)"; hostname >>"$mount/all"; echo written >>"$log"; exec sleep 600'
"#;

/// Checks the landed files of `WRITE`.
#[track_caller]
fn assert_landed(stores: &Stores, name: &str) {
    assert_eq!(stores.landed(name), ["all", "n1", "n2", "n3", "n4"], "{}", stores.said());
    let read = |file: &str| fs::read_to_string(stores.backing(name).join(file)).unwrap();
    for node in NAMES {
        assert_eq!(read(node), format!("{node}\n"), "{}", stores.said());
    }
    let all = read("all");
    let mut all: Vec<&str> = all.lines().collect();
    all.sort_unstable();
    assert_eq!(all, NAMES, "{}", stores.said());
}

impl Stores {
    fn cancel(&self, batch: &Batch<'_>) {
        let mut scancel = Program::new("scancel");
        self.slurm.surround(&mut scancel);
        let _ = run(scancel.arg(&batch.id)).good();
    }

    #[track_caller]
    fn wait_until_written(&self, batch: &Batch<'_>, lines: usize) {
        wait_until("all nodes have written", JOB, || {
            batch.log().matches("written").count() == lines || batch.is_over()
        });
        assert_eq!(batch.log().matches("written").count(), lines, "{}: {}", batch.state(), batch.said());
    }
}

/// Every node writes, nothing lands, and the job is cancelled while it computes.
#[test]
fn a_cancelled_job_lands_in_the_epilogue() {
    require_slurm!();
    let stores = Stores::with_epilogue("FOREBAY_EPILOG_MEET=60s");
    let batch = stores.submit("cancelled", "", "--drain end", WRITE);
    stores.wait_until_written(&batch, 4);
    assert_eq!(stores.landed("cancelled"), [""; 0], "nothing has landed");
    stores.cancel(&batch);
    batch.wait_for_end("CANCELLED", JOB);
    stores.wait_for_epilogues(&batch.id, 4, 0);
    assert_landed(&stores, "cancelled");
    assert_eq!(stores.left(&batch.id), [""; 0]);
    stores.assert_nothing_runs(&batch.id);
}

/// One that has not begun; one whose `up` waits for a node; one whose `down` waits for what lands; one whose epilogue runs already.
#[test]
fn a_job_may_be_cancelled_in_every_state() {
    require_slurm!();
    let stores = Stores::with_epilogue("FOREBAY_EPILOG_MEET=60s");
    let pending = stores.submit("pending", "--begin=now+1hour", "", WRITE);
    stores.cancel(&pending);
    pending.wait_for_end("CANCELLED", JOB);
    assert_eq!((stores.left(&pending.id), stores.landed("pending")), (vec![], vec![]));
    cancel_in_down(&stores);
    cancel_while_it_completes(&stores);
    // The last, since the nodes do not recover from it.
    cancel_in_up(&stores);
}

fn cancel_in_down(stores: &Stores) {
    let batch = stores.submit(
        "draining",
        "",
        "--drain end --drain-rate 1MiB/s",
        r#"bring_up
        srun sh -c 'head -c 8388608 /dev/urandom >"$mount/$(hostname)"'
        srun -N1 -n1 sh -c 'cd "$mount"; sha256sum n*' >"$log"
        "$forebay" down
        "#,
    );
    let draft = || stores.landed("draining").iter().any(|name| name.starts_with(".forebay-draft-"));
    wait_until("down has begun to drain", JOB, || draft() || batch.is_over());
    stores.cancel(&batch);
    batch.wait_for_end("CANCELLED", JOB);
    wait_until("the epilogue has landed the rest", JOB, || stores.left(&batch.id).is_empty());
    assert_eq!(stores.landed("draining"), NAMES, "{}", stores.said());
    let sums = stores.slurm.sandbox.base().join("draining.log");
    assert_eq!(fs::read_to_string(&sums).unwrap().lines().count(), 4);
    let _ = run(Program::new("sha256sum").arg("--check").arg(sums).current_dir(stores.backing("draining"))).good();
}

fn cancel_while_it_completes(stores: &Stores) {
    stores.hold_epilogues(true);
    let batch = stores.submit("completing", "", "--drain end", WRITE);
    stores.wait_until_written(&batch, 4);
    stores.cancel(&batch);
    wait_until("the epilogue runs", JOB, || batch.is_completing());
    stores.cancel(&batch);
    stores.hold_epilogues(false);
    stores.wait_for_epilogues(&batch.id, 4, 0);
    assert_landed(stores, "completing");
    assert_eq!(stores.left(&batch.id), [""; 0]);
}

/// On the third node the command is another, which never answers.
fn cancel_in_up(stores: &Stores) {
    let slow = stores.slurm.sandbox.source().join("slow");
    fs::write(&slow, "#!/bin/sh\nexec sleep 600\n").unwrap();
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o755)).unwrap();
    let batch = stores.submit(
        "starting",
        "",
        "--wait-timeout 10min",
        r#"srun sh -c '[ "$(hostname)" != n3 ] || mount --bind "$source/slow" "$forebay"'
        echo starting >>"$log"
        bring_up
        echo is up >>"$log"
        "#,
    );
    let record = Path::new("/tmp/forebay-0").join(&batch.id).join("node-1.json");
    let is_there = || record.exists() && stores.left(&batch.id).len() == NAMES.len() - 1;
    wait_until("all other nodes have stores, the first one, who lands them, too", JOB, || {
        is_there() || batch.is_over()
    });
    stores.cancel(&batch);
    batch.wait_for_end("CANCELLED", JOB);
    assert_eq!(batch.log(), "starting\n", "{}", batch.said());
    stores.assert_nothing_runs(&batch.id);
    wait_until("no store is left on any node", JOB, || stores.left(&batch.id).is_empty());
    // By then the last epilogue may not have removed the directory by which those of all nodes meet.
    let start = Instant::now();
    wait_until("nothing has landed, and nothing else is left", 2 * JOB, || {
        let landed = stores.landed("starting");
        assert!(landed.is_empty() || start.elapsed() < JOB, "{landed:?}: {}", stores.said());
        landed.is_empty()
    });
}

/// With `--time-limit auto` everything has landed when Slurm ends the job, also of a file that is open; without, the epilogue lands it.
/// Slurm 22.05 has no variable for the end: it is asked.
#[test]
fn a_job_that_reaches_its_time_limit_lands_before_or_in_the_epilogue() {
    require_slurm!();
    let stores = Stores::with_epilogue("FOREBAY_EPILOG_MEET=60s");
    let open = r#"bring_up
    srun sh -c 'exec 7>"$mount/$(hostname)"; hostname >&7; hostname >>"$mount/all"; echo written >>"$log"; exec sleep 600'
    "#;
    let in_time = stores.submit("in-time", "--time=2", "--drain end --time-limit auto", open);
    let late = stores.submit("late", "--time=1", "--drain end", WRITE);
    for batch in [&in_time, &late] {
        stores.wait_until_written(batch, 4);
    }
    // All nodes are told: whichever leads the tree when the end comes.
    let record = fs::read_to_string(Path::new("/tmp/forebay-0").join(&in_time.id).join("job.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let told = &record["settings"]["time-limit"][0];
    assert!(told.as_str().is_some_and(|told| told.starts_with('@')), "{told}");
    let has_landed = || {
        let read = |file: &str| fs::read_to_string(stores.backing("in-time").join(file)).unwrap_or_default();
        let is_whole = NAMES.iter().all(|node| !read(node).is_empty()) && read("all").lines().count() == 4;
        is_whole && stores.landed("in-time").iter().all(|name| !name.starts_with('.'))
    };
    wait_until("it has landed in time", 2 * JOB, || has_landed() || in_time.state() != "RUNNING");
    assert_eq!(in_time.state(), "RUNNING", "{}", in_time.said());
    assert_landed(&stores, "in-time");
    late.wait_for_end("TIMEOUT", 2 * JOB);
    stores.wait_for_epilogues(&late.id, 4, 0);
    assert_landed(&stores, "late");
    in_time.wait_for_end("TIMEOUT", 2 * JOB);
    assert_eq!(stores.left(&late.id), [""; 0]);
    // A node that ends before it has heard that all its bytes have landed leaves its store, and the first node, which has none any more, does
    // not meet it (docs/corner-cases.md, "Salvage").
    let names: Vec<String> = stores.landed("in-time").into_iter().filter(|name| !name.starts_with('.')).collect();
    assert_eq!(names, ["all", "n1", "n2", "n3", "n4"]);
    stores.assert_nothing_runs(&late.id);
    // Such a node keeps its directory too, and its epilogue looks for the others meanwhile.
    let has_said = |node: &&str| stores.said().contains(&format!("forebay-{} of root on {node} (status ", in_time.id));
    wait_until("the epilogue of each node with a store ends", JOB, || stores.left(&in_time.id).iter().all(has_said));
    wait_until("no process is left", JOB, || forebay_tests::job::running(&stores.slurm.command).is_empty());
    stores.remove_directories(&[&in_time.id]);
}
