//! The environment of a program in a container: the host's, changed as `ch-run(1)` changes it, and what the user sets and unsets.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use anyhow::{Context, ensure};

use crate::cli::SetEnv;

/// Where an image says what its programs want to have set.
const OF_IMAGE: &str = "/ch/environment";

/// A file of variables, bytes; the kernel takes no more for all of a program's.
const FILE_BYTES_MAX: usize = 2 << 20;

/// The variable by which programs learn that they are in a container of this kind, and its value.
const MARK: (&str, &str) = ("CH_RUNNING", "Weirdal Yankovic");

/// The variables of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Environment(BTreeMap<OsString, OsString>);

/// Variables to set, read as far as that is possible outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Setting {
    /// The variables of the image.
    OfImage,
    /// The text of a file, and its name.
    Text(Vec<u8>, String),
    /// One.
    One(OsString, OsString),
}

impl Environment {
    /// That of this process.
    pub fn of_this() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// Reads what the host has of it.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read(wanted: &SetEnv) -> anyhow::Result<Setting> {
        Ok(match wanted {
            SetEnv::OfImage => Setting::OfImage,
            SetEnv::One(name, value) => Setting::One(name.clone(), value.clone()),
            SetEnv::File(path) => Setting::Text(read(path)?, path.display().to_string()),
        })
    }

    /// Sets the differences of every container: `/bin` is searched, and the mark is there.
    pub fn for_container(&mut self) {
        let search = self.get("PATH").unwrap_or_default();
        if !search.as_bytes().split(|byte| *byte == b':').any(|dir| dir == b"/bin") {
            let separator: &[u8] = if search.is_empty() { b"" } else { b":" };
            self.insert("PATH".into(), OsString::from_vec([search.as_bytes(), separator, b"/bin"].concat()));
        }
        self.insert(MARK.0.into(), MARK.1.into());
    }

    /// A variable.
    pub fn get(&self, name: &str) -> Option<OsString> {
        self.0.get(OsStr::new(name)).cloned()
    }

    /// Sets one.
    pub fn insert(&mut self, name: OsString, value: OsString) {
        self.0.insert(name, value);
    }

    /// Removes those whose names match.
    pub fn unset(&mut self, glob: &str) {
        self.0.retain(|name, _| !matches(glob.as_bytes(), name.as_bytes()));
    }

    /// Sets what is wanted; within the container.
    ///
    /// # Errors
    /// When the image says nothing, or a line is no variable.
    pub fn set(&mut self, setting: Setting) -> anyhow::Result<()> {
        match setting {
            Setting::One(name, value) => {
                let value = self.expanded(value.as_bytes());
                self.insert(name, value);
                Ok(())
            }
            Setting::Text(text, name) => self.set_lines(&text).with_context(|| format!("--set-env={name}")),
            Setting::OfImage => read(Path::new(OF_IMAGE))
                .and_then(|text| self.set_lines(&text))
                .with_context(|| format!("--set-env: {OF_IMAGE} of the image")),
        }
    }

    /// Lines `NAME=VALUE`; single quotes around a value are none of it.
    fn set_lines(&mut self, text: &[u8]) -> anyhow::Result<()> {
        for (line, number) in text.split(|byte| *byte == b'\n').zip(1..) {
            if line.is_empty() {
                continue;
            }
            let at = line.iter().position(|byte| *byte == b'=').filter(|at| *at > 0);
            let at = at.with_context(|| format!("line {number} is no NAME=VALUE"))?;
            let value = &line[at + 1..];
            let bare = value.strip_prefix(b"'").and_then(|value| value.strip_suffix(b"'")).unwrap_or(value);
            let value = self.expanded(bare);
            self.insert(OsString::from_vec(line[..at].to_vec()), value);
        }
        Ok(())
    }

    /// The value, in which parts between colons that are `$NAME` are that variable's value, and none where it has none.
    fn expanded(&self, value: &[u8]) -> OsString {
        let mut parts: Vec<&[u8]> = vec![];
        for part in value.split(|byte| *byte == b':') {
            match part.strip_prefix(b"$").filter(|name| !name.is_empty()) {
                None => parts.push(part),
                Some(name) => {
                    let known = self.0.get(OsStr::from_bytes(name)).filter(|known| !known.is_empty());
                    parts.extend(known.map(|known| known.as_bytes()));
                }
            }
        }
        OsString::from_vec(parts.join(&b':'))
    }

    /// All of them.
    pub fn into_variables(self) -> BTreeMap<OsString, OsString> {
        self.0
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(text.len() <= FILE_BYTES_MAX, "{} has more than {FILE_BYTES_MAX} bytes", path.display());
    Ok(text)
}

/// Whether all of `name` matches: `*` any text, `?` any byte. Takes as many steps as the product of both lengths at most.
fn matches(glob: &[u8], name: &[u8]) -> bool {
    let (mut at, mut of_name, mut again) = (0, 0, None);
    while of_name < name.len() {
        match glob.get(at) {
            Some(b'*') => {
                again = Some((at + 1, of_name));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[of_name] => (at, of_name) = (at + 1, of_name + 1),
            _ => match again {
                // The last `*` takes one more.
                Some((after, taken)) => {
                    (at, of_name) = (after, taken + 1);
                    again = Some((after, taken + 1));
                }
                None => return false,
            },
        }
    }
    glob[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment(variables.iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    #[test]
    fn lines_are_taken_as_ch_run_takes_them() {
        let mut one = environment(&[("PATH", "/usr/bin"), ("EMPTY", "")]);
        let text = b"A=1\n\nB='two words'\nC=/x:$PATH:$NONE:$EMPTY:/y\nD=a=b\nE=$\nF='\n";
        one.set_lines(text).unwrap();
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "/x:/usr/bin:/y"),
            ("D", "a=b"),
            ("E", "$"),
            ("F", "'"),
            ("PATH", "/usr/bin"),
            ("EMPTY", ""),
        ];
        assert_eq!(one, environment(&expected));
        for wrong in ["=x", "NAME"] {
            let refused = one.set_lines(format!("A=1\n{wrong}\n").as_bytes()).unwrap_err().to_string();
            assert!(refused.contains("line 2"), "{refused}");
        }
    }

    #[test]
    fn a_container_searches_bin_and_has_its_mark() {
        for (before, after) in [("", "/bin"), ("/usr/bin", "/usr/bin:/bin"), ("/bin:/x", "/bin:/x")] {
            let mut one = environment(&[("PATH", before)]);
            one.for_container();
            assert_eq!(one, environment(&[("PATH", after), MARK]));
        }
    }

    #[test]
    fn names_match_as_shells_match_them() {
        for (glob, name, is_match) in [
            ("*", "", true),
            ("SLURM_*", "SLURM_JOB_ID", true),
            ("SLURM_*", "SLURM", false),
            ("*_ID", "A_ID_ID", true),
            ("*_ID", "A_ID_", false),
            ("A?C", "ABC", true),
            ("A?C", "AC", false),
            ("a*b*c", "a-b-b-c", true),
            ("", "A", false),
            ("PATH", "PATH", true),
        ] {
            assert_eq!(matches(glob.as_bytes(), name.as_bytes()), is_match, "{glob} {name}");
        }
        let mut one = environment(&[("A_1", ""), ("A_2", ""), ("B", "")]);
        one.unset("A_*");
        assert_eq!(one, environment(&[("B", "")]));
    }
}
