//! `version`: which build this is. Commit and date come from the environment of the build, which packaging/commit.sh sets; a build
//! never runs git by itself, so that a source without a repository builds alike everywhere.

use std::process::ExitCode;

use forebay_wire::message::PROTOCOL_VERSION;
use serde::Serialize;

use crate::cli::VersionArguments;
use crate::output;

/// The words for a commit and a date that the build was not given.
const UNKNOWN: &str = "unknown";

/// A build, as `version --json` prints it. Names and meanings are stable; new ones may be added.
#[derive(Serialize)]
struct Build {
    version: &'static str,
    /// Twelve digits, with `-dirty` where the tree differed from the commit.
    commit: &'static str,
    /// Of the commit, in UTC: `2026-11-29T22:12:00Z`.
    commit_date: &'static str,
    /// As rustc names it.
    target: String,
    /// Of messages between nodes: builds with different ones do not talk.
    protocol: u16,
    features: Features,
}

#[derive(Serialize)]
struct Features {
    /// `debug` has assertions, `release` has none.
    profile: &'static str,
    libc: &'static str,
    /// Whether the C library is part of the binary.
    r#static: bool,
    allocator: &'static str,
}

/// Prints the build.
pub fn run(arguments: &VersionArguments) -> anyhow::Result<ExitCode> {
    let build = this();
    if arguments.json {
        output::say!("{}", serde_json::to_string(&build)?);
    } else {
        let Build { version, commit, commit_date, target, protocol, features } = build;
        let linked = if features.r#static { "static" } else { "dynamic" };
        output::say!("forebay {version}");
        output::say!("commit    {commit} ({commit_date})");
        output::say!("target    {target}");
        output::say!("protocol  {protocol}");
        output::say!(
            "features  {} build, {linked} {}, {} allocator",
            features.profile,
            features.libc,
            features.allocator
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn this() -> Build {
    // The allocator as `main` has it.
    let (libc, suffix, allocator) = match cfg!(target_env = "musl") {
        true => ("musl", "musl", "mimalloc"),
        false => ("glibc", "gnu", "system"),
    };
    Build {
        version: env!("CARGO_PKG_VERSION"),
        commit: given(option_env!("FOREBAY_COMMIT")),
        commit_date: given(option_env!("FOREBAY_COMMIT_DATE")),
        target: format!("{}-unknown-linux-{suffix}", std::env::consts::ARCH),
        protocol: PROTOCOL_VERSION,
        features: Features {
            profile: if cfg!(debug_assertions) { "debug" } else { "release" },
            libc,
            r#static: cfg!(target_feature = "crt-static"),
            allocator,
        },
    }
}

/// An empty variable is one that is not set: make exports those it cannot fill so.
fn given(variable: Option<&'static str>) -> &'static str {
    variable.filter(|text| !text.is_empty()).unwrap_or(UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_that_was_given_no_commit_says_so() {
        assert_eq!(
            (given(None), given(Some("")), given(Some("0123456789ab-dirty"))),
            (UNKNOWN, UNKNOWN, "0123456789ab-dirty")
        );
    }
}
