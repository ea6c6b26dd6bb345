//! Nodes of a Flux instance, by one `flux exec`, which starts a copy on each broker and passes its standard input to all.
//!
//! It bypasses Flux's scheduler, so the tier takes no resources from the job's programs. The copies are children of the brokers: the end of the
//! instance ends them. `flux exec --bg` would leave no process here, but neither passes standard input, on which the job's key
//! comes, nor what a daemon says while the job starts; so the command stays in the foreground.

use std::collections::BTreeMap;
use std::process::Command;

use super::launcher::{Launcher, LauncherName, NewJob, Surroundings, allocation_of};
use crate::allocation::Scheduler;
use crate::{LaunchError, Reach, Starter};

/// `flux exec` in an instance.
#[derive(Debug)]
pub(super) struct Flux {
    /// The broker's rank on each host.
    brokers: BTreeMap<String, usize>,
}

impl Flux {
    pub(super) fn of(surroundings: &Surroundings<'_>) -> Result<Self, LaunchError> {
        let allocation = allocation_of(surroundings, Scheduler::Flux, LauncherName::Flux)?;
        Ok(Self { brokers: allocation.hosts.iter().cloned().zip(0..).collect() })
    }

    /// The brokers of these hosts as a set of numbers in Flux's notation: `0-3,7`.
    fn ranks(&self, job: &NewJob<'_>) -> Result<String, LaunchError> {
        let broker = |host: &str| {
            self.brokers.get(host).copied().ok_or_else(|| {
                LaunchError::Allocation(format!("{host} is no host of this instance of Flux: flux getattr hostlist"))
            })
        };
        let mut ranks: Vec<usize> = job.nodes.iter().map(|node| broker(&node.host)).collect::<Result<_, _>>()?;
        ranks.sort_unstable();
        let runs = ranks.chunk_by(|one, next| one + 1 == *next);
        let shown = runs.map(|run| match run {
            [first, .., last] => format!("{first}-{last}"),
            one => one.iter().map(ToString::to_string).collect(),
        });
        Ok(shown.collect::<Vec<_>>().join(","))
    }
}

impl Launcher for Flux {
    fn name(&self) -> LauncherName {
        LauncherName::Flux
    }

    fn passes_input(&self) -> bool {
        true
    }

    fn starters(&self, job: &NewJob<'_>) -> Result<Vec<Starter>, LaunchError> {
        let mut command = Command::new("flux");
        command.args(["exec", "--quiet", "--dir=/"]).arg(format!("--rank={}", self.ranks(job)?));
        Ok(vec![job.step("flux exec", command)?])
    }

    fn reach(&self) -> Reach {
        let words = ["flux", "exec", "--quiet", "--noinput", "--dir=/", "-r", Reach::HOST];
        let places = self.brokers.iter().map(|(host, rank)| (host.clone(), rank.to_string())).collect();
        Reach { places, ..Reach::by_command(words) }
    }
}
