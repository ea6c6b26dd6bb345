//! Names: what four programs make, look at and remove, as mdtest does.

use std::fs::{self, File};
use std::path::Path;

use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;

use crate::bed::{Bed, Setup, seconds};

/// Programs, each with a directory of its own.
const PROGRAMS: usize = 4;

/// Files of each.
const FILES: usize = 1000;

/// Creates, stats and removes a second: on the node that leads the tree, and on another.
type Rates = [[Samples; 3]; 2];

/// Measures the node that leads the tree, and one that does not: while what is made lands, and where nothing does.
pub fn measure(bed: &Bed) -> anyhow::Result<Measurement> {
    let setup = Setup {
        name: "names",
        nodes: 2,
        backing: None,
        stores: None,
        capacity: "512MiB",
        options: &["--drain", "manual"],
    };
    let unlanded = bed.beside(&setup)?;
    let (mut landing, mut alone) = (Rates::default(), Rates::default());
    for _ in 0..bed.runs(5) {
        add(bed, &mut landing)?;
        add(&unlanded, &mut alone)?;
    }
    drop(unlanded);
    let mut measurement = Measurement::under(format!(
        "{PROGRAMS} threads with {FILES} empty files each, in directories of their own; on the node that leads the tree, and on another; \
         while what is made lands on the same disk by the same processors, and where nothing lands (--drain manual)"
    ));
    for (what, at, bar) in [("creates", 0, 5000.0), ("stats", 1, 20_000.0), ("removes", 2, 10_000.0)] {
        for (node, place) in ["leader's node", "another node"].into_iter().enumerate() {
            for (rates, meanwhile) in [(&landing, ""), (&alone, ", nothing lands")] {
                let what = format!("{what}, {place}{meanwhile}");
                measurement.bar(Bar::new(what, rates[node][at].median(), Side::AtLeast, bar, "/s"));
            }
        }
    }
    Ok(measurement)
}

/// Of one run on each node.
fn add(bed: &Bed, rates: &mut Rates) -> anyhow::Result<()> {
    for (node, samples) in rates.iter_mut().enumerate() {
        stop::check()?;
        let directory = bed.mount(node as u32).join("names");
        fs::create_dir(&directory)?;
        let steps: [fn(&Path) -> std::io::Result<()>; 3] =
            [|path| File::create(path).map(drop), |path| fs::metadata(path).map(drop), |path| fs::remove_file(path)];
        for (step, samples) in steps.into_iter().zip(samples) {
            samples.add((PROGRAMS * FILES) as f64 / seconds(|| everywhere(&directory, step))?);
        }
        fs::remove_dir_all(&directory)?;
        bed.settle()?;
    }
    Ok(())
}

fn everywhere(directory: &Path, step: fn(&Path) -> std::io::Result<()>) -> anyhow::Result<()> {
    std::thread::scope(|scope| {
        let work = |program: usize| {
            move || {
                let own = directory.join(program.to_string());
                // There already when it is not the first step.
                let _ = fs::create_dir(&own);
                (0..FILES).try_for_each(|number| step(&own.join(number.to_string())))
            }
        };
        let threads: Vec<_> = (0..PROGRAMS).map(|program| scope.spawn(work(program))).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into())))
    })?;
    Ok(())
}
