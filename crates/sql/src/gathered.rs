//! A fragment carried out in pieces by the nodes that hold them, as an operator of the host's plan.
//!
//! `forebay_offload::Dealing` deals the pieces out. A node has two at a time, so that the next is there when one is done.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Cursor;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, execute_stream,
};
use datafusion_proto::bytes::physical_plan_to_bytes;
use forebay_offload::{Dealing, Holder, HostPart, Nodes};
use futures::TryStreamExt;
use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;

use crate::cut::Fragment;
use crate::daemon::Daemon;
use crate::pieces::Piece;
use crate::session;

/// How long a piece may take: the slowest node that is of any use needs less.
const PIECE_TIMEOUT: Duration = Duration::from_secs(60);

/// Batches that wait to be merged.
const BATCHES_WAITING: usize = 4;

/// The bytes that moved, and the pieces of each maker.
#[derive(Default, Debug)]
pub struct Tally {
    /// Plans sent to nodes, bytes.
    pub plan_bytes: AtomicU64,
    /// Answers of nodes, bytes.
    pub answer_bytes: AtomicU64,
    /// Pieces there are.
    pub pieces: AtomicU64,
    /// Pieces made.
    pub made: AtomicU64,
    /// Pieces and bytes of files by node; None is this host.
    pub by: Mutex<BTreeMap<Option<u32>, (u64, u64)>>,
}

/// The operator.
#[derive(Debug)]
pub struct Gathered {
    work: Arc<Work>,
    properties: Arc<PlanProperties>,
}

#[derive(Debug)]
struct Work {
    fragment: Fragment,
    pieces: Vec<Piece>,
    nodes: BTreeMap<u32, Holder>,
    daemon: Arc<Daemon>,
    tally: Arc<Tally>,
}

impl Gathered {
    /// The fragment, by these nodes.
    pub fn new(
        fragment: Fragment,
        (nodes, pieces): (BTreeMap<u32, Holder>, Vec<Piece>),
        daemon: Arc<Daemon>,
        tally: Arc<Tally>,
    ) -> Self {
        let equivalences = EquivalenceProperties::new(fragment.plan.schema());
        // All pieces come as one stream: partials are few.
        let partitioning = Partitioning::UnknownPartitioning(1);
        let properties =
            PlanProperties::new(equivalences, partitioning, EmissionType::Incremental, Boundedness::Bounded);
        tally.pieces.fetch_add(pieces.len() as u64, Ordering::Relaxed);
        let work = Work { fragment, pieces, nodes, daemon, tally };
        Self { work: Arc::new(work), properties: Arc::new(properties) }
    }
}

impl DisplayAs for Gathered {
    fn fmt_as(&self, _: DisplayFormatType, formatter: &mut fmt::Formatter) -> fmt::Result {
        let Work { fragment, pieces, nodes, .. } = &*self.work;
        let fragment = datafusion::physical_plan::displayable(fragment.plan.as_ref()).indent(false).to_string();
        write!(formatter, "Gathered: {} pieces at {} nodes, each: ", pieces.len(), nodes.len())?;
        let steps: Vec<&str> = fragment.lines().map(str::trim).collect();
        write!(formatter, "{}", steps.join(" <- "))
    }
}

impl ExecutionPlan for Gathered {
    fn name(&self) -> &str {
        "Gathered"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut stream = RecordBatchReceiverStream::builder(self.schema(), BATCHES_WAITING);
        let (work, to) = (Arc::clone(&self.work), stream.tx());
        stream.spawn_blocking(move || work.run(&to, &context));
        Ok(stream.build())
    }
}

/// A receiver that is gone waits for nothing.
type To = Sender<Result<RecordBatch>>;

impl Work {
    /// Has all pieces made, and sends what comes of them. Blocks; every execution begins anew.
    fn run(&self, to: &To, context: &Arc<TaskContext>) -> Result<()> {
        let (runtime, done_bytes) = (Handle::current(), AtomicU64::new(0));
        let holders: Vec<Holder> = self.nodes.values().cloned().collect();
        let dealing = Dealing::new(FragmentPieces::new(self), &holders, &done_bytes);
        let ask = |holder: &Holder, index| {
            let batches = self.ask(&dealing, holder, index)?;
            batches.into_iter().try_for_each(|batch| to.blocking_send(Ok(batch))).context("its answer is not wanted")
        };
        let here = |index| {
            let made = async {
                tokio::select! { made = self.make_here(index, to, context) => made, () = to.closed() => Ok(()) }
            };
            Ok(runtime.block_on(made)?)
        };
        let (over, is_over) = oneshot::channel::<()>();
        let made = thread::scope(|scope| {
            scope.spawn(|| runtime.block_on(give_up_without_receiver(&dealing, to, is_over)));
            let made = dealing.run(&holders, HostPart::Rest, session::threads(), ask, here);
            drop(over);
            made
        });
        for lost in &dealing.finish().1.lost {
            eprintln!("forebay-sql: note: {lost}; other nodes compute its pieces");
        }
        made.map_err(|error| error.downcast().unwrap_or_else(|error| DataFusionError::External(error.into())))
    }

    /// A piece, made by a node.
    fn ask(&self, dealing: &Pieces<'_>, node: &Holder, index: usize) -> anyhow::Result<Vec<RecordBatch>> {
        let piece = &self.pieces[index];
        let groups = piece.placed_groups().context("the path is not text")?;
        let plan = physical_plan_to_bytes(self.fragment.over(&groups)?)?;
        let files = piece.files_of(node.rank).context("the node does not hold the file")?;
        self.tally.plan_bytes.fetch_add(plan.len() as u64, Ordering::Relaxed);
        let answer = self.daemon.fragment(dealing, node.rank, files, &plan, PIECE_TIMEOUT)?;
        self.tally.answer_bytes.fetch_add(answer.len() as u64, Ordering::Relaxed);
        let schema = self.fragment.plan.schema();
        let batches = StreamReader::try_new(Cursor::new(answer), None)?;
        if !is_alike(&batches.schema(), &schema) {
            bail!("its answer has other columns; its forebay-sql may be of another version");
        }
        let own = |batch: RecordBatch| RecordBatch::try_new(SchemaRef::clone(&schema), batch.columns().to_vec());
        batches.map(|batch| Ok(own(batch?)?)).collect()
    }

    async fn make_here(&self, index: usize, to: &To, context: &Arc<TaskContext>) -> Result<()> {
        let plan = self.fragment.over(&self.pieces[index].groups())?;
        let mut batches = execute_stream(plan, Arc::clone(context))?;
        while let Some(batch) = batches.try_next().await? {
            if to.send(Ok(batch)).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Pieces while they are made.
type Pieces<'a> = Dealing<'a, FragmentPieces<'a>>;

/// Ends it when the engine wants no more rows.
async fn give_up_without_receiver(dealing: &Pieces<'_>, to: &To, is_over: oneshot::Receiver<()>) {
    tokio::select! {
        () = to.closed() => dealing.wait(|pieces| {
            pieces.is_given_up = true;
            Some(())
        }),
        _ = is_over => {}
    }
}

/// The pieces of a fragment, by their indices. Each is made once, by any node that holds all of its files, else by this host.
struct FragmentPieces<'a> {
    work: &'a Work,
    /// Those without a maker.
    open: BTreeSet<usize>,
    /// Those without an answer.
    unmade: BTreeSet<usize>,
    is_given_up: bool,
}

impl<'a> FragmentPieces<'a> {
    fn new(work: &'a Work) -> Self {
        let all: BTreeSet<usize> = (0..work.pieces.len()).collect();
        Self { work, open: all.clone(), unmade: all, is_given_up: false }
    }

    /// Whether a node holds all of a piece; this host reads every file.
    fn is_for(&self, maker: Option<u32>, index: usize) -> bool {
        maker.is_none_or(|rank| self.work.pieces[index].ranks.contains(&rank))
    }
}

impl forebay_offload::Pieces for FragmentPieces<'_> {
    type Piece = usize;
    type Made = ();

    /// A piece has all threads of its node.
    fn at_once(_: &Holder) -> usize {
        1
    }

    fn take(&mut self, maker: Option<u32>, _: &Nodes) -> Option<usize> {
        let index = self.open.iter().copied().find(|index| self.is_for(maker, *index))?;
        self.open.remove(&index);
        Some(index)
    }

    fn answered(&mut self, maker: Option<u32>, index: usize, (): ()) -> anyhow::Result<u64> {
        self.unmade.remove(&index);
        let (tally, bytes) = (&self.work.tally, self.work.pieces[index].bytes);
        tally.made.fetch_add(1, Ordering::Relaxed);
        let mut by = tally.by.lock().unwrap_or_else(PoisonError::into_inner);
        let (pieces, all_bytes) = by.entry(maker).or_default();
        *pieces += 1;
        *all_bytes += bytes;
        Ok(bytes)
    }

    fn give_back(&mut self, _: Option<u32>, index: usize) {
        self.open.insert(index);
    }

    fn under_way_bytes(&self) -> u64 {
        self.unmade.difference(&self.open).map(|index| self.work.pieces[*index].bytes).sum()
    }

    fn is_done(&self) -> bool {
        self.is_given_up || self.unmade.is_empty()
    }

    fn is_done_for(&self, rank: u32) -> bool {
        self.is_given_up || !self.unmade.iter().any(|index| self.is_for(Some(rank), *index))
    }
}

/// Whether columns have the same types, whatever their names.
fn is_alike(one: &SchemaRef, other: &SchemaRef) -> bool {
    let types = |schema: &SchemaRef| schema.fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
    types(one) == types(other)
}
