//! Mounting, with the remedy where the error itself does not have it: another file may lie at `/dev/fuse`, and fusermount3 mounts for
//! users with a name only. Both are met in containers.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use anyhow::anyhow;
use forebay_fuse::{Mount, MountError, MountOptions};

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

fn advised(error: MountError, device: Option<&Metadata>) -> anyhow::Error {
    match (&error, device.and_then(fault)) {
        (MountError::Io { dir, .. } | MountError::NotPermitted { dir, .. }, Some(fault)) => {
            anyhow!("cannot mount on {}: {DEVICE} is {fault}", dir.display())
        }
        (MountError::NotPermitted { uid, refusal, .. }, None) if refusal.contains(NO_NAME) => anyhow!(
            "{error}; have user {uid} entered in /etc/passwd or the name service (getent passwd {uid}), or run as root"
        ),
        _ => error.into(),
    }
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
