//! Every launcher but Slurm's, which the other tests here have: Hydra for real, and scripts that stand for what this machine has not
//! (`launchers/cluster.sh`), on hosts with a name and mounts of their own.
//!
//! Documented, and done alike by the scripts: `flux exec` starts a copy on each broker, passes its standard input to all and their output
//! back, and the end of the instance ends them (flux-exec(1)); in a batch job of Flux `FLUX_ENCLOSING_ID` is set and `flux getattr hostlist`
//! tells the hosts; `mpiexec` of PALS takes `-n`, `-ppn` and `--hostfile`; `pbsdsh -n` takes the index of a line of `PBS_NODEFILE` and brings
//! no output back; `pbs_attach -j JOB -p PID` makes a process the job's; `blaunch -u FILE` starts a copy on each host.
//!
//! Assumed: all hosts see the home directory; schedulers end what they have started by SIGTERM first.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use forebay_tests::job::{binary, running};
use forebay_tests::processes::kill;
use forebay_tests::program::{copy_program, file_of_tests, wait_until_or};
use forebay_tests::{Sandbox, require};

use crate::stores::JOB;

const HOSTS: [&str; 2] = ["m1", "m2"];

/// How long daemons may take to end with their job.
const END: Duration = Duration::from_secs(60);

/// The lines of a job's script between `up` and `down`.
const USES: &str = r#"
"$FOREBAY" status --json >"$CLUSTER/state"
for host in m1 m2; do
  "$CLUSTER/bin/ssh" $host -- "$FOREBAY" run --job "$NAME" --directory "$FOREBAY_DIRECTORY" -- cat "$SOURCE/README" >>"$CLUSTER/read"
done
"#;

/// The hosts, and a job on them.
struct Cluster {
    sandbox: Sandbox,
    /// By whose path its daemons are known.
    command: PathBuf,
    number: String,
    hosts: Vec<Child>,
    job: Option<Child>,
}

impl Cluster {
    /// With these of the stand-ins.
    fn up(programs: &[&str]) -> Self {
        let sandbox = Sandbox::new();
        let base = sandbox.base().to_owned();
        for name in ["bin", "bin/pals", "home"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        let script = fs::canonicalize(file_of_tests("schedulers/launchers/cluster.sh")).unwrap();
        for name in ["ssh", "end"].iter().chain(programs) {
            // PALS is known by where it lies.
            let place = if *name == "mpiexec" { "bin/pals" } else { "bin" };
            symlink(&script, base.join(place).join(name)).unwrap();
        }
        if programs.contains(&"mpiexec") {
            // By a copy: a link would lead away from there.
            fs::remove_file(base.join("bin/pals/mpiexec")).unwrap();
            fs::copy(&script, base.join("bin/pals/mpiexec")).unwrap();
        }
        fs::write(base.join("hosts"), "127.0.0.1 localhost\n127.0.3.1 m1\n127.0.3.2 m2\n").unwrap();
        fs::write(base.join("nodefile"), "m1\nm1\nm2\nm2\n").unwrap();
        fs::write(sandbox.source().join("README"), "read me\n").unwrap();
        let command = base.join("forebay");
        copy_program(&binary(), &command);
        // By a job's number goes its directory: others must not have the same.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = 200_000_000 + std::process::id() % 60_000 * 100 + COUNT.fetch_add(1, Ordering::Relaxed);
        let number = number.to_string();
        let mut cluster = Self { sandbox, command, number, hosts: vec![], job: None };
        for name in HOSTS {
            let mut unshare = Program::new("unshare");
            cluster.surround(&mut unshare);
            unshare.args(["--mount", "--uts", "--propagation", "private"]).arg(&script).args(["node", name]);
            cluster.hosts.push(unshare.spawn().unwrap());
        }
        cluster.wait("the hosts are there", |cluster| {
            HOSTS.iter().all(|host| cluster.file(&format!("node.{host}")).exists())
        });
        cluster
    }

    fn file(&self, name: &str) -> PathBuf {
        self.sandbox.base().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    fn surround(&self, program: &mut Program) {
        self.sandbox.surround(program);
        let base = self.sandbox.base();
        let bin = base.join("bin");
        let path = format!("{}:{}:{}", bin.display(), bin.join("pals").display(), std::env::var("PATH").unwrap());
        program.env("CLUSTER", &base).env("HOSTS", HOSTS.join(" ")).env("FIRST", HOSTS[0]).env("HOSTLIST", "m[1-2]");
        program.env("PATH", path).env("USER", "root").env("HOME", base.join("home")).env_remove("XDG_RUNTIME_DIR");
        program.env_remove("XDG_STATE_HOME").env("JOB", &self.number).env("NAME", &self.number);
        program.env("FOREBAY", &self.command).env("SOURCE", self.sandbox.source());
        program.env("FOREBAY_DIRECTORY", base.join("jobs")).env("FOREBAY_MUNGE", "off");
    }

    /// Runs a job's script on the first host, as a child of `daemon`, or of none.
    fn submit(&mut self, daemon: Option<&str>, variables: &[(&str, &str)], script: &str) {
        let file = self.file("job.sh");
        fs::write(&file, script).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let cluster = fs::canonicalize(file_of_tests("schedulers/launchers/cluster.sh")).unwrap();
        let mut job = match daemon {
            Some(daemon) => Program::new(self.file("bin").join(daemon)),
            None => Program::new(cluster),
        };
        self.surround(&mut job);
        if daemon.is_none() {
            job.args(["on", HOSTS[0], "sh", "-e"]);
        }
        let out = fs::OpenOptions::new().create(true).append(true).open(self.file("out")).unwrap();
        job.arg(&file).envs(variables.iter().copied()).stdin(Stdio::null());
        job.stdout(out.try_clone().unwrap()).stderr(out);
        self.job = Some(job.spawn().unwrap());
    }

    fn wait(&mut self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        wait_until_or(what, JOB, || {
            if is_so(self) { Ok(()) } else { Err(format!("{}\n{}", self.read("out"), self.read("called"))) }
        });
    }

    /// The job's script ends well, and nothing is left.
    fn ends_well(&mut self) {
        let mut job = self.job.take().unwrap();
        let status = job.wait().unwrap();
        assert!(status.success(), "{status}: {}\n{}", self.read("out"), self.read("called"));
        assert_eq!(self.read("read"), "read me\n".repeat(2));
        let state: serde_json::Value = serde_json::from_str(&self.read("state")).unwrap();
        assert_eq!([0, 1].map(|node| state["nodes"][node]["host"].as_str().unwrap_or_default()), HOSTS);
        self.is_clean();
    }

    /// No process runs any more, and no file of the start or of the job is there.
    fn is_clean(&mut self) {
        let command = self.command.clone();
        wait_until_or("no process of the job is left", END, || {
            if running(&command).is_empty() {
                Ok(())
            } else {
                Err(format!("{}\n{}", self.read("out"), self.read("called")))
            }
        });
        let left =
            |path: &Path| fs::read_dir(path).map(|entries| entries.flatten().map(|entry| entry.path()).collect());
        let jobs: Vec<PathBuf> = left(&self.file("jobs")).unwrap_or_default();
        assert_eq!(jobs, Vec::<PathBuf>::new(), "{}", self.read("out"));
        let state: Vec<PathBuf> = left(&self.file("home/.local/state/forebay")).unwrap_or_default();
        let of_start = |path: &&PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(".start-");
        assert_eq!(state.iter().find(of_start), None);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        running(&self.command).into_iter().for_each(kill);
        for child in self.job.iter_mut().chain(&mut self.hosts) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn script(options: &str) -> String {
    format!(
        "\"$FOREBAY\" up --export \"$SOURCE\" --view \"$CLUSTER/view\" --wait-timeout 60s {options}\n{USES}\n\
         \"$FOREBAY\" down --job \"$NAME\"\n"
    )
}

const FLUX: [(&str, &str); 2] = [("FLUX_ENCLOSING_ID", "ƒ7"), ("NAME", "f7")];

/// Runs a whole job, and returns what was called.
fn whole_job(programs: &[&str], daemon: Option<&str>, variables: &[&str], options: &str) -> String {
    let mut cluster = Cluster::up(programs);
    let nodefile = cluster.file("nodefile").display().to_string();
    let number = cluster.number.clone();
    let values = [number.as_str(), nodefile.as_str()];
    let variables: Vec<(&str, &str)> = variables.iter().copied().zip(values).collect();
    cluster.submit(daemon, &variables, &script(options));
    cluster.ends_well();
    cluster.read("called")
}

#[test]
fn a_job_by_flux_exec() {
    require!(Root, Fuse, Command("nsenter"), Command("unshare"));
    let mut cluster = Cluster::up(&["flux"]);
    cluster.submit(None, &FLUX, &script(""));
    cluster.ends_well();
    assert!(cluster.read("called").contains("flux exec --quiet --dir=/ --rank=0-1"), "{}", cluster.read("called"));
}

#[test]
fn a_job_by_mpiexec_of_pals() {
    require!(Root, Fuse, Command("nsenter"), Command("unshare"));
    let called = whole_job(&["mpiexec"], None, &["PBS_JOBID", "PBS_NODEFILE"], "");
    assert!(called.contains("mpiexec -n 2 -ppn 1"), "{called}");
}

#[test]
fn a_job_by_pbsdsh() {
    require!(Root, Fuse, Command("nsenter"), Command("unshare"));
    let called = whole_job(&["pbsdsh", "pbs_tmrsh", "pbs_mom"], Some("pbs_mom"), &["PBS_JOBID", "PBS_NODEFILE"], "");
    assert!(called.contains("pbsdsh -n 2 --") && !called.contains("pbsdsh -n 0"), "{called}");
}

#[test]
fn a_job_by_ssh_is_handed_to_pbs() {
    require!(Root, Fuse, Command("nsenter"), Command("unshare"));
    let programs = ["pbsdsh", "pbs_attach", "pbs_mom"];
    let called = whole_job(&programs, Some("pbs_mom"), &["PBS_JOBID", "PBS_NODEFILE"], "");
    assert_eq!(called.matches("pbs_attach -j").count(), 2, "{called}");
}

#[test]
fn a_job_by_blaunch() {
    require!(Root, Fuse, Command("nsenter"), Command("unshare"));
    let called = whole_job(&["blaunch", "res"], Some("res"), &["LSB_JOBID", "LSB_DJOB_HOSTFILE"], "");
    assert!(called.contains("blaunch -no-shell -n -u"), "{called}");
}

/// The lines of a script that make PRRTE usable.
fn prrte() -> String {
    let directory = std::env::var("FOREBAY_TEST_PRRTE").expect("FOREBAY_TEST_PRRTE");
    format!("PATH={directory}/bin:$PATH\nexport PATH PRTE_PREFIX={directory} PMIX_PREFIX={directory}\n")
}

/// PRRTE itself: `make test-packages` has it from a package and names its directory.
#[test]
#[ignore = "needs PRRTE, in $FOREBAY_TEST_PRRTE/bin: make test-packages"]
fn a_job_by_prterun() {
    require!(Root, Fuse, Command("nsenter"), Command("unshare"));
    let before = prrte();
    let mut cluster = Cluster::up(&[]);
    let number = cluster.number.clone();
    let agent = cluster.file("bin/ssh").display().to_string();
    let variables = [("NAME", number.as_str()), ("PRTE_MCA_plm_ssh_agent", agent.as_str())];
    cluster.submit(None, &variables, &format!("{before}{}", script("--launcher prrte --nodes m[1-2] --job \"$NAME\"")));
    cluster.ends_well();
    assert!(cluster.read("called").contains("prted"), "{}", cluster.read("called"));
}

/// Hydra itself, by the remote shell.
#[test]
fn a_job_by_hydra() {
    require!(Root, Fuse, Command("nsenter"), Command("unshare"), Command("mpiexec.hydra"));
    let called = whole_job(&[], None, &["NAME"], "--launcher hydra --nodes m[1-2] --job \"$NAME\"");
    assert!(called.contains("hydra_pmi_proxy"), "{called}");
}

/// The job is up by `launcher`, whose command is killed; what that leaves on its own host ends by itself.
fn ends_with_its_launcher(launcher: &str, before: &str) {
    let mut cluster = Cluster::up(&[]);
    let (number, agent) = (cluster.number.clone(), cluster.file("bin/ssh").display().to_string());
    let up = script(&format!("--launcher {launcher} --nodes m[1-2] --job \"$NAME\""));
    let up = up.split("\n\"$FOREBAY\" down").next().unwrap();
    let variables = [("NAME", number.as_str()), ("PRTE_MCA_plm_ssh_agent", agent.as_str())];
    cluster.submit(None, &variables, &format!("{before}{up}"));
    assert!(cluster.job.take().unwrap().wait().unwrap().success(), "{}", cluster.read("out"));
    let record = fs::read_to_string(cluster.file("jobs").join(&number).join("job.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let step = record["launched"]["hosts"]["steps"][0]["pid"].as_u64().unwrap();
    kill(u32::try_from(step).unwrap());
    let command = cluster.command.clone();
    wait_until_or("the daemons have ended", END, || {
        if running(&command).is_empty() { Ok(()) } else { Err(cluster.read("out")) }
    });
}

#[test]
fn daemons_end_with_a_hydra_that_is_killed() {
    require!(Root, Fuse, Command("nsenter"), Command("unshare"), Command("mpiexec.hydra"));
    ends_with_its_launcher("hydra", "");
}

#[test]
#[ignore = "needs PRRTE, in $FOREBAY_TEST_PRRTE/bin: make test-packages"]
fn daemons_end_with_a_prterun_that_is_killed() {
    require!(Root, Fuse, Command("nsenter"), Command("unshare"));
    ends_with_its_launcher("prrte", &prrte());
}

/// The end of an instance of Flux ends what its brokers have started.
#[test]
fn daemons_end_with_an_instance_of_flux() {
    require!(Root, Fuse, Command("nsenter"), Command("unshare"));
    let mut cluster = Cluster::up(&["flux"]);
    let up = script("").split("\n\"$FOREBAY\" down").next().unwrap().to_owned();
    cluster.submit(None, &FLUX, &up);
    assert!(cluster.job.take().unwrap().wait().unwrap().success(), "{}", cluster.read("out"));
    assert!(!running(&cluster.command).is_empty());
    let mut end = Program::new(cluster.file("bin/end"));
    cluster.surround(&mut end);
    assert!(end.status().unwrap().success());
    cluster.is_clean();
}

/// PBS knows nothing of daemons that came by a login; they end with the job's script.
#[test]
fn daemons_end_with_a_script_that_is_killed() {
    require!(Root, Fuse, Command("nsenter"), Command("unshare"));
    let mut cluster = Cluster::up(&["pbs_mom"]);
    let nodefile = cluster.file("nodefile").display().to_string();
    let up =
        script("").split("\n\"$FOREBAY\" down").next().unwrap().to_owned() + "\necho >\"$CLUSTER/ready\"\nsleep 600\n";
    let number = cluster.number.clone();
    cluster.submit(Some("pbs_mom"), &[("PBS_JOBID", &number), ("PBS_NODEFILE", &nodefile)], &up);
    cluster.wait("the job is up", |cluster| cluster.file("ready").exists());
    assert!(!running(&cluster.command).is_empty());
    let daemon = cluster.job.as_ref().unwrap().id();
    let script = fs::read_to_string(format!("/proc/{daemon}/task/{daemon}/children")).unwrap();
    kill(script.trim().parse().unwrap());
    cluster.is_clean();
}
