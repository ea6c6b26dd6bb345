//! The keeper: the process of a node that must not die, and so does as little as it can.
//!
//! It holds the connection of the mount, the listening sockets and the memory of what the kernel was told, and runs the
//! daemon as its child. When the daemon dies, another takes all of it over and goes on: programs wait and see no error
//! (docs/adr/0005-keeper.md). It has one thread, waits in one place, and never looks at the view, which could wait for
//! the very daemon that it is about to start.
//!
//! A signal to the keeper ends the daemon in order, and the daemon's orderly end ends the keeper. A daemon whose keeper has
//! died unmounts and ends automatically. If daemons die repeatedly (`restarts`), the keeper gives up, unmounts and ends.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use forebay_launch::{JobDirectory, NodeRecord};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde_json::{Value, json};

use crate::asking::Asking;
use crate::daemon::{Daemon, Orders, Program, State};
use crate::death::Death;
use crate::handed::Replayed;
use crate::held::Held;
use crate::messages::{HANDED_OVER, ToDaemon, ToKeeper};
use crate::namespaces::Namespaces;
use crate::options::KeeperOptions;
use crate::own_paths::Home;
use crate::packets;
use crate::patience::silence_max;
use crate::restarts::{Restarts, VoteReply};
use crate::signals::{Signals, hear_of_children};
use crate::starter::{Starter, ready_line, tell};
use crate::watched::{self, Watches, WhenGone};

/// Keeps the view of one node until the job ends: returns when it is unmounted and no daemon runs. Each daemon is given
/// `plan`.
///
/// # Errors
/// The reason why the first daemon does not serve, or why there is none any more.
pub fn keep<P: Serialize>(
    options: &KeeperOptions,
    plan: &P,
    handed: Replayed,
    directory: &JobDirectory,
    record: NodeRecord,
) -> anyhow::Result<()> {
    // Before anything can be left behind: a signal from now on ends the node in order.
    let signals = Signals::block().context("catching signals")?;
    hear_of_children().context("catching signals")?;
    // So that who looks at the processes, or ends them by name, can tell the two apart.
    if let Err(errno) = rustix::thread::set_name(c"forebay-keeper") {
        tracing::debug!(%errno, "the keeper has no name of its own");
    }
    let name = format!("{}/{}", options.job, options.rank);
    let text = serde_json::to_vec(plan).context("the plan cannot be written down")?;
    let file = packets::file_of(&text).context("no memory for the plan")?;
    let launch = Launch { program: Program::this()?, plan: file, key: handed.key, name };
    let (daemon, held, home) = take_mounts(&launch, options, handed.listener)?;
    let port = held.port().context("a socket without a port")?;
    tracing::info!(port, "peers connect to this node");
    // After the control socket, which tells whether the node runs already.
    let asking = Asking::listen(&directory.keeper_socket(options.rank))?;
    let node = held.node(options, home.as_ref())?;
    let namespaces = Namespaces::open(&directory.entrance(options.rank), node, home)?;
    let (watches, gone) = Watches::of(&options.watched);
    let mut keeper = Keeper {
        launch,
        held,
        asking,
        namespaces,
        record,
        directory: directory.clone(),
        ready: options.says_ready.then(|| ready_line(options, port)),
        job_is_up: false,
        starter: Starter::new(options.reports),
        watches,
        current: Some(daemon),
        next: None,
        next_program: None,
        restarts: Restarts::default(),
        replaced: 0,
        last_death: None,
        silence_max: silence_max(options.deadline),
        start_at: None,
        has_served: false,
        is_ending: false,
        paused_since: None,
    };
    keeper.write_record()?;
    keeper.on_gone(gone);
    let result = keeper.run(&signals);
    keeper.asking.answer(&json!({"error": "the node has ended"}));
    keeper.end();
    result
}

/// Mounts, and starts the first daemon, which prepares meanwhile.
fn take_mounts(
    launch: &Launch,
    options: &KeeperOptions,
    listener: Option<TcpListener>,
) -> anyhow::Result<(Daemon, Held, Option<Home>)> {
    let mut daemon = launch.start(Life::default())?;
    let (held, at_home) = Held::take(options, listener)?;
    if let Some(at_home) = &at_home {
        tell(&json!({"note": {"rank": options.rank, "message": at_home.note}}));
        // The first one is outside, where it sees no mount. It is gone before the next one opens what it has opened.
        drop(daemon);
        daemon = launch.start(Life::default())?;
    }
    // The node's starter knows how long it may take.
    daemon.patience.has_no_limit();
    Ok((daemon, held, at_home.map(|at_home| at_home.home)))
}

/// The arguments that all daemons share.
struct Launch {
    program: Program,
    plan: OwnedFd,
    key: Option<OwnedFd>,
    name: String,
}

impl Launch {
    fn start(&self, life: Life) -> anyhow::Result<Daemon> {
        self.start_program(&self.program, life)
    }

    fn start_program(&self, program: &Program, life: Life) -> anyhow::Result<Daemon> {
        let (Self { plan, name, .. }, Life { restarts, replaced, job_is_up, last_death }) = (self, life);
        let key = self.key.as_ref();
        Daemon::start(&Orders { program, name, plan, key, restarts, replaced, job_is_up, last_death })
    }
}

/// The history before a daemon.
#[derive(Clone, Copy, Default)]
struct Life {
    restarts: u32,
    replaced: u32,
    job_is_up: bool,
    last_death: Option<Death>,
}

struct Keeper {
    launch: Launch,
    held: Held,
    asking: Asking,
    namespaces: Namespaces,
    record: NodeRecord,
    directory: JobDirectory,
    /// The message to the node's starter when its view answers, if it waits for one.
    ready: Option<Value>,
    /// Whether the job has been up.
    job_is_up: bool,
    starter: Starter,
    watches: Watches,
    /// The daemon that serves, or will; none between a death and a start that has to wait.
    current: Option<Daemon>,
    /// The one that is to replace it.
    next: Option<Daemon>,
    /// That one's program.
    next_program: Option<Program>,
    restarts: Restarts,
    replaced: u32,
    last_death: Option<Death>,
    /// How long a daemon that serves may say nothing.
    silence_max: Duration,
    /// When a daemon is to be started.
    start_at: Option<Instant>,
    /// Whether the view has ever answered.
    has_served: bool,
    is_ending: bool,
    /// Since when the view does not answer.
    paused_since: Option<Instant>,
}

/// Sources of events.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Signals,
    Starter,
    Watched,
    Asking,
    Entrance,
    Says,
    Ended,
    NextSays,
    NextEnded,
}

impl Keeper {
    /// Until the node ends.
    fn run(&mut self, signals: &Signals) -> anyhow::Result<()> {
        loop {
            for source in self.wait(signals)? {
                match source {
                    Source::Signals => self.on_signal(signals),
                    Source::Starter => self.starter.reads_no_more(),
                    Source::Watched => {
                        let gone = self.watches.take();
                        self.on_gone(gone);
                    }
                    Source::Asking => self.on_question(),
                    Source::Entrance => self.namespaces.take(&self.launch.program),
                    Source::Says => self.on_word(),
                    Source::NextSays => self.on_next_word(),
                    Source::Ended => {
                        if let Some(outcome) = self.on_end() {
                            return outcome;
                        }
                    }
                    Source::NextEnded => self.on_next_end(),
                }
            }
            if self.is_ending && self.current.is_none() {
                return Ok(());
            }
            if let Some(outcome) = self.on_time() {
                return outcome;
            }
        }
    }

    /// Waits until something has happened or is due.
    fn wait(&self, signals: &Signals) -> anyhow::Result<Vec<Source>> {
        let mut sources = vec![(Source::Signals, signals.as_fd())];
        sources.extend(self.asking.waits_for().map(|waited| (Source::Asking, waited)));
        sources.extend(self.starter.waits_for().map(|waited| (Source::Starter, waited)));
        sources.extend(self.watches.wait_for().map(|waited| (Source::Watched, waited)));
        sources.extend(self.namespaces.wait_for().into_iter().map(|waited| (Source::Entrance, waited)));
        // A daemon's messages come before its end.
        for (daemon, says, ended) in
            [(&self.current, Source::Says, Source::Ended), (&self.next, Source::NextSays, Source::NextEnded)]
        {
            let Some(daemon) = daemon else { continue };
            sources.extend(daemon.link().map(|link| (says, link)));
            sources.push((ended, daemon.ended()));
        }
        let flags = |source| if source == Source::Starter { PollFlags::empty() } else { PollFlags::IN };
        let mut polled: Vec<PollFd<'_>> =
            sources.iter().map(|(source, fd)| PollFd::from_borrowed_fd(*fd, flags(*source))).collect();
        let timeout = self
            .due_in(Instant::now())
            .map(|left| Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() });
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno).context("waiting for the daemon"),
        }
        let came = sources.iter().zip(&polled).filter(|(_, polled)| !polled.revents().is_empty());
        Ok(came.map(|((source, _), _)| *source).collect())
    }

    fn due_in(&self, now: Instant) -> Option<Duration> {
        let held_from = self.current.as_ref().filter(|_| self.is_ending).and_then(Daemon::held_from);
        let at = [self.start_at, self.starter.due(), held_from].into_iter().flatten().min();
        let start = at.map(|at| at.saturating_duration_since(now));
        let daemons = [&self.current, &self.next].into_iter().flatten().filter_map(|daemon| daemon.patience.left(now));
        daemons.chain(start).min()
    }

    /// Does the steps that are due. Returns the node's result, if it ends.
    fn on_time(&mut self) -> Option<anyhow::Result<()>> {
        let now = Instant::now();
        self.namespaces.reap();
        if self.starter.has_died(&self.directory, self.job_is_up, now) {
            self.end_in_order("forebay up has died before the job was up");
        }
        [&mut self.current, &mut self.next].into_iter().flatten().for_each(|daemon| daemon.kill_if_late(now));
        let is_held = |daemon: &mut Daemon| daemon.held_from().is_some_and(|from| from <= now);
        if let Some(held) = self.current.take_if(|daemon| self.is_ending && is_held(daemon)) {
            held.abandon();
            return Some(Ok(()));
        }
        self.start_at.take_if(|at| *at <= now)?;
        match self.launch.start(self.life()) {
            Ok(daemon) => {
                self.current = Some(daemon);
                None
            }
            Err(error) => self.on_death(false, &format!("{error:#}")),
        }
    }

    fn on_signal(&mut self, signals: &Signals) {
        if signals.take() {
            self.end_in_order("told to end by a signal");
        }
    }

    fn on_gone(&mut self, gone: Vec<WhenGone>) {
        for when_gone in gone {
            match when_gone {
                WhenGone::EndNode => self.end_in_order("the command that started it has ended"),
                WhenGone::EndJob(command) => watched::run(&command),
            }
        }
    }

    fn end_in_order(&mut self, why: &str) {
        if std::mem::replace(&mut self.is_ending, true) {
            return;
        }
        tracing::info!(why, "the node ends");
        self.next = None;
        self.start_at = None;
        if let Some(daemon) = &mut self.current {
            daemon.tell_to_end(&ToDaemon::End);
        }
    }

    /// Starts a requested daemon. If one is about to start anyway, that one serves the request.
    fn on_question(&mut self) {
        if !self.asking.take() || self.current.as_ref().is_none_or(|daemon| daemon.state != State::Serving) {
            return;
        }
        tracing::info!("a new daemon is requested");
        let started = self.launch.program.newest().and_then(|program| {
            Ok((self.launch.start_program(&program, Life { replaced: self.replaced + 1, ..self.life() })?, program))
        });
        match started {
            Ok((daemon, program)) => (self.next, self.next_program) = (Some(daemon), Some(program)),
            Err(error) => self.asking.answer(&json!({"error": format!("{error:#}")})),
        }
    }

    fn on_word(&mut self) {
        let Some(daemon) = &mut self.current else { return };
        match daemon.hear() {
            Some(ToKeeper::StandingBy) => {
                daemon.state = State::StandingBy;
                self.begin();
            }
            Some(ToKeeper::Ready) => self.on_ready(),
            Some(ToKeeper::Alive) => daemon.patience.on_alive(Instant::now(), self.silence_max),
            Some(ToKeeper::Gathered(gathered)) => tell(&json!({"gathered": gathered})),
            Some(ToKeeper::JobIsUp) => self.on_job_up(),
            Some(ToKeeper::Leaves) => {
                daemon.patience.on_leaves(Instant::now());
                (self.is_ending, self.next) = (true, None);
            }
            Some(ToKeeper::Failed { message }) => daemon.failure = Some(message),
            None => {}
        }
    }

    /// A relay need not wait any more.
    fn on_job_up(&mut self) {
        self.job_is_up = true;
        if self.ready.is_some() {
            tell(&json!({"up": {"rank": self.record.rank}}));
        }
    }

    fn life(&self) -> Life {
        let Self { replaced, job_is_up, last_death, .. } = *self;
        Life { restarts: self.restarts.count, replaced, job_is_up, last_death }
    }

    /// Lets the daemon that stands by serve.
    fn begin(&mut self) {
        if let Some(daemon) = self.current.as_mut().filter(|_| !self.is_ending) {
            daemon.state = State::Begun;
            match self.has_served {
                true => daemon.patience.on_begun(Instant::now()),
                false => daemon.patience.has_no_limit(),
            }
            daemon.tell(&ToDaemon::Begin(Box::new(self.held.begin())), &self.held.descriptors());
        }
    }

    fn on_ready(&mut self) {
        if let Some(daemon) = &mut self.current {
            daemon.state = State::Serving;
            if !self.is_ending {
                daemon.patience.on_alive(Instant::now(), self.silence_max);
            }
        }
        self.restarts.served();
        self.last_death = self.last_death.map(Death::served_now);
        let paused = self.paused_since.take().map(|since| since.elapsed());
        if !std::mem::replace(&mut self.has_served, true) {
            self.ready.iter().for_each(tell);
        } else if let Some(paused) = paused {
            tracing::info!(restarts = self.restarts.count, replaced = self.replaced, ?paused, "the view answers again");
        }
        if let Err(error) = self.write_record() {
            tracing::warn!(%error, "the node's record stays as it was");
        }
        let paused_us = paused.unwrap_or_default().as_micros() as u64;
        self.asking.answer(&json!({"ok": {"paused_us": paused_us}}));
    }

    fn on_next_word(&mut self) {
        let Some(next) = &mut self.next else { return };
        match next.hear() {
            Some(ToKeeper::StandingBy) => {
                next.state = State::StandingBy;
                next.patience.has_no_limit();
                if let Some(daemon) = &mut self.current {
                    self.paused_since = Some(Instant::now());
                    daemon.tell_to_end(&ToDaemon::HandOver);
                }
            }
            Some(ToKeeper::Failed { message }) => next.failure = Some(message),
            Some(ToKeeper::Ready | ToKeeper::Alive | ToKeeper::Gathered(_) | ToKeeper::JobIsUp | ToKeeper::Leaves)
            | None => {}
        }
    }

    /// The new daemon is not to be: the old one stays.
    fn on_next_end(&mut self) {
        let Some(mut next) = self.next.take() else { return };
        let how = next.reap().map_or_else(|error| error.to_string(), |status| status.to_string());
        let why = next.take_failure().unwrap_or_else(|| format!("the new daemon ended ({how})"));
        tracing::error!(why, "the daemon is not replaced");
        self.asking.answer(&json!({"error": why}));
    }

    /// Handles the daemon's end. Returns the node's result, if it ends too.
    fn on_end(&mut self) -> Option<anyhow::Result<()>> {
        let mut daemon = self.current.take()?;
        let status = match daemon.reap() {
            Ok(status) => status,
            Err(error) => return Some(Err(error).context("the daemon is lost")),
        };
        if self.is_ending || status.success() {
            return Some(Ok(()));
        }
        if let Some(next) = self.next.take() {
            return self.go_on_with(next, status);
        }
        if status.code() == Some(i32::from(HANDED_OVER)) && self.has_served {
            tracing::info!("the daemon asks for another");
            (self.replaced, self.start_at) = (self.replaced + 1, Some(Instant::now()));
            self.paused_since.get_or_insert_with(Instant::now);
            return None;
        }
        self.last_death = Some(Death::now(status, daemon.was_late));
        let how = daemon.take_failure().unwrap_or_else(|| format!("the daemon ended by {status}; see its log"));
        if !self.has_served {
            return Some(Err(anyhow!(how)));
        }
        // One that took too long to start cost no processor time: what it waited for may come back.
        self.on_death(daemon.state == State::Serving || daemon.was_late, &how)
    }

    /// The daemon that was to be replaced has handed over, or has died, which is as good.
    fn go_on_with(&mut self, next: Daemon, status: ExitStatus) -> Option<anyhow::Result<()>> {
        self.paused_since.get_or_insert_with(Instant::now);
        if let Some(program) = self.next_program.take() {
            self.launch.program = program;
        }
        if status.code() == Some(i32::from(HANDED_OVER)) {
            self.replaced += 1;
        } else {
            tracing::error!(%status, "the daemon ended while it was being replaced");
            self.last_death = Some(Death::now(status, false));
            if let VoteReply::GiveUp(why) = self.restarts.died(Instant::now(), true) {
                return Some(Err(anyhow!("the node has no daemon any more: {why}")));
            }
        }
        let stands_by = next.state == State::StandingBy;
        self.current = Some(next);
        if stands_by {
            self.begin();
        }
        None
    }

    fn on_death(&mut self, had_served: bool, how: &str) -> Option<anyhow::Result<()>> {
        let now = Instant::now();
        self.paused_since.get_or_insert(now);
        match self.restarts.died(now, had_served) {
            VoteReply::After(pause) => {
                tracing::error!(how, restarts = self.restarts.count, ?pause, "the daemon died; another is started");
                self.start_at = Some(now + pause);
                None
            }
            VoteReply::GiveUp(why) => Some(Err(anyhow!("the node has no daemon any more: {why}; the last: {how}"))),
        }
    }

    fn write_record(&mut self) -> Result<(), forebay_launch::LaunchError> {
        self.record.daemon = self.current.as_ref().and_then(Daemon::process);
        self.record.write(&self.directory)
    }

    /// Takes everything away. A daemon that still runs is killed: its view is gone.
    fn end(self) {
        let Self { held, current, next, namespaces, .. } = self;
        held.unmount();
        drop((current, next));
        // Servers of images read the view: nothing holds them there any more.
        drop(namespaces);
    }
}
