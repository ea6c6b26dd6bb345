//! The head of a store: whose it is, and how it is laid out.
//!
//! Little endian: `magic [8], version u16, job_bytes u16, uid u32, boot [16], identity u64, segment_bytes u32, node u32,
//! nodes u32, landing_bytes u32, job, landing, crc32c u32` of all before it. Every version begins with magic and version and
//! ends with the checksum.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use forebay_types::NodeRank;
use forebay_wire::log_record::{LogIdentity, RECORD_ALIGN_BYTES};

use crate::limits;

const MAGIC: [u8; 8] = *b"FOREBLOG";

/// The layout of stores that this program reads and writes: segments, records, head and checkpoint.
pub(crate) const VERSION: u16 = 8;

/// Bytes before the name of the job.
const FIXED_BYTES: usize = 56;

/// The longest head, bytes.
pub(crate) const HEAD_BYTES_MAX: usize = FIXED_BYTES + limits::JOB_BYTES_MAX + limits::LANDING_BYTES_MAX + 4;

/// The identity of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StoreHead {
    pub job: String,
    /// Of the job's nodes, the one that wrote it.
    pub node: NodeRank,
    /// How many the job has.
    pub nodes: u32,
    /// The directory of the backing file system that it lands in.
    pub landing: PathBuf,
    pub uid: u32,
    /// Of the machine when the log was opened last.
    pub boot: [u8; 16],
    pub identity: LogIdentity,
    pub segment_bytes: u32,
}

/// Why bytes are no head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeadError {
    Version(u16),
    Broken(&'static str),
}

impl StoreHead {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES_MAX);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.job.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&self.uid.to_le_bytes());
        bytes.extend_from_slice(&self.boot);
        bytes.extend_from_slice(&self.identity.0.to_le_bytes());
        bytes.extend_from_slice(&self.segment_bytes.to_le_bytes());
        let landing = self.landing.as_os_str().as_bytes();
        bytes.extend_from_slice(&self.node.0.to_le_bytes());
        bytes.extend_from_slice(&self.nodes.to_le_bytes());
        bytes.extend_from_slice(&(landing.len() as u32).to_le_bytes());
        bytes.extend_from_slice(self.job.as_bytes());
        bytes.extend_from_slice(landing);
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, HeadError> {
        let broken = HeadError::Broken;
        let Some((body, checksum)) = bytes.split_last_chunk::<4>() else { return Err(broken("it was cut off")) };
        if !body.starts_with(&MAGIC) {
            return Err(broken("it is not the head of a store"));
        }
        // Before the version: a spoiled byte there is no other version.
        if crc32c::crc32c(body) != u32::from_le_bytes(*checksum) {
            return Err(broken("its checksum is wrong"));
        }
        let (Some(fixed), Some(names)) = (body.first_chunk::<FIXED_BYTES>(), body.get(FIXED_BYTES..)) else {
            return Err(broken("it is too short"));
        };
        let short = |at: usize| u16::from_le_bytes([fixed[at], fixed[at + 1]]);
        let word = |at: usize| u32::from(short(at)) | u32::from(short(at + 2)) << 16;
        if short(8) != VERSION {
            return Err(HeadError::Version(short(8)));
        }
        let job_bytes = usize::from(short(10));
        let Some((job, landing)) = names.split_at_checked(job_bytes) else { return Err(broken("its length is wrong")) };
        let Ok(job) = std::str::from_utf8(job) else { return Err(broken("the name of its job is not text")) };
        let is_length_right = u32::try_from(landing.len()) == Ok(word(52));
        if !is_length_right || job_bytes > limits::JOB_BYTES_MAX || landing.len() > limits::LANDING_BYTES_MAX {
            return Err(broken("its length is wrong"));
        }
        let segment_bytes = word(40);
        let is_possible = (limits::SEGMENT_BYTES_MIN..=limits::SEGMENT_BYTES).contains(&segment_bytes);
        if !is_possible || !segment_bytes.is_multiple_of(RECORD_ALIGN_BYTES) {
            return Err(broken("its segments have an impossible size"));
        }
        let mut boot = [0; 16];
        boot.copy_from_slice(&fixed[16..32]);
        let identity = LogIdentity(u64::from(word(32)) | u64::from(word(36)) << 32);
        let landing = PathBuf::from(OsStr::from_bytes(landing));
        let (node, nodes) = (NodeRank(word(44)), word(48));
        Ok(Self { job: job.to_owned(), node, nodes, landing, uid: word(12), boot, identity, segment_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> StoreHead {
        let identity = LogIdentity(0xfeed_0000_0001);
        let (node, nodes, landing) = (NodeRank(3), 4, "/lustre/run".into());
        StoreHead {
            job: "4711".into(),
            node,
            nodes,
            landing,
            uid: 1000,
            boot: [7; 16],
            identity,
            segment_bytes: 1 << 20,
        }
    }

    #[test]
    fn a_head_comes_back_and_every_spoiled_byte_is_noticed() {
        let good = head().encode();
        assert_eq!(StoreHead::decode(&good), Ok(head()));
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(matches!(StoreHead::decode(&bad), Err(HeadError::Broken(_))), "byte {at}");
            assert!(StoreHead::decode(&good[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn false_contents_with_a_right_checksum_are_refused() {
        let changed = |at: usize, value: u8| {
            let mut bytes = head().encode();
            bytes[at] = value;
            let body = bytes.len() - 4;
            let checksum = crc32c::crc32c(&bytes[..body]).to_le_bytes();
            bytes[body..].copy_from_slice(&checksum);
            StoreHead::decode(&bytes)
        };
        assert_eq!(changed(8, VERSION as u8 + 1), Err(HeadError::Version(VERSION + 1)));
        assert!(changed(10, 5).is_err() && changed(40, 1).is_err() && changed(42, 0).is_err());
        assert!(changed(43, 4).is_err() && changed(43, 0xff).is_err());
        assert!(changed(56, 0xff).is_err() && changed(52, 5).is_err());
    }
}
