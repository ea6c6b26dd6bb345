//! The scenarios that `forebay simulate` knows: `reproductions` of published figures, and `predictions`.

use forebay_overlay::{Forest, Shape, default_fan_out, default_roots, default_stripe_fan_out};

use super::baselines::{self, Run};
use super::copper;
use super::parameters::{AURORA, COPPER, MODEL, TORCH};
use super::stated::Stated;
use super::storm::Storm;
use super::synthetic::Grain;
use super::table::{Curve, Outcome};
use super::{predictions, reproductions};

/// A scenario.
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows.
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
pub const SCENARIOS: [Scenario; 7] = [
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
        about: "cold import of torch, all ways, to 100,000 nodes",
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

/// The forest of a job that asks for nothing special.
#[must_use]
pub fn default_forest(nodes: usize) -> Forest {
    forest_of(nodes, default_roots(nodes as u32))
}

/// The same of a job that asks for so many roots.
pub(super) fn forest_of(nodes: usize, roots: u32) -> Forest {
    let fan_out = default_fan_out(roots);
    let stripe_fan_out = default_stripe_fan_out(fan_out);
    let shape = Shape { node_count: nodes as u32, roots, fan_out, stripe_fan_out };
    Forest::new(shape).expect("a model's job has nodes and roots")
}

/// A cold import of torch on Aurora through Forebay.
pub(super) fn torch(nodes: usize, seed: u64) -> Storm<'static> {
    let (machine, workload, grain, forest) = (&AURORA, &TORCH, Grain::OF_SCENARIOS, default_forest(nodes));
    Storm { machine, workload, grain, forest, nodes, seed, is_known: false, losses: &[] }
}

/// A curve of the model: what did not come about is no point of it.
pub(super) fn curve(label: &str, nodes: &[usize], of: impl Fn(usize) -> Option<f64>) -> Curve {
    let points = nodes.iter().filter_map(|nodes| Some((*nodes as f64, of(*nodes)?)));
    Curve::modelled(label, points.collect())
}

pub(super) fn forebay_curve(nodes: &[usize], seed: u64) -> Curve {
    curve("Forebay", nodes, |nodes| torch(nodes, seed).run().all_seconds())
}

pub(super) fn direct_curve(nodes: &[usize], run: Run, seed: u64) -> Curve {
    curve("direct", nodes, |nodes| Some(baselines::direct(&AURORA, &TORCH, nodes, run, seed)))
}

pub(super) fn copper_curve(nodes: &[usize], run: Run, seed: u64) -> Curve {
    curve("Copper's design", nodes, |nodes| Some(copper::time(&AURORA, &COPPER, &TORCH, nodes, run, seed)))
}

/// What goes into a run of `torch`.
pub(super) fn of_torch() -> Vec<Stated> {
    [AURORA.list(), TORCH.list(), MODEL.list()].concat()
}
