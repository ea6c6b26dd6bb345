//! Names and paths as they travel: bytes, not text, and never able to name something outside.
//!
//! A `ViewPath` is relative to the view's root and the file system's root alike: `soft/python` is `/soft/python` on the
//! backing file system. It has no empty, `.` or `..` component by construction, so whoever holds one can hand it to
//! `openat2(2)` below a directory descriptor; the empty path is the root itself.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, de};
use thiserror::Error;

use crate::limits;

/// Why bytes are not a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum NameError {
    /// No bytes.
    #[error("a name must not be empty")]
    Empty,
    /// More than `limits::NAME_BYTES_MAX`.
    #[error("a name may have {} bytes at most", limits::NAME_BYTES_MAX)]
    Long,
    /// `.`, `..`, a slash or a NUL byte.
    #[error("a name must not be '.' or '..' nor hold a slash or a NUL byte")]
    Special,
}

/// Why bytes are not a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum PathError {
    /// A component is not a name.
    #[error("a component of the path is not a name: {0}")]
    Name(#[from] NameError),
    /// More than `limits::PATH_BYTES_MAX`.
    #[error("a path may have {} bytes at most", limits::PATH_BYTES_MAX)]
    Long,
}

/// The name of a directory entry: 1 to 255 bytes, any but `/` and NUL, not `.` or `..`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Name(Arc<[u8]>);

impl Name {
    /// Checks and copies `bytes`.
    ///
    /// # Errors
    /// `NameError` when they are not a name.
    pub fn new(bytes: &[u8]) -> Result<Self, NameError> {
        Self::check(bytes)?;
        Ok(Self(bytes.into()))
    }

    /// Whether `bytes` are a name.
    ///
    /// # Errors
    /// `NameError` when they are not.
    pub fn check(bytes: &[u8]) -> Result<(), NameError> {
        match bytes {
            [] => Err(NameError::Empty),
            b"." | b".." => Err(NameError::Special),
            _ if bytes.len() > limits::NAME_BYTES_MAX => Err(NameError::Long),
            _ if bytes.iter().any(|byte| matches!(byte, b'/' | 0)) => Err(NameError::Special),
            _ => Ok(()),
        }
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = Vec::<u8>::deserialize(deserializer)?;
        Self::new(&bytes).map_err(de::Error::custom)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

/// A path below the view's root: components joined by single slashes, none at either end; empty for the root.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ViewPath(Arc<[u8]>);

impl ViewPath {
    /// The view's root.
    #[must_use]
    pub fn root() -> Self {
        Self(Arc::new([]))
    }

    /// Checks and copies `bytes`, which must be in the form above.
    ///
    /// # Errors
    /// `PathError` when they are not.
    pub fn new(bytes: &[u8]) -> Result<Self, PathError> {
        if bytes.len() > limits::PATH_BYTES_MAX {
            return Err(PathError::Long);
        }
        if !bytes.is_empty() {
            bytes.split(|byte| *byte == b'/').try_for_each(Name::check)?;
        }
        Ok(Self(bytes.into()))
    }

    /// The path of an absolute one, slashes folded: `/soft//python/` is `soft/python`.
    ///
    /// # Errors
    /// `PathError` for `.` and `..` components and over-long paths.
    pub fn from_absolute(bytes: &[u8]) -> Result<Self, PathError> {
        let parts: Vec<&[u8]> = bytes.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
        Self::new(&parts.join(&b'/'))
    }

    /// The path of entry `name` in this directory.
    ///
    /// # Errors
    /// `PathError` when `name` is not a name or the path becomes too long.
    pub fn join(&self, name: &[u8]) -> Result<Self, PathError> {
        let joined = self.join_deep(name)?;
        if joined.0.len() > limits::PATH_BYTES_MAX { Err(PathError::Long) } else { Ok(joined) }
    }

    /// The same however long the path becomes: trees may be deeper than one path can say. Such a path is not sent.
    ///
    /// # Errors
    /// `PathError` when `name` is not a name.
    pub fn join_deep(&self, name: &[u8]) -> Result<Self, PathError> {
        Name::check(name)?;
        if self.is_root() {
            return Ok(Self(name.into()));
        }
        let len = self.0.len() + 1 + name.len();
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(&self.0);
        bytes.push(b'/');
        bytes.extend_from_slice(name);
        Ok(Self(bytes.into()))
    }

    /// The directory and the name in it; `None` for the root.
    #[must_use]
    pub fn split(&self) -> Option<(Self, &[u8])> {
        if self.is_root() {
            return None;
        }
        match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => Some((Self(self.0[..slash].into()), &self.0[slash + 1..])),
            None => Some((Self::root(), &self.0)),
        }
    }

    /// The bytes of the directory's path, as `as_bytes` of it; nothing for the root, and for what lies in it.
    #[must_use]
    pub fn directory_bytes(&self) -> &[u8] {
        self.0.iter().rposition(|byte| *byte == b'/').map_or(&[], |slash| &self.0[..slash])
    }

    /// Whether this is the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `self` is `other` or lies below it.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        other.is_root() || self.0.strip_prefix(other.as_bytes()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    }

    /// The components, outermost first; none for the root.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/').filter(|part| !part.is_empty())
    }

    /// The bytes, without a leading slash.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl<'de> Deserialize<'de> for ViewPath {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = Vec::<u8>::deserialize(deserializer)?;
        Self::new(&bytes).map_err(de::Error::custom)
    }
}

/// The absolute path, as people write it.
impl fmt::Display for ViewPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for ViewPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_never_leads_outside() {
        for bad in [&b"/a"[..], b"a/", b"a//b", b".", b"..", b"a/../b", b"a/./b", b"a\0b"] {
            assert!(ViewPath::new(bad).is_err(), "{bad:?}");
        }
        assert!(ViewPath::new(&[b'a'; limits::PATH_BYTES_MAX + 1]).is_err());
        assert!(ViewPath::new(&[b'a'; limits::NAME_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn within_respects_component_borders() {
        let path = |text: &str| ViewPath::new(text.as_bytes()).unwrap();
        assert!(path("a/b").is_within(&path("a")));
        assert!(path("a").is_within(&path("a")));
        assert!(path("a").is_within(&ViewPath::root()));
        assert!(!path("ab").is_within(&path("a")));
    }

    proptest! {
        #[test]
        fn split_undoes_join(parts in proptest::collection::vec("[a-z]{1,9}", 1..9), name in "[^/\0]{1,20}") {
            prop_assume!(name != "." && name != "..");
            let parent = ViewPath::new(parts.join("/").as_bytes()).unwrap();
            let child = parent.join(name.as_bytes()).unwrap();
            prop_assert!(child.is_within(&parent));
            prop_assert_eq!(child.directory_bytes(), parent.as_bytes());
            let (back, last) = child.split().unwrap();
            prop_assert_eq!((back, last), (parent, name.as_bytes()));
        }
    }
}
