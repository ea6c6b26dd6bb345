//! The client of a daemon's control socket: one line of JSON there, one back, with a deadline on everything.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use serde::Deserialize;
use serde_json::{Value, json};

/// An answer, bytes: the status of 100,000 nodes.
const ANSWER_BYTES_MAX: u64 = 512 << 20;

/// Daemons of a node that are asked the same, one after the other: more do not end within one question, unless the node is in trouble.
const DAEMONS_MAX: usize = 4;

/// How long a daemon may take to say that it is there.
const PING_DEADLINE: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Ok(Value),
    Error(String),
}

/// Sends `request` to the daemon behind `socket`, if it says first that it is there: one that is stopped takes a request
/// and never answers, and must not cost the time that the whole job may take.
///
/// # Errors
/// Those of `ask`.
pub fn ask_if_there(socket: &Path, question: &Value, timeout: Duration) -> anyhow::Result<Value> {
    ask(socket, &json!({"command": "ping"}), timeout.min(PING_DEADLINE))?;
    ask(socket, question, timeout)
}

/// Sends `request` to the daemon behind `socket` and waits for the answer, `timeout` at most. Where the daemon ends before it answers, as one does
/// whose part in the burst tree changes, the node's next one is asked: each request may be made twice.
///
/// # Errors
/// When nobody listens there, nothing comes back in time, or the daemon says why it cannot answer.
pub fn ask(socket: &Path, question: &Value, timeout: Duration) -> anyhow::Result<Value> {
    let deadline = Instant::now() + timeout;
    for _ in 1..DAEMONS_MAX {
        let left = deadline.saturating_duration_since(Instant::now());
        let asked = exchange(&connected(socket)?, question, left);
        if !asked.as_ref().is_ok_and(Vec::is_empty) && !asked.as_ref().is_err_and(has_ended) {
            return answer(asked, socket, timeout);
        }
    }
    ask_over(&connected(socket)?, socket, question, deadline.saturating_duration_since(Instant::now()))
}

/// Sends `request` to the daemon behind `socket` once: the same, made twice, would come to something else.
///
/// # Errors
/// Those of `ask`, and that the daemon has ended before it has answered.
pub fn ask_once(socket: &Path, question: &Value, timeout: Duration) -> anyhow::Result<Value> {
    ask_over(&connected(socket)?, socket, question, timeout)
}

/// A connection to the daemon behind `socket`.
///
/// # Errors
/// When nobody listens there, or so many wait already that the daemon must be stopped.
pub fn connected(socket: &Path) -> anyhow::Result<UnixStream> {
    connect(socket).map_err(|error| {
        let why = match error.kind() {
            ErrorKind::WouldBlock => {
                format!("the daemon behind {} accepts no connections: it may be stopped", socket.display())
            }
            _ => format!("no daemon listens on {} any more", socket.display()),
        };
        anyhow::Error::new(error).context(why)
    })
}

/// Where its queue is full, a socket that may block would wait for as long as the daemon is stopped.
fn connect(socket: &Path) -> std::io::Result<UnixStream> {
    let address = SocketAddrUnix::new(socket)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&stream, &address)?;
    let stream = UnixStream::from(stream);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Sends `request` over a connection of its own; whoever shuts that down gives the request up.
///
/// # Errors
/// Those of `ask`.
pub fn ask_over(stream: &UnixStream, socket: &Path, question: &Value, timeout: Duration) -> anyhow::Result<Value> {
    answer(exchange(stream, question, timeout), socket, timeout)
}

/// Sends `question` to the daemon behind `socket`, and hands over each line of its answer, until `take` says that this was the last one, or the
/// daemon ends. The end of this process ends what was asked for.
///
/// # Errors
/// Those of `ask_once`, `silence_max` for each line, and what `take` fails with.
pub fn follow(
    socket: &Path,
    question: &Value,
    silence_max: Duration,
    mut take: impl FnMut(&Value) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let mut stream = connected(socket)?;
    stream.set_write_timeout(Some(silence_max))?;
    stream.set_read_timeout(Some(silence_max))?;
    stream.write_all(format!("{question}\n").as_bytes())?;
    let mut reader = BufReader::new(&stream).take(ANSWER_BYTES_MAX);
    loop {
        let mut line = Vec::new();
        reader.set_limit(ANSWER_BYTES_MAX);
        let read = reader.read_until(b'\n', &mut line).map_err(silent).map(|_| line);
        if read.as_ref().is_ok_and(Vec::is_empty) || read.as_ref().is_err_and(has_ended) {
            return Ok(());
        }
        if take(&answer(read, socket, silence_max)?)? {
            return Ok(());
        }
    }
}

/// Whether the other side has ended before it has taken or answered the request.
fn has_ended(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

fn answer(line: std::io::Result<Vec<u8>>, socket: &Path, timeout: Duration) -> anyhow::Result<Value> {
    let line =
        line.with_context(|| format!("the daemon behind {} does not answer within {timeout:?}", socket.display()))?;
    match serde_json::from_slice(&line) {
        Ok(Answer::Ok(value)) => Ok(value),
        Ok(Answer::Error(message)) => Err(anyhow!(message)),
        Err(error) => Err(error).with_context(|| {
            format!("the daemon behind {} gave no answer; it may be of another version", socket.display())
        }),
    }
}

fn exchange(mut stream: &UnixStream, question: &Value, timeout: Duration) -> std::io::Result<Vec<u8>> {
    let deadline = Instant::now() + timeout;
    stream.set_write_timeout(Some(timeout))?;
    let mut line = question.to_string();
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    let mut answer = Vec::new();
    let mut reader = BufReader::with_capacity(64 << 10, Bounded { stream, deadline }).take(ANSWER_BYTES_MAX);
    reader.read_until(b'\n', &mut answer)?;
    Ok(answer)
}

/// Reads with what is left of the time: a timeout a read would let a slow daemon take any time it likes.
struct Bounded<'a> {
    stream: &'a UnixStream,
    deadline: Instant,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        // Zero would mean no timeout at all.
        self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        self.stream.read(buffer).map_err(silent)
    }
}

/// A timeout has another name, which tells nobody anything.
fn silent(error: Error) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock => Error::new(ErrorKind::TimedOut, "does not answer"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn daemon(answer: &'static [u8]) -> (tempfile::TempDir, std::path::PathBuf) {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = String::new();
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut question).unwrap();
            assert_eq!(question, "{\"command\":\"status\"}\n");
            stream.write_all(answer).unwrap();
            // Held open until the client goes: an answer ends with its line, not with the connection.
            stream.read_to_end(&mut Vec::new()).ok();
        });
        (temporary, path)
    }

    fn asked(answer: &'static [u8], timeout: Duration) -> anyhow::Result<Value> {
        let (_temporary, path) = daemon(answer);
        ask(&path, &json!({"command": "status"}), timeout)
    }

    #[test]
    fn answers_errors_and_silence() {
        let long = Duration::from_secs(20);
        assert_eq!(asked(b"{\"ok\":{\"nodes\":[]}}\n", long).unwrap(), json!({"nodes": []}));
        assert_eq!(asked(b"{\"error\":\"no such path\"}\n", long).unwrap_err().to_string(), "no such path");
        assert!(asked(b"hello\n", long).unwrap_err().to_string().contains("another version"));
        let silence = asked(b"{\"ok\"", Duration::from_millis(50)).unwrap_err();
        let told = silence.chain().map(ToString::to_string).collect::<Vec<_>>();
        assert!(told[0].ends_with("does not answer within 50ms"), "{told:?}");
    }

    #[test]
    fn the_nodes_next_daemon_is_asked_when_one_ends_without_an_answer() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("s");
        // As a keeper has it over all daemons of a node.
        let listener = UnixListener::bind(&path).unwrap();
        let daemons = std::thread::spawn(move || {
            let mut question = String::new();
            let (first, _) = listener.accept().unwrap();
            BufReader::new(first).read_line(&mut question).unwrap();
            let (mut second, _) = listener.accept().unwrap();
            BufReader::new(second.try_clone().unwrap()).read_line(&mut question).unwrap();
            second.write_all(b"{\"ok\":5}\n").unwrap();
            question
        });
        assert_eq!(ask(&path, &json!({"command": "drain"}), Duration::from_secs(20)).unwrap(), json!(5));
        assert_eq!(daemons.join().unwrap().lines().count(), 2);
    }

    #[test]
    fn a_question_that_must_not_be_made_twice_is_put_to_one_daemon() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let first = std::thread::spawn(move || {
            let (first, _) = listener.accept().unwrap();
            BufReader::new(first).read_line(&mut String::new()).unwrap();
            listener
        });
        let error = ask_once(&path, &json!({"command": "queryenddraft"}), Duration::from_secs(20)).unwrap_err();
        assert!(error.to_string().contains("gave no answer"), "{error:#}");
        let listener = first.join().unwrap();
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "it was asked again");
    }

    #[test]
    fn nobody_there() {
        let temporary = tempfile::tempdir().unwrap();
        let error = ask(&temporary.path().join("s"), &json!({}), Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("no daemon listens"));
    }

    #[test]
    fn a_full_queue_of_connections_is_an_error_and_no_wait() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("s");
        let listener = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        let mut taken = vec![];
        let error = loop {
            match connected(&path) {
                Ok(stream) => taken.push(stream),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("accepts no connections") && !taken.is_empty(), "{error:#}");
    }
}
