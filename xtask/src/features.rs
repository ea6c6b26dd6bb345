//! `cargo xtask features`: whether every crate from outside has one set of features, whichever package is built.
//!
//! Cargo unites the features that the selected packages ask for. A selection that gets other ones than the whole workspace
//! would compile the crate once more, and all that stand above it. `crates/features` asks for the union, so that no
//! selection does; this compares each package's own selection with the whole, with its tests and without, by `cargo tree`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::tree::root;

/// The edges of a build without tests, and of one with them.
const EDGES: [&str; 2] = ["normal,build", "normal,build,dev"];

/// Names each crate that a package's own selection gives other features; whether there is none.
pub fn check() -> Result<bool, String> {
    let whole = resolved(&["--workspace"], EDGES[1])?;
    let mut is_good = true;
    let packages = packages()?;
    for package in &packages {
        // A library alone is built only with its tests; the programs ask for all by a dependency.
        let edges = if is_program(package) { &EDGES[..] } else { &EDGES[1..] };
        for edges in edges {
            for line in resolved(&["--package", package], edges)?.difference(&whole) {
                let (krate, features) = line.split_once('|').unwrap_or((line, ""));
                println!("{package} ({edges}): {krate} with the features {features}, unlike in the whole workspace");
                is_good = false;
            }
        }
    }
    let verdict = if is_good {
        "one set of features a crate"
    } else {
        "crates/features/Cargo.toml has to ask for what is missing"
    };
    println!("features: {} packages, {} crates from outside: {verdict}", packages.len(), whole.len());
    Ok(is_good)
}

/// Packages that are built without their tests, too.
fn is_program(package: &str) -> bool {
    ["forebay", "forebay-mpiio", "forebay-bench", "forebay-sim", "forebay-burst-sim", "xtask"].contains(&package)
}

fn packages() -> Result<Vec<String>, String> {
    let text = cargo(&["metadata", "--no-deps", "--format-version=1"])?;
    let metadata: Value = serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    Ok(packages.filter_map(|package| package["name"].as_str().map(str::to_owned)).collect())
}

/// `CRATE VERSION|FEATURES` of each crate from outside.
fn resolved(selection: &[&str], edges: &str) -> Result<BTreeSet<String>, String> {
    let words = ["tree", "--quiet", "--prefix=none", "--no-dedupe", "--format={p}|{f}", "--edges", edges];
    let text = cargo(&[&words[..], selection].concat())?;
    Ok(text.lines().filter(|line| is_from_outside(line)).map(str::to_owned).collect())
}

/// Packages of ours are shown with their paths.
fn is_from_outside(line: &str) -> bool {
    line.split_once('|').is_some_and(|(package, _)| !package.contains('/'))
}

fn cargo(words: &[&str]) -> Result<String, String> {
    let output = crate::cargo::command().args(words).current_dir(root()).output();
    let output = output.map_err(|error| format!("cargo cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_packages_are_told_by_their_paths() {
        assert!(is_from_outside("tokio v1.54.1|net,sync"));
        assert!(is_from_outside("serde_derive v1.0.229 (proc-macro)|default"));
        assert!(!is_from_outside("forebay-wire v0.1.0 (/a/crates/core/wire)|"));
        assert!(!is_from_outside(""));
    }
}
