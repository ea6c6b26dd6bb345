//! `top`: the shell around `crate::top`. One thread reads keys, one asks the daemons, one reads logs, one hears signals; this one draws.
//! So keys answer while a daemon does not.
//!
//! The terminal is restored at every end: the return of `run`, a signal, and a panic of any thread (ratatui's
//! hook, which runs before that of `forebay::main` ends the process).

use std::ffi::OsStr;
use std::fs;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use forebay_launch::JobDirectory;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::TopArguments;
use crate::commands::job::status::{self, Which};
use crate::commands::job_status;
use crate::kept_logs::{end_of, logs_in};
use crate::log_lines::{Event as LogEvent, events};
use crate::output::{causes, say};
use crate::top::{self, Answer, Input, Key, Screen, Step, Top};

/// How often the daemons are asked and a frame is drawn.
const EVERY: Duration = Duration::from_secs(1);

/// How often it is seen whether the log is wanted.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Bytes of logs that are read each second, of all nodes of this host, and the least of one.
const LOG_BYTES_MAX: u64 = 512 << 10;
const LOG_BYTES_MIN: u64 = 4 << 10;

/// Lines of logs that are kept.
const LOG_LINES_MAX: usize = 5000;

/// The command for other terminals, and for none.
const ELSEWHERE: &str = "forebay status --watch prints lines anywhere";

/// Something for the thread that draws.
enum Message {
    Input(Input),
    /// The terminal has another size.
    Resized,
    /// A signal ends it.
    Signal(u8),
    /// No key can be read any more.
    NoKeys(io::Error),
}

/// Shows the job until a key, a signal or the job's end.
pub fn run(arguments: TopArguments) -> anyhow::Result<ExitCode> {
    let effective = arguments.of_job.effective()?;
    ensure!(
        io::stdout().is_terminal() && io::stdin().is_terminal(),
        "top needs a terminal as its input and output; {ELSEWHERE}"
    );
    if let Some(fault) = fault_of_term(std::env::var_os("TERM").as_deref()) {
        bail!("top cannot draw: TERM {fault}; set it to the terminal's (TERM=xterm-256color suits most); {ELSEWHERE}");
    }
    let directory = match status::find(&effective, false)? {
        Which::This(directory) => directory,
        Which::Any(jobs) => bail!(
            "several jobs are up on this host: {}; choose one with --job NAME",
            jobs.iter().map(|listed| listed.directory.job()).collect::<Vec<_>>().join(", ")
        ),
    };
    let has_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let (sender, messages) = mpsc::channel();
    let wants_log = Arc::new(AtomicBool::new(false));
    let signals = Signals::catch().context("cannot catch signals")?;
    let began = Instant::now();
    let mut terminal = ratatui::try_init().context("cannot prepare the terminal")?;
    start(&directory, &sender, &wants_log, signals);
    let mut top = Top::new(directory.job(), has_colour, began.elapsed());
    let end = show(&mut terminal, &mut top, (&messages, began), &wants_log);
    // First, so that a failure is seen.
    ratatui::restore();
    let end = end?;
    if let Some(words) = end.words {
        say!("forebay: {words}");
    }
    Ok(ExitCode::from(end.status))
}

/// Why nothing can be drawn on a terminal of that name.
fn fault_of_term(term: Option<&OsStr>) -> Option<&'static str> {
    match term {
        None => Some("is not set"),
        Some(term) if term.is_empty() => Some("is empty"),
        Some(term) if term == "dumb" => Some("is dumb, a terminal without a cursor that moves"),
        Some(_) => None,
    }
}

/// How it ends.
struct End {
    words: Option<String>,
    status: u8,
}

fn show(
    terminal: &mut DefaultTerminal,
    top: &mut Top,
    (messages, began): (&Receiver<Message>, Instant),
    wants_log: &AtomicBool,
) -> anyhow::Result<End> {
    loop {
        terminal.draw(|frame| top::draw(top, began.elapsed(), frame)).context("cannot write to the terminal")?;
        let mut message = match messages.recv_timeout(EVERY) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => bail!("the threads of top have ended"),
        };
        // One frame shows all messages that have come, so held keys do not lag.
        while let Some(next) = message {
            match next {
                Message::Input(input) => {
                    if let Step::Quit(words) = top.input(input, began.elapsed()) {
                        return Ok(End { words, status: 0 });
                    }
                }
                Message::Resized => {}
                Message::Signal(number) => return Ok(End { words: None, status: 128 + number }),
                Message::NoKeys(error) => return Err(error).context("cannot read keys from the terminal"),
            }
            message = messages.try_recv().ok();
        }
        wants_log.store(top.wants_log(), Ordering::Relaxed);
    }
}

/// Starts the threads. Each ends when this process does, or when its messages reach nobody.
fn start(directory: &JobDirectory, sender: &Sender<Message>, wants_log: &Arc<AtomicBool>, signals: Signals) {
    let asked = directory.clone();
    thread(sender, move |to| ask(&asked, to));
    thread(sender, read_keys);
    thread(sender, move |to| signals.hear(to));
    let (directory, wants_log) = (directory.clone(), Arc::clone(wants_log));
    thread(sender, move |to| read_logs(&directory, to, &wants_log));
}

fn thread(sender: &Sender<Message>, body: impl FnOnce(&Sender<Message>) + Send + 'static) {
    let to = sender.clone();
    spawn(move || body(&to));
}

fn ask(directory: &JobDirectory, to: &Sender<Message>) {
    loop {
        let began = Instant::now();
        let answer = job_status::ask(directory, false);
        let has_ended =
            fs::symlink_metadata(directory.path()).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        let input = match answer {
            _ if has_ended => Input::Ended,
            Ok((status, overview)) => Input::Answer(Box::new(Answer::of(&status, overview))),
            Err(error) => Input::Failure(causes(&error).join(": ")),
        };
        if to.send(Message::Input(input)).is_err() || has_ended {
            return;
        }
        // An answer that takes long, of many nodes or through a remote shell, takes at most half of the time.
        let took = began.elapsed();
        sleep(EVERY.saturating_sub(took).max(took));
    }
}

fn read_keys(to: &Sender<Message>) {
    loop {
        let message = match event::read() {
            Ok(Event::Key(pressed)) if pressed.kind != KeyEventKind::Release => key(pressed.code, pressed.modifiers),
            Ok(Event::Resize(..)) => Some(Message::Resized),
            Ok(_) => None,
            Err(error) => {
                to.send(Message::NoKeys(error)).ok();
                return;
            }
        };
        if message.is_some_and(|message| to.send(message).is_err()) {
            return;
        }
    }
}

/// The meaning of a key.
fn key(code: KeyCode, modifiers: KeyModifiers) -> Option<Message> {
    let key = match code {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Key::Quit,
        KeyCode::Char(_) if modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => return None,
        KeyCode::Char('q' | 'Q') => Key::Quit,
        KeyCode::Char('n') => Key::Show(Screen::Nodes),
        KeyCode::Char('f') => Key::Show(Screen::Files),
        KeyCode::Char('s') => Key::Show(Screen::Slow),
        KeyCode::Char('l') => Key::Show(Screen::Log),
        KeyCode::Char('?' | 'h') => Key::Show(Screen::Help),
        KeyCode::Esc => Key::Back,
        KeyCode::Up | KeyCode::Char('k') => Key::Up,
        KeyCode::Down | KeyCode::Char('j') => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown | KeyCode::Char(' ') => Key::PageDown,
        KeyCode::Home => Key::First,
        KeyCode::End => Key::Last,
        _ => return None,
    };
    Some(Message::Input(Input::Key(key)))
}

/// The signals that end it. The terminal is raw, so Ctrl-C is a key; a SIGINT comes from `kill`.
struct Signals {
    runtime: Runtime,
    signals: [(u8, Signal); 3],
}

impl Signals {
    /// Catches them from now on.
    fn catch() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let entered = runtime.enter();
        let signals = [
            (2, signal(SignalKind::interrupt())?),
            (15, signal(SignalKind::terminate())?),
            (1, signal(SignalKind::hangup())?),
        ];
        drop(entered);
        Ok(Self { runtime, signals })
    }

    fn hear(self, to: &Sender<Message>) {
        let [mut interrupt, mut terminate, mut hangup] = self.signals;
        let number = self.runtime.block_on(async {
            tokio::select! {
                _ = interrupt.1.recv() => interrupt.0,
                _ = terminate.1.recv() => terminate.0,
                _ = hangup.1.recv() => hangup.0,
            }
        });
        to.send(Message::Signal(number)).ok();
    }
}

fn read_logs(directory: &JobDirectory, to: &Sender<Message>, wants_log: &AtomicBool) {
    loop {
        if !wants_log.load(Ordering::Relaxed) {
            sleep(LOOK_EVERY);
            continue;
        }
        if to.send(Message::Input(Input::Log(log_lines(directory)))).is_err() {
            return;
        }
        sleep(EVERY);
    }
}

/// The last lines of the logs on this host, in the order of time.
fn log_lines(directory: &JobDirectory) -> Vec<String> {
    let logs = logs_in(&directory.logs());
    let bytes_max = (LOG_BYTES_MAX / logs.len().max(1) as u64).max(LOG_BYTES_MIN);
    let mut found: Vec<(LogEvent, String)> = vec![];
    for log in &logs {
        // A log may be moved away meanwhile: the job ends.
        let Ok(bytes) = end_of(log, bytes_max) else { continue };
        let name = log.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        found.extend(events(&String::from_utf8_lossy(&bytes)).into_iter().map(|event| (event, name.clone())));
    }
    // Stable: events of one time stay in the order of their log.
    found.sort_by(|(one, _), (other, _)| one.time.cmp(&other.time));
    let lines = found.iter().flat_map(|(event, name)| event.text.lines().map(move |line| format!("{name}: {line}")));
    let mut lines: Vec<String> = lines.collect();
    lines.drain(..lines.len().saturating_sub(LOG_LINES_MAX));
    lines
}
