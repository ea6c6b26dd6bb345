//! `status`: how the job is, for people (`health`), or what its daemons say of themselves, as they said it.

use std::io::IsTerminal;
use std::process::ExitCode;

use forebay_launch::JobDirectory;
use forebay_types::NodeRank;

use crate::cli::StatusArguments;
use crate::commands::job::status_jobs::{self, Listed};
use crate::commands::job::unlanded_lines;
use crate::commands::job_status::ask;
use crate::exit::DONE_IN_PART;
use crate::health::shown;
use crate::jobs::{self, Found, NotUp};
use crate::output::{clear_terminal, in_one_line, say, tell};
use crate::settings::Effective;

/// Prints the state of the job.
pub fn run(arguments: StatusArguments) -> anyhow::Result<ExitCode> {
    let effective = arguments.of_job.effective()?;
    loop {
        let directory =
            match find(&effective, arguments.all_users).inspect_err(|error| tell_unlanded(&effective, error))? {
                Which::This(directory) => directory,
                Which::Any(jobs) => {
                    let is_well = status_jobs::print(&jobs, arguments.json);
                    return Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) });
                }
            };
        let (mut status, overview) = ask(&directory, arguments.local_only)?;
        if arguments.json {
            status["verdict"] = overview.verdict.json();
            say!("{status}");
        } else {
            if arguments.watch.is_some() && std::io::stdout().is_terminal() {
                clear_terminal();
            }
            let log = |rank| directory.log(NodeRank(u32::try_from(rank).unwrap_or(u32::MAX))).display().to_string();
            // Another user's daemons may have sent anything.
            shown::lines(&overview, &log).iter().for_each(|line| say!("{}", in_one_line(line)));
        }
        let Some(interval) = arguments.watch else {
            return Ok(if overview.is_well() { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) });
        };
        std::thread::sleep(interval);
    }
}

/// Files of a job that is not up may not have landed.
fn tell_unlanded(effective: &Effective, error: &anyhow::Error) {
    let job = error.is::<NotUp>().then(|| jobs::name_meant(effective).ok()).flatten();
    let lines = job.map(|job| unlanded_lines::told(&job)).unwrap_or_default();
    lines.iter().for_each(|line| tell!("forebay: {}", in_one_line(line)));
}

/// The job that is meant, or those that may be.
pub enum Which {
    This(JobDirectory),
    Any(Vec<Listed>),
}

/// As `jobs::find_or_several`. Root, who has none of that name, sees which other users have. None of their daemons is asked, and no record of
/// theirs becomes a command: who owns the directory has written them.
pub fn find(effective: &Effective, is_of_all: bool) -> anyhow::Result<Which> {
    let own = jobs::find_or_several(effective);
    let is_own = own.is_ok() && !is_of_all;
    let mut all: Vec<Listed> = vec![];
    match own {
        Ok(Found::Job(directory)) if is_own => return Ok(Which::This(directory)),
        Ok(Found::Job(directory)) => all.push(Listed::own(directory)),
        Ok(Found::Several(directories)) => all.extend(directories.into_iter().map(Listed::own)),
        Err(error) if !error.is::<NotUp>() => return Err(error),
        Err(error) => {
            let named = effective.job()?;
            let others = JobDirectory::of_other_users().into_iter();
            let others = others.filter(|(directory, _)| named.as_ref().is_none_or(|job| *job == directory.job()));
            let others: Vec<Listed> = others.map(|(directory, owner)| Listed::of(directory, owner)).collect();
            let is_elsewhere = effective.directory()?.is_some();
            return if others.is_empty() || is_elsewhere { Err(error) } else { Ok(Which::Any(others)) };
        }
    }
    if is_of_all {
        all.extend(JobDirectory::of_other_users().into_iter().map(|(directory, owner)| Listed::of(directory, owner)));
    }
    Ok(Which::Any(all))
}
