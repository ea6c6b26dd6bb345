//! Extended attributes of users (`user.`), as `setxattr(2)` has them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Errno, limits};

/// How the names begin. Those of other kinds belong to the system.
const PREFIX: &[u8] = b"user.";

/// The extended attributes of one file.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct ExtendedAttributes(BTreeMap<Vec<u8>, Vec<u8>>);

/// The condition under which an attribute is set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum ExtendedRule {
    /// Known or not.
    Any,
    /// Not known (`XATTR_CREATE`).
    New,
    /// Known (`XATTR_REPLACE`, or it is to be removed).
    Known,
}

impl ExtendedAttributes {
    /// Names and values of one file together, bytes.
    pub const BYTES_MAX: usize = 64 << 10;

    /// Whether users may set an attribute of this name.
    #[must_use]
    pub fn is_name(name: &[u8]) -> bool {
        let is_long = name.len() > PREFIX.len() && name.len() <= limits::NAME_BYTES_MAX;
        is_long && name.starts_with(PREFIX) && !name.contains(&0)
    }

    /// The value of an attribute.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names, each with a NUL after it, as `listxattr(2)` tells them.
    #[must_use]
    pub fn names(&self) -> Vec<u8> {
        self.0.keys().flat_map(|name| name.iter().copied().chain([0])).collect()
    }

    /// The value of an attribute, or all names, as they are told.
    ///
    /// # Errors
    /// ENODATA.
    pub fn told(&self, name: Option<&[u8]>) -> Result<Vec<u8>, Errno> {
        let Some(name) = name else { return Ok(self.names()) };
        self.get(name).map(<[u8]>::to_vec).ok_or(Errno::ENODATA)
    }

    /// Names and values together, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + 1 + value.len()).sum()
    }

    /// Whether a file can have them.
    #[must_use]
    pub fn is_within_limits(&self) -> bool {
        self.bytes() <= Self::BYTES_MAX && self.0.keys().all(|name| Self::is_name(name))
    }

    /// The attributes after one is set, or removed where it is to have no value.
    ///
    /// # Errors
    /// EEXIST or ENODATA by the rule, EOPNOTSUPP for the name of another kind, ENOSPC where they are too many bytes then.
    pub fn with(&self, name: &[u8], value: Option<&[u8]>, rule: ExtendedRule) -> Result<Self, Errno> {
        if !Self::is_name(name) {
            return Err(Errno::EOPNOTSUPP);
        }
        match (rule, self.0.contains_key(name)) {
            (ExtendedRule::New, true) => return Err(Errno::EEXIST),
            (ExtendedRule::Known, false) => return Err(Errno::ENODATA),
            _ => {}
        }
        let mut changed = self.clone();
        match value {
            Some(value) => changed.0.insert(name.to_vec(), value.to_vec()),
            None => changed.0.remove(name),
        };
        if changed.bytes() > Self::BYTES_MAX && value.is_some() {
            return Err(Errno::ENOSPC);
        }
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_set_as_the_rule_says() {
        let none = ExtendedAttributes::default();
        let one = none.with(b"user.a", Some(b"1"), ExtendedRule::New).expect("it is new");
        assert_eq!(one.get(b"user.a"), Some(&b"1"[..]));
        assert_eq!(one.with(b"user.a", Some(b"2"), ExtendedRule::New), Err(Errno::EEXIST));
        assert_eq!(one.with(b"user.b", Some(b"2"), ExtendedRule::Known), Err(Errno::ENODATA));
        assert_eq!(none.with(b"user.a", None, ExtendedRule::Known), Err(Errno::ENODATA));
        let both = one.with(b"user.b", Some(b""), ExtendedRule::Any).expect("there is room");
        assert_eq!((both.names(), both.bytes()), (b"user.a\0user.b\0".to_vec(), 15));
        assert_eq!(both.with(b"user.b", None, ExtendedRule::Known), Ok(one));
    }

    #[test]
    fn other_kinds_and_too_many_bytes_are_refused() {
        let none = ExtendedAttributes::default();
        for name in [&b"security.a"[..], b"user.", b"user", b"", b"user.\0", &[b'u'; 256]] {
            assert_eq!(none.with(name, Some(b""), ExtendedRule::Any), Err(Errno::EOPNOTSUPP));
        }
        let most = vec![0; ExtendedAttributes::BYTES_MAX - 7];
        let full = none.with(b"user.a", Some(&most), ExtendedRule::Any).expect("it fits");
        assert!(full.is_within_limits());
        assert_eq!(full.with(b"user.b", Some(b""), ExtendedRule::Any), Err(Errno::ENOSPC));
    }
}
