//! Service for programs of this node: the kernel's requests on the burst mount.

mod allocating;
mod by_number;
pub mod close_retry;
pub mod committing;
mod creating;
pub mod directories;
mod extended;
pub mod freeze;
pub mod joined;
pub mod kernel;
pub mod listings;
pub mod locks;
pub mod requests;
pub mod reserved;
pub mod room;
mod seeking;
mod serving;
mod setting_locks;
mod writing;
