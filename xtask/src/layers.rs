//! Dependencies run one way: types <- wire <- body, core crates, shells <- keeper <- daemon <- the binary.
//!
//! Core crates decide and do no I/O. They get no crate and no part of `std` that has a clock, a socket, a file, a
//! thread or randomness; what clippy can see of that it refuses by type (`clippy.toml` beside each of them), what
//! only the text shows is refused here. Shells do I/O and hold no policy, so they know no core crate and not each
//! other; the daemon ties cores and shells together, and the binary has the commands. Dev-dependencies of shells are free.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::paths::expand;
use crate::source::{Source, words};
use crate::tree::{File, Tree};

/// A crate, the group that it stands in (none for what stands above the groups), and the crates of ours that its product code may know.
struct Place {
    krate: &'static str,
    group: &'static str,
    knows: &'static [&'static str],
}

impl Place {
    /// Whether it decides and does no I/O.
    fn is_core(&self) -> bool {
        self.group == "core"
    }
}

const fn core(krate: &'static str, knows: &'static [&'static str]) -> Place {
    Place { krate, group: "core", knows }
}

const fn shell(krate: &'static str) -> Place {
    Place { krate, group: "io", knows: &["types", "wire", "body", "secret", "latency"] }
}

const fn harness(krate: &'static str, knows: &'static [&'static str]) -> Place {
    Place { krate, group: "harness", knows }
}

const PLACES: [Place; 37] = [
    // Has no code: which features crates from outside have.
    Place { krate: FEATURES, group: "", knows: &[] },
    core("types", &[]),
    core("wire", &["types"]),
    // A shell: it holds the one lock that readers and writers of a body share.
    shell("body"),
    // The kernel's options for the memory of a key; shells share it.
    shell("secret"),
    // The locks and the clock with which requests are recorded; shells share it.
    shell("latency"),
    core("overlay", &["types", "wire"]),
    core("aggregate", &["types"]),
    core("query", &[]),
    core("cache", &["types", "wire"]),
    core("dispatch", &["types"]),
    core("schedule", &["types"]),
    core("prefetch", &["types", "wire", "cache"]),
    core("job", &["types", "wire", "overlay"]),
    core("read", &["types", "wire", "overlay", "cache", "dispatch", "prefetch"]),
    core("write", &["types", "wire", "aggregate"]),
    harness("random", &[]),
    harness(
        "sim",
        &[
            "random",
            "types",
            "wire",
            "overlay",
            "cache",
            "dispatch",
            "schedule",
            "read",
            "body",
            "fuse",
            "transport",
            "store",
            "chunk_store",
            "profile",
            "keeper",
            "launch",
            "daemon",
        ],
    ),
    harness(
        "burst",
        &["random", "types", "wire", "dispatch", "body", "fuse", "transport", "store", "keeper", "launch", "daemon"],
    ),
    harness("scale", &["aggregate", "types", "wire", "overlay", "cache", "dispatch", "job", "read", "prefetch"]),
    // Works the product from outside; of its crates it knows what the modelled file system is made of.
    harness("trial", &["types", "fuse"]),
    harness("testkit", &["types", "fuse", "trial"]),
    shell("fuse"),
    shell("transport"),
    shell("store"),
    shell("launch"),
    shell("control"),
    shell("profile"),
    shell("log"),
    // A shell that another one knows: one way to land bytes, which the daemon and copies share.
    shell("upload"),
    Place { krate: "stage", group: "io", knows: &["upload"] },
    // A shell that knows another one: which file systems are a network's is known in one place.
    Place { krate: "chunk_store", group: "io", knows: &["types", "body", "log"] },
    // Lives in MPI programs, without any daemon.
    Place { krate: "mpiio", group: "", knows: &["aggregate"] },
    // Reads files and deals pieces of a query out, for the daemon, the command and SQL.
    Place { krate: "offload", group: "", knows: &["types", "wire", "query", "control"] },
    // A workspace and a program of its own, for the engine that nobody else is to link.
    Place { krate: "sql", group: "", knows: &["query", "types", "wire", "control", "offload"] },
    // Lives longer than any daemon, so it knows as little as it can.
    Place { krate: "keeper", group: "", knows: &["types", "fuse", "launch"] },
    Place {
        krate: "daemon",
        group: "",
        knows: &[
            "types",
            "wire",
            "body",
            "secret",
            "latency",
            "overlay",
            "dispatch",
            "schedule",
            "job",
            "cache",
            "prefetch",
            "read",
            "query",
            "offload",
            "fuse",
            "transport",
            "store",
            "launch",
            "profile",
            "log",
            "chunk_store",
            "upload",
            "write",
            "keeper",
        ],
    },
];

/// The crate that each may know, because there is nothing in it.
const FEATURES: &str = "features";

/// The one crate that may know all of them.
const BINARY: &str = "forebay";

/// Packages that stand at the ends: they may know any crate, and no crate knows them. Code that two of them share is in `testkit`.
const LEAVES: [&str; 4] = ["forebay-tests", "forebay-bench", "forebay-fuzz", "xtask"];

/// Crates that do I/O, read clocks, start threads or roll dice.
const EFFECTFUL_CRATES: [&str; 20] = [
    "async-std",
    "chrono",
    "crossbeam",
    "fastrand",
    "getrandom",
    "libc",
    "log",
    "memmap2",
    "mio",
    "nix",
    "num_cpus",
    "rand",
    "rayon",
    "rustix",
    "smol",
    "socket2",
    "time",
    "tokio",
    "tracing",
    "tracing-subscriber",
];

/// Parts of `std` that do the same.
const EFFECTFUL_STD: [&str; 11] = [
    "std::env",
    "std::fs",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::sync::mpsc",
    "std::hash::RandomState",
    "std::collections::hash_map::RandomState",
];

/// Dependencies that run the wrong way, and effects in core crates.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = vec![];
    for file in tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        findings.extend(check_leaves(file));
        if let Some(krate) = file.krate().filter(|krate| *krate != BINARY) {
            findings.extend(check_manifest(file, krate));
        }
    }
    for place in PLACES.iter().filter(|place| place.is_core()) {
        findings.extend(check_lints(tree, place.krate));
    }
    for (file, source) in tree.rust().filter(|(file, _)| !file.is_test()) {
        if file.krate().and_then(place_of).is_some_and(Place::is_core) {
            findings.extend(check_effects(file, source));
        }
    }
    findings
}

fn place_of(krate: &str) -> Option<&'static Place> {
    PLACES.iter().find(|place| place.krate == krate)
}

fn check_leaves(file: &File) -> Vec<Finding> {
    let manifest: toml::Table = file.text.parse().unwrap_or_default();
    let leaves = dependencies(&manifest, true).into_iter().filter(|name| LEAVES.contains(&name.as_str()));
    let message = |name: &String| format!("nobody may know `{name}`: what it shares belongs into `testkit`");
    leaves.map(|name| Finding::new(&file.path, 1, message(&name))).collect()
}

fn check_manifest(file: &File, krate: &str) -> Vec<Finding> {
    let Some(place) = place_of(krate) else {
        return vec![Finding::new(
            &file.path,
            1,
            format!("`{krate}` has no place yet: give it one in xtask/src/layers.rs"),
        )];
    };
    if file.group().unwrap_or_default() != place.group {
        return vec![Finding::new(&file.path, 1, format!("`{krate}` belongs below crates/{}", place.group))];
    }
    let manifest: toml::Table = match file.text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Finding::new(&file.path, 1, error.to_string())],
    };
    let why_not = |name: &str| match name.strip_prefix("forebay-").or((name == BINARY).then_some(BINARY)) {
        Some(FEATURES) => None,
        // Packages have hyphens where folders have underscores.
        Some(ours) if !place.knows.iter().any(|known| known.replace('_', "-") == ours) => {
            Some(format!("`{krate}` may not know `{ours}`"))
        }
        None if place.is_core() && EFFECTFUL_CRATES.contains(&name) => {
            Some(format!("`{krate}` decides and does no I/O: `{name}` is for shells"))
        }
        _ => None,
    };
    let wrong = dependencies(&manifest, place.is_core()).into_iter().filter_map(|name| why_not(&name));
    wrong.map(|message| Finding::new(&file.path, 1, message)).collect()
}

/// Names of the dependencies of a manifest, for every target.
fn dependencies(manifest: &toml::Table, with_dev: bool) -> BTreeSet<String> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let of_targets = targets.into_iter().flat_map(|targets| targets.values().filter_map(toml::Value::as_table));
    let kinds: &[&str] = if with_dev {
        &["dependencies", "build-dependencies", "dev-dependencies"]
    } else {
        &["dependencies", "build-dependencies"]
    };
    let mut names = BTreeSet::new();
    for table in std::iter::once(manifest).chain(of_targets) {
        for listed in kinds.iter().filter_map(|kind| table.get(*kind)?.as_table()) {
            names.extend(listed.iter().map(|(name, value)| {
                let renamed = value.get("package").and_then(toml::Value::as_str);
                renamed.unwrap_or(name).to_owned()
            }));
        }
    }
    names
}

/// Every core crate carries the same lints: those of `types`.
fn check_lints(tree: &Tree, krate: &str) -> Option<Finding> {
    let lints = |krate: &str| tree.get(&format!("crates/core/{krate}/clippy.toml")).map(|file| file.text.as_str());
    tree.get(&format!("crates/core/{krate}/Cargo.toml"))?;
    let message = "core crates have one clippy.toml: link it to crates/core/types/clippy.toml";
    let differs = lints(krate).is_none() || lints(krate) != lints("types");
    differs.then(|| Finding::new(&format!("crates/core/{krate}/clippy.toml"), 1, message))
}

fn check_effects(file: &File, source: &Source) -> Vec<Finding> {
    let mut findings = vec![];
    for (at, path) in std_paths(&source.code) {
        let within = |part: &&&str| path == **part || path.starts_with(&format!("{part}::"));
        if let Some(part) = EFFECTFUL_STD.iter().find(within).filter(|_| !source.in_test(at)) {
            let message = format!("`{part}` in a core crate: time, bytes and seeds come in as arguments");
            findings.push(Finding::new(&file.path, source.line_of(at), message));
        }
    }
    findings
}

/// Every path into `std` that the code names, in `use` trees too, with its offset.
fn std_paths(code: &str) -> Vec<(usize, String)> {
    let mut paths = vec![];
    for (at, _) in words(code).filter(|&(_, word)| word == "std") {
        let is_path = |c: char| c.is_alphanumeric() || "_:{},* \n".contains(c);
        let len = code[at..].find(|c| !is_path(c)).unwrap_or(code.len() - at);
        let text: String = code[at..at + len].split_whitespace().collect::<Vec<_>>().join(" ");
        expand("", &text, &mut |path, _| paths.push((at, path)));
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::made_of(files)).into_iter().map(|finding| finding.message).collect()
    }

    fn manifest(krate: &str, text: &str) -> Vec<String> {
        let group = place_of(krate).map_or("", |place| place.group);
        let path = format!("crates/{group}/{krate}/Cargo.toml").replace("//", "/");
        let lints = format!("crates/{group}/{krate}/clippy.toml");
        messages(&[(&path, text), (&lints, "x"), ("crates/core/types/clippy.toml", "x")])
    }

    #[test]
    fn core_knows_core_below_it() {
        assert!(manifest("read", "[dependencies]\nforebay-cache.workspace = true\nbytes = \"1\"").is_empty());
        assert_eq!(manifest("cache", "[dependencies]\nforebay-read.workspace = true"), ["`cache` may not know `read`"]);
        assert!(manifest("cache", "[dev-dependencies]\nforebay-features.workspace = true").is_empty());
        assert_eq!(manifest("cache", "[dependencies]\nforebay-fuse = { path = \"../fuse\" }").len(), 1);
    }

    #[test]
    fn core_does_no_io() {
        assert_eq!(manifest("overlay", "[dependencies]\ntokio.workspace = true").len(), 1);
        assert_eq!(manifest("overlay", "[dev-dependencies]\nx = { package = \"rustix\", version = \"1\" }").len(), 1);
        assert_eq!(manifest("overlay", "[target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"").len(), 1);
    }

    #[test]
    fn shells_know_neither_core_nor_each_other() {
        assert!(manifest("store", "[dependencies]\nforebay-body.workspace = true\nrustix = \"1\"").is_empty());
        assert_eq!(manifest("store", "[dependencies]\nforebay-transport.workspace = true").len(), 1);
        assert_eq!(manifest("fuse", "[dependencies]\nforebay-cache.workspace = true").len(), 1);
        assert_eq!(manifest("fuse", "[dependencies]\nforebay.workspace = true").len(), 1);
        assert!(manifest("fuse", "[dev-dependencies]\nforebay-store.workspace = true").is_empty());
    }

    #[test]
    fn the_keeper_knows_no_daemon() {
        assert!(manifest("daemon", "[dependencies]\nforebay-keeper = \"1\"\nforebay-read = \"1\"").is_empty());
        assert_eq!(manifest("keeper", "[dependencies]\nforebay-daemon = \"1\""), ["`keeper` may not know `daemon`"]);
        assert_eq!(manifest("daemon", "[dependencies]\nforebay = \"1\""), ["`daemon` may not know `forebay`"]);
    }

    #[test]
    fn binary_knows_all_and_strangers_need_a_place() {
        assert!(messages(&[("crates/forebay/Cargo.toml", "[dependencies]\nforebay-read = \"1\"")]).is_empty());
        assert_eq!(messages(&[("crates/new/Cargo.toml", "")]).len(), 1);
        assert_eq!(messages(&[("crates/io/sim/Cargo.toml", "")]), ["`sim` belongs below crates/harness"]);
    }

    #[test]
    fn leaves_are_known_by_nobody() {
        let found = messages(&[
            ("tests/Cargo.toml", "[dev-dependencies]\nforebay-bench = { path = \"../benches\" }"),
            ("benches/Cargo.toml", "[dependencies]\nforebay-read = \"1\""),
        ]);
        assert_eq!(found, ["nobody may know `forebay-bench`: what it shares belongs into `testkit`"]);
    }

    #[test]
    fn core_crates_share_their_lints() {
        let types = ("crates/core/types/clippy.toml", "a");
        assert_eq!(messages(&[("crates/core/wire/Cargo.toml", ""), types]).len(), 1);
        assert_eq!(
            messages(&[("crates/core/wire/Cargo.toml", ""), types, ("crates/core/wire/clippy.toml", "b")]).len(),
            1
        );
        assert!(
            messages(&[("crates/core/wire/Cargo.toml", ""), types, ("crates/core/wire/clippy.toml", "a")]).is_empty()
        );
    }

    #[test]
    fn finds_effects_however_they_are_named() {
        for code in [
            "use std::fs;",
            "use std::{fmt, io::{self, Write}, net::TcpStream};",
            "use std::{\n    collections::BTreeMap,\n    time::{Duration, Instant},\n};",
            "fn f() { std::thread::sleep(d); }",
            "use std::os::fd::AsFd as _;",
            "use std::{io as other, env};",
        ] {
            assert_eq!(messages(&[("crates/core/cache/src/a.rs", code)]).len(), 1, "{code}");
            assert!(messages(&[("crates/io/store/src/a.rs", code)]).is_empty(), "{code}");
        }
    }

    #[test]
    fn leaves_the_harmless_and_the_tests_alone() {
        for code in [
            "use std::time::Duration;\nuse std::io;\nlet f = std::fmt::Debug;",
            "#[cfg(test)]\nmod tests { use std::fs; }",
            "// std::fs\nlet a = \"std::fs\";",
        ] {
            assert!(messages(&[("crates/core/cache/src/a.rs", code)]).is_empty(), "{code}");
        }
    }
}
