//! Paths in a file that lead a program out of the view. Absolute paths in symbolic links, script lines and ELF headers
//! mean the file system's own directories, wherever the file is seen.
//!
//! The file is looked at in the view, as a program would, and links are followed by hand, so that the one is named that
//! leads out.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

use crate::elf::{self, Use};

/// Links followed on the way to a file (the kernel's own limit).
const LINKS_MAX: usize = 40;

/// The part of a script's first line that the kernel reads (`BINPRM_BUF_SIZE`).
const SCRIPT_BYTES_MAX: u64 = 256;

/// A path that leads out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EscapingPath {
    /// The place of the path: `symbolic link`, `interpreter`, `RUNPATH` and so on.
    pub kind: &'static str,
    /// The file that has it, on the backing file system.
    pub of: PathBuf,
    /// Where to.
    pub to: PathBuf,
    /// Whether it leads into an export, where `forebay run` shows it.
    pub is_exported: bool,
}

impl EscapingPath {
    /// For a person.
    pub fn text(&self) -> String {
        let Self { kind, of, to, is_exported } = self;
        let advice = match (is_exported, *kind) {
            (true, SYMBOLIC_LINK) => "forebay run shows it at its own path, up --links view inside the view",
            (true, _) => "forebay run shows it at its own path",
            (false, _) => "it is outside all exports",
        };
        format!("leads out of the view: {kind} of {}: {} ({advice})", of.display(), to.display())
    }

    /// For a program.
    pub fn json(&self) -> Value {
        json!({"kind": self.kind, "of": self.of, "to": self.to, "exported": self.is_exported})
    }
}

const SYMBOLIC_LINK: &str = "symbolic link";

/// The escaping paths of the file at `path` (as on the backing file system) seen in `view`.
///
/// # Errors
/// When the view does not let it be looked at.
pub fn find(view: &Path, exports: &[PathBuf], path: &Path) -> io::Result<Vec<EscapingPath>> {
    let search = Search { view, exports };
    let (path, link) = search.follow(path)?;
    if let Some(link) = link {
        return Ok(vec![link]);
    }
    let shown = search.shown(&path);
    if !fs::metadata(&shown)?.is_file() {
        return Ok(Vec::new());
    }
    let file = File::open(&shown)?;
    let mut ways: Vec<EscapingPath> = search.script_line(&path, &file)?.into_iter().collect();
    for (usage, to) in elf::paths(&file)? {
        let kind = match usage {
            Use::Interpreter => "ELF interpreter",
            Use::Library => "library",
            Use::Rpath => "RPATH",
            Use::Runpath => "RUNPATH",
        };
        ways.extend(search.way(kind, &path, Path::new(OsStr::from_bytes(&to))));
    }
    ways.dedup();
    Ok(ways)
}

struct Search<'a> {
    view: &'a Path,
    exports: &'a [PathBuf],
}

impl Search<'_> {
    fn shown(&self, path: &Path) -> PathBuf {
        self.view.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// `to`, if it leads out.
    fn way(&self, kind: &'static str, of: &Path, to: &Path) -> Option<EscapingPath> {
        if !to.is_absolute() || to.starts_with(self.view) {
            return None;
        }
        let is_exported = self.exports.iter().any(|export| to.starts_with(export));
        Some(EscapingPath { kind, of: of.to_owned(), to: to.to_owned(), is_exported })
    }

    /// Where `path` ends within the view, or the link on the way there that leads out.
    fn follow(&self, path: &Path) -> io::Result<(PathBuf, Option<EscapingPath>)> {
        let mut at = PathBuf::from("/");
        let mut rest: Vec<PathBuf> = parts(path);
        let mut links = 0;
        while let Some(part) = rest.pop() {
            if part == Path::new("..") {
                at.pop();
                continue;
            }
            let next = at.join(&part);
            let Ok(target) = fs::read_link(self.shown(&next)) else {
                at = next;
                continue;
            };
            links += 1;
            if links > LINKS_MAX {
                return Err(io::Error::from_raw_os_error(rustix::io::Errno::LOOP.raw_os_error()));
            }
            if let Some(way) = self.way(SYMBOLIC_LINK, &next, &target) {
                return Ok((next, Some(way)));
            }
            if let Ok(inside) = target.strip_prefix(self.view) {
                at = PathBuf::from("/");
                rest.extend(parts(inside));
            } else {
                rest.extend(parts(&target));
            }
        }
        Ok((at, None))
    }

    fn script_line(&self, path: &Path, file: &File) -> io::Result<Option<EscapingPath>> {
        let mut head = Vec::new();
        file.take(SCRIPT_BYTES_MAX).read_to_end(&mut head)?;
        let Some(line) = head.strip_prefix(b"#!") else { return Ok(None) };
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_start();
        let interpreter = line.split(|byte| matches!(byte, b' ' | b'\t')).next().unwrap_or_default();
        Ok(self.way("script interpreter", path, Path::new(OsStr::from_bytes(interpreter))))
    }
}

/// The components of a path, last first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let kept = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    kept.rev().map(|part| PathBuf::from(part.as_os_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_and_script_lines_that_lead_out() {
        let temporary = tempfile::tempdir().unwrap();
        let view = temporary.path();
        fs::create_dir_all(view.join("soft/bin")).unwrap();
        fs::write(view.join("soft/bin/tool"), "#! /soft/bin/python3 -s\nx").unwrap();
        fs::write(view.join("soft/bin/relative"), "#!python3\n").unwrap();
        fs::write(view.join("soft/bin/plain"), "x").unwrap();
        let inside = view.join("soft/bin");
        for (target, name) in [
            ("/soft/bin", "out"),
            ("bin", "in"),
            ("/etc", "etc"),
            ("in/tool", "far"),
            ("loop", "loop"),
            (inside.to_str().unwrap(), "prefixed"),
        ] {
            symlink(target, view.join("soft").join(name)).unwrap();
        }
        let exports = [PathBuf::from("/soft")];
        let found = |path: &str| -> Vec<(&'static str, String, String, bool)> {
            let ways = find(view, &exports, Path::new(path)).unwrap();
            let text = |path: PathBuf| path.display().to_string();
            ways.into_iter().map(|way| (way.kind, text(way.of), text(way.to), way.is_exported)).collect()
        };
        let link = |of: &str, to: &str, exported| vec![(SYMBOLIC_LINK, of.to_owned(), to.to_owned(), exported)];
        assert_eq!(found("/soft/out/plain"), link("/soft/out", "/soft/bin", true));
        assert_eq!(found("/soft/etc"), link("/soft/etc", "/etc", false));
        let script = vec![("script interpreter", "/soft/bin/tool".to_owned(), "/soft/bin/python3".to_owned(), true)];
        for path in ["/soft/bin/tool", "/soft/in/tool", "/soft/far", "/soft/prefixed/tool", "/soft/in/../bin/tool"] {
            assert_eq!(found(path), script, "{path}");
        }
        for path in ["/soft", "/soft/bin/plain", "/soft/bin/relative", "/soft/in/plain"] {
            assert_eq!(found(path), [], "{path}");
        }
        assert!(find(view, &exports, Path::new("/soft/loop")).is_err());
        assert!(find(view, &exports, Path::new("/soft/nothing")).is_err());
    }
}
