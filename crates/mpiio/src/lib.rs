//! Aggregation for MPI-IO: collective calls of many ranks become few large requests at the file.
//!
//! This crate is the part without MPI. It takes datatypes apart (`flat`, `array`), holds the bytes of write calls
//! (`held_calls`), decides with all ranks what becomes of a call (`file`, `choice`), and whether holding it is worth anything and
//! right (`following`, `hulls`), plans who writes what (`plan`), moves the bytes (`exchange` for writes, `gather` for reads) and does
//! the I/O of the aggregators (`storage`). The MPI functions that it needs are in
//! `group`. The C sources in `shim/` are compiled once for each MPI; they own every constant, handle and `MPI_` call, and
//! are the only users of `ffi`. Together they are the libraries that `packaging/mpiio.sh` builds.
//!
//! This crate starts no thread. The shim has one, which makes no MPI call: it writes bytes that were held for too long.

pub mod array;
pub mod beside;
pub mod choice;
pub mod config_list;
pub mod error;
pub mod exchange;
mod ffi;
pub mod file;
pub mod flat;
pub mod following;
pub mod gather;
pub mod group;
pub mod held_calls;
pub mod hints;
pub mod hulls;
pub mod layout;
pub mod mark;
pub mod memory;
pub mod message;
pub mod missing;
pub mod network;
pub mod opening;
pub mod outcome;
pub mod plan;
pub mod record;
mod report;
mod say;
pub mod share;
pub mod storage;
pub mod view;
