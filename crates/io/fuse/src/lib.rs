//! The kernel's FUSE protocol, spoken directly: mounting, requests, replies, notifications.
//!
//! A thin layer of our own over `/dev/fuse` (docs/adr/0001-own-fuse-layer.md says why): it decodes what a file system
//! is asked, writes replies straight from the cache's buffers, and holds no policy: what is answered, and for how
//! long the kernel may believe it, is the handler's.
//!
//! A process must not keep files open on a mount that it serves itself: if it is killed, the kernel closes them at its
//! end, asks for a FLUSH that nobody can answer any more, and the process never ends (seen on Linux 6.18; only
//! `/sys/fs/fuse/connections/N/abort` frees it). The same holds for a child between its fork and its exec.
//!
//! ```no_run
//! use std::sync::Arc;
//! use forebay_fuse::{MountOptions, Reply, Request, Session, SessionOptions, mount};
//!
//! let mount = mount("/tmp/view".as_ref(), &MountOptions::default())?;
//! let handler = Arc::new(|request: Request<'_>, reply: Reply| reply.error(request.operation.default_error()));
//! let session = Session::start(mount.descriptor(), &SessionOptions::default(), handler)?;
//! mount.unmount()?;
//! session.wait();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod abi;
mod arguments;
mod buffer;
mod change;
mod connection;
mod counts;
mod descriptor_passing;
mod device;
mod directory;
mod entry;
mod free_intakes;
mod fusermount;
mod handler;
mod handshake;
mod init;
mod interrupts;
mod invalidator;
mod kept_requests;
pub mod limits;
mod mount;
mod mount_table;
mod notify;
mod options;
mod owned_request;
mod reply;
mod request;
mod session;
mod shared_memory;
mod tasks;
mod waiting_threads;
mod wake;

pub use abi::{init_flag, ioctl_flag, open_flag};
pub use change::{Change, Lock, NewAttributes, NewTime};
pub use connection::Connection;
pub use counts::MessageCounts;
pub use device::ProcessKernel;
pub use directory::DirectoryBuffer;
pub use entry::Entry;
pub use handler::Handler;
pub use handshake::agree;
pub use init::Negotiated;
pub use interrupts::Interruption;
pub use invalidator::serve as serve_invalidations;
pub use kept_requests::KeptRequests;
pub use mount::{
    Mount, MountError, MountPointFault, detach, detach_mount, end_mount, is_stale, mount, mount_by_fusermount,
};
pub use mount_table::{MountedAt, is_mount_point, mounted_type, open_place, resolve};
pub use notify::Notifier;
pub use options::{Access, MountOptions, SessionOptions};
pub use owned_request::OwnedRequest;
pub use reply::Reply;
pub use request::{Forgets, Malformed, Operation, Request, decode};
pub use session::Session;
pub use shared_memory::{SharedMemory, create_shared_memory, shared_memory_bytes};
pub use tasks::Task;

/// The node number of a mount's root.
pub const ROOT_NODE: u64 = 1;
