//! A job over a directory with images in it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command as Program;

use forebay_tests::program::{Finished, copy_program, run};
use forebay_tests::sandbox::NOBODY;
use forebay_tests::{Job, Sandbox, tree};

/// Commands of the image.
const COMMANDS: [&str; 15] = [
    "cat", "env", "false", "find", "id", "ls", "mkdir", "mount", "pwd", "readlink", "sh", "sleep", "sort", "stat",
    "true",
];

pub struct Bed {
    pub job: Job,
}

impl Bed {
    /// A job of one node over the sandbox's source, in which the image lies as a directory, and as a file where that can be
    /// made.
    pub fn up(sandbox: Sandbox, arguments: &[&str]) -> Self {
        Self::up_nodes(sandbox, 1, arguments)
    }

    pub fn up_nodes(sandbox: Sandbox, nodes: u32, arguments: &[&str]) -> Self {
        let source = sandbox.source();
        make(&source.join("image"));
        squash(&source.join("image"), &source.join("image.sqfs"), &[]);
        for dir in ["home", "work", "tmp"] {
            let dir = sandbox.base().join(dir);
            fs::create_dir(&dir).unwrap();
            std::os::unix::fs::chown(&dir, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        Self { job: Job::up_local(sandbox, nodes, &source, arguments) }
    }

    /// Where something is of the sandbox.
    pub fn at(&self, name: &str) -> PathBuf {
        self.job.sandbox.base().join(name)
    }

    /// `forebay run` with these words, in a directory that may be written, with a home and a place for temporary files.
    pub fn command(&self, words: &[&str]) -> Program {
        let mut command = self.job.sandbox.command();
        command.env("HOME", self.at("home")).env("TMPDIR", self.at("tmp")).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.current_dir(self.at("work")).args(["run", "--job", &self.job.sandbox.name]).args(words);
        command
    }

    /// The same to its end.
    #[track_caller]
    pub fn run(&self, words: &[&str]) -> Finished {
        run(&mut self.command(words))
    }

    /// The output of a shell in the image.
    #[track_caller]
    pub fn shell(&self, image: &str, script: &str) -> Finished {
        self.run(&["--image", &self.image(image), "--", "sh", "-euc", script])
    }

    pub fn image(&self, name: &str) -> String {
        self.at("source").join(name).display().to_string()
    }
}

/// An image with a shell and what goes with it.
pub fn make(image: &Path) {
    for dir in ["bin", "ch", "dev", "etc", "mnt", "proc", "sys", "tmp", "usr/lib"] {
        fs::create_dir_all(image.join(dir)).unwrap();
    }
    add_program(&in_path("busybox"), image, "bin/busybox");
    for command in COMMANDS {
        symlink("busybox", image.join("bin").join(command)).unwrap();
    }
    for (file, text) in [("passwd", ""), ("group", ""), ("hosts", "image\n"), ("made", "by the test\n")] {
        tree::write(&image.join("etc").join(file), text.as_bytes());
    }
    tree::write(&image.join("ch/environment"), b"OF_IMAGE='as built'\nPATH=/opt/bin:$PATH\n");
}

/// Copies a program of this machine and the libraries that it needs.
pub fn add_program(program: &Path, image: &Path, name: &str) {
    let to = image.join(name);
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    copy_program(program, &to);
    // One that is linked statically needs none, which `ldd` says by its exit status.
    let needs = run(Program::new("ldd").arg(program)).text();
    for library in needs.split_whitespace().filter(|word| word.starts_with('/')) {
        let to = image.join(library.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        if !to.exists() {
            fs::copy(library, &to).unwrap();
        }
    }
}

/// Where a program of this machine is.
pub fn in_path(name: &str) -> PathBuf {
    let found = run(Program::new("sh").args(["-c", &format!("command -v {name}")])).good();
    PathBuf::from(found.text().trim_end())
}

/// Makes a SquashFS file of a directory; none where this machine has no `mksquashfs`.
pub fn squash(image: &Path, file: &Path, options: &[&str]) {
    let mut command = Program::new("mksquashfs");
    command.arg(image).arg(file).args(["-quiet", "-no-progress", "-all-root"]).args(options);
    if forebay_tests::need::Need::Command("mksquashfs").missing().is_none() {
        let _ = run(&mut command).good();
    }
}
