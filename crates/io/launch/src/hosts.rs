//! Programs on other hosts: by a remote shell, `ssh` or anything that is called like it (`CMD HOST -- PROGRAM ARGUMENTS`), or by
//! a command of a scheduler that takes a host.
//!
//! A remote shell pastes its arguments together and a shell on the other side takes them apart again, so only words
//! that mean themselves are put there; everything else a daemon needs, the job's key among it, travels on its standard input.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::{Process, end_all};

/// Hosts on which a program is run at once by the remote shell, where nothing waits for all of them: each takes a process
/// here and a login there, and `srun` a place in the queue of its controller.
const REMOTE_CALLS_AT_ONCE: usize = 64;

/// The way to run a program on one host: the words before it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reach {
    /// The command and its options, `Reach::HOST` among them in the place of the host.
    pub(crate) words: Vec<String>,
    /// Whether a shell on the other side takes the words after these apart.
    pub(crate) is_shell: bool,
    /// Whether the program's output comes back.
    pub(crate) passes_output: bool,
    /// The command's own word for a host, where that is not its name.
    #[serde(default)]
    pub(crate) places: BTreeMap<String, String>,
}

impl Reach {
    /// The word that stands for the host.
    pub(crate) const HOST: &str = "{host}";

    /// By a remote shell with its options.
    #[must_use]
    pub fn by_shell(shell: &[String]) -> Self {
        let shell = if shell.is_empty() { vec!["ssh".to_owned()] } else { shell.to_vec() };
        let words = shell.into_iter().chain([Self::HOST.to_owned(), "--".to_owned()]).collect();
        Self { words, is_shell: true, passes_output: true, places: BTreeMap::new() }
    }

    /// By a command that hands its arguments on as they are.
    pub(crate) fn by_command<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let words = words.into_iter().map(str::to_owned).collect();
        Self { words, is_shell: false, passes_output: true, places: BTreeMap::new() }
    }
}

/// How programs are run on other hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoteCall {
    /// The way there.
    pub reach: Reach,
    /// The program, at the same path on every host.
    pub program: PathBuf,
}

impl RemoteCall {
    /// The command that takes the program to a host, for messages.
    #[must_use]
    pub fn name(&self) -> String {
        self.reach
            .words
            .iter()
            .take_while(|word| *word != Reach::HOST)
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Why the output of a program on `host` cannot be had, where it cannot.
    #[must_use]
    pub fn output_problem(&self, host: &str) -> Option<String> {
        let name = self.name();
        (!self.reach.passes_output).then(|| format!("{name} brings no output back from {host}; run this command there"))
    }

    /// The command that runs the program with `arguments` on `host`.
    #[must_use]
    pub fn command(&self, host: &str, arguments: &[&str]) -> Command {
        let place = self.reach.places.get(host).map_or(host, String::as_str);
        let mut words = self.reach.words.iter().map(|word| if word == Reach::HOST { place } else { word });
        let mut command = Command::new(words.next().unwrap_or("ssh"));
        command.args(words);
        if self.reach.is_shell {
            command.arg(quoted(&self.program.to_string_lossy())).args(arguments.iter().map(|word| quoted(word)));
        } else {
            command.arg(&self.program).args(arguments);
        }
        command
    }
}

impl RemoteCall {
    /// Runs the program with `arguments` on `host`, for `timeout` at most.
    ///
    /// # Errors
    /// When it cannot be started, or does not end in time; then it is ended.
    pub fn output(&self, host: &str, arguments: &[&str], timeout: Duration) -> std::io::Result<Output> {
        let mut command = self.command(host, arguments);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let process = Process::of(child.id());
        let (sender, ended) = channel();
        std::thread::spawn(move || sender.send(child.wait_with_output()));
        ended.recv_timeout(timeout).unwrap_or_else(|_| {
            end_all(process.as_slice(), Duration::ZERO);
            Err(std::io::Error::new(std::io::ErrorKind::TimedOut, format!("no answer within {timeout:?}")))
        })
    }

    /// Runs the program with `arguments` on all `hosts`, `REMOTE_CALLS_AT_ONCE` at once, on each for `timeout` at
    /// most. Returns the calls that did not end well.
    #[must_use]
    pub fn run_on_all(&self, hosts: &[&str], arguments: &[&str], timeout: Duration) -> Vec<FailedCall> {
        let (sender, ended) = channel();
        let mut calls = Calls { timeout, sender, running: BTreeMap::new(), failed: Vec::new() };
        let mut hosts = hosts.iter();
        loop {
            let room = REMOTE_CALLS_AT_ONCE - calls.running.len();
            hosts.by_ref().take(room).for_each(|host| calls.begin(host, self.command(host, arguments)));
            let Some(deadline) = calls.running.values().map(|call| call.deadline).min() else { return calls.failed };
            match ended.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok((host, output)) => calls.on_end(host, output),
                Err(_) => calls.give_up_late(Instant::now()),
            }
        }
    }
}

/// A call of a host that did not end well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedCall {
    /// The host.
    pub host: String,
    /// The exit status of the program, or of the remote shell; None if there is none.
    pub code: Option<i32>,
    /// Why, for people to read.
    pub reason: String,
}

/// Calls under way, and what came of those that are over.
struct Calls {
    timeout: Duration,
    sender: Sender<(String, std::io::Result<Output>)>,
    running: BTreeMap<String, Call>,
    failed: Vec<FailedCall>,
}

struct Call {
    /// `None` when it had ended as soon as it was looked at.
    process: Option<Process>,
    deadline: Instant,
}

impl Calls {
    fn begin(&mut self, host: &str, mut command: Command) {
        match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn() {
            Ok(child) => {
                let call = Call { process: Process::of(child.id()), deadline: Instant::now() + self.timeout };
                self.running.insert(host.to_owned(), call);
                let (host, sender) = (host.to_owned(), self.sender.clone());
                std::thread::spawn(move || sender.send((host, child.wait_with_output())));
            }
            Err(error) => self.failed.push(FailedCall::without_code(host, error.to_string())),
        }
    }

    fn on_end(&mut self, host: String, output: std::io::Result<Output>) {
        // One that was given up is not heard any more.
        if self.running.remove(&host).is_some() {
            self.failed.extend(failure(&host, output));
        }
    }

    fn give_up_late(&mut self, now: Instant) {
        let (late, running) = std::mem::take(&mut self.running).into_iter().partition(|(_, call)| call.deadline <= now);
        self.running = running;
        let late: BTreeMap<String, Call> = late;
        end_all(&late.values().filter_map(|call| call.process).collect::<Vec<_>>(), Duration::ZERO);
        let timeout = self.timeout;
        let silent = |host: String| FailedCall::without_code(&host, format!("no answer within {timeout:?}"));
        self.failed.extend(late.into_keys().map(silent));
    }
}

impl FailedCall {
    fn without_code(host: &str, reason: String) -> Self {
        Self { host: host.to_owned(), code: None, reason }
    }
}

/// Why a call did not end well; `None` when it did.
fn failure(host: &str, output: std::io::Result<Output>) -> Option<FailedCall> {
    match output {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let reason = format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
            Some(FailedCall { code: output.status.code(), ..FailedCall::without_code(host, reason) })
        }
        Err(error) => Some(FailedCall::without_code(host, error.to_string())),
    }
}

/// `word` as a shell reads it back; unchanged when it means itself.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(&byte);
    if word.bytes().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_is_shell_host_program() {
        let shell = ["ssh", "-oBatchMode=yes"].map(str::to_owned);
        let call = RemoteCall { reach: Reach::by_shell(&shell), program: "/opt/fore bay/bin/forebay".into() };
        let command = call.command("n4", &["down"]);
        let words: Vec<_> = command.get_args().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(command.get_program(), "ssh");
        assert_eq!(words, ["-oBatchMode=yes", "n4", "--", "'/opt/fore bay/bin/forebay'", "down"]);
    }

    #[test]
    fn a_command_of_a_scheduler_gets_words_as_they_are() {
        let reach = Reach::by_command(["flux", "exec", "-r", Reach::HOST]);
        let reach = Reach { places: BTreeMap::from([("n4".to_owned(), "3".to_owned())]), ..reach };
        let call = RemoteCall { reach, program: "/opt/fore bay/bin/forebay".into() };
        let words = |host| {
            let command = call.command(host, &["down"]);
            command.get_args().map(|word| word.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(words("n4"), ["exec", "-r", "3", "/opt/fore bay/bin/forebay", "down"]);
        assert_eq!(words("n5")[2], "n5");
    }

    #[test]
    fn hosts_that_fail_or_hang_are_named() {
        let script = r#"case $0 in good) ;; bad) echo no route >&2; exit 3;; *) exec sleep 60;; esac"#;
        let shell = ["sh", "-c", script].map(str::to_owned).to_vec();
        let call = RemoteCall { reach: Reach::by_shell(&shell), program: "x".into() };
        let mut failed = call.run_on_all(&["good", "bad", "hung"], &[], Duration::from_millis(500));
        failed.sort_by(|one, other| one.host.cmp(&other.host));
        let told =
            |host: &str, code, reason: &str| FailedCall { host: host.to_owned(), code, reason: reason.to_owned() };
        assert_eq!(failed[0], told("bad", Some(3), "exit status: 3: no route"));
        assert_eq!(failed[1], told("hung", None, "no answer within 500ms"));
        assert_eq!(failed.len(), 2);
        let missing = RemoteCall { reach: Reach::by_shell(&["/nonexistent/rsh".into()]), program: "x".into() };
        assert_eq!(missing.run_on_all(&["a", "b"], &[], Duration::from_secs(1)).len(), 2);
    }

    #[test]
    fn so_many_hosts_are_called_at_once_and_no_more() {
        let temporary = tempfile::tempdir().unwrap();
        let gate = temporary.path().join("gate");
        assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
        // Opening the gate waits until it is open at its other end. The last of the first is slow, so that one too many would
        // be there before it.
        let slow = format!("h{}", REMOTE_CALLS_AT_ONCE - 1);
        let script = format!(r#"cd "$2"; [ "$0" != {slow} ] || seq 50 | xargs -n 1 true; : >"$0"; : <gate"#);
        let shell = ["sh", "-c", &script].map(str::to_owned).to_vec();
        let call = RemoteCall { reach: Reach::by_shell(&shell), program: temporary.path().to_owned() };
        let hosts: Vec<String> = (0..2 * REMOTE_CALLS_AT_ONCE).map(|host| format!("h{host}")).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let called = || hosts.iter().filter(|host| temporary.path().join(host).exists()).count();
        let (first, deadline) = (&hosts[..REMOTE_CALLS_AT_ONCE], Instant::now() + Duration::from_secs(60));
        std::thread::scope(|scope| {
            let run = scope.spawn(|| call.run_on_all(&hosts, &[], Duration::from_secs(120)));
            while !first.iter().all(|host| temporary.path().join(host).exists()) {
                assert!(Instant::now() < deadline, "{} hosts were called", called());
                std::thread::yield_now();
            }
            let at_once = called();
            let _open = std::fs::OpenOptions::new().write(true).open(&gate).unwrap();
            assert_eq!(run.join().unwrap(), []);
            assert_eq!((at_once, called()), (REMOTE_CALLS_AT_ONCE, hosts.len()));
        });
    }

    #[test]
    fn a_host_that_hangs_is_given_up() {
        let shell = ["sh", "-c", r#"[ "$0" = hung ] && exec sleep 60; echo "$0 $*""#].map(str::to_owned).to_vec();
        let call = RemoteCall { reach: Reach::by_shell(&shell), program: "x".into() };
        let answered = call.output("good", &["status"], Duration::from_secs(30)).unwrap();
        assert_eq!(String::from_utf8(answered.stdout).unwrap(), "good -- x status\n");
        let began = Instant::now();
        let error = call.output("hung", &[], Duration::from_millis(200)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn quoting_survives_a_shell() {
        for word in ["plain/path-1.0", "two words", "it's", "$HOME;`id`", "a\"b\\c"] {
            let output = Command::new("sh").arg("-c").arg(format!("printf %s {}", quoted(word))).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }
}
