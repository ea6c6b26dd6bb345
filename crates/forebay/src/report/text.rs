//! The report as lines for a terminal: eight at most; several jobs side by side.

use super::figures::Figures;
use super::model::Report;
use crate::columns::{self, count};
use crate::health::amounts::{size, span, time};

/// The lines. `kept` says where the page or the logs lie.
pub fn lines(report: &Report, kept: &str) -> Vec<String> {
    let figures = report.figures();
    let mut lines = vec![head(report, figures.as_ref())];
    let mut add = |name: &str, text: String| lines.push(format!("  {name:<10}{text}"));
    if let Some(figures) = &figures {
        add("Reads", requests(figures));
        add("", bytes(figures));
        if let Some(writes) = landed(figures) {
            add("Writes", writes);
        }
        add("Waited", waited(figures));
        add("Trouble", trouble(figures));
    }
    if let Some(known) = &report.known {
        add("Known", known.line());
    }
    add("Verdict", report.verdict().1);
    add("Kept", kept.to_owned());
    lines
}

/// Several reports in a table.
pub fn side_by_side(reports: &[&Report]) -> Vec<String> {
    let figures: Vec<Option<Figures>> = reports.iter().map(|report| report.figures()).collect();
    let mut rows =
        vec![std::iter::once(String::new()).chain(reports.iter().map(|report| report.job.clone())).collect()];
    let mut add = |name: &str, of: &dyn Fn(&Figures) -> String| {
        let cells = figures.iter().map(|figures| figures.as_ref().map_or_else(|| "-".to_owned(), of));
        rows.push(std::iter::once(name.to_owned()).chain(cells).collect::<Vec<_>>());
    };
    add("nodes", &|figures| figures.overview.node_count.to_string());
    add("up", &|figures| span(figures.overview.up_for));
    add("requests", &|figures| count(figures.overview.reads.program_requests));
    add("to file system", &|figures| count(figures.overview.reads.requests));
    add("read by programs", &|figures| size(figures.overview.reads.program_bytes));
    add("from file system", &|figures| size(figures.overview.reads.bytes));
    add("landed", &|figures| {
        figures.overview.writes.as_ref().map_or("-".to_owned(), |writes| size(writes.landed_bytes))
    });
    add("waited", &|figures| time(figures.waited));
    add("restarts", &|figures| count(figures.restarts()));
    add("errors", &|figures| count(figures.overview.reads.errors));
    add("absent names", &|figures| count(figures.overview.reads.absent_names));
    rows.push(std::iter::once("verdict".to_owned()).chain(reports.iter().map(|report| report.verdict().1)).collect());
    columns::lines(&rows)
}

fn head(report: &Report, figures: Option<&Figures>) -> String {
    let about = figures.map_or_else(
        || "no daemon answered, so no figures are known".to_owned(),
        |figures| {
            let plural = if figures.overview.node_count == 1 { "" } else { "s" };
            let silent = figures.overview.nodes.len() - figures.overview.ready_count();
            let lack = if silent > 0 { format!(" ({silent} without figures)") } else { String::new() };
            format!("{} node{plural}{lack}, {}", figures.overview.node_count, span(figures.overview.up_for))
        },
    );
    format!("Forebay report, job {}: {about}", report.job)
}

pub(super) fn requests(figures: &Figures) -> String {
    let reads = &figures.overview.reads;
    let ratio = match reads.program_requests.checked_div(reads.requests) {
        Some(ratio @ 2..) => format!(" (1 in {})", count(ratio)),
        _ => String::new(),
    };
    format!(
        "{} requests answered, {} reached the file system{ratio}",
        count(reads.program_requests),
        count(reads.requests)
    )
}

pub(super) fn bytes(figures: &Figures) -> String {
    let reads = &figures.overview.reads;
    format!("{} read by programs, {} from the file system", size(reads.program_bytes), size(reads.bytes))
}

pub(super) fn landed(figures: &Figures) -> Option<String> {
    let writes = figures.overview.writes.as_ref()?;
    let unknown = if writes.has_leader { "" } else { " at least" };
    let left = match writes.has_landed() {
        true if writes.has_leader => "nothing left".to_owned(),
        _ => format!("{} left before the end", size(writes.left_bytes)),
    };
    Some(format!("{} landed in {}{unknown}, {left}", size(writes.landed_bytes), writes.backing))
}

pub(super) fn waited(figures: &Figures) -> String {
    let directly = figures
        .directly
        .map_or_else(String::new, |directly| format!("; by a model, at least {} without Forebay", time(directly)));
    format!("{} by all programs together{directly}", time(figures.waited))
}

pub(super) fn trouble(figures: &Figures) -> String {
    let plural = |number: u64| if number == 1 { "" } else { "s" };
    let (reads, restarts) = (&figures.overview.reads, figures.restarts());
    let lost = figures.overview.writes.as_ref().map_or(0, |writes| writes.lost_bytes);
    let lost = if lost > 0 { format!(", {} lost", size(lost)) } else { String::new() };
    // A listing that a node has answers many lookups of absent names.
    let absent_names = reads.absent_names.max(figures.absent_in.iter().map(|of| of.amount).sum());
    format!(
        "{} daemon restart{}, {} error{}, {} absent name{}{lost}",
        count(restarts),
        plural(restarts),
        count(reads.errors),
        plural(reads.errors),
        count(absent_names),
        plural(absent_names)
    )
}
