//! Limits of this crate that several of its modules, or others, need to know; each with its reason.

/// A sealed key, or what else the programs say, bytes: a credential with a key has 228.
pub const MUNGE_BYTES_MAX: usize = 4096;
