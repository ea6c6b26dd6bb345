//! `up`: lays the job out, starts all daemons at once, and returns when every view answers. If one does not, it
//! undoes everything and says which failed and why.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow, bail};
use forebay_keeper::Replayed;
use forebay_keeper::trusted_path::check_way_to;
use forebay_launch::{
    Allocation, JobDirectory, JobRecord, LaunchError, Launched, LauncherName, MemoryFile, NewJob, NodeAddress, Ports,
    Process, ProcessSpace, Progress, SharedFiles, Spec, StartId, StartOptions, StartTimes, Started, Starter,
    ViewLayout, Waiting, job_script, local_starter, start, state_directory,
};
use forebay_secret::{JobKey, forbid_core_dumps};
use forebay_types::NodeRank;
use forebay_wire::Level;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::burst_mount;
use crate::carried_key::CarriedKey;
use crate::cli::UpArguments;
use crate::commands::job::down::end_abandoned_start;
use crate::commands::job::host_ends::{END_TIMEOUT, HostEnds, end_on_hosts};
use crate::commands::job::replace;
use crate::commands::job::selection::{self, Selection};
use crate::commands::job::up_direct::WayOut;
use crate::commands::job::up_report::{Report, below, lines};
use crate::commands::job::up_stopped::{Interrupted, StartFailed, Stopped};
use crate::commands::stage;
use crate::commands::stage::places::Way;
use crate::contradictions;
use crate::directives;
use crate::ending;
use crate::exit::DONE_IN_PART;
use crate::job_spec::{JobSpec, Script};
use crate::jobs::{base_for_new, job_bases, labels, name_to_start, variable};
use crate::kept_logs;
use crate::leftovers::{self, held_text};
use crate::node_local;
use crate::output::{causes, tell};
use crate::profiles;
use crate::progress::ProgressLine;
use crate::settings::values::{ReportChoice, show_duration};
use crate::settings::{Effective, Settings, UsageError};
use crate::signals::Signals;

/// Starts a job.
pub fn run(arguments: UpArguments) -> anyhow::Result<ExitCode> {
    if arguments.replace {
        return replace::run(arguments);
    }
    forbid_core_dumps().context("core dumps, which could hold the job's key, cannot be switched off")?;
    let began = Instant::now();
    let mut effective = Effective::merge(arguments.given.0, arguments.file.config)?;
    directives::add(&mut effective)?;
    let settings = effective.settings()?;
    if !settings.stage_out.is_empty() && settings.burst.is_empty() {
        return Err(
            UsageError("--stage-out needs --burst DIR=BACKING: it takes files of the burst tier".to_owned()).into()
        );
    }
    if let ReportChoice::Directory(reports) = &settings.report
        && reports.is_file()
    {
        return Err(UsageError(format!("--report needs a directory: {} is a file", reports.display())).into());
    }
    let way_out = WayOut::of(&effective, &settings, arguments.json)?;
    bring_up(&effective, settings, (arguments.json, arguments.verbose), began).or_else(|error| way_out.take(error))
}

fn bring_up(
    effective: &Effective,
    settings: Settings,
    (as_json, is_verbose): (bool, bool),
    began: Instant,
) -> anyhow::Result<ExitCode> {
    let allocated = match Allocation::from_environment(&variable) {
        // Its nodes do not matter then.
        Err(error) if selection::are_nodes_named(effective)? => {
            tracing::debug!(%error, "the environment's allocation is passed over");
            None
        }
        allocated => allocated?,
    };
    let job = name_to_start(&settings, allocated.as_ref());
    let ports = settings.port.map_or_else(Ports::random, |port| Ok(Ports::named(port)));
    let ports = ports.context("cannot choose the nodes' ports")?;
    let selection = Selection::choose(effective, &settings, ports.first(), allocated.as_ref())?;
    contradictions::check(&settings, &selection.nodes())?;
    let signals = Signals::catch()?;
    if matches!(selection, Selection::Hosts(..)) {
        raise_descriptor_limit();
    }
    let mut up = Up::lay_out(effective, settings, job, ports, &selection, allocated.as_ref())?;
    let result = up.start(selection, &signals, began);
    match result {
        Ok((started, prepare)) => {
            let took = began.elapsed();
            let profile = profiles::shown(&up.settings, &up.given).filter(|_| has_place(&up.settings));
            let Up { record, directory, settings, ports, .. } = &up;
            let (started, burst_mounts) = (&started, up.burst_mounts());
            let report = Report {
                record,
                directory,
                settings,
                ports,
                started,
                burst_mounts,
                profile,
                is_verbose,
                prepare,
                took,
            };
            report.print(as_json);
            let is_staged = stage::job::carry_out(Way::In, &up.settings.stage_in, &up.directory);
            // To go on without a node is what was asked for; `Report` has said so.
            Ok(if is_staged { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) })
        }
        Err(error) => Err(up.undo(error)),
    }
}

/// Raises the limit of open files as far as this user may: each host's command has some.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::debug!(%error, "the limit of open files stays");
    }
}

/// A job that is being started.
struct Up {
    directory: JobDirectory,
    record: JobRecord,
    settings: Settings,
    /// Until the nodes are started; `None` with `--security off`.
    key: Option<JobKey>,
    /// Where nodes listen that name no port of their own, for the job spec.
    ports: Ports,
    /// Where the views are, for the job spec.
    layout: ViewLayout,
    /// On which switches the nodes are, for the job spec.
    switches: Vec<u32>,
    given: BTreeMap<String, Vec<String>>,
    /// The script, for the job spec.
    script: Option<Script>,
    /// Whether anything has been started on a host.
    has_begun: bool,
    /// Hosts of nodes that failed to start, for which the reason has been told.
    failed_hosts: BTreeSet<String>,
}

impl Up {
    /// Where each node has the burst tier. A directory above would take files, too, which never land.
    fn burst_mounts(&self) -> Vec<PathBuf> {
        let Some(pair) = self.settings.burst.first() else { return vec![] };
        let base = self.settings.burst_mount.clone().unwrap_or_else(|| self.directory.burst());
        let below = pair.dir.strip_prefix("/").unwrap_or(&pair.dir);
        at_nodes(&base, &self.record.nodes, self.layout).iter().map(|base| base.join(below)).collect()
    }

    /// Makes the job's directory and writes down what is going to be started.
    fn lay_out(
        effective: &Effective,
        settings: Settings,
        job: String,
        ports: Ports,
        selection: &Selection,
        allocated: Option<&Allocation>,
    ) -> anyhow::Result<Self> {
        let nodes = selection.nodes();
        let launched = match selection {
            Selection::Local(..) => Launched::Local,
            Selection::Hosts(_, launcher) => {
                Launched::Hosts { by: launcher.name(), reach: launcher.reach(), steps: vec![] }
            }
        };
        let mut given = effective.given();
        let ends_at = burst_mount::decided(&settings)?;
        let directory = make_directory(&settings, &job, selection)?;
        let decided = profiles::decided(&settings).into_iter().chain(ends_at);
        given.extend(decided.map(|(key, text)| (key.to_owned(), vec![text])));
        let record = JobRecord {
            job,
            start_id: StartId::random().context("cannot name the start")?,
            progress: Progress::Starting,
            started_by: Process::this(),
            started_in: ProcessSpace::of_this(),
            started_unix_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64),
            launched,
            program: std::env::current_exe().context("cannot find this program")?,
            views: at_nodes(
                &settings.view.clone().unwrap_or_else(|| directory.view()),
                &nodes,
                selection.view_layout(),
            ),
            nodes,
            missing: BTreeMap::new(),
            start: None,
            settings: json!(given),
        };
        let key = key_for(settings.security)?;
        // Only partners are chosen by them.
        let switches = if settings.partner.is_empty() { vec![] } else { selection.switches(&settings)? };
        let up = Self {
            directory,
            record,
            settings,
            key,
            ports,
            layout: selection.view_layout(),
            switches,
            given,
            script: script_of(selection, allocated),
            has_begun: false,
            failed_hosts: BTreeSet::new(),
        };
        kept_logs::begin(&up.record.job);
        up.write_down().map_err(|error| up.undo(error))?;
        Ok(up)
    }

    fn write_down(&self) -> anyhow::Result<()> {
        self.record.write(&self.directory)?;
        self.directory.make_logs()?;
        self.job_spec().write(&self.directory.job_spec())
    }

    fn job_spec(&self) -> JobSpec {
        let Self { record, directory, ports, layout, switches, given, .. } = self;
        let (job, directory) = (record.job.clone(), directory.path().to_owned());
        let mut spec = JobSpec::new(job, directory, record.nodes.clone(), ports.clone(), *layout, given.clone());
        spec.start_id.clone_from(&record.start_id);
        spec.switches.clone_from(switches);
        spec.labels = labels(&record.job);
        spec.script.clone_from(&self.script);
        let text = |(name, path): (String, OsString)| Some((name, path.into_string().ok()?));
        spec.node_local = node_local::named_here().into_iter().filter_map(text).collect();
        spec
    }

    /// Starts the job; also how long it took until that could begin.
    fn start(
        &mut self,
        selection: Selection,
        signals: &Signals,
        began: Instant,
    ) -> anyhow::Result<(Started, Duration)> {
        // Files that hosts share are there until the nodes have read them.
        let (starters, _files) = self.starters(&selection)?;
        let prepare = began.elapsed();
        let (mut shown, count) = (ProgressLine::begin(), self.record.nodes.len());
        let Settings { wait_timeout, on_missing, .. } = self.settings;
        self.has_begun = true;
        let tell = |interrupt| signals.tell(interrupt);
        let (nodes, begun, directory) = (&self.record.nodes, &self.record, &self.directory);
        let mut show = |waiting: Waiting<'_>| match waiting {
            Waiting::Ready(ready) => {
                shown.show(|| format!("{ready} of {count} nodes ready, {}", show_duration(began.elapsed())));
            }
            // By it `down` finds them, if this process is killed.
            Waiting::Begun(running) if matches!(begun.launched, Launched::Hosts { .. }) && !running.is_empty() => {
                let mut record = begun.clone();
                record.set_steps(running);
                if let Err(error) = record.write(directory) {
                    tracing::warn!(%error, "the launcher's commands are not written down");
                }
            }
            Waiting::Begun(_) => {}
            Waiting::Late(late) => {
                tell!("forebay: still waiting for {} of {count} nodes:{}", late.len(), below("", lines(late, nodes)))
            }
        };
        let options = StartOptions { at_once: selection.at_once(), timeout: wait_timeout, when_missing: on_missing };
        let result = start(starters, options, tell, &mut show);
        drop(shown);
        let started = result.map_err(|failure| {
            let nodes = &self.record.nodes;
            let failed = failure.reasons.keys().filter_map(|rank| nodes.get(rank.0 as usize));
            self.failed_hosts = failed.map(|node| node.host.clone()).collect();
            anyhow!(StartFailed::of(&failure, nodes))
        })?;
        self.record.progress = Progress::Ready;
        self.record.missing.clone_from(&started.missing);
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let [prepare_us, launch_us, gather_us] = [prepare, started.launch, started.gather].map(us);
        self.record.start = Some(StartTimes { prepare_us, launch_us, gather_us, slowest: started.slowest });
        self.record.set_steps(&started.running);
        self.record.write(&self.directory)?;
        Ok((started, prepare))
    }

    /// The commands that start the nodes, and files that they need. Once they run nothing here holds the key any more.
    fn starters(&mut self, selection: &Selection) -> anyhow::Result<(Vec<Starter>, Option<SharedFiles>)> {
        let key = self.key.take();
        let program = &self.record.program;
        match selection {
            Selection::Local(bound, _) => {
                let key = key.as_ref().map(MemoryFile::of_key).transpose()?;
                let starter = |(rank, (listener, _)): (_, &(TcpListener, _))| {
                    let stdin = Replayed::over(listener, key.as_ref().map(AsFd::as_fd))
                        .with_context(|| format!("cannot hand node {rank} its listening socket"))?;
                    let arguments = self.local_arguments(rank);
                    Ok(local_starter(program, arguments, rank, stdin, self.directory.log(rank))?)
                };
                let starters = (0..).map(NodeRank).zip(bound).map(starter).collect::<anyhow::Result<_>>()?;
                Ok((starters, None))
            }
            Selection::Hosts(nodes, launcher) => {
                let seal = |key| match launcher.name() {
                    LauncherName::Ssh => Ok(CarriedKey::plain(key)),
                    name => CarriedKey::through(name, key, &self.settings.munge),
                };
                let input = self.job_spec().with_key(key.as_ref().map(seal).transpose()?)?;
                let files = match launcher.passes_input() {
                    true => None,
                    false => Some(shared_files(launcher.name(), &self.record.job, &input)?),
                };
                let spec = files.as_ref().map_or(Spec::Input(&input), Spec::Files);
                let starters = launcher.starters(&NewJob { program, nodes, directory: &self.directory, spec })?;
                Ok((starters, files))
            }
        }
    }

    fn local_arguments(&self, rank: NodeRank) -> Vec<OsString> {
        let mut arguments: Vec<OsString> =
            ["node", "--session", "--listen-stdin", "--rank"].into_iter().map(OsString::from).collect();
        arguments.extend([rank.to_string().into(), "--job-spec".into(), self.directory.job_spec().into()]);
        arguments
    }

    /// Takes back what was begun; the error says what was stopped and what is not known.
    fn undo(&self, error: anyhow::Error) -> anyhow::Error {
        let stopped = self.stop();
        match error.downcast::<StartFailed>() {
            Ok(failed) if failed.is_interrupted => anyhow!(Interrupted(failed.text(&stopped))),
            Ok(failed) => anyhow!(failed.text(&stopped)),
            Err(error) if stopped.is_all() => error,
            Err(error) => anyhow!("{}{}", causes(&error).join(": "), stopped.text()),
        }
    }

    fn stop(&self) -> Stopped {
        let call = self.record.remote_call().filter(|_| self.has_begun);
        let ends = call.map(|call| end_on_hosts(&call, &self.record, &self.directory, END_TIMEOUT));
        let HostEnds { ended, failed, without } = ends.unwrap_or_default();
        // Where no node could be started none can be ended, and why has been said.
        let is_told = |host: &str| self.failed_hosts.contains(host);
        let (told, others): (Vec<_>, Vec<_>) = failed.into_iter().partition(|(host, _)| is_told(host));
        let doubt = HostEnds::doubt(&self.directory);
        let without = without.into_iter().filter(|host| !is_told(host)).map(|host| (host, doubt.clone()));
        let unknown = others.into_iter().chain(without).map(|(host, why)| format!("{host}: {why}"));
        let mut unknown: Vec<String> = unknown.collect();
        match leftovers::clean_start(&self.directory, &self.record.start_id) {
            Ok(cleaned) if cleaned.held.is_empty() => {}
            Ok(cleaned) => unknown.push(held_text(&cleaned.held)),
            Err(why) => unknown.push(causes(&why).join(": ")),
        }
        Stopped { on: ended, not_ended: told.into_iter().map(|(host, _)| host).collect(), unknown }
    }
}

/// The script with which the job ends, where its scheduler does not end what is started.
fn script_of(selection: &Selection, allocated: Option<&Allocation>) -> Option<Script> {
    let allocation = allocated.filter(|_| matches!(selection, Selection::Hosts(..)))?;
    let process = job_script(allocation.scheduler)?;
    Some(Script { process, space: ProcessSpace::of_this() })
}

/// Files for a launcher that passes no standard input on.
fn shared_files(launcher: LauncherName, job: &str, spec: &MemoryFile) -> anyhow::Result<SharedFiles> {
    let failed = || {
        format!(
            "--launcher {launcher} hands the job spec over in a file that all hosts see, in $XDG_STATE_HOME/forebay or \
             ~/.local/state/forebay, and that cannot be written; start the nodes by ssh: --launcher ssh"
        )
    };
    let state = state_directory(&variable).with_context(failed)?;
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&state);
    made.map_err(anyhow::Error::from).and_then(|()| check_way_to(&state)).with_context(failed)?;
    SharedFiles::make(&state, job, spec).with_context(failed)
}

/// Whether a profile can be kept; what is in the way is told, and the job goes on without.
fn has_place(settings: &Settings) -> bool {
    let problem = profiles::problem(settings);
    problem.iter().for_each(|problem| tell!("forebay: note: the job has no profile: {problem}"));
    problem.is_none()
}

/// A new key where the level takes one; without one, a word of warning.
fn key_for(level: Level) -> anyhow::Result<Option<JobKey>> {
    if level != Level::Off {
        return Ok(Some(JobKey::random().context("cannot make the job's key")?));
    }
    tell!(
        "forebay: warning: --security off: anyone who reaches a node's port, other users included, can read the job's \
         exports and answer in a node's place"
    );
    Ok(None)
}

/// The job's directory, new. One that a dead job left is cleaned up first.
fn make_directory(settings: &Settings, job: &str, selection: &Selection) -> anyhow::Result<JobDirectory> {
    let bases = job_bases(settings.directory.as_deref());
    if let Some(found) = JobDirectory::find(&bases, job)? {
        let read_abandoned = || JobRecord::read(&found).ok().flatten().filter(JobRecord::is_abandoned);
        // Its `up` may have written its last word and ended between the two halves of a look; a dead one writes no more.
        let abandoned = read_abandoned().and_then(|_| read_abandoned());
        if let ([first, ..], None) = (leftovers::alive(&found).as_slice(), &abandoned) {
            bail!(
                "the job {job} is already up (process {}); end it with forebay down --job {job}, or choose another \
                 name with --job NAME",
                first.pid
            );
        }
        abandoned.iter().for_each(end_abandoned_start);
        if let Some((record, call)) = abandoned.as_ref().and_then(|record| Some((record, record.remote_call()?))) {
            for (host, why) in end_on_hosts(&call, record, &found, END_TIMEOUT).failed {
                tell!("forebay: note: what a dead job {job} left on {host} could not be ended: {why}");
            }
        }
        ending::without_down(&found, false);
        let done = leftovers::clean(&found).with_context(|| format!("cannot clean up after a dead job {job}"))?;
        let held = (!done.held.is_empty()).then(|| held_text(&done.held));
        let done: Vec<String> = done.notes.into_iter().chain(held).collect();
        let done = if done.is_empty() { String::new() } else { format!(": {}", done.join("; ")) };
        tell!("forebay: note: cleaned up after a dead job {job}{done}");
    }
    let base = base_for_new(settings.directory.as_deref(), matches!(selection, Selection::Local(..)))?;
    let created = JobDirectory::create(&base, job).map_err(|error| match error {
        LaunchError::Io { .. } => {
            anyhow!(error).context("there is no directory for the job's files; choose one with --directory")
        }
        error => error.into(),
    });
    created?
        .ok_or_else(|| anyhow!("the job {job} is being started by another forebay up; choose a name with --job NAME"))
}

/// Where each node has what is at `base` in a job with one node a host.
fn at_nodes(base: &Path, nodes: &[NodeAddress], layout: ViewLayout) -> Vec<PathBuf> {
    // Each node looks for others on its host; that is for short lists. A large one has one node a host.
    let unique: std::collections::HashSet<&str> = nodes.iter().map(|node| node.host.as_str()).collect();
    if layout == ViewLayout::ByHost && unique.len() == nodes.len() {
        return vec![base.to_owned(); nodes.len()];
    }
    let layout = if unique.len() == 1 { ViewLayout::Numbered } else { layout };
    let ranks = (0..nodes.len() as u32).map(NodeRank);
    ranks.map(|rank| layout.view(base, nodes, rank)).collect()
}
