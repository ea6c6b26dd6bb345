//! The second import through a view: the kernel does all of the work, Forebay none.
//!
//! The kernel can only answer from what it still holds. Where memory is short, or something reclaims idle pages ahead
//! of need, it evicts pages between two imports and must read them again. So each run is counted together with the
//! pages that came back after an eviction. The bar is over the median of all runs; the run with the fewest of these pages,
//! which shows what Forebay itself causes, has a bar of its own.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context;
use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::testbed::grown;

use crate::bench::Bench;

/// Measures real imports, in turn from the local file system and through a view that has served one before.
pub fn measure(bench: &Bench) -> anyhow::Result<Measurement> {
    let job = bench.up_local(1, &bench.tree, &[])?;
    let view = job.in_view(0, &bench.tree)?;
    let (local, through) = (bench.python.import(&bench.tree), bench.python.import(&view));
    bench.timed(&local)?;
    let first = bench.timed(&through)?;
    let (mut local_cpu, mut view_cpu, mut others) = (Samples::default(), Samples::default(), Samples::default());
    let (mut refaults, mut kinds, mut calmest) = (Samples::default(), BTreeMap::new(), (f64::INFINITY, f64::INFINITY));
    for run in 0..bench.runs(15) {
        // Which side goes first alternates too.
        for side in [run % 2, 1 - run % 2] {
            if side == 0 {
                local_cpu.add(bench.timed(&local)?.cpu.as_secs_f64());
                continue;
            }
            let (before, evicted) = (job.status()?.messages(), refaulted_pages()?);
            view_cpu.add(bench.timed(&through)?.cpu.as_secs_f64());
            let refaulted = (refaulted_pages()? - evicted) as f64;
            kinds = grown(&before, &job.status()?.messages());
            let not_ioctl: u64 = kinds.iter().filter(|(kind, _)| *kind != "ioctl").map(|(_, count)| *count).sum();
            refaults.add(refaulted);
            others.add(not_ioctl as f64);
            if (refaulted, not_ioctl as f64) < calmest {
                calmest = (refaulted, not_ioctl as f64);
            }
        }
    }
    job.down()?;
    let ratios = view_cpu.over(&local_cpu);
    let mut measurement = Measurement::under(format!(
        "one node; the import a second time and on, {} runs in turn with the local file system; user and system time of \
         the interpreter, the median of the ratios of neighbouring runs; messages of the run in which the machine read the fewest evicted pages again ({})",
        local_cpu.len(),
        calmest.0
    ));
    measurement
        .bar(Bar::new("second import, messages other than ioctl, median", others.median(), Side::AtMost, 0.0, ""))
        .bar(Bar::new("the same in the calmest run", calmest.1, Side::AtMost, 0.0, ""))
        .bar(Bar::new("second import, CPU against the local file system", ratios.median(), Side::AtMost, 1.03, "x"))
        .figure("messages_other_than_ioctl", others)
        .figure("pages_evicted_and_read_again_on_this_machine", refaults)
        .figure("messages_by_kind_last_run", kinds)
        .figure("view_cpu_over_local_cpu", ratios)
        .figure("view_cpu_seconds", view_cpu)
        .figure("local_cpu_seconds", local_cpu)
        .figure("first_import_cpu_seconds", first.cpu.as_secs_f64());
    Ok(measurement)
}

/// Pages of files that were evicted and read again, since the machine started (`/proc/vmstat`).
fn refaulted_pages() -> anyhow::Result<u64> {
    let text = fs::read_to_string("/proc/vmstat")?;
    let value = text.lines().find_map(|line| line.strip_prefix("workingset_refault_file "));
    value.and_then(|value| value.parse().ok()).context("/proc/vmstat lacks workingset_refault_file")
}
