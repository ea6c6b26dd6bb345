//! The last death of a daemon of a node, as `status` tells of it.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Death {
    /// When, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// The signal that killed it, if one did.
    pub signal: Option<i32>,
    /// Its exit status, if it ended with one.
    pub exit_status: Option<i32>,
    /// Whether its keeper killed it, because it said nothing for too long.
    #[serde(default)]
    pub was_silent: bool,
    /// How long programs then waited for the next daemon, milliseconds; `None` until that one serves.
    #[serde(default)]
    pub back_after_ms: Option<u64>,
}

impl Death {
    /// A death of just now.
    pub(crate) fn now(status: ExitStatus, was_silent: bool) -> Self {
        let (signal, exit_status) = (status.signal(), status.code());
        Self { at_unix_ms: unix_ms(), signal, exit_status, was_silent, back_after_ms: None }
    }

    /// The same once a daemon serves again.
    #[must_use]
    pub fn served_now(self) -> Self {
        let waited_ms = unix_ms().saturating_sub(self.at_unix_ms);
        Self { back_after_ms: self.back_after_ms.or(Some(waited_ms)), ..self }
    }
}

fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_knows_its_signal_or_its_exit_status_and_the_first_that_served_after_it() {
        let killed = Death::now(ExitStatus::from_raw(9), false);
        assert_eq!((killed.signal, killed.exit_status, killed.back_after_ms), (Some(9), None, None));
        let ended = Death::now(ExitStatus::from_raw(101 << 8), true);
        assert_eq!((ended.signal, ended.exit_status, ended.was_silent), (None, Some(101), true));
        let served = Death { back_after_ms: Some(25), ..killed };
        assert_eq!(served.served_now(), served, "a daemon that replaces another one was not waited for");
        assert!(killed.served_now().back_after_ms.is_some());
    }
}
