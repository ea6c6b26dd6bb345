//! The schedulers: how each is recognised on a machine, and what a script of it has.

use clap::ValueEnum;

use crate::cli::SchedulerName;
use crate::search_path::find_program;
use crate::settings::UsageError;

/// A scheduler.
pub struct Scheduler {
    /// Its name in a sentence.
    pub title: &'static str,
    /// How a script is submitted.
    pub submit: &'static str,
    /// Variables of its jobs.
    jobs: &'static [&'static str],
    /// Commands of a machine that has it.
    commands: &'static [&'static str],
    /// The signals that it sends before it kills a job.
    pub signals: &'static str,
    /// How long the program gets after such a signal, seconds: less than the scheduler waits before it kills.
    pub patience: u32,
    /// Whether `up --time-limit auto` can ask it.
    pub tells_time: bool,
}

/// PBS waits for 10 s before it kills (`kill_delay`), PALS runs under PBS, LSF for 10 s after each signal, Slurm for 30 s (`KillWait`),
/// Flux for 5 s (`kill-timeout`).
pub fn of(name: SchedulerName) -> Scheduler {
    let pbs = Scheduler {
        title: "PBS",
        submit: "qsub",
        jobs: &["PBS_JOBID"],
        commands: &["qsub"],
        signals: "HUP INT TERM",
        patience: 3,
        tells_time: false,
    };
    match name {
        SchedulerName::Pbs => pbs,
        SchedulerName::Pals => {
            Scheduler { title: "PBS with PALS", commands: &["qsub", "aprun"], jobs: &["PALS_APID"], ..pbs }
        }
        SchedulerName::Slurm => Scheduler {
            title: "Slurm",
            submit: "sbatch",
            jobs: &["SLURM_JOB_ID"],
            commands: &["sbatch"],
            signals: "HUP INT TERM",
            patience: 10,
            tells_time: true,
        },
        SchedulerName::Lsf => Scheduler {
            title: "LSF",
            submit: "bsub <",
            jobs: &["LSB_JOBID"],
            commands: &["bsub"],
            // The last one at the time limit.
            signals: "HUP INT TERM USR2",
            patience: 5,
            tells_time: true,
        },
        SchedulerName::Flux => Scheduler {
            title: "Flux",
            submit: "flux batch",
            jobs: &["FLUX_ENCLOSING_ID", "FLUX_JOB_ID"],
            commands: &["flux"],
            // The first one when the instance ends.
            signals: "HUP INT TERM",
            patience: 1,
            tells_time: false,
        },
    }
}

/// The scheduler of the job around this process, else the one whose commands are here.
///
/// # Errors
/// `UsageError` when there is none, or several.
pub fn of_this_machine() -> anyhow::Result<SchedulerName> {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|text| !text.is_empty());
    let path = std::env::var_os("PATH");
    let is_here = |program: &str| find_program(program.as_ref(), path.clone()).is_some();
    found(&is_set, &is_here).map_err(|problem| {
        let names = SchedulerName::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let names = names.map(|value| value.get_name().to_owned()).collect::<Vec<_>>().join(", ");
        UsageError(format!("{problem}; name the scheduler: {names} (forebay init slurm)")).into()
    })
}

fn found(is_set: &dyn Fn(&str) -> bool, is_here: &dyn Fn(&str) -> bool) -> Result<SchedulerName, String> {
    let those = |is_it: &dyn Fn(&Scheduler) -> bool| -> Vec<SchedulerName> {
        SchedulerName::value_variants().iter().copied().filter(|name| is_it(&of(*name))).collect()
    };
    let in_job = those(&|known| known.jobs.iter().any(|name| is_set(name)));
    let mut here =
        if in_job.is_empty() { those(&|known| known.commands.iter().all(|name| is_here(name))) } else { in_job };
    // A job of PALS is one of PBS, too.
    if here.contains(&SchedulerName::Pals) {
        here.retain(|name| *name != SchedulerName::Pbs);
    }
    match here.as_slice() {
        [one] => Ok(*one),
        [] => Err("no scheduler is on this machine".to_owned()),
        several => {
            let titles: Vec<&str> = several.iter().map(|name| of(*name).title).collect();
            Err(format!("several schedulers are on this machine ({})", titles.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(set: &[&str], here: &[&str]) -> Result<SchedulerName, String> {
        found(&|name| set.contains(&name), &|name| here.contains(&name))
    }

    #[test]
    fn the_job_decides_before_commands_and_pals_before_pbs() {
        assert_eq!(with(&["FLUX_ENCLOSING_ID"], &["sbatch"]), Ok(SchedulerName::Flux));
        assert_eq!(with(&[], &["qsub", "aprun"]), Ok(SchedulerName::Pals));
        assert_eq!(with(&[], &["qsub"]), Ok(SchedulerName::Pbs));
        assert_eq!(with(&["PBS_JOBID", "PALS_APID"], &[]), Ok(SchedulerName::Pals));
        assert!(with(&[], &[]).unwrap_err().starts_with("no scheduler"));
        assert!(with(&[], &["sbatch", "flux"]).unwrap_err().contains("(Slurm, Flux)"));
    }
}
