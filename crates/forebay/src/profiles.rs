//! Which profile a job uses: of what command, and where it lies.
//!
//! `up` decides for all nodes: it alone was called by the job's script, and it runs in the user's own environment. A job
//! never fails for want of a profile; what keeps one from being used is told in the log.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use forebay_daemon::{ProfileOptions, ProfilePlace};
use forebay_profile::{ProfileDirectory, ProfileError, ProfileFiles, command_of};
use forebay_types::ViewPath;

use crate::jobs::variable;
use crate::settings::Settings;
use crate::settings::values::{ProfileChoice, show_size};

/// Programs that may stand between a script and `forebay up`.
const WRAPPERS_MAX: usize = 4;

/// The settings that `up` decides for the nodes, as text, where the user has not: the command and the directory.
pub fn decided(settings: &Settings) -> Vec<(&'static str, String)> {
    if settings.profile == ProfileChoice::Off {
        return Vec::new();
    }
    let mut decided = Vec::new();
    if settings.profile_command.is_none() {
        decided.push(("profile-command", command_of(&variable, &caller_command_line())));
    }
    if settings.profile_dir.is_none() {
        let default = default_directory().ok();
        decided.extend(default.and_then(|path| Some(("profile-dir", path.to_str()?.to_owned()))));
    }
    decided.retain(|(_, text)| !text.is_empty());
    decided
}

/// Programs that run whatever a person types.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "zsh", "ksh", "csh", "tcsh", "fish"];

/// The profile as a person is told of it: the command, or the file. `decided` are the nodes' settings.
pub fn shown(settings: &Settings, decided: &BTreeMap<String, Vec<String>>) -> Option<String> {
    match &settings.profile {
        ProfileChoice::Off => None,
        ProfileChoice::File(path) => Some(path.display().to_string()),
        ProfileChoice::Auto => decided.get("profile-command")?.last().cloned(),
    }
}

/// The user's directory of profiles. Where a home directory is not there, or of another user, nothing is made in its place.
fn default_directory() -> Result<PathBuf, ProfileError> {
    let directory = ProfileDirectory::default_path(&variable)?;
    let home = variable("HOME").map(PathBuf::from).filter(|home| directory == home.join(".cache/forebay/profiles"));
    let Some(path) = home else { return Ok(directory) };
    let problem = match path.metadata() {
        Ok(found) if found.uid() != rustix::process::geteuid().as_raw() => "the home directory is of another user",
        Ok(found) if found.is_dir() => return Ok(directory),
        _ => "the home directory does not exist",
    };
    Err(ProfileError::Untrusted { path, problem: format!("{problem}; give --profile-dir DIR") })
}

/// Why a profile can neither be kept nor used, as far as its place tells.
pub fn problem(settings: &Settings) -> Option<ProfileError> {
    let budget_bytes = settings.profile_budget;
    match (&settings.profile, &settings.profile_dir) {
        (ProfileChoice::Off, _) => None,
        (ProfileChoice::File(path), _) => ProfileFiles::at(path, budget_bytes).err(),
        (ProfileChoice::Auto, given) => {
            let path = given.clone().map_or_else(default_directory, Ok);
            path.and_then(|path| ProfileDirectory::open(&path, budget_bytes)).err()
        }
    }
}

/// Whether a profile that is `shown` is of the shell that a person types in, which says nothing of what runs.
pub fn is_of_a_shell(settings: &Settings, shown: &str) -> bool {
    settings.profile == ProfileChoice::Auto && settings.profile_command.is_none() && is_interactive(shown)
}

/// Where the start is recorded, and how much lies there.
pub fn recording(settings: &Settings) -> Option<String> {
    let directory = match (&settings.profile, &settings.profile_dir) {
        (ProfileChoice::Off, _) => return None,
        (ProfileChoice::File(path), _) => path.parent()?.to_owned(),
        (ProfileChoice::Auto, given) => given.clone().or_else(|| default_directory().ok())?,
    };
    let files = std::fs::read_dir(&directory).into_iter().flatten().flatten();
    let bytes =
        files.filter_map(|file| file.metadata().ok()).filter(|file| file.is_file()).map(|file| file.len()).sum();
    let [used, budget] = [bytes, settings.profile_budget].map(show_size);
    Some(format!("recording this start for later ones ({}, {used} of {budget})", directory.display()))
}

/// Whether a command, as `command_of` tells it, is a shell without a script.
fn is_interactive(command: &str) -> bool {
    // Under Slurm the job's name stands before it.
    let mut words = command.split_once(": ").map_or(command, |(_, words)| words).split(' ');
    let program = words.next().and_then(|word| word.rsplit('/').next()).unwrap_or_default();
    SHELLS.contains(&program.trim_start_matches('-')) && words.all(|word| word.starts_with('-') && word != "-c")
}

/// The profile of a job with these settings and exports; `None` when it uses none.
pub fn options(settings: &Settings, exports: &[PathBuf]) -> Option<ProfileOptions> {
    let place = match &settings.profile {
        ProfileChoice::Off => return None,
        ProfileChoice::File(path) => ProfilePlace::File(path.clone()),
        ProfileChoice::Auto => {
            let directory = settings.profile_dir.clone().map_or_else(default_directory, Ok);
            let warned = directory.inspect_err(|error| tracing::warn!(%error, "no profile is used"));
            ProfilePlace::Directory(warned.ok()?)
        }
    };
    let exports = exports.iter().map(|path| ViewPath::from_absolute(path.as_os_str().as_bytes()));
    let command = settings.profile_command.clone();
    Some(ProfileOptions {
        place,
        command: command.unwrap_or_else(|| command_of(&variable, &caller_command_line())),
        exports: exports.collect::<Result<_, _>>().ok()?,
        budget_bytes: settings.profile_budget,
        pack: settings.pack,
    })
}

/// The words of the process that called this one, each ended by a NUL byte. One that does nothing but run the command
/// (`timeout 60 forebay up ...`) is not the script: its own caller is.
fn caller_command_line() -> Vec<u8> {
    let mut caller = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    let mut line = command_line(caller);
    for _ in 0..WRAPPERS_MAX {
        match parent(caller).filter(|_| is_wrapper(&line)) {
            Some(next) => (caller, line) = (next, command_line(next)),
            None => break,
        }
    }
    line
}

fn command_line(pid: i32) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

fn parent(pid: i32) -> Option<i32> {
    let status = std::fs::read(format!("/proc/{pid}/status")).ok()?;
    String::from_utf8_lossy(&status).lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Whether a process was given this program, and `up`, among its own arguments.
fn is_wrapper(line: &[u8]) -> bool {
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).skip(1).collect();
    let is_this = |word: &[u8]| word.rsplit(|byte| *byte == b'/').next() == Some(b"forebay");
    words.windows(2).any(|pair| is_this(pair[0]) && pair[1] == b"up")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_only_runs_the_command_is_no_script() {
        assert!(is_wrapper(b"timeout\x0060\0/opt/bin/forebay\0up\0--local\x002\0"));
        for script in [&b"bash\0train.sh\0"[..], b"forebay\0up\0", b"bash\0-c\0forebay up\0", b"", b"vi\0forebay\0"] {
            assert!(!is_wrapper(script), "{script:?}");
        }
    }

    #[test]
    fn a_shell_without_a_script_says_nothing_of_what_runs() {
        for shell in ["-bash", "bash", "/usr/bin/zsh -l", "sh -i", "interactive: -bash"] {
            assert!(is_interactive(shell), "{shell}");
        }
        for script in ["bash train.sh", "sh -c forebay up", "train: sh job.sh", "python3", "./bash.py", "train 7"] {
            assert!(!is_interactive(script), "{script}");
        }
    }

    #[test]
    fn the_caller_is_found() {
        assert!(!caller_command_line().is_empty());
        assert_eq!(parent(std::process::id() as i32), rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get()));
    }
}
