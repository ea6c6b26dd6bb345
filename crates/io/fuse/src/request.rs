//! Decoding of what the kernel asks.
//!
//! A request is borrowed from the reader's buffer; nothing is copied. The bytes are not trusted although the kernel
//! sends them: the same decoder will read requests that a keeper saved, and a descriptor can be handed to us by anyone.
//! Every length is checked against the bytes present, every name must end in its NUL, and what does not hold is
//! `Malformed`, with the request's number where it could be read, so that the session can answer it.
//! Opcodes that a read-only file system never meets decode to `Operation::Other`.

use forebay_types::Errno;
use zerocopy::FromBytes;

use crate::abi::{self, opcode};
use crate::arguments::Arguments;
use crate::change::Change;

/// One request of the kernel.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The kernel's number of the request; `Interrupt` refers to it. See `id`.
    pub unique: u64,
    /// The node it is about; 1 is the root. Zero for requests about none.
    pub node: u64,
    /// File system user id of the process that asks.
    pub uid: u32,
    /// Its file system group id.
    pub gid: u32,
    /// Its thread id, in the daemon's pid namespace; 0 when it is none of it or the kernel asks on its own.
    pub pid: u32,
    /// The operation that is asked for.
    pub operation: Operation<'a>,
}

impl Request<'_> {
    /// The request's number as it was when it was sent first: the same when it comes again.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.unique & !abi::UNIQUE_RESEND
    }
}

/// The operations of the kernel. `handle` is the one in the answer to OPEN or OPENDIR (0 with no-open).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Operation<'a> {
    /// Which node `name` in the directory is. Reply: `entry` or `negative`.
    Lookup {
        /// The name, without its NUL; of any length and content.
        name: &'a [u8],
    },
    /// The kernel gives `count` lookups of the node back. No reply.
    Forget {
        /// How many.
        count: u64,
    },
    /// The same for many nodes. No reply.
    BatchForget(Forgets<'a>),
    /// `stat(2)`. Reply: `attributes`.
    Getattr {
        /// The open file, when asked through one.
        handle: Option<u64>,
    },
    /// `statx(2)` for more than `stat` has; ENOSYS makes the kernel use `Getattr` from then on.
    Statx {
        /// `AT_STATX_*` flags.
        flags: u32,
        /// `STATX_*` bits wanted.
        mask: u32,
    },
    /// The target of a symbolic link. Reply: `bytes`.
    Readlink,
    /// Reply: `open`; or ENOSYS, which ends OPEN and RELEASE for good.
    Open {
        /// Flags of `open(2)`.
        flags: u32,
    },
    /// The last descriptor of an open file is gone. Reply: `ok`.
    Release {
        /// The handle from `open`.
        handle: u64,
        /// Whose `flock` ends with it.
        flock_owner: Option<u64>,
    },
    /// Reply: `open`; or ENOSYS, which ends OPENDIR and RELEASEDIR for good.
    Opendir {
        /// Flags of `open(2)`.
        flags: u32,
    },
    /// The last descriptor of an open directory is gone. Reply: `ok`.
    Releasedir {
        /// The handle from `open`.
        handle: u64,
    },
    /// Reply: `bytes` or `gather`, fewer bytes than asked for only at the end of the file.
    Read {
        /// The handle from `open`.
        handle: u64,
        /// First byte.
        offset: u64,
        /// Bytes wanted.
        size: u32,
        /// Flags of the open file (`O_DIRECT` and such).
        flags: u32,
    },
    /// Reply: `directory`, filled by `push`.
    Readdir {
        /// The handle from `open`.
        handle: u64,
        /// 0, or the offset of the last entry already received.
        offset: u64,
        /// Bytes the answer may have.
        size: u32,
    },
    /// Reply: `directory`, filled by `push_plus`.
    Readdirplus {
        /// The handle from `open`.
        handle: u64,
        /// 0, or the offset of the last entry already received.
        offset: u64,
        /// Bytes the answer may have.
        size: u32,
    },
    /// `statfs(2)`. Reply: `statfs`.
    Statfs,
    /// `access(2)`; not sent with `default_permissions`. Reply: `ok`.
    Access {
        /// `R_OK`, `W_OK`, `X_OK` bits.
        mask: u32,
    },
    /// `ioctl(2)`. Reply: `ioctl`, or ENOTTY (ENOSYS is not remembered).
    Ioctl {
        /// The handle from `open`.
        handle: u64,
        /// The command.
        command: u32,
        /// `ioctl_flag` bits.
        flags: u32,
        /// The third argument of `ioctl(2)` as a number.
        argument: u64,
        /// The bytes that the command writes, by the size in its number.
        input: &'a [u8],
        /// Bytes the answer may have.
        output_bytes: u32,
        /// Whether the node is a directory.
        is_dir: bool,
    },
    /// `SEEK_DATA` and `SEEK_HOLE` only. Reply: `lseek`; ENOSYS makes the kernel see one extent.
    Lseek {
        /// The handle from `open`.
        handle: u64,
        /// Where from.
        offset: u64,
        /// `SEEK_DATA` (3) or `SEEK_HOLE` (4).
        whence: u32,
    },
    /// Reply: `bytes`, or `xattr_size` when `size` is 0; ENOSYS is remembered and becomes EOPNOTSUPP.
    Getxattr {
        /// The attribute.
        name: &'a [u8],
        /// Bytes the answer may have; 0 asks for the length.
        size: u32,
    },
    /// Reply: `bytes`, or `xattr_size` when `size` is 0; ENOSYS is remembered and becomes EOPNOTSUPP.
    Listxattr {
        /// Bytes the answer may have; 0 asks for the length.
        size: u32,
    },
    /// The task that waits for request `unique` got a signal, of whatever kind; told once a request. The kernel waits for
    /// the answer all the same, which `EINTR` may be: the program then sees that error, also where its handler says
    /// `SA_RESTART`, unless the signal ends it. A session that resumes tells it of all requests found, since it may have
    /// been told to another. No reply (`error(EAGAIN)` has it sent again, while the request waits).
    Interrupt {
        /// The request; it may be answered already, or not be known yet.
        unique: u64,
    },
    /// A descriptor is closed. Reply: `ok`; ENOSYS ends it for good.
    Flush {
        /// The handle from `open`.
        handle: u64,
        /// Whose `fcntl` locks on the file end with it.
        lock_owner: u64,
    },
    /// Reply: `ok`; ENOSYS ends it for good and means success.
    Fsync {
        /// Contents only.
        contents_only: bool,
    },
    /// The same on a directory.
    Fsyncdir {
        /// Contents only.
        contents_only: bool,
    },
    /// Reply: `poll`; ENOSYS ends it for good and means always ready.
    Poll {
        /// `POLL*` bits asked for.
        events: u32,
    },
    /// `FIBMAP`; ENOSYS is remembered.
    Bmap {
        /// Block of the file.
        block: u64,
        /// Its size, bytes.
        block_bytes: u32,
    },
    /// `syncfs(2)`; ENOSYS is remembered and means success.
    Syncfs,
    /// First request of a connection; the session answers it.
    Init {
        /// Major version.
        major: u32,
        /// Minor version.
        minor: u32,
        /// The bytes that the kernel would read ahead.
        read_ahead_bytes: u32,
        /// `init_flag` bits offered.
        flags: u64,
    },
    /// Last request of some connections; the session answers it.
    Destroy,
    /// Bytes asked for by a notification; the session takes it.
    NotifyReply,
    /// An operation that changes something, or is about locks.
    Change(Change<'a>),
    /// Anything else, by its opcode.
    Other(u32),
}

impl Operation<'_> {
    /// The answer of a read-only file system that does not implement the operation: EROFS to changes, ENOTTY to ioctl,
    /// else ENOSYS. The kernel remembers ENOSYS where that saves messages.
    #[must_use]
    pub fn default_error(&self) -> Errno {
        match self {
            Self::Ioctl { .. } => Errno::ENOTTY,
            // Real locks are the kernel's own where nobody asks for them.
            Self::Change(Change::GetLock(_) | Change::SetLock(_) | Change::SetLockWaiting(_)) => Errno::ENOSYS,
            Self::Change(_) => Errno::EROFS,
            Self::Other(code) if is_mutation(*code) => Errno::EROFS,
            _ => Errno::ENOSYS,
        }
    }

    /// Whether the kernel waits for a reply.
    #[must_use]
    pub fn wants_reply(&self) -> bool {
        !matches!(self, Self::Forget { .. } | Self::BatchForget(_) | Self::Interrupt { .. } | Self::NotifyReply)
    }
}

fn is_mutation(code: u32) -> bool {
    matches!(code, opcode::COPY_FILE_RANGE | opcode::COPY_FILE_RANGE_64)
}

/// The nodes of a `BatchForget`, as (node, count).
#[derive(Clone, Debug)]
pub struct Forgets<'a> {
    rest: &'a [u8],
}

impl Iterator for Forgets<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let (one, rest) = abi::ForgetOne::read_from_prefix(self.rest).ok()?;
        self.rest = rest;
        Some((one.nodeid, one.nlookup))
    }
}

/// Bytes that are not a request. No state changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("malformed request {unique:?} with opcode {opcode:?}: {reason}")]
pub struct Malformed {
    /// The request's number, when its head could be read: it must be answered.
    pub unique: Option<u64>,
    /// Its opcode.
    pub opcode: Option<u32>,
    /// The fault in the bytes.
    pub reason: &'static str,
}

/// Reads one request; `bytes` is exactly what one read of the descriptor gave.
///
/// # Errors
/// `Malformed` naming the first thing wrong.
pub fn decode(bytes: &[u8]) -> Result<Request<'_>, Malformed> {
    let unread = |reason| Malformed { unique: None, opcode: None, reason };
    let (head, rest) = abi::InHeader::read_from_prefix(bytes).map_err(|_| unread("shorter than its head"))?;
    let wrong = |reason| Malformed { unique: Some(head.unique), opcode: Some(head.opcode), reason };
    if head.len as usize != bytes.len() {
        return Err(wrong("its length is not that of the bytes read"));
    }
    // Extensions (security contexts, groups) follow the arguments of creating requests, which we never need.
    let extension_bytes = usize::from(head.total_extlen) * 8;
    let arguments_bytes = rest.len().checked_sub(extension_bytes).ok_or_else(|| wrong("extensions longer than it"))?;
    let arguments = Arguments { rest: &rest[..arguments_bytes] };
    let operation = decode_operation(head.opcode, arguments).map_err(wrong)?;
    Ok(Request { unique: head.unique, node: head.nodeid, uid: head.uid, gid: head.gid, pid: head.pid, operation })
}

fn decode_operation(code: u32, mut arguments: Arguments<'_>) -> Result<Operation<'_>, &'static str> {
    Ok(match code {
        opcode::LOOKUP => Operation::Lookup { name: arguments.name()? },
        opcode::FORGET => Operation::Forget { count: arguments.take::<abi::ForgetIn>()?.nlookup },
        opcode::BATCH_FORGET => Operation::BatchForget(arguments.forgets()?),
        opcode::READ | opcode::READDIR | opcode::READDIRPLUS => arguments.reading(code)?,
        opcode::IOCTL => arguments.ioctl()?,
        opcode::INIT => arguments.init()?,
        opcode::OPEN => Operation::Open { flags: arguments.take::<abi::OpenIn>()?.flags },
        opcode::OPENDIR => Operation::Opendir { flags: arguments.take::<abi::OpenIn>()?.flags },
        opcode::RELEASE => {
            let head = arguments.take::<abi::ReleaseIn>()?;
            let is_unlocked = head.release_flags & abi::RELEASE_FLOCK_UNLOCK != 0;
            Operation::Release { handle: head.fh, flock_owner: is_unlocked.then_some(head.lock_owner) }
        }
        opcode::RELEASEDIR => Operation::Releasedir { handle: arguments.take::<abi::ReleaseIn>()?.fh },
        opcode::FLUSH => {
            let head = arguments.take::<abi::FlushIn>()?;
            Operation::Flush { handle: head.fh, lock_owner: head.lock_owner }
        }
        opcode::READLINK => Operation::Readlink,
        opcode::STATFS => Operation::Statfs,
        opcode::DESTROY => Operation::Destroy,
        opcode::SYNCFS => Operation::Syncfs,
        opcode::NOTIFY_REPLY => Operation::NotifyReply,
        opcode::WRITE => match Change::decode(code, &mut arguments) {
            Some(change) => Operation::Change(change?),
            None => Operation::Other(code),
        },
        _ => return arguments.lesser(code),
    })
}

impl<'a> Arguments<'a> {
    fn forgets(&mut self) -> Result<Forgets<'a>, &'static str> {
        let count = self.take::<abi::BatchForgetIn>()?.count as usize;
        let bytes = count.checked_mul(size_of::<abi::ForgetOne>()).ok_or("more nodes than bytes")?;
        let rest = self.rest.get(..bytes).ok_or("more nodes than bytes")?;
        Ok(Forgets { rest })
    }

    fn reading(&mut self, code: u32) -> Result<Operation<'a>, &'static str> {
        let abi::ReadIn { fh: handle, offset, size, flags, .. } = self.take()?;
        Ok(match code {
            opcode::READ => Operation::Read { handle, offset, size, flags },
            opcode::READDIR => Operation::Readdir { handle, offset, size },
            _ => Operation::Readdirplus { handle, offset, size },
        })
    }

    fn ioctl(&mut self) -> Result<Operation<'a>, &'static str> {
        let head: abi::IoctlIn = self.take()?;
        let input = self.rest.get(..head.in_size as usize).ok_or("more input than bytes")?;
        Ok(Operation::Ioctl {
            handle: head.fh,
            command: head.cmd,
            flags: head.flags,
            argument: head.arg,
            input,
            output_bytes: head.out_size,
            is_dir: head.flags & abi::ioctl_flag::DIR != 0,
        })
    }

    fn init(&mut self) -> Result<Operation<'a>, &'static str> {
        let (major, minor) = (self.take::<u32>()?, self.take::<u32>()?);
        if major != abi::MAJOR {
            // Of another protocol only the version means the same.
            return Ok(Operation::Init { major, minor, read_ahead_bytes: 0, flags: 0 });
        }
        let rest: abi::InitIn = self.take()?;
        let mut flags = u64::from(rest.flags);
        if flags & abi::init_flag::INIT_EXT != 0 {
            flags |= u64::from(self.take::<u32>()?) << 32;
        }
        Ok(Operation::Init { major, minor, read_ahead_bytes: rest.max_readahead, flags })
    }

    /// Operations that are rarely sent, or sent until the first ENOSYS only.
    fn lesser(&mut self, code: u32) -> Result<Operation<'a>, &'static str> {
        Ok(match code {
            opcode::GETATTR => {
                let head: abi::GetattrIn = self.take()?;
                Operation::Getattr { handle: (head.getattr_flags & abi::GETATTR_FH != 0).then_some(head.fh) }
            }
            opcode::STATX => {
                let head: abi::StatxIn = self.take()?;
                Operation::Statx { flags: head.sx_flags, mask: head.sx_mask }
            }
            opcode::ACCESS => Operation::Access { mask: self.take::<abi::AccessIn>()?.mask },
            opcode::LSEEK => {
                let head: abi::LseekIn = self.take()?;
                Operation::Lseek { handle: head.fh, offset: head.offset, whence: head.whence }
            }
            opcode::GETXATTR => {
                let size = self.take::<abi::GetxattrIn>()?.size;
                Operation::Getxattr { name: self.name()?, size }
            }
            opcode::LISTXATTR => Operation::Listxattr { size: self.take::<abi::GetxattrIn>()?.size },
            opcode::INTERRUPT => Operation::Interrupt { unique: self.take::<abi::InterruptIn>()?.unique },
            opcode::FSYNC => Operation::Fsync { contents_only: self.is_contents_only()? },
            opcode::FSYNCDIR => Operation::Fsyncdir { contents_only: self.is_contents_only()? },
            opcode::POLL => Operation::Poll { events: self.take::<abi::PollIn>()?.events },
            opcode::BMAP => {
                let head: abi::BmapIn = self.take()?;
                Operation::Bmap { block: head.block, block_bytes: head.blocksize }
            }
            other => match Change::decode(other, self) {
                Some(change) => Operation::Change(change?),
                None => Operation::Other(other),
            },
        })
    }

    fn is_contents_only(&mut self) -> Result<bool, &'static str> {
        Ok(self.take::<abi::FsyncIn>()?.fsync_flags & abi::FSYNC_FDATASYNC != 0)
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
