//! Programs whose root is an image that lies below an export (`forebay run --image`).
//!
//! A program first enters the namespace of its node in which the exports are at their own paths (`own_paths`). All programs of a
//! node are in its user namespace, so ranks may read each other's memory, whatever image they run in. There an image of one file
//! is mounted, once for the node (`mounted`). Then each program makes a mount namespace of its own, which is cheap and has no
//! page cache of its own. In it the program makes a root: the image as the tier shows it, under the host's paths that every
//! container has (`root`). Namespace and root end with the program.

mod accounts;
mod bind;
mod find;
mod mounted;
mod root;
mod serve;
mod squashfs;

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use forebay_launch::JobDirectory;

pub use bind::Bind;
pub use mounted::SERVERS;
pub use serve::serve;

use crate::own_paths::{self, Node};
use bind::Taken;
use find::Found;
use root::Root;

/// The host's paths in every container, at the same place; an image must have or be given a place for them.
const HOSTS: [&str; 4] = ["/proc", "/dev", "/sys", "/tmp"];

/// The host's files of network and identity in a container, where both have them.
const FILES: [&str; 3] = ["/etc/hosts", "/etc/resolv.conf", "/etc/machine-id"];

/// Where the programs of an image are: what the host has there is none of theirs.
const IMAGES_OWN: [&str; 9] = ["/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/sbin", "/usr", "/var"];

/// An image, and what of the host is to be seen in it.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The image: a directory or a SquashFS file.
    pub image: PathBuf,
    /// Further binds, in this order.
    pub binds: Vec<Bind>,
    /// The user's directory, bound at its own path.
    pub home: Option<PathBuf>,
    /// Where temporary files go; bound as well.
    pub tmp: Option<PathBuf>,
    /// The user's name, where the host's accounts do not tell it.
    pub user_name: Option<String>,
    /// Where the program begins; else in the current directory, which is bound for it.
    pub cd: Option<PathBuf>,
}

/// Makes the image this process's root. It has one thread, and sees the exports at their own paths (`own_paths::enter`).
///
/// # Errors
/// When there is no such image in what the job shows, or it cannot be mounted; this process is then to be ended.
pub fn enter(directory: &JobDirectory, node: &Node, wanted: &Wanted) -> anyhow::Result<()> {
    let here = std::env::current_dir().context("the current directory cannot be found")?;
    let found = match find::find(node, &wanted.image)? {
        Found::Directory(place) => place,
        Found::File(place) => mounted::mounted(directory, node, &wanted.image, &place)?,
    };
    let accounts = accounts::Accounts::of_this(wanted.user_name.as_deref(), wanted.home.as_deref());
    own_paths::make_namespace()?;
    // All are in hand before the first is covered.
    let image = bind::take(found.path()).with_context(|| format!("cannot take {}", wanted.image.display()))?;
    let begin = wanted.cd.as_deref().unwrap_or(&here);
    let taken = of_host(node, wanted, &here)?;
    let mut root = Root::begin(directory.path(), &image)?;
    for (name, at, text) in [("passwd", "/etc/passwd", accounts.passwd()), ("group", "/etc/group", accounts.group())] {
        root.put_file(name, Path::new(at), &text)?;
    }
    for one in &taken {
        root.bind(one)?;
    }
    root.enter()?;
    match std::env::set_current_dir(begin) {
        Err(error) if wanted.cd.is_some() => {
            Err(error).with_context(|| format!("--cd {}: the container has no such directory", begin.display()))
        }
        // It was to be the image's own, and the image has none of that name.
        Err(_) => std::env::set_current_dir("/").context("the image's root cannot be entered"),
        Ok(()) => Ok(()),
    }
}

/// The binds, the user's own last.
fn of_host(node: &Node, wanted: &Wanted, here: &Path) -> anyhow::Result<Vec<Taken>> {
    let mut taken = vec![];
    for dir in HOSTS {
        taken.push(Taken::required(&Bind::same(dir))?);
    }
    taken.extend(FILES.iter().filter_map(|file| Taken::if_both_have(Path::new(file))));
    for own in wanted.home.iter().chain(&wanted.tmp).filter(|own| !is_images_own(own)) {
        taken.extend(Taken::if_there(&Bind::same(own)));
    }
    if wanted.cd.is_none() && !is_images_own(here) {
        taken.push(Taken::required(&Bind::same(here))?);
    }
    for place in node.burst.iter().flat_map(|burst| [&burst.mount.path, &burst.dir, &burst.backing]) {
        taken.extend(Taken::if_there(&Bind::same(place)));
    }
    for bind in &wanted.binds {
        ensure!(
            bind.target.is_absolute(),
            "--bind: {} is not an absolute path in the container",
            bind.target.display()
        );
        taken.push(Taken::required(bind)?);
    }
    Ok(taken)
}

/// Whether a path is the image's, whatever the host has there.
fn is_images_own(path: &Path) -> bool {
    path.parent().is_none() || IMAGES_OWN.iter().any(|own| path.starts_with(own))
}
