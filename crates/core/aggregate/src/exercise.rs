//! For fuzzing and for its corpus: a case that anybody has described.

use crate::{Case, CaseDescription, Extent, RanksDescription, TopologyDescription, limits, plan_all, union};

/// Places of a network that is built: there may be far more, which take their time.
const PLACES_MAX: usize = 1 << 10;

/// Ranks that are planned for.
const RANKS_MAX: usize = 64;

/// Stripes or buffers that are planned for: each round of their aggregators is computed.
const GRAINS_MAX: u64 = 64;

/// Plans a case that is small, and checks what must hold then; whether it is one that makes sense.
///
/// # Panics
/// When something does not hold.
#[must_use]
pub fn plan(description: CaseDescription) -> bool {
    if !is_small(&description.topology) || !are_few(&description) {
        return false;
    }
    let grain_bytes = description.stripe_bytes.min(description.buffer_bytes).max(1);
    let Ok(case) = Case::new(description) else { return false };
    assert!(case.network().node_count() >= case.node_count());
    if case.rank_count() > RANKS_MAX || case.bytes() / grain_bytes > GRAINS_MAX {
        return true;
    }
    let all: Vec<Extent> = (0..case.rank_count()).flat_map(|rank| case.extents_of(rank)).copied().collect();
    let Ok(portfolio) = plan_all(&case) else { return true };
    for plan in portfolio.plans() {
        let domains: Vec<Extent> = plan.aggregators.iter().flat_map(|each| &each.domain).copied().collect();
        assert_eq!(union(domains), union(all.clone()), "{:?} leaves something out", plan.strategy);
        for each in &plan.aggregators {
            assert!(each.rank < case.rank_count() && each.node == case.node_of(each.rank));
            assert!(each.io_node < case.io_nodes().len() && each.windows.len() == plan.rounds);
        }
        assert!(!plan.predicted.total_s.is_nan() && plan.predicted.total_s >= 0.0, "{:?}", plan.predicted);
        assert!(portfolio.best().predicted.total_s <= plan.predicted.total_s);
    }
    true
}

fn is_small(topology: &TopologyDescription) -> bool {
    // A number that overflows is refused, which is to be seen.
    let product = |mut counts: Box<dyn Iterator<Item = usize> + '_>| {
        counts.try_fold(1_usize, usize::checked_mul).is_none_or(|count| count <= PLACES_MAX)
    };
    match topology {
        TopologyDescription::Torus(lengths) => product(Box::new(lengths.iter().copied())),
        TopologyDescription::Dragonfly { groups, routers, nodes } => {
            product(Box::new([*groups, *routers, *nodes].into_iter()))
        }
        TopologyDescription::FatTree { levels } => {
            product(Box::new(levels.iter().flat_map(|level| [level.down.max(1), level.up.max(1)])))
        }
        TopologyDescription::Matrix { latency_s, .. } => latency_s.len() <= PLACES_MAX,
        TopologyDescription::Slurm(switches) => {
            is_short(&switches.text) && switches.hosts.as_deref().is_none_or(is_short)
        }
        TopologyDescription::HostNames(names) => is_short(&names.hosts),
    }
}

/// Whether ranks that are alike are few, or more than there may be.
fn are_few(description: &CaseDescription) -> bool {
    let RanksDescription::Alike(ranks) = &description.ranks else { return true };
    let count = description.nodes.saturating_mul(ranks.per_node);
    count <= 16 * RANKS_MAX || count > limits::RANKS_MAX
}

/// Whether lists cannot name many hosts: they are short, and have no ranges of more than two digits.
fn is_short(lists: &str) -> bool {
    let digits = lists.split(|letter: char| !letter.is_ascii_digit()).map(str::len).max().unwrap_or(0);
    let brackets = lists.split_whitespace().map(|list| list.matches('[').count()).max().unwrap_or(0);
    lists.len() <= 400 && digits <= 2 && brackets <= 2
}
