//! `forebay run` between a launcher and its ranks: `srun` on several nodes, `mpiexec` with a real MPI program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command as Program;
use std::time::Duration;

use forebay_tests::job::{as_nobody, running};
use forebay_tests::program::{file_of_tests, run, wait_until};
use forebay_tests::{Job, Sandbox, require, tree};

use crate::{NODES, Slurm};

/// How long the daemons of a cancelled job may take to end.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn tasks_of_srun_see_the_exports_at_their_own_paths() {
    require_slurm!();
    let slurm = Slurm::up();
    tree::write(&slurm.sandbox.source().join("file"), b"hello\n");
    // Several tasks a node; the current directory is in the export.
    let script = r#"
        "$forebay" up --export "$source" --view "$view" --fanout 2 >&2
        cd "$source"
        srun --overlap --overcommit --ntasks-per-node=3 "$forebay" run -- sh -c '
            echo "$(hostname) $(cat file) $(stat -f -c %T "$source") $(readlink /proc/self/ns/mnt)"'
        srun --overlap --ntasks=1 "$forebay" run -- sh -c 'exit 9' || echo "status $?"
        "$forebay" down >&2
    "#;
    let printed = slurm.batch(script).good().text();
    let (tasks, status): (Vec<&str>, Vec<&str>) = printed.lines().partition(|line| line.starts_with('n'));
    assert_eq!(status, ["status 9"]);
    assert_eq!(tasks.len(), 3 * NODES);
    let mut namespaces: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for task in tasks {
        let words: Vec<&str> = task.split(' ').collect();
        assert_eq!(words[1..3], ["hello", "fuseblk"], "{task}");
        namespaces.entry(words[0]).or_default().insert(words[3]);
    }
    assert_eq!(namespaces.keys().copied().collect::<Vec<_>>(), ["n1", "n2", "n3", "n4"]);
    assert!(namespaces.values().all(|of_node| of_node.len() == 1), "{namespaces:?}");
    assert_eq!(slurm.sandbox.left(), Vec::<String>::new());
}

#[test]
fn a_job_cancelled_with_tasks_inside_leaves_no_trace() {
    require_slurm!();
    let slurm = Slurm::up();
    tree::write(&slurm.sandbox.source().join("file"), b"hello\n");
    let script = r#"
        "$forebay" up --export "$source" --view "$view" >&2
        srun --overlap --overcommit --ntasks-per-node=2 "$forebay" run -- sh -c 'cat "$source/file"; exec 3< "$source/file"; exec sleep 300' &
        # They are inside when they have spoken.
        wait $!
    "#;
    let cancel = format!(
        r#"( {script} ) | {{ for i in $(seq {}); do read line; echo "$line" >&2; done; scancel "$SLURM_JOB_ID"; cat; }}"#,
        2 * NODES
    );
    let cancelled = slurm.batch(&cancel);
    assert!(cancelled.stderr.contains("CANCELLED"), "{}", cancelled.stderr);
    assert_eq!(cancelled.stderr.lines().filter(|line| *line == "hello").count(), 2 * NODES, "{}", cancelled.stderr);
    wait_until("the daemons end with the job", PATIENCE, || running(&slurm.command).is_empty());
    // On the nodes, not here: the next job looks, and can use the same name and places.
    let look = slurm.batch(
        r#"
        srun --ntasks-per-node=1 sh -c 'grep " $view " /proc/self/mounts; ls -A "$view" 2>/dev/null' || true
        "$forebay" up --export "$source" --view "$view" >&2
        srun --overlap --ntasks=1 "$forebay" run -- cat "$source/file"
        "$forebay" down >&2
    "#,
    );
    assert_eq!(look.good().text(), "hello\n");
}

#[test]
fn ranks_of_mpiexec_see_the_exports_at_their_own_paths() {
    require!(Root, Fuse, FuseForUsers, Command("fusermount3"), Command("mpiexec.mpich"), Command("mpicc.mpich"));
    let sandbox = Sandbox::of_nobody();
    let ring = sandbox.source().join("ring");
    let _ = run(Program::new("mpicc.mpich").arg("-o").arg(&ring).arg(file_of_tests("schedulers/ring.c"))).good();
    tree::write(&sandbox.source().join("file"), &[1; 1000]);
    let source = sandbox.source();
    let job = Job::up_local(sandbox, 1, &source, &[]);
    let mut mpiexec = as_nobody(Path::new("mpiexec.mpich"));
    job.sandbox.surround(&mut mpiexec);
    mpiexec.args(["-n", "12"]).arg(job.sandbox.base().join("forebay"));
    mpiexec.args(["run", "--job", &job.sandbox.name, "--"]).arg(&ring).arg(source.join("file"));
    assert_eq!(run(&mut mpiexec).good().text(), "12 12000\n");
    let reads = job.status()["nodes"][0]["kernel"]["messages"]["read"].as_u64().unwrap_or(0);
    assert!(reads > 0, "program and file came from the view");
    job.down();
}
