//! Names by which another process of this daemon's opens files that programs have open, so that the kernel sends what it has of them.
//!
//! `syncfs(2)` begins that, and does not wait for it on FUSE. Closing a file does, whoever has opened it. The files may have no names of their
//! own any more, so these are made of their identities. They begin with a random number, so that nobody comes to one by chance.

use std::ffi::OsString;
use std::sync::OnceLock;

use forebay_fuse::Request;
use forebay_types::FileId;
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};

use super::kernel_ids::{file_of, node_of};

const PREFIX: &str = ".forebay-settle-";

/// The kernel's number of the mount's root.
const ROOT: u64 = 1;

/// See the module.
#[derive(Default)]
pub struct ReopenFlush {
    /// The beginning of its names, once one was made.
    secret: OnceLock<String>,
}

impl ReopenFlush {
    /// The name of a file in the mount's root.
    ///
    /// # Errors
    /// When the kernel gives no random number.
    pub fn name(&self, file: FileId) -> std::io::Result<OsString> {
        let secret = match self.secret.get() {
            Some(secret) => secret,
            None => {
                let mut random = [0; 16];
                getrandom(&mut random, GetRandomFlags::empty())?;
                self.secret.get_or_init(|| format!("{PREFIX}{:032x}-", u128::from_ne_bytes(random)))
            }
        };
        Ok(format!("{secret}{:x}", node_of(file)).into())
    }

    /// The file that is asked for by such a name in the mount's root. Only by this daemon's user: others may see names that are opened there
    /// (`inotify(7)`).
    pub fn file(&self, request: &Request<'_>, name: &[u8]) -> Option<FileId> {
        let secret = self.secret.get()?;
        let node = std::str::from_utf8(name.strip_prefix(secret.as_bytes())?).ok()?;
        if request.node != ROOT || request.uid != geteuid().as_raw() {
            return None;
        }
        u64::from_str_radix(node, 16).ok().map(file_of)
    }
}

#[cfg(test)]
mod tests {
    use forebay_fuse::Operation;
    use forebay_types::NodeRank;

    use super::*;

    fn asked(node: u64, uid: u32) -> Request<'static> {
        Request { unique: 2, node, uid, gid: 0, pid: 0, operation: Operation::Readlink }
    }

    #[test]
    fn a_file_is_found_by_the_name_that_was_made_for_it_and_by_its_daemons_user_alone() {
        let own = geteuid().as_raw();
        let (reopen_flush, file) = (ReopenFlush::default(), FileId { creator: NodeRank(3), serial: 77 });
        let guessed = format!("{PREFIX}{:032x}-{:x}", 0, node_of(file));
        assert_eq!(reopen_flush.file(&asked(ROOT, own), guessed.as_bytes()), None, "none was made");
        let name = reopen_flush.name(file).unwrap();
        assert_eq!(reopen_flush.file(&asked(ROOT, own), name.as_encoded_bytes()), Some(file));
        assert_eq!(reopen_flush.file(&asked(ROOT, own), guessed.as_bytes()), None);
        assert_eq!(reopen_flush.file(&asked(2, own), name.as_encoded_bytes()), None, "it is in the root alone");
        assert_eq!(reopen_flush.file(&asked(ROOT, own + 1), name.as_encoded_bytes()), None);
    }
}
