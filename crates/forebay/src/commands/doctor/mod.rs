//! `doctor`: what this machine offers, what is missing, and what that costs.
//!
//! Trials decide where they can, not guesses: a view is mounted as a daemon would do it, and a user namespace is made.
//! Each has a process of its own, since neither can be taken back in this one.

mod check;
mod probe;
mod protocol;
mod surroundings;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail, ensure};
use forebay_keeper::device::RUN_ONLY;
use forebay_keeper::images::SERVERS;
use forebay_launch::{Allocation, LaunchError, MungeProblem, Scheduler, usual_launcher};
use forebay_secret::JobKey;
use rustix::process::Resource;
use serde_json::json;

use crate::carried_key::munge;
use crate::cli::DoctorArguments;
use crate::commands::doctor::check::{Check, State};
use crate::commands::doctor::protocol::Protocol;
use crate::exit::DONE_IN_PART;
use crate::jobs::{job_bases, variable};
use crate::output::{causes, say};
use crate::settings::made_absolute;
use crate::settings::values::{self, show_size};
use crate::{machine, mpiio_libraries, network};

/// Open files that a daemon of a large job needs: cached descriptors, connections to a fan-out of peers, its own.
const DESCRIPTORS_NEEDED: u64 = 4096;

/// Kernel features that no trial shows: their version, their name, and the cost of their absence (from the kernel's
/// history).
const KERNEL_FEATURES: [((u32, u32), &str, &str); 2] = [
    ((4, 18), "FUSE in user namespaces", "views need fusermount3 or root"),
    ((5, 2), "detached mounts (fsmount, open_tree)", "forebay run works with --view only"),
];

/// Checks this machine.
pub fn run(arguments: &DoctorArguments) -> anyhow::Result<ExitCode> {
    if let Some(what) = &arguments.probe {
        return probe::run(what);
    }
    let (view, protocol) = view();
    let requests = requests_in_flight();
    let view_possible = view.state != State::Missing && requests.state != State::Missing;
    let mut checks = vec![view, requests, device(), fusermount(), namespaces()];
    checks.extend(protocol);
    checks.extend(kernel());
    checks.extend(surroundings::installation());
    checks.extend([
        descriptors(),
        memory(),
        directory(),
        scheduler(),
        sealing(),
        interfaces(),
        surroundings::store(),
        surroundings::port(),
        surroundings::clock(),
        surroundings::running_jobs(),
        images(),
        aggregation(),
    ]);
    let verdict = verdict(&checks, view_possible);
    if arguments.json {
        say!("{:#}", json!({"view_possible": view_possible, "verdict": verdict, "checks": checks}));
    } else {
        print(&checks);
        say!("\n{verdict}");
    }
    let is_limited = checks.iter().any(|check| !matches!(check.state, State::Ok | State::Note));
    Ok(match (view_possible, is_limited) {
        (false, _) => ExitCode::FAILURE,
        (true, true) => ExitCode::from(DONE_IN_PART),
        (true, false) => ExitCode::SUCCESS,
    })
}

/// The result in a line.
fn verdict(checks: &[Check], view_possible: bool) -> String {
    let of = |wanted: &[State]| {
        let names = checks.iter().filter(|check| wanted.contains(&check.state)).map(|check| check.name);
        names.collect::<Vec<_>>().join(", ")
    };
    let (lacks, notes) = (of(&[State::Limited, State::Missing]), of(&[State::Note]));
    let notes = if notes.is_empty() { notes } else { format!(" (notes: {notes})") };
    match (view_possible, lacks.is_empty()) {
        (true, true) => format!("Forebay works on this machine{notes}"),
        (true, false) => format!("Forebay works on this machine, with limits: {lacks}{notes}"),
        (false, _) => format!("Forebay does not work on this machine: {lacks}{notes}"),
    }
}

fn print(checks: &[Check]) {
    for Check { name, state, found, cost, .. } in checks {
        let state = match state {
            State::Ok => "ok",
            State::Note => "note",
            State::Limited => "limited",
            State::Missing => "missing",
        };
        say!("{state:<8} {name}: {found}");
        if let Some(cost) = cost {
            say!("         -> {cost}");
        }
    }
}

/// A view is mounted, and its connection begins as a daemon's would; what was agreed is a check of its own.
fn view() -> (Check, Option<Check>) {
    let trial = probe("view").and_then(|said| {
        let (how, protocol) = said.split_once('\n').context("the trial mount reported no result")?;
        Ok((how.to_owned(), Protocol::parse(protocol)?))
    });
    match trial {
        Ok((how, protocol)) if how.starts_with(RUN_ONLY) => {
            let cost = "nothing but forebay run shows exports, and --allow-other fails";
            (Check::limited("view", how, cost), Some(protocol.check()))
        }
        Ok((how, protocol)) => (Check::ok("view", format!("a view can be mounted ({how})")), Some(protocol.check())),
        Err(error) => {
            let found = format!("no view can be mounted: {error:#}");
            (Check::missing("view", found, "forebay up fails on this machine"), None)
        }
    }
}

/// The fate of the requests that a daemon has not answered when it dies.
fn requests_in_flight() -> Check {
    const NAME: &str = "requests in flight";
    let is_sent_again = probe("resend").is_ok();
    match (is_sent_again, probe("keep")) {
        (true, Ok(_)) => Check::ok(NAME, "the kernel resends requests of a daemon that died to the next daemon"),
        (false, Ok(_)) => Check::ok(NAME, "each daemon keeps its requests in memory for the next daemon"),
        (true, Err(error)) => Check::limited(
            NAME,
            format!("the kernel resends them to the next daemon; a daemon cannot keep them in memory: {error:#}"),
            "forebay up --no-resend fails on this machine",
        ),
        (false, Err(error)) => Check::missing(
            NAME,
            format!("a daemon cannot keep them in memory: {error:#}"),
            "forebay up fails on this machine",
        ),
    }
}

fn device() -> Check {
    let path = Path::new("/dev/fuse");
    let Ok(found) = fs::metadata(path) else {
        return Check::missing(
            "/dev/fuse",
            "it is not there",
            "no view is possible; load the kernel module (modprobe fuse)",
        );
    };
    if let Some(fault) = forebay_keeper::device::fault(&found) {
        return Check::missing("/dev/fuse", fault, "no view is possible");
    }
    let mode = found.permissions().mode() & 0o777;
    let text = format!("mode {mode:04o}");
    match fs::OpenOptions::new().read(true).write(true).open(path) {
        Ok(_) => Check::ok("/dev/fuse", text),
        Err(error) => Check::missing(
            "/dev/fuse",
            format!("{text}, cannot be opened: {error}"),
            "no view is possible, nor by fusermount3 or in a user namespace; ask for mode 0666, which udev gives it by \
             default, or to be in its group",
        ),
    }
}

/// The cost of its lack.
const NO_FUSERMOUNT: &str = "views need root, or are in a user namespace, for forebay run alone; (re)install fuse3";

fn fusermount() -> Check {
    let Some(path) = in_path("fusermount3").or_else(|| in_path("fusermount")) else {
        return if rustix::process::geteuid().is_root() {
            Check::ok("fusermount3", "not installed; not needed by root")
        } else {
            Check::limited("fusermount3", "not installed", NO_FUSERMOUNT)
        };
    };
    // A keeper asks for it by PATH alone.
    if !rustix::process::geteuid().is_root() && !of_path().any(|directory| path.starts_with(directory)) {
        let text = format!("{} is in no directory of PATH", path.display());
        return Check::limited("fusermount3", text, NO_FUSERMOUNT);
    }
    let is_setuid = fs::metadata(&path).is_ok_and(|found| found.permissions().mode() & 0o4000 != 0);
    if is_setuid || rustix::process::geteuid().is_root() {
        let others = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
        let allows = others.lines().any(|line| line.trim() == "user_allow_other");
        let others = if allows { "users may use --allow-other" } else { "--allow-other is for root alone" };
        return Check::ok("fusermount3", format!("{}; {others}", path.display()));
    }
    let text = format!("{} is not setuid root", path.display());
    Check::limited("fusermount3", text, NO_FUSERMOUNT)
}

fn namespaces() -> Check {
    match probe("namespaces") {
        Ok(_) => Check::ok(
            "user namespaces",
            "a user may create one and mount in it; forebay run shows exports at their own paths",
        ),
        Err(error) => Check::limited(
            "user namespaces",
            format!("not usable: {error:#}"),
            "forebay run works with --view only (except for root), and views need fusermount3 or root; see \
             user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns",
        ),
    }
}

fn kernel() -> Vec<Check> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let watched = rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty());
    if let Err(error) = watched {
        let found = format!("{release} cannot watch a process (pidfd_open: {error})");
        return vec![Check::missing("kernel", found, "no view is possible; Linux 5.4 or later is needed")];
    }
    kernel_of(&release)
}

fn kernel_of(release: &str) -> Vec<Check> {
    let Some(version) = version_of(release) else {
        return vec![Check::limited(
            "kernel",
            format!("release '{release}' cannot be read"),
            "its features are not known",
        )];
    };
    let mut checks: Vec<Check> = KERNEL_FEATURES
        .iter()
        .filter(|(since, ..)| version < *since)
        .map(|((major, minor), feature, cost)| {
            Check::limited("kernel", format!("{release} is older than {major}.{minor}: no {feature}"), *cost)
        })
        .collect();
    if checks.is_empty() {
        checks.push(Check::ok("kernel", format!("{release} has all that views use")));
    }
    checks
}

fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn descriptors() -> Check {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let text = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
    let found = format!("{} now, daemons raise it to {}", text(limit.current), text(limit.maximum));
    if limit.maximum.is_none_or(|limit| limit >= DESCRIPTORS_NEEDED) {
        return Check::ok("open files", found);
    }
    Check::limited(
        "open files",
        found,
        format!("a large fan-out may fail; ask for a hard limit (ulimit -Hn) of {DESCRIPTORS_NEEDED} or more"),
    )
}

fn memory() -> Check {
    let bytes = forebay_daemon::memory_bytes();
    let budget = machine::default_budget_bytes(bytes, 1);
    Check::ok("memory", format!("{}; a node's caches take {} of it at most", show_size(bytes), show_size(budget)))
}

fn directory() -> Check {
    let given = variable("FOREBAY_DIRECTORY").map(PathBuf::from);
    let bases = job_bases(given.as_deref());
    let usable = |base: &PathBuf| {
        let place = if base.exists() { Some(base.as_path()) } else { base.parent() };
        place.is_some_and(|place| rustix::fs::access(place, rustix::fs::Access::WRITE_OK).is_ok())
    };
    if bases.is_empty() {
        return Check::ok(
            "job directory",
            "below a new directory in /tmp, where another user has taken the usual name",
        );
    }
    match bases.iter().find(|base| usable(base)) {
        Some(base) => Check::ok("job directory", format!("below {}", base.display())),
        None => Check::missing(
            "job directory",
            format!(
                "cannot write to {}",
                bases.iter().map(|base| base.display().to_string()).collect::<Vec<_>>().join(" or ")
            ),
            "forebay up fails on this machine",
        ),
    }
}

fn scheduler() -> Check {
    let srun = in_path("srun");
    match Allocation::from_environment(&variable) {
        Err(error) => Check::limited(
            "scheduler",
            error.to_string(),
            "forebay up fails unless the nodes are named: --local, --nodes or --hostfile",
        ),
        Ok(Some(Allocation { scheduler: Scheduler::Slurm, number, .. })) if srun.is_none() => Check::limited(
            "scheduler",
            format!("in the Slurm allocation {number}, but srun is not in PATH"),
            "name the nodes yourself: forebay up --nodes \"$SLURM_JOB_NODELIST\"",
        ),
        Ok(Some(Allocation { scheduler, number, job, hosts, .. })) => {
            let job = if scheduler == Scheduler::Slurm { number } else { job };
            let launcher = usual_launcher(Some(scheduler), &|name| in_path(name));
            let plural = if hosts.len() == 1 { "" } else { "s" };
            Check::ok(
                "scheduler",
                format!(
                    "in the {scheduler} job {job} of {} host{plural}; forebay up uses them (--launcher {launcher})",
                    hosts.len()
                ),
            )
        }
        Ok(None) if srun.is_some() => Check::ok("scheduler", "Slurm is installed; not in an allocation now"),
        Ok(None) => Check::ok("scheduler", "not in a job; name the nodes with --nodes or --hostfile"),
    }
}

/// A key is sealed and opened again. Without it nothing is limited but what the key is protected from.
fn sealing() -> Check {
    let sealing = std::env::var_os("FOREBAY_MUNGE").filter(|text| !text.is_empty()).unwrap_or_else(|| "auto".into());
    let trial = || -> anyhow::Result<&'static str> {
        let text = sealing.to_str().context("FOREBAY_MUNGE is not UTF-8")?;
        let sealing = made_absolute("munge", text).and_then(|text| values::key_sealing(&text));
        let Some(munge) = munge(&sealing.map_err(anyhow::Error::msg)?) else {
            return Ok("switched off; the job's key is as safe as Slurm's connections");
        };
        let key = JobKey::random()?;
        ensure!(munge.open(&munge.seal(&key)?)? == key, "unmunge does not return what munge sealed");
        Ok("munged answers; the job's key is sealed on its way through Slurm")
    };
    let unsealed = |error: anyhow::Error| match error.downcast_ref() {
        Some(LaunchError::Munge { source: MungeProblem::NotInstalled(_), .. }) => {
            "not installed; the job's key is as safe as Slurm's connections".to_owned()
        }
        _ => format!("does not answer, {}; under Slurm give --munge SOCKET or off", causes(&error).join(": ")),
    };
    Check::ok("munge", trial().map_or_else(unsealed, str::to_owned))
}

fn interfaces() -> Check {
    let found = match network::interfaces() {
        Ok(found) => found,
        Err(error) => return Check::limited("network", format!("{error:#}"), "jobs of several hosts may fail"),
    };
    let outward: Vec<String> = found
        .iter()
        .filter(|interface| !interface.address.is_loopback())
        .map(|interface| format!("{} {}", interface.name, interface.address))
        .collect();
    if found.is_empty() {
        let what = "no interface has an address, the loopback interface neither";
        return Check::missing("network", what, "forebay up fails; ip link set lo up");
    }
    if outward.is_empty() {
        return Check::limited("network", "the loopback interface only", "jobs of one host only (--local)");
    }
    Check::ok("network", outward.join(", "))
}

/// The program that serves images of one file.
fn images() -> Check {
    const NAME: &str = "SquashFS images";
    match SERVERS.iter().find_map(|server| in_path(server)) {
        Some(server) => Check::ok(NAME, format!("{} serves them to forebay run --image", server.display())),
        None => Check::note(
            NAME,
            format!("there is no {} here", SERVERS.join(", no ")),
            "forebay run --image takes directories only; install squashfuse",
        ),
    }
}

/// The libraries for MPI-IO programs. Without them nothing is limited but what such programs might gain.
fn aggregation() -> Check {
    const NAME: &str = "MPI-IO";
    let unusable = mpiio_libraries::found().find_map(|(_, path)| mpiio_libraries::why_not_preloadable(&path));
    if let Some(why) = unusable {
        return Check::note(NAME, why, "MPI-IO programs run without aggregation until then");
    }
    let found: Vec<String> = mpiio_libraries::found().map(|(mpi, path)| format!("{mpi} {}", path.display())).collect();
    let none = "no MPI-IO library beside this command: MPI-IO programs run without aggregation; make build on a \
                machine with mpicc builds one";
    Check::ok(NAME, if found.is_empty() { none.to_owned() } else { found.join(", ") })
}

/// Runs this program to try `what`; its standard output is the finding.
fn probe(what: &str) -> anyhow::Result<String> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let output = Command::new(program).args(["doctor", "--probe", what]).stdin(Stdio::null()).output();
    let output = output.context("cannot run this program")?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(!stderr.trim().is_empty(), "the trial ended with {}", output.status);
    bail!("{}", stderr.trim().trim_start_matches("forebay: ").replace("\n  because:", ":"))
}

fn in_path(program: &str) -> Option<PathBuf> {
    // fusermount3 lies in /bin or /sbin of systems whose users' PATH does not name them.
    let fixed = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"].into_iter().map(PathBuf::from);
    of_path().chain(fixed).map(|directory| directory.join(program)).find(|path| path.is_file())
}

/// The directories of `PATH`.
fn of_path() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read() {
        assert_eq!(version_of("6.18.5-amd64"), Some((6, 18)));
        assert_eq!(version_of("4.18.0-553.el8_10.x86_64"), Some((4, 18)));
        assert_eq!(version_of("5.14-rc1"), Some((5, 14)));
        assert_eq!(version_of("unknown"), None);
    }

    /// The kernels of most clusters have all that counts: where one does not send requests again, daemons keep them.
    #[test]
    fn only_old_kernels_limit_anything() {
        let limited = |release| kernel_of(release).iter().filter(|check| check.state == State::Limited).count();
        assert_eq!(
            ["4.18.0-553.el8_10.x86_64", "5.1", "5.4.0", "5.14.0-427.el9", "6.18"].map(limited),
            [1, 1, 0, 0, 0]
        );
    }

    #[test]
    fn the_verdict_names_what_limits_and_notes_limit_nothing() {
        let checks = [
            Check::ok("a", "x"),
            Check::note("b", "x", "y"),
            Check::limited("c", "x", "y"),
            Check::missing("d", "x", "y"),
        ];
        assert_eq!(verdict(&checks[..2], true), "Forebay works on this machine (notes: b)");
        assert_eq!(verdict(&checks, true), "Forebay works on this machine, with limits: c, d (notes: b)");
        assert_eq!(verdict(&checks[2..], false), "Forebay does not work on this machine: c, d");
    }

    #[test]
    fn every_lack_has_its_cost() {
        for check in [
            view().0,
            requests_in_flight(),
            device(),
            fusermount(),
            descriptors(),
            memory(),
            directory(),
            scheduler(),
            sealing(),
            interfaces(),
            surroundings::store(),
            surroundings::port(),
            surroundings::clock(),
            surroundings::running_jobs(),
            images(),
            aggregation(),
        ] {
            assert_eq!(check.state == State::Ok, check.cost.is_none(), "{check:?}");
        }
    }
}
