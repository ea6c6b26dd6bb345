//! Programs and the kernels below them: one step after the other, each when the one before has its answer.

use forebay_node::{KernelAnswer, KernelRequest, KernelTicket};
use forebay_types::{Time, ViewPath};

use super::bodies::{Handle, Watcher};
use super::files::Ask;
use super::job::{DEADLINE, Event, Job};
use super::network::NodeIndex;
use super::program::NONE;
use super::servers::{Nanos, SECOND, nanos};
use super::stated::Stated;

/// How long after a loss its bytes are asked for again, as the daemon has it.
const AGAIN_AFTER: Nanos = SECOND / 100;

impl Job<'_> {
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
        if is_filled && matches!(step.ask, Ask::Read { .. }) {
            // The kernel has the pages: nobody is asked.
            return self.finish_step(node, self.queue.now());
        }
        let messages = if is_filled { 0 } else { step.messages };
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
            // What it lies in could not be found.
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

    /// Whether a parcel has brought what the next step asks for.
    fn is_filled(&self, node: NodeIndex) -> bool {
        let program = &self.nodes[node as usize].program;
        let parcel = self.pack.and_then(|pack| pack.of_step.get(program.done));
        parcel.is_some_and(|parcel| program.parcels.contains(parcel))
    }

    /// A parcel has arrived: it is unpacked, by threads that do nothing else.
    pub(super) fn open_parcel(&mut self, node: NodeIndex, at: Nanos, index: u32) {
        let opened = self.prepare_parcel(node, at, index, self.machine.daemon.unpack_gigabyte);
        self.queue.at(opened, Event::Opened { node, index });
    }

    /// It is unpacked: what waits for it goes on, and it is stored into the kernel's caches.
    pub(super) fn parcel_opened(&mut self, node: NodeIndex, index: u32) {
        let Some(pack) = self.pack else { return };
        let parcel = &pack.parcels[index as usize];
        let listing = |dir: &ViewPath| Some((dir.clone(), self.files.listing(dir)?.clone()));
        let listings = parcel.dirs.iter().filter_map(listing).collect();
        let is_wanted = self.decide(node, |core, now| {
            core.handle_parcel_places(&parcel.places);
            core.handle_parcel_opened(now, index, pack.parcels.len() as u32, listings, &parcel.chunks)
        });
        if is_wanted {
            let stored = self.prepare_parcel(node, self.queue.now(), index, self.machine.daemon.store_gigabyte);
            self.queue.at(stored, Event::Stored { node, index });
        }
    }

    /// It is in the kernel's caches.
    pub(super) fn parcel_stored(&mut self, node: NodeIndex, index: u32) {
        let Some(pack) = self.pack else { return };
        self.nodes[node as usize].program.parcels.insert(index);
        let chunks = &pack.parcels[index as usize].chunks;
        self.decide(node, |core, now| core.handle_parcel_stored(now, index, chunks));
    }

    /// Work on a parcel that takes so long a gigabyte: when it is done.
    fn prepare_parcel(&mut self, node: NodeIndex, at: Nanos, index: u32, gigabyte: Stated) -> Nanos {
        let Some(pack) = self.pack else { return at };
        let bytes = pack.parcels[index as usize].bytes as f64 * f64::from(pack.weight.things);
        let work = nanos(gigabyte.value * bytes / 1e9);
        match &mut self.processors {
            Some(shared) => shared.serve(at, work),
            None => self.nodes[node as usize].storing.serve(at, work),
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
        program.done += 1;
        let messages = self.script.steps.get(done + 1).map_or(0, |step| step.messages);
        let messages = if self.is_filled(node) { 0 } else { messages };
        let think = self.script.steps[done].think_seconds;
        let work = nanos(think + self.machine.daemon.kernel_program.value * f64::from(messages));
        let goes_on = match &mut self.processors {
            Some(shared) => shared.serve(at, work),
            None => at + work,
        };
        self.queue.at(goes_on, Event::Next(node));
    }
}
