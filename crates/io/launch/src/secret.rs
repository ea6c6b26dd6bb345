//! How a secret gets from `up` to the daemons: in memory that only they can open, or through a pipe; never on a disk, in
//! the environment or among arguments.
//!
//! The memory is an anonymous file of the kernel (`memfd_create(2)`). A child that inherits its descriptor, and anybody
//! else who may trace this process, opens it as `/proc/self/fd/N`; a launcher that reads its standard input gets it
//! there. A user may also name a file of his own, which must be his alone.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use forebay_types::{JOB_KEY_BYTES, JobKey};
use rustix::fs::{MemfdFlags, Mode, fchmod, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::LaunchError;

/// A new key, from the system's source of random numbers.
///
/// # Errors
/// `Io` when the system has none.
pub fn new_key() -> Result<JobKey, LaunchError> {
    let mut bytes = [0; JOB_KEY_BYTES];
    // Of this length the system gives all or fails.
    getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|errno| LaunchError::io("make", Path::new("the job's key"), errno))?;
    Ok(JobKey::from_bytes(bytes))
}

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
    let mut bytes = Vec::new();
    file.take(JOB_KEY_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    match <[u8; JOB_KEY_BYTES]>::try_from(bytes) {
        Ok(bytes) => Ok(JobKey::from_bytes(bytes)),
        Err(_) => unsafe_because(format!(
            "a key has {JOB_KEY_BYTES} bytes; make one: (umask 077; head -c {JOB_KEY_BYTES} /dev/urandom > FILE)"
        )),
    }
}

/// A file in memory that has no name.
#[derive(Debug)]
pub struct MemoryFile(File);

impl MemoryFile {
    /// One that holds `contents`; `name` is shown in `/proc/PID/fd`.
    ///
    /// # Errors
    /// `Io` when the kernel has no memory for it.
    pub fn new(name: &str, contents: &[u8]) -> Result<Self, LaunchError> {
        let failed = |error: std::io::Error| LaunchError::io("make the memory file", Path::new(name), error);
        let memory = memfd_create(name, MemfdFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
        // The kernel gives it mode 0777.
        fchmod(&memory, Mode::RUSR | Mode::WUSR).map_err(|errno| failed(errno.into()))?;
        let mut file = File::from(memory);
        file.write_all(contents).map_err(failed)?;
        Ok(Self(file))
    }

    /// As the standard input of a command, from its beginning.
    ///
    /// # Errors
    /// `Io` when `/proc` is not there.
    pub fn input(&self) -> Result<Stdio, LaunchError> {
        let path = self.path();
        File::open(&path).map(Stdio::from).map_err(|error| LaunchError::io("read", &path, error))
    }

    /// Lets all commands that are started from now on inherit it; they open it by the path that is returned.
    ///
    /// # Errors
    /// `Io` never, as far as is known.
    pub fn inherit(&self) -> Result<PathBuf, LaunchError> {
        let path = self.path();
        fcntl_setfd(self.0.as_fd(), FdFlags::empty()).map_err(|errno| LaunchError::io("hand on", &path, errno))?;
        Ok(path)
    }

    fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    #[test]
    fn keys_are_random() {
        assert_ne!(new_key().unwrap(), new_key().unwrap());
    }

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
    fn memory_is_inherited_and_read_by_several() {
        let memory = MemoryFile::new("test", &[9; 32]).unwrap();
        for _ in 0..2 {
            let output = Command::new("cat").stdin(memory.input().unwrap()).output().unwrap();
            assert_eq!(output.stdout, [9; 32]);
        }
        let path = memory.inherit().unwrap();
        let output = Command::new("cat").arg(&path).output().unwrap();
        assert_eq!(output.stdout, [9; 32]);
        assert_eq!(read_key(&path).unwrap(), JobKey::from_bytes([9; 32]));
    }
}
