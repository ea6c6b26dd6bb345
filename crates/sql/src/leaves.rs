//! Which task reads which part of a table, and on which node it runs: task `i` of a stage is of node `i` of the statement, and reads
//! files that this node holds.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::listing::{FileRange, PartitionedFile};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::object_store::path::Path as ObjectPath;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DesiredTaskCountHandler, DistributedLeafExec,
    NetworkBoundaryExt, RouteTasksEvent, RouteTasksEventResponse, RouteTasksHandler, ScaleUpLeafNodeEvent,
    ScaleUpLeafNodeEventResponse, ScaleUpLeafNodeHandler,
};

use crate::channels::url_of;
use crate::inflate::uncompressed;
use crate::records;
use crate::residency::{Resident, scan_of};

/// Words of the error of a stage that one task has to carry out, where no node holds all that it reads.
pub const SCATTERED: &str = "no node holds all files of a part of the plan that cannot be divided";

/// Words of the error of a file whose name on its node does not say how it is compressed.
pub const RENAMED: &str = "a compressed file has a name without .gz or .zst on its node";

/// A node that has a part in a statement.
#[derive(Debug)]
pub struct Reader {
    /// Which.
    pub rank: u32,
    /// The share of what all hold that it reads: threads for each worker that runs there.
    pub weight: f64,
    /// Bytes of files that its tasks read.
    pub bytes: AtomicU64,
}

/// The nodes of a statement, and the files that they hold.
#[derive(Clone, Debug)]
pub struct Leaves(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    readers: Vec<Reader>,
    files: HashMap<ObjectPath, Resident>,
    /// By the paths that nodes know: the nodes that hold them.
    places: HashMap<ObjectPath, BTreeSet<u32>>,
}

/// A part of a file.
#[derive(Clone)]
struct Part {
    file: PartitionedFile,
    start: u64,
    end: u64,
}

impl Part {
    fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

impl Leaves {
    /// Of these nodes, all of which have a worker.
    pub fn new(readers: Vec<Reader>, files: HashMap<ObjectPath, Resident>) -> Self {
        let places = files.values().map(|file| (file.place.clone(), file.ranks.clone())).collect();
        Self(Arc::new(Inner { readers, files, places }))
    }

    /// The nodes.
    pub fn readers(&self) -> &[Reader] {
        &self.0.readers
    }

    /// The parts of a table that each of so many tasks reads, in the order of the files.
    fn dealt(&self, scan: &FileScanConfig, tasks: usize) -> Result<Vec<Vec<Part>>> {
        let readers = self.readers();
        let can_be_cut = records::can_be_cut(scan);
        let mut dealt: Vec<Vec<Part>> = vec![vec![]; tasks];
        let mut load = vec![0.0; tasks];
        for file in whole_files(scan) {
            let (placed, resident) = self.placed(&file)?;
            let size = file.object_meta.size;
            let among: Vec<usize> =
                (0..tasks.min(readers.len())).filter(|task| resident.ranks.contains(&readers[*task].rank)).collect();
            if among.is_empty() {
                return Err(DataFusionError::Plan(SCATTERED.to_owned()));
            }
            let all: f64 = among.iter().map(|task| readers[*task].weight).sum();
            if !can_be_cut {
                let after = |task: &usize| (load[*task] + size as f64) / readers[*task].weight;
                let least = among.into_iter().min_by(|one, other| after(one).total_cmp(&after(other)));
                let task = least.unwrap_or_default();
                load[task] += size as f64;
                dealt[task].push(Part { file: placed, start: 0, end: size });
                continue;
            }
            let (mut start, mut share) = (0, 0.0);
            for (index, task) in among.iter().enumerate() {
                share += readers[*task].weight;
                let is_last = index + 1 == among.len();
                let end = if is_last { size } else { (size as f64 * share / all) as u64 };
                if end > start || (is_last && size == 0) {
                    dealt[*task].push(Part { file: placed.clone(), start, end });
                }
                start = end;
            }
        }
        Ok(dealt)
    }

    /// The leaf of each task.
    fn scaled(&self, event: ScaleUpLeafNodeEvent<'_>, scan: &FileScanConfig) -> Result<Arc<dyn ExecutionPlan>> {
        if scan.output_partitioning.is_some() {
            return Err(DataFusionError::Plan(SCATTERED.to_owned()));
        }
        let partitions = event.plan.output_partitioning().partition_count();
        let tasks = event.task_count;
        let dealt = match tasks {
            1 => vec![self.undivided(scan)?],
            _ => self.dealt(scan, tasks)?,
        };
        let can_be_cut = records::can_be_cut(scan);
        let leaves = dealt.into_iter().enumerate().map(|(task, parts)| {
            if let Some(reader) = self.readers().get(task).filter(|_| tasks > 1) {
                reader.bytes.fetch_add(parts.iter().map(Part::bytes).sum(), Ordering::Relaxed);
            }
            let groups = grouped(parts, partitions, can_be_cut);
            let scan = FileScanConfigBuilder::from(scan.clone()).with_file_groups(groups);
            // The stores decompress.
            let scan = scan.with_file_compression_type(FileCompressionType::UNCOMPRESSED).build();
            DataSourceExec::from_data_source(scan) as Arc<dyn ExecutionPlan>
        });
        let leaf = DistributedLeafExec::try_new(Arc::clone(event.plan), leaves)?;
        Ok(Arc::new(leaf))
    }

    /// The parts of a table that one task reads.
    fn undivided(&self, scan: &FileScanConfig) -> Result<Vec<Part>> {
        let part = |file: &PartitionedFile| {
            let (file, _) = self.placed(file)?;
            let end = file.object_meta.size;
            Ok(Part { file, start: 0, end })
        };
        whole_files(scan).iter().map(part).collect()
    }

    /// A file by the name that nodes know, and who holds it.
    fn placed(&self, file: &PartitionedFile) -> Result<(PartitionedFile, &Resident)> {
        let own = &file.object_meta.location;
        let resident = self.0.files.get(own);
        let resident = resident.ok_or_else(|| DataFusionError::Plan("a file is of no table".to_owned()))?;
        // Workers see by its name whether a file is compressed; one behind a symbolic link may have another.
        if uncompressed(resident.place.as_ref()).1 != uncompressed(own.as_ref()).1 {
            return Err(DataFusionError::Plan(RENAMED.to_owned()));
        }
        let mut placed = file.clone();
        placed.object_meta.location = resident.place.clone();
        Ok((placed, resident))
    }

    /// The nodes that hold all that the leaves of a stage read; none where it has no leaves.
    fn holders(&self, stage: &Arc<dyn ExecutionPlan>) -> Result<Option<BTreeSet<u32>>> {
        let mut holders: Option<BTreeSet<u32>> = None;
        stage.apply(|plan| {
            if plan.is_network_boundary() {
                return Ok(TreeNodeRecursion::Jump);
            }
            let Some(leaf) = plan.downcast_ref::<DistributedLeafExec>() else { return Ok(TreeNodeRecursion::Continue) };
            let files =
                leaf.variants().iter().filter_map(|plan| scan_of(plan.as_ref())).flat_map(|scan| &scan.file_groups);
            for file in files.flat_map(|group| group.files()) {
                let own = self.0.places.get(&file.object_meta.location).cloned().unwrap_or_default();
                holders = Some(holders.take().map_or(own.clone(), |holders| &holders & &own));
            }
            holders.get_or_insert_with(|| self.readers().iter().map(|reader| reader.rank).collect());
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(holders)
    }

    fn routed(&self, event: &RouteTasksEvent<'_>) -> Result<Option<RouteTasksEventResponse>> {
        let readers = self.readers();
        if event.task_count == 1 {
            // One without leaves goes where its input is.
            let Some(holders) = self.holders(event.plan)? else { return Ok(None) };
            let least = |one: &&Reader, other: &&Reader| other.weight.total_cmp(&one.weight);
            let reader = readers.iter().filter(|reader| holders.contains(&reader.rank)).min_by(least);
            let reader = reader.ok_or_else(|| DataFusionError::Plan(SCATTERED.to_owned()))?;
            return Ok(Some(RouteTasksEventResponse::new(vec![url_of(reader.rank)?])));
        }
        let urls: Result<Vec<_>> =
            (0..event.task_count).map(|task| url_of(readers[task % readers.len()].rank)).collect();
        Ok(Some(RouteTasksEventResponse::new(urls?)))
    }
}

#[async_trait]
impl DesiredTaskCountHandler for Leaves {
    async fn handle(&self, event: DesiredTaskCountEvent<'_>) -> Option<Result<DesiredTaskCountEventResponse>> {
        scan_of(event.plan.as_ref())?;
        Some(Ok(DesiredTaskCountEventResponse::desired(self.readers().len())))
    }
}

impl ScaleUpLeafNodeHandler for Leaves {
    fn handle(&self, event: ScaleUpLeafNodeEvent) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
        let scan = scan_of(event.plan.as_ref())?;
        Some(self.scaled(event, scan).map(ScaleUpLeafNodeEventResponse::new))
    }
}

impl RouteTasksHandler for Leaves {
    fn handle(&self, event: RouteTasksEvent) -> Option<Result<RouteTasksEventResponse>> {
        self.routed(&event).transpose()
    }
}

/// The files of a scan, whole; the planner has cut them among threads.
fn whole_files(scan: &FileScanConfig) -> Vec<PartitionedFile> {
    let mut files: Vec<PartitionedFile> = vec![];
    let mut seen = BTreeSet::new();
    for file in scan.file_groups.iter().flat_map(|group| group.files()) {
        if seen.insert(file.object_meta.location.clone()) {
            files.push(PartitionedFile { range: None, statistics: None, ..file.clone() });
        }
    }
    files
}

/// Parts in so many groups of about as many bytes, in their order.
fn grouped(parts: Vec<Part>, groups: usize, can_be_cut: bool) -> Vec<FileGroup> {
    let mut grouped: Vec<Vec<PartitionedFile>> = vec![vec![]; groups.max(1)];
    let last = grouped.len() - 1;
    let all: u64 = parts.iter().map(Part::bytes).sum();
    let each = all.div_ceil(grouped.len() as u64).max(1);
    let mut before = 0;
    for Part { file, start, end } in parts {
        let size = file.object_meta.size;
        if !can_be_cut || start == end {
            grouped[((before / each) as usize).min(last)].push(file);
            before += end - start;
            continue;
        }
        let mut at = start;
        while at < end {
            let group = ((before / each) as usize).min(last);
            let room = if group == last { end - at } else { (group as u64 + 1) * each - before };
            let to = end.min(at + room);
            let range = FileRange { start: at as i64, end: to as i64 };
            let range = (range.start > 0 || range.end < size as i64).then_some(range);
            grouped[group].push(PartitionedFile { range, ..file.clone() });
            before += to - at;
            at = to;
        }
    }
    grouped.into_iter().map(FileGroup::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, size: u64, start: u64, end: u64) -> Part {
        Part { file: PartitionedFile::new(name, size), start, end }
    }

    type Ranges = Vec<(String, Option<(i64, i64)>)>;

    /// The ranges of each group; a whole file has none.
    fn ranges(groups: &[FileGroup]) -> Vec<Ranges> {
        let of = |file: &PartitionedFile| {
            let range = file.range.as_ref().map(|range| (range.start, range.end));
            (file.object_meta.location.to_string(), range)
        };
        groups.iter().map(|group| group.files().iter().map(of).collect()).collect()
    }

    #[test]
    fn groups_have_as_many_bytes_and_together_each_byte_once() {
        let parts = vec![part("a", 100, 0, 100), part("b", 10, 0, 10), part("c", 1000, 500, 590), part("d", 0, 0, 0)];
        let groups = grouped(parts, 4, true);
        let own = |name: &str, start, end| (name.to_owned(), Some((start, end)));
        let whole = |name: &str| (name.to_owned(), None);
        assert_eq!(
            ranges(&groups),
            [
                vec![own("a", 0, 50)],
                vec![own("a", 50, 100)],
                vec![whole("b"), own("c", 500, 540)],
                vec![own("c", 540, 590), whole("d")],
            ]
        );
    }

    #[test]
    fn files_that_cannot_be_cut_stay_whole_and_groups_may_be_empty() {
        let groups = grouped(vec![part("a", 100, 0, 100), part("b", 100, 0, 100)], 3, false);
        let whole = |name: &str| (name.to_owned(), None);
        assert_eq!(ranges(&groups), [vec![whole("a")], vec![whole("b")], vec![]]);
    }
}
