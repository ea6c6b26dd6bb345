//! Lending the view to programs that do not see it, because they are in another mount namespace.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, anyhow};
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};

use super::entrance::AnswerText;
use super::namespaces::make;
use crate::packets::send;

/// Hands a copy of the mount at `view`, mounted nowhere, to whoever waits behind `answer`. It ends in another namespace.
///
/// # Errors
/// When there is no way to copy the mount, or nobody to take it.
pub fn lend(view: &Path, answer: BorrowedFd<'_>) -> anyhow::Result<()> {
    let copied = copy(view).map_err(|errno| anyhow!("the mount at {} cannot be copied: {errno}", view.display()));
    // Whoever may mount needs no namespace for it.
    match copied.or_else(|_| make().and_then(|_| copy(view).context("the view cannot be copied"))) {
        Ok(tree) => send(answer, &AnswerText::Lent, &[tree.as_fd()]).context("nobody takes the view"),
        Err(error) => {
            let why = format!("{error:#}");
            send(answer, &AnswerText::Refused { why }, &[]).context("nobody hears why")
        }
    }
}

fn copy(view: &Path) -> Result<OwnedFd, Errno> {
    open_tree(CWD, view, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)
}
