//! No code: one set of features of the crates from outside.
//!
//! Cargo gives a crate the features that the selected packages ask for, so that each selection (`-p forebay`,
//! `--workspace`, `-p forebay-cache`) would compile tokio, serde and whatever stands above them once more. Every package
//! with dependencies from outside depends on this one, which asks for the union: a crate is compiled once a profile.
//! Programs do so by a dependency, libraries by a dev-dependency, which a program's build does not see.
//! `cargo xtask features` compares every selection and says what is to be added to the manifest.
