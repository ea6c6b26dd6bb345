//! Fragments of SQL plans over files that this node holds, carried out by `forebay-sql`.
//!
//! The daemon does not know what a plan says. It looks whether this node holds the files in the versions that are meant,
//! starts the program, which reads no other files, tells it where they lie, and carries its answer back. One fragment at a time: the program
//! takes all processors. It changes nothing, so it may be asked of several nodes, and again.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use forebay_types::{Errno, ViewPath};
use forebay_wire::QueryFragment;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;

use super::program::sql_program;

/// Fragments that wait for the one that is carried out.
const WAITING_MAX: usize = 64;

/// Bytes of an answer: partials of groups, or rows that a filter left. A query whose answers are larger is not for partials.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// The part of a failed program's error output that is kept, bytes.
const COMPLAINT_BYTES_MAX: u64 = 4096;

/// The turn of fragments.
pub struct Fragments {
    turn: Semaphore,
    waiting: AtomicUsize,
}

impl Default for Fragments {
    fn default() -> Self {
        Self { turn: Semaphore::new(1), waiting: AtomicUsize::new(0) }
    }
}

impl Fragments {
    /// Has a fragment carried out over files of which `places` says where they lie, and whether this node holds all of them; whoever
    /// drops this ends it.
    pub async fn make<F: Future<Output = Result<Vec<PathBuf>, Errno>>>(
        &self,
        fragment: &QueryFragment,
        places: impl Fn() -> F,
    ) -> Result<Bytes, Errno> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Errno::EBUSY);
        }
        let _end = OnDrop(&self.waiting);
        let _turn = self.turn.acquire().await.map_err(|_| Errno::EIO)?;
        let made = carry_out(fragment, &places().await?).await?;
        // It read the versions that are meant.
        places().await?;
        Ok(made)
    }
}

struct OnDrop<'a>(&'a AtomicUsize);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Has the program carry it out.
async fn carry_out(fragment: &QueryFragment, places: &[PathBuf]) -> Result<Bytes, Errno> {
    let program = sql_program().ok_or(Errno::ENOSYS)?;
    let files: Option<Vec<_>> =
        fragment.files.iter().zip(places).map(|((file, _), at)| Some(json!([text(file)?, at.to_str()?]))).collect();
    let question = serde_json::to_vec(&json!({"files": files.ok_or(Errno::EINVAL)?})).map_err(|_| Errno::EINVAL)?;
    let mut child = start(&program)?;
    let (Some(mut input), Some(output), Some(complaint)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(Errno::EIO);
    };
    let asked = async {
        for part in [&question, &fragment.plan] {
            input.write_u32(part.len() as u32).await?;
            input.write_all(part).await?;
        }
        input.flush().await
    };
    let (mut answer, mut said) = (Vec::new(), Vec::new());
    let mut output = output.take(ANSWER_BYTES_MAX + 1);
    let mut complaint = complaint.take(COMPLAINT_BYTES_MAX);
    // One that fails early reads no question.
    let (_asked, answered, _) = tokio::join!(asked, output.read_to_end(&mut answer), complaint.read_to_end(&mut said));
    if answer.len() as u64 > ANSWER_BYTES_MAX {
        return Err(Errno::EFBIG);
    }
    // Until now, it would have ended with us.
    drop(input);
    let ended = child.wait().await;
    match (answered, ended) {
        (Ok(_), Ok(status)) if status.success() => Ok(Bytes::from(answer)),
        _ => {
            tracing::warn!("a fragment of a query: {}", String::from_utf8_lossy(&said).trim());
            Err(Errno::EIO)
        }
    }
}

fn start(program: &Path) -> Result<Child, Errno> {
    let mut command = Command::new(program);
    command.arg("worker").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command.spawn().map_err(|error| {
        tracing::warn!(program = %program.display(), %error, "a fragment of a query");
        Errno::ENOSYS
    })
}

/// A file's absolute path, if it is text.
fn text(file: &ViewPath) -> Option<String> {
    std::str::from_utf8(file.as_bytes()).ok().map(|path| format!("/{path}"))
}
