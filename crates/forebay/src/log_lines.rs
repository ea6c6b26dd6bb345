//! Events in the text of a log: which lines are one, when it happened, how grave it is.

/// How grave an event is, the gravest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Level(usize);

/// As logs have them.
const NAMES: [&str; 5] = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];

impl Level {
    /// A level by name; `warning` is one too.
    ///
    /// # Errors
    /// For any other word.
    pub fn parse(text: &str) -> Result<Self, String> {
        let word = if text.eq_ignore_ascii_case("warning") { "warn" } else { text };
        let found = NAMES.iter().position(|name| name.eq_ignore_ascii_case(word));
        let levels = "the levels are error, warn, info, debug and trace";
        found.map(Self).ok_or_else(|| format!("'{text}' is not a log level; {levels}"))
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&NAMES[self.0].to_lowercase())
    }
}

/// An event: a line, and those after it that begin with no time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// When, as it stands in the log; empty where it does not.
    pub time: String,
    /// How grave; `None` where nothing says it, as in what a remote shell printed.
    pub level: Option<Level>,
    /// Its lines.
    pub text: String,
}

impl Event {
    /// Whether it is shown where `least` is asked for. An event of no level may be any.
    pub fn is_shown(&self, least: Option<Level>) -> bool {
        least.is_none_or(|least| self.level.is_none_or(|level| level <= least))
    }
}

/// The events of a text, in its order.
pub fn events(text: &str) -> Vec<Event> {
    let mut events: Vec<Event> = vec![];
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let time = words.next().filter(|word| is_time(word));
        match (time, events.last_mut()) {
            (None, Some(last)) => {
                last.text.push('\n');
                last.text.push_str(line);
            }
            _ => {
                let level = words.next().filter(|_| time.is_some()).and_then(|word| Level::parse(word).ok());
                events.push(Event { time: time.unwrap_or_default().to_owned(), level, text: line.to_owned() });
            }
        }
    }
    events
}

/// `2026-11-28T17:14:02.123456Z`.
fn is_time(word: &str) -> bool {
    word.len() >= 20
        && word.as_bytes()[10] == b'T'
        && word.ends_with('Z')
        && word.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_a_time_belong_to_the_event_before() {
        let text = "2026-11-28T17:14:02.123456Z  WARN a: first\nmore\n2026-11-28T17:14:03.123456Z  INFO a: second\n";
        let found = events(text);
        assert_eq!(found.len(), 2);
        assert!(found[0].text.ends_with("first\nmore") && found[0].time.starts_with("2026-11-28T17:14:02"));
        let warn = Some(Level::parse("warning").unwrap());
        assert!(found[0].is_shown(warn) && !found[1].is_shown(warn) && found[1].is_shown(None));
        assert!(events("ssh: no route\n")[0].is_shown(warn), "of no level");
    }

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        for word in ["verbose", "", "war"] {
            assert!(Level::parse(word).unwrap_err().contains("the levels are error, warn"), "{word}");
        }
    }
}
