//! Mounting without privileges: inside a user namespace, and by fusermount3.
//!
//! The tests run as root, to give an unprivileged child a `/dev/fuse` of mode 0666 (in a mount namespace of its own,
//! where the machine's may be closed) and then another user.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use forebay_fuse::{MountOptions, ROOT_NODE, Session, SessionOptions, is_mount_point, mount};

use crate::children;
use crate::fixture::skip;
use crate::tree::Tree;

/// In a new mount namespace: a device node that all may open, then the rest of the arguments.
const OPEN_DEVICE: &str = r#"
set -e
mount -t tmpfs -o mode=755 tmpfs "$1"
mknod "$1/fuse" c 10 229
chmod 666 "$1/fuse"
mount --bind "$1/fuse" /dev/fuse
shift
exec "$@"
"#;

const NOBODY: &str = "65534";

/// Runs the part `mount-and-read` as nobody, by way of `wrapper`; `None` where this machine cannot.
fn as_nobody(wrapper: &[&str], expected_how: &str) -> Option<Output> {
    if !rustix::process::geteuid().is_root() {
        skip("only root can become another user");
        return None;
    }
    for program in ["unshare", "setpriv", "fusermount3"] {
        if Command::new(program).arg("--version").output().is_err() {
            skip(&format!("{program} is not installed"));
            return None;
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    open(dir.path());
    let (devices, view, program) = (dir.path().join("dev"), dir.path().join("view"), dir.path().join("program"));
    for made in [&devices, &view] {
        fs::create_dir(made).unwrap();
        open(made);
    }
    // nobody may not reach the build directory.
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    open(&program);
    std::os::unix::fs::chown(&view, Some(65534), Some(65534)).unwrap();
    let part = children::of_program(&program, "mount-and-read").arg(view.as_os_str());
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", OPEN_DEVICE, "sh"]).arg(&devices);
    command.args(["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--no-new-privs"]);
    if expected_how == "fusermount3" {
        // A setuid program is of no use without new privileges.
        command = without_last(command);
    }
    command.args(wrapper).arg(part.get_program()).args(part.get_args());
    command.envs(part.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("FOREBAY_FUSE_TEST_HOW", expected_how).current_dir("/");
    Some(command.output().unwrap())
}

/// The same command without its last argument.
fn without_last(command: Command) -> Command {
    let mut shorter = Command::new(command.get_program());
    let arguments: Vec<_> = command.get_args().collect();
    shorter.args(&arguments[..arguments.len() - 1]);
    shorter
}

#[test]
fn inside_a_user_namespace_of_ones_own() {
    let _alone = crate::fixture::alone();
    let Some(output) = as_nobody(&["unshare", "--user", "--map-root-user", "--mount"], "mount(2)") else {
        return;
    };
    assert_eq!(output.status.code(), Some(children::DONE), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn by_fusermount_as_an_ordinary_user() {
    let _alone = crate::fixture::alone();
    let Some(output) = as_nobody(&[], "fusermount3") else {
        return;
    };
    assert_eq!(output.status.code(), Some(children::DONE), "{}", String::from_utf8_lossy(&output.stderr));
}

/// In the child process: mounts, reads, unmounts.
pub fn mount_and_read(dir: &Path) -> i32 {
    let tree = Tree::new();
    tree.file(ROOT_NODE, "file", 0o644, "contents");
    let mounted = mount(dir, &MountOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(mounted.how(), std::env::var("FOREBAY_FUSE_TEST_HOW").unwrap());
    let session = Session::start(mounted.descriptor(), &SessionOptions::default(), Arc::new(tree)).unwrap();
    assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), "contents");
    assert!(session.notifier().inval_entry(ROOT_NODE, b"file").unwrap());
    mounted.unmount().unwrap();
    session.wait();
    assert!(!is_mount_point(dir));
    children::DONE
}
