//! Making mount namespaces, and entering those that others made.
//!
//! Root needs no user namespace; anybody else gets one in which he is himself and nobody else: files of other users
//! look like `nobody`'s, and set-user-id programs gain nothing.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, anyhow};
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{chroot, fchdir, getegid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, LinkNameSpaceType, capabilities, configure_capability_in_ambient_set,
    move_into_link_name_space, set_capabilities,
};

use super::place::Place;

/// A mount namespace, and what it takes to be in it.
#[derive(Debug)]
pub struct Namespace {
    mount: OwnedFd,
    /// The root directory of programs in it: entering a namespace alone leads to the namespace's.
    root: OwnedFd,
    /// The user namespace that it belongs to, if that is another than of those who enter.
    user: Option<OwnedFd>,
}

impl Namespace {
    /// The one of this process.
    fn of_this(has_own_user: bool) -> io::Result<Self> {
        let open =
            |name: &str| Ok::<_, io::Error>(OwnedFd::from(fs::File::open(Path::new("/proc/self/ns").join(name))?));
        let root = rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let user = if has_own_user { Some(open("user")?) } else { None };
        Ok(Self { mount: open("mnt")?, root, user })
    }

    /// Its descriptors, in the order in which `from_descriptors` takes them.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        [self.mount.as_fd(), self.root.as_fd()].into_iter().chain(self.user.as_ref().map(AsFd::as_fd)).collect()
    }

    /// The namespace of these descriptors; `None` when they are too few.
    pub fn from_descriptors(descriptors: Vec<OwnedFd>) -> Option<Self> {
        let mut descriptors = descriptors.into_iter();
        Some(Self { mount: descriptors.next()?, root: descriptors.next()?, user: descriptors.next() })
    }

    /// The number of the mount namespace.
    ///
    /// # Errors
    /// The error of `fstat(2)`.
    pub fn number(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&self.mount)?.st_ino)
    }

    /// Moves this process into it; its current directory is then the root.
    ///
    /// # Errors
    /// When the kernel refuses: it is another user's, or one of a container that this process is not in.
    pub fn enter(&self) -> io::Result<()> {
        if let Some(user) = &self.user {
            move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))?;
        }
        move_into_link_name_space(self.mount.as_fd(), Some(LinkNameSpaceType::Mount))?;
        fchdir(&self.root)?;
        chroot(".")?;
        Ok(())
    }
}

/// Moves this process, which has one thread, into a mount namespace of its own: what is mounted there is seen nowhere
/// else, and what others mount still appears.
///
/// # Errors
/// Where the kernel lets users make none, with what to do.
pub fn make() -> anyhow::Result<Namespace> {
    make_for(false)
}

/// The same from within the namespaces of a keeper (`Home`), where those who enter are not.
///
/// # Errors
/// As `make`.
pub fn make_at_home() -> anyhow::Result<Namespace> {
    make_for(true)
}

fn make_for(is_at_home: bool) -> anyhow::Result<Namespace> {
    // Root, here or in a container, may do without another user namespace.
    let has_own_user = match unshare(CloneFlags::CLONE_NEWNS) {
        Ok(()) => false,
        Err(_) => {
            make_user_namespace()?;
            true
        }
    };
    hide_mounts()?;
    Namespace::of_this(is_at_home || has_own_user).context("cannot name the namespace that was made")
}

/// Mounts that are made here are seen nowhere else.
fn hide_mounts() -> anyhow::Result<()> {
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC).map_err(|errno| match errno {
        Errno::INVAL => anyhow!(
            "/ is no mount point here, and nothing can be mounted for a single program below one; before chroot, bind \
                 the directory onto itself"
        ),
        errno => refused("the kernel permits no mount in a user namespace", errno.into()),
    })
}

/// Moves this process, which has one thread, into a user namespace in which it is who it was, and a mount namespace.
///
/// # Errors
/// Where the kernel lets users make none, with what to do.
pub fn make_user_namespace() -> anyhow::Result<()> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)
        .map_err(|errno| refused("the kernel does not permit this user to create a user namespace", errno.into()))?;
    for (file, text) in
        [("setgroups", "deny".to_owned()), ("uid_map", format!("{uid} {uid} 1")), ("gid_map", format!("{gid} {gid} 1"))]
    {
        let path = Path::new("/proc/self").join(file);
        fs::write(&path, text)
            .map_err(|error| refused(&format!("the kernel does not take {}", path.display()), error))?;
    }
    Ok(())
}

/// The namespaces of a keeper whose user may not mount where he is: a mount there is seen by programs of `forebay run` alone, and
/// ends with the keeper and the last of them.
#[derive(Debug)]
pub struct Home {
    /// Where the keeper was before. Programs that are there may enter.
    pub outside: Place,
    /// The namespaces.
    pub namespace: Namespace,
}

impl Home {
    /// Moves this process, which has one thread, into namespaces of its own. It may mount there, and so may what it starts: a daemon
    /// whose keeper has died unmounts.
    ///
    /// # Errors
    /// Where the kernel lets users make none, with what to do. This process is then where it was, or to be ended.
    pub fn make() -> anyhow::Result<Self> {
        let outside = Place::of_this().context("cannot determine the namespaces of this process")?;
        make_user_namespace()?;
        hide_mounts()?;
        let sets = capabilities(None).context("cannot determine the rights of this process")?;
        let inheritable = sets.inheritable | CapabilitySet::SYS_ADMIN;
        set_capabilities(None, CapabilitySets { inheritable, ..sets })
            .and_then(|()| configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true))
            .map_err(|errno| refused("the kernel grants no rights in a user namespace", errno.into()))?;
        let namespace = Namespace::of_this(true).context("cannot name the namespace that was made")?;
        Ok(Self { outside, namespace })
    }
}

/// Settings by which a system keeps users from making namespaces, with the value that does.
const SWITCHES: [(&str, &str); 3] = [
    ("user.max_user_namespaces", "0"),
    ("kernel.unprivileged_userns_clone", "0"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1"),
];

/// The kernel's refusal, with the setting behind it where one is found.
fn refused(what: &str, error: io::Error) -> anyhow::Error {
    let forbids = |(name, value): &(&str, &str)| {
        let set = fs::read_to_string(Path::new("/proc/sys").join(name.replace('.', "/")));
        set.is_ok_and(|set| set.trim() == *value)
    };
    let why = match SWITCHES.iter().find(|switch| forbids(switch)) {
        Some(switch) => return switched_off(*switch),
        // Since Linux 5.12 for a namespace in which root is root.
        None if geteuid().is_root() => "root of a container needs CAP_SETFCAP or CAP_SYS_ADMIN for it".to_owned(),
        None => "a container or a security module may forbid it".to_owned(),
    };
    anyhow!("{what}: {error} ({why})")
}

/// The refusal where a setting of the system is the reason; the kernel's error says less.
fn switched_off((name, value): (&str, &str)) -> anyhow::Error {
    let other = if value == "0" { "15000" } else { "0" };
    let other = if name.ends_with("clone") { "1" } else { other };
    anyhow!("user namespaces are switched off here ({name}={value}); ask for sysctl {name}={other}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_that_is_off_is_named_with_the_value_to_ask_for() {
        let told = SWITCHES.map(|switch| switched_off(switch).to_string());
        assert!(told[0].starts_with("user namespaces are switched off here (user.max_user_namespaces=0); ask for"));
        let asked =
            SWITCHES.iter().zip(["15000", "1", "0"]).map(|((name, _), value)| format!("ask for sysctl {name}={value}"));
        assert!(told.iter().zip(asked).all(|(told, asked)| told.ends_with(&asked)), "{told:?}");
    }

    #[test]
    fn a_root_that_is_no_mount_point_is_named() {
        if !geteuid().is_root() {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "must not be skipped in CI: not root");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let refused = std::thread::scope(|scope| {
            let in_chroot = || {
                unshare(CloneFlags::CLONE_FS).unwrap();
                chroot(directory.path()).unwrap();
                make().unwrap_err().to_string()
            };
            scope.spawn(in_chroot).join().unwrap()
        });
        assert!(refused.contains("is no mount point"), "{refused}");
    }
}
