//! A node's report to the one above it while a job starts: the ready and the missing nodes of all below it.
//!
//! Reports add up: that of a node holds those of its children, so the root's speaks for the whole job, and no message is
//! longer than its limits, however many nodes there are.

use forebay_types::{NodeRank, limits};
use serde::{Deserialize, Serialize};

/// A node and all below it in the tree on which the job itself is asked.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Nodes that are ready, as far as is known.
    pub ready_count: u32,
    /// Those that are not, `limits::REPORT_MISSING_MAX` entries at most.
    pub missing: Vec<Missing>,
    /// Whether there are more that are not.
    pub is_cut: bool,
    /// The ready node that took longest to become so.
    pub slowest: Option<Slowest>,
    /// Errors about nodes that cannot be reached, `limits::REPORT_TROUBLES_MAX` at most.
    pub troubles: Vec<Trouble>,
}

/// A node that is not known to be ready.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Missing {
    /// Which.
    pub rank: NodeRank,
    /// Whether nothing is known of any node below it either.
    pub with_all_below: bool,
}

/// A node and how long it took to become ready.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Slowest {
    /// Milliseconds from the start of its processes.
    pub took_ms: u32,
    /// Which node.
    pub rank: NodeRank,
}

/// Why a node cannot be reached by another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Trouble {
    /// The node that cannot be reached.
    pub rank: NodeRank,
    /// The one that tried.
    pub by: NodeRank,
    /// Why, `limits::TROUBLE_BYTES_MAX` at most.
    pub why: String,
}

impl Report {
    /// Whether every node that it speaks for is ready.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && !self.is_cut
    }

    /// Adds a node that is not ready; one too many is left out, and that is said.
    pub fn add_missing(&mut self, missing: Missing) {
        if self.missing.len() < limits::REPORT_MISSING_MAX {
            self.missing.push(missing);
        } else {
            self.is_cut = true;
        }
    }

    /// Adds what has been found out, as far as there is room.
    pub fn add_trouble(&mut self, trouble: Trouble) {
        if self.troubles.len() < limits::REPORT_TROUBLES_MAX && !self.troubles.contains(&trouble) {
            self.troubles.push(trouble);
        }
    }

    pub(crate) fn is_within_limits(&self) -> bool {
        self.missing.len() <= limits::REPORT_MISSING_MAX
            && self.troubles.len() <= limits::REPORT_TROUBLES_MAX
            && self.troubles.iter().all(|trouble| trouble.why.len() <= limits::TROUBLE_BYTES_MAX)
    }
}

impl Trouble {
    /// One whose reason keeps to its limit.
    #[must_use]
    pub fn new(rank: NodeRank, by: NodeRank, why: &str) -> Self {
        let end = (0..=limits::TROUBLE_BYTES_MAX.min(why.len())).rev().find(|end| why.is_char_boundary(*end));
        Self { rank, by, why: why[..end.unwrap_or(0)].to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{decode, encode};
    use crate::{Envelope, JobMessage};

    fn asked(report: Report) -> Envelope {
        Envelope { remaining_ms: 1, request: JobMessage::Report { report }.into() }
    }

    #[test]
    fn a_report_keeps_to_its_limits_and_fits_a_frame() {
        let mut report = Report::default();
        for rank in (0..).map(NodeRank).take(2 * limits::REPORT_MISSING_MAX) {
            report.add_missing(Missing { rank: NodeRank(u32::MAX - rank.0), with_all_below: true });
            report.add_trouble(Trouble::new(rank, rank, &"é".repeat(1000)));
        }
        assert!(report.is_cut && !report.is_complete());
        let timed = Envelope { remaining_ms: u32::MAX, ..asked(report) };
        let bytes = encode(&timed);
        assert!(bytes.len() <= limits::HEAD_BYTES_MAX);
        assert_eq!(decode::<Envelope>(&bytes), Ok(timed));
    }

    #[test]
    fn a_report_beyond_its_limits_is_refused() {
        let missing = Missing { rank: NodeRank(1), with_all_below: false };
        let trouble = Trouble { rank: NodeRank(1), by: NodeRank(2), why: "x".repeat(limits::TROUBLE_BYTES_MAX + 1) };
        let bad = [
            Report { missing: vec![missing; limits::REPORT_MISSING_MAX + 1], ..Report::default() },
            Report { troubles: vec![trouble], ..Report::default() },
        ];
        for report in bad {
            assert!(decode::<Envelope>(&encode(&asked(report))).is_err());
        }
    }
}
