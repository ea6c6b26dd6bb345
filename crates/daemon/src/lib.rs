//! The daemon of one node: the core, and the shells that carry out what it decides.
//!
//! `service` holds the core, `effects` hands its decisions on; `kernel` brings the kernel's requests in and its answers
//! out, `peers` other nodes'; `fetch` carries questions to a parent or to the backing file system; `job` is what
//! concerns the job as a whole (status, shutdown, explain, probe), `control` the socket by which the command asks for
//! it, `ioctl` the same for programs on the view; `interrupts` ends the requests of programs that are killed. Hits are
//! answered on the thread that reads the kernel's request; everything else runs on one network thread, and what may block
//! on threads that are bounded in number.
//!
//! A daemon has a keeper (`forebay_keeper`), which gives it the mount and the sockets, and starts another when it dies.

mod control;
mod directory;
mod effects;
mod entry;
mod fetch;
mod gather;
mod interrupts;
mod ioctl;
mod job;
mod kernel;
mod ledger;
mod metrics;
mod notify;
mod options;
mod peers;
mod prefill;
mod pressure;
mod readiness;
mod refresh;
mod run;
mod service;
mod waiting;
mod walk;

pub use options::{DaemonOptions, Plan, ProfileOptions, ProfilePlace, ReportOptions, ShownLinks};
pub use run::run;
pub use walk::walk;
