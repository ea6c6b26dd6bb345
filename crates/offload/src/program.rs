//! Where `forebay-sql` is: the program that has the engine of SQL, which neither the command nor the daemon links.

use std::path::PathBuf;

/// Its name.
const NAME: &str = "forebay-sql";

/// Names it where it lies elsewhere.
const VARIABLE: &str = "FOREBAY_SQL";

/// The one that is named, else beside this program, else in `PATH`.
pub fn sql_program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        return Some(named.into());
    }
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(NAME));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|directory| directory.join(NAME));
    beside.into_iter().chain(in_path).find(|place| place.is_file())
}
