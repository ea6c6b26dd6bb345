//! Mounting by the setuid program fusermount3, or fusermount of FUSE 2 where that is all there is, for users who may not call
//! `mount(2)`. Both take the same options.
//!
//! The program gets one end of a socket pair (its number in `_FUSE_COMMFD`), mounts, and sends the descriptor of
//! `/dev/fuse` back over it. Every failure here is a sentence for the user: what the program itself said, or why it
//! could not be asked.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::descriptor_passing::receive_descriptor;
use crate::options::MountOptions;

/// The programs, the one to be preferred first.
const PROGRAMS: [&str; 2] = ["fusermount3", "fusermount"];

/// Mounts on `dir`; the connection, and the program that has made it.
pub(crate) fn mount(dir: &Path, options: &MountOptions) -> Result<(Arc<OwnedFd>, &'static str), String> {
    let failed = |error: &dyn std::fmt::Display| format!("no socket pair for {}: {error}", PROGRAMS[0]);
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|error| failed(&error))?;
    let program = run(|command| {
        command.args(["-o", &option_text(options), "--"]).arg(dir);
        // As its standard input: the one descriptor that a child gets by number without a step between fork and exec.
        command.env("_FUSE_COMMFD", "0").stdin(theirs.try_clone().map_err(|error| failed(&error))?);
        Ok(())
    })?;
    // The program's copy is gone, and ours goes here, so that receiving ends when nothing was sent.
    drop(theirs);
    let descriptor = receive_descriptor(ours.as_fd());
    Ok((Arc::new(descriptor.map_err(|error| format!("{program} sent no descriptor: {error}"))?), program))
}

/// Unmounts `dir` lazily.
pub(crate) fn unmount(dir: &Path) -> Result<(), String> {
    run(|command| {
        command.args(["-u", "-z", "--"]).arg(dir).stdin(Stdio::null());
        Ok(())
    })
    .map(drop)
}

/// The options as one text; a comma within the source must not end it.
fn option_text(options: &MountOptions) -> String {
    let escaped = |text: &str| text.replace('\\', "\\\\").replace(',', "\\,");
    let mut text = format!("nosuid,nodev,fsname={},subtype={}", escaped(&options.source), escaped(&options.subtype));
    let words = [
        (options.read_only, ",ro"),
        (options.allow_other, ",allow_other"),
        (options.default_permissions, ",default_permissions"),
    ];
    for (_, word) in words.into_iter().filter(|(wanted, _)| *wanted) {
        text.push_str(word);
    }
    text
}

/// Runs the first of the programs that there is, with what `prepare` gives it; its name.
fn run(prepare: impl Fn(&mut Command) -> Result<(), String>) -> Result<&'static str, String> {
    let mut not_started = None;
    for program in PROGRAMS {
        let mut command = Command::new(program);
        prepare(&mut command)?;
        match command.stdout(Stdio::null()).stderr(Stdio::piped()).output() {
            Ok(output) if output.status.success() => return Ok(program),
            Ok(output) => return Err(refusal(program, &output)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                not_started.get_or_insert(format!("{program} could not be started: {error}"));
            }
        }
    }
    Err(not_started.unwrap_or_else(|| {
        format!("neither {} nor {} is installed; install the package fuse3", PROGRAMS[0], PROGRAMS[1])
    }))
}

/// The program's complaint, in one line, with advice where that is not plain.
fn refusal(program: &str, output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().map(|line| line.trim().trim_start_matches(program).trim_start_matches(": "));
    let said = said.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    let said = if said.is_empty() { "no reason given" } else { said.as_str() };
    let advice = match () {
        () if said.contains("/etc/mtab") => "; have it made: ln -s /proc/self/mounts /etc/mtab",
        () if said.contains("mount failed: Operation not permitted") => {
            "; it must be set-user-ID root: reinstall the package fuse3"
        }
        () => "",
    };
    format!("{program} refused ({}): {said}{advice}", output.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_a_program_is_one_line() {
        let said = |text: &str| {
            let output = Command::new("sh").args(["-c", "printf '%s' \"$0\" >&2; exit 3", text]).output().unwrap();
            refusal("fusermount", &output)
        };
        assert_eq!(said("fusermount: a\nfusermount: b\n"), "fusermount refused (exit status: 3): a; b");
        assert_eq!(said(""), "fusermount refused (exit status: 3): no reason given");
        let lacking = said("fusermount: failed to open /etc/mtab: No such file or directory\n");
        assert!(
            lacking.ends_with("No such file or directory; have it made: ln -s /proc/self/mounts /etc/mtab"),
            "{lacking}"
        );
        let not_setuid = said("fusermount: mount failed: Operation not permitted\n");
        assert!(not_setuid.ends_with("; it must be set-user-ID root: reinstall the package fuse3"), "{not_setuid}");
    }

    #[test]
    fn a_comma_in_the_source_stays_in_the_source() {
        let options = MountOptions { source: "a,allow_other".into(), ..MountOptions::default() };
        assert_eq!(option_text(&options), "nosuid,nodev,fsname=a\\,allow_other,subtype=forebay,ro,default_permissions");
    }
}
