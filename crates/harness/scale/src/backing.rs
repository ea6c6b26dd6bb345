//! The backing file system: metadata workers, servers of contents, and the way to them.
//!
//! A request of weight n is n real ones in turn, which keep one worker for n times as long: the sum of waiting and the
//! workers' load are those of the n.

use super::files::Weight;
use super::servers::{Link, Nanos, Pool, nanos, scattered};
use super::stated::FileSystemParameters;

/// The backing file system.
pub(super) struct Backing {
    parameters: FileSystemParameters,
    metadata: Pool,
    objects: Vec<Link>,
    /// Listings, as asked for by nodes.
    pub listings: u64,
    /// Files that were opened.
    pub opens: u64,
    /// Bytes of contents.
    pub bytes: u64,
    /// Times that metadata workers were asked.
    asked: u64,
}

impl Backing {
    pub fn new(parameters: FileSystemParameters) -> Self {
        let metadata = Pool::new(parameters.metadata_at_once.count());
        let objects = vec![Link::default(); parameters.object_servers.count().max(1)];
        Self { parameters, metadata, objects, listings: 0, opens: 0, bytes: 0, asked: 0 }
    }

    /// A directory of so many entries is listed: when the answer is there.
    pub fn list(&mut self, now: Nanos, entries: usize, weight: Weight) -> Nanos {
        self.listings += u64::from(weight.things);
        let FileSystemParameters { listing_requests, entry_requests, .. } = self.parameters;
        self.ask(now, listing_requests.value + entry_requests.value * entries as f64, listing_requests.value, weight)
    }

    /// A file is opened: when it is open.
    pub fn open(&mut self, now: Nanos, weight: Weight) -> Nanos {
        self.opens += u64::from(weight.in_turn);
        self.ask(now, 1.0, 1.0, Weight { things: weight.in_turn, ..weight })
    }

    /// So many metadata requests, of which so many come one after the other: when the last is answered.
    pub fn ask(&mut self, now: Nanos, requests: f64, in_turn: f64, weight: Weight) -> Nanos {
        let requests = requests * f64::from(weight.things);
        let round_trips = nanos(self.parameters.round_trip.value * in_turn * f64::from(weight.in_turn));
        self.asked += 1;
        // Evenly spread over 1 - spread to 1 + spread.
        let chance = scattered(1, self.asked) as f64 / u64::MAX as f64;
        let varied = 1.0 + self.parameters.metadata_spread.value * (2.0 * chance - 1.0);
        let work = nanos(self.parameters.metadata_request.value * varied * requests);
        self.metadata.serve(now + round_trips / 2, work) + round_trips.div_ceil(2)
    }

    /// Bytes of a file are read; `place` spreads files and chunks over the servers. When the last byte has left, with
    /// the time that they took to leave.
    pub fn read(&mut self, now: Nanos, place: u64, bytes: u64, requests: u64) -> (Nanos, Nanos) {
        self.bytes += bytes;
        let half_way = nanos(self.parameters.round_trip.value / 2.0);
        let mut begins = now + half_way;
        if self.parameters.read_request.value > 0.0 {
            let work = nanos(self.parameters.read_request.value * requests as f64);
            begins = self.metadata.serve(begins, work);
        }
        let server = scattered(0, place) as usize % self.objects.len();
        let rate = self.parameters.object_server.value;
        let done = self.objects[server].pass(begins, bytes, rate);
        (done + half_way, nanos(bytes as f64 / rate))
    }
}
