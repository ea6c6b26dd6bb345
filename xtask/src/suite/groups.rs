//! How tests run beside each other: what `xtask/tests.toml` says of each.
//!
//! A test is named `PROGRAM::TEST`; a pattern is how such a name begins. The longest pattern that fits decides, so that one
//! test of a group can be declared otherwise. A test that no pattern fits computes.

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
    /// Keeps every processor busy with processes that wait for each other: the tests of a program one after the other in one
    /// process, and nothing else meanwhile.
    Fills,
    /// Measures time, memory or processors: alone, on a machine that is quiet.
    Alone,
}

/// The declarations.
#[derive(Default)]
pub struct Groups {
    /// Pattern and group.
    patterns: Vec<(String, Group)>,
    /// Tests that take long: they start first where no time of an earlier run is known.
    long: Vec<String>,
}

impl Groups {
    /// Reads `text`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let table: toml::Table = text.parse().map_err(|error| format!("{DECLARED}: {error}"))?;
        let mut groups = Self::default();
        for (name, listed) in &table {
            let listed = listed.as_array().ok_or_else(|| format!("{DECLARED}: {name} is no list"))?;
            let texts = listed.iter().map(|pattern| pattern.as_str().map(str::to_owned));
            let texts: Option<Vec<String>> = texts.collect();
            let texts = texts.ok_or_else(|| format!("{DECLARED}: {name} lists what is no text"))?;
            let group = match name.as_str() {
                "long" => {
                    groups.long = texts;
                    continue;
                }
                "waits" => Group::Waits,
                "shares" => Group::Shares,
                "turns" => Group::Turns,
                "fills" => Group::Fills,
                "alone" => Group::Alone,
                "computes" => Group::Computes,
                _ => return Err(format!("{DECLARED}: there is no group {name}")),
            };
            groups.patterns.extend(texts.into_iter().map(|pattern| (pattern, group)));
        }
        Ok(groups)
    }

    /// Whether a test is declared to take long.
    pub fn is_long(&self, test: &str) -> bool {
        self.long.iter().any(|long| long == test)
    }

    /// The group of a test, and the pattern that says so; the empty one if none does.
    pub fn of(&self, test: &str) -> (Group, &str) {
        let fitting = self.patterns.iter().filter(|(pattern, _)| test.starts_with(pattern.as_str()));
        let longest = fitting.max_by_key(|(pattern, _)| pattern.len());
        longest.map_or((Group::Computes, ""), |(pattern, group)| (*group, pattern))
    }

    /// Patterns that decide about none of `tests`, and long tests that are not among them: they were renamed, or have gone.
    pub fn unused<'a>(&'a self, tests: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        let tests: BTreeSet<&str> = tests.collect();
        let used: BTreeSet<&str> = tests.iter().map(|test| self.of(test).1).collect();
        let patterns = self.patterns.iter().map(|(pattern, _)| pattern.as_str());
        let long = self.long.iter().map(String::as_str).filter(|long| !tests.contains(long));
        patterns.filter(|pattern| !used.contains(pattern)).chain(long).collect()
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
    fn long_tests_are_named_whole() {
        let groups = Groups::parse("long = [\"a::x\"]").unwrap();
        assert!(groups.is_long("a::x") && !groups.is_long("a::xy"));
        assert_eq!(groups.unused(["a::xy"].into_iter()), ["a::x"]);
    }

    #[test]
    fn a_pattern_without_tests_is_found() {
        let tests = ["a::x", "a::whole::x"];
        assert_eq!(groups().unused(tests.into_iter()), ["a::whole::memory", "b::deaths::"]);
        assert!(Groups::parse("other = []").is_err() && Groups::parse("waits = 3").is_err());
    }
}
