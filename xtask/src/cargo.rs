//! Cargo, called by a program that cargo has started.
//!
//! `cargo run` tells a program about its own package in variables. Build scripts may read them (one of a crate from
//! outside does), so a build that inherited them would compile such crates again, with all that stand above them.

use std::ffi::OsString;
use std::process::Command;

/// How such variables begin. The others of cargo's are a user's settings.
const OF_A_PACKAGE: [&str; 5] =
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_NAME", "CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE"];

/// The cargo that started this program, else the one in `PATH`.
pub fn program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// That cargo as a user would call it.
pub fn command() -> Command {
    let mut cargo = Command::new(program());
    forget_package(&mut cargo);
    cargo
}

/// Hides this program's package from a command.
pub fn forget_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_a_package) {
            command.env_remove(name);
        }
    }
}

fn is_of_a_package(name: &str) -> bool {
    OF_A_PACKAGE.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_stay_and_the_package_goes() {
        assert!(["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH"].into_iter().all(is_of_a_package));
        assert!(!["CARGO", "CARGO_TARGET_DIR", "CARGO_INCREMENTAL", "CARGO_HOME"].into_iter().any(is_of_a_package));
    }
}
