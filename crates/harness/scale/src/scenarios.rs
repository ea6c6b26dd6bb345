//! The scenarios that `forebay simulate` knows: `reproductions` of published figures, and `predictions`.

use super::table::Outcome;
use super::{aggregation, checkpoint, predictions, reproductions, weights};

/// A scenario.
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its subject.
    pub about: &'static str,
    /// The numbers of nodes that it is run with if nobody asks for others. Only one: then it takes one.
    pub nodes: &'static [usize],
    /// The numbers of nodes that its bars need; none if it has no bar.
    pub bars_at: &'static [usize],
    run: fn(&[usize], u64) -> Outcome,
}

/// Nodes of Fig. 4 and Fig. 5.
const PUBLISHED: &[usize] = &[32, 64, 128, 256, 512, 1024, 2048, 8300];

/// All of them.
pub const SCENARIOS: [Scenario; 12] = [
    Scenario {
        name: "import-direct",
        about: "Fig. 1 of the Copper paper: imports from Lustre, 1 to 512 nodes",
        nodes: &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
        bars_at: &[],
        run: reproductions::import_direct,
    },
    Scenario {
        name: "first-run",
        about: "Fig. 4: cold import of torch, direct and with Copper's design",
        nodes: PUBLISHED,
        bars_at: &[],
        run: reproductions::first_run,
    },
    Scenario {
        name: "second-run",
        about: "Fig. 5: the second import of torch, direct and with Copper's design",
        nodes: PUBLISHED,
        bars_at: &[],
        run: reproductions::second_run,
    },
    Scenario {
        name: "cold",
        about: "cold import of torch, directly, from an image and through Forebay, to 100,000 nodes",
        nodes: &[32, 128, 512, 2048, 8300, 100_000],
        bars_at: &[32, 100_000],
        run: predictions::cold,
    },
    Scenario {
        name: "start",
        about: "start of the job itself, to 100,000 nodes",
        nodes: &[2, 16, 64, 256, 1024, 4096, 10_000, 32_768, 100_000],
        bars_at: &[10_000],
        run: predictions::start,
    },
    Scenario {
        name: "lost",
        about: "cold import of torch while nodes are lost",
        nodes: &[2048],
        bars_at: &[],
        run: predictions::lost,
    },
    Scenario {
        name: "links",
        about: "bytes over the busiest link, by number of roots",
        nodes: &[2048],
        bars_at: &[2048],
        run: predictions::links,
    },
    Scenario {
        name: "aggregation-mira",
        about: "where to aggregate HACC-IO's writes: a torus of five dimensions as Mira's, 16 ranks a node",
        nodes: &[4096],
        bars_at: &[],
        run: aggregation::mira,
    },
    Scenario {
        name: "aggregation-theta",
        about: "the same on a dragonfly with Lustre, as Theta's",
        nodes: &[4392],
        bars_at: &[],
        run: aggregation::theta,
    },
    Scenario {
        name: "aggregation-formula",
        about: "the poster's cost, C1 + C2, of each strategy's aggregators, and what the flow model makes of it",
        nodes: &[128],
        bars_at: &[],
        run: aggregation::formula,
    },
    Scenario {
        name: "checkpoint",
        about: "a checkpoint on the nodes' own disks and reading it again, to Summit's 4,608 nodes",
        nodes: &[1, 2, 4, 64, 512, 4608],
        bars_at: &[4608],
        run: checkpoint::checkpoint,
    },
    Scenario {
        name: "weights",
        about: "4 GiB of weights that all nodes read at once, over homes and over roots",
        nodes: &[4, 8, 16, 32, 64],
        bars_at: &[8, 64],
        run: weights::weights,
    },
];

/// The scenario of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

impl Scenario {
    /// Runs it with these numbers of nodes, or with its own if there are none; `seed` is where chance begins.
    #[must_use]
    pub fn run(&self, nodes: &[usize], seed: u64) -> Outcome {
        let mut nodes = if nodes.is_empty() { self.nodes } else { nodes }.to_vec();
        nodes.sort_unstable();
        nodes.dedup();
        (self.run)(&nodes, seed)
    }

    /// Whether it takes one number of nodes only.
    #[must_use]
    pub fn takes_one(&self) -> bool {
        self.nodes.len() == 1
    }
}
