//! Whether a job is well: what is blocked, why, and what to do about it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::amounts::{size, span};
use super::nodes::Node;
use super::writes::{Copies, Writes};

/// How a job is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The job needs no action.
    Healthy,
    /// Files are on their way to the backing file system.
    Landing,
    /// Something does not go on, or will not in time, unless somebody does something.
    Blocked,
}

/// The verdict on a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// In a word.
    pub state: State,
    /// The troubles, the worst first; none unless it is blocked.
    pub troubles: Vec<Trouble>,
    /// Something worth knowing that is no trouble.
    pub remark: Option<String>,
}

/// Something that is blocked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// Why.
    pub why: String,
    /// The remedy.
    pub todo: String,
    /// The remedy when the job has ended; `None` where the outcome of its end says more.
    pub afterwards: Option<String>,
}

impl State {
    /// As in `status --json`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Landing => "landing",
            Self::Blocked => "blocked",
        }
    }
}

impl Verdict {
    pub(super) fn of(nodes: &[Node], writes: Option<&Writes>) -> Self {
        let mut troubles: Vec<Trouble> = silent(nodes, writes.is_some()).into_iter().collect();
        troubles.extend(restarting(nodes));
        if let Some(writes) = writes {
            troubles.extend(
                [landing(writes), lost(writes), full(writes), full_partners(writes), copies(writes), late(writes)]
                    .into_iter()
                    .flatten(),
            );
        }
        let lands = |writes: &Writes| writes.steps > 0 && writes.lands();
        let state = match () {
            () if !troubles.is_empty() => State::Blocked,
            () if writes.is_some_and(lands) => State::Landing,
            () => State::Healthy,
        };
        Self {
            state,
            troubles,
            remark: slow(nodes).or_else(|| writes.and_then(remark)).or_else(|| for_run_alone(nodes)),
        }
    }

    /// As in `status --json`.
    pub fn json(&self) -> Value {
        let trouble = |trouble: &Trouble| json!({"why": trouble.why, "do": trouble.todo});
        let first = self.troubles.first();
        json!({
            "state": self.state.word(),
            "why": first.map(|trouble| &trouble.why).or(self.remark.as_ref()),
            "do": first.map(|trouble| &trouble.todo),
            "troubles": self.troubles.iter().map(trouble).collect::<Vec<_>>(),
        })
    }
}

/// A trouble whose remedy is the same when the job has ended.
fn trouble(why: String, todo: impl Into<String>) -> Option<Trouble> {
    let todo = todo.into();
    Some(Trouble { why, afterwards: Some(todo.clone()), todo })
}

/// One with another remedy then.
fn trouble_now(why: String, todo: impl Into<String>, afterwards: Option<&str>) -> Option<Trouble> {
    Some(Trouble { why, todo: todo.into(), afterwards: afterwards.map(str::to_owned) })
}

/// `node 3 (n20)`, `nodes 3, 4 and 7 more`.
fn named(nodes: &[&Node]) -> String {
    match nodes {
        [one] => format!("node {} ({})", one.rank, one.host),
        several => ranks(&several.iter().map(|node| node.rank).collect::<Vec<_>>()),
    }
}

/// `node 3`, `nodes 3, 4`, `nodes 3, 4, 5, 6, 7, 8 and 7 more`.
pub fn ranks(ranks: &[u64]) -> String {
    let first: Vec<String> = ranks.iter().take(6).map(u64::to_string).collect();
    let more = ranks.len() - first.len();
    let plural = if ranks.len() == 1 { "" } else { "s" };
    match more {
        0 => format!("node{plural} {}", first.join(", ")),
        _ => format!("node{plural} {} and {more} more", first.join(", ")),
    }
}

/// Nodes that others find far slower than the rest.
fn slow(nodes: &[Node]) -> Option<String> {
    let found: BTreeSet<u64> = nodes.iter().flat_map(|node| node.slow.iter().copied()).collect();
    let slow: Vec<&Node> = nodes.iter().filter(|node| found.contains(&node.rank)).collect();
    slow.first()?;
    let by = nodes.iter().filter(|node| !node.slow.is_empty()).count();
    let (verb, place) = if slow.len() == 1 { ("takes", "its") } else { ("take", "their") };
    let finds = if by == 1 { "1 node asks" } else { &format!("{by} nodes ask") };
    let names = named(&slow);
    Some(format!(
        "{names} {verb} far longer than others for chunks: {finds} others in {place} place; see what else uses {place} link, processors and disk"
    ))
}

fn for_run_alone(nodes: &[Node]) -> Option<String> {
    let hidden: Vec<&Node> = nodes.iter().filter(|node| node.is_for_run_alone).collect();
    hidden.first()?;
    let s = if hidden.len() == 1 { "" } else { "s" };
    Some(format!("the view{s} of {} can be seen under forebay run alone; install fuse3 for others", named(&hidden)))
}

fn silent(nodes: &[Node], has_burst: bool) -> Option<Trouble> {
    let silent: Vec<&Node> = nodes.iter().filter(|node| node.is_silent()).collect();
    let (first, names) = (silent.first()?, named(&silent));
    let verb = if silent.len() == 1 { "does" } else { "do" };
    // Its host answers, and nothing listens: no daemon is there that could go on.
    let is_dead = |node: &&&Node| node.why.as_ref().is_some_and(|why| why.contains("refused"));
    let todo = match silent.iter().find(is_dead) {
        Some(dead) => {
            let lands = if has_burst { ", and forebay salvage lands what its store holds" } else { "" };
            format!(
                "the daemon of node {} has ended: its log on {} says why; forebay down ends the job{lands}",
                dead.rank, dead.host
            )
        }
        None => format!(
            "see whether host {} is up; a daemon that was stopped goes on when it runs again (kill -CONT)",
            first.host
        ),
    };
    trouble_now(format!("{names} {verb} not answer"), todo, Some("the logs say why: forebay logs"))
}

fn restarting(nodes: &[Node]) -> Option<Trouble> {
    let dying: Vec<&Node> = nodes.iter().filter(|node| node.restarts_repeatedly()).collect();
    let first = dying.first()?;
    let how = first.last_death.as_ref().map_or_else(String::new, |death| format!(", the last one {}", death.how));
    let todo = match first.last_death.as_ref().is_some_and(|death| death.may_be_memory) {
        true => "look for the out-of-memory killer in dmesg; a smaller --budget leaves more memory to programs",
        false => "its log says why",
    };
    trouble(format!("daemons of {} die repeatedly ({} times{how})", named(&dying), first.restarts), todo)
}

/// The remedy for an obstacle to landing in `place`.
pub fn remedy(why: &str, place: &str) -> String {
    let is = |text: &str| why.contains(text);
    match () {
        () if is("Permission denied") || is("not permitted") => {
            format!("make {place} writable for the job's user; landing is retried every second")
        }
        () if is("No space left") => format!("make room in {place}; landing is retried every second"),
        () if is("quota") => format!("free quota of {place}; landing is retried every second"),
        () if is("Read-only") => format!("mount {place} writable; landing is retried every second"),
        () if is("do not answer") || is("does not answer") => {
            "bring these nodes back; forebay salvage lands what their stores hold after the job".to_owned()
        }
        () => format!("look into the log of the node that leads; {place} must be there and writable"),
    }
}

fn landing(writes: &Writes) -> Option<Trouble> {
    let why = writes.why.as_ref().filter(|_| writes.steps > 0 || writes.left_bytes > 0)?;
    // A node that has just begun is asked; one that does not answer is a trouble of its own.
    if why.contains("is not known yet") {
        return None;
    }
    trouble_now(format!("nothing lands: {why}"), remedy(why, &writes.backing), None)
}

fn lost(writes: &Writes) -> Option<Trouble> {
    let bytes = writes.lost_bytes;
    let todo = "forebay drain names the files; forebay salvage lands them when these stores are available again";
    let afterwards = Some("forebay salvage lands them when these stores are available again");
    trouble_now(format!("{} are only in stores that do not answer", size(bytes)), todo, afterwards)
        .filter(|_| bytes > 0)
}

fn full(writes: &Writes) -> Option<Trouble> {
    let (waiting, refusing) = (&writes.waiting_nodes, &writes.refusing_nodes);
    let todo = match writes.waits_for_drain() {
        true => format!("forebay drain gives room back (--drain {})", writes.drain),
        false => "writes go on as files land; a larger --burst-capacity or a higher --drain-rate avoids it".to_owned(),
    };
    let afterwards = Some("choose a larger --burst-capacity or a higher --drain-rate");
    match (refusing.is_empty(), waiting.is_empty()) {
        (false, _) => {
            trouble_now(format!("store full: writes fail with ENOSPC on {}", ranks(refusing)), todo, afterwards)
        }
        (true, false) => trouble_now(format!("store full: writes wait on {}", ranks(waiting)), todo, afterwards),
        (true, true) => None,
    }
}

fn full_partners(writes: &Writes) -> Option<Trouble> {
    let nodes = &writes.uncopied_nodes;
    let todo = match writes.waits_for_drain() {
        true => format!("forebay drain gives room back (--drain {})", writes.drain),
        false => "fsync succeeds again as files land; a larger --burst-capacity avoids it".to_owned(),
    };
    let why = format!("partners have no room for copies: fsync fails with ENOSPC on {}", ranks(nodes));
    trouble_now(why, todo, Some("choose a larger --burst-capacity: a store holds the partner's copies, too"))
        .filter(|_| !nodes.is_empty())
}

fn copies(writes: &Writes) -> Option<Trouble> {
    let Copies::Missing(nodes) = &writes.copies else { return None };
    trouble_now(
        format!("partners do not copy the writes of {}: they do not answer", ranks(nodes)),
        "see whether the partners' hosts are up; until then the loss of a node loses what has not landed",
        Some("see whether the partners' hosts are up"),
    )
}

fn late(writes: &Writes) -> Option<Trouble> {
    let ends_in = writes.ends_in.filter(|_| writes.is_in_time == Some(false))?;
    let takes = writes.time_left.map_or_else(String::new, |left| format!("{} to land, and ", span(left)));
    trouble_now(
        format!("the time limit is too near: {takes}{} left", span(ends_in)),
        "stop writing and run forebay drain --wait; forebay salvage lands after the job what is left",
        None,
    )
}

fn remark(writes: &Writes) -> Option<String> {
    let (steps, left) = (writes.steps, writes.left_bytes);
    let waits = !writes.lands() && (steps > 0 || left > 0);
    let plural = if steps == 1 { "" } else { "s" };
    let lands = if writes.drain == "end" { "forebay drain or down" } else { "forebay drain" };
    waits.then(|| format!("{steps} change{plural} ({}) wait for {lands} (--drain {})", size(left), writes.drain))
}
