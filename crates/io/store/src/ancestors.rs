//! The directories above the exports: real attributes, and only the names that lead to exports.

use std::os::fd::AsFd;

use forebay_types::{Attributes, Errno, Kind, Name, ViewPath};
use forebay_wire::{EntryRecord, Listing, ListingBuilder, ListingEntry};

use crate::backing::Backing;
use crate::listing::refused;
use crate::mounts::Table;
use crate::namespace::Ancestor;

/// The listing of ancestor `dir`.
pub(crate) fn listing(backing: &Backing, dir: &ViewPath, ancestor: &Ancestor, table: &Table) -> Result<Listing, Errno> {
    let directory = attributes(backing, dir, table)?.ok_or(Errno::ENOENT)?;
    let mut builder = ListingBuilder::new();
    for name in &ancestor.children {
        let Some(record) = record(backing, dir, ancestor, name, table)? else {
            continue;
        };
        let (ino, attributes) = (record.attributes.ino, Some(record.attributes));
        let entry = ListingEntry { name: name.as_bytes(), kind: Kind::Directory, ino, attributes, target: &[] };
        builder.push(entry).map_err(refused)?;
    }
    builder.finish(&directory).map_err(refused)
}

/// The record of `name` in ancestor `dir`; `None` for a name that leads to no export.
pub(crate) fn record(
    backing: &Backing,
    dir: &ViewPath,
    ancestor: &Ancestor,
    name: &Name,
    table: &Table,
) -> Result<Option<EntryRecord>, Errno> {
    if !ancestor.children.contains(name) {
        return Ok(None);
    }
    let path = dir.join(name.as_bytes()).map_err(|_| Errno::ENAMETOOLONG)?;
    let attributes = attributes(backing, &path, table)?;
    Ok(attributes.map(|attributes| EntryRecord { attributes, target: Vec::new() }))
}

/// The attributes of an ancestor or of an export's own directory.
fn attributes(backing: &Backing, path: &ViewPath, table: &Table) -> Result<Option<Attributes>, Errno> {
    let Some(descriptor) = backing.namespace.fixed(path) else {
        return Ok(None);
    };
    let stat = backing.calls.stat_open(descriptor.as_fd())?;
    Ok(Some(backing.numbers.salt(stat.device, path, table).attributes(&stat)))
}
