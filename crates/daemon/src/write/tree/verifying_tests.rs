//! A node whose power went, and its partner, which is away.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forebay_log::{Capacity, Owner as StoreOwner};
use forebay_types::{Attributes, Errno, FileId, LogPosition, Name, NodeRank, OperationId, Timestamp};
use forebay_wire::Outcome;
use forebay_wire::journal::{JournalEntry, LeaderEntry};
use forebay_wire::message::encode;
use forebay_wire::write::{BURST_ROOT, Caller, Change, CommitAt, Copy, Operation, Place, WrittenExtent};
use forebay_wire::write_message::{Answer, Leadership, Question, WriteMessage};
use forebay_write::{Released, Tree};

use super::calling::On;
use super::election::Election;
use super::knowing::Needs;
use super::leader::{Leader, Life};
use super::questions::Asker;
use crate::environment::{Environment, Operation as Blocking};
use crate::machine::Machine;
use crate::options::Copied;
use crate::write::calls::{BackingCalls, DrainLimits};
use crate::write::drain::drain_messages;
use crate::write::kernel_leases::KernelLeases;
use crate::write::page_cache::PageCache;
use crate::write::peers::{Called, Calls, Unanswered, Waiting};
use crate::write::recovery::open_store;
use crate::write::remote::{Nodes, Partners};

const WRITER: NodeRank = NodeRank(1);
const PARTNER: NodeRank = NodeRank(2);
const FILE: FileId = FileId { creator: WRITER, serial: 1 };
const LACKING: LogPosition = LogPosition { segment: 3, offset: 4096 };
const COPIED: LogPosition = LogPosition { segment: 9, offset: 8192 };

/// Node 0 leads the tree. Node 1 does not have what it wrote, node 2 has a copy of it.
struct PartnerAway(Arc<AtomicBool>);

impl Calls for PartnerAway {
    fn own(&self) -> NodeRank {
        NodeRank(0)
    }

    fn others(&self) -> Vec<NodeRank> {
        vec![WRITER, PARTNER]
    }

    fn call<'a>(
        &'a self,
        to: NodeRank,
        message: &'a WriteMessage,
        _: Duration,
    ) -> Waiting<'a, Result<Called, Unanswered>> {
        let body = |body: Vec<u8>| Ok((Outcome::Body, vec![body.into()]));
        let answer = match message {
            _ if to == PARTNER && self.0.load(Ordering::Relaxed) => Err(Unanswered::Yet("it is away".to_owned())),
            WriteMessage::Pending => body(encode(&BTreeMap::<u64, u64>::new())),
            WriteMessage::Copies { of: WRITER, after: None } if to == PARTNER => {
                body(encode(&[Copy { from: LACKING, to: COPIED, len: 100 }].to_vec()))
            }
            WriteMessage::Copies { .. } => body(encode(&Vec::<Copy>::new())),
            WriteMessage::Contents { .. } if to == WRITER => Ok((Outcome::Bundle(vec![Some(Errno::ESTALE)]), vec![])),
            message => unreachable!("{message:?}"),
        };
        Box::pin(std::future::ready(answer))
    }

    fn pause(&self, time: Duration) -> Waiting<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn block(&self, operation: Blocking) {
        operation();
    }

    fn spawn(&self, task: Waiting<'static, ()>) -> tokio::task::JoinHandle<()> {
        tokio::spawn(task)
    }
}

fn write_file(tree: &mut Tree) {
    let extent = WrittenExtent { offset: 0, len: 100, node: WRITER, position: LACKING, skip: 0 };
    let create = Operation::Create {
        place: Place { directory: BURST_ROOT, name: Name::new(b"a").unwrap() },
        file: FILE,
        mode: 0o100_644,
        rdev: 0,
        target: vec![],
        is_opened: false,
        is_exclusive: false,
    };
    let commit = Operation::Commit { file: FILE, extents: vec![extent], at: CommitAt::Start };
    for (serial, operation) in (1..).zip([create, commit]) {
        let id = OperationId { node: WRITER, session: 1, serial };
        let change = Change { id, oldest: 1, caller: Caller::default(), now: Timestamp::default(), operation };
        tree.apply(&JournalEntry::Request(change), &mut Released::default()).unwrap();
    }
}

fn leader(dir: &Path, is_away: &Arc<AtomicBool>) -> Arc<Leader> {
    let (landing, store) = (dir.join("backing"), dir.join("store"));
    std::fs::create_dir(&landing).unwrap();
    let owner = StoreOwner { job: "test".to_owned(), node: NodeRank(0), nodes: 3, landing, boot: [7; 16] };
    let environment: Arc<dyn Environment> = Machine::here().unwrap();
    let calls = BackingCalls::new(&environment.backing_threads(1), DrainLimits::default());
    let capacity = Capacity::Bytes(1 << 30);
    let copied = (Copied::Nothing, Duration::ZERO);
    let opened = open_store(&store, &owner, capacity, (&environment, calls), copied).unwrap();
    // Of a directory that is empty.
    let mut tree = Tree::new(Attributes { mode: 0o040_755, nlink: 2, ..Attributes::default() }, false, 7);
    write_file(&mut tree);
    let partners = Partners::Of(vec![None, Some(PARTNER), None]);
    let nodes = Nodes::new(PartnerAway(Arc::clone(is_away)), Leadership::default(), vec![], partners);
    let election = Election::new(&opened.local, &nodes, Box::new(|| ()));
    let cache = PageCache::new(true, KernelLeases::new(None));
    let history = opened.history;
    let life = Life { is_first: true, leader_before: None, history, has_standby: false, cache, budget_bytes: 1 << 30 };
    Leader::new(&opened.local, &nodes, &election, tree, life)
}

/// Until the partner answers, no other file waits for the bytes, and they are not called gone for ever.
#[tokio::test]
async fn bytes_that_a_partner_which_is_away_may_have_are_held_back_and_come_back_with_it() {
    let (dir, is_away) = (tempfile::tempdir().unwrap(), Arc::new(AtomicBool::new(true)));
    let leader = leader(dir.path(), &is_away);
    assert!(leader.verify_log(WRITER).await.is_err(), "it is not known yet whether the partner does not answer");
    assert_eq!(leader.tree().lost_files(), []);
    leader.note_by_task(On::Pool, LeaderEntry::Lost { nodes: vec![PARTNER] }).await.unwrap();
    leader.verify_log(WRITER).await.unwrap();
    assert!(leader.tree().lost_of(FILE).is_gone);
    let why = drain_messages::lost(&leader, Path::new("/burst")).unwrap();
    assert!(why.contains("/burst/a cannot land") && why.contains("(1)") && why.contains("do not answer (2)"), "{why}");
    let question = Arc::new((Caller::default(), Question::Needed { of: Some(WRITER), is_filling: false }));
    let asker = Asker { node: PARTNER, is_leased: false };
    let needed = leader.tell_by_task(On::Pool, asker, question, Needs::Task).await;
    assert_eq!(needed, Ok(Answer::Needed([(LACKING.segment, 100)].into())), "it is to keep its copies");
    assert!(leader.look_for_lost(PARTNER).await.is_err());
    is_away.store(false, Ordering::Relaxed);
    leader.look_for_lost(PARTNER).await.unwrap();
    assert_eq!(leader.tree().lost_files(), []);
    let written: Vec<_> = leader.tree().written().map(|extent| (extent.node, extent.position)).collect();
    assert_eq!(written, [(PARTNER, COPIED)]);
}
