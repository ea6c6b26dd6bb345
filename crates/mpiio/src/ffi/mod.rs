//! The functions that the C shim calls (`shim/core.h` has the same in C). They take no decisions.
//!
//! Pointers are the shim's promise: each function says what it needs of them. A panic ends the process (`panic = "abort"`),
//! so none crosses into C.

mod datatypes;
mod declared;
mod files;
mod mpi_group;
mod raw;
