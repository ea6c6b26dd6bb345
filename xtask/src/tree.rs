//! The files that are, or are about to be, committed: what git lists, ignored files left out.
//!
//! Read once and whole; rules never touch the disk themselves.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::source::Source;

/// A text file of the repository.
pub struct File {
    /// Relative to the repository's root.
    pub path: String,
    pub text: String,
    /// The parts of a Rust file told apart; `None` for any other file.
    pub source: Option<Source>,
}

/// All text files, and the paths of all files.
#[derive(Default)]
pub struct Tree {
    pub files: Vec<File>,
    /// Paths of the files that are not text.
    pub others: Vec<String>,
    /// The limits that exceptions are held to; empty where there are none.
    pub ratchet: String,
}

/// Where the exceptions from the length limits are listed.
pub const RATCHET: &str = "xtask/ratchet.toml";

/// Folders below `crates/` that hold crates of one kind.
const GROUPS: [&str; 3] = ["core", "io", "harness"];

impl File {
    /// A file with its source taken apart if it is Rust.
    pub fn new(path: &str, text: &str) -> Self {
        let source = path.ends_with(".rs").then(|| Source::of(text));
        Self { path: path.to_owned(), text: text.to_owned(), source }
    }

    /// Whether the file belongs to tests as a whole.
    pub fn is_test(&self) -> bool {
        self.is_test_module() || self.path.split('/').any(|part| part == "tests")
    }

    /// Whether the file is a test module that stands beside its code.
    pub fn is_test_module(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.ends_with("_tests.rs")
    }

    /// The crate below `crates/` that the file belongs to, whatever group it stands in.
    pub fn krate(&self) -> Option<&str> {
        self.parts_below_crates()?.1
    }

    /// The group of crates that the file belongs to: `core`, `io`, `harness`, or none.
    pub fn group(&self) -> Option<&str> {
        self.parts_below_crates()?.0
    }

    fn parts_below_crates(&self) -> Option<(Option<&str>, Option<&str>)> {
        let mut parts = self.path.strip_prefix("crates/")?.split('/');
        let first = parts.next()?;
        Some(if GROUPS.contains(&first) { (Some(first), parts.next()) } else { (None, Some(first)) })
    }
}

impl Tree {
    /// The tree of the files that git lists for the repository.
    pub fn of_repository() -> Result<Self, String> {
        let root = root();
        let listed = Command::new("git")
            // The owner of a checkout in a container is often another user than the one who tests it.
            .args(["-c", "safe.directory=*"])
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&root)
            .output()
            .map_err(|error| format!("git ls-files cannot be run: {error}"))?;
        if !listed.status.success() {
            return Err(format!("git ls-files failed: {}", String::from_utf8_lossy(&listed.stderr).trim()));
        }
        let mut tree = Self::default();
        for path in listed.stdout.split(|&byte| byte == 0).filter(|path| !path.is_empty()) {
            tree.add(&root, &String::from_utf8_lossy(path));
        }
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        tree.files.dedup_by(|a, b| a.path == b.path);
        tree.ratchet = std::fs::read_to_string(root.join(RATCHET)).unwrap_or_default();
        Ok(tree)
    }

    /// A listed file may be gone from the disk (deleted, not yet committed): it is left out.
    fn add(&mut self, root: &Path, path: &str) {
        let Ok(bytes) = std::fs::read(root.join(path)) else {
            return;
        };
        match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => self.files.push(File::new(path, &text)),
            _ => self.others.push(path.to_owned()),
        }
    }

    /// The file at `path`.
    pub fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Rust files with their sources.
    pub fn rust(&self) -> impl Iterator<Item = (&File, &Source)> {
        self.files.iter().filter_map(|file| Some((file, file.source.as_ref()?)))
    }

    /// Whether `path` is a file or a directory of the repository; `""` is its root.
    pub fn exists(&self, path: &str) -> bool {
        let below = format!("{path}/");
        let mut all = self.files.iter().map(|file| &file.path).chain(&self.others);
        path.is_empty() || all.any(|known| known == path || known.starts_with(&below))
    }

    /// A tree made of strings.
    #[cfg(test)]
    pub fn made_of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| File::new(path, text)).collect();
        Self { files, ..Self::default() }
    }
}

/// The repository's root: the parent of this package, where cargo runs it from. Not where it was built: build outputs
/// are shared by checkouts that come and go.
pub fn root() -> PathBuf {
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| "xtask".into()));
    package.parent().map(Path::to_owned).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_exist_by_their_files() {
        let tree = Tree::made_of(&[("docs/adr/0001-fuse.md", "")]);
        assert!(tree.exists("docs/adr") && tree.exists("docs/adr/0001-fuse.md") && tree.exists(""));
        assert!(!tree.exists("docs/ad") && !tree.exists("docs/adr/0002.md"));
    }

    #[test]
    fn knows_tests_and_crates() {
        assert!(File::new("crates/core/read/src/tests.rs", "").is_test());
        assert!(File::new("tests/semantics/bytes.rs", "").is_test());
        assert!(!File::new("crates/core/read/src/contests.rs", "").is_test());
        assert_eq!(File::new("crates/core/read/src/lib.rs", "").krate(), Some("read"));
        assert_eq!(File::new("crates/core/read/src/lib.rs", "").group(), Some("core"));
        assert_eq!(File::new("crates/forebay/src/main.rs", "").krate(), Some("forebay"));
        assert_eq!(File::new("crates/forebay/src/main.rs", "").group(), None);
        assert_eq!(File::new("xtask/src/main.rs", "").krate(), None);
    }
}
