//! Files of data sets that a Python program writes, with their statistics by numpy.

use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_tests::Sandbox;
use forebay_tests::need::SYSTEM_PYTHON;
use forebay_tests::program::{file_of_tests, run};
use serde_json::Value;

/// Such files, and the answers about them.
pub struct Oracle {
    pub sandbox: Sandbox,
    /// Of each: its name, the columns that are asked for, and their counts, means and extremes.
    cases: Vec<Value>,
}

impl Oracle {
    /// Those that a program of the tests writes.
    pub fn new(program: &str) -> Self {
        let sandbox = Sandbox::new();
        let done = run(Command::new(SYSTEM_PYTHON).arg(file_of_tests(program)).arg(sandbox.base())).good();
        Self { cases: serde_json::from_slice(&done.stdout).unwrap(), sandbox }
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.sandbox.base().join(name)
    }

    /// The answer to a query of one of them.
    #[track_caller]
    pub fn ask(&self, operators: &str, name: &str, more: &[&str]) -> Value {
        let mut command = self.sandbox.command();
        command.args(["query", operators]).arg(self.path(name)).args(more).arg("--json");
        serde_json::from_slice(&run(&mut command).good().stdout).unwrap()
    }

    /// The error of one.
    #[track_caller]
    pub fn fails(&self, status: i32, operators: &str, name: &str, more: &[&str]) -> String {
        let mut command = self.sandbox.command();
        let done = run(command.args(["query", operators]).arg(self.path(name)).args(more));
        assert_eq!(done.status.code(), Some(status), "{operators} {name}: {}", done.stderr);
        done.stderr
    }

    /// Compares `stats` of each with numpy; there are more than so many.
    #[track_caller]
    pub fn agrees(&self, cases_min: usize) {
        assert!(self.cases.len() > cases_min);
        for case in &self.cases {
            let columns: Vec<&str> = case[1].as_str().into_iter().flat_map(|columns| ["--columns", columns]).collect();
            let said = self.ask("stats", case[0].as_str().unwrap(), &columns);
            let found = said["columns"].as_array().unwrap();
            assert_eq!(found.len(), case[2].as_object().unwrap().len(), "{case}: {said}");
            for column in found {
                let known = &case[2][column["name"].as_str().unwrap()];
                for (index, field) in ["count", "mean", "min", "max"].into_iter().enumerate() {
                    let (found, known) = (column[field].as_f64().unwrap(), known[index].as_f64().unwrap());
                    assert!((found - known).abs() <= 1e-9 * known.abs().max(1.0), "{case}: {field} {found}");
                }
            }
        }
    }
}
