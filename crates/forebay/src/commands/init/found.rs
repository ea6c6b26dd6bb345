//! The paths of a site as far as this machine tells: the command itself, exports, and disks of nodes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::cli::InitArguments;
use crate::output::quoted_path;
use crate::search_path::find_program;

/// Variables of environments with software that all nodes read.
const ENVIRONMENTS: [&str; 2] = ["VIRTUAL_ENV", "CONDA_PREFIX"];

/// Variables by which sites name a directory of a user or a project on the parallel file system.
const BACKINGS: [&str; 3] = ["SCRATCH", "WORK", "PROJECT"];

/// Prefixes whose programs are on each node's own disk already.
const OF_NODES: [&str; 3] = ["/", "/usr", "/usr/local"];

/// A disk of each node that sites have at a fixed place.
const LOCAL_SCRATCH: &str = "/local/scratch";

/// The paths that were found.
pub struct Found {
    /// This command.
    pub forebay: PathBuf,
    /// The directories to export; none means the whole file system.
    pub exports: Vec<PathBuf>,
    /// A directory of the parallel file system, as a shell writes it.
    pub backing: Option<String>,
    /// The burst store, as a shell writes it, within double quotes.
    pub store: String,
}

impl Found {
    /// The paths on this machine.
    pub fn here(arguments: &InitArguments) -> anyhow::Result<Self> {
        let forebay = std::env::current_exe().context("the path of this command is not known")?;
        let variable = |name: &str| std::env::var_os(name).filter(|text| !text.is_empty());
        let exports = if arguments.export.is_empty() {
            exports(&variable, arguments.command.first().map(String::as_str))
        } else {
            arguments.export.clone()
        };
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect::<Vec<_>>();
        let store = store(&variable, &names, Path::new(LOCAL_SCRATCH).is_dir());
        Ok(Self { forebay, exports, backing: backing(&variable), store })
    }

    /// Exports as words of a shell.
    pub fn exports_quoted(&self) -> String {
        self.exports.iter().map(|path| quoted_path(path)).collect::<Vec<_>>().join(" ")
    }
}

type Variable<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Environments that are active, and the prefix of the program's `bin`, each once.
fn exports(variable: Variable<'_>, program: Option<&str>) -> Vec<PathBuf> {
    let named = ENVIRONMENTS.iter().filter_map(|name| variable(name)).map(PathBuf::from).filter(|path| path.is_dir());
    let mut exports: Vec<PathBuf> = named.collect();
    let program = program.and_then(|program| find_program(program.as_ref(), variable("PATH")));
    let prefix = program.as_deref().filter(|path| path.is_file()).and_then(prefix_of);
    exports.extend(prefix.filter(|prefix| !OF_NODES.iter().any(|of_nodes| prefix == Path::new(of_nodes))));
    let mut kept: Vec<PathBuf> = Vec::new();
    for export in exports {
        if !kept.iter().any(|before| export.starts_with(before)) {
            kept.push(export);
        }
    }
    kept
}

/// `/soft/env` of `/soft/env/bin/python3`.
fn prefix_of(program: &Path) -> Option<PathBuf> {
    let directory = program.parent()?;
    (directory.file_name()? == "bin").then(|| directory.parent().map(Path::to_owned)).flatten()
}

fn backing(variable: Variable<'_>) -> Option<String> {
    let name = BACKINGS.iter().find(|name| variable(name).is_some_and(|path| Path::new(&path).is_dir()));
    name.map(|name| format!("${name}"))
}

/// By a variable that the scheduler sets in each job (a Rabbit's or DataWarp's directory, `$BBPATH`), else by a fixed place; else the
/// nodes look themselves.
fn store(variable: Variable<'_>, names: &[String], has_local_scratch: bool) -> String {
    // DataWarp's striped directory is one for all nodes.
    let of_job = |name: &&String| name.starts_with("DW_JOB_") && *name != "DW_JOB_STRIPED";
    let named = names.iter().find(of_job).map(String::as_str);
    let named = named.or_else(|| variable("BBPATH").is_some().then_some("BBPATH"));
    match named {
        Some(name) => format!("${{{name}:?}}/forebay-$USER"),
        None if has_local_scratch => format!("{LOCAL_SCRATCH}/forebay-$USER"),
        None => "auto".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, text)| (*text).into())
    }

    #[test]
    fn environments_that_exist_and_the_prefix_of_the_program_are_exported_once() {
        let soft = tempfile::tempdir().unwrap();
        let (env, bin) = (soft.path().join("env"), soft.path().join("tool/bin"));
        std::fs::create_dir_all(env.join("bin")).unwrap();
        std::fs::create_dir_all(&bin).unwrap();
        for program in [env.join("bin/python3"), bin.join("solver")] {
            std::fs::write(program, "").unwrap();
        }
        let pairs = [("VIRTUAL_ENV", env.to_str().unwrap()), ("CONDA_PREFIX", "/nowhere/conda")];
        let with = |program: PathBuf| exports(&of(&pairs), program.to_str());
        assert_eq!(with(env.join("bin/python3")), std::slice::from_ref(&env));
        assert_eq!(with(bin.join("solver")), [env.clone(), soft.path().join("tool")]);
        assert!(exports(&of(&[]), Some("/usr/bin/env")).is_empty(), "it is on each node's own disk");
    }

    #[test]
    fn a_store_is_named_by_the_jobs_variable_before_a_fixed_place() {
        let names = ["DW_JOB_STRIPED", "DW_JOB_fast"].map(str::to_owned);
        assert_eq!(store(&of(&[("BBPATH", "/bb")]), &names, true), "${DW_JOB_fast:?}/forebay-$USER");
        assert_eq!(store(&of(&[("BBPATH", "/bb")]), &names[..1], true), "${BBPATH:?}/forebay-$USER");
        assert_eq!(store(&of(&[]), &[], true), "/local/scratch/forebay-$USER");
        assert_eq!(store(&of(&[]), &[], false), "auto");
    }

    #[test]
    fn a_backing_directory_is_one_that_exists() {
        assert_eq!(backing(&of(&[("SCRATCH", "/nowhere"), ("WORK", "/tmp")])), Some("$WORK".to_owned()));
        assert_eq!(backing(&of(&[("SCRATCH", "/nowhere")])), None);
    }
}
