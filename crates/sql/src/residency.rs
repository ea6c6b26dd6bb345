//! The files of a plan, and the nodes that hold each.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::object_store::ObjectMeta;
use datafusion::object_store::path::Path as ObjectPath;
use datafusion::physical_plan::ExecutionPlan;
use forebay_offload::Holder;
use futures::{StreamExt, TryStreamExt, stream};

use crate::daemon::Daemon;

/// Files that nodes are asked about; those of larger tables are read by this host.
const FILES_ASKED_MAX: usize = 4096;

/// Questions about files at once.
const QUESTIONS_MAX: usize = 8;

/// The nodes that hold the files of a plan.
#[derive(Clone, Debug, Default)]
pub struct Residency {
    /// By rank.
    pub nodes: BTreeMap<u32, Holder>,
    /// By the path that this host has.
    pub files: HashMap<ObjectPath, Resident>,
}

/// A file, and who holds it.
#[derive(Clone, Debug)]
pub struct Resident {
    /// The path that nodes know.
    pub place: ObjectPath,
    /// The nodes, by rank.
    pub ranks: BTreeSet<u32>,
}

/// The scan of files that a leaf of a plan is.
pub fn scan_of(plan: &dyn ExecutionPlan) -> Option<&FileScanConfig> {
    plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()
}

/// A plan with other scans in some places.
///
/// # Errors
/// None.
pub fn replaced(
    plan: Arc<dyn ExecutionPlan>,
    by: impl Fn(&FileScanConfig) -> Option<FileScanConfig>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let replaced = plan.transform_down(|plan| match scan_of(plan.as_ref()).and_then(&by) {
        Some(scan) => Ok(Transformed::yes(DataSourceExec::from_data_source(scan) as _)),
        None => Ok(Transformed::no(plan)),
    });
    replaced.map(|replaced| replaced.data)
}

/// All files that a plan reads, each once.
pub fn files_of(plan: &Arc<dyn ExecutionPlan>) -> Vec<ObjectMeta> {
    let mut files: BTreeMap<ObjectPath, ObjectMeta> = BTreeMap::new();
    let all: Result<_> = plan.apply(|plan| {
        let groups = scan_of(plan.as_ref()).map_or(&[][..], |scan| &scan.file_groups);
        for file in groups.iter().flat_map(|group| group.files()) {
            files.insert(file.object_meta.location.clone(), file.object_meta.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    debug_assert!(all.is_ok(), "no step fails");
    files.into_values().collect()
}

/// Whether a file of this host still has the size and the time of change that a plan means.
pub fn is_as_planned(file: &ObjectMeta) -> bool {
    let path = Path::new("/").join(file.location.as_ref());
    let planned = (file.size, Some(SystemTime::from(file.last_modified)));
    path.metadata().is_ok_and(|found| (found.len(), found.modified().ok()) == planned)
}

/// Rows of the largest table of a plan, as far as its files say it; CSV and JSON do not.
pub fn largest_rows(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let mut largest = 0;
    let all: Result<_> = plan.apply(|plan| {
        let rows = scan_of(plan.as_ref()).map(|scan| scan.statistics().num_rows);
        largest = largest.max(rows.and_then(|rows| rows.get_value().copied()).unwrap_or(0));
        Ok(TreeNodeRecursion::Continue)
    });
    debug_assert!(all.is_ok(), "no step fails");
    largest
}

impl Residency {
    /// Of these files; else the first file that no node holds. Of too many files nobody is asked.
    ///
    /// # Errors
    /// The daemon does not answer.
    pub async fn of(files: Vec<ObjectMeta>, daemon: &Daemon) -> anyhow::Result<std::result::Result<Self, ObjectPath>> {
        if let Some(file) = files.get(FILES_ASKED_MAX) {
            return Ok(Err(file.location.clone()));
        }
        let asked = files.into_iter().map(|file| {
            let daemon = daemon.clone();
            async move {
                let (bytes, modified) = (file.size, SystemTime::from(file.last_modified));
                let path = Path::new("/").join(file.location.as_ref());
                #[expect(clippy::disallowed_methods, reason = "a command may end where it has no thread")]
                let found = tokio::task::spawn_blocking(move || {
                    let place = daemon.place(&path);
                    let holders = place.to_str().map_or(Ok(vec![]), |place| daemon.holders(place, bytes, modified));
                    holders.map(|holders| (ObjectPath::from_absolute_path(&place), holders))
                });
                let (place, holders) = found.await??;
                anyhow::Ok((file.location, place?, holders))
            }
        });
        let mut residency = Self::default();
        let mut answers = stream::iter(asked).buffered(QUESTIONS_MAX);
        while let Some((file, place, holders)) = answers.try_next().await? {
            if holders.is_empty() {
                return Ok(Err(file));
            }
            let ranks = holders.iter().map(|holder| holder.rank).collect();
            residency.nodes.extend(holders.into_iter().map(|holder| (holder.rank, holder)));
            residency.files.insert(file, Resident { place, ranks });
        }
        Ok(Ok(residency))
    }

    /// The same without some nodes; none if they alone held a file.
    pub fn without(mut self, lost: &BTreeSet<u32>) -> Option<Self> {
        self.nodes.retain(|rank, _| !lost.contains(rank));
        self.files.values_mut().for_each(|file| file.ranks.retain(|rank| !lost.contains(rank)));
        (!self.nodes.is_empty() && self.files.values().all(|file| !file.ranks.is_empty())).then_some(self)
    }
}
