//! Making parcels, at a node that reads the file system for others, as the daemon does it: the pack is read ahead, two parts at
//! a time and as far as there is room; directories are listed ahead in the order of first use, few at once and fewer while
//! the pack is read (`forebay_prefetch::listings_at_once`); a parcel is whole when its part of the pack and the
//! listings of all its directories are there.
//!
//! Listings are asked of the node's own core, which knows whose they are. A directory is not kept waiting for the one above it.

use std::collections::{BTreeSet, VecDeque};

use forebay_read::AttemptId;
use forebay_types::Errno;
use forebay_wire::ReadMessage;

use super::files::{PathIndex, Weight};
use super::job::{Event, Job, Piece};
use super::making::Builder;
use super::network::NodeIndex;
use super::servers::{Nanos, nanos};
use super::tickets::own_ticket;

/// Bytes of one request of the file system's client: a kernel's read-ahead.
const CLIENT_READ_BYTES: u64 = 128 << 10;

/// The pack among the files that are open.
const PACK: u64 = 0;

impl Job<'_> {
    /// A node that reads for others begins to read ahead.
    pub(super) fn begin_builder(&mut self, node: NodeIndex) {
        let Some(pack) = self.pack else { return };
        let core = &self.nodes[node as usize].core;
        if !core.is_reader() {
            return;
        }
        let ahead = (0..pack.parcels.len() as u32)
            .filter(|index| core.makes_parcel(*index) && pack.parcels[*index as usize].bytes > 0)
            .collect();
        let own = pack.parcels.iter().flat_map(|parcel| &parcel.dirs).filter(|dir| core.reads_listing(dir));
        let unlisted: VecDeque<PathIndex> = own.filter_map(|dir| self.files.index(dir)).collect();
        let builder = Builder {
            ahead,
            reading: BTreeSet::new(),
            here: BTreeSet::new(),
            here_bytes: 0,
            wanted: VecDeque::new(),
            asked: unlisted.iter().copied().collect(),
            unlisted,
            listing: 0,
            listed: BTreeSet::new(),
            waiting: Vec::new(),
            readers: core.reader_count(),
        };
        self.nodes[node as usize].builder = Some(builder);
        self.build_on(node);
    }

    /// A parcel is asked for, here or by another node.
    pub(super) fn make_parcel(&mut self, node: NodeIndex, at: Nanos, call: AttemptId, index: u32) {
        let files = self.files;
        let parcel = self.pack.and_then(|pack| pack.parcels.get(index as usize));
        let (Some(parcel), Some(builder)) = (parcel, self.nodes[node as usize].builder.as_mut()) else {
            let answered = forebay_read::Answered::Failed(Errno::ENODATA);
            return self.queue.at(at, Event::Told { to: node, call, answered });
        };
        let dirs = parcel.dirs.iter().filter_map(|dir| files.index(dir));
        let unasked: Vec<PathIndex> = dirs.filter(|dir| builder.asked.insert(*dir)).collect();
        builder.unlisted.extend(unasked);
        let is_known = builder.here.contains(&index) || builder.reading.contains(&index);
        if parcel.bytes > 0 && !is_known && !builder.wanted.contains(&index) {
            builder.wanted.push_back(index);
        }
        builder.waiting.push((call, index));
        self.build_on(node);
    }

    /// A listing that parcels need is there.
    pub(super) fn parcel_dir_listed(&mut self, node: NodeIndex, dir: PathIndex) {
        if let Some(builder) = self.nodes[node as usize].builder.as_mut() {
            builder.listing -= 1;
            builder.listed.insert(dir);
        }
        self.build_on(node);
    }

    /// A part of the pack is there.
    pub(super) fn pack_read(&mut self, node: NodeIndex, index: u32) {
        let bytes = self.packed_bytes(index);
        if let Some(builder) = self.nodes[node as usize].builder.as_mut()
            && builder.reading.remove(&index)
        {
            builder.here.insert(index);
            builder.here_bytes += bytes;
        }
        self.build_on(node);
    }

    /// Reads and lists what there is leave for, and answers parcels that are whole.
    fn build_on(&mut self, node: NodeIndex) {
        self.answer_parcels(node);
        while let Some(index) = self.builder(node).and_then(Builder::next_part) {
            self.read_pack(node, index);
        }
        while let Some(dir) = self.builder(node).and_then(Builder::next_directory) {
            if let Some(dir_path) = self.files.path(dir) {
                let message = ReadMessage::Listing { dir: dir_path.clone() };
                self.decide(node, |core, now| core.handle_own(now, own_ticket(dir), message));
            }
        }
    }

    fn builder(&mut self, node: NodeIndex) -> Option<&mut Builder> {
        self.nodes[node as usize].builder.as_mut()
    }

    fn packed_bytes(&self, index: u32) -> u64 {
        self.pack.map_or(0, |pack| u64::from(pack.parcels[index as usize].packed_bytes) * u64::from(pack.weight.things))
    }

    /// Reads a parcel's part of the pack.
    fn read_pack(&mut self, node: NodeIndex, index: u32) {
        let Some(weight) = self.pack.map(|pack| pack.weight) else { return };
        let all = self.packed_bytes(index);
        let requests = all.div_ceil(CLIENT_READ_BYTES);
        let mut begins = self.ask_client(node, weight.things, requests as u32, all);
        if self.open.insert((node, PACK)) {
            begins = self.backing.open(begins, Weight::ONE);
        }
        let (done, _) = self.backing.read(begins, u64::from(index), all, requests);
        self.queue.at(done, Event::PackRead { node, index });
    }

    fn answer_parcels(&mut self, node: NodeIndex) {
        let Some(pack) = self.pack else { return };
        let files = self.files;
        let Some(builder) = self.nodes[node as usize].builder.as_mut() else { return };
        let is_whole = |builder: &Builder, index: u32| {
            let parcel = &pack.parcels[index as usize];
            let is_listed = |dir| files.index(dir).is_none_or(|dir| builder.listed.contains(&dir));
            (parcel.bytes == 0 || builder.here.contains(&index)) && parcel.dirs.iter().all(is_listed)
        };
        let (whole, waiting) =
            std::mem::take(&mut builder.waiting).into_iter().partition(|(_, index)| is_whole(builder, *index));
        builder.waiting = waiting;
        let whole: Vec<(AttemptId, u32)> = whole;
        for (call, index) in whole {
            let (parcel, weight) = (&pack.parcels[index as usize], pack.weight.things);
            if parcel.bytes > 0
                && let Some(builder) = self.builder(node)
            {
                builder.here_bytes =
                    builder.here_bytes.saturating_sub(u64::from(parcel.packed_bytes) * u64::from(weight));
            }
            let bytes = parcel.packed_bytes;
            let body = Piece { to: node, call, bytes, total: bytes, weight };
            let made = self.work(node, nanos(self.machine.daemon.make_parcel.value * f64::from(weight)));
            self.queue.at(made, Event::Made(body));
        }
    }
}
