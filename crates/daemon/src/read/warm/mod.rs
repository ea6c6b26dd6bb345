//! Warm-up: data are brought to the nodes before programs ask for them, and what a program says that it reads next.
//!
//! A file is brought to its homes by asking each for its share (`JobMessage::Keep`), which costs the asking node no bytes; or to every
//! node's kernel, which reads it through its view (`JobMessage::ReadFile`), so that the nodes send each chunk on to each other. What is
//! there already costs a question. Nothing is stopped half way: who warms up again after an interruption goes on.

mod announced;
mod found;
mod reader;
mod session;
mod spread;

pub use announced::Announced;
pub use reader::Reader;
pub use session::{Mode, run};
pub use spread::keep;
