//! `node`: one node. Decides everything that its daemon needs to know, becomes the daemon's keeper, and cleans up after it.
//! Started by a keeper it is the daemon itself (`kept`).
//!
//! Standard output belongs to whoever started it: one JSON line when the view answers (the keeper writes it), one
//! when it does not come to that, and notes before.

mod background;
mod kept;
mod plan;

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use forebay_daemon::{CacheStoreOptions, DaemonOptions, ReportOptions, ShownLinks};
use forebay_keeper::limits::EXPORTS_BYTES_MAX;
use forebay_keeper::{KeeperOptions, Kept, images, own_paths, put_endings_off, tell};
use forebay_launch::{JobDirectory, NodeAddress, NodeRecord, Process, ProcessSpace, ViewLayout};
use forebay_overlay::{default_fan_out, default_homes, default_roots, default_stripe_fan_out};
use forebay_secret::forbid_core_dumps;
use forebay_types::{NodeRank, ViewPath};
use serde_json::json;

use self::plan::{Plan, plan};
use crate::burst_mount::{self, BurstMount};
use crate::cache_store;
use crate::cli::NodeArguments;
use crate::contradictions;
use crate::leftovers;
use crate::log;
use crate::machine;
use crate::network;
use crate::output::causes;
use crate::patience::unless_over_in_a_second;
use crate::profiles;
use crate::settings::Settings;
use crate::settings::values::{LinksShown, WhenMissing};
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
        // On its own host `up` has made the directory; and there each of hundreds of nodes would read the records of all others.
        if handed.listener.is_none() {
            leftovers::check_no_other_start(directory, &self.start_id)?;
        }
        // Directories that are made before the record is written are found by no command.
        put_endings_off().context("signals cannot be put off")?;
        let view = self.prepare_view(directory)?;
        let process = Process::this();
        let (burst, cache) =
            self.prepare_tiers(directory).inspect_err(|_| view_directory::remove(&view.path, view.created))?;
        let burst_created = burst.as_ref().map_or_else(Vec::new, |burst| burst.created.clone());
        let (rank, view_path, view_created) = (self.rank, view.path.clone(), view.created);
        let has_burst = burst.is_some();
        let record = NodeRecord {
            rank,
            start_id: self.start_id.clone(),
            process,
            space: ProcessSpace::of_this(),
            daemon: None,
            view: view_path,
            view_created,
            burst_created,
            has_burst,
        };
        let (log_file, log_filter) = (self.log_file.clone(), self.settings.log.clone());
        let result = record.write(directory).map_err(anyhow::Error::from).and_then(|()| {
            let (mount, burst) =
                burst.map_or((None, None), |burst| (Some(burst.paths(self.nodes.len())), Some(burst.options)));
            let keeper =
                KeeperOptions { burst: mount, ..self.keeper_options(directory, handed.listener.is_some(), view.path)? };
            let options = DaemonOptions { burst, cache_store: cache, ..self.daemon_options(&keeper)? };
            let plan = forebay_daemon::Plan { options, log_file, log_filter };
            forebay_keeper::keep(&keeper, &plan, handed, directory, record.clone())
        });
        leftovers::leave(directory, &record);
        result
    }

    /// The burst mount and the cache store.
    fn prepare_tiers(
        &mut self,
        directory: &JobDirectory,
    ) -> anyhow::Result<(Option<BurstMount>, Option<CacheStoreOptions>)> {
        let Self { settings, view_layout, nodes, rank, node_local, .. } = self;
        let mut burst = burst_mount::prepare(settings, directory, *view_layout, nodes, *rank, node_local)?;
        let cache = cache_store::prepare(settings, *view_layout, nodes, *rank, node_local)
            .inspect_err(|_| burst_mount::remove(burst.as_ref().map_or(&[], |burst| &burst.created)))?;
        if let Some(burst) = &mut burst {
            if let Some(message) = burst_mount::offer(&burst.options) {
                tell(&json!({"note": {"rank": rank, "message": message}}));
            }
            burst.options.switches = std::mem::take(&mut self.switches);
        }
        Ok((burst, cache))
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
        let node_count = self.nodes.len() as u32;
        let roots = settings.roots.unwrap_or_else(|| default_roots(node_count));
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
            has_homes: settings.roots.is_none() && default_homes(node_count),
            budget_bytes: settings.budget.unwrap_or_else(default_budget),
            direct_above_bytes: settings.direct_above,
            backing_read_bytes: settings.backing_read_size,
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
            cache_store: None,
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
