//! Jobs with a burst tier under a Slurm whose nodes have a disk each, and whose epilogue lands what a job leaves.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_tests::Sandbox;
use forebay_tests::program::{file_of_tests, wait_until};

use crate::Slurm;
use crate::batch::Batch;

/// How long a job may take to start, to do what it does here and to end, on a busy machine.
pub const JOB: Duration = Duration::from_secs(180);

/// The nodes.
pub const NAMES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// Such a Slurm. A job's tier shows `BACKING` of its own at `/ckpt`; its stores lie in `stores` of each node's disk.
pub struct Stores {
    pub slurm: Slurm,
    scripts: Sandbox,
}

impl Stores {
    /// With an epilogue to which `environment` gives its limits.
    pub fn with_epilogue(environment: &str) -> Self {
        Self::with(environment, &[])
    }

    /// The same with more settings of Slurm's script.
    pub fn with(environment: &str, more: &[(&'static str, PathBuf)]) -> Self {
        let scripts = Sandbox::new();
        let wrapper = scripts.base().join("epilog");
        let settings: Vec<_> = [("FB_SLURM_EPILOG", wrapper.clone())].into_iter().chain(more.iter().cloned()).collect();
        // It runs when a job ends: until then it may be written.
        let slurm = Slurm::with(&settings);
        let epilog = fs::canonicalize(file_of_tests("../packaging/epilog.sh")).unwrap();
        let script = format!(
            "#!/bin/sh\nwhile [ -e '{closed}' ]; do sleep 0.1; done\n\
             export FOREBAY='{forebay}' FOREBAY_EPILOG_STORES='{local}/stores/forebay-%j' {environment}\n\
             sh '{epilog}' >>'{said}' 2>&1\n",
            closed = scripts.base().join("closed").display(),
            forebay = slurm.command.display(),
            local = slurm.state().join("local").display(),
            epilog = epilog.display(),
            said = scripts.base().join("said").display(),
        );
        fs::write(&wrapper, script).unwrap();
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
        Self { slurm, scripts }
    }

    /// Without one.
    pub fn without_epilogue() -> Self {
        Self { slurm: Slurm::up(), scripts: Sandbox::new() }
    }

    /// Holds epilogues at their beginning, or lets them go on.
    pub fn hold_epilogues(&self, is_held: bool) {
        let gate = self.scripts.base().join("closed");
        if is_held { fs::write(gate, "").unwrap() } else { fs::remove_file(gate).unwrap() }
    }

    /// The output of epilogues so far.
    pub fn said(&self) -> String {
        fs::read_to_string(self.scripts.base().join("said")).unwrap_or_default()
    }

    /// Where the job of this name lands.
    pub fn backing(&self, name: &str) -> PathBuf {
        self.slurm.sandbox.base().join(format!("backing-{name}"))
    }

    /// The store of a job on a node, as this machine sees it.
    pub fn store(&self, node: &str, job: &str) -> PathBuf {
        self.slurm.state().join(format!("disk.{node}/stores/forebay-{job}"))
    }

    /// Submits a job whose script is `script`, with a tier on four nodes that `up` starts with `options`; `$mount` is the tier's
    /// directory, `$up` brings it up.
    pub fn submit(&self, name: &str, directives: &str, options: &str, script: &str) -> Batch<'_> {
        let backing = self.backing(name);
        if !backing.exists() {
            fs::create_dir(&backing).unwrap();
        }
        let script = format!(
            r#"#!/bin/sh -e
#SBATCH --nodes=4 --ntasks-per-node=1 --no-requeue {directives}
export mount="{base}/mounts-$SLURM_JOB_ID/ckpt"
store="{local}/stores/forebay-$SLURM_JOB_ID"
srun mkdir -p "{local}/stores"
bring_up() {{
    "$forebay" up --export "$source" --view "$view-$SLURM_JOB_ID" --burst "/ckpt={backing}" --burst-store "$store" \
        --burst-mount "{base}/mounts-$SLURM_JOB_ID" --burst-capacity 256MiB {options} "$@"
}}
{script}
"#,
            base = self.slurm.sandbox.base().display(),
            local = self.slurm.state().join("local").display(),
            backing = backing.display(),
        );
        self.slurm.submit(name, &[], &script)
    }

    /// Waits until `count` epilogues of a job have come to their end, with this exit status of `salvage`.
    #[track_caller]
    pub fn wait_for_epilogues(&self, job: &str, count: usize, status: u8) {
        let begin = format!("job {job}: ");
        let end = format!("(status {status})");
        let counted = || self.said().lines().filter(|line| line.contains(&begin) && line.contains(&end)).count();
        wait_until(&format!("{count} epilogues of job {job} end with {status}"), JOB, || {
            counted() >= count || self.is_done(job)
        });
        assert_eq!(counted(), count, "{}", self.said());
    }

    /// Removes the directories of jobs that the nodes share here; a lost node's would have gone with it.
    pub fn remove_directories(&self, jobs: &[&str]) {
        let base = Path::new("/tmp/forebay-0");
        for job in jobs {
            let _ = fs::remove_dir_all(base.join(job));
        }
        // Only where no other job has one.
        let is_mark = |entry: fs::DirEntry| entry.file_name() == ".made-by-forebay";
        if fs::read_dir(base).is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(is_mark))) {
            let _ = fs::remove_file(base.join(".made-by-forebay"));
            let _ = fs::remove_dir(base);
        }
    }

    /// All nodes have said how it went.
    fn is_done(&self, job: &str) -> bool {
        self.said().lines().filter(|line| line.contains(&format!("job {job}: ")) && line.contains("(status ")).count()
            == NAMES.len()
    }

    /// The names in the directory where a job has landed, without hidden ones if `is_plain`.
    pub fn landed(&self, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.backing(name)).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The stores of a job that are still on the nodes' disks, by node.
    pub fn left(&self, job: &str) -> Vec<&'static str> {
        NAMES.into_iter().filter(|node| self.store(node, job).exists()).collect()
    }

    /// The job has left neither processes nor its directory.
    #[track_caller]
    pub fn assert_nothing_runs(&self, job: &str) {
        let is_gone = || forebay_tests::job::running(&self.slurm.command).is_empty();
        wait_until("no process of the job is left", JOB, is_gone);
        assert!(!Path::new("/tmp/forebay-0").join(job).exists(), "the directory of job {job}");
    }
}
