//! Protection of one direction of one connection: a key of its own, and a counter that no frame shares with another.
//!
//! One primitive serves both keyed levels. AES-128-GCM with nothing to encrypt is the authentication code of level
//! `Auth`: over a frame's head, message and checksum, some 50 bytes, it takes half of what HMAC-SHA256 does. With level
//! `Seal` the head stays readable and authenticated, message and checksum are encrypted in place behind it, and the
//! body, in a buffer of its own, is sealed as a second text. The counter is the nonce: a frame that is altered, repeated,
//! moved, left out or sent back to its sender does not open, and the connection ends.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use forebay_secret::{JOB_KEY_BYTES, JobKey};
use forebay_wire::{FRAME_HEAD_BYTES, Level, TAG_BYTES, WireError};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, Tag, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::hkdf::{HKDF_SHA256, Salt};

/// Frames that one key may protect in one direction; then the connection ends, and the next call makes a new one with
/// new keys. 2^32 frames of 128 KiB are 512 TiB, for which AES-GCM still leaves an attacker a chance below 2^-38 (with
/// q blocks q^2 / 2^129), and a counter of 64 bits never comes near its end.
const FRAMES_PER_KEY_MAX: u64 = 1 << 32;

/// The salt by which the job's key is extracted: keys made of it for this protocol are like no others made of it.
const SALT: &[u8] = b"forebay overlay connection";

/// Which side of a connection this node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// The one that connected.
    Asking,
    /// The one that listens.
    Answering,
}

impl Role {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Asking => b"sent by the asking side",
            Self::Answering => b"sent by the answering side",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Asking => Self::Answering,
            Self::Answering => Self::Asking,
        }
    }
}

/// The greetings of a connection, byte for byte as they were sent: version, level and both random numbers; and to which
/// address and port it was made, so that whoever has taken one of those at which a node is looked for cannot pass connections
/// on to another.
#[derive(Clone, Copy)]
pub(crate) struct Greetings<'a> {
    pub(crate) asking: &'a [u8],
    pub(crate) answering: &'a [u8],
    pub(crate) place: SocketAddr,
}

/// The guards of a connection for its side `role`: of what it sends, and of what it receives. They seal, whatever the
/// level, until they are told it: nobody outside the job hears the job's name.
pub(crate) fn guards(key: &JobKey, role: Role, greetings: Greetings<'_>) -> (Guard, Guard) {
    const _: () = assert!(JOB_KEY_BYTES * 8 == 256, "as long as the hash that it is extracted with");
    let secret = Salt::new(HKDF_SHA256, SALT).extract(key.secret_bytes());
    // Of a fixed length: bytes of one greeting cannot pass for bytes of the other.
    let [asking, answering] = [greetings.asking, greetings.answering].map(|greeting| digest(&SHA256, greeting));
    let (address, port) = place_bytes(greetings.place);
    let guard = |role: Role| {
        let purpose = [role.label(), asking.as_ref(), answering.as_ref(), &address, &port];
        // Fails only for more than 255 hashes of output; this is half a hash.
        let key = secret.expand(&purpose, &AES_128_GCM).expect("a key is shorter than HKDF's limit");
        Guard(Some(Keyed { key: LessSafeKey::new(UnboundKey::from(key)), used: 0, seals: true }))
    };
    (guard(role), guard(role.other()))
}

/// Address and port as both sides write them, whichever kind of socket each has. All loopback addresses count as one: no
/// name of another host leads to any.
fn place_bytes(place: SocketAddr) -> ([u8; 16], [u8; 2]) {
    let address = match place.ip().to_canonical() {
        address if address.is_loopback() => Ipv4Addr::LOCALHOST.to_ipv6_mapped(),
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    (address.octets(), place.port().to_be_bytes())
}

/// One direction of one connection. The default one protects nothing: it is that of a greeting, and of level `Off`.
#[derive(Default)]
pub(crate) struct Guard(Option<Keyed>);

struct Keyed {
    key: LessSafeKey,
    used: u64,
    seals: bool,
}

/// The key has protected as many frames as it may; the connection must end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UsedUp;

impl Guard {
    /// From the next frame on, this level holds.
    pub(crate) fn set_level(&mut self, level: Level) {
        if let Some(keyed) = &mut self.0 {
            keyed.seals = level == Level::Seal;
        }
    }

    /// Bytes of the tag behind head, message and checksum.
    pub(crate) fn tag_bytes(&self) -> usize {
        if self.0.is_some() { TAG_BYTES } else { 0 }
    }

    /// Whether bodies are encrypted, and have a tag of their own.
    pub(crate) fn seals(&self) -> bool {
        self.0.as_ref().is_some_and(|keyed| keyed.seals)
    }

    /// Protects head, message and checksum, which `bytes` holds from `start` on, and adds their tag.
    pub(crate) fn protect(&mut self, bytes: &mut Vec<u8>, start: usize) -> Result<(), UsedUp> {
        let Some(keyed) = &mut self.0 else { return Ok(()) };
        let nonce = keyed.nonce()?;
        let (clear, text) = keyed.parts(&mut bytes[start..]);
        let tag = keyed.seal(nonce, clear, text)?;
        bytes.extend_from_slice(tag.as_ref());
        Ok(())
    }

    /// Encrypts a body in place.
    pub(crate) fn seal_body(&mut self, body: &mut [u8]) -> Result<Option<Tag>, UsedUp> {
        let Some(keyed) = self.0.as_mut().filter(|keyed| keyed.seals) else { return Ok(None) };
        let nonce = keyed.nonce()?;
        keyed.seal(nonce, &[], body).map(Some)
    }

    /// The other side of `protect`: `bytes` is head, message, checksum and tag, and is readable afterwards.
    pub(crate) fn open(&mut self, bytes: &mut [u8]) -> Result<(), WireError> {
        let Some(keyed) = &mut self.0 else { return Ok(()) };
        let (bytes, tag) = bytes.split_at_mut(bytes.len().saturating_sub(TAG_BYTES));
        let nonce = keyed.nonce().map_err(|UsedUp| WireError::Forged)?;
        let (clear, text) = keyed.parts(bytes);
        keyed.open(nonce, clear, text, tag)
    }

    /// The other side of `seal_body`.
    pub(crate) fn open_body(&mut self, body: &mut [u8], tag: &[u8]) -> Result<(), WireError> {
        let Some(keyed) = self.0.as_mut().filter(|keyed| keyed.seals) else { return Ok(()) };
        let nonce = keyed.nonce().map_err(|UsedUp| WireError::Forged)?;
        keyed.open(nonce, &[], body, tag)
    }

    #[cfg(test)]
    pub(crate) fn use_up(&mut self) {
        if let Some(keyed) = &mut self.0 {
            keyed.used = FRAMES_PER_KEY_MAX;
        }
    }
}

impl Keyed {
    fn nonce(&mut self) -> Result<Nonce, UsedUp> {
        if self.used >= FRAMES_PER_KEY_MAX {
            return Err(UsedUp);
        }
        let mut nonce = [0; NONCE_LEN];
        nonce[NONCE_LEN - 8..].copy_from_slice(&self.used.to_be_bytes());
        self.used += 1;
        Ok(Nonce::assume_unique_for_key(nonce))
    }

    /// The part of a frame that stays readable, and the part that is encrypted.
    fn parts<'a>(&self, bytes: &'a mut [u8]) -> (&'a [u8], &'a mut [u8]) {
        let clear_bytes = if self.seals { FRAME_HEAD_BYTES.min(bytes.len()) } else { bytes.len() };
        let (clear, text) = bytes.split_at_mut(clear_bytes);
        (clear, text)
    }

    /// AES-GCM refuses texts above 64 GiB only; to end the connection is right then too.
    fn seal(&self, nonce: Nonce, clear: &[u8], text: &mut [u8]) -> Result<Tag, UsedUp> {
        self.key.seal_in_place_separate_tag(nonce, Aad::from(clear), text).map_err(|_| UsedUp)
    }

    fn open(&self, nonce: Nonce, clear: &[u8], text: &mut [u8], tag: &[u8]) -> Result<(), WireError> {
        let tag = Tag::try_from(tag).map_err(|_| WireError::Forged)?;
        let opened = self.key.open_in_place_separate_tag(nonce, Aad::from(clear), tag, text, 0..);
        opened.map(drop).map_err(|_| WireError::Forged)
    }
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
