//! Permissions: a view grants the access that the backing file system grants beyond the mode, and denies the access that it denies.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command as Program;

use forebay_tests::job::{NOBODY, as_nobody, as_user};
use forebay_tests::program::{Finished, run};
use forebay_tests::{Job, Sandbox, require, tree};

use crate::asking::Ask;

/// A group that nobody is in by himself.
const GROUP: u32 = 4_242;
const STRANGER: u32 = 65_533;
const EPERM: &str = "1";

/// A file of root's.
fn file(path: &Path, mode: u32, contents: &str) {
    tree::write(path, contents.as_bytes());
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn acl(path: &Path, entry: &str) {
    let _ = run(Program::new("setfacl").args(["-m", entry]).arg(path)).good();
}

fn open_to_all(directories: &[&Path]) {
    directories.iter().for_each(|path| fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap());
}

/// A tmpfs, gone with this.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn at(dir: &Path) -> Self {
        fs::create_dir(dir).unwrap();
        let _ = run(Program::new("mount").args(["-t", "tmpfs", "-o", "size=1m,mode=755", "tmpfs"]).arg(dir)).good();
        Self(dir.to_owned())
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = run(Program::new("umount").arg("--lazy").arg(&self.0));
    }
}

fn read(path: &Path) -> Finished {
    run(as_nobody("cat".as_ref()).arg(path))
}

#[test]
fn grants_of_an_acl_alone_are_granted() {
    require!(Fuse, FuseForUsers, Root, Command("setpriv"), Command("fusermount3"), Command("setfacl"));
    let sandbox = Sandbox::of_nobody();
    let source = sandbox.source();
    let tmpfs = Tmpfs::at(&source.join("tmpfs"));
    let of_user = |rights: &str| format!("u:{NOBODY}:{rights}");
    for base in [&source, &tmpfs.0] {
        fs::create_dir(base.join("closed")).unwrap();
        fs::set_permissions(base.join("closed"), Permissions::from_mode(0o750)).unwrap();
        file(&base.join("closed/secret"), 0o640, "secret");
        file(&base.join("closed/granted"), 0o640, "granted");
        file(&base.join("closed/tool"), 0o750, "#!/bin/sh\necho tool\n");
        for (name, rights) in [("closed", "rx"), ("closed/granted", "r"), ("closed/tool", "rx")] {
            acl(&base.join(name), &of_user(rights));
        }
    }
    let job = Job::up_local(sandbox, 3, &source, &["--fanout", "2"]);
    for base in [&source, &tmpfs.0] {
        let shown = |name: &str| job.path(2, &base.join("closed").join(name));
        let names = run(as_nobody("ls".as_ref()).arg(shown(""))).good().text();
        assert_eq!(names, "granted\nsecret\ntool\n", "{}", base.display());
        assert_eq!(read(&shown("granted")).good().text(), "granted", "{}", base.display());
        assert_eq!(run(&mut as_nobody(&shown("tool"))).good().text(), "tool\n", "{}", base.display());
        let refused = read(&shown("secret"));
        assert!(refused.stderr.contains("ermission denied"), "{} {}", refused.text(), refused.stderr);
        let test = |flag: &str, name: &str| run(as_nobody("test".as_ref()).arg(flag).arg(shown(name))).status.success();
        assert_eq!([test("-r", "granted"), test("-r", "secret"), test("-x", "granted")], [true, false, false]);
    }
    drop(tmpfs);
    job.down();
}

/// One whose group the user is in beside his own, with the node in a namespace that has no number for that group.
#[test]
fn grants_of_another_group_alone_are_granted() {
    require!(Fuse, FuseForUsers, Root, Command("setpriv"), Command("fusermount3"));
    for in_namespace in [false, true] {
        let sandbox = Sandbox::of_nobody();
        let source = sandbox.source();
        file(&source.join("granted"), 0o640, "granted");
        chown(source.join("granted"), Some(0), Some(GROUP)).unwrap();
        file(&source.join("secret"), 0o640, "secret");
        let member = |program: &Path| {
            let mut command = Program::new("setpriv");
            command.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), format!("--groups={GROUP}")]);
            command.arg(program);
            sandbox.surround(&mut command);
            command
        };
        let forebay = sandbox.base().join("forebay");
        let mut up = if in_namespace {
            let mut unshare = member(Path::new("unshare"));
            unshare.args(["--user", "--map-root-user", "--mount"]).arg(&forebay);
            unshare
        } else {
            member(&forebay)
        };
        let view = sandbox.view();
        up.args(["up", "--job", &sandbox.name, "--export"]).arg(&source).arg("--view").arg(&view);
        let _ = run(&mut up).good();
        let read = |name: &str| {
            let mut reads = member(&forebay);
            reads.args(["run", "--job", &sandbox.name, "--", "cat"]).arg(source.join(name));
            run(&mut reads)
        };
        let granted = read("granted");
        assert_eq!(granted.text(), "granted", "in a namespace: {in_namespace}: {}", granted.stderr);
        assert!(read("secret").stderr.contains("ermission denied"), "in a namespace: {in_namespace}");
        Job::of(sandbox).down();
    }
}

/// Where others enter, nobody gets by the mode what a list denies him.
#[test]
fn denials_of_an_acl_hold_for_others() {
    require!(Fuse, Root, Command("setpriv"), Command("setfacl"));
    let sandbox = Sandbox::new();
    let source = sandbox.source();
    let tmpfs = Tmpfs::at(&source.join("tmpfs"));
    open_to_all(&[&sandbox.base(), &source]);
    for base in [&source, &tmpfs.0] {
        file(&base.join("public"), 0o644, "public");
        file(&base.join("denied"), 0o644, "denied");
        fs::create_dir(base.join("closed")).unwrap();
        open_to_all(&[&base.join("closed")]);
        file(&base.join("closed/file"), 0o644, "below");
        for name in ["denied", "closed"] {
            acl(&base.join(name), &format!("u:{STRANGER}:---"));
        }
    }
    let job = Job::up_local(sandbox, 3, &source, &["--fanout", "2", "--allow-other"]);
    for base in [&source, &tmpfs.0] {
        let read = |name: &str| run(as_user(STRANGER, "cat".as_ref()).arg(job.path(2, &base.join(name))));
        assert_eq!(read("public").good().text(), "public");
        for name in ["denied", "closed/file"] {
            let refused = read(name);
            assert_eq!(refused.text(), "", "what {name} of {} holds was shown", base.display());
            assert!(refused.stderr.contains("ermission denied"), "{}", refused.stderr);
        }
        assert_eq!(fs::read_to_string(job.path(2, &base.join("closed/file"))).unwrap(), "below", "its owner may");
    }
    drop(tmpfs);
    job.down();
}

#[test]
fn only_the_jobs_user_may_clear_and_pin() {
    require!(Fuse, Root, Command("setpriv"), Command("gcc"));
    let (ask, sandbox) = (Ask::compile(), Sandbox::new());
    let source = sandbox.source();
    tree::write(&source.join("file"), b"contents");
    open_to_all(&[&sandbox.base(), &source, ask.program().parent().unwrap()]);
    let job = Job::up_local(sandbox, 1, &source, &["--allow-other"]);
    let other = |words: &[&str]| run(as_user(STRANGER, &ask.program()).arg(job.view(0)).args(words));
    for words in [&["clear"][..], &["pin", "/x"]] {
        let refused = other(words);
        assert_eq!(refused.text().trim_end(), EPERM, "{words:?} {}", refused.stderr);
        let _ = ask.of(job.view(0), words).good();
    }
    let _ = other(&["metrics"]).good();
    job.down();
}

/// The kernel lets in who has the user and the group of the mount, so `newgrp` keeps a program of the same user out.
#[test]
fn a_program_of_another_group_does_not_enter() {
    require!(Fuse, FuseForUsers, Root, Command("setpriv"), Command("fusermount3"));
    let sandbox = Sandbox::of_nobody();
    let source = sandbox.source();
    file(&source.join("public"), 0o644, "public");
    let job = Job::up_local(sandbox, 1, &source, &[]);
    let shown = job.path(0, &source.join("public"));
    let of_group = |group: u32| {
        let mut command = Program::new("setpriv");
        command.args([format!("--reuid={NOBODY}"), format!("--regid={group}"), "--clear-groups".to_owned()]);
        run(command.arg("cat").arg(&shown))
    };
    assert_eq!(of_group(NOBODY).good().text(), "public");
    let refused = of_group(GROUP);
    assert_eq!(refused.text(), "");
    assert!(refused.stderr.contains("ermission denied"), "{}", refused.stderr);
    job.down();
}

/// Debian's, which every user may run.
const PYTHON: &str = "/usr/bin/python3";

/// Asks a keeper at its entrance, and prints what it gets: nothing where it is not answered.
const ASKS: &str = r#"
import socket, sys
here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
entrance = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
entrance.connect(sys.argv[1])
socket.send_fds(entrance, [b'"node"'], [there.fileno()])
there.close()
here.settimeout(60)
print(here.recv(65536).decode())
"#;

/// Beyond the directory, which only the job's user may enter: who gets there all the same is refused by the keeper itself.
#[test]
fn keepers_answer_their_own_user_and_root_alone() {
    require!(Fuse, FuseForUsers, Root, Command("setpriv"), Command("fusermount3"), Command("python3"));
    let sandbox = Sandbox::of_nobody();
    let source = sandbox.source();
    let directory = sandbox.runtime().join("forebay").join(&sandbox.name);
    let job = Job::up_local(sandbox, 1, &source, &[]);
    let entrance = directory.join("enter-0.sock");
    let ways: Vec<PathBuf> = directory.ancestors().take(3).map(Path::to_owned).chain([job.sandbox.base()]).collect();
    let modes: Vec<_> = ways.iter().map(|path| fs::metadata(path).unwrap().permissions()).collect();
    open_to_all(&ways.iter().map(PathBuf::as_path).collect::<Vec<_>>());
    fs::set_permissions(&entrance, Permissions::from_mode(0o666)).unwrap();
    let asks = |mut command: Program| run(command.args(["-c", ASKS]).arg(&entrance)).good().text();
    for (mine, answered) in
        [(Program::new(PYTHON), true), (as_nobody(PYTHON.as_ref()), true), (as_user(STRANGER, PYTHON.as_ref()), false)]
    {
        let (who, told) = (format!("{mine:?}"), asks(mine));
        assert_eq!(told.contains("node"), answered, "{who} was told {told:?}");
    }
    for (path, mode) in ways.iter().zip(modes) {
        fs::set_permissions(path, mode).unwrap();
    }
    job.down();
}
