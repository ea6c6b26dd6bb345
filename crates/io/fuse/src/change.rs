//! Decoding of what changes a file system, and of locks: what a read-only mount is never asked.

use crate::abi::{self, opcode, setattr_flag};
use crate::arguments::Arguments;
use crate::limits;

/// A request that changes something. Its node is the directory where a name is given, else the file itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Change<'a> {
    /// `chmod`, `chown`, `truncate`, `utimensat`. Reply: `attributes`.
    SetAttributes(NewAttributes),
    /// `mknod(2)`; the umask is taken off. Reply: `entry`.
    Mknod {
        /// The name.
        name: &'a [u8],
        /// Type and permission bits.
        mode: u32,
        /// Of a device, as the kernel encodes it.
        rdev: u32,
    },
    /// `mkdir(2)`; the umask is taken off. Reply: `entry`.
    Mkdir {
        /// The name.
        name: &'a [u8],
        /// Permission bits.
        mode: u32,
    },
    /// `symlink(2)`. Reply: `entry`.
    Symlink {
        /// The name.
        name: &'a [u8],
        /// The path in the link.
        target: &'a [u8],
    },
    /// `unlink(2)`. Reply: `ok`.
    Unlink {
        /// The name.
        name: &'a [u8],
    },
    /// `rmdir(2)`. Reply: `ok`.
    Rmdir {
        /// The name.
        name: &'a [u8],
    },
    /// `renameat2(2)`. Reply: `ok`.
    Rename {
        /// The name that goes.
        name: &'a [u8],
        /// The directory that it goes to.
        to_directory: u64,
        /// The name that comes.
        to_name: &'a [u8],
        /// `RENAME_NOREPLACE` (1), `RENAME_EXCHANGE` (2), `RENAME_WHITEOUT` (4).
        flags: u32,
    },
    /// `link(2)`. Reply: `entry`.
    Link {
        /// The file that gets another name.
        node: u64,
        /// The name.
        name: &'a [u8],
    },
    /// `open(2)` of a name that the kernel knows to be absent, with `O_CREAT`; somebody may have made it meanwhile. The umask is
    /// taken off. Reply: `created`.
    Create {
        /// The name.
        name: &'a [u8],
        /// Type and permission bits.
        mode: u32,
        /// Flags of `open(2)`.
        flags: u32,
    },
    /// `open(2)` with `O_TMPFILE`: a file without a name, in the file system of the directory. The umask is taken off. Reply: `created`;
    /// ENOSYS is remembered and becomes EOPNOTSUPP.
    CreateUnnamed {
        /// Type and permission bits.
        mode: u32,
        /// Flags of `open(2)`; with `O_EXCL` it never gets a name.
        flags: u32,
    },
    /// Reply: `written`.
    Write {
        /// The handle from `open`.
        handle: u64,
        /// First byte; with `O_APPEND` what the kernel takes for the end.
        offset: u64,
        /// The bytes, `limits::WRITE_BYTES_MAX` at most.
        data: &'a [u8],
        /// Flags of the open file.
        flags: u32,
        /// Whether the file lends nobody rights afterwards: the writer may not give any.
        ends_lent_rights: bool,
        /// Whether the kernel sends it from its page cache, and no program does now.
        is_gathered: bool,
    },
    /// `fallocate(2)`. Reply: `ok`; EOPNOTSUPP for a mode that there is not.
    Fallocate {
        /// The handle from `open`.
        handle: u64,
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// `FALLOC_FL_*` bits.
        mode: u32,
    },
    /// `F_GETLK`: who holds what is in the way. Reply: `lock`.
    GetLock(Lock),
    /// `F_SETLK`, or `flock(2)`. Reply: `ok`, EAGAIN when somebody else holds it.
    SetLock(Lock),
    /// The same, waiting for it. Reply: `ok` when it is had; EINTR.
    SetLockWaiting(Lock),
    /// `setxattr(2)`. Reply: `ok`.
    SetExtended {
        /// The attribute.
        name: &'a [u8],
        /// Its value.
        value: &'a [u8],
        /// `XATTR_CREATE`, `XATTR_REPLACE`.
        flags: u32,
    },
    /// `removexattr(2)`. Reply: `ok`.
    RemoveExtended {
        /// The attribute.
        name: &'a [u8],
    },
}

/// The attributes that `SetAttributes` sets; `None` stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NewAttributes {
    /// The open file through which it is set.
    pub handle: Option<u64>,
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size, bytes.
    pub size_bytes: Option<u64>,
    /// Last access.
    pub atime: Option<NewTime>,
    /// Last change of the contents.
    pub mtime: Option<NewTime>,
}

/// The value that a time is set to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewTime {
    /// The time that it is.
    Now,
    /// Seconds since 1970 and nanoseconds.
    To(i64, u32),
}

/// `F_UNLCK` of `fcntl(2)`.
const F_UNLCK: u32 = 2;

/// A lock on a range of a file, or on all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lock {
    /// The handle from `open`.
    pub handle: u64,
    /// The lock's owner, as the kernel names it: a process for `fcntl` locks, an open file for `flock`.
    pub owner: u64,
    /// First byte.
    pub start: u64,
    /// Last byte; `i64::MAX` for all that may come.
    pub end: u64,
    /// `F_RDLCK` (0), `F_WRLCK` (1), `F_UNLCK` (2).
    pub kind: u32,
    /// The process.
    pub pid: u32,
    /// Of `flock(2)`.
    pub is_flock: bool,
}

impl Lock {
    /// Whether it gives the range free, which waits for nobody, whichever call does it.
    #[must_use]
    pub fn is_unlock(&self) -> bool {
        self.kind == F_UNLCK
    }
}

impl<'a> Change<'a> {
    /// Decodes the arguments of `code`; `None` for an opcode that is none of these.
    pub(crate) fn decode(code: u32, arguments: &mut Arguments<'a>) -> Option<Result<Self, &'static str>> {
        Some(match code {
            opcode::SETATTR => NewAttributes::decode(arguments).map(Self::SetAttributes),
            opcode::WRITE => Self::write(arguments),
            opcode::GETLK => Lock::decode(arguments).map(Self::GetLock),
            opcode::SETLK => Lock::decode(arguments).map(Self::SetLock),
            opcode::SETLKW => Lock::decode(arguments).map(Self::SetLockWaiting),
            opcode::FALLOCATE => Self::fallocate(arguments),
            opcode::SETXATTR => Self::set_extended(arguments),
            opcode::REMOVEXATTR => arguments.name().map(|name| Self::RemoveExtended { name }),
            _ => return Self::decode_name(code, arguments),
        })
    }

    fn decode_name(code: u32, arguments: &mut Arguments<'a>) -> Option<Result<Self, &'static str>> {
        Some(match code {
            opcode::MKNOD => arguments
                .take::<abi::MknodIn>()
                .and_then(|head| Ok(Self::Mknod { name: arguments.name()?, mode: head.mode, rdev: head.rdev })),
            opcode::MKDIR => arguments
                .take::<abi::MkdirIn>()
                .and_then(|head| Ok(Self::Mkdir { name: arguments.name()?, mode: head.mode })),
            opcode::CREATE => arguments
                .take::<abi::CreateIn>()
                .and_then(|head| Ok(Self::Create { name: arguments.name()?, mode: head.mode, flags: head.flags })),
            // The kernel has a name for it that says nothing.
            opcode::TMPFILE => arguments.take::<abi::CreateIn>().and_then(|head| {
                arguments.name()?;
                Ok(Self::CreateUnnamed { mode: head.mode, flags: head.flags })
            }),
            opcode::LINK => arguments
                .take::<abi::LinkIn>()
                .and_then(|head| Ok(Self::Link { node: head.oldnodeid, name: arguments.name()? })),
            opcode::SYMLINK => arguments.name().and_then(|name| Ok(Self::Symlink { name, target: arguments.name()? })),
            opcode::UNLINK => arguments.name().map(|name| Self::Unlink { name }),
            opcode::RMDIR => arguments.name().map(|name| Self::Rmdir { name }),
            opcode::RENAME => {
                arguments.take::<abi::RenameIn>().and_then(|head| Self::rename(arguments, head.newdir, 0))
            }
            opcode::RENAME2 => {
                arguments.take::<abi::Rename2In>().and_then(|head| Self::rename(arguments, head.newdir, head.flags))
            }
            _ => return None,
        })
    }

    fn rename(arguments: &mut Arguments<'a>, to_directory: u64, flags: u32) -> Result<Self, &'static str> {
        Ok(Self::Rename { name: arguments.name()?, to_directory, to_name: arguments.name()?, flags })
    }

    fn write(arguments: &mut Arguments<'a>) -> Result<Self, &'static str> {
        let head: abi::WriteIn = arguments.take()?;
        let data = arguments.bytes(head.size as usize)?;
        let ends_lent_rights = head.write_flags & abi::WRITE_KILL_SUIDGID != 0;
        let is_gathered = head.write_flags & abi::WRITE_CACHE != 0;
        Ok(Self::Write { handle: head.fh, offset: head.offset, data, flags: head.flags, ends_lent_rights, is_gathered })
    }

    fn fallocate(arguments: &mut Arguments<'a>) -> Result<Self, &'static str> {
        let head: abi::FallocateIn = arguments.take()?;
        Ok(Self::Fallocate { handle: head.fh, offset: head.offset, len: head.length, mode: head.mode })
    }

    fn set_extended(arguments: &mut Arguments<'a>) -> Result<Self, &'static str> {
        let head: abi::SetxattrIn = arguments.take()?;
        let name = arguments.name()?;
        Ok(Self::SetExtended { name, value: arguments.bytes(head.size as usize)?, flags: head.flags })
    }
}

impl NewAttributes {
    fn decode(arguments: &mut Arguments<'_>) -> Result<Self, &'static str> {
        let head: abi::SetattrIn = arguments.take()?;
        let is_set = |flag: u32| head.valid & flag != 0;
        let time = |flag, now, seconds: u64, nanos| match (is_set(flag), is_set(now)) {
            (false, _) => None,
            (true, true) => Some(NewTime::Now),
            (true, false) => Some(NewTime::To(seconds.cast_signed(), nanos)),
        };
        Ok(Self {
            handle: is_set(setattr_flag::FH).then_some(head.fh),
            mode: is_set(setattr_flag::MODE).then_some(head.mode),
            uid: is_set(setattr_flag::UID).then_some(head.uid),
            gid: is_set(setattr_flag::GID).then_some(head.gid),
            size_bytes: is_set(setattr_flag::SIZE).then_some(head.size),
            atime: time(setattr_flag::ATIME, setattr_flag::ATIME_NOW, head.atime, head.atimensec),
            mtime: time(setattr_flag::MTIME, setattr_flag::MTIME_NOW, head.mtime, head.mtimensec),
        })
    }
}

impl Lock {
    fn decode(arguments: &mut Arguments<'_>) -> Result<Self, &'static str> {
        let head: abi::LkIn = arguments.take()?;
        let abi::FileLock { start, end, kind, pid } = head.lk;
        let is_flock = head.lk_flags & abi::LK_FLOCK != 0;
        Ok(Self { handle: head.fh, owner: head.owner, start, end, kind, pid, is_flock })
    }
}

/// A reader's buffer holds the largest WRITE with its head.
const _: () = assert!(
    limits::WRITE_BYTES_MAX as usize + size_of::<abi::InHeader>() + size_of::<abi::WriteIn>()
        <= limits::WRITE_BUFFER_BYTES
);

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(bytes: &[u8]) -> Arguments<'_> {
        Arguments { rest: bytes }
    }

    #[test]
    fn a_write_has_as_many_bytes_as_it_says() {
        let mut bytes = vec![0; 40];
        (bytes[8], bytes[16]) = (7, 3);
        bytes.extend_from_slice(b"abcdef");
        match Change::decode(opcode::WRITE, &mut arguments(&bytes)) {
            Some(Ok(Change::Write { offset: 7, data: b"abc", .. })) => {}
            other => panic!("{other:?}"),
        }
        bytes.truncate(42);
        assert!(matches!(Change::decode(opcode::WRITE, &mut arguments(&bytes)), Some(Err(_))));
    }

    #[test]
    fn only_what_is_valid_is_set() {
        let mut bytes = vec![0xff; 88];
        bytes[..4].copy_from_slice(&(setattr_flag::SIZE | setattr_flag::MTIME | setattr_flag::MTIME_NOW).to_ne_bytes());
        bytes[16..24].copy_from_slice(&5u64.to_ne_bytes());
        let Some(Ok(Change::SetAttributes(new))) = Change::decode(opcode::SETATTR, &mut arguments(&bytes)) else {
            panic!("it can be decoded")
        };
        let wanted = NewAttributes { size_bytes: Some(5), mtime: Some(NewTime::Now), ..NewAttributes::default() };
        assert_eq!(new, wanted);
    }

    #[test]
    fn input_cut_short_anywhere_is_refused() {
        let whole: [(u32, &[u8]); 4] = [
            (opcode::RENAME2, &[&[0; 16][..], b"a\0b\0"].concat()),
            (opcode::SYMLINK, b"name\0target\0"),
            (opcode::CREATE, &[&[0; 16][..], b"a\0"].concat()),
            (opcode::SETLK, &[0; 48]),
        ];
        for (code, bytes) in whole {
            assert!(matches!(Change::decode(code, &mut arguments(bytes)), Some(Ok(_))), "{code}");
            for len in 0..bytes.len() {
                assert!(matches!(Change::decode(code, &mut arguments(&bytes[..len])), Some(Err(_))), "{code} {len}");
            }
        }
        assert!(Change::decode(opcode::READ, &mut arguments(&[0; 100])).is_none());
    }
}
