//! `report`: shows reports of jobs that have ended (`ending`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail, ensure};
use forebay_launch::state_directory;
use serde_json::{Value, json};

use crate::cli::ReportArguments;
use crate::commands::job::unlanded_lines;
use crate::exit::DONE_IN_PART;
use crate::jobs::{self, variable};
use crate::kept_logs::{REPORT, REPORT_PAGE, kept_jobs, no_home};
use crate::output::{causes, in_one_line, say, tell, without_controls};
use crate::patience::after_a_second;
use crate::report::{Report, lines, side_by_side};
use crate::settings::Effective;
use crate::settings::values::ReportChoice;

/// Shows reports of jobs that have ended.
pub fn run(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let effective = Effective::merge(arguments.given.0.clone(), arguments.file.config.clone())?;
    let base = match effective.report(None)? {
        ReportChoice::Directory(directory) => directory,
        _ => state_directory(&variable)
            .with_context(|| format!("{}, so no reports are kept (--report DIR)", no_home()))?,
    };
    let shown = base.display().to_string();
    let _told = after_a_second(move || format!("looking into {shown}; its file system has not answered yet"));
    let mut names = arguments.jobs.clone();
    if names.is_empty() {
        names.extend(effective.job()?.or_else(jobs::of_scheduler));
    }
    let directories = chosen(&base, &names)?;
    let named = directories.iter().flatten().filter_map(|directory| directory.file_name()?.to_str());
    let mut unlanded: Vec<String> = named.flat_map(unlanded_lines::told).collect();
    unlanded.extend(
        names.iter().zip(&directories).filter(|(_, of)| of.is_err()).flat_map(|(job, _)| unlanded_lines::told(job)),
    );
    unlanded.iter().for_each(|line| tell!("forebay: {}", in_one_line(line)));
    let (shown, without) = found(arguments, directories);
    without.iter().for_each(|(_, why)| tell!("forebay: {}", without_controls(why)));
    if shown.is_empty() && without.iter().all(|(lack, _)| *lack == Lack::Job) {
        return Ok(ExitCode::FAILURE);
    }
    if !shown.is_empty() {
        show(arguments, &shown)?;
    }
    Ok(if without.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) })
}

/// The reason why nothing of a job is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lack {
    /// The job itself.
    Job,
    /// Its report.
    Report,
}

/// A report to be shown; only its page is needed where no figures are.
struct Shown {
    page: PathBuf,
    report: Option<Report>,
}

/// The directories of the jobs, or why a job has none.
fn chosen(base: &Path, names: &[String]) -> anyhow::Result<Vec<Result<PathBuf, String>>> {
    let kept = kept_jobs(base);
    if names.is_empty() {
        let last = kept.into_iter().next();
        return Ok(vec![Ok(
            last.with_context(|| format!("no report of a job that has ended is in {}", base.display()))?
        )]);
    }
    let is_of = |path: &PathBuf, name: &String| path.file_name().is_some_and(|of| of.to_str() == Some(name));
    let find = |name: &String| kept.iter().find(|path| is_of(path, name)).cloned();
    let lacks = |name: &String| format!("no report of job {name} is in {}", base.display());
    Ok(names.iter().map(|name| find(name).ok_or_else(|| lacks(name))).collect())
}

/// The reports that can be shown, and for each other one the reason. One that cannot be shown hides no other.
fn found(arguments: &ReportArguments, directories: Vec<Result<PathBuf, String>>) -> (Vec<Shown>, Vec<(Lack, String)>) {
    let (mut shown, mut without) = (vec![], vec![]);
    let only_page = arguments.html || arguments.open;
    for directory in directories {
        let directory = match directory {
            Ok(directory) => directory,
            Err(why) => {
                without.push((Lack::Job, why));
                continue;
            }
        };
        let page = directory.join(REPORT_PAGE);
        let report = if !page.exists() {
            let job = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let logs = directory.display();
            Err(format!(
                "job {job} has no report: it had --report off, or died before it could be made; its logs are in {logs}"
            ))
        } else if only_page {
            Ok(None)
        } else {
            read(&directory).map(Some).map_err(|error| causes(&error).join(": "))
        };
        match report {
            Ok(report) => shown.push(Shown { page, report }),
            Err(why) => without.push((Lack::Report, why)),
        }
    }
    (shown, without)
}

fn show(arguments: &ReportArguments, shown: &[Shown]) -> anyhow::Result<()> {
    if arguments.html {
        shown.iter().for_each(|of| say!("{}", without_controls(&of.page.display().to_string())));
        return Ok(());
    }
    if arguments.open {
        return shown.iter().try_for_each(|of| open(&of.page));
    }
    let reports = || shown.iter().filter_map(|of| Some((of.report.as_ref()?, &of.page)));
    let is_one = arguments.jobs.len() <= 1;
    if arguments.json {
        let mut all: Vec<Value> = reports().map(|(report, page)| with_page(report, page)).collect();
        say!("{}", if is_one { all.remove(0) } else { json!(all) });
    } else if shown.len() == 1 {
        let of_one = reports().flat_map(|(report, page)| lines(report, &page.display().to_string()));
        of_one.for_each(|line| say!("{}", without_controls(&line)));
    } else {
        let several: Vec<&Report> = reports().map(|(report, _)| report).collect();
        side_by_side(&several).iter().for_each(|line| say!("{}", without_controls(line)));
    }
    Ok(())
}

fn with_page(report: &Report, page: &Path) -> Value {
    let mut value = report.json();
    value["page"] = json!(page);
    value
}

fn read(directory: &Path) -> anyhow::Result<Report> {
    let path = directory.join(REPORT);
    let page = directory.join(REPORT_PAGE);
    ensure!(path.exists(), "this job was too large for more than its page: {}", page.display());
    let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is not a report; see {}", path.display(), page.display()))
}

fn open(page: &Path) -> anyhow::Result<()> {
    let status = Command::new("xdg-open").arg(page).stdin(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot run xdg-open; the page is {}", page.display()))?;
    if !status.success() {
        bail!("xdg-open failed ({status}); the page is {}", page.display());
    }
    Ok(())
}
