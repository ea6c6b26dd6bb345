//! Extended attributes of users, through a descriptor of what has them.

use std::collections::BTreeSet;

use forebay_types::{Errno, ExtendedAttributes, ExtendedRule};
use rustix::fs::{self, XattrFlags};

use crate::calls::errno;

/// The longest value, and all names together, bytes (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX` of Linux).
const BYTES_MAX: usize = 64 << 10;

/// The value of one.
pub(crate) fn value(path: &str, name: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; BYTES_MAX];
    let len = fs::getxattr(path, name, &mut bytes[..]).map_err(errno)?;
    bytes.truncate(len);
    Ok(bytes)
}

/// The names of users' attributes. A file system that has none of them has no attributes.
pub(crate) fn names(path: &str) -> Result<Vec<Vec<u8>>, Errno> {
    let mut bytes = vec![0; BYTES_MAX];
    let len = match fs::listxattr(path, &mut bytes[..]).map_err(errno) {
        Err(Errno::EOPNOTSUPP) => 0,
        len => len?,
    };
    let names = bytes[..len].split(|byte| *byte == 0).filter(|name| ExtendedAttributes::is_name(name));
    Ok(names.map(<[u8]>::to_vec).collect())
}

/// All of them. ENOSPC where they are more than a file can have here.
pub(crate) fn all(path: &str) -> Result<ExtendedAttributes, Errno> {
    let mut found = ExtendedAttributes::default();
    for name in names(path)? {
        match value(path, &name) {
            // It went meanwhile.
            Err(Errno::ENODATA) => {}
            value => found = found.with(&name, Some(&value?), ExtendedRule::Any)?,
        }
    }
    Ok(found)
}

/// Gives a file those that are wanted. With names, only these are changed: one that is not wanted goes.
pub(crate) fn set(path: &str, wanted: &ExtendedAttributes, names: Option<&BTreeSet<Vec<u8>>>) -> Result<(), Errno> {
    for name in names.into_iter().flatten().filter(|name| wanted.get(name).is_none()) {
        match fs::removexattr(path, name.as_slice()).map_err(errno) {
            Err(Errno::ENODATA) => {}
            removed => removed?,
        }
    }
    let is_meant = |name: &[u8]| names.is_none_or(|names| names.contains(name));
    for (name, wanted) in wanted.iter().filter(|(name, _)| is_meant(name)) {
        if value(path, name).as_deref() != Ok(wanted) {
            fs::setxattr(path, name, wanted, XattrFlags::empty()).map_err(errno)?;
        }
    }
    Ok(())
}
