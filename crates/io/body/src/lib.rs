//! The bytes of an answer while they arrive.
//!
//! A `Body` is filled by one side, piece by piece, and read by any number of followers at once: the kernel's readers,
//! the children it is forwarded to, the cache that keeps it. Pieces are shared `Bytes`, never copied again, so a chunk
//! is forwarded while it arrives and answered to the kernel from the buffer it was received in. `Pool` hands out the
//! buffers: fresh allocations of bodies cost as much CPU as the copy.

mod body;
mod live;
mod piece;
mod pool;

pub use body::{Body, Slices};
pub use live::LiveBytes;
pub use piece::Piece;
pub use pool::{Pool, PooledBuffer};
