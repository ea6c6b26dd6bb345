//! Any appends by several threads, commits, releases and checkpoints, through several crashes in a row, against a model.
//!
//! A daemon that is killed leaves all that was written, perhaps with one record torn; a loss of power leaves any subset of the
//! sectors that were written since the last sync. Then what `commit` returned for is there, nothing is there that was not
//! written, and what a recovery has yielded once stays.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use forebay_log::{Appended, Log, LogError, Recovered, RecoveredRecord, Recovery};
use forebay_types::LogPosition;
use forebay_wire::log_record::RecordData;
use forebay_wire::log_record::{RECORD_HEAD_BYTES, Sequence};
use proptest::prelude::*;

use crate::fixture::{FILE, all, contents, directory, owner, settings};
use crate::image;

const SEGMENTS: u64 = 128;

/// An append of one thread, in turn with the others.
#[derive(Clone, Debug)]
struct Append {
    is_note: bool,
    length: usize,
}

#[derive(Clone, Debug)]
enum Then {
    Nothing,
    Commit,
    Checkpoint,
    /// Of every n-th data record.
    Release(usize),
}

#[derive(Clone, Debug)]
enum Crash {
    /// With the writer of one record that was not committed, by its index, which had written so much of it.
    Killed {
        torn: Option<(prop::sample::Index, prop::sample::Index)>,
    },
    Power {
        seed: u64,
        permille: u64,
    },
}

#[derive(Clone, Debug)]
struct Life {
    batches: Vec<(Vec<Vec<Append>>, Then)>,
    crash: Crash,
}

#[derive(Clone, Debug)]
struct Written {
    position: LogPosition,
    is_note: bool,
    contents: Vec<u8>,
}

/// The records that must be found.
#[derive(Default)]
struct Model {
    records: BTreeMap<Sequence, Written>,
    /// May be found, need not be.
    released: BTreeSet<Sequence>,
    /// Lost with the power.
    gone: Vec<Written>,
    checkpoint: Option<Sequence>,
    committed: Sequence,
    tag: u64,
}

fn lives() -> impl Strategy<Value = Vec<Life>> {
    let append = (any::<bool>(), prop_oneof![4 => 0..200usize, 1 => 0..8000usize]);
    let append = append.prop_map(|(is_note, length)| Append { is_note, length: length.max(usize::from(!is_note)) });
    let threads = prop::collection::vec(prop::collection::vec(append, 0..8), 1..4);
    let then = prop_oneof![
        4 => Just(Then::Nothing),
        2 => Just(Then::Commit),
        1 => Just(Then::Checkpoint),
        1 => (1..4usize).prop_map(Then::Release),
    ];
    let torn = prop::option::of((any::<prop::sample::Index>(), any::<prop::sample::Index>()));
    let crash = prop_oneof![
        torn.prop_map(|torn| Crash::Killed { torn }),
        (any::<u64>(), prop_oneof![1 => Just(0), 1 => Just(1000), 4 => 1..400u64])
            .prop_map(|(seed, permille)| Crash::Power { seed, permille }),
    ];
    let life = (prop::collection::vec((threads, then), 1..5), crash);
    prop::collection::vec(life.prop_map(|(batches, crash)| Life { batches, crash }), 1..4)
}

impl Model {
    fn run(&mut self, log: &Log, batches: Vec<(Vec<Vec<Append>>, Then)>) {
        for (threads, then) in batches {
            let written = Mutex::new(Vec::new());
            thread::scope(|scope| {
                for appends in threads {
                    self.tag += 1000;
                    let (tag, written) = (self.tag, &written);
                    scope.spawn(move || {
                        for (index, append) in (0..).zip(appends) {
                            let contents = contents(tag + index, append.length);
                            let appended = if append.is_note {
                                log.append_note(&contents)
                            } else {
                                log.append_data(RecordData::written(FILE, tag + index), &contents)
                            };
                            let Appended { position, sequence } = appended.unwrap();
                            let record = Written { position, is_note: append.is_note, contents };
                            written.lock().unwrap().push((sequence, record));
                        }
                    });
                }
            });
            self.records.extend(written.into_inner().unwrap());
            self.then(log, then);
        }
    }

    fn then(&mut self, log: &Log, then: Then) {
        match then {
            Then::Nothing => {}
            Then::Commit => {
                log.commit(log.end()).unwrap();
                self.committed = log.end();
            }
            Then::Checkpoint => {
                let up_to = log.end();
                log.checkpoint(up_to, &up_to.0.to_le_bytes()).unwrap();
                self.checkpoint = Some(up_to);
                self.committed = up_to;
                self.records.retain(|sequence, record| *sequence >= up_to || !record.is_note);
            }
            Then::Release(every) => {
                let data = self.records.iter().filter(|(_, record)| !record.is_note);
                for (sequence, record) in data.step_by(every) {
                    if self.released.insert(*sequence) {
                        log.release(record.position, record.contents.len() as u64).unwrap();
                    }
                }
            }
        }
    }

    /// The first record that may not have reached the disk.
    fn first_unsynced(&self, durable: Sequence) -> Option<LogPosition> {
        self.records.range(durable..).next().map(|(_, record)| record.position)
    }

    /// Brings about the crash in a copy; which record may be found no more.
    fn crash(&mut self, store: &Path, durable: Sequence, crash: &Crash) {
        match crash {
            Crash::Power { seed, permille } => {
                if let Some(from) = self.first_unsynced(durable) {
                    image::lose_sectors(store, from, *seed, *permille);
                }
            }
            Crash::Killed { torn: Some((which, kept)) } => {
                let open: Vec<_> = self.records.range(durable..).map(|(sequence, _)| *sequence).collect();
                if !open.is_empty() {
                    let sequence = which.get(&open);
                    let record = self.records.remove(sequence).unwrap();
                    // Its number may be given again.
                    self.released.remove(sequence);
                    let bytes = RECORD_HEAD_BYTES + record.contents.len();
                    // The last bytes of a head may be zero.
                    let kept = kept.index(if record.contents.is_empty() { RECORD_HEAD_BYTES / 2 } else { bytes });
                    image::tear(store, record.position, bytes, kept);
                }
            }
            Crash::Killed { torn: None } => {}
        }
    }

    /// Compares what was recovered; the model is then what was.
    fn check(&mut self, recovery: &Recovery, found: &[Recovered], is_power: bool) {
        assert_eq!(recovery.checkpoint().map(|checkpoint| checkpoint.up_to), self.checkpoint);
        let up_to = self.checkpoint.unwrap_or_default();
        assert!(found.is_sorted_by_key(|record| record.sequence));
        let sequences: BTreeSet<_> = found.iter().map(|record| record.sequence).collect();
        assert!(sequences.iter().all(|sequence| *sequence >= up_to));
        let wanted = self.records.range(up_to..).filter(|(sequence, _)| !self.released.contains(sequence));
        let missing: Vec<_> = wanted.map(|(sequence, _)| *sequence).filter(|one| !sequences.contains(one)).collect();
        assert!(is_power || missing.is_empty(), "{missing:?} are missing after a kill");
        if let Some(first) = missing.first() {
            assert!(*first >= self.committed, "{first:?} was committed");
            let behind = sequences.range(first..).next();
            assert_eq!(behind, None, "found without what came before it");
            self.gone.extend(self.records.split_off(first).into_values());
        }
        for record in found {
            let written = self.records.get(&record.sequence).unwrap_or_else(|| panic!("never written: {record:?}"));
            assert_eq!(record.position, written.position);
            match &record.record {
                RecoveredRecord::Note(note) => assert!(written.is_note && *note == written.contents),
                RecoveredRecord::Data { bytes, .. } => {
                    assert!(!written.is_note && *bytes as usize == written.contents.len());
                }
                RecoveredRecord::Damaged => panic!("damaged: {record:?}"),
            }
        }
        self.records.retain(|sequence, _| !self.released.contains(sequence) || sequences.contains(sequence));
        self.released.retain(|sequence| sequences.contains(sequence));
    }

    fn live(&self) -> Vec<(LogPosition, u64)> {
        let live = self.records.iter().filter(|(sequence, one)| !one.is_note && !self.released.contains(sequence));
        live.map(|(_, record)| (record.position, record.contents.len() as u64)).collect()
    }
}

fn survives(lives: Vec<Life>) {
    let directory = directory();
    let mut path = directory.path().join("0");
    let (mut model, mut boot) = (Model::default(), 1);
    let mut log = Recovery::open(&path, &owner(boot), &settings(SEGMENTS)).unwrap().finish([]).unwrap();
    for (number, life) in (1..).zip(lives) {
        model.run(&log, life.batches);
        let durable = log.durable();
        assert!(durable >= model.committed);
        let next = directory.path().join(format!("{number}"));
        image::copy(&path, &next);
        drop(log);
        model.committed = durable;
        model.crash(&next, durable, &life.crash);
        let is_power = matches!(life.crash, Crash::Power { .. });
        boot += u8::from(is_power);
        let mut recovery = Recovery::open(&next, &owner(boot), &settings(SEGMENTS)).unwrap();
        let found = all(&mut recovery);
        model.check(&recovery, &found, is_power);
        let live = model.live();
        log = recovery.finish(live.iter().copied()).unwrap();
        // Yielded records are on stable storage.
        model.committed = log.durable();
        assert_eq!(log.space().live_bytes, live.iter().map(|(_, bytes)| bytes).sum::<u64>());
        for record in model.records.values().filter(|record| live.iter().any(|(at, _)| *at == record.position)) {
            assert!(log.read_record(record.position).unwrap().1 == record.contents);
        }
        // Others may still know where they were: nothing is found there, not a part of them either.
        for Written { position, contents, .. } in model.gone.iter().filter(|record| !record.contents.is_empty()) {
            for (from, len) in [(0, contents.len()), (0, 1), (contents.len() as u32 - 1, 1)] {
                assert_eq!(log.read(*position, from, &mut vec![0; len]), Err(LogError::Absent(*position)));
            }
        }
        path = next;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
    #[test]
    fn what_was_committed_survives_and_nothing_else_appears(lives in lives()) {
        survives(lives);
    }
}
