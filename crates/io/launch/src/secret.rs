//! How a secret gets from `up` to the daemons: in memory whose descriptor is handed over, or through a pipe; never in the
//! environment or among arguments, and on a disk only for launchers that pass nothing else (`shared_files`).
//!
//! The memory is an anonymous file of the kernel (`memfd_create(2)`). No child inherits its descriptor: who shall have it
//! gets it as standard input, or as a message over a pair of sockets. A user may also name a file of his own, which must be
//! his alone.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use forebay_secret::{JOB_KEY_BYTES, JobKey};
use rustix::fs::{MemfdFlags, Mode, fchmod, memfd_create};
use rustix::process::geteuid;

use crate::LaunchError;

/// The key in a file, which nobody but this user may read.
///
/// # Errors
/// `Key` when it is another user's, others may read it or it is no key; `Io` when it cannot be read.
pub fn read_key(path: &Path) -> Result<JobKey, LaunchError> {
    let failed = |error: std::io::Error| LaunchError::io("read the key in", path, error);
    let file = File::open(path).map_err(failed)?;
    // Of the file that was opened, not of the name: that may lead elsewhere by now.
    let found = file.metadata().map_err(failed)?;
    let (uid, mode) = (found.uid(), found.mode() & 0o7777);
    let own = geteuid().as_raw();
    let unsafe_because = |problem: String| Err(LaunchError::Key { path: path.to_owned(), problem });
    if !found.is_file() {
        return unsafe_because("it is not a file".to_owned());
    }
    if uid != own {
        return unsafe_because(format!("it belongs to user {uid}, not to you (user {own})"));
    }
    if mode & 0o077 != 0 {
        return unsafe_because(format!("others may read it (mode {mode:04o}); chmod 600 it and make a new key"));
    }
    JobKey::read(file).map_err(failed)?.map_or_else(
        || {
            unsafe_because(format!(
                "a key has {JOB_KEY_BYTES} bytes; make one: (umask 077; head -c {JOB_KEY_BYTES} /dev/urandom > FILE)"
            ))
        },
        Ok,
    )
}

/// A file in memory that has no name. A process that gets its descriptor can read it; no child inherits it.
#[derive(Debug)]
pub struct MemoryFile(File);

impl MemoryFile {
    /// One that holds `parts`, one after the other; `name` is shown in `/proc/PID/fd`.
    ///
    /// # Errors
    /// `Io` when the kernel has no memory for it.
    pub fn new(name: &str, parts: &[&[u8]]) -> Result<Self, LaunchError> {
        let failed = |error: std::io::Error| LaunchError::io("make the memory file", Path::new(name), error);
        let memory = memfd_create(name, MemfdFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
        // The kernel gives it mode 0777.
        fchmod(&memory, Mode::RUSR | Mode::WUSR).map_err(|errno| failed(errno.into()))?;
        let mut file = File::from(memory);
        parts.iter().try_for_each(|part| file.write_all(part)).map_err(failed)?;
        Ok(Self(file))
    }

    /// One that holds a job's key, to be handed over.
    ///
    /// # Errors
    /// As `new`.
    pub fn of_key(key: &JobKey) -> Result<Self, LaunchError> {
        Self::new("forebay-key", &[key.secret_bytes()])
    }

    /// Writes all that it holds.
    pub(crate) fn copy_to(&self, to: &mut File) -> std::io::Result<()> {
        std::io::copy(&mut FromStart { file: &self.0, at: 0 }, to).map(drop)
    }

    /// As the standard input of a command, from its beginning.
    ///
    /// # Errors
    /// `Io` when `/proc` is not there.
    pub fn input(&self) -> Result<Stdio, LaunchError> {
        let path = PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()));
        File::open(&path).map(Stdio::from).map_err(|error| LaunchError::io("read", &path, error))
    }
}

impl AsFd for MemoryFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<MemoryFile> for OwnedFd {
    fn from(memory: MemoryFile) -> Self {
        memory.0.into()
    }
}

/// The key in the memory file that a process was handed. Others may read the same one, so its position is left alone.
///
/// # Errors
/// `Io`, and `Key` when it holds something else.
pub fn handed_key(memory: OwnedFd) -> Result<JobKey, LaunchError> {
    let (file, name) = (File::from(memory), Path::new("forebay-key"));
    let failed = |error| LaunchError::io("read the key in", name, error);
    let key = JobKey::read(FromStart { file: &file, at: 0 }).map_err(failed)?;
    key.ok_or_else(|| LaunchError::Key { path: name.to_owned(), problem: "it holds something else".to_owned() })
}

/// A file from its beginning, wherever others are in it.
struct FromStart<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read_at(bytes, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    #[test]
    fn a_key_file_must_be_private_and_whole() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("key");
        let with = |contents: &[u8], mode: u32| {
            fs::write(&path, contents).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            read_key(&path).map_err(|error| error.to_string())
        };
        assert_eq!(with(&[7; 32], 0o600), Ok(JobKey::from_bytes([7; 32])));
        for mode in [0o640, 0o604, 0o620, 0o666] {
            assert!(with(&[7; 32], mode).unwrap_err().contains("others may read it"), "{mode:o}");
        }
        for len in [0, 31, 33, 4096] {
            assert!(with(&vec![7; len], 0o600).unwrap_err().contains("a key has 32 bytes"), "{len}");
        }
        assert!(read_key(temporary.path()).unwrap_err().to_string().contains("not a file"));
        assert!(read_key(&temporary.path().join("missing")).unwrap_err().to_string().contains("missing"));
    }

    #[test]
    fn another_users_key_is_refused() {
        if !geteuid().is_root() {
            assert!(std::env::var_os("CI").is_none(), "needs root");
            return eprintln!("skipped: only root can make a file of another user");
        }
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("key");
        fs::write(&path, [7; 32]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        assert!(read_key(&path).unwrap_err().to_string().contains("it belongs to user 65534"));
    }

    #[test]
    fn memory_is_read_by_several_and_inherited_by_nobody() {
        let memory = MemoryFile::new("test", &[&[9; 16], &[9; 16]]).unwrap();
        for _ in 0..2 {
            let output = Command::new("cat").stdin(memory.input().unwrap()).output().unwrap();
            assert_eq!(output.stdout, [9; 32]);
        }
        let names = Command::new("ls").args(["-l", "/proc/self/fd"]).output().unwrap();
        assert!(!String::from_utf8_lossy(&names.stdout).contains("memfd:test"), "{names:?}");
        let handed = || memory.as_fd().try_clone_to_owned().unwrap();
        assert_eq!(handed_key(handed()).unwrap(), JobKey::from_bytes([9; 32]));
        assert_eq!(handed_key(handed()).unwrap(), JobKey::from_bytes([9; 32]), "whoever comes next");
        let other = MemoryFile::new("test", &[b"no key"]).unwrap();
        assert!(handed_key(other.into()).unwrap_err().to_string().contains("something else"));
    }
}
