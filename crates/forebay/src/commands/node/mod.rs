//! `node`: one node. Decides everything that its daemon needs to know, becomes the daemon's keeper, and cleans up after it.
//! Started by a keeper it is the daemon itself (`kept`).
//!
//! Standard output belongs to whoever started it: one JSON line when the view answers (the keeper writes it), one
//! when it does not come to that, and notes before.

mod background;
mod kept;

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};
use forebay_daemon::{DaemonOptions, JobLabels, ReportOptions, ShownLinks};
use forebay_keeper::limits::EXPORTS_BYTES_MAX;
use forebay_keeper::{KeeperOptions, Kept, Replayed, Watched, WhenGone, images, own_paths, take_stdin, tell};
use forebay_launch::{
    JobDirectory, MemoryFile, NodeAddress, NodeRecord, Ports, Process, ProcessSpace, ViewLayout, read_key,
};
use forebay_overlay::{default_fan_out, default_roots, default_stripe_fan_out};
use forebay_secret::{JobKey, forbid_core_dumps};
use forebay_types::{NodeRank, ViewPath};
use forebay_wire::Level;
use serde_json::json;

use crate::burst_mount;
use crate::cli::NodeArguments;
use crate::commands::job::selection;
use crate::contradictions;
use crate::job_spec::{JobSpec, Script};
use crate::jobs;
use crate::leftovers;
use crate::log;
use crate::machine;
use crate::network;
use crate::node_local;
use crate::output::causes;
use crate::patience::unless_over_in_a_second;
use crate::profiles;
use crate::settings::values::{LinksShown, WhenMissing};
use crate::settings::{Effective, Settings};
use crate::view_directory::{self, ViewDirectory};

/// How much longer than `--wait-timeout` a node counts before it takes the job to be up without the missing: its own time
/// began when it was started, that of `forebay up` when the last node was, a login of thousands of hosts later. So `up`
/// decides.
const SETTLE_MARGIN: Duration = Duration::from_secs(10);

/// Runs the daemon until it is told to end.
pub fn run(arguments: NodeArguments) -> anyhow::Result<ExitCode> {
    forbid_core_dumps().context("core dumps, which could hold the job's key, cannot be switched off")?;
    if arguments.kept.is_some() {
        return Ok(kept::run());
    }
    if arguments.invalidates.is_some() {
        return invalidates();
    }
    if let Some(node) = &arguments.lend {
        let node: own_paths::Node = serde_json::from_str(node).context("--lend is for keepers")?;
        own_paths::lend(&node, std::io::stdin().as_fd())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let (Some(program), Some(keeper)) = (&arguments.serve_image, arguments.kept_by) {
        match images::serve(program, keeper)? {}
    }
    if arguments.background {
        return background::run(&arguments);
    }
    if arguments.session {
        rustix::process::setsid().context("cannot begin a session of its own")?;
    }
    let starts_by_job_spec = arguments.job_spec.is_some();
    let mut rank = NodeRank(arguments.rank.unwrap_or(0));
    let result = plan(arguments).and_then(|plan| {
        rank = plan.rank;
        plan.run()
    });
    match result {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            let message = causes(&error).join(": ");
            tracing::error!(%message, "the daemon failed");
            tell(&json!({"failed": {"rank": rank, "message": message}}));
            // The sender of a job spec reads standard output; a person reads this.
            if starts_by_job_spec { Ok(ExitCode::FAILURE) } else { Err(error) }
        }
    }
}

/// The process that writes a daemon's notifications to the kernel.
fn invalidates() -> anyhow::Result<ExitCode> {
    // So that who looks at the processes sees that it is none of the daemons.
    if let Err(errno) = rustix::thread::set_name(c"forebay-pages") {
        tracing::debug!(%errno, "the process has no name of its own");
    }
    forebay_fuse::serve_invalidations().context("--invalidates is for daemons")?;
    Ok(ExitCode::SUCCESS)
}

/// The facts known before anything is touched.
struct Plan {
    job: String,
    rank: NodeRank,
    nodes: Vec<NodeAddress>,
    ports: Ports,
    view_layout: ViewLayout,
    /// Of the nodes, where they are known.
    switches: Vec<u32>,
    labels: JobLabels,
    settings: Settings,
    handed: Replayed,
    directory: PathBuf,
    log_file: Option<PathBuf>,
    waited_for: WaitedFor,
    watched: Vec<Watched>,
    /// Directories on nodes' own disks that the environment of `up` named.
    node_local: node_local::Named,
}

/// The commands that wait for the node.
#[derive(Clone, Copy)]
struct WaitedFor {
    /// The command that started it waits for a line that it is ready.
    alone: bool,
    /// `up` waits for all nodes.
    with_all: bool,
    since_unix_ms: u64,
}

impl WaitedFor {
    fn new(with_all: bool, relayed: bool) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since_unix_ms = since.map_or(0, |since| since.as_millis() as u64);
        Self { alone: !with_all || relayed, with_all, since_unix_ms }
    }
}

fn plan(arguments: NodeArguments) -> anyhow::Result<Plan> {
    let wanted = arguments.rank;
    let (given, log_file) = (arguments.given.0, arguments.log_file);
    let handed = if arguments.listen_stdin { Replayed::from_stdin()? } else { Replayed::default() };
    let waited_for = WaitedFor::new(arguments.job_spec.is_some(), arguments.relayed);
    // Before anything that takes time: then the parent may be another.
    let starter = arguments.step.then(|| Process::of(std::os::unix::process::parent_id())).flatten();
    let key = arguments.key.map(|path| read_key(&path)).transpose()?;
    if let Some(path) = arguments.job_spec {
        let (spec, carried) = if arguments.keyed { JobSpec::read_keyed(&path)? } else { JobSpec::read(&path)? };
        // Where the job spec was is nothing to be read any more: who started this may hold it as a file with the key.
        drop(take_stdin().context("cannot close standard input")?);
        let settings = Effective::ordered(&spec.settings, given)?.settings()?;
        let rank = own_rank(wanted, &spec.nodes)?;
        let carried = || carried.map(|carried| carried.open(&settings.munge)).transpose();
        let key = key.map_or_else(carried, |key| Ok(Some(key)))?;
        let handed = with_key(settings.security, handed, key)?;
        let watched = watched(starter, &spec);
        let JobSpec { job, job_directory: directory, nodes, ports, view_layout, switches, labels, node_local, .. } =
            spec;
        let log_file = Some(directory.join("logs").join(format!("node-{rank}.log")));
        return Ok(Plan {
            job,
            rank,
            nodes,
            ports,
            view_layout,
            switches,
            labels,
            settings,
            handed,
            directory,
            log_file,
            waited_for,
            watched,
            node_local: node_local.into_iter().map(|(name, path)| (name, path.into())).collect(),
        });
    }
    let effective = Effective::merge(given, arguments.file.config)?;
    let settings = effective.settings()?;
    let job = jobs::name_to_start(&settings, None);
    let derived = || Ports::derived(&job, rustix::process::geteuid().as_raw(), key.as_ref());
    let ports = settings.port.map_or_else(derived, Ports::named);
    let nodes = match settings.hostfile {
        Some(_) => selection::nodes_of_file(&settings, ports.first())?,
        None => bail!("no list of nodes: give --hostfile FILE (- for standard input)"),
    };
    let rank = own_rank(wanted, &nodes)?;
    let handed = with_key(settings.security, handed, key)?;
    let directory = jobs::base_for_new(settings.directory.as_deref(), false)?.join(&job);
    let (view_layout, switches, labels) = (ViewLayout::ByHost, vec![], jobs::labels(&job));
    Ok(Plan {
        job,
        rank,
        nodes,
        ports,
        view_layout,
        switches,
        labels,
        settings,
        handed,
        directory,
        log_file,
        waited_for,
        watched: vec![],
        node_local: node_local::Named::new(),
    })
}

/// The processes with which the node or the job ends.
fn watched(starter: Option<Process>, spec: &JobSpec) -> Vec<Watched> {
    let starter = starter.map(|process| Watched { process, when_gone: WhenGone::EndNode });
    let is_here = |script: &&Script| script.space == ProcessSpace::of_this();
    let script = spec.script.as_ref().filter(is_here).map(|script| {
        let base = spec.job_directory.parent().unwrap_or(&spec.job_directory).display().to_string();
        let program = std::env::current_exe().map_or_else(|_| "forebay".to_owned(), |path| path.display().to_string());
        // Nodes may run other jobs soon: what has not landed stays in the stores, and `salvage` lands it.
        let words = ["down", "--no-drain", "--quiet", "--directory", &base, "--job", &spec.job];
        let command = [program].into_iter().chain(words.map(str::to_owned)).collect();
        Watched { process: script.process, when_gone: WhenGone::EndJob(command) }
    });
    starter.into_iter().chain(script).collect()
}

/// The same, and the key that the node has read itself, if the level takes one.
fn with_key(level: Level, handed: Replayed, key: Option<JobKey>) -> anyhow::Result<Replayed> {
    if level == Level::Off {
        return Ok(Replayed { key: None, ..handed });
    }
    let read = key.as_ref().map(MemoryFile::of_key).transpose()?;
    let key = read.map(OwnedFd::from).or(handed.key);
    ensure!(key.is_some(), "no key: give --key FILE, the same for all nodes, or --security off");
    Ok(Replayed { key, ..handed })
}

/// The rank that was given, else that of the one node that has this host's name.
fn own_rank(given: Option<u32>, nodes: &[NodeAddress]) -> anyhow::Result<NodeRank> {
    if let Some(rank) = given {
        ensure!(
            (rank as usize) < nodes.len(),
            "rank {rank} is not one of the {} nodes (0 to {})",
            nodes.len(),
            nodes.len() - 1
        );
        return Ok(NodeRank(rank));
    }
    let names = machine::host_names();
    for name in &names {
        let mut found = (0..).zip(nodes).filter(|(_, node)| node.host.eq_ignore_ascii_case(name));
        match (found.next(), found.next()) {
            (Some((rank, _)), None) => return Ok(NodeRank(rank)),
            (Some(_), Some(_)) => bail!("{name} is in the list of nodes more than once; say which with --rank"),
            (None, _) => {}
        }
    }
    // A list may have names with domains, where hosts know themselves without.
    let short = |host: &str| host.split('.').next().unwrap_or(host).to_ascii_lowercase();
    for name in &names {
        let mut found = (0..).zip(nodes).filter(|(_, node)| short(&node.host) == short(name));
        if let (Some((rank, _)), None) = (found.next(), found.next()) {
            return Ok(NodeRank(rank));
        }
    }
    bail!("this host ({}) is not in the list of nodes; say which it is with --rank", names.join(", "))
}

impl Plan {
    fn run(mut self) -> anyhow::Result<()> {
        let directory = JobDirectory::at(&self.directory)?;
        if directory.path() != self.directory {
            self.move_to(&directory);
        }
        if self.log_file.as_ref().is_some_and(|log| log.starts_with(directory.logs())) {
            directory.make_logs()?;
        }
        log::start(self.log_file.as_deref(), &self.settings.log)?;
        let result = self.run_in(&directory);
        if result.is_err() {
            directory.remove_if_empty();
        }
        result
    }

    /// Goes on in another directory than the one that was ordered.
    fn move_to(&mut self, directory: &JobDirectory) {
        let (ordered, found) = (self.directory.display(), directory.path().display());
        let message = format!(
            "another user owns {ordered} on this host; the job's files, and its view unless --view names \
             one, are in {found}"
        );
        tell(&json!({"note": {"rank": self.rank, "message": message}}));
        if self.log_file.as_ref().is_some_and(|log| log.starts_with(&self.directory)) {
            self.log_file = Some(directory.log(self.rank));
        }
        self.directory = directory.path().to_owned();
    }

    fn run_in(mut self, directory: &JobDirectory) -> anyhow::Result<()> {
        let handed = std::mem::take(&mut self.handed);
        contradictions::check(&self.settings, &self.nodes)?;
        check_exports(&self.settings.export, self.rank)?;
        let view = self.prepare_view(directory)?;
        let process = Process::this();
        let mut burst = burst_mount::prepare(
            &self.settings,
            directory,
            self.view_layout,
            &self.nodes,
            self.rank,
            &self.node_local,
        )?;
        if let Some(burst) = &mut burst {
            if let Some(message) = burst_mount::offer(&burst.options) {
                tell(&json!({"note": {"rank": self.rank, "message": message}}));
            }
            burst.options.switches = std::mem::take(&mut self.switches);
        }
        let burst_created = burst.as_ref().map_or_else(Vec::new, |burst| burst.created.clone());
        let (rank, view_path, view_created) = (self.rank, view.path.clone(), view.created);
        let has_burst = burst.is_some();
        let record =
            NodeRecord { rank, process, daemon: None, view: view_path, view_created, burst_created, has_burst };
        let (log_file, log_filter) = (self.log_file.clone(), self.settings.log.clone());
        let result = record.write(directory).map_err(anyhow::Error::from).and_then(|()| {
            let (mount, burst) =
                burst.map_or((None, None), |burst| (Some(burst.paths(self.nodes.len())), Some(burst.options)));
            let keeper =
                KeeperOptions { burst: mount, ..self.keeper_options(directory, handed.listener.is_some(), view.path)? };
            let options = DaemonOptions { burst, ..self.daemon_options(&keeper)? };
            let plan = forebay_daemon::Plan { options, log_file, log_filter };
            forebay_keeper::keep(&keeper, &plan, handed, directory, record.clone())
        });
        leftovers::leave(directory, &record);
        result
    }

    fn prepare_view(&self, directory: &JobDirectory) -> anyhow::Result<ViewDirectory> {
        let base = self.settings.view.clone().unwrap_or_else(|| directory.view());
        let base = std::path::absolute(&base).with_context(|| format!("cannot use {} as the view", base.display()))?;
        // From here on the same place whatever becomes of links on the way; where there is none, that is told below.
        let settled = |path: PathBuf| forebay_fuse::resolve(&path).unwrap_or(path);
        let base = settled(base);
        let path = self.view_layout.view(&base, &self.nodes, self.rank);
        let mut notes = Vec::new();
        // Nodes that share a host share the directory of their views; whichever comes first makes it.
        if path != base {
            notes.extend(view_directory::check_shared(&base)?);
            let failed =
                || format!("cannot use {} for the views; choose another directory with --view", base.display());
            directory.make_shared(&base).with_context(failed)?;
        }
        let mut view = view_directory::prepare(&settled(path))?;
        notes.extend(view.note.take());
        for message in notes {
            tell(&json!({"note": {"rank": self.rank, "message": message}}));
        }
        Ok(view)
    }

    fn keeper_options(
        &self,
        directory: &JobDirectory,
        has_listener: bool,
        view: PathBuf,
    ) -> anyhow::Result<KeeperOptions> {
        let own = self.nodes.get(self.rank.0 as usize).context("the rank is not in the list of nodes")?;
        let settings = &self.settings;
        let bind = match (has_listener, &settings.interface) {
            (true, _) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            (false, Some(wanted)) => network::address_of(wanted, &network::interfaces()?)?,
            (false, None) => network::address_for(own, &self.nodes),
        };
        Ok(KeeperOptions {
            job: self.job.clone(),
            rank: self.rank,
            address: own.clone(),
            bind,
            ports: self.ports.of(own).to_vec(),
            view,
            exports: if settings.export.is_empty() { vec![PathBuf::from("/")] } else { settings.export.clone() },
            burst: None,
            links_lead_into_view: settings.links == LinksShown::View,
            job_directory: directory.path().to_owned(),
            deadline: settings.deadline,
            allow_other: settings.allow_other,
            read_ahead_bytes: settings.read_ahead,
            readers: settings.readers,
            resend: settings.resend,
            says_ready: self.waited_for.alone,
            reports: self.waited_for.with_all,
            watched: self.watched.clone(),
        })
    }

    fn daemon_options(self, keeper: &KeeperOptions) -> anyhow::Result<DaemonOptions> {
        let nodes_here = self.nodes.iter().filter(|node| node.host == keeper.address.host).count() as u64;
        let default_budget = || machine::default_budget_bytes(forebay_daemon::memory_bytes(), nodes_here);
        let settings = self.settings;
        let settle_after =
            (settings.on_missing == WhenMissing::Continue).then(|| settings.wait_timeout + SETTLE_MARGIN);
        let report = ReportOptions { started_unix_ms: self.waited_for.since_unix_ms, settle_after };
        let KeeperOptions { view, exports, job_directory, .. } = keeper;
        let profile = profiles::options(&settings, exports);
        let links = match settings.links {
            LinksShown::AsIs => None,
            LinksShown::View => Some(ShownLinks::now(exports, &[view, job_directory])?),
        };
        let data = device_data(&settings, self.view_layout, &self.nodes, self.rank)?;
        let roots = settings.roots.unwrap_or_else(|| default_roots(self.nodes.len() as u32));
        let fan_out = settings.fan_out.unwrap_or_else(|| default_fan_out(roots));
        Ok(DaemonOptions {
            peer_subnets: network::subnets_from(keeper.bind, settings.interface.as_deref())?,
            job: self.job,
            rank: self.rank,
            level: settings.security,
            key: None,
            view: view.clone(),
            exports: exports.clone(),
            allow_other: keeper.allow_other,
            roots,
            fan_out,
            stripe_fan_out: settings.stripe_fan_out.unwrap_or_else(|| default_stripe_fan_out(fan_out)),
            budget_bytes: settings.budget.unwrap_or_else(default_budget),
            direct_above_bytes: settings.direct_above,
            prefetch: settings.prefetch,
            listing_entries_full: settings.listing_limit,
            revalidate: settings.revalidate,
            deadline: settings.deadline,
            readers: settings.readers,
            cores: settings.cores.unwrap_or_default(),
            backing_concurrency: settings.backing_concurrency,
            job_directory: job_directory.clone(),
            metrics_file: settings.metrics,
            metrics_interval: settings.metrics_interval,
            metrics_listen: settings.metrics_listen,
            labels: self.labels,
            read_ahead_bytes: settings.read_ahead,
            report: self.waited_for.with_all.then_some(report),
            links,
            burst: None,
            data,
            kept: Kept::default(),
            profile,
            nodes: self.nodes,
            ports: self.ports,
        })
    }
}

/// The directory of a device, which must be there.
fn device_data(
    settings: &Settings,
    layout: ViewLayout,
    nodes: &[NodeAddress],
    rank: NodeRank,
) -> anyhow::Result<Option<PathBuf>> {
    let Some(data) = &settings.data else { return Ok(None) };
    let data = layout.view(data, nodes, rank);
    let found = data.canonicalize().with_context(|| format!("--data: cannot use {}", data.display()))?;
    ensure!(found.is_dir(), "--data: {} is not a directory", data.display());
    Ok(Some(found))
}

/// Every export must be a directory that this user can list and enter: a view that shows less than was asked for is
/// found out by a program that fails.
fn check_exports(exports: &[PathBuf], rank: NodeRank) -> anyhow::Result<()> {
    use rustix::fs::Access;
    use std::os::unix::ffi::OsStrExt;
    let bytes = serde_json::to_vec(exports).map_or(0, |text| text.len());
    ensure!(
        bytes <= EXPORTS_BYTES_MAX,
        "the paths of the {} exports have {bytes} bytes together, and at most {EXPORTS_BYTES_MAX} are possible; export directories \
         that hold several of them",
        exports.len()
    );
    for export in exports {
        let failed = || format!("cannot export {}", export.display());
        if let Err(problem) = ViewPath::from_absolute(export.as_os_str().as_bytes()) {
            bail!("{}: {problem}; give its plain absolute path", failed());
        }
        let message = format!("{} has not answered for a second; check whether its file system does", export.display());
        let _told = unless_over_in_a_second(move || tell(&json!({"note": {"rank": rank, "message": message}})));
        let found = match fs::metadata(export) {
            Ok(found) => found,
            Err(error) => bail!("{}: {error}; {}", failed(), advice(&error)),
        };
        ensure!(found.is_dir(), "{}: it is not a directory; export the directory it is in", failed());
        if let Err(errno) = rustix::fs::access(export, Access::READ_OK | Access::EXEC_OK) {
            let error = std::io::Error::from(errno);
            bail!("{}: it cannot be read by this user: {error}; {}", failed(), advice(&error));
        }
    }
    Ok(())
}

/// Advice about an export that the operating system refuses.
fn advice(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            "check its spelling, and whether its file system is mounted on this host"
        }
        ErrorKind::PermissionDenied => {
            "export a directory that you may read, or have the permissions of this one and its parent directories changed"
        }
        _ => "check whether its file system answers on this host",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn node(host: &str) -> NodeAddress {
        NodeAddress { host: host.into(), port: 1 }
    }

    #[test]
    fn the_rank_is_given_or_found_by_name() {
        let name = machine::host_names().remove(0);
        let nodes = [node("elsewhere"), node(&name.to_uppercase())];
        assert_eq!(own_rank(None, &nodes).unwrap(), NodeRank(1));
        assert_eq!(own_rank(Some(0), &nodes).unwrap(), NodeRank(0));
        assert!(own_rank(Some(2), &nodes).unwrap_err().to_string().contains("0 to 1"));
        assert!(own_rank(None, &nodes[..1]).unwrap_err().to_string().contains("not in the list"));
        assert!(own_rank(None, &[node(&name), node(&name)]).unwrap_err().to_string().contains("more than once"));
    }

    #[test]
    fn exports_that_cannot_be_shown() {
        let temporary = tempfile::tempdir().unwrap();
        let file = temporary.path().join("file");
        fs::write(&file, "x").unwrap();
        let failure = |path: &Path| format!("{:#}", check_exports(&[path.to_owned()], NodeRank(0)).unwrap_err());
        assert!(failure(&file).contains("not a directory"));
        let many = vec![temporary.path().to_owned(); EXPORTS_BYTES_MAX / temporary.path().as_os_str().len()];
        let refused = check_exports(&many, NodeRank(0)).unwrap_err().to_string();
        assert!(refused.contains("bytes together, and at most"), "{refused}");
        let missing = failure(&temporary.path().join("missing"));
        assert!(missing.contains("cannot export") && missing.contains("No such file"), "{missing}");
        assert!(missing.contains("check its spelling"), "{missing}");
        assert!(failure(&file.join("below")).contains("check its spelling"));
        assert!(failure(Path::new("/usr/../etc")).contains("must not be '.' or '..'"));
        check_exports(&[temporary.path().to_owned()], NodeRank(0)).unwrap();
    }
}
