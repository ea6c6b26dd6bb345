//! Mounting, with the remedy where the error itself does not have it: another file may lie at `/dev/fuse`, and fusermount3 mounts for
//! users with a name only. Both are met in containers.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use anyhow::anyhow;
use forebay_fuse::{Mount, MountError, MountOptions};

use crate::own_paths::Home;

/// The device of FUSE, where everybody looks for it.
pub const DEVICE: &str = "/dev/fuse";

/// Its numbers, which are the same on every Linux (Documentation/admin-guide/devices.txt of the kernel).
const NUMBERS: (u32, u32) = (10, 229);

/// The words of fusermount3 and fusermount (util/fusermount.c of libfuse) for a user whom the name service does not know.
const NO_NAME: &str = "could not determine username";

/// As `forebay_fuse::mount`.
///
/// # Errors
/// As there, with what to do.
pub fn mount(dir: &Path, options: &MountOptions) -> anyhow::Result<Mount> {
    forebay_fuse::mount(dir, options).map_err(|error| advised(error, std::fs::metadata(DEVICE).ok().as_ref()))
}

/// The beginning of what is told of a view that `mount_or_go_home` has mounted in a namespace.
pub const RUN_ONLY: &str = "the view is in a user namespace, where programs of `forebay run` alone see it";

/// How such a view was made, in the node's status.
pub const IN_NAMESPACE: &str = "mount(2) in a user namespace";

/// A mount that this process has made in namespaces of its own.
#[derive(Debug)]
pub struct AtHome {
    /// The namespaces.
    pub home: Home,
    /// `RUN_ONLY`, why, and what to do.
    pub note: String,
}

/// As `mount`. Where this user may not mount, in namespaces of this process's own, which has one thread.
///
/// # Errors
/// As `mount`; this process is then to be ended.
pub fn mount_or_go_home(dir: &Path, options: &MountOptions) -> anyhow::Result<(Mount, Option<AtHome>)> {
    let error = match forebay_fuse::mount(dir, options) {
        Ok(mount) => return Ok((mount, None)),
        Err(error) => error,
    };
    let device = std::fs::metadata(DEVICE).ok();
    let refusal = match &error {
        MountError::NotPermitted { uid, refusal, .. } if device.as_ref().and_then(fault).is_none() => {
            format!("{refusal}{}", remedy(*uid, refusal))
        }
        _ => return Err(advised(error, device.as_ref())),
    };
    if options.allow_other {
        let error = advised(error, device.as_ref());
        return Err(anyhow!(
            "{error}; without --allow-other, the view can be in a user namespace, for `forebay run` alone"
        ));
    }
    let at_home = Home::make().and_then(|home| match forebay_fuse::mount(dir, options) {
        Ok(mount) => Ok((mount, home)),
        Err(MountError::NotPermitted { .. }) => Err(anyhow!(
            "the kernel refuses the mount there, too: it is older than Linux 4.18, or a security module forbids it"
        )),
        Err(error) => Err(error.into()),
    });
    match at_home {
        Ok((mount, home)) => Ok((mount, Some(AtHome { home, note: format!("{RUN_ONLY}: {refusal}") }))),
        Err(at_home) => {
            let error = advised(error, device.as_ref());
            Err(anyhow!("{error}; nor can it be mounted in a user namespace: {at_home:#}"))
        }
    }
}

fn advised(error: MountError, device: Option<&Metadata>) -> anyhow::Error {
    match (&error, device.and_then(fault)) {
        (MountError::Io { dir, .. } | MountError::NotPermitted { dir, .. }, Some(fault)) => {
            anyhow!("cannot mount on {}: {DEVICE} is {fault}", dir.display())
        }
        (MountError::NotPermitted { uid, refusal, .. }, None) => anyhow!("{error}{}", remedy(*uid, refusal)),
        _ => error.into(),
    }
}

/// The remedy that the program does not tell.
fn remedy(uid: u32, refusal: &str) -> String {
    if !refusal.contains(NO_NAME) {
        return String::new();
    }
    format!("; have user {uid} entered in /etc/passwd or the name service (getent passwd {uid}), or run as root")
}

/// A description of the file at the path of the device, if it is another file, and the remedy.
#[must_use]
pub fn fault(found: &Metadata) -> Option<String> {
    let kind = found.file_type();
    let numbers = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    let is = match () {
        () if kind.is_char_device() && numbers == NUMBERS => return None,
        () if kind.is_char_device() => format!("the character device {}:{}", numbers.0, numbers.1),
        () if kind.is_file() => "a regular file".to_owned(),
        () if kind.is_dir() => "a directory".to_owned(),
        () => "no character device".to_owned(),
    };
    Some(format!(
        "{is}, not that of FUSE (character device {}:{}); in a container, pass the host's device in",
        NUMBERS.0, NUMBERS.1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::metadata;

    #[test]
    fn other_files_are_not_taken_for_the_device() {
        let told = |path: &str| fault(&metadata(path).unwrap()).unwrap();
        assert!(told("/dev/null").starts_with("the character device 1:3, not that of FUSE (character device 10:229);"));
        assert!(told("/proc/self/status").starts_with("a regular file, not"));
        assert!(told("/dev").starts_with("a directory, not"));
        let refused = || MountError::NotPermitted { dir: "/v".into(), uid: 7, refusal: "mount failed".to_owned() };
        let said = advised(refused(), metadata("/dev/null").ok().as_ref()).to_string();
        assert!(said.starts_with("cannot mount on /v: /dev/fuse is the character device 1:3, not that of"), "{said}");
        assert!(advised(refused(), None).to_string().ends_with(", and mount failed"));
    }

    #[test]
    fn a_user_without_a_name_is_told_how_to_mount() {
        let refusal = format!("fusermount3 refused (exit status: 1): {NO_NAME}");
        let said = advised(MountError::NotPermitted { dir: "/v".into(), uid: 7, refusal }, None).to_string();
        let remedy = "; have user 7 entered in /etc/passwd or the name service (getent passwd 7), or run as root";
        assert!(said.ends_with(&format!("{NO_NAME}{remedy}")), "{said}");
    }
}
