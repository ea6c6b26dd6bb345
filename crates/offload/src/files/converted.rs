//! Parquet as a table of text: `forebay-sql` reads it, and writes its rows as CSV into a pipe.
//!
//! The library that knows the format brings C, which this program is spared. Rows come in the order of the file, so an answer has the same
//! bits each time. Numbers are written so that they are read as the same doubles. An end without success is an error: a part of the rows
//! is never taken for all of them.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};
use forebay_query::shown_name;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::program::sql_program;

/// Bytes of what the program says that are looked at.
const SAID_BYTES_MAX: usize = 64 << 10;

/// Before each line about a column that has no place in a table of text.
const LEFT_OUT: &str = "left out: ";

/// Whether a file is Parquet. The first page's header is behind the letters; in a table of text, more text is.
pub fn is_parquet(beginning: &[u8]) -> bool {
    matches!(beginning, [b'P', b'A', b'R', b'1', next, ..] if next.is_ascii_control() && !next.is_ascii_whitespace())
}

/// A file on its way through the program.
pub struct Converted {
    name: String,
    program: Child,
    rows: ChildStdout,
    said: File,
    is_ended: bool,
}

impl Converted {
    /// From the first row on.
    ///
    /// # Errors
    /// The program is not there, or cannot be started.
    pub fn start(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let program = sql_program().with_context(|| {
            format!(
                "{name} is Parquet, which forebay-sql reads, and that was found neither beside forebay nor in PATH; make build-sql builds it"
            )
        })?;
        let said = File::from(memfd_create("forebay-sql", MemfdFlags::CLOEXEC).context("no memory for messages")?);
        let to = said.try_clone().context("no memory for messages")?;
        let path = std::fs::canonicalize(path).with_context(|| name.clone())?;
        let mut command = Command::new(&program);
        command.arg("rows").arg(path).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(to);
        let mut started =
            command.spawn().with_context(|| format!("{name}: {} cannot be started", program.display()))?;
        let rows = started.stdout.take().context("no pipe to forebay-sql")?;
        Ok(Self { name, program: started, rows, said, is_ended: false })
    }

    /// Fills some of a buffer that has room; 0 at the end.
    ///
    /// # Errors
    /// The file cannot be read as Parquet.
    pub fn read(&mut self, buffer: &mut [u8]) -> anyhow::Result<usize> {
        loop {
            match self.rows.read(buffer) {
                Ok(0) => return self.end().map(|()| 0),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read.with_context(|| self.name.clone()),
            }
        }
    }

    fn end(&mut self) -> anyhow::Result<()> {
        let status = self.program.wait().context("the end of forebay-sql")?;
        self.is_ended = true;
        if !status.success() {
            let said = self.said();
            let why: Vec<&str> = said.lines().filter(|line| !line.starts_with(LEFT_OUT)).collect();
            let why = why.join("\n");
            if why.is_empty() {
                bail!("{}: forebay-sql, which reads Parquet, ended with {status}", self.name);
            }
            bail!("{}: {}", self.name, why.trim_start_matches("forebay-sql: "));
        }
        Ok(())
    }

    /// Its columns that are left out, each with a reason. They are known when the first row is.
    pub fn left_out(&self) -> Vec<String> {
        self.said().lines().filter_map(|line| line.strip_prefix(LEFT_OUT)).map(shown_name).collect()
    }

    fn said(&self) -> String {
        let mut bytes = vec![0; SAID_BYTES_MAX];
        let len = self.said.read_at(&mut bytes, 0).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    }
}

impl Drop for Converted {
    fn drop(&mut self) {
        if !self.is_ended {
            drop((self.program.kill(), self.program.wait()));
        }
    }
}
