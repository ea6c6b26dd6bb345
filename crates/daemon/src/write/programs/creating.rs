//! Files that programs create and open in one: by a name, or without one (`O_TMPFILE`).

use forebay_fuse::Request;
use forebay_types::{Errno, FileId};
use forebay_wire::write::{AttributeChanges, Caller, FileState, Operation};

use crate::write::commits::Commits;
use crate::write::contents::Reader;
use crate::write::kernel_ids::{O_EXCL, O_TRUNC, file_of, place, wanted};

/// The operation that creates `file` by a name.
///
/// # Errors
/// ENAMETOOLONG.
pub fn named(request: &Request<'_>, name: &[u8], file: FileId, (mode, flags): (u32, u32)) -> Result<Operation, Errno> {
    Ok(Operation::Create {
        place: place(request.node, name)?,
        file,
        mode: mode & 0o7777 | 0o100_000,
        rdev: 0,
        target: vec![],
        is_opened: true,
        is_exclusive: flags & O_EXCL != 0,
    })
}

/// The operation that creates `file` without one.
pub fn unnamed(request: &Request<'_>, file: FileId, (mode, flags): (u32, u32)) -> Operation {
    Operation::CreateUnnamed { directory: file_of(request.node), file, mode, may_be_named: flags & O_EXCL == 0 }
}

/// A file that a creation has found there is opened, unless the caller may not.
pub async fn open_found(
    (reader, commits): (&Reader, &Commits),
    caller: &Caller,
    found: &FileState,
    flags: u32,
) -> Result<(), Errno> {
    let file = found.file;
    let close = || commits.carry_out_own(caller, Operation::Close { file, handle: 0 });
    if let Err(errno) = reader.tree.check_access(caller, file, wanted(flags)).await {
        close().await?;
        return Err(errno);
    }
    let opened = match flags & O_TRUNC {
        0 => Ok(()),
        _ => {
            let changes = AttributeChanges { size_bytes: Some(0), ..AttributeChanges::default() };
            commits.carry_out_own(caller, Operation::SetAttributes { file, changes }).await
        }
    };
    if opened.is_err() {
        close().await?;
    }
    opened
}
