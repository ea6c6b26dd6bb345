//! Wishes of the user and the program about aggregation: `MPI_Info` hints, the same as `FOREBAY_MPIIO_*`, ROMIO's hints where they
//! say the same, and ROMIO's file of hints.
//!
//! The environment wins over the program's hints, since it belongs to who runs the program now; those win over the file that
//! `ROMIO_HINTS` names, as with ROMIO. Rank 0 resolves them and tells the others, so that all ranks do the same. A hint that
//! makes no sense is left out and said, as MPI wants of hints.

use forebay_aggregate::Strategy;
use serde::{Deserialize, Serialize};

use crate::config_list::ConfigList;

/// Bytes of an aggregator's buffer, and that a rank holds, where nobody says otherwise; ROMIO's `cb_buffer_size`.
pub const BUFFER_BYTES: u64 = 16 << 20;

/// Bytes of a stripe where nobody says otherwise; Lustre's default, and what network file systems take in one request.
pub const STRIPE_BYTES: u64 = 1 << 20;

/// Stripes below this are not worth a boundary.
const STRIPE_MIN_BYTES: u64 = 4 << 10;

/// A buffer that one message must not exceed (1 TiB would be a slip of the pen).
const BUFFER_MAX_BYTES: u64 = 64 << 30;

/// A buffer below this makes an exchange of every page.
const BUFFER_MIN_BYTES: u64 = 4 << 10;

/// Hints that this library reads.
pub const NAMES: [&str; 12] = [
    "forebay_aggregation",
    "forebay_hold",
    "forebay_aggregators",
    "forebay_buffer_bytes",
    "forebay_strategy",
    "forebay_topology",
    "cb_nodes",
    "cb_config_list",
    "cb_buffer_size",
    "romio_cb_write",
    "romio_cb_read",
    "striping_unit",
];

/// Whether to aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// Where it makes fewer requests.
    Automatic,
    /// Always.
    Enable,
    /// Never.
    Disable,
}

/// For how long bytes of collective writes are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hold {
    /// Until the rank makes another MPI call than a collective write of the same file.
    Automatic,
    /// Until the program makes the bytes visible to other ranks as MPI wants it: by a sync, a barrier and a sync.
    Yes,
    /// Not beyond the call.
    No,
}

/// The hints that hold for a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hints {
    /// Of writes.
    pub write: Choice,
    /// Of reads.
    pub read: Choice,
    /// Whether this library is to make collective writes although nothing says that it makes fewer requests than MPI.
    pub always: bool,
    /// For how long.
    pub hold: Hold,
    /// How many aggregators; `None`: as the planner finds best.
    pub aggregators: Option<u32>,
    /// The same as ROMIO says it: at most so many, and no more than hosts unless the list says so.
    pub nodes: Option<u32>,
    /// The hosts that may aggregate; `None`: as the planner finds best.
    pub config_list: Option<ConfigList>,
    /// Bytes that a rank holds.
    pub buffer_bytes: u64,
    /// Bytes that an aggregator writes in a round.
    pub round_bytes: u64,
    /// Bytes of a stripe.
    pub stripe_bytes: u64,
    /// Whether a hint has them; else those of the file's layout count, if its file system tells it.
    pub is_stripe_given: bool,
    /// The planner's strategy; `None`: the best of all.
    pub strategy: Option<String>,
    /// The file that describes the network; `None`: as Slurm and the names of hosts tell.
    pub topology: Option<String>,
    /// Whether the first rank prints what holds, and who aggregates.
    pub prints: bool,
}

impl Hints {
    /// Takes the stripe of the file's layout, if there is one. The buffer of a round holds one at least.
    pub fn take_stripe(&mut self, stripe_bytes: Option<u64>) {
        if let Some(stripe_bytes) = stripe_bytes {
            self.stripe_bytes = stripe_bytes.max(STRIPE_MIN_BYTES);
            self.round_bytes = self.round_bytes.max(self.stripe_bytes);
        }
    }
}

/// The hints that hold, and complaints about the others.
#[derive(Debug)]
pub struct Resolved {
    /// The hints that hold.
    pub hints: Hints,
    /// Hints that were left out, and why.
    pub complaints: Vec<String>,
}

/// Resolves the hints of a program, with this environment and the text of ROMIO's file.
#[must_use]
pub fn resolve(
    program: &[(String, String)],
    variable: &dyn Fn(&str) -> Option<String>,
    romio_file: Option<&str>,
) -> Resolved {
    let of_file: Vec<(String, String)> = romio_file.map(romio_pairs).unwrap_or_default();
    let said = |name: &str| {
        let own = name.strip_prefix("forebay_").map(|rest| format!("FOREBAY_MPIIO_{}", rest.to_uppercase()));
        let of = |pairs: &[(String, String)]| Some(pairs.iter().rev().find(|(key, _)| key == name)?.1.clone());
        own.and_then(|own| variable(&own)).or_else(|| of(program)).or_else(|| of(&of_file))
    };
    let mut complaints = vec![];
    let mut hint = Hint { said: &said, complaints: &mut complaints };
    let aggregation = hint.parse("forebay_aggregation", choice);
    let romio_write = hint.parse("romio_cb_write", choice);
    let romio_read = hint.parse("romio_cb_read", choice);
    let aggregators = hint.parse("forebay_aggregators", count);
    let cb_nodes = hint.parse("cb_nodes", count);
    let buffer_bytes = hint.parse("forebay_buffer_bytes", bytes);
    let cb_buffer_size = hint.parse("cb_buffer_size", bytes);
    let striping_unit = hint.parse("striping_unit", bytes_or_none).flatten();
    let stripe_bytes = striping_unit.unwrap_or(STRIPE_BYTES).max(STRIPE_MIN_BYTES);
    let buffer_bytes = buffer_bytes.map(|bytes| bytes.clamp(BUFFER_MIN_BYTES, BUFFER_MAX_BYTES));
    // ROMIO's is the buffer of an aggregator alone, whatever a rank holds; below a stripe it would cut all of them.
    let cb_buffer_size = cb_buffer_size.map(|bytes| bytes.clamp(stripe_bytes, BUFFER_MAX_BYTES.max(stripe_bytes)));
    let hints = Hints {
        write: aggregation.or(romio_write).unwrap_or(Choice::Automatic),
        read: aggregation.or(romio_read).unwrap_or(Choice::Automatic),
        // Not by ROMIO's hint, which MPI obeys as well.
        always: aggregation == Some(Choice::Enable),
        hold: hint.parse("forebay_hold", hold).unwrap_or(Hold::Automatic),
        aggregators,
        nodes: cb_nodes,
        config_list: hint.parse("cb_config_list", ConfigList::parse),
        buffer_bytes: buffer_bytes.unwrap_or(BUFFER_BYTES),
        round_bytes: buffer_bytes.or(cb_buffer_size).unwrap_or(BUFFER_BYTES),
        stripe_bytes,
        is_stripe_given: striping_unit.is_some(),
        strategy: hint.parse("forebay_strategy", strategy).flatten(),
        topology: hint.parse("forebay_topology", |name| (!name.is_empty()).then(|| name.to_owned())),
        prints: ["ROMIO_PRINT_HINTS", "FOREBAY_MPIIO_PRINT"]
            .iter()
            .any(|name| variable(name).is_some_and(|on| on != "0")),
    };
    Resolved { hints, complaints }
}

struct Hint<'a> {
    said: &'a dyn Fn(&str) -> Option<String>,
    complaints: &'a mut Vec<String>,
}

impl Hint<'_> {
    fn parse<T>(&mut self, name: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let said = (self.said)(name)?;
        let parsed = parse(said.trim());
        if parsed.is_none() {
            self.complaints.push(format!("{name}={said} is not valid and is ignored"));
        }
        parsed
    }
}

/// Lines `name value`; anything after `#` is a remark.
fn romio_pairs(text: &str) -> Vec<(String, String)> {
    let pair = |line: &str| {
        let (name, value) = line.split('#').next()?.trim().split_once(char::is_whitespace)?;
        Some((name.to_owned(), value.trim().to_owned()))
    };
    text.lines().filter_map(pair).collect()
}

fn choice(text: &str) -> Option<Choice> {
    match text.to_ascii_lowercase().as_str() {
        "automatic" | "auto" => Some(Choice::Automatic),
        "enable" | "true" | "1" => Some(Choice::Enable),
        "disable" | "false" | "0" => Some(Choice::Disable),
        _ => None,
    }
}

fn hold(text: &str) -> Option<Hold> {
    match text.to_ascii_lowercase().as_str() {
        "yes" => Some(Hold::Yes),
        "no" => Some(Hold::No),
        text => match choice(text)? {
            Choice::Automatic => Some(Hold::Automatic),
            Choice::Enable => Some(Hold::Yes),
            Choice::Disable => Some(Hold::No),
        },
    }
}

fn count(text: &str) -> Option<u32> {
    text.parse().ok().filter(|count| *count > 0)
}

fn strategy(text: &str) -> Option<Option<String>> {
    match text {
        "best" | "automatic" => Some(None),
        name => name.parse::<Strategy>().ok().map(|strategy| Some(strategy.name().to_owned())),
    }
}

/// The same; 0 where a library above MPI-IO says that it knows none (PnetCDF).
fn bytes_or_none(text: &str) -> Option<Option<u64>> {
    if text == "0" { Some(None) } else { bytes(text).map(Some) }
}

/// A number of bytes: `16777216`, `16MiB`, `16M`, `1GB`.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit: u64 = match unit.trim() {
        "" | "B" => 1,
        "KiB" | "k" | "K" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1 << 30,
        "kB" | "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_environment_wins_over_the_program_and_that_over_the_file() {
        let program = pairs(&[("cb_nodes", "4"), ("cb_buffer_size", "4194304"), ("forebay_strategy", "nearest")]);
        let variable = |name: &str| (name == "FOREBAY_MPIIO_BUFFER_BYTES").then(|| "8MiB".to_owned());
        let file = "# ours\ncb_nodes 2\nromio_cb_write disable   # not here\nstriping_unit 65536\n";
        let Resolved { hints, complaints } = resolve(&program, &variable, Some(file));
        assert_eq!((hints.nodes, hints.buffer_bytes, hints.stripe_bytes), (Some(4), 8 << 20, 65_536));
        assert_eq!((hints.write, hints.read), (Choice::Disable, Choice::Automatic));
        assert_eq!((hints.strategy.as_deref(), complaints), (Some("nearest"), vec![]));
    }

    /// A gigabyte for each aggregator is not one for each rank, and nobody means an exchange a page.
    #[test]
    fn the_buffer_of_romio_is_that_of_an_aggregator() {
        let buffers = |said: &[(&str, &str)]| {
            let hints = resolve(&pairs(said), &|_| None, None).hints;
            (hints.buffer_bytes, hints.round_bytes)
        };
        assert_eq!(buffers(&[("cb_buffer_size", "1073741824")]), (BUFFER_BYTES, 1 << 30));
        assert_eq!(buffers(&[("cb_buffer_size", "4096")]), (BUFFER_BYTES, STRIPE_BYTES));
        assert_eq!(buffers(&[("cb_buffer_size", "4096"), ("striping_unit", "65536")]), (BUFFER_BYTES, 65_536));
        assert_eq!(buffers(&[("cb_buffer_size", "1"), ("forebay_buffer_bytes", "8MiB")]), (8 << 20, 8 << 20));
        assert_eq!(buffers(&[("forebay_buffer_bytes", "8M")]), (8 << 20, 8 << 20));
        assert_eq!(buffers(&[("forebay_buffer_bytes", "1")]), (4096, 4096));
    }

    #[test]
    fn own_hints_win_over_those_of_romio() {
        let program = pairs(&[
            ("cb_nodes", "4"),
            ("forebay_aggregators", "2"),
            ("romio_cb_read", "disable"),
            ("forebay_aggregation", "enable"),
        ]);
        let hints = resolve(&program, &|_| None, None).hints;
        assert_eq!((hints.aggregators, hints.read, hints.write), (Some(2), Choice::Enable, Choice::Enable));
    }

    /// PnetCDF gives the stripe of each file, and 0 where it knows none.
    #[test]
    fn a_stripe_of_no_bytes_is_none_that_is_known() {
        let Resolved { hints, complaints } = resolve(&pairs(&[("striping_unit", "0")]), &|_| None, None);
        assert_eq!((hints.stripe_bytes, complaints), (STRIPE_BYTES, vec![]));
    }

    #[test]
    fn bytes_are_held_as_long_as_the_hint_says() {
        let held = |said: &[(&str, &str)]| {
            let hints = resolve(&pairs(said), &|_| None, None).hints;
            (hints.hold, hints.always)
        };
        assert_eq!(held(&[]), (Hold::Automatic, false));
        assert_eq!(held(&[("forebay_hold", "yes"), ("forebay_aggregation", "enable")]), (Hold::Yes, true));
        assert_eq!(held(&[("forebay_hold", "No"), ("romio_cb_write", "enable")]), (Hold::No, false));
    }

    #[test]
    fn nonsense_is_left_out_and_said() {
        let program = pairs(&[("cb_nodes", "many"), ("forebay_buffer_bytes", "0"), ("forebay_strategy", "luck")]);
        let Resolved { hints, complaints } = resolve(&program, &|_| None, None);
        assert_eq!(complaints.len(), 3, "{complaints:?}");
        assert_eq!((hints.aggregators, hints.buffer_bytes, hints.strategy), (None, BUFFER_BYTES, None));
    }
}
