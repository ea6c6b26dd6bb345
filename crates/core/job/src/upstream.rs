//! One node above: what it was told, and when it is told again.

use std::time::Duration;

use forebay_types::{Time, limits};
use forebay_wire::Trouble;

/// A report on its way; the answer names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReportTicket(pub u64);

/// A node above.
#[derive(Default, Debug)]
pub(crate) struct Upstream {
    /// The report that is on its way, with its version.
    under_way: Option<(ReportTicket, u64)>,
    /// The last that arrived.
    told: Option<u64>,
    sent: Time,
    failing: Option<Failing>,
    /// Whether the next in the failover order hears the reports meanwhile.
    pub is_passed_over: bool,
}

/// Reports to it get lost.
#[derive(Debug)]
struct Failing {
    since: Time,
    pause: Duration,
    next: Time,
    trouble: Trouble,
}

impl Upstream {
    /// When a report of that version is to be made, by a node that has been ready `since`. A complete report is due
    /// immediately, and takes the place of one that is on its way.
    pub fn due(&self, version: u64, is_complete: bool, since: Time) -> Option<Time> {
        if self.under_way.is_some_and(|(_, under_way)| under_way == version || !is_complete) {
            return None;
        }
        if let Some(failing) = &self.failing {
            return Some(failing.next);
        }
        let is_told = self.told == Some(version);
        Some(match (is_complete, is_told) {
            (true, false) => since,
            (false, false) => since.max(self.sent).after(limits::REPORT_INTERVAL),
            // The node above may have a new daemon that knows nothing.
            (_, true) => self.sent.after(limits::REPORT_HELD_MAX),
        })
    }

    pub fn on_sent(&mut self, now: Time, ticket: ReportTicket, version: u64) {
        self.under_way = Some((ticket, version));
        self.sent = now;
    }

    /// Whether it is the report on its way that has come to its end.
    pub fn ends(&self, ticket: ReportTicket) -> bool {
        self.under_way.is_some_and(|(under_way, _)| under_way == ticket)
    }

    pub fn on_noted(&mut self) {
        self.told = self.under_way.take().map(|(_, version)| version);
        self.failing = None;
        self.is_passed_over = false;
    }

    /// Whether it has gone on for too long.
    pub fn on_lost(&mut self, now: Time, trouble: Trouble) -> bool {
        self.under_way = None;
        let earlier = self.failing.take().map(|failing| (failing.since, failing.pause * 2));
        let (since, pause) = earlier.unwrap_or((self.sent, limits::REPORT_RETRY_FIRST));
        let longest = if self.is_passed_over { limits::REPORT_RETRY_PASSED_OVER } else { limits::REPORT_RETRY_LONGEST };
        let pause = pause.min(longest);
        self.failing = Some(Failing { since, pause, next: now.after(pause), trouble });
        now.since(since) >= limits::REPORT_PATIENCE
    }

    /// Why the node is passed over, if it is.
    pub fn trouble(&self) -> Option<&Trouble> {
        self.failing.as_ref().filter(|_| self.is_passed_over).map(|failing| &failing.trouble)
    }
}
