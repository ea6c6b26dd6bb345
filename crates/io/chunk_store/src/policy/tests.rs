//! The policy with the sets that it works on, without bytes: what a store of so many chunks has of sets read in epochs.

use forebay_random::Random;
use forebay_types::{CHUNK_BYTES, ChunkIndex, Generation, ViewPath};

use super::Reuse;
use crate::format::Geometry;
use crate::key::{ChunkKey, ChunkName};
use crate::set::{self, Entry, SET_SLOTS, Set, Terms};

/// A store of chunks of one length.
struct Model {
    geometry: Geometry,
    capacity_bytes: u64,
    used_bytes: u64,
    sets: Vec<(Set, [u64; SET_SLOTS])>,
    reuse: Reuse,
    chunk_bytes: u64,
}

impl Model {
    fn new(capacity_bytes: u64, geometry: Geometry, chunk_bytes: u64) -> Self {
        let set = (Set([Entry::EMPTY; SET_SLOTS]), [0; SET_SLOTS]);
        let sets = vec![set; geometry.set_count as usize];
        Self { geometry, capacity_bytes, used_bytes: 0, sets, reuse: Reuse::default(), chunk_bytes }
    }

    /// A store that is `chunks` whole chunks large.
    fn of(chunks: u64) -> Self {
        let bytes = chunks * CHUNK_BYTES;
        Self::new(bytes, Geometry::of(bytes), CHUNK_BYTES)
    }

    /// Asks for a chunk, and puts it where it was not there; whether it was.
    fn ask(&mut self, chunk: u64) -> bool {
        self.reuse.advance(self.chunk_bytes);
        let key = key(chunk);
        let now = set::stamp(self.reuse.clock_bytes, self.geometry.unit_bytes);
        let [first, second] = key.sets(self.geometry.set_count).map(|set| set as usize);
        for set in [first, second] {
            let (entries, chunks) = &mut self.sets[set];
            let found = (0..SET_SLOTS).find(|index| !entries.0[*index].is_empty() && chunks[*index] == chunk);
            if let Some(index) = found {
                let distance = u64::from(entries.0[index].age(now)) * self.geometry.unit_bytes;
                self.reuse.observe(distance);
                entries.0[index].stamp = now;
                return true;
            }
        }
        let entry = Entry { tag: key.tag(), class: set::class(self.chunk_bytes as usize), stamp: now };
        let terms = Terms {
            need_bytes: entry.disk_bytes(),
            room_bytes: self.capacity_bytes as i64 - self.used_bytes as i64,
            now,
            horizon: (self.reuse.horizon_bytes(self.capacity_bytes) / self.geometry.unit_bytes) as u32,
            first_slot: key.first_slot(),
        };
        let places = [first, second];
        let sets = places.map(|set| self.sets[set].0.clone());
        if let Some(choice) = set::choose(&sets, terms) {
            for slot in choice.replaced {
                let replaced = &mut self.sets[places[slot.set]].0.0[slot.index];
                self.used_bytes -= replaced.disk_bytes();
                *replaced = Entry::EMPTY;
            }
            let (entries, chunks) = &mut self.sets[places[choice.slot.set]];
            (entries.0[choice.slot.index], chunks[choice.slot.index]) = (entry, chunk);
            self.used_bytes += entry.disk_bytes();
        }
        false
    }

    /// Asks for all of a set's chunks in some order; the part of them that was there.
    fn epoch(&mut self, chunks: std::ops::Range<u64>, random: &mut Random) -> f64 {
        let mut order: Vec<u64> = chunks.collect();
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last as u64 + 1) as usize);
        }
        let hits = order.iter().filter(|chunk| self.ask(**chunk)).count();
        hits as f64 / order.len() as f64
    }
}

fn key(chunk: u64) -> ChunkKey {
    let (file, generation) = (ViewPath::new(b"set").unwrap(), Generation::default());
    ChunkKey::new(&ChunkName { file_system: "", file: &file, generation: &generation, index: ChunkIndex(chunk) })
}

#[test]
fn epochs_over_more_than_the_store_hit_what_it_can_have() {
    const CAPACITY: u64 = 4000;
    for (tenths, wanted) in [(5, 1.0), (10, 0.98), (12, 0.9 / 1.2), (20, 0.9 / 2.0), (40, 0.9 / 4.0)] {
        for seed in 0..3 {
            let (mut model, mut random) = (Model::of(CAPACITY), Random::new(seed));
            let size = CAPACITY * tenths / 10;
            let hits: Vec<f64> = (0..6).map(|_| model.epoch(0..size, &mut random)).collect();
            eprintln!("{tenths} tenths of the capacity, seed {seed}: {hits:.3?}");
            assert!(hits[2..].iter().all(|hits| *hits >= wanted), "{tenths} tenths: {hits:.3?}");
        }
    }
}

#[test]
fn another_set_takes_over_when_the_old_one_is_unused() {
    const CAPACITY: u64 = 4000;
    for size in [CAPACITY, 2 * CAPACITY] {
        let (mut model, mut random) = (Model::of(CAPACITY), Random::new(7));
        let before = (0..4).map(|_| model.epoch(0..size, &mut random)).fold(0.0, |_, hits| hits);
        let after: Vec<f64> = (0..16).map(|_| model.epoch(size..2 * size, &mut random)).collect();
        eprintln!("{size} of {CAPACITY}: {before:.3}, then {after:.3?}");
        assert!(after[0] < 0.1, "the old set goes on being kept at first");
        assert!(after[15] >= 0.9 * CAPACITY as f64 / size as f64, "{after:.3?}");
    }
}

#[test]
fn two_choices_fill_the_store() {
    const CHUNKS: u64 = 200_000;
    // That of stores of more than 2.75 million chunks: a sixteenth more slots than chunks.
    let geometry = Geometry { set_count: (CHUNKS + CHUNKS / 16) / SET_SLOTS as u64, unit_bytes: CHUNK_BYTES };
    let mut model = Model::new(CHUNKS * (CHUNK_BYTES + 4096), geometry, CHUNK_BYTES);
    (0..CHUNKS).for_each(|chunk| assert!(!model.ask(chunk)));
    let kept = model.used_bytes as f64 / model.capacity_bytes as f64;
    eprintln!("kept: {kept:.5}");
    assert!(kept >= 0.99, "{kept}");
    // Smaller stores have four slots for each MiB, which chunks of files just above the limit of small ones fill.
    let mut model = Model::of(2000);
    model.chunk_bytes = 260 << 10;
    (0..8000).for_each(|chunk| assert!(!model.ask(chunk)));
    let kept = model.used_bytes as f64 / model.capacity_bytes as f64;
    assert!(kept >= 0.99, "{kept}");
}

#[test]
fn a_longer_reuse_is_forgotten_after_eight_times_as_long() {
    let mut reuse = Reuse::default();
    reuse.advance(1000);
    reuse.observe(800);
    assert_eq!(reuse.horizon_bytes(100), 1000);
    reuse.advance(3200);
    assert_eq!(reuse.horizon_bytes(100), 500);
    let mut other = Reuse { clock_bytes: reuse.clock_bytes, ..Reuse::default() };
    other.learn(&reuse);
    assert_eq!(other.longest_now(), 400);
    reuse.advance(3200);
    assert_eq!(reuse.horizon_bytes(100), 200, "twice the capacity is the least");
}
