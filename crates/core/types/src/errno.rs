//! The one mapping to error numbers: what a program that reads through a view sees in `errno`.

use std::{fmt, io};

use serde::{Deserialize, Serialize};

/// An error number of Linux (`errno(3)`), always in 1..=4095, so that it can be negated into a kernel reply.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "i32", into = "i32")]
pub struct Errno(i32);

macro_rules! errnos {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        impl Errno {
            $(#[doc = $text] pub const $name: Self = Self($number);)*

            /// The symbol of `errno.h`, or `None` for one that Forebay never makes itself.
            #[must_use]
            pub fn symbol(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    EPERM = 1, "Operation not permitted.";
    ENOENT = 2, "No such file or directory.";
    EINTR = 4, "Interrupted.";
    EIO = 5, "Input/output error.";
    ENXIO = 6, "No such device or address.";
    E2BIG = 7, "Argument list too long.";
    EBADF = 9, "Bad file descriptor.";
    EAGAIN = 11, "Try again.";
    ENOMEM = 12, "Out of memory.";
    EACCES = 13, "Permission denied.";
    EBUSY = 16, "Device or resource busy.";
    EEXIST = 17, "File exists.";
    EXDEV = 18, "Cross-device link.";
    ENODEV = 19, "No such device.";
    ENOTDIR = 20, "Not a directory.";
    EISDIR = 21, "Is a directory.";
    EINVAL = 22, "Invalid argument.";
    ENFILE = 23, "Too many open files in the system.";
    EMFILE = 24, "Too many open files.";
    ENOTTY = 25, "Not a typewriter: no such ioctl here.";
    EFBIG = 27, "File too large.";
    ENOSPC = 28, "No space left on device.";
    EROFS = 30, "Read-only file system.";
    ERANGE = 34, "Result too large for the buffer.";
    EMLINK = 31, "Too many links.";
    ENAMETOOLONG = 36, "File name too long.";
    ENOLCK = 37, "No locks available.";
    ENOSYS = 38, "Not implemented.";
    ENOTEMPTY = 39, "Directory not empty.";
    ELOOP = 40, "Too many symbolic links.";
    ENODATA = 61, "No data available.";
    EPROTO = 71, "Protocol error.";
    EBADMSG = 74, "Bad message: wrong checksum.";
    EOVERFLOW = 75, "Value too large.";
    EOPNOTSUPP = 95, "Operation not supported.";
    ECONNREFUSED = 111, "Connection refused.";
    ECONNRESET = 104, "Connection reset by peer.";
    ENOTCONN = 107, "Not connected.";
    ETIMEDOUT = 110, "Timed out.";
    EHOSTUNREACH = 113, "No route to host.";
    EALREADY = 114, "Already in progress.";
    ESTALE = 116, "Stale file handle: the file changed on the backing file system.";
    EDQUOT = 122, "Disk quota exceeded.";
    ECANCELED = 125, "Cancelled.";
}

impl Errno {
    /// Not an error of any file: the answer, or the rest of a body, was lost on its way between nodes and is to be asked
    /// for again, elsewhere. Never told to a program. Linux calls the number `ENOLINK`; no backing file system has it.
    pub const WAY_LOST: Self = Self(67);

    /// The positive number.
    #[must_use]
    pub fn number(self) -> i32 {
        self.0
    }

    /// The errno of an I/O error; `EIO` for one that carries none.
    #[must_use]
    pub fn of(error: &io::Error) -> Self {
        error.raw_os_error().map(Self::from).filter(|errno| *errno != Self::WAY_LOST).unwrap_or(Self::EIO)
    }
}

/// Numbers outside 1..=4095 cannot be told to the kernel and become `EIO`.
impl From<i32> for Errno {
    fn from(number: i32) -> Self {
        if (1..=4095).contains(&number) { Self(number) } else { Self::EIO }
    }
}

impl From<Errno> for i32 {
    fn from(errno: Errno) -> Self {
        errno.0
    }
}

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> Self {
        Self::from_raw_os_error(errno.0)
    }
}

/// The text of `strerror(3)` with the symbol where it is known: `Permission denied (EACCES)`.
impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = io::Error::from(*self).to_string();
        let text = text.split(" (os error").next().unwrap_or(&text);
        match self.symbol() {
            Some(symbol) => write!(f, "{text} ({symbol})"),
            None => write!(f, "{text} (errno {})", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Errno {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_the_kernel_would_refuse_become_eio() {
        assert_eq!(Errno::from(0), Errno::EIO);
        assert_eq!(Errno::from(-2), Errno::EIO);
        assert_eq!(Errno::from(4096), Errno::EIO);
        assert_eq!(Errno::from(2), Errno::ENOENT);
    }

    #[test]
    fn a_message_names_the_symbol() {
        assert_eq!(Errno::EACCES.to_string(), "Permission denied (EACCES)");
    }
}
