//! Builds every program of tests and what tests need beside them, and counts what cargo compiled more than once.
//!
//! The programs come first: their build compiles every crate with every feature. The builds after it, and a user's own
//! `cargo build`, then find each crate from outside as it is; one that is compiled again has got other features
//! (`crates/features`), and that is an error.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::tree::root;

/// A program of tests, as cargo has built it.
#[derive(Clone, Debug)]
pub struct Program {
    /// `PACKAGE` for the tests within the sources of a library, else `PACKAGE::TARGET`.
    pub name: String,
    pub executable: PathBuf,
    /// Come before those of the harness.
    pub arguments: Vec<String>,
    /// Where cargo would run it.
    pub directory: PathBuf,
}

/// The program name of the examples in documentation.
const DOCUMENTATION: &str = "documentation";

/// Messages of cargo about a build.
struct Built {
    programs: Vec<Program>,
    /// Crates from outside that were compiled by it.
    compiled: Vec<String>,
}

/// Builds everything and returns the programs of tests.
pub fn all() -> Result<Vec<Program>, String> {
    let tests = cargo(&["test", "--workspace", "--no-run"])?;
    let library = ["rustc", "--package", "forebay-mpiio", "--lib", "--crate-type", "staticlib"];
    for words in [&["build", "--package", "forebay"][..], &library] {
        let compiled = cargo(words)?.compiled;
        if !compiled.is_empty() {
            let command = words.join(" ");
            let crates = compiled.join(", ");
            return Err(format!(
                "`cargo {command}` compiles crates again that the tests' build had compiled, with other features: {crates}; \
                 crates/features/Cargo.toml has to ask for them (`cargo xtask features` says which)"
            ));
        }
    }
    Ok(tests.programs.into_iter().chain([Program::documentation()]).collect())
}

/// Runs cargo, which shows its own progress and errors.
fn cargo(words: &[&str]) -> Result<Built, String> {
    let command = format!("cargo {}", words.join(" "));
    let cannot = |error: std::io::Error| format!("`{command}` cannot be run: {error}");
    let mut cargo = crate::cargo::command();
    cargo.args(words).arg("--message-format=json-render-diagnostics").current_dir(root());
    let mut child = cargo.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(cannot)?;
    let mut built = Built { programs: Vec::new(), compiled: Vec::new() };
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
        built.take(&line.map_err(cannot)?);
    }
    let status = child.wait().map_err(cannot)?;
    if status.success() {
        Ok(built)
    } else {
        Err(format!("`{command}` fails ({status}): the tests need what it builds"))
    }
}

impl Built {
    /// Reads a message of cargo's.
    fn take(&mut self, line: &str) {
        let Ok(message) = serde_json::from_str::<Value>(line) else { return };
        if message["reason"] != "compiler-artifact" {
            return;
        }
        let id = message["package_id"].as_str().unwrap_or_default();
        if !id.starts_with("path+") && message["fresh"] == Value::Bool(false) {
            self.compiled.push(id.rsplit(['/', '#']).next().unwrap_or(id).to_owned());
        }
        self.programs.extend(program(&message));
    }
}

fn program(message: &Value) -> Option<Program> {
    let executable = PathBuf::from(message["executable"].as_str()?);
    if message["profile"]["test"] != Value::Bool(true) {
        return None;
    }
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let (target, kind) = (message["target"]["name"].as_str()?, message["target"]["kind"][0].as_str()?);
    let package = package(message["package_id"].as_str()?);
    let name = if kind == "lib" || target == package { package.to_owned() } else { format!("{package}::{target}") };
    Some(Program { name, executable, arguments: Vec::new(), directory })
}

impl Program {
    /// The examples in documentation, which cargo builds and runs by itself.
    pub fn documentation() -> Self {
        let arguments = ["test", "--quiet", "--workspace", "--doc", "--"].map(str::to_owned).to_vec();
        Self {
            name: DOCUMENTATION.to_owned(),
            executable: crate::cargo::program().into(),
            arguments,
            directory: root(),
        }
    }

    /// Whether its tests are known only when they run.
    pub fn lists_no_tests(&self) -> bool {
        !self.arguments.is_empty()
    }
}

/// The name in `path+file:///a/b#0.1.0`, where the folder is called like the package, or in `path+file:///a/b#name@0.1.0`.
fn package(id: &str) -> &str {
    let (path, version) = id.rsplit_once('#').unwrap_or((id, ""));
    version.split_once('@').map_or_else(|| path.rsplit('/').next().unwrap_or(path), |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(lines: &[&str]) -> Built {
        let mut built = Built { programs: Vec::new(), compiled: Vec::new() };
        lines.iter().for_each(|line| built.take(line));
        built
    }

    #[test]
    fn programs_of_tests_are_found_among_the_messages() {
        let message = |package: &str, target: &str, kind: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///a/{package}","manifest_path":"/a/x/Cargo.toml",
                "target":{{"name":"{target}","kind":["{kind}"]}},"profile":{{"test":{test}}},"fresh":true,"executable":"/t/{target}"}}"#
            )
            .replace('\n', " ")
        };
        let lines = [
            message("tests#forebay-tests@0.1.0", "burst", "test", true),
            message("xtask#0.1.0", "xtask", "bin", true),
            message("cache#forebay-cache@0.1.0", "forebay_cache", "lib", true),
            message("forebay#0.1.0", "forebay", "bin", false),
            "warning: this is no message".to_owned(),
        ];
        let built = built(&lines.each_ref().map(String::as_str));
        let names: Vec<_> = built.programs.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["forebay-tests::burst", "xtask", "forebay-cache"]);
        assert_eq!(built.programs[0].directory, Path::new("/a/x"));
    }

    #[test]
    fn crates_from_outside_that_are_not_fresh_are_named() {
        let line = |id: &str, fresh: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"{id}","target":{{}},"profile":{{}},"fresh":{fresh}}}"#
            )
        };
        let lines = [
            line("registry+https://a/index#tokio@1.2.3", false),
            line("registry+https://a/index#serde@1.0.0", true),
            line("path+file:///a/crates/wire#forebay-wire@0.1.0", false),
        ];
        assert_eq!(built(&lines.each_ref().map(String::as_str)).compiled, ["tokio@1.2.3"]);
    }
}
