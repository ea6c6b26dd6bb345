//! Extended attributes: the kernel's requests as what the tree knows. Those of the system (`security.`, `trusted.`, ACLs) are not kept.

use forebay_fuse::{Change as Asked, Operation as Op, Reply, Request};
use forebay_types::{Errno, ExtendedAttributes, ExtendedRule};
use forebay_wire::write::Operation;

use super::requests::caller;
use crate::write::kernel_ids::file_of;
use crate::write::tree::tree_link::TreeLink;

/// `XATTR_CREATE` and `XATTR_REPLACE`.
const CREATE: u32 = 1;
const REPLACE: u32 = 2;

/// Answers `getxattr` and `listxattr`.
pub async fn answer(tree: &TreeLink, request: &Request<'_>, reply: Reply) {
    let (name, size) = match &request.operation {
        Op::Getxattr { name, .. } if !ExtendedAttributes::is_name(name) => return reply.error(Errno::EOPNOTSUPP),
        Op::Getxattr { name, size } => (Some(name.to_vec()), *size),
        Op::Listxattr { size } => (None, *size),
        _ => return reply.error(Errno::ENOSYS),
    };
    match tree.extended(&caller(request), file_of(request.node), name).await {
        Ok(told) if size == 0 => reply.xattr_size(told.len() as u32),
        Ok(told) if told.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(told) => reply.bytes(&told),
        Err(errno) => reply.error(errno),
    }
}

/// The operation that sets or removes one.
///
/// # Errors
/// EINVAL for flags that there are not, EOPNOTSUPP for names of other kinds.
pub fn setting(request: &Request<'_>, asked: &Asked<'_>) -> Result<Operation, Errno> {
    let (name, value, rule) = match asked {
        Asked::SetExtended { name, value, flags } => {
            let rule = match *flags {
                0 => ExtendedRule::Any,
                CREATE => ExtendedRule::New,
                REPLACE => ExtendedRule::Known,
                _ => return Err(Errno::EINVAL),
            };
            (name, Some(value.to_vec()), rule)
        }
        Asked::RemoveExtended { name } => (name, None, ExtendedRule::Known),
        _ => return Err(Errno::ENOSYS),
    };
    if !ExtendedAttributes::is_name(name) {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(Operation::SetExtended { file: file_of(request.node), name: name.to_vec(), value, rule })
}
