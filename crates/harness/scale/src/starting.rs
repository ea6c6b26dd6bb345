//! How a job begins: daemons and then programs are started.
//!
//! On the test bed the launcher starts the daemons first, which takes processors' time, and programs start when all daemons
//! are ready, as after `forebay up`. Elsewhere the job is up when the model begins (`launch` has that part) and programs start
//! within the launcher's own spread. A daemon begins to prefill as soon as it is
//! ready.

use super::job::{Event, Job};
use super::network::NodeIndex;
use super::parameters::MODEL;
use super::servers::{Nanos, SECOND, nanos, scattered};

/// Processors that several share change between them so often.
const TIME_SLICE: Nanos = 3 * SECOND / 1000;

impl Job<'_> {
    /// Starts all daemons.
    pub(super) fn launch(&mut self) {
        let (first, left) = (nanos(self.machine.daemon.launch.value), nanos(self.machine.daemon.launch_node.value));
        for node in 0..self.nodes.len() as NodeIndex {
            match first + left {
                0 => self.daemon_ready(node),
                _ => self.queue.at(first, Event::Launch { node, left }),
            }
        }
    }

    /// A daemon is being started, a slice of a processor's time after the other.
    pub(super) fn launch_daemon(&mut self, node: NodeIndex, left: Nanos) {
        if left == 0 {
            return self.daemon_ready(node);
        }
        let slice = left.min(TIME_SLICE);
        self.cpu.launcher += slice;
        let done = self.work_beside(slice);
        self.queue.at(done, Event::Launch { node, left: left - slice });
    }

    fn daemon_ready(&mut self, node: NodeIndex) {
        self.starting -= 1;
        if self.pack.is_some() {
            self.begin_builder(node);
            self.decide(node, |core, now| core.start_prefill(now));
        }
        if self.starting > 0 {
            return;
        }
        let (now, within) = (self.queue.now(), nanos(MODEL.starts_within.value).max(1));
        // Programs that wait for the launch are let go by one gate.
        let within = if self.machine.daemon.launch.value > 0.0 { 1 } else { within };
        let left = nanos(self.machine.daemon.program_start.value);
        for node in 0..self.nodes.len() as NodeIndex {
            self.queue.at(now + scattered(self.seed, u64::from(node)) % within, Event::Start { node, left });
        }
    }

    /// A program starts, a slice of its processor's time after the other.
    pub(super) fn start_program(&mut self, node: NodeIndex, left: Nanos) {
        if left == 0 {
            return self.go_on(node);
        }
        let slice = left.min(TIME_SLICE);
        self.cpu.programs += slice;
        let done = self.work_beside(slice);
        self.queue.at(done, Event::Start { node, left: left - slice });
    }
}
