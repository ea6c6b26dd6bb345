//! The first replay on one node, the backing file system's caches warm: what Forebay itself costs.

use std::collections::BTreeMap;

use forebay_testkit::Place;
use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::testbed::grown;

use crate::bench::{Bench, client_cpu_bar, ms};

#[derive(Default)]
struct Figures {
    local_cpu: Samples,
    first_cpu: Samples,
    second_cpu: Samples,
    daemon_cpu: Samples,
    messages: Samples,
    second_messages: Samples,
    kinds: BTreeMap<String, u64>,
}

/// Measures replays through fresh jobs and, in turn, on the local file system.
pub fn measure(bench: &Bench) -> anyhow::Result<Measurement> {
    let mut figures = Figures::default();
    bench.replayed(&Place::here(), &bench.tree)?;
    for _ in 0..bench.runs(11) {
        figures.local_cpu.add(bench.replayed(&Place::here(), &bench.tree)?.cpu_seconds * 1000.0);
        one_job(bench, &mut figures)?;
    }
    let runs = figures.local_cpu.len();
    let mut measurement = Measurement::under(format!(
        "one node over a local file system in the page cache; a new job for each of {runs} runs, in turn with the same \
         replay on the local file system; processor time of the import's file operations alone, medians"
    ));
    measurement
        .bar(Bar::new("first replay, kernel messages", figures.messages.median(), Side::AtMost, 5000.0, ""))
        .bar(client_cpu_bar("first replay", &figures.first_cpu, &figures.local_cpu))
        .figure("messages", figures.messages)
        .figure("messages_by_kind_last_run", figures.kinds)
        .figure("second_replay_messages", figures.second_messages)
        .figure("client_cpu_ms", figures.first_cpu)
        .figure("second_replay_client_cpu_ms", figures.second_cpu)
        .figure("local_client_cpu_ms", figures.local_cpu)
        .figure("daemon_cpu_ms", figures.daemon_cpu);
    Ok(measurement)
}

fn one_job(bench: &Bench, figures: &mut Figures) -> anyhow::Result<()> {
    let job = bench.up_local(1, &bench.tree, &[])?;
    let before = job.status()?;
    let daemon_before = before.cpu_now();
    let tree = job.in_view(0, &bench.tree)?;
    let first = bench.replayed(&Place::here(), &tree)?;
    let between = job.status()?;
    let daemon_cpu = between.cpu_now().saturating_sub(daemon_before);
    let second = bench.replayed(&Place::here(), &tree)?;
    let after = job.status()?;
    figures.kinds = grown(&before.messages(), &between.messages());
    figures.messages.add(figures.kinds.values().sum::<u64>() as f64);
    figures.second_messages.add(grown(&between.messages(), &after.messages()).values().sum::<u64>() as f64);
    figures.first_cpu.add(first.cpu_seconds * 1000.0);
    figures.second_cpu.add(second.cpu_seconds * 1000.0);
    figures.daemon_cpu.add(ms(daemon_cpu));
    job.down().map(drop)
}
