//! Interrupts: whose request is answered `EINTR`, because whoever waits for it is being killed.
//!
//! The kernel tells of a signal once for each request, whichever signal it is, and takes no "start again" for an answer:
//! a program with a timer and `SA_RESTART` would see errors that no local file system gives. So a signal that a program
//! takes ends nothing. A request whose task got one is looked at, now and then regularly until it is answered: once the
//! task has a signal pending that ends it, it gets `EINTR`, which no program ever sees. Nobody waits for locks here, which
//! any signal may end: the kernel keeps them on the node itself.
//!
//! A task that this daemon cannot see (outside its pid namespace, or hidden in `/proc`) may be killed as well, and ends when
//! its request does: with the answer, or at the deadline.

use std::sync::Arc;
use std::time::Duration;

use forebay_fuse::Reply;
use forebay_node::KernelTicket;
use forebay_types::Errno;
use rustix::process::Signal;

use super::core::Core;
use super::waiting::WaitingRequests;
use crate::shared::node::Node;

/// How often those who wait are looked at: a program that is killed ends within two of these.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Tasks that are looked at each time: reading the status of one takes some 30 us of the network's thread. Of more, each
/// is looked at in its turn.
const LOOKS_AT_ONCE: usize = 64;

const KILL: u64 = bit(Signal::KILL);

/// Signals that end no program, whatever it does about them: they do nothing by default, or stop it.
const HARMLESS: u64 = bit(Signal::CHILD)
    | bit(Signal::CONT)
    | bit(Signal::STOP)
    | bit(Signal::TSTP)
    | bit(Signal::TTIN)
    | bit(Signal::TTOU)
    | bit(Signal::URG)
    | bit(Signal::WINCH);

/// The bit of a signal in a mask of `/proc`.
const fn bit(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}

/// What it takes to end requests.
pub struct Interrupts {
    node: Arc<Node>,
    core: Arc<Core>,
    waiting: Arc<WaitingRequests>,
}

impl Interrupts {
    pub fn new(node: &Arc<Node>, core: &Arc<Core>, waiting: &Arc<WaitingRequests>) -> Self {
        Self { node: Arc::clone(node), core: Arc::clone(core), waiting: Arc::clone(waiting) }
    }

    /// The task of a request got a signal. For a request that is not here the kernel is told a moment later to say it
    /// again: it may be about to come, and when it has been answered the kernel knows.
    pub fn handle(&self, ticket: KernelTicket, interrupt: Reply) {
        if let Some(tid) = self.waiting.note_signal(self.node.now(), ticket, interrupt)
            && is_being_killed(tid)
        {
            self.end(ticket);
        }
    }

    /// Looks at the tasks that got a signal, while there are any.
    pub async fn watch(&self) {
        loop {
            self.waiting.until_signal().await;
            loop {
                tokio::time::sleep(LOOK_INTERVAL).await;
                self.waiting.take_overtaken().into_iter().for_each(|interrupt| interrupt.error(Errno::EAGAIN));
                let signalled = self.waiting.signalled(self.node.now(), LOOKS_AT_ONCE);
                if signalled.is_empty() {
                    break;
                }
                let killed = signalled.into_iter().filter(|(_, tid)| is_being_killed(*tid));
                killed.for_each(|(ticket, _)| self.end(ticket));
            }
        }
    }

    /// Answers `EINTR` to a request that waits, wherever it waits.
    fn end(&self, ticket: KernelTicket) {
        if !self.core.decide(|core, _| core.handle_interrupt(ticket))
            && let Some(parked) = self.waiting.take(ticket)
        {
            parked.reply.error(Errno::EINTR);
        }
    }
}

/// Whether a task has a signal pending that ends it. One that cannot be seen has none.
fn is_being_killed(tid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{tid}/status")).is_ok_and(|status| tells_of_end(&status))
}

/// The same, of the text in `/proc/TID/status` (proc_pid_status(5)). Of a signal that ends a program the kernel makes
/// `SIGKILL`, but not while another one is pending, and not when it is to dump core.
fn tells_of_end(status: &str) -> bool {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let mask = |name: &str| field(name).and_then(|value| u64::from_str_radix(value, 16).ok()).unwrap_or(0);
    let pending = mask("SigPnd") | mask("ShdPnd");
    let dealt_with = mask("SigBlk") | mask("SigIgn") | mask("SigCgt") | HARMLESS;
    // What a debugger lets through is its own affair.
    let is_traced = field("TracerPid").is_some_and(|tracer| tracer != "0");
    let ends = if is_traced { KILL } else { KILL | !dealt_with };
    pending & ends != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(own: u64, shared: u64, [blocked, ignored, caught]: [u64; 3]) -> String {
        format!(
            "Name:\tprogram\nTracerPid:\t0\nSigQ:\t0/1\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\n\
             SigBlk:\t{blocked:016x}\nSigIgn:\t{ignored:016x}\nSigCgt:\t{caught:016x}\nCapInh:\t0000000000000000\n"
        )
    }

    #[test]
    fn only_a_signal_that_ends_the_program_counts() {
        assert!(!tells_of_end(""));
        assert!(!tells_of_end(&status(0, 0, [0; 3])));
        assert!(tells_of_end(&status(KILL, 0, [0; 3])));
        assert!(tells_of_end(&status(0, KILL, [0; 3])));
        let [alarm, quit] = [bit(Signal::ALARM), bit(Signal::QUIT)];
        assert!(tells_of_end(&status(0, alarm | quit, [0, 0, alarm])), "the one that it does nothing about");
        for dealt_with in [[quit, 0, 0], [0, quit, 0], [0, 0, quit]] {
            assert!(!tells_of_end(&status(0, quit, dealt_with)), "{dealt_with:?}");
        }
        assert!(!tells_of_end(&status(0, bit(Signal::CHILD) | bit(Signal::TSTP), [0; 3])));
    }

    #[test]
    fn a_debugger_may_keep_any_signal_but_one() {
        let traced = |pending| status(pending, 0, [0; 3]).replace("TracerPid:\t0", "TracerPid:\t17");
        assert!(!tells_of_end(&traced(bit(Signal::INT))));
        assert!(tells_of_end(&traced(KILL)));
    }

    #[test]
    fn a_task_that_cannot_be_seen_goes_on() {
        assert!(!is_being_killed(0));
        assert!(!is_being_killed(std::process::id()));
    }
}
