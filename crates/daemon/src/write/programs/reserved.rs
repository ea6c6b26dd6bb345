//! Names that no program gives: those that the tier itself gives on the backing file system.
//!
//! A file of such a name there is not in the tree (`forebay_store::Draft`). So a program's file would land and not be seen by the next job.

use forebay_fuse::Change as Asked;
use forebay_store::Draft;

/// Whether a change would give such a name.
pub fn gives_reserved_name(asked: &Asked<'_>) -> bool {
    match asked {
        Asked::Mknod { name, .. }
        | Asked::Mkdir { name, .. }
        | Asked::Symlink { name, .. }
        | Asked::Link { name, .. }
        | Asked::Create { name, .. }
        | Asked::Rename { to_name: name, .. } => Draft::is_draft(name),
        _ => false,
    }
}
