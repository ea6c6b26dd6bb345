//! Variables of the environment that look like Forebay's and are not: a misspelt setting would be ignored in silence.
//!
//! They are warned about and no error: the environment is everybody's, and a name may be another version's.

use super::table::TABLE;
use crate::output::tell;

/// Variables that are no settings: read by Forebay's programs, scripts, build and tests, or set by it for programs that it runs.
const OTHERS: [&str; 18] = [
    "FOREBAY_BIN",
    "FOREBAY_BURST",
    "FOREBAY_COMMAND",
    "FOREBAY_CONFIG",
    "FOREBAY_EPILOG_MEET",
    "FOREBAY_EPILOG_STORES",
    "FOREBAY_EPILOG_TIMEOUT",
    "FOREBAY_MPICC_MPICH",
    "FOREBAY_MPICC_OPENMPI",
    "FOREBAY_MPIIO_AGGREGATION",
    "FOREBAY_MPIIO_AGGREGATORS",
    "FOREBAY_MPIIO_BUFFER_BYTES",
    "FOREBAY_MPIIO_PRINT",
    "FOREBAY_MPIIO_RECORDS",
    "FOREBAY_MPIIO_STRATEGY",
    "FOREBAY_MPIIO_TOPOLOGY",
    "FOREBAY_PREFIX",
    "FOREBAY_SQL",
];

/// The prefix of Forebay's variables.
const MARK: &str = "FOREBAY_";

/// From this likeness on (0 none, 1 the same) a name is taken for another one misspelt; clap's own for options.
const LIKENESS_MIN: f64 = 0.7;

/// Variables by which launchers tell a process its rank.
const LAUNCHERS: [&str; 4] = ["PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"];

/// Warns of them on standard error; of many processes that a launcher has started only the first does.
pub fn warn_of_unknown() {
    let rank = LAUNCHERS.iter().find_map(|name| std::env::var(name).ok());
    if rank.is_some_and(|rank| rank != "0") {
        return;
    }
    let set = std::env::vars_os().filter(|(_, value)| !value.is_empty());
    let mut names: Vec<String> = set.map(|(name, _)| name.to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names.iter().filter_map(|name| warning(name)).for_each(|warning| tell!("forebay: warning: {warning}"));
}

/// The warning about a variable; `None` for one that is known, or not Forebay's.
fn warning(name: &str) -> Option<String> {
    let own = name.strip_prefix(MARK)?;
    let known: Vec<String> = known().collect();
    if known.iter().any(|known| known == name) {
        return None;
    }
    let likeness = |known: &String| strsim::jaro(known.strip_prefix(MARK).unwrap_or(known), own);
    let nearest = known.iter().max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    Some(match nearest.filter(|nearest| likeness(nearest) >= LIKENESS_MIN) {
        Some(nearest) => {
            format!("the environment variable {name} is not known and is ignored; did you mean {nearest}?")
        }
        None => {
            format!(
                "the environment variable {name} is not known and is ignored; forebay config --json lists those of \
                 settings"
            )
        }
    })
}

fn known() -> impl Iterator<Item = String> {
    let settings = TABLE.iter().flat_map(|setting| [Some(setting.variable()), setting.old_variable()]).flatten();
    settings.chain(OTHERS.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_told() {
        for (name, nearest) in [
            ("FOREBAY_FANUOT", "FOREBAY_FANOUT"),
            ("FOREBAY_FAN_OUT", "FOREBAY_FANOUT"),
            ("FOREBAY_DIRECT_ABVOE", "FOREBAY_DIRECT_ABOVE"),
            ("FOREBAY_MPIIO_AGREGATORS", "FOREBAY_MPIIO_AGGREGATORS"),
            ("FOREBAY_NO_PREFETCH", "FOREBAY_PREFETCH"),
        ] {
            let said = warning(name).unwrap();
            assert!(
                said.contains(&format!("{name} is not")) && said.contains(&format!("did you mean {nearest}?")),
                "{said}"
            );
        }
        let far = warning("FOREBAY_QQQQ").unwrap();
        assert!(!far.contains("meant") && far.contains("forebay config"), "{far}");
    }

    #[test]
    fn known_files_and_those_of_other_programs_are_not_reported() {
        let known = ["FOREBAY_FANOUT", "FOREBAY_MISSING", "FOREBAY_VIEW", "FOREBAY_BURST", "FOREBAY_PREFIX", "FOREBAY"];
        assert_eq!(known.map(warning), [const { None }; 6]);
        assert_eq!(["PATH", "MY_FOREBAY_FANUOT"].map(warning), [None, None]);
    }
}
