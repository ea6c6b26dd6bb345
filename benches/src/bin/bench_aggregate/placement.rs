//! Where the aggregators are, everything else pinned: joint placement against the poster's cost and the controls.

use forebay_aggregate::Strategy;
use forebay_testkit::results::{Bar, Measurement, Samples, Side};

use crate::job::{MEBIBYTE, Totals, Work};
use crate::options::BenchOptions;

/// Bars that must hold in the median and in the worst run.
pub fn bars(measurement: &mut Measurement, what: &str, ratios: &Samples, side: Side, bar: f64) {
    let worst = ratios.worst(side);
    measurement.bar(Bar::new(format!("simulated: {what}, median"), ratios.median(), side, bar, "x"));
    measurement.bar(Bar::new(format!("simulated: {what}, worst"), worst, side, bar, "x"));
}

/// 1 MiB a node, ranks scattered in blocks of four nodes.
pub fn scattered(options: &BenchOptions) -> anyhow::Result<Measurement> {
    let totals = Totals::of(MEBIBYTE, &Strategy::ALL, (1..=options.seeds).map(Some))?;
    let mut measurement = Measurement::under(format!(
        "simulated: 4,096 nodes (torus 8x8x8x4x2, 1.8 GB/s a link, an I/O node of 1.8 GB/s for each 64), 1 MiB a node, ranks in \
         blocks of 4 nodes in any order, 256 aggregators, one round, {} seeds",
        options.seeds
    ));
    let joint = totals.strategy(Strategy::Joint);
    let against = |other| totals.strategy(other).over(&joint);
    bars(&mut measurement, "C1 + C2 over joint, 1 MiB a node", &against(Strategy::Poster), Side::AtLeast, 1.5);
    bars(&mut measurement, "nearest over joint, 1 MiB a node", &against(Strategy::Nearest), Side::AtLeast, 1.5);
    bars(&mut measurement, "balanced over joint, 1 MiB a node", &against(Strategy::Balanced), Side::AtLeast, 1.2);
    bars(&mut measurement, "joint over the I/O floor, 1 MiB a node", &joint.over(&totals.floor), Side::AtMost, 1.2);
    measurement.figure("total_s", totals.by_name());
    Ok(measurement)
}

/// 16 ranks a node of 1, 2 and 4 KiB.
pub fn small_messages(options: &BenchOptions) -> anyhow::Result<Measurement> {
    let mut measurement = Measurement::under(format!(
        "simulated: as scattered, with 16 ranks a node of 1, 2 and 4 KiB, stripes of 64 KiB, {} seeds",
        options.seeds
    ));
    for kib in [1, 2, 4] {
        let work = Work { per_node: 16, bytes: kib << 10, stripe_bytes: 64 << 10, ..MEBIBYTE };
        let strategies = [Strategy::Nearest, Strategy::Poster, Strategy::Balanced, Strategy::Joint];
        let totals = Totals::of(work, &strategies, (1..=options.seeds).map(Some))?;
        let ratios = totals.strategy(Strategy::Poster).over(&totals.strategy(Strategy::Joint));
        bars(&mut measurement, &format!("C1 + C2 over joint, {kib} KiB a rank"), &ratios, Side::AtLeast, 1.35);
        measurement.figure(&format!("total_s_{kib}_kib"), totals.by_name());
    }
    Ok(measurement)
}

/// Ranks in the order of the nodes: it does not matter who aggregates.
pub fn aligned(_: &BenchOptions) -> anyhow::Result<Measurement> {
    let strategies = [Strategy::First, Strategy::Nearest, Strategy::Poster, Strategy::Balanced, Strategy::Joint];
    let totals = Totals::of(MEBIBYTE, &strategies, std::iter::once(None))?;
    let mut measurement = Measurement::under("simulated: as scattered, but ranks in the order of the nodes");
    let joint = totals.strategy(Strategy::Joint);
    for other in [Strategy::First, Strategy::Nearest, Strategy::Poster, Strategy::Balanced] {
        let apart = (totals.strategy(other).over(&joint).median() - 1.0).abs();
        let what = format!("simulated: {} and joint apart, aligned", other.name());
        measurement.bar(Bar::new(what, apart, Side::AtMost, 0.01, ""));
    }
    measurement.figure("total_s", totals.by_name());
    Ok(measurement)
}
