//! The archive of `debug`: parts are written as they come, compressed, to a file beside the one that is wanted, which gets its name when it is
//! whole. So a killed `debug` leaves that file alone, `NAME.part`, and the next one of the name removes it.
//!
//! The format is ustar, of plain files alone (POSIX.1-2017, pax, "ustar Interchange Format"); `gzip` compresses it.

use std::cell::{Cell, RefCell};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context, bail, ensure};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::Errno;

use crate::kept_logs::logs_in;
use crate::output::tell;

/// The end of a log that is taken, bytes.
const LOG_BYTES_MAX: usize = 16 << 20;

/// Bytes of a block of the format.
const BLOCK: usize = 512;

/// See the module.
pub struct Archive {
    output: PathBuf,
    part: PathBuf,
    /// The directory of all parts.
    name: String,
    gzip: Child,
    into: RefCell<ChildStdin>,
    /// Locked while it is written.
    _file: File,
    is_whole: Cell<bool>,
}

impl Archive {
    /// The archive that will be `output`, with parts below `name`.
    ///
    /// # Errors
    /// When it cannot be made, or is there.
    pub fn begin(output: &Path, name: &str) -> anyhow::Result<Self> {
        let failed = || format!("cannot make {}; choose another with --output", output.display());
        ensure!(output.symlink_metadata().is_err(), "{}: it exists", failed());
        let mut part = output.to_owned().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = own_part(&part).with_context(failed)?;
        let stdout = file.try_clone().with_context(failed)?;
        let mut command = Command::new("gzip");
        command.arg("-c").stdin(Stdio::piped()).stdout(stdout).stderr(Stdio::inherit());
        let started = command.spawn().context("cannot run gzip, which makes the archive; install it");
        let mut gzip = started.inspect_err(|_| drop(fs::remove_file(&part)))?;
        let into = RefCell::new(gzip.stdin.take().context("gzip has no input")?);
        let (output, name) = (output.to_owned(), name.to_owned());
        Ok(Self { output, part, name, gzip, into, _file: file, is_whole: Cell::new(true) })
    }

    /// Adds a part. One that cannot be written is missing, and that is said.
    pub fn add(&self, part: &str, text: &str) {
        if let Err(error) = self.write(part, text.as_bytes()) {
            tell!("forebay: note: {part} is not in the archive: {error}");
            self.is_whole.set(false);
        }
    }

    /// Adds the logs of a directory.
    pub fn add_logs(&self, directory: &Path) {
        for log in logs_in(directory) {
            let name = format!("logs/{}", log.file_name().unwrap_or_default().to_string_lossy());
            match fs::read(&log) {
                Ok(bytes) => {
                    let end = &bytes[bytes.len().saturating_sub(LOG_BYTES_MAX)..];
                    self.add(&name, &String::from_utf8_lossy(end));
                }
                Err(error) => self.add(&name, &format!("{error}\n")),
            }
        }
    }

    fn write(&self, part: &str, bytes: &[u8]) -> io::Result<()> {
        let head = head(&format!("{}/{part}", self.name), bytes.len())?;
        let mut into = self.into.borrow_mut();
        into.write_all(&head)?;
        into.write_all(bytes)?;
        into.write_all(&[0; BLOCK][..bytes.len().next_multiple_of(BLOCK) - bytes.len()])
    }

    /// Gives the archive its name; whether all parts are in it.
    ///
    /// # Errors
    /// When it cannot be written, or something has its name meanwhile.
    pub fn finish(self) -> anyhow::Result<bool> {
        let Self { output, part, mut gzip, into, is_whole, .. } = self;
        let mut into = into.into_inner();
        let written = into.write_all(&[0; 2 * BLOCK]);
        drop(into);
        let ended = gzip.wait().context("gzip cannot be waited for").and_then(|status| {
            written.context("gzip takes no more")?;
            ensure!(status.success(), "gzip failed ({status})");
            match renameat_with(CWD, &part, CWD, &output, RenameFlags::NOREPLACE) {
                // Some network file systems cannot. That nothing is there was seen before.
                Err(Errno::INVAL | Errno::NOSYS) => Ok(fs::rename(&part, &output)?),
                renamed => Ok(renamed?),
            }
        });
        let ended = ended.inspect_err(|_| drop(fs::remove_file(&part)));
        ended.with_context(|| format!("cannot write {}; choose another with --output", output.display()))?;
        Ok(is_whole.get())
    }
}

/// A new file, for this user alone, as what is in it was. One that a killed `debug` has left is removed.
fn own_part(part: &Path) -> anyhow::Result<File> {
    let create = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(part);
    let file = match create() {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits().cast_signed();
            let left = OpenOptions::new().write(true).custom_flags(flags).open(part);
            let left = left.with_context(|| format!("{} is in the way", part.display()))?;
            if flock(&left, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
                bail!("another forebay debug writes {}", part.display());
            }
            fs::remove_file(part)?;
            create()?
        }
        file => file?,
    };
    // Where a file system has no locks, two of one name are not told apart from one that was killed.
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok();
    Ok(file)
}

/// The head of a file of so many bytes.
fn head(name: &str, len: usize) -> io::Result<[u8; BLOCK]> {
    let mut head = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
    // A name of at most 100 bytes, and what is above it of at most 155.
    let (above, name) = match name.rmatch_indices('/').find(|(at, _)| name.len() - at - 1 <= 100) {
        Some((at, _)) if name.len() > 100 && at <= 155 => (&name[..at], &name[at + 1..]),
        _ if name.len() <= 100 => ("", name),
        _ => return Err(io::Error::new(ErrorKind::InvalidFilename, "its name is too long for the archive")),
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    put(0, name.as_bytes());
    put(100, b"0000600\x000000000\x000000000\0");
    put(124, format!("{len:011o}\0{now:011o}\0        0").as_bytes());
    put(257, b"ustar\x0000");
    put(345, above.as_bytes());
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(head)
}
