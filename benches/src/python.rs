//! The work that is measured: a heavy Python import, real and replayed.
//!
//! On two cores, eight interpreters hide the waiting for files behind their own computing; the replay issues the same
//! file operations without it and shows the file system alone.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use forebay_testkit::Place;
use forebay_testkit::run;

/// The import, as a user would type it.
pub const IMPORT: &str = "import sklearn.ensemble, pandas, scipy.stats, matplotlib.pyplot";

/// The output of one replay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replayed {
    /// Wall time of the operations.
    pub seconds: f64,
    /// Processor time of the operations, user and system.
    pub cpu_seconds: f64,
    /// Operations, the absent ones included.
    pub operations: u64,
    /// Operations on paths that do not exist.
    pub absent: u64,
    /// Bytes read.
    pub bytes: u64,
}

/// The part of the tree that the replay touches.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Touched {
    /// Distinct files read.
    pub files: u64,
    /// Bytes the replay reads of them, each once.
    pub bytes: u64,
    /// The same, each file's share rounded up to whole chunks of 1 MiB or to its end.
    pub chunk_bytes: u64,
    /// The sizes of these files.
    pub file_bytes: u64,
    /// The distinct directories in which they lie.
    pub directories: u64,
}

/// The program of the tree that `benches/demo/tree.py` makes, in it.
const PROGRAM: &str = "program.py";

/// The interpreter and the replay program.
#[derive(Clone)]
pub struct Python {
    interpreter: PathBuf,
    replay: PathBuf,
}

impl Python {
    /// Finds the interpreter behind `python3` (which may be a wrapper that costs more than what is measured).
    ///
    /// # Errors
    /// When there is none, or `replay` is missing.
    pub fn find(replay: &Path) -> anyhow::Result<Self> {
        let ask = ["python3", "-c", "import sys; print(sys.executable)"];
        let interpreter = run::output(&mut Place::here().command(&ask)).context("needs python3")?;
        let replay = replay.canonicalize().with_context(|| format!("no replay program at {}", replay.display()))?;
        Ok(Self { interpreter: interpreter.trim_end().into(), replay })
    }

    /// The replay over `tree`.
    #[must_use]
    pub fn replay(&self, tree: &Path) -> Vec<OsString> {
        vec![self.interpreter.clone().into(), self.replay.clone().into(), tree.into()]
    }

    /// The real import from `tree`. The interpreter itself and its own library are the machine's.
    #[must_use]
    pub fn import(&self, tree: &Path) -> Vec<OsString> {
        let mut path = OsString::from("PYTHONPATH=");
        path.push(tree);
        vec![
            "env".into(),
            path,
            // As root, Python could write byte code next to the sources, and the second run would differ.
            "PYTHONDONTWRITEBYTECODE=1".into(),
            // Matplotlib would look for a display and keep a cache of fonts in the home directory.
            "MPLBACKEND=agg".into(),
            self.interpreter.clone().into(),
            "-c".into(),
            IMPORT.into(),
        ]
    }

    /// The program that `tree` holds, with `tree` for Python's whole library: only the interpreter is the machine's. The program
    /// fails if it has read a module from elsewhere.
    #[must_use]
    pub fn program(&self, tree: &Path) -> Vec<OsString> {
        let variable = |name: &str, value: &Path| {
            let mut text = OsString::from(name);
            text.push(value);
            text
        };
        vec![
            "env".into(),
            variable("PYTHONHOME=", tree),
            variable("PYTHONPATH=", &tree.join("modules")),
            "PYTHONNOUSERSITE=1".into(),
            "PYTHONDONTWRITEBYTECODE=1".into(),
            // In a virtual environment the interpreter is a link, beside which Python would look for another library.
            self.interpreter.canonicalize().unwrap_or_else(|_| self.interpreter.clone()).into(),
            tree.join(PROGRAM).into(),
        ]
    }

    /// `script`, with `arguments`.
    #[must_use]
    pub fn script(&self, script: &Path, arguments: &[OsString]) -> Vec<OsString> {
        let words = [self.interpreter.clone().into(), script.into()];
        words.into_iter().chain(arguments.iter().cloned()).collect()
    }

    /// Measures what the replay touches below `tree`.
    ///
    /// # Errors
    /// When the replay program fails.
    pub fn touched(&self, tree: &Path) -> anyhow::Result<Touched> {
        let mut argv = self.replay(tree);
        argv.push("--touched".into());
        let mut command: Command = Place::here().command(&argv);
        serde_json::from_str(&run::output(&mut command)?).context("the replay's own account")
    }
}

/// The slowest of the replays that printed `outputs`.
///
/// # Errors
/// When one printed something else.
pub fn slowest(outputs: &[String]) -> anyhow::Result<Replayed> {
    let mut all = outputs
        .iter()
        .map(|text| serde_json::from_str::<Replayed>(text).with_context(|| format!("not a replay's line: {text}")))
        .collect::<Result<Vec<_>, _>>()?;
    all.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    all.pop().context("no replay ran")
}
