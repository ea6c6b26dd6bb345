//! The pictures over time in the page: the start, traffic, landing.

use std::time::Duration;

use forebay_launch::StartTimes;

use super::chart::{self, Chart};
use super::figures::Figures;
use super::history::{History, Slot};
use super::markup::{escaped, wide};
use crate::columns::count;
use crate::health::amounts::{rate, share, size, time, time_of_day};

/// The phases of the start.
pub fn start(start: Option<&StartTimes>) -> String {
    let Some(start) = start else { return String::new() };
    let [prepare, launch, gather] = [start.prepare_us, start.launch_us, start.gather_us].map(Duration::from_micros);
    let phases = [("prepare", prepare), ("launch", launch), ("until all were ready", gather)];
    let svg = chart::phases("start", "Phases of the start", &phases);
    let slowest = start.slowest.map_or_else(String::new, |slowest| {
        let took = time(Duration::from_millis(slowest.took_ms.into()));
        format!(" The slowest node, {}, took {took} from the start of its process.", slowest.rank)
    });
    let all = time(prepare.saturating_add(launch).saturating_add(gather));
    let note = format!("<p class=\"soft\">The job was up after {all}.{slowest}</p>\n");
    section("start-up", "Start-up", &note, &[svg])
}

/// Requests and bytes of the read path.
pub fn traffic(figures: &Figures) -> String {
    let Some(history) = &figures.history else { return String::new() };
    let per_s = |amount: u64| format!("{}/s", count(amount));
    let requests = [
        ("answered", history.per_s(|slot| slot.requests)),
        ("reached the file system", history.per_s(|slot| slot.backing_requests)),
    ];
    let bytes = [
        ("read by programs", history.per_s(|slot| slot.read_bytes)),
        ("read from the file system", history.per_s(|slot| slot.backing_bytes)),
    ];
    let charts = [
        draw(history, ("requests", "Requests a second"), &requests, per_s, 1000.0),
        draw(history, ("bytes", "Bytes a second"), &bytes, rate, 1000.0),
    ];
    section("traffic", "Traffic over time", &note(history, figures.overview.node_count), &charts)
}

/// The way of what programs wrote.
pub fn landing(figures: &Figures) -> String {
    let Some(history) = &figures.history else { return String::new() };
    let bytes = [
        ("written by programs", history.per_s(|slot| slot.written_bytes)),
        ("landed", history.per_s(|slot| slot.landed_bytes)),
    ];
    let left = [("committed, not landed", history.slots.iter().map(|slot| slot.left_bytes as f64).collect())];
    let charts = [
        draw(history, ("landing", "Bytes written and landed a second"), &bytes, rate, 1000.0),
        draw(history, ("left", "Bytes that have not landed"), &left, size, 1024.0),
    ];
    section("landing-over-time", "Landing over time", "", &charts)
}

fn draw(
    history: &History,
    (id, title): (&str, &str),
    lines: &[(&str, Vec<f64>)],
    label: fn(u64) -> String,
    base: f64,
) -> String {
    let is_gap: Vec<bool> = history.slots.iter().map(|slot| slot.nodes == 0).collect();
    let svg = Chart { id, title, lines, slot: history.slot, is_gap: &is_gap, label, base }.svg();
    if svg.is_empty() { svg } else { format!("<h3>{}</h3>\n{svg}", escaped(title)) }
}

/// A section with what there is of its pictures.
fn section(id: &str, name: &str, note: &str, pictures: &[String]) -> String {
    let pictures = pictures.concat();
    if pictures.is_empty() { pictures } else { wide(id, name, note, &pictures) }
}

/// When it began, and what of it is not known.
fn note(history: &History, node_count: u64) -> String {
    let most = history.nodes_max();
    let has_all = |slot: &Slot| slot.nodes == most;
    let first = history.slots.iter().position(has_all).unwrap_or(0);
    let last = history.slots.iter().rposition(has_all).unwrap_or(0);
    let fewer = history.slots[first..=last].iter().filter(|slot| !has_all(slot)).count();
    let mut note = format!("Times count from {}.", time_of_day(history.from_unix_ms));
    if most < node_count {
        note += &format!(" {} of {} nodes have figures.", count(most), count(node_count));
    }
    if fewer > 0 {
        let part = 100.0 * share(fewer as u64, history.slots.len() as u64);
        note += &format!(" For {part:.0} % of the time, some nodes have none, since their daemons died.");
    }
    note += &format!(" Each step is {} long.", chart::span(history.slot));
    format!("<p class=\"soft\">{}</p>\n", escaped(&note))
}
