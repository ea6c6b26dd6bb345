//! Taking parcels apart at a node, as the daemon does it: one after the other, each opened, its names shown to the kernel by the
//! walker, and its chunks stored into the kernel's caches. Items that the program has already asked for cost no more time.

use forebay_read::ParcelChunk;
use forebay_types::ViewPath;

use super::bodies::Handle;
use super::files::Ask;
use super::job::{Event, Job};
use super::network::NodeIndex;
use super::pack::Parcel;
use super::servers::{Nanos, nanos, scattered};

/// Of the contents, the node that records leaves one chunk in so many for its kernel to ask for, as the daemon has it.
const SAMPLE: u64 = 16;

/// The node that records.
const RECORDER: NodeIndex = 0;

impl Job<'_> {
    /// Whether a parcel has brought what the next step asks for.
    pub(super) fn is_filled(&self, node: NodeIndex) -> bool {
        let program = &self.nodes[node as usize].program;
        let parcel = self.pack.and_then(|pack| pack.of_step.get(program.done));
        let is_read = self.script.steps.get(program.done).is_some_and(|step| matches!(step.ask, Ask::Read { .. }));
        parcel.is_some_and(|parcel| program.parcels.contains(parcel))
            && !(is_read && is_left(node, program.done as u32))
    }

    /// A parcel has come.
    pub(super) fn parcel_here(&mut self, node: NodeIndex, index: u32) {
        self.nodes[node as usize].filling_kernel.waiting.push_back(index);
        self.open_next(node);
    }

    /// Opens the next, if none is being taken apart.
    fn open_next(&mut self, node: NodeIndex) {
        let filling = &mut self.nodes[node as usize].filling_kernel;
        if filling.is_busy {
            return;
        }
        let Some(index) = filling.waiting.pop_front() else { return };
        filling.is_busy = true;
        let Some(pack) = self.pack else { return };
        let parcel = &pack.parcels[index as usize];
        let bytes = parcel.bytes as f64 * f64::from(pack.weight.things);
        let opened = self.work_of_filling(nanos(self.machine.daemon.unpack_gigabyte.value * bytes / 1e9));
        self.queue.at(opened, Event::Opened { node, index });
    }

    /// It is open: what waits for it goes on, and the walker looks at its names.
    pub(super) fn parcel_opened(&mut self, node: NodeIndex, index: u32) {
        let Some(pack) = self.pack else { return };
        let parcel = &pack.parcels[index as usize];
        let listing = |dir: &ViewPath| Some((dir.clone(), self.files.listing(dir)?.clone()));
        let listings = parcel.dirs.iter().filter_map(listing).collect();
        let is_wanted = self.decide(node, |core, now| {
            core.handle_parcel_places(&parcel.places);
            core.handle_parcel_opened(now, index, pack.parcels.len() as u32, listings, &parcel.chunks)
        });
        if !is_wanted {
            return;
        }
        let done = self.nodes[node as usize].program.done as u32;
        let messages: u32 = parcel.names.iter().filter(|(step, _)| *step >= done).map(|(_, messages)| messages).sum();
        self.kernel_messages += u64::from(messages);
        let daemon = &self.machine.daemon;
        let (own, walker) = (daemon.kernel_daemon.value, daemon.kernel_walker.value);
        let answered = self.work(node, nanos(own * f64::from(messages)));
        let walking = nanos(walker * f64::from(messages));
        self.cpu.walkers += walking;
        // One after the other: each name is asked for when the one before is answered.
        let walked = self.work_beside(walking).max(answered + walking);
        self.queue.at(walked, Event::Walked { node, index });
    }

    /// A page goes to a file that the kernel knows, so names come first.
    pub(super) fn names_walked(&mut self, node: NodeIndex, index: u32) {
        let Some(pack) = self.pack else { return };
        let parcel = &pack.parcels[index as usize];
        let done = self.nodes[node as usize].program.done as u32;
        let (mut chunks, mut bytes) = (0.0, 0.0);
        for (chunk, _) in stored_chunks(parcel, node).filter(|(_, step)| *step >= done) {
            chunks += f64::from(chunk.body.weight);
            bytes += f64::from(chunk.body.bytes) * f64::from(chunk.body.weight);
        }
        let daemon = &self.machine.daemon;
        let work = nanos(daemon.store_gigabyte.value * bytes / 1e9 + daemon.fill_chunk.value * chunks);
        let stored = self.work_of_filling(work);
        self.queue.at(stored, Event::Stored { node, index });
    }

    /// It is in the kernel's caches.
    pub(super) fn parcel_stored(&mut self, node: NodeIndex, index: u32) {
        let Some(pack) = self.pack else { return };
        let place = &mut self.nodes[node as usize];
        place.program.parcels.insert(index);
        place.filling_kernel.is_busy = false;
        let parcel = &pack.parcels[index as usize];
        let stored: Vec<ParcelChunk<Handle>> = stored_chunks(parcel, node).map(|(chunk, _)| chunk.clone()).collect();
        self.decide(node, |core, now| core.handle_parcel_stored(now, index, &stored));
        self.open_next(node);
    }

    fn work_of_filling(&mut self, work: Nanos) -> Nanos {
        self.cpu.daemons += work;
        self.work_beside(work)
    }
}

/// The chunks that are stored at a node, with the steps that read them.
fn stored_chunks(parcel: &Parcel, node: NodeIndex) -> impl Iterator<Item = (&ParcelChunk<Handle>, u32)> {
    parcel.chunks.iter().zip(parcel.readers.iter().copied()).filter(move |(_, step)| !is_left(node, *step))
}

/// Whether what this step reads is left for the kernel of a node to ask for.
fn is_left(node: NodeIndex, step: u32) -> bool {
    node == RECORDER && scattered(0, u64::from(step)).is_multiple_of(SAMPLE)
}
