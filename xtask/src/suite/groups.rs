//! How tests run beside each other: what `xtask/tests.toml` says of each.
//!
//! A test is named `PROGRAM::TEST`; a pattern is how such a name begins. The longest pattern that fits decides, so that one
//! test of a group can be declared otherwise. What no pattern fits computes.

use std::collections::BTreeSet;

/// Where it is declared.
pub const DECLARED: &str = "xtask/tests.toml";

/// How a test runs beside others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Group {
    /// The tests of a program one after the other in one process, as many processes as there are processors.
    Computes,
    /// Mostly waits, for daemons and programs that it starts: a process for each test, several a processor.
    Waits,
    /// Uses what other tests use at the same time, such as a job that goes up once: all tests of a pattern in one process, a
    /// few at a time.
    Shares,
    /// Hands on to the next test what is dear to make: all tests of a pattern in one process, one after the other, where
    /// each knows who waits.
    Turns,
    /// Measures time, memory or processors: alone, on a machine that is quiet.
    Alone,
}

/// The declarations.
#[derive(Default)]
pub struct Groups {
    /// Pattern and group.
    patterns: Vec<(String, Group)>,
}

impl Groups {
    /// Reads `text`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let table: toml::Table = text.parse().map_err(|error| format!("{DECLARED}: {error}"))?;
        let mut patterns = Vec::new();
        for (name, listed) in &table {
            let group = match name.as_str() {
                "waits" => Group::Waits,
                "shares" => Group::Shares,
                "turns" => Group::Turns,
                "alone" => Group::Alone,
                "computes" => Group::Computes,
                _ => return Err(format!("{DECLARED}: there is no group {name}")),
            };
            let listed = listed.as_array().ok_or_else(|| format!("{DECLARED}: {name} is no list"))?;
            for pattern in listed {
                let pattern = pattern.as_str().ok_or_else(|| format!("{DECLARED}: {name} lists what is no text"))?;
                patterns.push((pattern.to_owned(), group));
            }
        }
        Ok(Self { patterns })
    }

    /// The group of a test, and the pattern that says so; the empty one if none does.
    pub fn of(&self, test: &str) -> (Group, &str) {
        let fitting = self.patterns.iter().filter(|(pattern, _)| test.starts_with(pattern.as_str()));
        let longest = fitting.max_by_key(|(pattern, _)| pattern.len());
        longest.map_or((Group::Computes, ""), |(pattern, group)| (*group, pattern))
    }

    /// Patterns that decide about none of `tests`: they were renamed, or have gone.
    pub fn unused<'a>(&'a self, tests: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        let used: BTreeSet<&str> = tests.map(|test| self.of(test).1).collect();
        self.patterns.iter().map(|(pattern, _)| pattern.as_str()).filter(|pattern| !used.contains(pattern)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups() -> Groups {
        Groups::parse("waits = [\"a::\", \"b::deaths::\"]\nshares = [\"a::whole::\"]\nalone = [\"a::whole::memory\"]")
            .unwrap()
    }

    #[test]
    fn the_longest_pattern_decides() {
        let groups = groups();
        assert_eq!(groups.of("a::x"), (Group::Waits, "a::"));
        assert_eq!(groups.of("a::whole::x"), (Group::Shares, "a::whole::"));
        assert_eq!(groups.of("a::whole::memory_is_bounded").0, Group::Alone);
        assert_eq!(groups.of("b::lives::x"), (Group::Computes, ""));
    }

    #[test]
    fn a_pattern_without_tests_is_found() {
        let tests = ["a::x", "a::whole::x"];
        assert_eq!(groups().unused(tests.into_iter()), ["a::whole::memory", "b::deaths::"]);
        assert!(Groups::parse("other = []").is_err() && Groups::parse("waits = 3").is_err());
    }
}
