//! The overview as lines of at most 80 columns, as far as paths and hosts are short.

use super::amounts::{bar, part, rate, share, size, span};
use super::{Copies, Node, Overview, Reads, State, Writes};
use crate::columns::{self, count};

/// Rows of nodes that are shown: all of them in small jobs, in large ones those with trouble.
const ROWS_MAX: usize = 16;

/// Stories of nodes that are told.
const STORIES_MAX: usize = 16;

/// Width of a line's text after its name.
const TEXT: usize = 72;

/// Width of bars.
const BAR: usize = 20;

/// The lines. `log` is the path of a node's log.
pub fn lines(overview: &Overview, log: &dyn Fn(u64) -> String) -> Vec<String> {
    let mut lines = vec![head(overview)];
    lines.extend(verdict(overview));
    lines.extend(reads(&overview.reads));
    lines.extend(overview.writes.iter().flat_map(writes));
    lines.extend(nodes(&overview.nodes, overview.writes.is_some()));
    lines.extend(overview.nodes.iter().filter_map(|node| node.story(&log(node.rank))).take(STORIES_MAX));
    lines
}

/// The job, how many of its nodes answer, its times.
pub fn head(overview: &Overview) -> String {
    let Overview { job, node_count, up_for, writes, .. } = overview;
    let ends = writes.as_ref().and_then(|writes| writes.ends_in);
    let ends = ends.map_or_else(String::new, |time| format!("  ends in {}", span(time)));
    format!("forebay {job}  {}/{node_count} nodes  up {}{ends}", overview.ready_count(), span(*up_for))
}

/// The verdict, with reasons and remedies.
pub fn verdict(overview: &Overview) -> Vec<String> {
    let verdict = &overview.verdict;
    let Some(writes) = overview.writes.as_ref().filter(|_| verdict.state == State::Landing) else {
        let mut lines = vec![];
        for trouble in &verdict.troubles {
            lines.extend(wrapped("BLOCKED", &trouble.why));
            lines.extend(wrapped("  do", &trouble.todo));
        }
        let remark = verdict.remark.iter().flat_map(|remark| wrapped("", remark));
        if verdict.state == State::Healthy {
            lines.push("healthy".to_owned());
        }
        lines.extend(remark);
        return lines;
    };
    vec![format!("landing: {}", left(writes))]
}

/// `38 GiB in 3 files, 2.1 GB/s, 18 s left`.
fn left(writes: &Writes) -> String {
    let mut words = vec![amount(writes.left_bytes, writes.left_files, writes.steps)];
    words.extend(writes.bytes_per_s.map(rate));
    words.extend(writes.time_left.filter(|_| writes.bytes_per_s.is_some()).map(|time| format!("{} left", span(time))));
    words.join(", ")
}

/// The amount that has not landed, or that it is not known: the node that leads the tree alone knows it.
pub fn not_landed(writes: &Writes) -> String {
    if !writes.has_leader {
        let in_stores = match writes.store_bytes {
            0 => String::new(),
            bytes => format!("; {} in the stores that do", size(bytes)),
        };
        return format!("not known: the node that leads does not answer{in_stores}");
    }
    let committed = amount(writes.left_bytes, writes.left_files, writes.steps);
    match (writes.uncommitted_bytes, writes.left_bytes, writes.steps) {
        (0, _, _) => committed,
        (bytes, 0, 0) => format!("{} not committed yet", size(bytes)),
        (bytes, _, _) => format!("{committed}, and {} not committed yet", size(bytes)),
    }
}

/// An amount that has not landed, in words: so many bytes in so many files, else so many changes.
pub fn amount(bytes: u64, files: u64, steps: u64) -> String {
    match (bytes, files, steps) {
        (0, _, 0) => "nothing".to_owned(),
        (0, _, 1) => "1 change of names".to_owned(),
        (0, _, steps) => format!("{} changes of names", count(steps)),
        (bytes, 0, _) => size(bytes),
        (bytes, 1, _) => format!("{} in 1 file", size(bytes)),
        (bytes, files, _) => format!("{} in {} files", size(bytes), count(files)),
    }
}

fn reads(reads: &Reads) -> Vec<String> {
    let mut errors = format!("{} error{}", count(reads.errors), if reads.errors == 1 { "" } else { "s" });
    let mut notes: Vec<String> =
        reads.errors_by_kind.iter().map(|(kind, number)| format!("{} {kind}", count(*number))).collect();
    match reads.absent_names {
        0 => {}
        1 => notes.push("1 absent name".to_owned()),
        names => notes.push(format!("{} absent names", count(names))),
    }
    if !notes.is_empty() {
        errors = format!("{errors} ({})", notes.join(", "));
    }
    let asked = reads.hits + reads.misses;
    let hits = match asked {
        0 => String::new(),
        _ => format!("   {:.0} % hits", 100.0 * share(reads.hits, asked)),
    };
    let filled = share(reads.cache_bytes, reads.budget_bytes);
    let mut lines = vec![
        row("READ", "file system", &format!("{} requests   {}   {errors}", count(reads.requests), size(reads.bytes))),
        row(
            "",
            "programs",
            &format!(
                "{} requests   {} read   {} between nodes",
                count(reads.program_requests),
                size(reads.program_bytes),
                size(reads.overlay_bytes)
            ),
        ),
        row("", "cache", &format!("{} {}{hits}", bar(filled, BAR), part(reads.cache_bytes, reads.budget_bytes))),
    ];
    lines.extend(homes(reads));
    lines.extend(cache_store(reads));
    if reads.refused > 0 {
        lines.push(row("", "refused", &format!("{} connections; the logs show from where", count(reads.refused))));
    }
    if reads.spoiled > 0 {
        let text = format!("{} parts of answers with a wrong checksum; see the logs", count(reads.spoiled));
        lines.push(row("", "checksums", &text));
    }
    lines
}

/// How evenly files lie in the caches of nodes that are homes of the large ones; a job of one node has no others.
fn homes(reads: &Reads) -> Option<String> {
    let (least, most) = reads.home_bytes;
    let text = format!("{} nodes have {} to {} of files each", reads.homes, size(least), size(most));
    (reads.homes > 1 && most > 0).then(|| row("", "homes", &text))
}

/// The nodes' cache stores, if they have any.
fn cache_store(reads: &Reads) -> Option<String> {
    let Reads { store_bytes, store_capacity_bytes, store_hits, store_misses, store_unsettled, .. } = *reads;
    let hits = match store_hits + store_misses {
        0 => String::new(),
        asked => format!("   {:.0} % hits", 100.0 * share(store_hits, asked)),
    };
    let young = match store_unsettled {
        0 => String::new(),
        chunks => format!("   {} chunks of new files left out (--cache-after)", count(chunks)),
    };
    let filled = bar(share(store_bytes, store_capacity_bytes), BAR);
    let text = format!("{filled} {}{hits}{young}", part(store_bytes, store_capacity_bytes));
    (store_capacity_bytes > 0).then(|| row("", "cache store", &text))
}

/// The write path.
pub fn writes(writes: &Writes) -> Vec<String> {
    let mut lines = vec![format!("WRITE  {} -> {}", writes.dir, writes.backing)];
    lines.push(row("", "not landed", &not_landed(writes)));
    if writes.has_leader && (writes.left_bytes > 0 || writes.steps > 0) {
        let all = writes.landed_bytes + writes.left_bytes;
        let landed = share(writes.landed_bytes, all);
        let mut words = vec![format!("{} {:.0} %", bar(landed, BAR), 100.0 * landed)];
        // A prediction from better times.
        let lands = writes.why.is_none();
        words.extend(writes.bytes_per_s.filter(|_| lands).map(rate));
        words.extend(writes.time_left.filter(|_| lands).map(|time| format!("{} left", span(time))));
        let in_time = |is_in_time| if is_in_time { "in time: yes" } else { "in time: NO" };
        words.extend(writes.is_in_time.map(|is_in_time| in_time(is_in_time).to_owned()));
        lines.push(row("", "landing", &words.join("   ")));
    }
    let filled = share(writes.store_bytes, writes.capacity_bytes);
    let copies = match &writes.copies {
        Copies::None => String::new(),
        Copies::UpToDate => "   copies: up to date".to_owned(),
        Copies::Behind(bytes) => format!("   copies: {} behind", size(*bytes)),
        Copies::Missing(_) => "   copies: MISSING".to_owned(),
    };
    let capacity = size(writes.capacity_bytes);
    lines.push(row("", "store", &format!("{} {:.0} % of {capacity}{copies}", bar(filled, BAR), 100.0 * filled)));
    if let Some(time) = writes.refused_for {
        lines.push(row("", "changes", &format!("refused: a down has begun; programs write again in {}", span(time))));
    }
    lines
}

fn nodes(nodes: &[Node], has_burst: bool) -> Vec<String> {
    let mut head = ["NODE", "HOST", "STATE", "UP", "MEM", "READ"].map(str::to_owned).to_vec();
    if has_burst {
        head.push("TO LAND".to_owned());
    }
    head.push("NOTE".to_owned());
    let shown = match nodes.len() {
        0..=ROWS_MAX => nodes.len(),
        _ => nodes.iter().take(ROWS_MAX).take_while(|node| node.concern() < 4).count(),
    };
    let mut rows = vec![head];
    rows.extend(nodes.iter().take(shown).map(|node| node_row(node, has_burst)));
    let mut lines = if shown > 0 { columns::lines(&rows) } else { vec![] };
    lines.extend(rest(&nodes[shown..], shown));
    lines
}

fn node_row(node: &Node, has_burst: bool) -> Vec<String> {
    let state = if node.is_silent() { "SILENT" } else { node.state.as_str() };
    let mut row = vec![node.rank.to_string(), node.host.clone(), state.to_owned()];
    if node.is_ready() {
        row.extend([span(node.up_for), size(node.memory_bytes), size(node.read_bytes)]);
        row.extend(has_burst.then(|| node.to_land_bytes.map_or_else(|| "-".to_owned(), size)));
    } else {
        row.extend(std::iter::repeat_n("-".to_owned(), if has_burst { 4 } else { 3 }));
    }
    row.push(node.note());
    row
}

/// The nodes that have no row, in one line.
fn rest(nodes: &[Node], shown: usize) -> Option<String> {
    let most = nodes.iter().map(|node| node.memory_bytes).max()?;
    let read: u64 = nodes.iter().map(|node| node.read_bytes).sum();
    let ready = nodes.iter().filter(|node| node.concern() == 4).count();
    let with_trouble = nodes.len() - ready;
    let more = if shown > 0 { " more" } else { "" };
    let trouble =
        if with_trouble > 0 { format!("   {with_trouble} of them with notes (--json)") } else { String::new() };
    let number = count(nodes.len() as u64);
    Some(format!("{number}{more} nodes   {ready} ready   {} memory at most   {} read{trouble}", size(most), size(read)))
}

/// A line of a part of the overview: the name of the part, that of the line, its text.
pub fn row(name: &str, what: &str, text: &str) -> String {
    format!("{name:<7}{what:<13}{text}").trim_end().to_owned()
}

/// Text in lines, the first of them after a name.
fn wrapped(name: &str, text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().map(|line| (line.chars().count(), line));
        match last {
            Some((0, line)) => line.push_str(word),
            Some((len, line)) if len + 1 + word.chars().count() <= TEXT => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    let named = |(number, line): (usize, &String)| format!("{:<8}{line}", if number == 0 { name } else { "" });
    lines.iter().enumerate().map(named).collect()
}
