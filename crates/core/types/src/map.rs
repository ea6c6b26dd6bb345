//! A hash map that behaves the same in every run.

use std::hash::BuildHasherDefault;

/// A map for core crates: the hasher has no random key, so that a run in virtual time can be repeated from its seed.
/// Iteration order still means nothing and must not decide anything.
#[expect(clippy::disallowed_types, reason = "the one place that names its hasher")]
pub type Map<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<std::hash::DefaultHasher>>;

/// The hasher of `Map`, for other tables of core crates.
pub type Hasher = BuildHasherDefault<std::hash::DefaultHasher>;
