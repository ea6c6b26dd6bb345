//! Requirements of a test on the machine, and the result where one is missing.
//!
//! A missing thing skips the test with a line `skipped: reason`, which `make test` counts and names. With `CI=true` it
//! fails the test: the machine that decides about a change must be able to run everything.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A thing that not every machine offers.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// Being root.
    Root,
    /// Being able to mount FUSE file systems.
    Fuse,
    /// Letting users other than root mount FUSE file systems.
    FuseForUsers,
    /// Being able to mount images through loop devices.
    LoopDevices,
    /// Being able to limit the memory of processes by a control group.
    MemoryGroups,
    /// A command in `PATH`.
    Command(&'static str),
    /// A module that the system's Python can import, which need not be the first in `PATH`.
    PythonModule(&'static str),
}

/// The Python that the system's packages of modules are for.
pub const SYSTEM_PYTHON: &str = "/usr/bin/python3";

impl Need {
    /// Why this machine does not offer it.
    #[must_use]
    pub fn missing(self) -> Option<String> {
        match self {
            Self::Root => (!rustix::process::geteuid().is_root()).then(|| "needs root".to_owned()),
            Self::Fuse => {
                let opened = std::fs::File::options().read(true).write(true).open("/dev/fuse");
                opened.err().map(|error| format!("needs /dev/fuse: {error}"))
            }
            Self::FuseForUsers => {
                let mode = std::fs::metadata("/dev/fuse").map(|known| known.mode() & 0o006);
                let open = mode.is_ok_and(|mode| mode == 0o006);
                (!open).then(|| "needs a /dev/fuse that everybody may open (mode 0666)".to_owned())
            }
            Self::LoopDevices => {
                let opened = std::fs::File::options().read(true).write(true).open("/dev/loop-control");
                opened.err().map(|error| format!("needs /dev/loop-control: {error}"))
            }
            Self::MemoryGroups => crate::memory_group::MemoryGroup::new(64 << 20)
                .err()
                .map(|error| format!("needs control groups for memory: {error}")),
            Self::Command(name) => (!in_path(name)).then(|| format!("needs the command {name}")),
            Self::PythonModule(name) => {
                let import = std::process::Command::new(SYSTEM_PYTHON).args(["-c", &format!("import {name}")]).output();
                let is_there = import.is_ok_and(|done| done.status.success());
                (!is_there).then(|| format!("needs Python's module {name}"))
            }
        }
    }
}

fn in_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|dir| Path::new(&dir).join(name).is_file())
}

/// Says that the test is skipped, and why.
///
/// # Panics
/// With `CI=true`, where nothing may be skipped.
pub fn skip(reason: &str) {
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "must not be skipped with CI=true: {reason}");
    println!("skipped: {reason}");
}

/// Returns from the test, skipped, unless the machine offers all of the `Need`s named.
#[macro_export]
macro_rules! require {
    ($($need:expr),+ $(,)?) => {{
        #[allow(unused_imports)]
        use $crate::need::Need::{Command, Fuse, FuseForUsers, LoopDevices, MemoryGroups, PythonModule, Root};
        if let Some(reason) = [$($need),+].into_iter().find_map($crate::need::Need::missing) {
            $crate::need::skip(&reason);
            return;
        }
    }};
}
