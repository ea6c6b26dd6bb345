//! A start that failed: which nodes why, what was stopped, and what nobody knows.
//!
//! A host that does not answer, or that knows nothing of the job, may still run nodes of it. It is never counted as stopped.

use std::fmt;

use forebay_launch::{NodeAddress, StartFailure};

use crate::commands::job::up_report::{below, by_rank, lines, named};
use crate::leftovers::held_text;

/// Why the job did not come up.
#[derive(Debug)]
pub struct StartFailed {
    /// In a line.
    what: String,
    /// Below it, a line for each reason.
    why: String,
    /// By the user, or whatever ends the job.
    pub is_interrupted: bool,
}

/// The start was interrupted; what was stopped.
#[derive(Debug)]
pub struct Interrupted(pub String);

impl fmt::Display for Interrupted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Interrupted {}

impl fmt::Display for StartFailed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.what, self.why)
    }
}

impl std::error::Error for StartFailed {}

impl StartFailed {
    /// The failed nodes with their reasons; nodes with the same reason share a line.
    pub fn of(failure: &StartFailure, nodes: &[NodeAddress]) -> Self {
        let (count, all) = (failure.reasons.len(), nodes.len());
        let what = match (failure.interrupted, failure.ready_count) {
            (true, _) => "interrupted".to_owned(),
            (false, 0) => format!("{count} of {all} nodes did not start"),
            (false, 1) => format!("{count} of {all} nodes did not start; 1 was ready"),
            (false, ready) => format!("{count} of {all} nodes did not start; {ready} were ready"),
        };
        let held = match failure.held.as_slice() {
            [] => String::new(),
            held => format!("\n  but {}", held_text(held)),
        };
        let notes = below("note: ", lines(by_rank(&failure.notes), nodes));
        let why = below("", lines(&failure.reasons, nodes)) + &notes + &held;
        Self { what, why, is_interrupted: failure.interrupted }
    }

    /// With what was stopped.
    pub fn text(&self, stopped: &Stopped) -> String {
        format!("{}; {}{}{}", self.what, stopped.count(), self.why, stopped.text())
    }
}

/// The outcome of stopping a start that failed.
pub struct Stopped {
    /// Hosts on which everything has ended.
    pub on: Vec<String>,
    /// Hosts that could not be asked, and for which the reason is told with their nodes.
    pub not_ended: Vec<String>,
    /// Other facts that are not known, and parts that stay.
    pub unknown: Vec<String>,
}

impl Stopped {
    /// Whether nothing of the job can be left anywhere.
    pub fn is_all(&self) -> bool {
        self.not_ended.is_empty() && self.unknown.is_empty()
    }

    /// In a line: how many hosts are stopped, and on which there may be something. `down` finds it there by the host's own records.
    fn count(&self) -> String {
        if self.is_all() {
            return "everything is stopped".to_owned();
        }
        let of_lines = self.unknown.iter().filter_map(|line| line.split_once(": ").map(|(host, _)| host.to_owned()));
        let unknown: Vec<String> = self.not_ended.iter().cloned().chain(of_lines).collect();
        let (stopped, count) = (self.on.len(), unknown.len());
        format!("{stopped} stopped, {count} unknown: {} (forebay down there ends what may run)", named(&unknown))
    }

    /// The lines below the reasons.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if self.is_all() {
            return text;
        }
        if !self.on.is_empty() {
            text += &format!("\n  everything is stopped on {}", named(&self.on));
        }
        if !self.not_ended.is_empty() {
            text += &format!("\n  what may run there could not be ended: {}", named(&self.not_ended));
        }
        if !self.unknown.is_empty() {
            text += &format!("\n  it is not known whether all is cleaned up:\n    {}", self.unknown.join("\n    "));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use forebay_types::NodeRank;

    use super::*;

    fn failed() -> StartFailed {
        let reasons = [(0, "no export"), (1, "no export"), (2, "port taken"), (3, "no export")];
        let reasons = reasons.map(|(rank, reason)| (NodeRank(rank), reason.to_owned())).into();
        let failure = StartFailure { reasons, ready_count: 0, notes: vec![], interrupted: false, held: vec![] };
        StartFailed::of(&failure, &vec![NodeAddress { host: "a".into(), port: 1 }; 8])
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn nodes_with_one_reason_share_a_line() {
        let stopped = Stopped { on: words(&["a"]), not_ended: vec![], unknown: vec![] };
        assert_eq!(
            failed().text(&stopped),
            "4 of 8 nodes did not start; everything is stopped\n  node 0-1,3: no export\n  node 2: port taken"
        );
    }

    #[test]
    fn a_host_of_which_nothing_is_known_is_not_stopped() {
        let stopped = Stopped { on: words(&["a", "d"]), not_ended: words(&["b"]), unknown: words(&["c: no route"]) };
        let text = failed().text(&stopped);
        let counted = "4 of 8 nodes did not start; 2 stopped, 2 unknown: b, c (forebay down there ends what may run)\n";
        assert!(text.starts_with(counted), "{text}");
        let lines = "\n  everything is stopped on a, d\n  what may run there could not be ended: b\n  it is not known whether all is cleaned \
                     up:\n    c: no route";
        assert!(text.ends_with(lines), "{text}");
    }
}
