//! Nodes of a Slurm allocation, started by one `srun` that stays until they end.
//!
//! The step overlaps with the job's own steps (`--overlap`), so that the tier takes no resources from them. Which rank
//! a daemon has is not taken from Slurm's task numbers: each finds its node's name in the list it was given. The job spec,
//! with the job's key, is `srun`'s standard input, which Slurm sends to every task over connections of its own;
//! the caller has sealed the key in it if it could (`Munge`).

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use forebay_types::NodeRank;

use crate::job_end::said_by;
use crate::local::append_to;
use crate::{JobDirectory, LaunchError, MemoryFile, Starter, expand_hostlist};

/// An allocation that this process runs in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// Slurm's number of the job.
    pub job_id: String,
    /// Its nodes.
    pub hosts: Vec<String>,
    /// The same as Slurm writes it, `n[1-9]`: short, where one argument holds at most 128 KiB of names.
    pub list: String,
}

impl Allocation {
    /// The allocation that `variable`, the environment, tells of; `None` outside one.
    ///
    /// # Errors
    /// `Allocation` and `HostList` when the environment has a job but no usable list of nodes.
    pub fn from_environment(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, LaunchError> {
        let Some(job_id) = variable("SLURM_JOB_ID").filter(|id| !id.is_empty()) else {
            return Ok(None);
        };
        let list = variable("SLURM_JOB_NODELIST").filter(|list| !list.is_empty());
        let list = list.ok_or_else(|| {
            LaunchError::Allocation(format!("SLURM_JOB_ID is {job_id}, but SLURM_JOB_NODELIST is not set"))
        })?;
        Ok(Some(Self { hosts: expand_hostlist(&list)?, list, job_id }))
    }
}

/// The `srun` that starts a daemon on every node of the allocation.
///
/// # Errors
/// `Io` when the job spec cannot be read or the log not be written.
pub fn slurm_starter(
    allocation: &Allocation,
    program: &Path,
    directory: &JobDirectory,
    spec: &MemoryFile,
) -> Result<Starter, LaunchError> {
    let count = allocation.hosts.len();
    let stderr = directory.launch_log(NodeRank(0));
    let mut command = Command::new("srun");
    command
        .arg(format!("--jobid={}", allocation.job_id))
        .args(["--overlap", "--ntasks-per-node=1", "--mpi=none", "--cpu-bind=none", "--job-name=forebay"])
        .arg(format!("--nodes={count}"))
        .arg(format!("--ntasks={count}"))
        .arg(format!("--nodelist={}", allocation.list))
        // The tier outlives a node: neither the loss of one nor the end of one daemon ends the others.
        .args(["--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--unbuffered"])
        .arg(program)
        .args(["node", "--job-spec", "-"])
        .stdin(spec.input()?)
        .stderr(append_to(&stderr)?)
        // Its own process group: Ctrl-C in the terminal of `up`, or later of the job's script, is not for it.
        .process_group(0);
    let ranks = (0..u32::try_from(count).unwrap_or(u32::MAX)).map(NodeRank).collect();
    Ok(Starter { name: "srun".to_owned(), ranks, command, stderr, leaves: false, trial: None })
}

/// An `srun` that runs one program on one node of an allocation, called as a remote shell is: the host comes next.
pub(crate) fn srun_shell(job_id: &str) -> Vec<String> {
    let job = format!("--jobid={job_id}");
    ["srun", &job, "--overlap", "--nodes=1", "--ntasks=1", "--mpi=none", "--cpu-bind=none", "--quiet", "-w"]
        .map(str::to_owned)
        .to_vec()
}

/// The script of a batch job, as it was submitted; `None` where there is none, or Slurm does not say.
#[must_use]
pub fn batch_script(job_id: &str) -> Option<String> {
    scontrol(&["write", "batch_script", job_id, "-"])
}

/// The output of `scontrol`; `None` when it fails, or takes too long.
pub(crate) fn scontrol(arguments: &[&str]) -> Option<String> {
    said_by("scontrol", arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_tells_of_an_allocation() {
        let read = |job: &'static str, list: &'static str| {
            Allocation::from_environment(&move |name| match name {
                "SLURM_JOB_ID" => Some(job.to_owned()),
                "SLURM_JOB_NODELIST" => Some(list.to_owned()),
                _ => None,
            })
        };
        assert_eq!(read("", "n1").unwrap(), None);
        let allocation = read("77", "n[1-2]").unwrap().unwrap();
        assert_eq!(allocation.hosts, ["n1", "n2"]);
        assert!(read("77", "").unwrap_err().to_string().contains("SLURM_JOB_NODELIST"));
        assert!(read("77", "n[1").is_err());
    }

    /// Bytes of one argument that `execve(2)` takes (`MAX_ARG_STRLEN`).
    const ARGUMENT_BYTES_MAX: usize = 128 << 10;

    #[test]
    fn the_nodes_of_a_large_allocation_are_named_briefly() {
        let list = "x[1000-1099]c0s[0-7]b0n[0-15]";
        let allocation =
            Allocation { job_id: "7".into(), hosts: expand_hostlist(list).unwrap(), list: list.to_owned() };
        assert!(allocation.hosts.join(",").len() > ARGUMENT_BYTES_MAX);
        let temporary = tempfile::tempdir().unwrap();
        let directory = JobDirectory::create(&temporary.path().join("base"), "7").unwrap().unwrap();
        directory.make_logs().unwrap();
        let spec = MemoryFile::new("spec", &[b"{}"]).unwrap();
        let starter = slurm_starter(&allocation, Path::new("/bin/forebay"), &directory, &spec).unwrap();
        let longest = starter.command.get_args().map(std::ffi::OsStr::len).max();
        assert!(longest < Some(ARGUMENT_BYTES_MAX), "{longest:?}");
        assert_eq!(starter.ranks.len(), 12_800);
    }
}
