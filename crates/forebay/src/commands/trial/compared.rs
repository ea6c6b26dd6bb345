//! The rounds of a trial, and whether their times may be compared.

use std::time::{Duration, Instant};

use forebay_trial::quiet::{Measured, Observed, judge};
use forebay_trial::show::Way;

use crate::commands::trial::failure::CommandFailed;
use crate::commands::trial::site::{Run, Site};
use crate::commands::trial::steps;

/// Rounds of quiet runs; their median is shown.
const ROUNDS: usize = 3;

/// Rounds in all, where the machine is busy.
const ROUNDS_MOST: usize = 6;

/// No round begins that would end later than this after the start, so that the trial takes less than a minute; the first one always
/// does.
const BEGIN_UNTIL: Duration = Duration::from_secs(45);

/// The runs of both ways.
pub struct Compared {
    pub direct: Measured<Run>,
    pub forebay: Measured<Run>,
}

impl Compared {
    /// Runs both ways by turns.
    pub fn measure(site: &mut Site, start: Instant) -> anyhow::Result<Self> {
        let (mut direct, mut forebay) = (Vec::new(), Vec::new());
        loop {
            let began = Instant::now();
            direct.push(one(site, Way::Direct)?);
            forebay.push(one(site, Way::Forebay)?);
            let rounds = direct.len();
            let has_quiet = |runs: &[Measured<Run>]| runs.iter().any(Measured::is_quiet);
            let is_enough = rounds >= ROUNDS && has_quiet(&direct) && has_quiet(&forebay);
            if is_enough || rounds == ROUNDS_MOST || start.elapsed() + began.elapsed() > BEGIN_UNTIL {
                break;
            }
        }
        site.stop_forebay()?;
        Ok(Self { direct: chosen(direct), forebay: chosen(forebay) })
    }

    /// Direct over Forebay, where both times may be compared.
    pub fn times(&self) -> Option<f64> {
        let may_compare = self.direct.is_quiet() && self.forebay.is_quiet();
        may_compare.then(|| self.direct.value.wall_seconds / self.forebay.value.wall_seconds)
    }
}

fn one(site: &mut Site, way: Way) -> anyhow::Result<Measured<Run>> {
    steps::begin(&forebay_trial::show::case(way, true));
    let place = match way {
        Way::Direct => "on the modelled file system, which cannot be written to",
        Way::Forebay => "through Forebay, whose views cannot be written to",
    };
    let (value, machine) = site.run(way).map_err(|error| CommandFailed::of(error, place, &site.errors()))?;
    let run = measured(value, machine);
    steps::end(run.value.wall_seconds, Some(&run));
    Ok(run)
}

fn measured<T>(value: T, machine: Observed) -> Measured<T> {
    Measured { value, verdict: judge(&machine), machine, attempts: 1 }
}

/// The median of the quiet runs, else the quietest one.
fn chosen(mut runs: Vec<Measured<Run>>) -> Measured<Run> {
    let attempts = u32::try_from(runs.len()).unwrap_or(u32::MAX);
    if runs.iter().any(Measured::is_quiet) {
        runs.retain(Measured::is_quiet);
        runs.sort_by(|a, b| a.value.wall_seconds.total_cmp(&b.value.wall_seconds));
        return Measured { attempts, ..runs.swap_remove(runs.len() / 2) };
    }
    let mut quietest = runs.pop().expect("each way has run at least once");
    for run in runs {
        if run.machine.is_quieter_than(&quietest.machine) {
            quietest = run;
        }
    }
    Measured { attempts, ..quietest }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(wall_seconds: f64, others_share: f64) -> Measured<Run> {
        let (programs_cpu_seconds, daemons_cpu_seconds, traffic) = Default::default();
        let value = Run { way: Way::Direct, wall_seconds, programs_cpu_seconds, daemons_cpu_seconds, traffic };
        measured(value, Observed { seconds: wall_seconds, others_share, ..Observed::default() })
    }

    #[test]
    fn the_median_of_quiet_runs_is_taken_and_of_none_the_quietest() {
        let taken = chosen(vec![run(9.0, 0.5), run(3.0, 0.0), run(1.0, 0.0), run(2.0, 0.0)]);
        assert_eq!((taken.value.wall_seconds, taken.attempts, taken.is_quiet()), (2.0, 4, true));
        let taken = chosen(vec![run(9.0, 0.5), run(3.0, 0.2), run(1.0, 0.4)]);
        assert_eq!((taken.value.wall_seconds, taken.attempts, taken.is_quiet()), (3.0, 3, false));
    }

    #[test]
    fn there_is_no_ratio_of_disturbed_runs() {
        let compared = |others| Compared { direct: run(6.0, 0.0), forebay: run(2.0, others) };
        assert_eq!(compared(0.0).times(), Some(3.0));
        assert_eq!(compared(0.5).times(), None);
    }
}
