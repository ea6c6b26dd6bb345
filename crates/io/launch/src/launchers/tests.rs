use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::*;
use crate::{Allocation, JobDirectory, MemoryFile, NodeAddress, RemoteCall, SharedFiles};

/// The program of that name, if it is one of these.
fn among(names: &'static [&'static str]) -> impl Fn(&str) -> Option<PathBuf> {
    move |name: &str| names.iter().find(|path| path.ends_with(&format!("/{name}"))).map(PathBuf::from)
}

fn allocation(scheduler: Scheduler, hosts: &[&str]) -> Allocation {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let first_lines = (0..hosts.len()).map(|index| index * 3).collect();
    Allocation { scheduler, number: "17.server".into(), job: "17".into(), list: hosts.join(","), hosts, first_lines }
}

/// The commands that a launcher starts these hosts with, and the one that runs `down` on the last of them.
struct Words {
    starters: Vec<Vec<String>>,
    reach: Vec<String>,
    files: BTreeMap<String, String>,
}

fn words(command: &Command) -> Vec<String> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

fn started(
    name: LauncherName,
    scheduler: Option<Scheduler>,
    hosts: &[&str],
    programs: &'static [&'static str],
) -> Words {
    let allocation = scheduler.map(|scheduler| allocation(scheduler, hosts));
    let (shell, own_names) = (["ssh".to_owned(), "-x".to_owned()], [hosts[0].to_owned()]);
    let surroundings = Surroundings { allocation: allocation.as_ref(), remote_shell: &shell, own_names: &own_names };
    let launcher = launcher(name, &surroundings, &among(programs)).unwrap();
    assert_eq!(launcher.name(), name);
    let temporary = tempfile::tempdir().unwrap();
    let directory = JobDirectory::create(&temporary.path().join("base"), "17").unwrap().unwrap();
    directory.make_logs().unwrap();
    let input = MemoryFile::new("spec", &[b"{}"]).unwrap();
    let files = SharedFiles::make(&temporary.path().join("state"), "17", &input).unwrap();
    let nodes: Vec<NodeAddress> = hosts.iter().map(|host| NodeAddress { host: (*host).to_owned(), port: 1 }).collect();
    let spec = if launcher.passes_input() { Spec::Input(&input) } else { Spec::Files(&files) };
    let program = Path::new("/opt/bin/forebay");
    let job = NewJob { program, nodes: &nodes, directory: &directory, spec };
    let state = temporary.path().join("state").display().to_string();
    let starters = launcher.starters(&job).unwrap();
    let shown = starters.iter().map(|starter| words(&starter.command)).collect::<Vec<_>>();
    let call = RemoteCall { reach: launcher.reach(), program: program.to_owned() };
    let hosts_file = files.spec().with_file_name("hosts");
    Words {
        starters: shown
            .into_iter()
            .map(|words| words.into_iter().map(|word| word.replace(&state, "STATE")).collect())
            .collect(),
        reach: words(&call.command(hosts[hosts.len() - 1], &["down"])),
        files: std::fs::read_to_string(hosts_file).map(|text| ("hosts".to_owned(), text)).into_iter().collect(),
    }
}

fn line(words: &[String]) -> String {
    let spec = words.iter().map(|word| match word.strip_prefix("STATE/.start-17-") {
        Some(rest) => format!("STATE/{}", rest.split_once('/').unwrap().1),
        None => word.clone(),
    });
    spec.collect::<Vec<_>>().join(" ")
}

const BY_FILE: &str = "/opt/bin/forebay node --step --job-spec STATE/spec --keyed";
const BY_INPUT: &str = "/opt/bin/forebay node --step --job-spec -";

#[test]
fn slurm() {
    let words = started(LauncherName::Slurm, Some(Scheduler::Slurm), &["a", "b"], &[]);
    assert_eq!(
        line(&words.starters[0]),
        format!(
            "srun --jobid=17.server --overlap --ntasks-per-node=1 --mpi=none --cpu-bind=none --job-name=forebay --nodes=2 --ntasks=2 \
             --nodelist=a,b --no-kill --kill-on-bad-exit=0 --wait=0 --unbuffered {BY_INPUT}"
        )
    );
    let reach = "srun --jobid=17.server --overlap --nodes=1 --ntasks=1 --mpi=none --cpu-bind=none --quiet -w b -- /opt/bin/forebay down";
    assert_eq!(line(&words.reach), reach);
}

#[test]
fn flux() {
    let words = started(LauncherName::Flux, Some(Scheduler::Flux), &["a", "b", "c"], &[]);
    assert_eq!(line(&words.starters[0]), format!("flux exec --quiet --dir=/ --rank=0-2 {BY_INPUT}"));
    assert_eq!(line(&words.reach), "flux exec --quiet --noinput --dir=/ -r 2 /opt/bin/forebay down");
}

#[test]
fn pals() {
    let found = started(LauncherName::Pals, Some(Scheduler::Pbs), &["a", "b"], &["/opt/cray/pals/1.4/bin/mpiexec"]);
    let mpiexec = "/opt/cray/pals/1.4/bin/mpiexec -n 2 -ppn 1 --cpu-bind none --hostfile STATE/hosts";
    assert_eq!(line(&found.starters[0]), format!("{mpiexec} {BY_FILE}"));
    assert_eq!(found.files["hosts"], "a\nb\n");
    assert_eq!(line(&found.reach), "ssh -x b -- /opt/bin/forebay down");
    let found = started(LauncherName::Pals, None, &["a", "b"], &["/usr/bin/mpiexec", "/opt/bin/aprun"]);
    assert_eq!(line(&found.starters[0]), format!("/opt/bin/aprun -n 2 -N 1 --cc none {BY_FILE}"));
}

#[test]
fn pbs() {
    let words = started(LauncherName::Pbs, Some(Scheduler::Pbs), &["a", "b"], &["/p/pbsdsh", "/p/pbs_tmrsh"]);
    let own = "/opt/bin/forebay node --session --keyed --rank 0 --job-spec STATE/spec";
    assert_eq!(line(&words.starters[0]), own, "pbsdsh passes no output on");
    let other = "/p/pbsdsh -n 3 -- /opt/bin/forebay node --step --keyed --rank 1 --job-spec STATE/spec";
    assert_eq!(line(&words.starters[1]), other);
    assert_eq!(line(&words.reach), "/p/pbs_tmrsh b /opt/bin/forebay down");
}

#[test]
fn lsf() {
    let words = started(LauncherName::Lsf, Some(Scheduler::Lsf), &["a", "b"], &["/l/blaunch", "/l/jsrun"]);
    assert_eq!(line(&words.starters[0]), format!("/l/blaunch -no-shell -n -u STATE/hosts {BY_FILE}"));
    assert_eq!(line(&words.reach), "/l/blaunch -no-shell -n b /opt/bin/forebay down");
    let words = started(LauncherName::Lsf, Some(Scheduler::Lsf), &["a", "b"], &["/l/jsrun"]);
    assert_eq!(line(&words.starters[0]), format!("/l/jsrun -e individual --nrs 2 -r1 -c1 -a1 {BY_FILE}"));
}

#[test]
fn hydra_and_prrte() {
    let words = started(LauncherName::Hydra, None, &["a", "b"], &["/m/mpiexec.hydra"]);
    assert_eq!(
        line(&words.starters[0]),
        format!("/m/mpiexec.hydra -n 2 -ppn 1 -disable-auto-cleanup -f STATE/hosts {BY_FILE}")
    );
    assert_eq!(line(&words.reach), "/m/mpiexec.hydra -n 1 -hosts b /opt/bin/forebay down");
    let words = started(LauncherName::Prrte, None, &["a", "b"], &["/m/prterun"]);
    let options = "--map-by ppr:1:node --bind-to none --runtime-options error-nonzero-status=0,recoverable=1 --hostfile STATE/hosts";
    let shown = line(&words.starters[0]).replace(" --allow-run-as-root", "");
    assert_eq!(shown, format!("/m/prterun {options} {BY_FILE}"));
    assert_eq!(words.files["hosts"], "a slots=1\nb slots=1\n");
}

#[test]
fn a_remote_shell_is_called_once_for_each_node() {
    let words = started(LauncherName::Ssh, Some(Scheduler::Pbs), &["a", "b"], &["/p/pbs_attach"]);
    let node = "/opt/bin/forebay node --job-spec - --background --rank 1 --pbs-job 17.server";
    assert_eq!(line(&words.starters[1]), format!("ssh -x b -- {node}"));
    assert_eq!(line(&started(LauncherName::Ssh, None, &["a"], &[]).reach), "ssh -x a -- /opt/bin/forebay down");
}

#[test]
fn each_scheduler_has_a_usual_launcher() {
    let usual = |scheduler, programs| usual_launcher(scheduler, &among(programs));
    assert_eq!(usual(Some(Scheduler::Slurm), &[]), LauncherName::Slurm);
    assert_eq!(usual(Some(Scheduler::Flux), &[]), LauncherName::Flux);
    assert_eq!(usual(Some(Scheduler::Pbs), &["/opt/cray/pals/default/bin/mpiexec"]), LauncherName::Pals);
    assert_eq!(usual(Some(Scheduler::Pbs), &["/usr/bin/mpiexec", "/p/pbsdsh"]), LauncherName::Pbs);
    assert_eq!(usual(Some(Scheduler::Pbs), &["/p/pbsdsh", "/p/pbs_attach"]), LauncherName::Ssh);
    assert_eq!(usual(Some(Scheduler::Lsf), &["/l/blaunch"]), LauncherName::Lsf);
    assert_eq!(usual(Some(Scheduler::Lsf), &["/l/blaunch", "/l/jsrun"]), LauncherName::Ssh);
    assert_eq!(usual(None, &["/usr/bin/mpiexec.hydra"]), LauncherName::Ssh);
    assert!(LauncherName::ALL.into_iter().all(|name| LauncherName::of(name.word()) == Some(name)));
    assert_eq!(LauncherName::of("rsh"), None);
}

#[test]
fn a_launcher_that_cannot_be_used_says_why() {
    let (shell, names) = (["ssh".to_owned()], ["login1".to_owned()]);
    let failure = |name, allocation: Option<&Allocation>, programs| {
        let surroundings = Surroundings { allocation, remote_shell: &shell, own_names: &names };
        launcher(name, &surroundings, &among(programs)).unwrap_err().to_string()
    };
    let pbs = allocation(Scheduler::Pbs, &["a", "b"]);
    assert!(failure(LauncherName::Flux, Some(&pbs), &[]).contains("--launcher flux needs a job of Flux"));
    assert!(failure(LauncherName::Hydra, None, &[]).contains("needs the program mpiexec.hydra"));
    assert!(failure(LauncherName::Pbs, Some(&pbs), &["/p/pbsdsh"]).contains("this host (login1) is none"));
}

#[test]
fn a_host_with_several_nodes_is_for_the_remote_shell() {
    let hosts = ["a", "A"].map(|host| NodeAddress { host: host.to_owned(), port: 1 });
    let temporary = tempfile::tempdir().unwrap();
    let directory = JobDirectory::create(&temporary.path().join("base"), "17").unwrap().unwrap();
    let input = MemoryFile::new("spec", &[b"{}"]).unwrap();
    let job = NewJob { program: Path::new("/f"), nodes: &hosts, directory: &directory, spec: Spec::Input(&input) };
    let refused = job.step("srun", Command::new("srun")).unwrap_err().to_string();
    assert!(refused.contains("A has several") && refused.contains("--launcher ssh"), "{refused}");
}

/// Bytes of one argument that `execve(2)` takes (`MAX_ARG_STRLEN`).
const ARGUMENT_BYTES_MAX: usize = 128 << 10;

#[test]
fn the_nodes_of_a_large_allocation_are_named_briefly() {
    let list = "x[1000-1099]c0s[0-7]b0n[0-15]";
    let hosts = crate::expand_hostlist(list).unwrap();
    assert!(hosts.join(",").len() > ARGUMENT_BYTES_MAX);
    let slurm = slurm::Slurm { job_id: "7".into(), hosts: hosts.clone(), list: list.into() };
    let temporary = tempfile::tempdir().unwrap();
    let directory = JobDirectory::create(&temporary.path().join("base"), "7").unwrap().unwrap();
    directory.make_logs().unwrap();
    let spec = MemoryFile::new("spec", &[b"{}"]).unwrap();
    let nodes: Vec<NodeAddress> = hosts.iter().map(|host| NodeAddress { host: host.clone(), port: 1 }).collect();
    let program = Path::new("/bin/forebay");
    let job = NewJob { program, nodes: &nodes, directory: &directory, spec: Spec::Input(&spec) };
    let starter = slurm.starters(&job).unwrap().remove(0);
    let longest = starter.command.get_args().map(std::ffi::OsStr::len).max();
    assert!(longest < Some(ARGUMENT_BYTES_MAX), "{longest:?}");
    assert_eq!(starter.ranks.len(), 12_800);
    let part = NewJob { nodes: &nodes[..2], ..job };
    let words = words(&slurm.starters(&part).unwrap()[0].command);
    assert!(
        words.contains(&"--nodelist=x1000c0s0b0n0,x1000c0s0b0n1".to_owned()),
        "a part of the allocation: {words:?}"
    );
}
