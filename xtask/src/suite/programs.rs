//! Which tests the programs have, and how they are put together into batches.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::build::Program;
use super::groups::{DECLARED, Group, Groups};
use super::schedule::Batch;
use crate::tree::root;

/// The assumed duration of a test that was never timed, and of one that is declared to take long.
const UNKNOWN: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(60);

/// How long tests took the last time, by name: only the order depends on it.
pub struct Times {
    file: PathBuf,
    milliseconds: BTreeMap<String, u64>,
}

impl Times {
    /// Those that an earlier run left in `file`.
    pub fn read(file: PathBuf) -> Self {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let line = |line: &str| line.split_once(' ').and_then(|(ms, name)| Some((name.to_owned(), ms.parse().ok()?)));
        let milliseconds = text.lines().filter_map(line).collect();
        Self { file, milliseconds }
    }

    /// A test took so long.
    pub fn note(&mut self, test: &str, took: Duration) {
        self.milliseconds.insert(test.to_owned(), took.as_millis().try_into().unwrap_or(u64::MAX));
    }

    /// Leaves them to the next run, which can do without.
    pub fn write(&self) {
        let lines: String = self.milliseconds.iter().map(|(name, ms)| format!("{ms} {name}\n")).collect();
        let _ = fs::write(&self.file, lines);
    }

    fn of(&self, test: &str, groups: &Groups) -> u64 {
        let guess = if groups.is_long(test) { LONG } else { UNKNOWN };
        self.milliseconds.get(test).copied().unwrap_or(guess.as_millis() as u64)
    }
}

/// The tests of each program, in the order of the programs.
pub fn tests(programs: &[Program]) -> Result<Vec<Vec<String>>, String> {
    programs.iter().map(listed).collect()
}

fn listed(program: &Program) -> Result<Vec<String>, String> {
    if program.lists_no_tests() {
        return Ok(Vec::new());
    }
    let mut command = Command::new(&program.executable);
    command.args(["--list", "--format", "terse"]).current_dir(&program.directory);
    let output = command.output().map_err(|error| format!("{}: {error}", program.executable.display()))?;
    if !output.status.success() {
        return Err(format!("{} cannot list its tests ({})", program.executable.display(), output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// A test's name among all.
pub fn full_name(program: &Program, test: &str) -> String {
    format!("{}::{test}", program.name)
}

/// The batches of the tests whose names contain one of `words`, or of all if there are none.
pub fn batches(programs: &[Program], words: &[&str], times: &Times) -> Result<Vec<Batch>, String> {
    let tests = tests(programs)?;
    let text = fs::read_to_string(root().join(DECLARED)).map_err(|error| format!("{DECLARED}: {error}"))?;
    let groups = Groups::parse(&text)?;
    let names: Vec<String> = named(programs, &tests).map(|(_, _, name)| name).collect();
    if let Some(pattern) = groups.unused(names.iter().map(String::as_str)).first() {
        return Err(format!("{DECLARED}: no test's name begins with {pattern}"));
    }
    let is_wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    let whole = programs.iter().enumerate().filter(|(_, program)| program.lists_no_tests() && is_wanted(&program.name));
    let whole = whole.map(|(program, _)| Batch { program, tests: vec![], group: Group::Computes, expected_ms: 0 });
    let mut batches: Vec<Batch> = whole.collect();
    let mut places: BTreeMap<(usize, String), usize> = BTreeMap::new();
    for (program, test, name) in named(programs, &tests).filter(|(_, _, name)| is_wanted(name)) {
        let (group, pattern) = groups.of(&name);
        let key = match group {
            Group::Computes | Group::Fills => String::new(),
            Group::Shares | Group::Turns => pattern.to_owned(),
            Group::Waits | Group::Alone => name.clone(),
        };
        let place = *places.entry((program, key)).or_insert_with(|| {
            batches.push(Batch { program, tests: vec![], group, expected_ms: 0 });
            batches.len() - 1
        });
        batches[place].tests.push(test.to_owned());
        batches[place].expected_ms += times.of(&name, &groups);
    }
    Ok(batches)
}

fn named<'a>(
    programs: &'a [Program],
    tests: &'a [Vec<String>],
) -> impl Iterator<Item = (usize, &'a str, String)> + use<'a> {
    let each = programs.iter().zip(tests).enumerate();
    each.flat_map(|(index, (program, tests))| {
        tests.iter().map(move |test| (index, test.as_str(), full_name(program, test)))
    })
}
