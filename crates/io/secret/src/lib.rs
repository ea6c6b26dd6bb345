//! Secrets in memory: the job's key, in a page of its own that no core dump holds and that is wiped with its last
//! holder.
//!
//! A key is made where it stays: it is read, drawn or decoded into its page, and clones share the page. The text that carries it
//! is `Zeroizing`, made as long as it will be, so that no copy stays behind when it grows. Processes that hold a key also
//! dump no core at all (`forbid_core_dumps`): connection keys, and what a cryptographic library leaves on a stack, follow
//! from it.

mod key;
mod page;

pub use key::{JOB_KEY_BYTES, JobKey};
pub use zeroize::Zeroizing;

use rustix::process::{Resource, Rlimit, setrlimit};

/// Lets neither this process nor any that it starts leave a core dump.
///
/// # Errors
/// Never, as far as is known: a limit may always be lowered.
pub fn forbid_core_dumps() -> std::io::Result<()> {
    Ok(setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?)
}
