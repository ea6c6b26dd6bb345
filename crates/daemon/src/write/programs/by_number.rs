//! Files that the kernel looks up by their numbers, since a program has no more (`open_by_handle_at(2)`) and it may have forgotten them.

use forebay_fuse::Request;
use forebay_types::Errno;
use forebay_wire::write::FileState;

use crate::write::contents::Reader;
use crate::write::kernel_ids::file_of;

/// Names that the kernel looks up in a file to find it by its number, and in a directory to find where it is.
const ITSELF: &[u8] = b".";
const PARENT: &[u8] = b"..";

/// Whether the kernel looks up no name.
pub fn is_by_number(name: &[u8]) -> bool {
    name == ITSELF || name == PARENT
}

/// The file that has a number, or the directory that it is in. One without a name is found only as long as the kernel knows it itself.
pub async fn find_by_number(reader: &Reader, request: &Request<'_>, name: &[u8]) -> Result<FileState, Errno> {
    let file = file_of(request.node);
    let found = if name == ITSELF { file } else { reader.tree.list(file).await?.parent };
    let state = reader.tree.state(found).await?;
    if state.attributes.nlink > 0 { Ok(state) } else { Err(Errno::ENOENT) }
}
