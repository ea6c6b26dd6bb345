//! The frames of all screens: fixed lines at the top, rows that scroll, fixed lines below, and the keys in the last row.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use super::paint::{Paint, bold, line, named};
use super::rows::{self, Columns, time};
use super::state::{Answered, Screen, Top};
use crate::columns::count;
use crate::health::amounts::{bar, part, rate, share, size, span};
use crate::health::shown;

/// Width of bars.
const BAR: usize = 20;

/// Within 80 columns.
const HELP: [&str; 16] = [
    "READ   the backing file system: requests and bytes a second, the time of an",
    "       answer, errors since the start; requests and bytes a second of programs,",
    "       requests that wait and the age of the oldest; the caches",
    "WRITE  the burst tier: bytes that have not landed, the rate, the time left,",
    "       how full the stores are",
    "NODE   nodes, those with trouble first; a wider screen has more columns",
    "SLOW   the slowest requests of the last 10 to 20 minutes",
    "",
    "n  all nodes          arrows, PgUp, PgDn, Home, End  scroll",
    "f  files to land      Esc                            back to the overview",
    "s  slow operations    q, Ctrl-C                      quit; the job goes on",
    "l  the end of the logs of this host",
    "",
    "A rate is the difference of two answers; - until a node has answered twice.",
    "The exit status is 0 after q and when the job ends.",
    "forebay status --json has every number.",
];

/// Draws the frame for `now`.
pub fn draw(top: &mut Top, now: Duration, frame: &mut Frame) {
    let area = frame.area();
    let body = usize::from(area.height.saturating_sub(1));
    let mut lines = head(top, now);
    let room = body.saturating_sub(lines.len());
    let width = usize::from(area.width);
    lines.extend(match top.screen {
        Screen::Overview => overview(top, width, room),
        Screen::Nodes => nodes(top, width, room),
        Screen::Files => files(top, width, room),
        Screen::Slow => slow(top, width, room),
        Screen::Log => log(top, room),
        Screen::Help => HELP.iter().map(|text| line(text, Style::new())).collect(),
    });
    for (row, line) in lines.iter().take(body).enumerate() {
        put(frame, row, line);
    }
    put(frame, body, &line(keys(top.screen), bold()));
}

fn put(frame: &mut Frame, row: usize, line: &Line) {
    let area = frame.area();
    let Ok(row) = u16::try_from(row) else { return };
    if row < area.height {
        let area = Rect { y: area.y + row, height: 1, ..area };
        frame.buffer_mut().set_line(area.x, area.y, line, area.width);
    }
}

fn keys(screen: Screen) -> &'static str {
    match screen {
        Screen::Overview => "q quit  n nodes  f files to land  s slow  l log  ? help",
        _ => "q quit  Esc back  n nodes  f files to land  s slow  l log  ? help",
    }
}

/// The job, and whether its daemons answer.
fn head(top: &Top, now: Duration) -> Vec<Line<'static>> {
    let paint = Paint { has_colour: top.has_colour };
    let first = match &top.last {
        Some(last) => shown::head(&last.answer.overview),
        None => format!("forebay {}  asking its daemons", top.job),
    };
    let mut lines = vec![line(&first, bold())];
    if let Some(time) = top.silent_for(now) {
        let why = top.failure.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        lines.push(line(&format!("no answer for {}{why}", span(time)), paint.trouble()));
    } else if let Some(why) = &top.failure {
        lines.push(line(why, paint.notice()));
    }
    lines
}

fn overview(top: &mut Top, width: usize, room: usize) -> Vec<Line<'static>> {
    let paint = Paint { has_colour: top.has_colour };
    let Some(last) = &top.last else { return vec![] };
    let overview = &last.answer.overview;
    let style = paint.state(overview.verdict.state);
    // Many troubles leave room for the rest.
    let verdict = shown::verdict(overview);
    let mut lines: Vec<Line> = verdict.iter().take((room / 3).max(1)).map(|text| line(text, style)).collect();
    lines.extend(reads(last).iter().map(|text| named(text)));
    lines.extend(overview.writes.iter().flat_map(shown::writes).map(|text| named(&text)));
    let slow_rows = match room {
        0..30 => 1,
        30..45 => 3,
        _ => 5,
    };
    let slow = last.answer.slow.iter().take(slow_rows).enumerate();
    let slow: Vec<Line> = slow.map(|(index, slow)| named(&rows::slow_line(slow, index == 0))).collect();
    let left = room.saturating_sub(lines.len() + slow.len());
    lines.extend(nodes(top, width, left));
    lines.extend(slow);
    lines
}

fn reads(last: &Answered) -> [String; 3] {
    let (answer, reads) = (&last.answer, &last.answer.overview.reads);
    let errors = format!("{} error{}", count(reads.errors), if reads.errors == 1 { "" } else { "s" });
    let (file_system, programs) = match &last.rates {
        None => (String::new(), "rates follow   ".to_owned()),
        Some(rates) => {
            let p99 = answer.p99_us.map_or_else(String::new, |p99| format!(" (p99 {})", time(p99)));
            let took = rates.answer_us.map_or_else(|| "-".to_owned(), time);
            (
                format!("{} req/s   {}   {took}{p99}   ", count(rates.requests_per_s), rate(rates.bytes_per_s)),
                format!("{} req/s   {}   ", count(rates.program_requests_per_s), rate(rates.program_bytes_per_s)),
            )
        }
    };
    let hits = match reads.hits + reads.misses {
        0 => String::new(),
        asked => format!("   {:.0} % hits", 100.0 * share(reads.hits, asked)),
    };
    let oldest = match answer.oldest_ms {
        0..1000 => String::new(),
        ms => format!(" ({})", span(Duration::from_millis(ms))),
    };
    let filled = share(reads.cache_bytes, reads.budget_bytes);
    let cache = format!("{} {}", bar(filled, BAR), part(reads.cache_bytes, reads.budget_bytes));
    [
        shown::row("READ", "file system", &format!("{file_system}{errors}")),
        shown::row("", "programs", &format!("{programs}waiting now: {}{oldest}", count(answer.waiting))),
        shown::row("", "cache", &format!("{cache}{hits}")),
    ]
}

/// The table of nodes.
pub(super) fn nodes(top: &mut Top, width: usize, room: usize) -> Vec<Line<'static>> {
    let Some(last) = &top.last else { return vec![] };
    let window = top_window(last.answer.overview.nodes.len(), room);
    let shown = top.window(window.0, window.1);
    let paint = Paint { has_colour: top.has_colour };
    let Some(Answered { answer, rates, .. }) = &top.last else { return vec![] };
    let all = answer.overview.nodes.len();
    let columns = Columns::new(width, answer.host_width, answer.overview.writes.is_some());
    let mut lines = vec![columns.head()];
    lines.extend(answer.overview.nodes[shown.clone()].iter().map(|node| columns.node(node, rates.as_ref(), paint)));
    lines.extend(more(&shown, all));
    lines
}

/// The number of rows, and how many of them fit below a head: where not all do, a line says which do.
fn top_window(count: usize, room: usize) -> (usize, usize) {
    let rows = room.saturating_sub(1);
    (count, if count > rows { rows.saturating_sub(1) } else { rows })
}

fn more(shown: &std::ops::Range<usize>, all: usize) -> Option<Line<'static>> {
    let text = match shown.len() {
        0 => format!("      {} rows; a higher window shows them", count(all as u64)),
        _ => format!("      {} to {} of {}", shown.start + 1, shown.end, count(all as u64)),
    };
    (shown.len() < all).then(|| line(&text, Style::new()))
}

/// Bytes that have not landed: in all, of the largest files, and node by node.
fn files(top: &mut Top, width: usize, room: usize) -> Vec<Line<'static>> {
    let Some(last) = &top.last else { return vec![] };
    let Some(writes) = &last.answer.overview.writes else {
        return vec![line("the job has no burst tier; forebay up --burst DIR=BACKING gives it one", Style::new())];
    };
    let mut lines: Vec<Line> = shown::writes(writes).iter().map(|text| named(text)).collect();
    let steps = format!("{} to land, {} landed", count(writes.steps), size(writes.landed_bytes));
    lines.push(named(&shown::row("", "changes", &steps)));
    lines.extend(writes.why.iter().map(|why| named(&shown::row("", "waits", why))));
    if writes.lost_bytes > 0 {
        let text = format!("{} are only in stores that do not answer", size(writes.lost_bytes));
        lines.push(named(&shown::row("", "lost", &text)));
    }
    lines.push(named(&shown::row("", "one file", "forebay landed PATH")));
    let all = last.answer.files.len() + last.answer.to_land.len();
    let (all, page) = top_window(all, room.saturating_sub(lines.len()));
    let window = top.window(all, page);
    let Some(Answered { answer, .. }) = &top.last else { return lines };
    if all > 0 {
        lines.push(rows::to_land_head());
    }
    lines.extend(window.clone().map(|row| match row.checked_sub(answer.files.len()) {
        None => rows::file_to_land(&answer.files[row], width),
        Some(row) => rows::node_to_land(&answer.overview.nodes[answer.to_land[row]]),
    }));
    lines.extend(more(&window, all));
    lines
}

fn slow(top: &mut Top, width: usize, room: usize) -> Vec<Line<'static>> {
    let (all, page) = top_window(top.last.as_ref().map_or(0, |last| last.answer.slow.len()), room);
    if all == 0 {
        return vec![line("no request of the last 10 minutes took 1 ms or longer", Style::new())];
    }
    let window = top.window(all, page);
    let Some(last) = &top.last else { return vec![] };
    let mut lines = vec![rows::slow_head()];
    lines.extend(last.answer.slow[window.clone()].iter().map(|slow| rows::slow_row(slow, width)));
    lines.extend(more(&window, all));
    lines
}

fn log(top: &mut Top, room: usize) -> Vec<Line<'static>> {
    let Some(all) = top.log.as_ref().map(Vec::len) else {
        return vec![line("reading the logs", Style::new())];
    };
    let window = top.window(all, room);
    let lines = top.log.as_ref().map(|log| &log[window]).unwrap_or_default();
    if lines.is_empty() {
        return vec![line("the logs of this host are empty", Style::new())];
    }
    lines.iter().map(|text| line(text, Style::new())).collect()
}
