//! Nodes' cached answers, in any order of messages: after a change has returned, no node answers with an older state.

use std::time::Duration;

use forebay_types::{Attributes, Errno, FileId, Name, NodeRank, OperationId, Time, Timestamp};
use forebay_wire::write::{
    AttributeChanges, BURST_ROOT, Caller, Change, CommitAt, Done, FileState, Operation, Piece, Place, RenameRule,
    Source,
};
use forebay_wire::write_message::{Contents, Entries};
use forebay_write::timing::LEASE_TTL_HELD;
use forebay_write::{Asked, Changing, Found, Invalidation, Leases, MetadataCache, Refusal, Released, Tree};
use proptest::prelude::*;

const NODES: u32 = 3;
const ROOT: Caller = Caller { uid: 0, gid: 0, groups: vec![] };

/// Places: two names of the root, and two of each of the first directories that are made.
const NAMES: [&str; 2] = ["a", "b"];

#[derive(Clone, Debug)]
enum Step {
    Ask {
        node: u32,
        place: usize,
        is_list: bool,
    },
    Change {
        node: u32,
        kind: u8,
        place: usize,
        other: usize,
    },
    /// The oldest, or another, of what is under way goes on.
    GoOn {
        which: usize,
    },
    /// Forgetting does not arrive.
    Lose {
        which: usize,
    },
    Wait {
        millis: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (node, place) = (1..=NODES, 0..6_usize);
    prop_oneof![
        4 => (node.clone(), place.clone(), prop::bool::weighted(0.2))
            .prop_map(|(node, place, is_list)| Step::Ask { node, place, is_list }),
        3 => (node, 0..7_u8, place.clone(), place)
            .prop_map(|(node, kind, place, other)| Step::Change { node, kind, place, other }),
        12 => (0..5_usize).prop_map(|which| Step::GoOn { which }),
        1 => (0..3_usize).prop_map(|which| Step::Lose { which }),
        2 => (0..3000_u64).prop_map(|millis| Step::Wait { millis }),
    ]
}

enum UnderWay {
    /// A question on its way to the leader.
    Asked {
        node: u32,
        asked: Asked,
        place: Place,
        is_list: bool,
    },
    Answered {
        node: u32,
        asked: Asked,
        place: Place,
        answer: Answer,
    },
    /// A change on its way to the leader.
    Begun {
        node: u32,
        changing: Changing,
        operation: Operation,
    },
    /// One that is carried out, and waits until so many nodes have been told.
    Carried {
        node: u32,
        changing: Changing,
        operation: Operation,
        done: Result<Done, Errno>,
        number: usize,
    },
    /// A node is to forget, for the change of this number.
    Invalidate {
        told: Invalidation,
        number: usize,
    },
}

enum Answer {
    Name { rights: Option<FileState>, state: Option<FileState> },
    Entries(Entries),
    None,
}

struct World {
    now: Time,
    /// After each change, from the beginning on.
    trees: Vec<Tree>,
    returned: Vec<bool>,
    leases: Leases,
    known: Vec<MetadataCache>,
    under_way: Vec<UnderWay>,
    made: u64,
}

impl World {
    fn new() -> Self {
        let root = Attributes { mode: 0o040_755, nlink: 2, ..Attributes::default() };
        Self {
            now: Time::default().after(Duration::from_secs(100)),
            trees: vec![Tree::new(root, false, 1)],
            returned: vec![true],
            leases: Leases::default(),
            known: (0..=NODES).map(|_| MetadataCache::default()).collect(),
            under_way: vec![],
            made: 0,
        }
    }

    fn tree(&self) -> &Tree {
        self.trees.last().unwrap()
    }

    fn place(&self, number: usize) -> Place {
        let name = Name::new(NAMES[number % 2].as_bytes()).unwrap();
        let directory = match number / 2 {
            0 => BURST_ROOT,
            which => {
                let name = Name::new(NAMES[which - 1].as_bytes()).unwrap();
                let found = self.tree().lookup(&ROOT, &Place { directory: BURST_ROOT, name });
                found.map_or(BURST_ROOT, |state| state.file)
            }
        };
        Place { directory, name }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Ask { node, place, is_list } => {
                let place = self.place(*place);
                let asked = self.known[*node as usize].ask(self.now, place.directory);
                self.under_way.push(UnderWay::Asked { node: *node, asked, place, is_list: *is_list });
            }
            Step::Change { node, kind, place, other } => {
                let operation = self.operation(*kind, self.place(*place), self.place(*other));
                let changing = self.known[*node as usize].begin(self.now, &operation);
                self.under_way.push(UnderWay::Begun { node: *node, changing, operation });
            }
            Step::GoOn { which } if !self.under_way.is_empty() => {
                let under_way = self.under_way.remove(which % self.under_way.len());
                self.go_on(under_way);
            }
            Step::Lose { which } => {
                let at = (which % 3).min(self.under_way.len());
                if let Some(UnderWay::Invalidate { told, .. }) = self.under_way.get(at) {
                    // The change waits until the lease has ended.
                    self.now = self.now.max(self.leases.ends(told));
                    self.under_way.remove(at);
                }
            }
            Step::Wait { millis } => self.now = self.now.after(Duration::from_millis(*millis)),
            Step::GoOn { .. } => {}
        }
    }

    fn operation(&mut self, kind: u8, place: Place, other: Place) -> Operation {
        self.made += 1;
        let file = FileId { creator: NodeRank(1), serial: self.made };
        let at = self.tree().lookup(&ROOT, &place).map_or(BURST_ROOT, |state| state.file);
        let mode = if kind == 0 { 0o040_755 } else { 0o100_644 };
        let changes = AttributeChanges { mode: Some(self.made as u32 & 0o777), ..AttributeChanges::default() };
        match kind {
            0 | 1 => Operation::Create {
                place,
                file,
                mode,
                rdev: 0,
                target: vec![],
                is_opened: kind == 1,
                is_exclusive: false,
            },
            2 => Operation::Unlink { place },
            3 => Operation::RemoveDirectory { place },
            4 => Operation::Rename { from: place, to: other, rule: RenameRule::Replace },
            5 => Operation::Link { file: at, place: other },
            _ => Operation::SetAttributes { file: at, changes },
        }
    }

    fn go_on(&mut self, under_way: UnderWay) {
        match under_way {
            UnderWay::Asked { node, asked, place, is_list } => {
                let answer = self.answer(NodeRank(node), asked, &place, is_list);
                self.under_way.push(UnderWay::Answered { node, asked, place, answer });
            }
            UnderWay::Answered { node, asked, place, answer } => {
                let (known, now) = (&mut self.known[node as usize], self.now);
                match answer {
                    Answer::Name { rights, state } => {
                        rights.iter().for_each(|rights| known.told_state(now, asked, *rights));
                        known.told_name(now, asked, &place, state);
                    }
                    Answer::Entries(entries) => known.told_entries(now, asked, &entries),
                    Answer::None => {}
                }
            }
            UnderWay::Begun { node, changing, operation } => self.carry_out(node, changing, operation),
            UnderWay::Carried { node, changing, operation, done, number } => {
                let is_told =
                    |other: &UnderWay| matches!(other, UnderWay::Invalidate { number: of, .. } if *of == number);
                if self.under_way.iter().any(is_told) {
                    self.under_way.push(UnderWay::Carried { node, changing, operation, done, number });
                    return;
                }
                self.known[node as usize].end(self.now, &changing, &operation, done.as_ref().map_err(|errno| *errno));
                self.returned[number] = true;
            }
            UnderWay::Invalidate { told, .. } => {
                self.known[told.node.0 as usize].invalidate(self.now, &told.files);
                self.leases.forgotten(&told);
            }
        }
    }

    fn answer(&mut self, node: NodeRank, asked: Asked, place: &Place, is_list: bool) -> Answer {
        let tree = self.trees.last().unwrap();
        let mut grant = |file| {
            if asked.is_leased {
                self.leases.grant(self.now, node, file)
            }
        };
        grant(place.directory);
        if is_list {
            let Ok(listed) = tree.list(place.directory, None, usize::MAX) else { return Answer::None };
            listed.iter().for_each(|listed| grant(listed.state.file));
            let entries = listed.into_iter().map(|listed| (listed.name, listed.state)).collect();
            let own = tree.seen(place.directory).unwrap();
            return Answer::Entries(Entries { own, parent: BURST_ROOT, entries });
        }
        let state = match tree.lookup(&ROOT, place) {
            Ok(state) => Some(state),
            Err(Refusal::Errno(Errno::ENOENT)) => None,
            Err(_) => return Answer::None,
        };
        state.iter().for_each(|state| grant(state.file));
        Answer::Name { rights: tree.seen(place.directory).ok(), state }
    }

    fn carry_out(&mut self, node: u32, changing: Changing, operation: Operation) {
        let number = self.trees.len();
        let id = OperationId { node: NodeRank(node), session: 1, serial: number as u64 };
        let now = Timestamp { seconds: number as i64, nanos: 0 };
        let change = Change { id, oldest: 0, caller: ROOT, now, operation };
        let (mut tree, touched) = (self.tree().clone(), self.tree().touched_by(&change));
        let done = tree.apply(&change, &mut Released::default()).map_err(|refusal| match refusal {
            Refusal::Errno(errno) => errno,
            Refusal::Unlisted(_) | Refusal::Unread(_) => Errno::EIO,
        });
        self.trees.push(tree);
        self.returned.push(false);
        if let Ok(done) = &done {
            self.leases.note(self.now, NodeRank(node), &change.operation, done);
            let told = self.leases.to_tell(self.now, NodeRank(node), &touched);
            self.under_way.extend(told.into_iter().map(|told| UnderWay::Invalidate { told, number }));
        }
        let operation = change.operation;
        self.under_way.push(UnderWay::Carried { node, changing, operation, done, number });
    }

    /// Whether `seen` is what was there at some time since the last change of it that has returned.
    fn is_recent<T: PartialEq>(&self, seen: &T, at: impl Fn(&Tree) -> T) -> bool {
        let values: Vec<T> = self.trees.iter().map(at).collect();
        let since = (1..values.len()).rev().find(|i| self.returned[*i] && values[*i] != values[*i - 1]).unwrap_or(0);
        values[since..].contains(seen)
    }

    /// How many answers there were.
    fn check(&self) -> usize {
        let mut answers = 0;
        for known in &self.known {
            for place in (0..6).map(|number| self.place(number)) {
                let name = |tree: &Tree| tree.lookup(&ROOT, &place).ok().map(|state| state.file);
                let found = match known.lookup(self.now, &ROOT, &place) {
                    Found::Answer(Ok(state)) => {
                        assert!(self.is_recent(&Some(state), |tree| tree.seen(state.file).ok()), "{state:?} is old");
                        Some(state.file)
                    }
                    Found::Answer(Err(errno)) => {
                        assert_eq!(errno, Errno::ENOENT);
                        None
                    }
                    Found::File(file) => Some(file),
                    Found::Unknown => continue,
                };
                answers += 1;
                assert!(self.is_recent(&found, name), "{place:?} is {found:?}");
            }
        }
        answers
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]
    #[test]
    fn nothing_is_older_than_what_has_returned(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
            let _ = world.check();
        }
    }
}

/// A node knows the files that it has made, and asks for nothing.
#[test]
fn a_node_knows_what_it_has_made() {
    let mut world = World::new();
    let change = |world: &mut World, kind, place| {
        world.take(&Step::Change { node: 1, kind, place, other: 0 });
        world.take(&Step::GoOn { which: 0 });
        world.take(&Step::GoOn { which: 0 });
    };
    change(&mut world, 0, 0);
    // Below `a`.
    let [made, other] = [2, 3].map(|place| world.place(place));
    change(&mut world, 1, 2);
    let known = |world: &World, place: &Place| world.known[1].lookup(world.now, &ROOT, place);
    assert!(matches!(known(&world, &made), Found::Answer(Ok(_))));
    assert_eq!(known(&world, &other), Found::Answer(Err(Errno::ENOENT)), "it has made the directory");
    change(&mut world, 2, 2);
    assert_eq!(known(&world, &made), Found::Answer(Err(Errno::ENOENT)));
    assert!(world.check() > 0);
    world.take(&Step::Wait { millis: 5000 });
    assert_eq!(known(&world, &made), Found::Unknown, "it is not told of changes any more");
}

/// Tells all nodes that a change of node `changer` makes `files` old. Returns the nodes, and how many files; 0 means all.
fn tell(leases: &mut Leases, changer: u32, files: &[FileId]) -> Vec<(u32, usize)> {
    let told = leases.to_tell(Time::default(), NodeRank(changer), files);
    told.iter().for_each(|told| leases.forgotten(told));
    told.iter().map(|told| (told.node.0, told.files.len())).collect()
}

/// The leader's next daemon has all nodes forget everything, once.
#[test]
fn nodes_told_by_an_earlier_daemon_are_told() {
    let mut leases = Leases::unknown(Time::default(), [1, 2].map(|node| (NodeRank(node), LEASE_TTL_HELD)));
    assert_eq!(tell(&mut leases, 0, &[]), []);
    assert_eq!(tell(&mut leases, 1, &[BURST_ROOT]), [(2, 0)]);
    assert_eq!(tell(&mut leases, 0, &[BURST_ROOT]), [(1, 0)]);
    assert_eq!(tell(&mut leases, 0, &[BURST_ROOT]), []);
}

/// More than are remembered one by one.
#[test]
fn many_leases_are_of_everything() {
    let mut leases = Leases::default();
    let file = |serial| FileId { creator: NodeRank(0), serial };
    for serial in 0..=forebay_write::limits::LEASES_MAX as u64 {
        leases.grant(Time::default(), NodeRank(1), file(serial));
    }
    assert_eq!(tell(&mut leases, 2, &[file(7)]), [(1, 0)]);
    assert_eq!(tell(&mut leases, 2, &[file(7)]), []);
}

#[test]
fn where_bytes_are_is_known_until_the_file_changes_or_they_move() {
    let (now, file) = (Time::default().after(Duration::from_secs(100)), FileId { creator: NodeRank(1), serial: 1 });
    let attributes = Attributes { mode: 0o100_644, size_bytes: 250, ..Attributes::default() };
    let piece = |offset, len| Piece { offset, len, source: Source::Hole };
    let contents = Contents {
        state: FileState { file, attributes, version: 3 },
        pieces: vec![piece(0, 100), piece(100, 100), piece(200, 50)],
        backing: None,
    };
    let told = || {
        let mut known = MetadataCache::default();
        let asked = known.ask(now, file);
        known.told_contents(now, asked, 0..1000, &contents);
        known
    };
    let pieces = |known: &MetadataCache, range| known.contents(now, file, &range).map(|contents| contents.pieces);
    assert_eq!(pieces(&told(), 50..120), Some(vec![piece(50, 50), piece(100, 20)]));
    assert_eq!(pieces(&told(), 240..5000), Some(vec![piece(240, 10)]), "there is nothing behind the end");
    assert_eq!(pieces(&told(), 300..5000), Some(vec![]));
    assert_eq!(told().contents(now.after(Duration::from_secs(5)), file, &(0..10)), None, "the lease is over");

    let mut known = told();
    known.invalidate(now, &[file]);
    assert_eq!(pieces(&known, 0..10), None, "another node has changed it");
    let mut known = told();
    let _ = known.begin(now, &Operation::Commit { file, extents: vec![], at: CommitAt::Start });
    assert_eq!(pieces(&known, 0..10), None, "this node changes it");
    let mut known = told();
    known.drop_places(file);
    assert_eq!(pieces(&known, 0..10), None, "they have moved");

    let mut known = MetadataCache::default();
    let asked = known.ask(now, file);
    known.told_contents(now, asked, 0..100, &contents);
    assert_eq!(pieces(&known, 50..150), None, "nothing was told of what follows");
    let asked = known.ask(now, file);
    known.invalidate(now, &[file]);
    known.told_contents(now, asked, 0..1000, &contents);
    assert_eq!(pieces(&known, 0..10), None, "the answer may be older");
}
