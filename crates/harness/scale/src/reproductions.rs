//! Published figures, and the same by the model: what it is worth shows in the points that nothing was fitted to.

use super::baselines::{self, Run};
use super::curves::{copper_curve, curve, direct_curve, of_torch};
use super::parameters::{AURORA_FIG_1, COPPER, HOROVOD, MODEL, MPI4PY, TORCH};
use super::published;
use super::stated::Workload;
use super::table::{Curve, Outcome, of_curves};

const PAPER: &str = "N. Lewis et al., Copper: Cooperative Caching Layer for Scalable Data Loading, PDSW at SC24";

/// Fig. 1.
pub(super) fn import_direct(nodes: &[usize], seed: u64) -> Outcome {
    let direct = |label, workload: &Workload| {
        curve(label, nodes, |nodes| Some(baselines::direct(&AURORA_FIG_1, workload, nodes, Run::Cold, seed)))
    };
    let curves = vec![
        Curve::published("horovod, direct", published::FIG_1_HOROVOD),
        Curve::published("mpi4py, direct", published::FIG_1_MPI4PY),
        direct("horovod, direct", &HOROVOD),
        direct("mpi4py, direct", &MPI4PY),
    ];
    let parameters = [AURORA_FIG_1.list(), HOROVOD.list(), MPI4PY.list(), MODEL.list()].concat();
    Outcome { parameters, ..compared("Imports from Lustre, 12 processes a node (Fig. 1)", curves) }
}

/// Fig. 4.
pub(super) fn first_run(nodes: &[usize], seed: u64) -> Outcome {
    let curves = vec![
        Curve::published("direct", published::FIG_4_DIRECT),
        Curve::published("Copper", published::FIG_4_COPPER),
        direct_curve(nodes, Run::Cold, seed),
        copper_curve(nodes, Run::Cold, seed),
    ];
    compared("Cold import of torch, 12 processes a node (Fig. 4)", curves)
}

/// Fig. 5.
pub(super) fn second_run(nodes: &[usize], seed: u64) -> Outcome {
    let curves = vec![
        Curve::published("direct", published::FIG_5_DIRECT),
        Curve::published("Copper", published::FIG_5_COPPER),
        direct_curve(nodes, Run::Second, seed),
        copper_curve(nodes, Run::Second, seed),
        // A constant, no run of the model: the kernel has every entry and page, and no message is sent (measured).
        curve("Forebay", nodes, |_| Some(TORCH.computing.value)),
    ];
    compared("Second import of torch, 12 processes a node (Fig. 5)", curves)
}

/// Two published curves, the model's of the same, and others.
fn compared(title: &str, curves: Vec<Curve>) -> Outcome {
    Outcome {
        title: title.to_owned(),
        source: PAPER,
        parameters: [of_torch(), COPPER.list()].concat(),
        rows: of_curves(&curves),
        notes: vec![ratios(&curves[0], &curves[2]), ratios(&curves[1], &curves[3])],
        curves,
        bars: vec![],
    }
}

/// How far a curve of the model is from the published one.
fn ratios(published: &Curve, modelled: &Curve) -> String {
    let ratios = published.points.iter().filter_map(|(at, value)| Some(modelled.at(*at as usize)? / value));
    let (least, most) = ratios.fold((f64::MAX, 0.0f64), |(least, most), ratio| (least.min(ratio), most.max(ratio)));
    match least <= most {
        true => format!("{}: model over published {least:.2} to {most:.2}", published.label),
        false => format!("{}: nothing was published for these numbers of nodes", published.label),
    }
}
