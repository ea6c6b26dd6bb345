//! Findings: what went wrong or cost time in a job, and what to change first. A pure function of the figures.

use super::end::{End, Known};
use super::figures::{Figures, PathAmount};
use crate::columns::count;
use crate::health::amounts::{share, size, span};
use crate::health::{Reads, Trouble};

/// Requests below which a share tells nothing.
const REQUESTS_MIN: u64 = 1000;

/// Hits below this share of all requests are few.
const HITS_FEW: f64 = 0.8;

/// A cache that is as full as this evicts.
const CACHE_FULL: f64 = 0.9;

/// A request that takes longer is felt by people, microseconds.
const SLOW_US: u64 = 10_000_000;

/// A directory is worth a change from this part of all lookups on.
const IN_VAIN: f64 = 0.1;

/// Nodes that are named at most.
const NODES_NAMED_MAX: usize = 6;

/// A finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    pub why: String,
    /// The change to try first.
    pub todo: String,
}

/// All findings, the worst first.
pub fn of(end: &End, known: Option<&Known>, figures: Option<&Figures>) -> Vec<Finding> {
    let mut findings = at_the_end(end);
    findings.extend(known.and_then(|known| {
        finding(
            format!("The report was not made of the answers of daemons: {}.", known.line()),
            "End jobs by forebay down: it waits until all has landed.",
        )
    }));
    let Some(figures) = figures else {
        findings.extend(finding(
            "No daemon answered before the end, so there are no figures.".to_owned(),
            "Look into the logs: forebay logs.",
        ));
        return findings;
    };
    let overview = &figures.overview;
    let afterwards = |trouble: &Trouble| Some(Finding { why: trouble.why.clone(), todo: trouble.afterwards.clone()? });
    findings.extend(overview.verdict.troubles.iter().filter_map(afterwards));
    let reads = &overview.reads;
    findings.extend(
        [deaths(figures), errors(reads), cache(reads), names(figures), reuse(reads), slow(figures), spoiled(reads)]
            .into_iter()
            .flatten(),
    );
    findings
}

fn finding(why: String, todo: impl Into<String>) -> Option<Finding> {
    Some(Finding { why, todo: todo.into() })
}

fn at_the_end(end: &End) -> Vec<Finding> {
    let mut findings = vec![];
    if !end.not_landed.is_empty() {
        findings.extend(finding(
            end.not_landed.join("; "),
            end.kept.clone().unwrap_or_else(|| "Keep the stores, and run forebay salvage.".to_owned()),
        ));
    }
    if !end.untold.is_empty() {
        findings.extend(finding(
            format!("{} ({}) did not say what has not landed.", nodes(end.untold.len()), ranks(&end.untold)),
            "Keep their stores and run forebay salvage on their hosts.",
        ));
    }
    if !end.is_staged_out {
        findings.extend(finding("Not all files were staged out.".to_owned(), "Run forebay stage out in the next job."));
    }
    if !end.missing.is_empty() {
        findings.extend(finding(
            format!("{} ({}) could not be asked to end.", nodes(end.missing.len()), ranks(&end.missing)),
            "Run forebay down on their hosts.",
        ));
    }
    findings
}

fn deaths(figures: &Figures) -> Option<Finding> {
    let died: Vec<_> = figures.overview.nodes.iter().filter(|node| node.restarts > 0).collect();
    let first = died.first()?;
    let all = figures.restarts();
    let times =
        if all == 1 { "A daemon died and was".to_owned() } else { format!("{} daemons died and were", count(all)) };
    let how = first.last_death.as_ref().map_or_else(|| "died".to_owned(), |death| death.how.clone());
    let last = if all == 1 { "" } else { ", one of them" };
    let todo = match first.last_death.as_ref().is_some_and(|death| death.may_be_memory) {
        true => "Look for the out-of-memory killer in dmesg, and choose a smaller --budget.",
        false => "Look into its log: forebay logs.",
    };
    finding(format!("{times} started again{last} on node {} ({how}).", first.rank), todo)
}

fn errors(reads: &Reads) -> Option<Finding> {
    let (kind, _) = reads.errors_by_kind.iter().max_by_key(|(_, number)| *number)?;
    let todo = match kind.as_str() {
        "EACCES" | "EPERM" => "See whether the job's user may read what its programs open.",
        "EIO" | "ESTALE" | "ETIMEDOUT" => "Report it to the staff of the file system; the logs name the paths.",
        "ENOSPC" | "EDQUOT" => "Make room on the file system.",
        _ => "The logs name the paths: forebay logs --level warn.",
    };
    finding(format!("The file system gave {} errors, most of them {kind}.", count(reads.errors)), todo)
}

fn cache(reads: &Reads) -> Option<Finding> {
    let asked = reads.hits + reads.misses;
    let hits = share(reads.hits, asked);
    let is_full = share(reads.cache_bytes, reads.budget_bytes) >= CACHE_FULL;
    let why = format!("The caches were full ({}) and answered {:.0} %.", size(reads.budget_bytes), 100.0 * hits);
    finding(why, "Give them more memory: --budget.").filter(|_| asked >= REQUESTS_MIN && hits < HITS_FEW && is_full)
}

/// The directory that costs most lookups in vain, with the variable that names of this sort are looked for by; else the number of names.
fn names(figures: &Figures) -> Option<Finding> {
    let (lookups, reads) = (figures.lookups, &figures.overview.reads);
    let is_felt = |of: &&PathAmount| lookups >= REQUESTS_MIN && share(of.amount, lookups) >= IN_VAIN;
    if let Some(PathAmount { path, amount, libraries, python }) = figures.absent_in.first().filter(is_felt) {
        let (part, amount_shown) = (100.0 * share(*amount, lookups), count(*amount));
        let variable = match () {
            () if *python > amount / 2 => "PYTHONPATH",
            () if *libraries > amount / 2 => "LD_LIBRARY_PATH",
            () => "PATH, or the search path that has it",
        };
        return finding(
            format!(
                "{path} got {part:.0} % of all lookups ({amount_shown} of {}) and does not have the names.",
                count(lookups)
            ),
            format!(
                "Remove {path} from {variable}. If the job needs it, put it behind the directories that have most."
            ),
        );
    }
    let absent = reads.absent_names;
    let why = format!("{} names that programs looked for are absent.", count(absent));
    let todo = "Shorten search paths (LD_LIBRARY_PATH, PYTHONPATH, PATH), and put first what is found most.";
    finding(why, todo).filter(|_| absent >= REQUESTS_MIN && share(absent, reads.requests) >= 0.5)
}

fn reuse(reads: &Reads) -> Option<Finding> {
    let (all, reached) = (reads.program_requests, reads.requests);
    let why = format!("{} of {} requests reached the file system.", count(reached), count(all));
    let todo = "Most data are read once, so caches help little. Export what many nodes or runs read (--export).";
    finding(why, todo).filter(|_| all >= REQUESTS_MIN && share(reached, all) >= 0.5)
}

fn slow(figures: &Figures) -> Option<Finding> {
    let slow = figures.slowest.first().filter(|slow| slow.took_us >= SLOW_US)?;
    let path = slow.path.as_deref().unwrap_or("a file");
    let took = span(std::time::Duration::from_micros(slow.took_us));
    finding(
        format!("A {} of {path} took {took} on node {} ({}).", slow.kind, slow.rank, slow.by),
        "Compare the latencies of backing with those of view and burst to see where the time is spent.",
    )
}

fn spoiled(reads: &Reads) -> Option<Finding> {
    let why = format!("{} parts of answers had a wrong checksum and were asked for again.", count(reads.spoiled));
    finding(why, "Have the network of the nodes checked; the logs name the hosts.").filter(|_| reads.spoiled > 0)
}

fn nodes(number: usize) -> String {
    format!("{number} node{}", if number == 1 { "" } else { "s" })
}

fn ranks(ranks: &[u32]) -> String {
    let named: Vec<String> = ranks.iter().take(NODES_NAMED_MAX).map(u32::to_string).collect();
    let more = ranks.len() - named.len();
    if more == 0 { named.join(", ") } else { format!("{} and {more} more", named.join(", ")) }
}
