//! Under LSF with CSM, as Summit had it. Neither exists here: scripts stand for them (`lsf/cluster.sh`), each node with a host name,
//! mounts and a disk of its own.
//!
//! Documented, and done alike by the scripts: `LSB_JOBID`, `LSB_JOBINDEX` (0 outside an array) and `LSB_DJOB_HOSTFILE` (IBM Spectrum
//! LSF, Environment variables set for job execution); `bjobs -noheader -o time_left`, `hours:minutes` and `L`; `bsub -alloc_flags` and the
//! variables `CSM_PRIMARY_JOB_ID`, `CSM_SECONDARY_JOB_ID`, `CSM_USER_NAME` of `privileged_prolog` and `privileged_epilog`, which root runs
//! on every compute node (IBM CAST, CSM prologs); `/mnt/bb/$USER` on the compute nodes alone, and the launch node as the first line of the
//! host file (Summit's user guide and its users' scripts).
//!
//! Assumed: `jsrun --nrs 1` takes the first compute node; `ssh` to nodes of the job is allowed; `bjobs` is there where `up` runs; the
//! time that `bjobs` tells is rounded either way; a job that is killed leaves what it started by `ssh` behind.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Child, Command as Program};

use forebay_tests::job::{binary, running};
use forebay_tests::program::{Finished, copy_program, file_of_tests, run, wait_until};
use forebay_tests::{Sandbox, require};

use crate::stores::JOB;

const COMPUTE: [&str; 2] = ["c1", "c2"];

/// The cluster, and a job of it.
struct Lsf {
    sandbox: Sandbox,
    /// By whose path its daemons are known.
    command: PathBuf,
    id: String,
    nodes: Vec<Child>,
}

impl Lsf {
    fn up() -> Self {
        let sandbox = Sandbox::new();
        let base = sandbox.base().to_owned();
        for name in ["bin", "lsf", "backing"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        let script = fs::canonicalize(file_of_tests("schedulers/lsf/cluster.sh")).unwrap();
        for name in ["bsub", "bkill", "bjobs", "jsrun", "ssh"] {
            symlink(&script, base.join("bin").join(name)).unwrap();
        }
        let hosts = "127.0.0.1 localhost\n127.0.2.1 batch1\n127.0.2.2 c1\n127.0.2.3 c2\n";
        fs::write(base.join("lsf/hosts"), hosts).unwrap();
        let command = base.join("forebay");
        copy_program(&binary(), &command);
        let epilogue = base.join("privileged_epilog");
        let packaged = fs::canonicalize(file_of_tests("../packaging/epilog.sh")).unwrap();
        let line = format!("FOREBAY={} FOREBAY_EPILOG_MEET=60s '{}'", command.display(), packaged.display());
        fs::write(&epilogue, format!("#!/bin/sh\n{line}\n")).unwrap();
        fs::set_permissions(&epilogue, fs::Permissions::from_mode(0o755)).unwrap();
        // By a job's number goes its directory: others must not have the same.
        let id = (std::process::id() % 60_000 + 100_000_000).to_string();
        let mut lsf = Self { sandbox, command, id, nodes: vec![] };
        for name in ["batch1"].into_iter().chain(COMPUTE) {
            let mut unshare = Program::new("unshare");
            lsf.surround(&mut unshare);
            unshare.args(["--mount", "--uts", "--propagation", "private"]).arg(&script).args(["node", name]);
            lsf.nodes.push(unshare.spawn().unwrap());
            wait_until("the node is there", JOB, || lsf.file(&format!("node.{name}")).exists());
        }
        lsf
    }

    fn file(&self, name: &str) -> PathBuf {
        self.sandbox.base().join("lsf").join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    fn backing(&self) -> PathBuf {
        self.sandbox.base().join("backing")
    }

    fn surround(&self, program: &mut Program) {
        self.sandbox.surround(program);
        let path = format!("{}:{}", self.sandbox.base().join("bin").display(), std::env::var("PATH").unwrap());
        program.env("LSF", self.sandbox.base().join("lsf")).env("JOB", &self.id).env("COMPUTE", COMPUTE.join(" "));
        program.env("PATH", path).env("USER", "root").env("HOME", "/root").env_remove("XDG_RUNTIME_DIR");
        program.env("EPILOGUE", self.sandbox.base().join("privileged_epilog"));
        program.env("FOREBAY", &self.command).env("FOREBAY_VIEW", self.sandbox.view());
        program.env("FOREBAY_BURST_MOUNT", self.sandbox.base().join("mounts"));
        program.env("FOREBAY_BURST_CAPACITY", "256MiB").env("FOREBAY_DRAIN", "end");
    }

    /// Submits the script of `forebay init`, with `program` on every node.
    fn submit(&self, program: &str) {
        let file = self.sandbox.base().join("program");
        fs::write(&file, format!("#!/bin/sh -e\ncd /ckpt\n{program}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let script = self.sandbox.base().join("job.sh");
        let mut init = Program::new(&self.command);
        self.surround(&mut init);
        init.args(["init", "lsf", "--nodes", "2", "--time", "90min", "--burst"]);
        init.arg(format!("/ckpt={}", self.backing().display())).arg("--export").arg(self.sandbox.source());
        let _ = run(init.arg("--output").arg(&script).arg("--").arg(&file)).good();
        let mut bsub = Program::new(self.sandbox.base().join("bin/bsub"));
        self.surround(&mut bsub);
        let said = run(bsub.arg(script)).good().text();
        assert_eq!(said, format!("Job <{}> is submitted to default queue <batch>.\n", self.id));
    }

    fn call(&self, name: &str) -> Finished {
        let mut program = Program::new(self.sandbox.base().join("bin").join(name));
        self.surround(&mut program);
        run(&mut program)
    }

    #[track_caller]
    fn wait_for_end(&self) {
        wait_until("the job's epilogue is over", JOB, || self.file("over").exists());
        let left = |node: &&str| self.file(&format!("disk.{node}/root/forebay-{}", self.id)).exists();
        assert_eq!(COMPUTE.into_iter().filter(left).count(), 0, "{}{}", self.read("out"), self.read("epilogue"));
        let mut names: Vec<_> = fs::read_dir(self.backing()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names.retain(|name| !name.to_string_lossy().starts_with(".nodes-"));
        assert_eq!(names, COMPUTE, "{}{}", self.read("out"), self.read("epilogue"));
        for node in COMPUTE {
            assert_eq!(fs::read_to_string(self.backing().join(node)).unwrap(), format!("{node}\n"));
        }
        let is_gone = || running(&self.command).is_empty();
        wait_until("no process of the job is left", JOB, is_gone);
        assert!(!PathBuf::from("/tmp/forebay-0").join(&self.id).exists());
    }
}

impl Drop for Lsf {
    fn drop(&mut self) {
        if self.file("job").exists() && !self.file("status").exists() {
            let _ = self.call("bkill");
            wait_until("the job's epilogue is over", JOB, || self.file("over").exists());
        }
        for node in &mut self.nodes {
            node.kill().and_then(|()| node.wait()).unwrap();
        }
    }
}

/// The nodes are the compute nodes, the store is on their NVMe, and the end of the job is what `bjobs` says.
#[test]
fn a_job_of_lsf_lands_on_its_own() {
    require!(Root, Fuse, Command("nsenter"), Command("unshare"), Command("setpriv"));
    let lsf = Lsf::up();
    lsf.submit(
        r#"hostname >"$(hostname)"; ls -d /mnt/bb/root/forebay-* >>"$LSF/stores"; [ "$(hostname)" != c1 ] || "$FOREBAY" status --json >"$LSF/state""#,
    );
    wait_until("the job ends", JOB, || lsf.file("status").exists());
    assert_eq!(lsf.read("status"), "0\n", "{}", lsf.read("out"));
    assert_eq!(lsf.read("stores"), format!("/mnt/bb/root/forebay-{}\n", lsf.id).repeat(2), "{}", lsf.read("out"));
    let state: serde_json::Value = serde_json::from_str(&lsf.read("state")).unwrap();
    assert_eq!([0, 1].map(|node| state["nodes"][node]["host"].as_str().unwrap_or_default()), COMPUTE);
    // 90 minutes, of which the last may be over.
    let ends_in_ms = state["nodes"][0]["burst"]["ends_in_ms"].as_u64().unwrap();
    assert!((80 * 60_000..=89 * 60_000).contains(&ends_in_ms), "{ends_in_ms}");
    lsf.wait_for_end();
}

/// LSF does not know the daemons: the epilogue ends them, too.
#[test]
fn a_job_of_lsf_that_is_killed_lands_in_the_epilogue() {
    require!(Root, Fuse, Command("nsenter"), Command("unshare"), Command("setpriv"));
    let lsf = Lsf::up();
    lsf.submit(r#"exec 7>"$(hostname)"; hostname >&7; echo written >>"$LSF/log"; exec sleep 600"#);
    let is_over = || lsf.file("status").exists();
    wait_until("both have written", JOB, || lsf.read("log").matches("written").count() == 2 || is_over());
    assert!(!is_over(), "{}", lsf.read("out"));
    assert!(fs::read(lsf.backing().join("c1")).is_err(), "nothing has landed");
    let _ = lsf.call("bkill").good();
    lsf.wait_for_end();
    assert_eq!(lsf.read("epilogue").matches("(status 0)").count(), 2, "{}", lsf.read("epilogue"));
}
