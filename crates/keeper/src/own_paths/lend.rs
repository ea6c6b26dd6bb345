//! Lending the view to programs that do not see it, because they are in another mount namespace.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, anyhow};
use rustix::mount::{OpenTreeFlags, open_tree};

use super::entrance::AnswerText;
use super::namespaces::make;
use super::place::Node;
use crate::packets::send;

/// Hands a copy of the mount of `node`'s view, mounted nowhere, to the program behind `answer`. It ends in another namespace.
///
/// # Errors
/// When there is no way to copy the mount, or nobody to take it.
pub fn lend(node: &Node, answer: BorrowedFd<'_>) -> anyhow::Result<()> {
    // A process with the right to mount needs no namespace for it.
    match copy(node).or_else(|_| make().and_then(|_| copy(node))) {
        Ok(tree) => send(answer, &AnswerText::Lent, &[tree.as_fd()]).context("the view could not be passed on"),
        Err(error) => {
            let why = format!("{error:#}");
            send(answer, &AnswerText::Refused { why }, &[]).context("the reason could not be passed on")
        }
    }
}

fn copy(node: &Node) -> anyhow::Result<OwnedFd> {
    let how = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(node.view.open_or_refuse(node.rank)?, "", how)
        .map_err(|errno| anyhow!("the mount at {} cannot be copied: {errno}", node.view.path.display()))
}
