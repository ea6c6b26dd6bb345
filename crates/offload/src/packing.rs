//! Compressed files, told by how they begin, and their decompression: bytes in order, in memory that has a bound, whatever the file says.
//!
//! A file may have several members (gzip) or frames (zstd), one behind the other, as programs write them that compress in parallel. Bytes
//! that are neither are an error, as a damaged or shortened file is: an answer is about all of a file, or there is none.

use std::io::{BufRead, Error, ErrorKind, Read, Result};

use flate2::bufread::GzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Bytes that say how a file is compressed.
pub const MAGIC_BYTES: usize = 4;

/// An empty frame of zstd. The decoder holds no first frame to its limit of 100 MiB for a window, but all that follow.
const EMPTY_FRAME: [u8; 9] = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0];

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Members of gzip (RFC 1952).
    Gzip,
    /// Frames of zstd (RFC 8878).
    Zstd,
}

impl Packing {
    /// That of a file that begins so; None if it is not compressed.
    pub fn of(beginning: &[u8]) -> Option<Self> {
        match beginning {
            // Deflate is the only method that there is.
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            // A frame that is skipped, which some programs write first.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// The bytes that compressed ones stand for, or those themselves.
pub enum Unpacker<R> {
    /// They are not compressed.
    Plain(R),
    /// By gzip.
    Gzip(Members<R>),
    /// By zstd.
    Zstd(Box<Frames<R>>),
}

impl<R: BufRead> Unpacker<R> {
    /// Of bytes that are compressed so, from their beginning on.
    pub fn new(packed: R, packing: Option<Packing>) -> Self {
        match packing {
            None => Self::Plain(packed),
            Some(Packing::Gzip) => Self::Gzip(Members::Between(Some(packed))),
            Some(Packing::Zstd) => Self::Zstd(Box::new(Frames::new(packed))),
        }
    }

    /// Fills some of a buffer that has room; 0 at the end.
    ///
    /// # Errors
    /// The bytes are damaged, or cannot be read.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self {
            Self::Plain(bytes) => bytes.read(buffer),
            Self::Gzip(members) => members.read(buffer),
            Self::Zstd(frames) => frames.read(buffer),
        }
    }

    /// The compressed bytes; None behind an error.
    pub fn packed(&mut self) -> Option<&mut R> {
        match self {
            Self::Plain(bytes) => Some(bytes),
            Self::Gzip(Members::Between(packed)) => packed.as_mut(),
            Self::Gzip(Members::Within(member)) => Some(member.get_mut()),
            Self::Zstd(frames) => Some(&mut frames.packed),
        }
    }
}

/// Members of gzip.
pub enum Members<R> {
    /// None is under way.
    Between(Option<R>),
    /// One is.
    Within(Box<GzDecoder<R>>),
}

impl<R: BufRead> Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            match self {
                Self::Within(member) => match member.read(buffer)? {
                    0 => {
                        let Self::Within(member) = std::mem::replace(self, Self::Between(None)) else { continue };
                        *self = Self::Between(Some(member.into_inner()));
                    }
                    len => return Ok(len),
                },
                Self::Between(packed) => {
                    let Some(mut rest) = packed.take() else { return Ok(0) };
                    let has_more = is_member_next(&mut rest);
                    *self = match has_more {
                        Ok(true) => Self::Within(Box::new(GzDecoder::new(rest))),
                        Ok(false) | Err(_) => Self::Between(Some(rest)),
                    };
                    if !has_more? {
                        return Ok(0);
                    }
                }
            }
        }
    }
}

/// Whether another member follows. Zeros may stand behind one, as on tapes.
fn is_member_next(packed: &mut impl BufRead) -> Result<bool> {
    loop {
        let bytes = packed.fill_buf()?;
        match bytes.iter().position(|byte| *byte != 0) {
            None if bytes.is_empty() => return Ok(false),
            None => {
                let zeros = bytes.len();
                packed.consume(zeros);
            }
            Some(zeros) if bytes[zeros] == 0x1f => {
                packed.consume(zeros);
                return Ok(true);
            }
            Some(_) => {
                let what = "bytes behind the last member are no gzip; cut them off";
                return Err(Error::new(ErrorKind::InvalidData, what));
            }
        }
    }
}

/// Frames of zstd.
pub struct Frames<R> {
    packed: R,
    decoder: FrameDecoder,
    /// Bytes of the frame that is under way; None between frames.
    done: Option<u64>,
}

impl<R: BufRead> Frames<R> {
    fn new(packed: R) -> Self {
        let mut decoder = FrameDecoder::new();
        // It is a frame.
        let _ = decoder.init(&EMPTY_FRAME[..]);
        Self { packed, decoder, done: None }
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            let Some(done) = &mut self.done else {
                if !self.begin()? {
                    return Ok(0);
                }
                continue;
            };
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let some = BlockDecodingStrategy::UptoBytes(buffer.len());
                self.decoder.decode_blocks(&mut self.packed, some).map_err(damaged)?;
            }
            let len = self.decoder.read(buffer)?;
            *done += len as u64;
            if len > 0 {
                return Ok(len);
            }
            self.end()?;
        }
    }

    /// Begins the next frame, past those that are to be skipped; false at the end of all.
    fn begin(&mut self) -> Result<bool> {
        while !self.packed.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.packed) {
                Ok(()) => {
                    self.done = Some(0);
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let skipped = std::io::copy(&mut (&mut self.packed).take(length.into()), &mut std::io::sink())?;
                    if skipped < u64::from(length) {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::BadMagicNumber(_))) => {
                    let what = "bytes behind the last frame are no zstd; cut them off";
                    return Err(Error::new(ErrorKind::InvalidData, what));
                }
                Err(FrameDecoderError::WindowSizeTooBig { requested }) => {
                    let mib = requested >> 20;
                    let what = format!(
                        "it needs a window of {mib} MiB, and 100 MiB is the most: zstd -dc --long=31 decompresses it"
                    );
                    return Err(Error::new(ErrorKind::Unsupported, what));
                }
                Err(FrameDecoderError::DictNotProvided { .. }) => {
                    let what = "it was compressed with a dictionary: zstd -dc -D DICTIONARY decompresses it";
                    return Err(Error::new(ErrorKind::Unsupported, what));
                }
                Err(error) => return Err(damaged(error)),
            }
        }
        Ok(false)
    }

    /// Ends a frame that is whole, if it is what it says.
    fn end(&mut self) -> Result<()> {
        let Some(done) = self.done.take() else { return Ok(()) };
        let said = self.decoder.content_size();
        if said != 0 && said != done {
            return Err(Error::new(ErrorKind::InvalidData, "a frame has another size than it says"));
        }
        let checksum = self.decoder.get_checksum_from_data();
        if checksum.is_some() && checksum != self.decoder.get_calculated_checksum() {
            return Err(Error::new(ErrorKind::InvalidData, "the checksum of a frame is another"));
        }
        Ok(())
    }
}

/// The error of a frame, in which that of the bytes below it may be.
fn damaged(error: FrameDecoderError) -> Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(now) = cause {
        if now.downcast_ref::<Error>().is_some_and(|error| error.kind() == ErrorKind::UnexpectedEof) {
            return ErrorKind::UnexpectedEof.into();
        }
        cause = now.source();
    }
    Error::new(ErrorKind::InvalidData, error.to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]
pub(crate) mod tests {
    use std::io::{BufReader, Write};

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    pub fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(vec![], Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    pub fn zstd(text: &[u8]) -> Vec<u8> {
        compress_to_vec(text, CompressionLevel::Fastest)
    }

    /// A frame that is to be skipped.
    pub fn skippable(bytes: &[u8]) -> Vec<u8> {
        [&[0x53, 0x2a, 0x4d, 0x18][..], &(bytes.len() as u32).to_le_bytes(), bytes].concat()
    }

    /// All of it, read in pieces of `piece` bytes from a file of which so many come at once.
    fn unpacked(packed: &[u8], piece: usize) -> Result<Vec<u8>> {
        let mut unpacker = Unpacker::new(BufReader::with_capacity(piece, packed), Packing::of(packed));
        let (mut all, mut buffer) = (vec![], vec![0; piece]);
        loop {
            match unpacker.read(&mut buffer)? {
                0 => return Ok(all),
                len => all.extend_from_slice(&buffer[..len]),
            }
        }
    }

    fn text() -> Vec<u8> {
        (0..9000u32)
            .flat_map(|number| format!("{number},{}\n", number.wrapping_mul(2_654_435_761)).into_bytes())
            .collect()
    }

    #[test]
    fn members_and_frames_are_one_text_whatever_is_read_at_once() {
        let text = text();
        let parts = [&text[..7], &[], &text[7..100_000], &text[100_000..]];
        let members: Vec<u8> = parts.iter().flat_map(|part| gzip(part)).chain([0; 600]).collect();
        let frames: Vec<u8> = parts.iter().flat_map(|part| [skippable(b"index"), zstd(part)].concat()).collect();
        for packed in [members, frames, text.clone()] {
            for piece in [1, 7, 4096, 1 << 20] {
                assert!(unpacked(&packed, piece).unwrap() == text, "{:?}, {piece} bytes at once", Packing::of(&packed));
            }
        }
        assert_eq!(unpacked(&gzip(b""), 10).unwrap(), b"");
        assert_eq!(unpacked(&zstd(b""), 10).unwrap(), b"");
    }

    #[test]
    fn what_is_cut_short_damaged_or_followed_by_something_is_an_error() {
        let text = text();
        for packed in [gzip(&text), zstd(&text)] {
            for cut in [5, 12, packed.len() / 2, packed.len() - 1] {
                let cut_short = unpacked(&packed[..cut], 4096).unwrap_err();
                assert_eq!(cut_short.kind(), ErrorKind::UnexpectedEof, "{cut}: {cut_short}");
            }
            let mut damaged = packed.clone();
            damaged[packed.len() / 2] ^= 0x10;
            assert!(unpacked(&damaged, 4096).is_err(), "{:?}", Packing::of(&packed));
            let mut checksum = packed.clone();
            // Of gzip the size stands behind it.
            checksum[packed.len() - if Packing::of(&packed) == Some(Packing::Gzip) { 6 } else { 2 }] ^= 1;
            assert!(
                unpacked(&checksum, 4096).unwrap_err().to_string().contains("checksum"),
                "{:?}",
                Packing::of(&packed)
            );
            let followed = unpacked(&[&packed[..], b"a,b\n"].concat(), 4096).unwrap_err().to_string();
            assert!(followed.contains("cut them off"), "{followed}");
        }
    }

    #[test]
    fn a_window_that_takes_too_much_memory_is_refused_before_it_is_taken() {
        // Of the first frame, too: 2^41 bytes, and 128 MiB as of `zstd --long=27`.
        for descriptor in [0xf8, 0x88] {
            let packed = [&[0x28, 0xb5, 0x2f, 0xfd, 0, descriptor, 1, 0, 0][..], &zstd(b"x")].concat();
            let refused = unpacked(&packed, 10).unwrap_err();
            assert!(refused.kind() == ErrorKind::Unsupported && refused.to_string().contains("--long=31"), "{refused}");
        }
    }
}
