//! Refusals of a view: every change with EROFS, extended attributes with EOPNOTSUPP, a request for a terminal with ENOTTY.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown, symlink};

use forebay_tests::{compare, on_both};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;

const EROFS: Option<i32> = Some(30);

#[track_caller]
fn read_only<T>(done: io::Result<T>) {
    match done {
        Ok(_) => panic!("a change was accepted"),
        Err(error) => assert_eq!(error.raw_os_error(), EROFS, "{error}"),
    }
}

on_both!(files_cannot_be_written, |site| {
    let file = site.view("plain/4096");
    read_only(File::options().write(true).open(&file));
    read_only(File::options().append(true).open(&file));
    read_only(File::options().read(true).write(true).open(&file));
    read_only(File::options().write(true).truncate(true).open(&file));
    read_only(File::options().write(true).create(true).truncate(false).open(site.view("plain/new")));
    read_only(
        rustix::fs::open(site.view("plain"), rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::WRONLY, Mode::RUSR)
            .map_err(io::Error::from),
    );
});

on_both!(nothing_can_be_made, |site| {
    read_only(fs::create_dir(site.view("plain/new")));
    read_only(symlink("target", site.view("plain/new")));
    read_only(fs::hard_link(site.view("plain/1"), site.view("plain/new")));
    for kind in [FileType::RegularFile, FileType::Fifo, FileType::Socket] {
        read_only(rustix::fs::mknodat(CWD, site.view("plain/new"), kind, Mode::RUSR, 0).map_err(io::Error::from));
    }
});

on_both!(nothing_can_be_removed_or_renamed, |site| {
    read_only(fs::remove_file(site.view("plain/1")));
    read_only(fs::remove_dir(site.view("plain/empty")));
    read_only(fs::rename(site.view("plain/1"), site.view("plain/new")));
    read_only(fs::rename(site.view("plain/1"), site.view("plain/4096")));
});

// Not as if there were none (`ENODATA`, an empty list): a copy that loses them says so.
on_both!(extended_attributes_are_not_supported, |site| {
    for path in ["plain/4096", "plain"].map(|path| site.view(path)) {
        let read = |name| rustix::fs::lgetxattr(&path, name, &mut [0_u8; 64][..]).map(|_| ());
        for name in ["user.test", "security.capability"] {
            assert_eq!(read(name), Err(Errno::OPNOTSUPP), "{name} of {}", path.display());
        }
        let listed = rustix::fs::llistxattr(&path, &mut [0_u8; 64][..]);
        assert_eq!(listed, Err(Errno::OPNOTSUPP), "{}", path.display());
        // Kernels that look after ACLs by themselves say that there is none.
        for name in ["system.posix_acl_access", "system.posix_acl_default"] {
            let told = read(name);
            let is_clear = matches!(told, Err(Errno::OPNOTSUPP | Errno::NODATA));
            assert!(is_clear, "{name} of {}: {told:?}", path.display());
        }
    }
});

on_both!(attributes_cannot_be_changed, |site| {
    let file = site.view("plain/4096");
    read_only(fs::set_permissions(&file, Permissions::from_mode(0o777)));
    read_only(chown(&file, Some(1), Some(1)));
    let now = Timespec { tv_sec: 1, tv_nsec: 1 };
    let times = Timestamps { last_access: now, last_modification: now };
    read_only(rustix::fs::utimensat(CWD, &file, &times, AtFlags::empty()).map_err(io::Error::from));
    let name = "user.test";
    read_only(rustix::fs::setxattr(&file, name, b"x", XattrFlags::empty()).map_err(io::Error::from));
    read_only(rustix::fs::removexattr(&file, name).map_err(io::Error::from));
});

on_both!(files_cannot_be_truncated, [Command("python3")], |site| {
    let code = "
import errno, os, sys
try:
    os.truncate(sys.argv[1], 1)
except OSError as error:
    sys.exit(0 if error.errno == errno.EROFS else str(error))
sys.exit('it was truncated')
";
    let _ = forebay_tests::program::python(code, &[&site.view("plain/4096")]).good();
});

on_both!(refusals_change_nothing, |site| {
    let _ = fs::remove_file(site.view("plain/1"));
    let _ = fs::create_dir(site.view("plain/new"));
    compare::trees(&site.source("plain"), &site.view("plain"));
});

on_both!(what_exists_is_said_to_exist, |site| {
    assert_eq!(fs::create_dir(site.view("plain/1")).unwrap_err().raw_os_error(), Some(17), "EEXIST, as on any other");
});

on_both!(a_file_is_no_terminal, |site| {
    for name in ["plain/1", "programs/script"] {
        let file = File::open(site.view(name)).unwrap();
        for _ in 0..3 {
            assert_eq!(rustix::termios::tcgetattr(&file).unwrap_err(), Errno::NOTTY);
        }
    }
});

on_both!(writable_is_not_what_it_says, |site| {
    let access = |name: &str, mode| rustix::fs::access(site.view(name), mode);
    assert_eq!(access("plain/4096", rustix::fs::Access::READ_OK), Ok(()));
    assert_eq!(access("plain/4096", rustix::fs::Access::WRITE_OK), Err(Errno::ROFS));
    assert_eq!(access("programs/cat", rustix::fs::Access::EXEC_OK), Ok(()));
    assert_eq!(access("plain/4096", rustix::fs::Access::EXEC_OK), Err(Errno::ACCESS));
});
