//! Queries near the data: which end answers, and which node makes which piece.
//!
//! `files` reads a file block by block for the core (`forebay_query`), on a node as on the host that asks. `messages` is the
//! exchange with the daemon of the host, which carries requests to the nodes that hold a file. `dealing` deals `pieces` out to
//! them and to the host, whatever the pieces are: parts of `several` files (`dealt`), or blocks of a column.
//! `makers` are the nodes that can read a file; `ends` chooses between them and the host, as `weighed`, by what `speeds` and
//! `processors` say of either; `column` is the second pass, which normalises.
//!
//! The crate finds no job, prints nothing, and knows no SQL: the command and `forebay-sql` do.

pub mod arrays;
mod column;
mod contents;
mod dealing;
mod dealt;
mod ends;
pub mod files;
mod makers;
mod messages;
mod packing;
mod pieces;
mod processors;
mod program;
mod several;
mod speeds;
mod weighed;

pub use column::{Answered, Destination, Reread, Written};
pub use dealing::{Dealing, HostPart, Made};
pub use ends::{Collector, FileAt, MakersOf, Makings, Place, TakeState};
pub use makers::Makers;
pub use messages::{
    AskedColumn, AskedDraft, AskedFile, AskedJoin, AskedPart, AskedPlaces, AskedStream, FileHolders, FilesHolders,
    HOLDERS_FILES_MAX, HOLDERS_TIMEOUT, HeldFile, Holder, Holds, JobNode, NodeFiles, PLACES_FILES_MAX,
    files_holders_request, holders_request, request, text_of,
};
pub use pieces::{Nodes, Pieces};
pub use program::sql_program;
pub use speeds::{Speed, Speeds};
