//! The file of a plot: begun before the query reads, so that a place where nothing can be written costs no pass, and written when
//! that has an answer. A file that was there before stays until then.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use forebay_offload::files::{FileSource, Unfinished};

use crate::commands::query::answer::Answer;
use crate::commands::query::plots::plot;

/// A plot that is not drawn yet.
pub struct PlotFile {
    /// As asked: its name decides the format.
    asked: PathBuf,
    to: Place,
}

enum Place {
    /// A regular file, which appears or changes whole.
    File(Unfinished),
    /// A pipe or a device, which takes bytes.
    Stream(File),
}

impl PlotFile {
    /// One that is to lie at `path`.
    ///
    /// # Errors
    /// It cannot be written there, or the query reads or writes that file.
    pub fn begin(path: &Path, sources: &[FileSource], outputs: &[PathBuf]) -> anyhow::Result<Self> {
        let not_plotted = || not_plotted(path);
        let (output, mode) = match fs::metadata(path) {
            Ok(metadata) if !metadata.is_file() => {
                let stream = OpenOptions::new().write(true).open(path).with_context(not_plotted)?;
                return Ok(Self { asked: path.to_owned(), to: Place::Stream(stream) });
            }
            // A link stays one.
            Ok(metadata) => {
                (fs::canonicalize(path).with_context(not_plotted)?, Some(metadata.permissions().mode() & 0o777))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => (path.to_owned(), None),
            Err(error) => return Err(error).with_context(not_plotted),
        };
        let is_it = |other: &Path| fs::canonicalize(other).is_ok_and(|other| other == output);
        let read = sources.iter().map(FileSource::path);
        if read.chain(outputs.iter().map(PathBuf::as_path)).any(|other| is_it(other) || other == path) {
            bail!("{} is read or written by this query; choose another name with --plot", path.display());
        }
        let file = Unfinished::create(&output, mode).with_context(not_plotted)?;
        Ok(Self { asked: path.to_owned(), to: Place::File(file) })
    }

    /// Writes the plot of an answer.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self, answer: &Answer) -> anyhow::Result<()> {
        let drawn = plot(answer, &self.asked);
        match self.to {
            Place::File(mut file) => file.write(&drawn).and_then(|()| file.finish()),
            Place::Stream(mut stream) => stream.write_all(&drawn).map_err(anyhow::Error::from),
        }
        .with_context(|| not_plotted(&self.asked))
    }
}

fn not_plotted(path: &Path) -> String {
    format!("the plot cannot be written to {}", path.display())
}
