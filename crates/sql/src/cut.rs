//! Where a plan is cut: what one table's rows go through by themselves, up to partial groups or a filter, is a fragment, and can
//! be carried out wherever the rows lie, in pieces.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};

/// The part of a plan that can be carried out in pieces: the plan over all of a table's files.
#[derive(Clone, Debug)]
pub struct Fragment {
    /// As the host would carry it out.
    pub plan: Arc<dyn ExecutionPlan>,
}

impl Fragment {
    /// The files of its table, whole.
    pub fn files(&self) -> Vec<PartitionedFile> {
        let Some(scan) = scan(&self.plan) else { return vec![] };
        let mut files: Vec<PartitionedFile> = vec![];
        // The planner has cut them among threads.
        for file in scan.file_groups.iter().flat_map(|group| group.files()) {
            if files.iter().all(|other| other.object_meta.location != file.object_meta.location) {
                files.push(PartitionedFile { range: None, statistics: None, ..file.clone() });
            }
        }
        files
    }

    /// Whether a piece may be a part of a file.
    pub fn files_can_be_cut(&self) -> bool {
        scan(&self.plan).is_some_and(|scan| {
            scan.file_source.supports_repartitioning() && !scan.file_compression_type.is_compressed()
        })
    }

    /// The same over other groups of files, or parts of them.
    pub fn over(&self, groups: &[FileGroup]) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = Arc::clone(&self.plan).transform_up(|plan| {
            let Some(scan) = own_scan(&plan) else { return Ok(Transformed::no(plan)) };
            let scan = FileScanConfigBuilder::from(scan.clone()).with_file_groups(groups.to_vec()).build();
            let scan: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(scan);
            Ok(Transformed::yes(scan))
        })?;
        Ok(replaced.data)
    }
}

/// Replaces each fragment of a plan by what `replace` makes of it.
pub fn cut(
    plan: Arc<dyn ExecutionPlan>,
    replace: &mut dyn FnMut(Fragment) -> Result<Option<Arc<dyn ExecutionPlan>>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let cut = plan.transform_down(|plan| {
        if !is_top(&plan) || plan.children().first().is_none_or(|below| !is_by_row(below)) {
            return Ok(Transformed::no(plan));
        }
        // Pieces come in any order.
        if plan.output_ordering().is_some() {
            return Ok(Transformed::no(plan));
        }
        Ok(match replace(Fragment { plan: Arc::clone(&plan) })? {
            Some(replaced) => Transformed::new(replaced, true, TreeNodeRecursion::Jump),
            None => Transformed::new(plan, false, TreeNodeRecursion::Jump),
        })
    })?;
    Ok(cut.data)
}

/// Whether less comes out of it than goes in.
fn is_top(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_partial = plan
        .downcast_ref::<AggregateExec>()
        .is_some_and(|groups| *groups.mode() == AggregateMode::Partial && groups.limit_options().is_none());
    is_partial || plan.downcast_ref::<FilterExec>().is_some_and(|filter| filter.fetch().is_none())
}

/// Whether each row goes through it by itself, from a table's files up.
fn is_by_row(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if own_scan(plan).is_some_and(|scan| scan.limit.is_none()) {
        return true;
    }
    let is_exchange = |exchange: &RepartitionExec| matches!(exchange.partitioning(), Partitioning::RoundRobinBatch(_));
    let passes = plan.is::<ProjectionExec>()
        || plan.is::<CooperativeExec>()
        || plan.downcast_ref::<RepartitionExec>().is_some_and(is_exchange)
        || plan.downcast_ref::<FilterExec>().is_some_and(|filter| filter.fetch().is_none());
    passes && plan.children().first().is_some_and(|below| is_by_row(below))
}

fn own_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()
}

fn scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    own_scan(plan).or_else(|| plan.children().first().and_then(|below| scan(below)))
}

/// Whether a plan has only what fragments have: all that a node carries out for others.
pub fn is_fragment(plan: &Arc<dyn ExecutionPlan>) -> bool {
    is_top(plan) && plan.children().first().is_some_and(|below| is_by_row(below))
}
