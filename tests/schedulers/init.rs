//! The script of `forebay init slurm`, as it is, at each end of a job.

use std::process::Command as Program;
use std::time::Duration;

use forebay_tests::job::running;
use forebay_tests::program::run;
use forebay_tests::{require, tree};

use crate::{NODES, Slurm};

/// How long a job may take.
const JOB: Duration = Duration::from_secs(60);

impl Slurm {
    fn init(&self, program: &str) -> String {
        let mut init = Program::new(&self.command);
        self.surround(&mut init);
        init.args(["init", "slurm", "--nodes", &NODES.to_string(), "--time", "10min", "--export"]);
        run(init.arg(self.sandbox.source()).args(["--", "sh", "-c", program])).good().text()
    }
}

#[test]
fn the_script_of_init_ends_well_whatever_ends_the_job() {
    require_slurm!();
    let slurm = Slurm::up();
    tree::write(&slurm.sandbox.source().join("file"), b"hello\n");
    let read = r#"echo "$(hostname) $(cat "$source/file") $(stat -f -c %T "$source/file")""#;
    let good = slurm.submit("good", &[], &slurm.init(&format!("{read} >>\"$log\"")));
    good.wait_for_end("COMPLETED", JOB);
    for node in 1..=NODES {
        assert!(good.log().contains(&format!("n{node} hello fuse")), "{}{}", good.log(), good.said());
    }
    let failed = slurm.submit("failed", &[], &slurm.init("exit 7"));
    failed.wait_for_end("FAILED", JOB);
    let shown = slurm.scontrol(&["show", "job", &failed.id]).good().text();
    assert!(shown.contains("ExitCode=7:0"), "{shown}");
    let cancelled =
        slurm.submit("cancelled", &[], &slurm.init(&format!("{read} >>\"$log\"; echo read >>\"$log\"; sleep 600")));
    cancelled.wait_for_log("read");
    let _ = run(slurm.program("scancel").arg(&cancelled.id)).good();
    cancelled.wait_for_end("CANCELLED", JOB);
    let gone = || running(&slurm.command).is_empty();
    forebay_tests::program::wait_until("no process of any of them is left", JOB, gone);
    for batch in [&good, &failed] {
        assert!(batch.said().contains("is down"), "{}", batch.said());
    }
    assert_eq!(slurm.left_on_nodes(&[&good, &failed, &cancelled]), "");
    for batch in [&good, &failed, &cancelled] {
        let directory = std::path::Path::new("/tmp/forebay-0").join(&batch.id);
        assert!(!directory.exists(), "{}: {:?}", batch.said(), std::fs::read_dir(directory).map(Iterator::count));
    }
}
