//! Referrals: a node that already sends a chunk to others names one of them to the next that asks.

use serde::{Deserialize, Serialize};

/// Whether the asked node may name another one instead of answering.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Referral {
    /// It may not.
    Refused,
    /// It may.
    Open,
    /// It may, and another node has named it: where it has nothing of what is asked for, it says so instead of asking others.
    Followed,
    /// It may not, nor may it ask others: it is asked in the place of a node that is slow.
    Alone,
}
