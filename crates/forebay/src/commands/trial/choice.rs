//! The command of a trial, and the tree that lies on the modelled file system.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use forebay_trial::scratch::temporary;

use crate::cli::TryArguments;
use crate::output::quoted_path;
use crate::search_path::find_program;
use crate::settings::UsageError;

/// Directories whose programs read most from the machine's own system.
const OF_SYSTEM: [&str; 3] = ["/", "/usr", "/usr/local"];

/// Directories that no other may cover.
const OF_KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

/// Directories that are read where there is no Python.
const TO_READ: [&str; 4] = ["/usr/share", "/usr/lib", "/usr/bin", "/etc"];

/// A start-up of a few hundred files: modules of the standard library that need no other package.
const IMPORTS: &str = "import importlib\nfor name in '''argparse asyncio bz2 calendar cgi cmd code codecs configparser concurrent.futures \
    csv ctypes curses dataclasses datetime dbm decimal difflib dis doctest email.mime.multipart email.mime.text ensurepip filecmp fileinput \
    fractions ftplib getpass gettext glob graphlib gzip hashlib hmac html.parser http.client http.cookiejar http.server imaplib \
    importlib.metadata inspect ipaddress json json.tool locale logging.config logging.handlers lzma mailbox mimetypes multiprocessing.pool \
    multiprocessing.managers netrc numbers optparse pathlib pdb pickle pickletools pkgutil platform plistlib poplib pprint profile pstats \
    pydoc queue quopri random rlcompleter sched secrets selectors shelve shlex shutil smtplib socketserver sqlite3 ssl statistics string \
    subprocess sysconfig tabnanny tarfile tempfile textwrap timeit tomllib trace traceback tracemalloc turtledemo typing unittest.mock \
    urllib.request urllib.robotparser uuid venv wave weakref webbrowser wsgiref.simple_server xml.dom.minidom xml.etree.ElementTree \
    xml.sax.expatreader xmlrpc.client xmlrpc.server zipapp zipfile zoneinfo'''.split():\n try: importlib.import_module(name)\n \
    except ImportError: pass\n";

/// A question to a Python.
const WHERE: &str = "import sys, sysconfig\nprint(sys.executable, sys.prefix, sysconfig.get_path('stdlib'), sep='\\n')";

/// A command and its tree.
#[derive(Debug)]
pub struct Choice {
    /// The program as an absolute path, and its arguments.
    pub command: Vec<OsString>,
    /// The command in words.
    pub described: String,
    /// Without links.
    pub tree: PathBuf,
}

/// A command that cannot be run.
#[derive(Debug, thiserror::Error)]
#[error("{program}: {}", if *is_there { "it cannot be run: it is no program, or you may not execute it" } else { "no such command; name one by its path, or one in PATH" })]
pub struct NotRunnable {
    program: String,
    /// Whether there is such a file.
    pub is_there: bool,
}

impl Choice {
    /// The user's, else one that this machine can run.
    ///
    /// # Errors
    /// `NotRunnable`; `UsageError` for a tree that is none or cannot be found out.
    pub fn of(arguments: &TryArguments) -> anyhow::Result<Self> {
        let Some(name) = arguments.command.first() else { return without_command(arguments.tree.as_deref()) };
        let program = runnable(name)?;
        let found = match &arguments.tree {
            Some(tree) => Some(tree.clone()),
            None => tree_of(&program, &arguments.command[1..]),
        };
        let tree = found.ok_or_else(|| {
            let name = name.to_string_lossy();
            UsageError(format!("it is not known which files {name} reads: name their directory with --tree DIR"))
        })?;
        let words: Vec<String> = arguments.command.iter().map(|word| quoted_path(Path::new(word))).collect();
        let rest = arguments.command[1..].iter().cloned();
        let command = std::iter::once(program.into_os_string()).chain(rest).collect();
        Ok(Self { command, described: words.join(" "), tree: checked(&tree)? })
    }
}

fn runnable(name: &OsStr) -> anyhow::Result<PathBuf> {
    let found = find_program(name, std::env::var_os("PATH"));
    let is_program = |path: &PathBuf| path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
    match found.filter(is_program) {
        Some(program) => Ok(program),
        None => {
            Err(NotRunnable { program: name.to_string_lossy().into_owned(), is_there: Path::new(name).exists() }.into())
        }
    }
}

fn without_command(tree: Option<&Path>) -> anyhow::Result<Choice> {
    if let Some(tree) = tree {
        return reading(checked(tree)?);
    }
    let python = find_program("python3".as_ref(), std::env::var_os("PATH")).and_then(|program| Python::ask(&program));
    if let Some(python) = python
        && let Ok(tree) = checked(&python.library)
    {
        // Isolated: neither the user's variables nor packages are read.
        let words = [python.executable.as_os_str(), "-I".as_ref(), "-S".as_ref(), "-c".as_ref(), IMPORTS.as_ref()];
        let command = words.map(OsStr::to_owned).to_vec();
        return Ok(Choice { command, described: "python3 imports its standard library".to_owned(), tree });
    }
    let tree = TO_READ.iter().find_map(|path| checked(Path::new(path)).ok());
    reading(tree.context(
        "this machine has no Python and none of the usual directories; name a command: forebay try -- COMMAND",
    )?)
}

/// Files are read by this program itself.
fn reading(tree: PathBuf) -> anyhow::Result<Choice> {
    let forebay = std::env::current_exe().context("the path of this command is not known")?;
    let described = format!("reading files of {}", tree.display());
    let command =
        [forebay.as_os_str(), "try".as_ref(), "--read".as_ref(), tree.as_os_str()].map(OsStr::to_owned).to_vec();
    Ok(Choice { command, described, tree })
}

/// The places of a Python.
struct Python {
    executable: PathBuf,
    prefix: PathBuf,
    library: PathBuf,
}

impl Python {
    fn ask(program: &Path) -> Option<Self> {
        let output =
            Command::new(program).args(["-c", WHERE]).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        let mut lines = text.lines().map(PathBuf::from);
        Some(Self { executable: lines.next()?, prefix: lines.next()?, library: lines.next()? })
    }
}

/// The directory that holds what a command reads, as far as its program, the environment and its arguments tell.
fn tree_of(program: &Path, arguments: &[OsString]) -> Option<PathBuf> {
    let is_own = |path: &PathBuf| path.is_dir() && !OF_SYSTEM.iter().any(|system| path == Path::new(system));
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with("python")
        && let Some(python) = Python::ask(program)
    {
        return Some(if is_own(&python.prefix) { python.prefix } else { python.library });
    }
    let bin = program.parent().filter(|directory| directory.ends_with("bin"));
    let prefix = bin.and_then(Path::parent).map(Path::to_owned).filter(is_own);
    let active = || {
        let set = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(std::env::var_os);
        set.map(PathBuf::from).find(is_own)
    };
    let named = || arguments.iter().find_map(|argument| directory_of(Path::new(argument)));
    prefix.or_else(active).or_else(named)
}

/// The directory itself, or that of a file.
fn directory_of(argument: &Path) -> Option<PathBuf> {
    let path = argument.canonicalize().ok()?;
    if path.is_dir() { Some(path) } else { path.parent().map(Path::to_owned) }
}

/// The tree without links, if another one may cover it.
fn checked(tree: &Path) -> anyhow::Result<PathBuf> {
    let wrong = |why: String| UsageError(format!("--tree {}: {why}", tree.display()));
    let path = tree.canonicalize().map_err(|error| wrong(error.to_string()))?;
    if !path.is_dir() {
        return Err(wrong("it is not a directory".to_owned()).into());
    }
    let own = temporary().canonicalize().unwrap_or_else(|_| temporary());
    let covered = OF_KERNEL.iter().map(PathBuf::from).chain([own]).find(|covered| covered.starts_with(&path));
    if let Some(covered) = covered {
        let why = format!("it holds {}, which the trial itself needs; name a directory below it", covered.display());
        return Err(wrong(why).into());
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_the_prefix_of_the_program_else_a_path_among_the_arguments() {
        let soft = tempfile::tempdir().unwrap();
        let root = soft.path().canonicalize().unwrap();
        let program = root.join("bin/solver");
        std::fs::create_dir(root.join("bin")).unwrap();
        std::fs::write(&program, "").unwrap();
        assert_eq!(tree_of(&program, &[]), Some(root.clone()));
        let words = ["-r", "x", root.join("bin/solver").to_str().unwrap()].map(OsString::from);
        if std::env::var_os("VIRTUAL_ENV").is_none() && std::env::var_os("CONDA_PREFIX").is_none() {
            assert_eq!(tree_of(Path::new("/usr/bin/grep"), &words), Some(root.join("bin")));
            assert_eq!(tree_of(Path::new("/usr/bin/grep"), &words[..1]), None);
        }
    }

    #[test]
    fn a_tree_may_not_cover_what_the_trial_needs() {
        assert!(checked(Path::new("/")).unwrap_err().to_string().contains("it holds /dev"));
        assert!(checked(&temporary()).unwrap_err().is::<UsageError>());
        assert!(checked(Path::new("/nowhere")).unwrap_err().is::<UsageError>());
        assert_eq!(checked(Path::new("/etc")).unwrap(), Path::new("/etc"));
    }

    #[test]
    fn a_command_that_is_none_is_told_from_one_that_is_no_program() {
        let is_there = |name: &str| runnable(name.as_ref()).unwrap_err().downcast::<NotRunnable>().unwrap().is_there;
        assert!(!is_there("no-such-command"));
        assert!(is_there("/etc/passwd"));
        assert!(runnable("sh".as_ref()).unwrap().is_absolute());
    }
}
