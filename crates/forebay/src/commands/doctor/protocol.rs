//! The terms of the kernel and a daemon when a view's connection begins (FUSE INIT), as `doctor`'s trial mount has
//! found them. They show the cost where the kernel offers less than daemons use.

use anyhow::Context;
use forebay_fuse::{Negotiated, abi, init_flag};
use serde::{Deserialize, Serialize};

use crate::commands::doctor::check::Check;
use crate::settings::values::show_size;

/// Features that a daemon takes where they are offered: the flag, the gain, and the cost of its absence, if there is
/// one.
const FEATURES: [(u64, &str, Option<&str>); 7] = [
    (
        init_flag::NO_OPEN_SUPPORT,
        "files are opened without a message",
        Some("each open of a file sends the daemon a message"),
    ),
    (
        init_flag::NO_OPENDIR_SUPPORT,
        "directories are opened without a message",
        Some("each opendir sends the daemon a message"),
    ),
    (init_flag::CACHE_SYMLINKS, "links are cached", Some("links are read from the daemon each time")),
    (init_flag::DO_READDIRPLUS, "listings bring attributes", Some("attributes are requested one by one")),
    (init_flag::PARALLEL_DIROPS, "lookups in one directory run in parallel", None),
    (init_flag::MAX_PAGES, "large reads", Some("reads are of 128 KiB")),
    (init_flag::HAS_RESEND, "requests in flight are resent", None),
];

/// The agreed terms, as the trial's process reports them to the one that started it.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Protocol {
    /// `7.41`: the version that both speak.
    version: String,
    /// Bits of `fuse_init_in`/`fuse_init_out` in force, and those that the kernel offered.
    flags: u64,
    offered: u64,
    /// Bytes of the largest read.
    read_bytes_max: u32,
    /// Requests that the kernel may have waiting in the background.
    max_background: u16,
    /// Whether the kernel could read files past the daemon; views take none of it, because what they show is not on this node.
    passthrough_offered: bool,
}

impl Protocol {
    /// Of what was agreed.
    pub fn of(negotiated: &Negotiated) -> Self {
        Self {
            version: format!("{}.{}", abi::MAJOR, negotiated.minor),
            flags: negotiated.flags,
            offered: negotiated.offered,
            read_bytes_max: negotiated.request_bytes_max,
            max_background: negotiated.max_background,
            passthrough_offered: negotiated.offered & init_flag::PASSTHROUGH != 0,
        }
    }

    /// Reads what the other process said.
    pub fn parse(line: &str) -> anyhow::Result<Self> {
        serde_json::from_str(line).context("the trial's result cannot be read")
    }

    /// The finding on it.
    pub fn check(&self) -> Check {
        const NAME: &str = "FUSE protocol";
        let (used, lacking): (Vec<_>, Vec<_>) = FEATURES.iter().partition(|(flag, ..)| self.flags & flag != 0);
        let used: Vec<&str> = used.iter().map(|(_, brings, _)| *brings).collect();
        let costs: Vec<&str> = lacking.iter().filter_map(|(_, _, cost)| *cost).collect();
        let passthrough = if self.passthrough_offered { "offered" } else { "not offered" };
        let found = format!(
            "{}, reads of {}, {} requests in the background; {}; passthrough is {passthrough}, and views do not use it",
            self.version,
            show_size(self.read_bytes_max.into()),
            self.max_background,
            used.join(", ")
        );
        let check = match costs.as_slice() {
            [] => Check::ok(NAME, found),
            costs => Check::limited(NAME, found, format!("this kernel is old: {}", costs.join("; "))),
        };
        check.with_details(serde_json::json!(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreed(flags: u64, offered: u64) -> Protocol {
        let request_bytes_max = if flags & init_flag::MAX_PAGES == 0 { 128 << 10 } else { 1 << 20 };
        Protocol::of(&Negotiated { minor: 41, flags, offered, max_background: 64, request_bytes_max })
    }

    #[test]
    fn features_that_a_kernel_lacks_have_their_cost() {
        let all = FEATURES.iter().fold(0, |all, (flag, ..)| all | flag);
        let whole = format!("{:?}", agreed(all, all | init_flag::PASSTHROUGH).check());
        assert!(
            whole.contains("7.41, reads of 1MiB, 64 requests") && whole.contains("passthrough is offered"),
            "{whole}"
        );
        assert!(whole.contains("Ok") && !whole.contains("old"), "{whole}");
        let free = init_flag::HAS_RESEND | init_flag::PARALLEL_DIROPS;
        assert!(format!("{:?}", agreed(all & !free, all & !free).check()).contains("Ok"));
        let old = format!("{:?}", agreed(all & !init_flag::MAX_PAGES & !init_flag::CACHE_SYMLINKS, all).check());
        assert!(
            old.contains("Limited") && old.contains("links are read from the daemon each time; reads are of 128 KiB"),
            "{old}"
        );
        assert!(old.contains("reads of 128KiB") && old.contains("passthrough is not offered"), "{old}");
    }
}
