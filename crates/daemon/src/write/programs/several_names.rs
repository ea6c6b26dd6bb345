//! Files that are written on the burst mount and have several names: one of these may be below a prefix of `--private`.
//!
//! Within a job no name gets there from elsewhere, but a job before it that had no such prefix may have made one. Such a file is
//! written on one of both mounts at a time (`forebay_write::hold`).

use forebay_fuse::{NewAttributes, Request};
use forebay_types::{Errno, Kind};
use forebay_wire::write::{Caller, Done, FileState, Operation};
use forebay_write::hold;

use super::prefixes::Prefixes;
use crate::write::commits::Commits;
use crate::write::contents::Reader;
use crate::write::kernel_words::{file_of, may_write};

impl Prefixes {
    /// A file with several names that has just been opened for writing may have one below a prefix: no node is to hold it by that.
    pub fn refuse_holds(&self, commits: &Commits, opened: &Done, flags: u32) -> Result<(), Errno> {
        let Done::File(state) = opened else { return Ok(()) };
        if !may_write(flags) || !self.may_be_held(state) {
            return Ok(());
        }
        let file = state.file;
        if let Some(open) = commits.files.find(file) {
            commits.clear(&open)?;
        }
        let refused = commits.carry_out_own(&Caller::default(), Operation::Lock { file, request: hold::refusal() });
        if refused.is_err() {
            commits.carry_out_own(&Caller::default(), Operation::Close { file, handle: 0 })?;
        }
        refused.map_err(|errno| if errno == Errno::EAGAIN { Errno::EBUSY } else { errno })
    }

    /// Whether a file that is not below a prefix may have a name below one.
    fn may_be_held(&self, state: &FileState) -> bool {
        state.attributes.kind() == Kind::File && state.attributes.nlink > 1 && !self.are_none()
    }

    /// Refuses truncation without a descriptor of a file that a node holds.
    pub fn refuse_held(&self, reader: &Reader, request: &Request<'_>, new: &NewAttributes) -> Result<(), Errno> {
        if new.size_bytes.is_none() || new.handle.is_some() || self.are_none() {
            return Ok(());
        }
        let file = file_of(request.node);
        if !self.may_be_held(&reader.tree.state(file)?) {
            return Ok(());
        }
        let held = reader.tree.lock_in_the_way(file, hold::any())?;
        if held.is_some_and(|held| hold::is_hold(&held)) { Err(Errno::EBUSY) } else { Ok(()) }
    }
}
