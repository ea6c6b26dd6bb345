//! Programs and the kernels below them: one step after the other, each when the one before has its answer.

use forebay_read::{KernelAnswer, KernelRequest, KernelTicket};
use forebay_types::Time;

use super::bodies::{Handle, Watcher};
use super::files::{Ask, Step};
use super::job::{DEADLINE, Event, Job};
use super::network::NodeIndex;
use super::program::NONE;
use super::servers::{Nanos, SECOND, nanos};

/// How long after a loss its bytes are asked for again, as the daemon has it.
const AGAIN_AFTER: Nanos = SECOND / 100;

impl Job<'_> {
    /// A program computes, and then goes on.
    pub(super) fn compute(&mut self, node: NodeIndex, work: Nanos) {
        self.cpu.programs += work;
        let goes_on = self.work_beside(work);
        self.queue.at(goes_on, Event::Next(node));
    }

    /// The next step of a node's program: what it computes before it has been counted.
    pub(super) fn go_on(&mut self, node: NodeIndex) {
        let program = &mut self.nodes[node as usize].program;
        let Some(step) = self.script.steps.get(program.done) else {
            program.ended = Some(self.queue.now());
            self.running -= 1;
            return;
        };
        program.asked = self.queue.now();
        let is_filled = self.is_filled(node);
        let program = &mut self.nodes[node as usize].program;
        if is_filled && matches!(step.ask, Ask::Read { .. } | Ask::Lookup { finds: None, .. }) {
            // The kernel has the pages, or knows that the name is absent: nobody is asked.
            return self.finish_step(node, self.queue.now());
        }
        let messages = messages_of(step, is_filled);
        self.kernel_messages += u64::from(messages);
        let request = match &step.ask {
            Ask::Lookup { parent, name, .. } => {
                program.inode(*parent).map(|parent| KernelRequest::Lookup { parent, name })
            }
            Ask::Directory { dir, .. } => program.inode(*dir).map(|inode| KernelRequest::Directory { inode }),
            Ask::Read { file, extent, .. } => {
                program.inode(*file).map(|inode| KernelRequest::Read { inode, extent: *extent })
            }
        };
        let Some(request) = request else {
            // Its directory could not be found.
            return self.fail(node, self.queue.now());
        };
        let work = nanos(self.machine.daemon.kernel_daemon.value * f64::from(messages));
        let ticket = KernelTicket(u64::from(node));
        let (answer, done) = self.decide_after(node, work, |core, now| core.handle_kernel(now, ticket, request));
        if let Some(answer) = answer {
            self.answer_kernel(node, done, answer);
        }
    }

    pub(super) fn answer_kernel(&mut self, node: NodeIndex, at: Nanos, answer: KernelAnswer<Handle>) {
        let place = &mut self.nodes[node as usize];
        let program = &mut place.program;
        let Some(step) = self.script.steps.get(program.done) else { return };
        match (answer, &step.ask) {
            (KernelAnswer::Entry(entry), Ask::Lookup { finds: Some(path), .. }) => {
                program.inodes[*path as usize] = entry.inode.0 as u32;
            }
            (KernelAnswer::Absent, Ask::Lookup { finds: None, .. }) => {}
            (KernelAnswer::Directory(listing), Ask::Directory { dir, entries, .. }) => {
                let Some(inode) = program.inode(*dir) else { return };
                let told = listing.entries().map(|entry| place.core.remember_entry(inode, &entry));
                let told: Vec<_> = told.collect();
                for (path, entry) in entries.iter().zip(told) {
                    program.inodes[*path as usize] = entry.map_or(NONE, |entry| entry.inode.0 as u32);
                }
            }
            (KernelAnswer::Read(parts), Ask::Read { .. }) => {
                program.waits = Some(parts);
                return self.look_at_read(node, at);
            }
            _ => return self.fail(node, at),
        }
        self.finish_step(node, at);
    }

    /// Looks whether all bytes of a read are there, which the daemon can say at a time.
    pub(super) fn look_at_read(&mut self, node: NodeIndex, at: Nanos) {
        let place = &mut self.nodes[node as usize];
        for part in place.program.waits.iter().flatten() {
            let until = (part.offset_bytes + part.len_bytes) as u32;
            let filling = place.filling.iter_mut().find(|filling| filling.handle.body == part.body.body);
            if let Some(filling) = filling.filter(|filling| filling.arrived < until) {
                return filling.watchers.push(Watcher::Read { until });
            }
        }
        if place.program.waits.take().is_some() {
            self.finish_step(node, at);
        }
    }

    /// Bytes that a read waits for got lost.
    pub(super) fn lose_read(&mut self, node: NodeIndex) {
        if self.nodes[node as usize].program.waits.take().is_some() {
            self.queue.at(self.queue.now() + AGAIN_AFTER, Event::Again(node));
        }
    }

    /// A read whose bytes got lost is asked for again.
    pub(super) fn read_again(&mut self, node: NodeIndex) {
        let program = &self.nodes[node as usize].program;
        let Some(Ask::Read { file, extent, .. }) = self.script.steps.get(program.done).map(|step| &step.ask) else {
            return;
        };
        let Some(inode) = program.inode(*file) else { return };
        let (ticket, deadline) = (KernelTicket(u64::from(node)), Time(program.asked).after(DEADLINE));
        let answer = self.decide(node, |core, now| core.handle_read_again(now, deadline, ticket, inode, *extent));
        if let Some(answer) = answer {
            self.answer_kernel(node, self.queue.now(), answer);
        }
    }

    fn fail(&mut self, node: NodeIndex, at: Nanos) {
        self.nodes[node as usize].program.failed += 1;
        self.finish_step(node, at);
    }

    /// A step is done: the program computes, and then asks for the next.
    fn finish_step(&mut self, node: NodeIndex, at: Nanos) {
        let program = &mut self.nodes[node as usize].program;
        program.longest = program.longest.max(at.saturating_sub(program.asked));
        let done = program.done;
        let was_filled = self.is_filled(node);
        self.nodes[node as usize].program.done += 1;
        let is_filled = self.is_filled(node);
        let messages = self.script.steps.get(done + 1).map_or(0, |step| messages_of(step, is_filled));
        let step = &self.script.steps[done];
        let filled = if was_filled { self.machine.daemon.kernel_filled.value * f64::from(step.things) } else { 0.0 };
        let think = step.think_seconds + filled;
        let work = nanos(think + self.machine.daemon.kernel_program.value * f64::from(messages));
        self.queue.at(at, Event::Compute { node, work });
    }
}

/// Messages of the kernel for a step. The kernel has items that a parcel has brought.
fn messages_of(step: &Step, is_filled: bool) -> u32 {
    if is_filled { 0 } else { step.messages }
}
