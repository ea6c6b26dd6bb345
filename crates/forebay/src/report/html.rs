//! The report as one page: no script, no network, readable on paper, and by a reader of the screen.
//!
//! Names of paths, hosts and jobs come from anywhere. All text passes `markup::escaped`; a policy in the page forbids all but its own style.

use std::fmt::Write;
use std::time::Duration;

use super::figures::{Figures, Latency, PathAmount, Slow};
use super::markup::{escaped, table, wide};
use super::model::Report;
use super::pictures;
use super::text::{bytes, landed, requests, trouble, waited};
use super::tree;
use crate::columns::count;
use crate::health::Node;
use crate::health::amounts::{share, size, span, time, time_of_day};

/// Rows of nodes at most, those with trouble first: a page of thousands is not read.
const NODES_MAX: usize = 256;

/// Rows of files and directories.
const PATHS_MAX: usize = 16;

const STYLE: &str = include_str!("style.css");

/// The page.
pub fn page(report: &Report) -> String {
    let figures = report.figures();
    let (is_well, verdict) = report.verdict();
    let job = escaped(&report.job);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>Forebay report, job {job}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>Forebay report, job {job}</h1>\n"
    );
    page.push_str(&format!("<p class=\"soft\">{}</p>\n", escaped(&about(report, figures.as_ref()))));
    let class = if is_well { "verdict" } else { "verdict bad" };
    page.push_str(&format!("<p class=\"{class}\">{}</p>\n", escaped(&verdict)));
    if let Some(figures) = &figures {
        page.push_str(&summary(figures));
    }
    page.push_str(&findings(report));
    page.push_str(&pictures::start(report.start.as_ref()));
    if let Some(figures) = &figures {
        [
            pictures::traffic(figures),
            pictures::landing(figures),
            nodes(figures),
            drawing(figures),
            slowest(&figures.slowest),
            most_read(figures),
            absent_in(figures),
            latencies(&figures.latencies),
            errors(figures),
            deaths(figures),
        ]
        .iter()
        .for_each(|part| page.push_str(part));
        page.push_str(&model(figures));
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn about(report: &Report, figures: Option<&Figures>) -> String {
    let days = i64::try_from(report.ended_unix_ms / 86_400_000).unwrap_or(0);
    let (year, month, day) = date(days);
    let ended = format!("ended {year}-{month:02}-{day:02} {}", time_of_day(report.ended_unix_ms));
    let figures = figures.map_or_else(String::new, |figures| {
        let overview = &figures.overview;
        let plural = if overview.node_count == 1 { "" } else { "s" };
        format!("{} node{plural}, up {}, ", overview.node_count, span(overview.up_for))
    });
    format!("{figures}{ended}, Forebay {}", report.version)
}

/// The day of a number of days since 1970, in the Gregorian calendar (Hinnant, "chrono-compatible low-level date algorithms").
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, of_year - (153 * shifted + 2) / 5 + 1)
}

fn summary(figures: &Figures) -> String {
    let mut list = "<h2>In short</h2>\n<dl>\n".to_owned();
    let mut add =
        |name: &str, text: &str| writeln!(list, "<dt>{name}</dt><dd>{}</dd>", escaped(text)).unwrap_or_default();
    add("Reads", &requests(figures));
    add("Bytes", &bytes(figures));
    if let Some(writes) = landed(figures) {
        add("Writes", &writes);
    }
    add("Waited", &waited(figures));
    add("Trouble", &trouble(figures));
    list + "</dl>\n"
}

fn findings(report: &Report) -> String {
    let items: String = report
        .findings()
        .iter()
        .map(|finding| format!("<li>{}<br><strong>{}</strong></li>\n", escaped(&finding.why), escaped(&finding.todo)))
        .collect();
    match items.is_empty() {
        true => "<h2>Findings</h2>\n<p>None: there is nothing to change.</p>\n".to_owned(),
        false => format!("<h2>Findings, and what to change first</h2>\n<ol>\n{items}</ol>\n"),
    }
}

fn nodes(figures: &Figures) -> String {
    let all = &figures.overview.nodes;
    let row = |node: &Node| {
        let figure = |text: String| if node.is_ready() { text } else { "-".to_owned() };
        let to_land = node.to_land_bytes.map_or_else(|| "-".to_owned(), size);
        let figures = [span(node.up_for), size(node.memory_bytes), size(node.read_bytes), to_land].map(figure);
        let mut row = vec![node.rank.to_string(), node.host.clone(), node.state.clone()];
        row.extend(figures);
        row.push(node.note());
        row
    };
    let rows: Vec<Vec<String>> = all.iter().take(NODES_MAX).map(row).collect();
    let more = all.len() - rows.len();
    let note =
        if more > 0 { format!("<p>{} more nodes are not shown.</p>\n", count(more as u64)) } else { String::new() };
    let columns = [
        ("Node", false),
        ("Host", false),
        ("State", false),
        ("Up", true),
        ("Memory", true),
        ("Read from file system", true),
        ("To land", true),
        ("Note", false),
    ];
    table("Nodes", &columns, &rows, &note)
}

fn drawing(figures: &Figures) -> String {
    let has_trouble = |rank: u64| {
        figures.overview.nodes.iter().any(|node| node.rank == rank && (!node.is_ready() || node.restarts > 0))
    };
    let note = "<p class=\"soft\">Each node asks the one above it. Nodes that died or gave no answer have dashed circles.</p>\n";
    tree::svg(&figures.parents, &has_trouble).map_or_else(String::new, |svg| wide("tree", "Tree", note, &svg))
}

fn slowest(slowest: &[Slow]) -> String {
    let row = |slow: &Slow| {
        let path = slow.path.clone().unwrap_or_else(|| "(not known)".to_owned());
        vec![path, time(Duration::from_micros(slow.took_us)), slow.kind.clone(), slow.by.clone(), slow.rank.to_string()]
    };
    let rows: Vec<Vec<String>> = slowest.iter().map(row).collect();
    let columns = [("Path", false), ("Took", true), ("Request", false), ("Place", false), ("Node", true)];
    table("Slowest files", &columns, &rows, "<p class=\"soft\">Of the last 10 to 20 minutes before the end.</p>\n")
}

fn most_read(figures: &Figures) -> String {
    let row = |of: &PathAmount| vec![of.path.clone(), size(of.amount)];
    let rows: Vec<Vec<String>> = figures.most_read.iter().take(PATHS_MAX).map(row).collect();
    let note =
        "<p class=\"soft\">Bytes that programs read from Forebay; what a kernel has cached is not counted again.</p>\n";
    table("Files read most", &[("Path", false), ("Read", true)], &rows, note)
}

fn absent_in(figures: &Figures) -> String {
    let part = |of: &PathAmount| format!("{:.0} %", 100.0 * share(of.amount, figures.lookups));
    let row = |of: &PathAmount| vec![of.path.clone(), count(of.amount), part(of)];
    let rows: Vec<Vec<String>> = figures.absent_in.iter().take(PATHS_MAX).map(row).collect();
    let note = "<p class=\"soft\">Lookups that reached Forebay for names that the directory does not have.</p>\n";
    table("Absent names by directory", &[("Path", false), ("Lookups", true), ("Of all lookups", true)], &rows, note)
}

fn latencies(latencies: &[Latency]) -> String {
    let us = |us: u64| time(Duration::from_micros(us));
    let row = |of: &Latency| {
        vec![
            format!("{} {}", of.by, of.kind),
            count(of.count),
            us(of.p50_us),
            us(of.p99_us),
            us(of.max_us),
            us(of.sum_us),
        ]
    };
    let rows: Vec<Vec<String>> = latencies.iter().map(row).collect();
    let columns =
        [("Request", false), ("Count", true), ("p50", true), ("p99", true), ("Longest", true), ("All together", true)];
    let note = "<p class=\"soft\">view and burst: of programs; peers: between nodes; backing: to the file system; log: to the \
                burst store.</p>\n";
    table("Latencies", &columns, &rows, note)
}

fn errors(figures: &Figures) -> String {
    let reads = &figures.overview.reads;
    let row = |(kind, number): &(String, u64)| vec![kind.clone(), count(*number)];
    let mut rows: Vec<Vec<String>> = reads.errors_by_kind.iter().map(row).collect();
    rows.push(vec!["absent names (no error)".to_owned(), count(reads.absent_names)]);
    table("Errors of the file system", &[("Kind", false), ("Count", true)], &rows, "")
}

fn deaths(figures: &Figures) -> String {
    let died = figures.overview.nodes.iter().filter_map(|node| Some((node, node.last_death.as_ref()?)));
    let rows: Vec<Vec<String>> = died
        .take(NODES_MAX)
        .map(|(node, death)| {
            let back = death.back_after.map_or_else(|| "-".to_owned(), time);
            vec![node.rank.to_string(), count(node.restarts), death.how.clone(), time_of_day(death.at_unix_ms), back]
        })
        .collect();
    let columns = [("Node", false), ("Restarts", true), ("Last death", false), ("At", false), ("Back after", true)];
    table("Deaths of daemons", &columns, &rows, "")
}

fn model(figures: &Figures) -> String {
    figures.directly.map_or_else(String::new, |directly| {
        format!(
            "<h2>The model</h2>\n<p>Without Forebay, the same requests take at least {}, by a model and not measured: each request of a \
             program takes the mean time that the file system took for its kind in this job. The file system would be busier without \
             Forebay, and kinds that were measured fewer than 8 times are left out. Programs waited {} with Forebay.</p>\n",
            time(directly),
            time(figures.waited)
        )
    })
}
