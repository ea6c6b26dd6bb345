//! A fragment carried out in pieces by the nodes that hold them, as an operator of the host's plan.
//!
//! Each node is asked for two pieces at once, so that the next is there when one is done. A node that fails once is asked no more:
//! others that hold its pieces make them, in the end this host.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Cursor;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, execute_stream,
};
use datafusion_proto::bytes::physical_plan_to_bytes;
use futures::TryStreamExt;
use futures::future::{join_all, try_join_all};
use tokio::sync::mpsc::Sender;

use crate::cut::Fragment;
use crate::daemon::{Daemon, Holder};
use crate::pieces::Piece;

/// How long a piece may take: the slowest node that is of any use needs less.
const PIECE_TIMEOUT: Duration = Duration::from_secs(60);

/// Pieces asked of a node at once.
const AT_ONCE: usize = 2;

/// Batches that wait to be merged.
const BATCHES_WAITING: usize = 4;

/// What moved, and who did what.
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

/// How far it is; every execution begins anew.
#[derive(Debug)]
struct State {
    /// Pieces that nobody makes.
    left: BTreeSet<usize>,
    lost: BTreeSet<u32>,
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
        stream.spawn(async move { work.run(to, context).await });
        Ok(stream.build())
    }
}

/// A receiver that is gone waits for nothing.
type To = Sender<Result<RecordBatch>>;

impl Work {
    async fn run(&self, to: To, context: Arc<TaskContext>) -> Result<()> {
        let state = Mutex::new(State { left: (0..self.pieces.len()).collect(), lost: BTreeSet::new() });
        while self.any_left_for_nodes(&state) {
            let turns = (0..AT_ONCE).flat_map(|_| self.nodes.values());
            join_all(turns.map(|node| self.serve(node, &state, &to))).await;
        }
        let rest: Vec<usize> = std::mem::take(&mut lock(&state).left).into_iter().collect();
        try_join_all(rest.iter().map(|index| self.make_here(*index, &to, &context))).await.map(drop)
    }

    /// Whether there is a piece, and a node for it.
    fn any_left_for_nodes(&self, state: &Mutex<State>) -> bool {
        let state = lock(state);
        let has_node = |index: &usize| self.pieces[*index].ranks.iter().any(|rank| !state.lost.contains(rank));
        state.left.iter().any(has_node)
    }

    /// Has a node make pieces until there are none for it, or it fails.
    async fn serve(&self, node: &Holder, state: &Mutex<State>, to: &To) {
        while let Some(index) = self.take(node.rank, state) {
            match self.ask(node, index).await {
                Ok(batches) => {
                    self.note(Some(node.rank), index);
                    for batch in batches {
                        if to.send(Ok(batch)).await.is_err() {
                            return;
                        }
                    }
                }
                Err(error) => {
                    let mut state = lock(state);
                    state.left.insert(index);
                    if state.lost.insert(node.rank) {
                        let Holder { rank, host, .. } = node;
                        eprintln!(
                            "forebay-sql: note: node {rank} on {host}: {error:#}; other nodes compute its pieces"
                        );
                    }
                    return;
                }
            }
        }
    }

    fn take(&self, rank: u32, state: &Mutex<State>) -> Option<usize> {
        let mut state = lock(state);
        if state.lost.contains(&rank) {
            return None;
        }
        let index = state.left.iter().copied().find(|index| self.pieces[*index].ranks.contains(&rank))?;
        state.left.remove(&index);
        Some(index)
    }

    /// A piece, made by a node.
    async fn ask(&self, node: &Holder, index: usize) -> anyhow::Result<Vec<RecordBatch>> {
        let piece = &self.pieces[index];
        let groups = piece.placed_groups().context("the path is not text")?;
        let plan = physical_plan_to_bytes(self.fragment.over(&groups)?)?;
        let files = piece.files_of(node.rank).context("the node does not hold the file")?;
        self.tally.plan_bytes.fetch_add(plan.len() as u64, Ordering::Relaxed);
        let (daemon, rank) = (Arc::clone(&self.daemon), node.rank);
        let asked = tokio::task::spawn_blocking(move || daemon.fragment(rank, &files, &plan, PIECE_TIMEOUT));
        let answer = asked.await??;
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
        self.note(None, index);
        Ok(())
    }

    fn note(&self, who: Option<u32>, index: usize) {
        self.tally.made.fetch_add(1, Ordering::Relaxed);
        let mut by = self.tally.by.lock().unwrap_or_else(PoisonError::into_inner);
        let (pieces, bytes) = by.entry(who).or_default();
        *pieces += 1;
        *bytes += self.pieces[index].bytes;
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether columns have the same types, whatever their names.
fn is_alike(one: &SchemaRef, other: &SchemaRef) -> bool {
    let types = |schema: &SchemaRef| schema.fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
    types(one) == types(other)
}
