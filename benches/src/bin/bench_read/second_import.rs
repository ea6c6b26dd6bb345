//! The second import through a view: the kernel does all of the work, Forebay none.

use std::collections::BTreeMap;

use forebay_bench::job::grown;
use forebay_bench::results::{Bar, Measurement, Samples, Side};

use crate::bench::{Bench, in_view};

/// Measures real imports, in turn from the local file system and through a view that has served one before.
pub fn measure(bench: &Bench) -> anyhow::Result<Measurement> {
    let job = bench.up_local(1, &bench.tree, &[])?;
    let view = in_view(&job.status()?, 0, &bench.tree)?;
    let (local, through) = (bench.python.import(&bench.tree), bench.python.import(&view));
    bench.timed(&local)?;
    let first = bench.timed(&through)?;
    let (mut local_cpu, mut view_cpu, mut others) = (Samples::default(), Samples::default(), Samples::default());
    let mut kinds = BTreeMap::new();
    for run in 0..bench.runs(15) {
        // Which side goes first alternates too.
        for side in [run % 2, 1 - run % 2] {
            if side == 0 {
                local_cpu.add(bench.timed(&local)?.cpu.as_secs_f64());
                continue;
            }
            let before = job.status()?.messages();
            view_cpu.add(bench.timed(&through)?.cpu.as_secs_f64());
            kinds = grown(&before, &job.status()?.messages());
            others.add(kinds.iter().filter(|(kind, _)| *kind != "ioctl").map(|(_, count)| *count).sum::<u64>() as f64);
        }
    }
    job.down()?;
    let ratio = view_cpu.median() / local_cpu.median();
    let mut measurement = Measurement::under(format!(
        "one node; the import a second time and on, {} runs in turn with the local file system; user and system time of \
         the interpreter, medians",
        local_cpu.len()
    ));
    measurement
        .bar(Bar::new("second import, messages other than ioctl", others.median(), Side::AtMost, 0.0, ""))
        .bar(Bar::new("second import, CPU against the local file system", ratio, Side::AtMost, 1.03, "x"))
        .figure("messages_other_than_ioctl", others)
        .figure("messages_by_kind_last_run", kinds)
        .figure("view_cpu_seconds", view_cpu)
        .figure("local_cpu_seconds", local_cpu)
        .figure("first_import_cpu_seconds", first.cpu.as_secs_f64());
    Ok(measurement)
}
