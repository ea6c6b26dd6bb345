//! Rows of tables: nodes, slow requests. More columns appear as the width allows.

use ratatui::style::Style;
use ratatui::text::Line;

use super::answer::Slow;
use super::paint::{Paint, bold, cut, end_of, line};
use super::rates::Rates;
use crate::health::Node;
use crate::health::amounts::{rate, size, span, time_of_day};
use crate::output::in_one_line;

/// From this width on a node has the time of its daemon, and from the second on also the sum of its reads.
const WIDE: usize = 100;
const WIDEST: usize = 120;

/// Names of hosts are cut at this width, on narrow screens and on others.
const HOST_MAX: [usize; 2] = [12, 32];

/// The columns of nodes that a screen has.
pub struct Columns {
    width: usize,
    host: usize,
    has_burst: bool,
}

impl Columns {
    pub fn new(width: usize, host_width: usize, has_burst: bool) -> Self {
        let host = host_width.clamp(4, HOST_MAX[usize::from(width >= WIDE)]);
        Self { width, host, has_burst }
    }

    pub fn head(&self) -> Line<'static> {
        let cells = ["NODE", "HOST", "STATE", "UP", "MEM", "READ/s", "READ", "TO LAND", "NOTE"];
        line(&self.row(&cells.map(str::to_owned)), bold())
    }

    pub fn node(&self, node: &Node, rates: Option<&Rates>, paint: Paint) -> Line<'static> {
        let state = if node.is_silent() { "SILENT" } else { &node.state };
        let known = |text: String| if node.is_ready() { text } else { "-".to_owned() };
        let read = rates.and_then(|rates| rates.node_bytes_per_s.get(&node.rank));
        let cells = [
            node.rank.to_string(),
            cut(&node.host, self.host),
            state.to_owned(),
            known(span(node.up_for)),
            known(size(node.memory_bytes)),
            known(read.map_or_else(|| "-".to_owned(), |bytes| rate(*bytes))),
            known(size(node.read_bytes)),
            known(node.to_land_bytes.map_or_else(|| "-".to_owned(), size)),
            node.note(),
        ];
        let style = match () {
            () if node.is_silent() => paint.trouble(),
            () if !node.is_ready() || node.restarts > 0 || node.bypassed > 0 => paint.notice(),
            () => Style::new(),
        };
        line(&self.row(&cells), style)
    }

    fn row(&self, [rank, host, state, up, memory, read_rate, read, to_land, note]: &[String; 9]) -> String {
        let mut row = format!("{rank:>5} {host:<width$} {state:<7}", width = self.host);
        if self.width >= WIDE {
            row += &format!(" {up:>12}");
        }
        row += &format!(" {memory:>8} {read_rate:>9}");
        if self.width >= WIDEST {
            row += &format!(" {read:>8}");
        }
        if self.has_burst {
            row += &format!(" {to_land:>8}");
        }
        row + "  " + note
    }
}

pub fn to_land_head() -> Line<'static> {
    line(&format!("{:>8}  FILE, AND NODE", "TO LAND"), bold())
}

pub fn file_to_land((path, bytes): &(String, u64), width: usize) -> Line<'static> {
    with_path(&format!("{:>8}  ", size(*bytes)), path, width)
}

pub fn node_to_land(node: &Node) -> Line<'static> {
    line(&format!("{:>8}  node {} ({})", size(node.to_land_bytes.unwrap_or(0)), node.rank, node.host), Style::new())
}

/// A slow request in the overview.
pub fn slow_line(slow: &Slow, is_first: bool) -> String {
    let name = if is_first { "SLOW" } else { "" };
    format!("{name:<7}{} {} {} (node {}, {})", time(slow.took_us), slow.kind, slow.file, slow.rank, slow.by)
}

pub fn slow_head() -> Line<'static> {
    line(&format!("{:>8} {:>5} {:<8} {:<13} {:<12}  FILE", "TOOK", "NODE", "PLACE", "KIND", "ENDED"), bold())
}

pub fn slow_row(slow: &Slow, width: usize) -> Line<'static> {
    let Slow { rank, by, kind, file, .. } = slow;
    let (took, ended) = (time(slow.took_us), time_of_day(slow.ended_unix_ms));
    with_path(&format!("{took:>8} {rank:>5} {by:<8} {kind:<13} {ended:<12}  "), file, width)
}

/// A row that ends with a path, of which as much of the end is shown as there is room for.
fn with_path(row: &str, path: &str, width: usize) -> Line<'static> {
    let path = in_one_line(path);
    line(&format!("{row}{}", end_of(&path, width.saturating_sub(row.chars().count()))), Style::new())
}

/// `350 us`, `3 ms`, `0.9 s`, `4 min 2 s`.
pub fn time(us: u64) -> String {
    match us {
        0..1000 => format!("{us} us"),
        1000..900_000 => format!("{} ms", us / 1000),
        900_000..60_000_000 => format!("{:.1} s", us as f64 / 1e6),
        _ => span(std::time::Duration::from_micros(us)),
    }
}
