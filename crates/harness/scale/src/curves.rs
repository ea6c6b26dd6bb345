//! Curves that several scenarios draw, and the jobs behind them.

use forebay_overlay::{Forest, Shape, default_fan_out, default_roots, default_stripe_fan_out};

use super::baselines::{self, Run};
use super::copper;
use super::parameters::{AURORA, COPPER, MODEL, TORCH};
use super::stated::Stated;
use super::storm::Storm;
use super::synthetic::Grain;
use super::table::Curve;

/// The forest of a job that asks for nothing special.
#[must_use]
pub fn default_forest(nodes: usize) -> Forest {
    forest_of(nodes, default_roots(nodes as u32))
}

/// The same of a job that asks for so many roots.
pub(super) fn forest_of(nodes: usize, roots: u32) -> Forest {
    let fan_out = default_fan_out(roots);
    let stripe_fan_out = default_stripe_fan_out(fan_out);
    let shape = Shape { node_count: nodes as u32, roots, fan_out, stripe_fan_out, has_homes: false, row_chunks: 1 };
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

/// The numbers that a run of `torch` uses.
pub(super) fn of_torch() -> Vec<Stated> {
    [AURORA.list(), TORCH.list(), MODEL.list()].concat()
}
