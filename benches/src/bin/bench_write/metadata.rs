//! Names: what four programs make, look at and remove, as mdtest does.

use std::fs::{self, File};
use std::path::Path;

use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;

use crate::bed::{Bed, seconds};

/// Programs, each with a directory of its own.
const PROGRAMS: usize = 4;

/// Files of each.
const FILES: usize = 1000;

/// Measures the node that owns the tree, and one that does not.
pub fn measure(bed: &Bed) -> anyhow::Result<Measurement> {
    let mut sides: Vec<[Samples; 3]> = vec![Default::default(), Default::default()];
    for _ in 0..bed.runs(5) {
        for (node, samples) in sides.iter_mut().enumerate() {
            stop::check()?;
            let directory = bed.mount(node as u32).join("names");
            fs::create_dir(&directory)?;
            let steps: [fn(&Path) -> std::io::Result<()>; 3] = [
                |path| File::create(path).map(drop),
                |path| fs::metadata(path).map(drop),
                |path| fs::remove_file(path),
            ];
            for (step, samples) in steps.into_iter().zip(samples) {
                samples.add((PROGRAMS * FILES) as f64 / seconds(|| everywhere(&directory, step))?);
            }
            fs::remove_dir_all(&directory)?;
            bed.settle()?;
        }
    }
    let mut measurement = Measurement::under(format!(
        "{PROGRAMS} threads with {FILES} empty files each, in directories of their own; on the node that owns the tree, and on another; \
         what is made lands meanwhile"
    ));
    let [there, elsewhere] = &sides[..] else { return Ok(measurement) };
    for (what, at, bar) in [("creates", 0, 5000.0), ("stats", 1, 20_000.0), ("removes", 2, 10_000.0)] {
        measurement
            .bar(Bar::new(format!("{what}, owner's node"), there[at].median(), Side::AtLeast, bar, "/s"))
            .bar(Bar::new(format!("{what}, another node"), elsewhere[at].median(), Side::AtLeast, bar, "/s"));
    }
    Ok(measurement)
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
