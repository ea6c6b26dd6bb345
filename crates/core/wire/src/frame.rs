//! The frame: what every byte on a connection belongs to.
//!
//! A frame is a fixed head of 16 bytes, little endian, then `head_bytes` of message, then, if there is a body, its
//! checksum (crc32c, u32), then on a keyed connection the tag over all that, then `body_bytes` of body, and on a sealed
//! connection the body's own tag. The head: `kind u8, flags u8, reserved u16 (0), stream u32, head_bytes u32,
//! body_bytes u32`. A stream is one request with its answer, numbered by the node that asks; numbers are used again
//! only after the answer has ended.
//!
//! The coverage of a tag is the transport's affair (`guard`); lengths are those of the plain text.

use forebay_types::{PIECE_BYTES, limits};

use crate::WireError;

/// Bytes of a frame's fixed head.
pub const FRAME_HEAD_BYTES: usize = 16;

/// Bytes of a body's checksum.
pub const CHECKSUM_BYTES: usize = 4;

/// Bytes of a tag on a keyed connection.
pub const TAG_BYTES: usize = 16;

/// The kinds of frames.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum FrameKind {
    /// First frame of either side: a `Greeting`.
    Greeting = 1,
    /// A `Request` with its remaining time.
    Request = 2,
    /// An `Answer`; the whole body when it fits this frame, else the body's first piece.
    Answer = 3,
    /// A further piece of an answer's body.
    Body = 4,
    /// The sender of a body ends it early; the head is the `Errno`.
    Abort = 5,
    /// The asking side takes `body_bytes` more of this stream's body (no body follows: the count is the message).
    Credit = 6,
    /// The asking side wants no more of this stream.
    Cancel = 7,
    /// Second frame of either side: a `Hello`.
    Hello = 8,
    /// A program of the asking side, or of one that it asks for, waits for this stream now, which was asked ahead.
    Promote = 9,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Greeting,
            2 => Self::Request,
            3 => Self::Answer,
            4 => Self::Body,
            5 => Self::Abort,
            6 => Self::Credit,
            7 => Self::Cancel,
            8 => Self::Hello,
            9 => Self::Promote,
            _ => return None,
        })
    }
}

/// A frame's fixed head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHead {
    /// Its kind.
    pub kind: FrameKind,
    /// Which request it belongs to; 0 for `Greeting` and `Hello`.
    pub stream: u32,
    /// Bytes of message that follow the head.
    pub head_bytes: u32,
    /// Bytes of body that follow the message; for `Credit` the bytes granted.
    pub body_bytes: u32,
}

impl FrameHead {
    /// The bytes on the connection.
    #[must_use]
    pub fn encode(self) -> [u8; FRAME_HEAD_BYTES] {
        let mut bytes = [0; FRAME_HEAD_BYTES];
        bytes[0] = self.kind as u8;
        bytes[4..8].copy_from_slice(&self.stream.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.head_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes
    }

    /// Reads a head and checks every field against the limits, so that a caller may allocate what it announces.
    ///
    /// # Errors
    /// `WireError` for an unknown kind, a field that must be zero and is not, or a length above its limit.
    pub fn decode(bytes: &[u8; FRAME_HEAD_BYTES]) -> Result<Self, WireError> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let kind = FrameKind::from_byte(bytes[0]).ok_or(WireError::Frame("unknown kind"))?;
        if bytes[1..4] != [0; 3] {
            return Err(WireError::Frame("reserved bytes are not zero"));
        }
        let head = Self { kind, stream: word(4), head_bytes: word(8), body_bytes: word(12) };
        if head.head_bytes as usize > limits::HEAD_BYTES_MAX {
            return Err(WireError::Frame("message longer than its limit"));
        }
        if head.kind != FrameKind::Credit && head.body_bytes as usize > PIECE_BYTES {
            return Err(WireError::Frame("body piece longer than its limit"));
        }
        Ok(head)
    }

    /// Bytes of body that follow on the connection (none for `Credit`, whose count is its message).
    #[must_use]
    pub fn body_on_connection(self) -> usize {
        if self.kind == FrameKind::Credit { 0 } else { self.body_bytes as usize }
    }

    /// Bytes of head, message and checksum, without any tag.
    #[must_use]
    pub fn plain_bytes(self) -> usize {
        let checksum = if self.body_on_connection() > 0 { CHECKSUM_BYTES } else { 0 };
        FRAME_HEAD_BYTES + self.head_bytes as usize + checksum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn decoding_any_bytes_gives_a_head_within_limits_or_an_error(bytes: [u8; FRAME_HEAD_BYTES]) {
            if let Ok(head) = FrameHead::decode(&bytes) {
                prop_assert!(head.head_bytes as usize <= limits::HEAD_BYTES_MAX);
                prop_assert!(head.body_on_connection() <= PIECE_BYTES);
                prop_assert_eq!(head.encode(), bytes);
            }
        }
    }
}
