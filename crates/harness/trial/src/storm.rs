//! Programs let go on many nodes at one moment: the wall time until the last is done, and the processor time of all.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::cpu;
use crate::run::Group;
use crate::stop;

/// The result of a storm.
pub struct Storm {
    /// From the start signal to the end of the slowest program.
    pub wall: Duration,
    /// User and system time of all the programs together.
    pub cpu: Duration,
    /// The output of each program, in the order in which they were given.
    pub outputs: Vec<String>,
}

/// A program that did not succeed.
#[derive(Debug, thiserror::Error)]
#[error("a node's program failed ({status}){}{text}", if text.is_empty() { "" } else { ": " })]
pub struct ProgramFailed {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    text: String,
}

/// Programs that stand ready to be let go at one moment; ended when dropped before.
pub struct Gate {
    gates: Vec<ChildStdin>,
    waiting: Vec<(Group, BufReader<ChildStdout>)>,
}

struct Done {
    index: usize,
    at: Instant,
    result: anyhow::Result<String>,
}

/// Starts the commands, lets them go together and waits for the last one.
///
/// # Errors
/// When one of them fails, or the user asks for an end; all are ended then.
pub fn at_once(commands: Vec<Command>) -> anyhow::Result<Storm> {
    Gate::start(commands)?.open()
}

impl Gate {
    /// Starts the commands (made by [`Place::gated`](crate::Place::gated), or alike) and waits until all of them stand at the gate.
    ///
    /// # Errors
    /// When one of them does not start; all are ended then.
    pub fn start(commands: Vec<Command>) -> anyhow::Result<Self> {
        let mut gate = Self { gates: Vec::new(), waiting: Vec::new() };
        for mut command in commands {
            let mut group = Group::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
            gate.gates.push(group.child().stdin.take().context("a piped child has its pipe")?);
            let stdout = group.child().stdout.take().context("a piped child has its pipe")?;
            gate.waiting.push((group, BufReader::new(stdout)));
        }
        for (_, stdout) in &mut gate.waiting {
            let mut line = String::new();
            stdout.read_line(&mut line)?;
            ensure!(line == "ready\n", "a node's program did not start");
        }
        Ok(gate)
    }

    /// Lets all go and waits for the last one.
    ///
    /// # Errors
    /// As of [`at_once`].
    pub fn open(self) -> anyhow::Result<Storm> {
        let cpu_before = cpu::of_children()?;
        let start = Instant::now();
        open_gates(self.gates)?;
        let (last, outputs) = collect(self.waiting)?;
        Ok(Storm { wall: last - start, cpu: cpu::of_children()?.saturating_sub(cpu_before), outputs })
    }
}

fn open_gates(gates: Vec<ChildStdin>) -> anyhow::Result<()> {
    for mut gate in gates {
        gate.write_all(b"go\n").context("a node's program ended before the start")?;
    }
    Ok(())
}

/// One thread a program waits for its end, so that the ends are timed where they happen.
fn collect(waiting: Vec<(Group, BufReader<ChildStdout>)>) -> anyhow::Result<(Instant, Vec<String>)> {
    let pids: Vec<Pid> = waiting.iter().map(|(group, _)| group.pid()).collect();
    let mut outputs = vec![String::new(); waiting.len()];
    let (sender, receiver) = mpsc::channel();
    let threads: Vec<_> = waiting
        .into_iter()
        .enumerate()
        .map(|(index, (group, stdout))| {
            let sender = sender.clone();
            thread::spawn(move || {
                let result = wait_for(group, stdout);
                // The receiver is gone only when another program failed first.
                let _ = sender.send(Done { index, at: Instant::now(), result });
            })
        })
        .collect();
    let outcome = gather(&receiver, &mut outputs);
    if outcome.is_err() {
        for pid in pids {
            // Those that have ended already are not there to be ended.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
    for thread in threads {
        // A thread that panics ends the process (panic = abort), so joining cannot fail.
        let _ = thread.join();
    }
    Ok((outcome?, outputs))
}

fn wait_for(mut group: Group, mut stdout: BufReader<ChildStdout>) -> anyhow::Result<String> {
    let mut text = String::new();
    stdout.read_to_string(&mut text)?;
    let status = group.wait()?;
    if !status.success() {
        return Err(ProgramFailed { status, text }.into());
    }
    Ok(text)
}

fn gather(receiver: &mpsc::Receiver<Done>, outputs: &mut [String]) -> anyhow::Result<Instant> {
    let mut last = Instant::now();
    for _ in 0..outputs.len() {
        let done = loop {
            match receiver.recv_timeout(stop::LOOK_EVERY) {
                Ok(done) => break done,
                Err(RecvTimeoutError::Timeout) => stop::check()?,
                Err(RecvTimeoutError::Disconnected) => bail!("a waiting thread is gone"),
            }
        };
        outputs[done.index] = done.result?;
        last = last.max(done.at);
    }
    Ok(last)
}
