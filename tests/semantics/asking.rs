//! Requests of a program to a view by ioctl(2), through the C header that we ship.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Program;

use forebay_tests::program::{Finished, file_of_tests, run};
use forebay_tests::{Site, compare, require, tree};

const ENOTTY: &str = "25";

/// The program `ask.c`, compiled against the header with every warning.
pub struct Ask {
    directory: tempfile::TempDir,
}

impl Ask {
    pub fn compile() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut gcc = Program::new("gcc");
        gcc.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-std=c11", "-D_GNU_SOURCE", "-I"])
            .arg(file_of_tests("../include"));
        let _ = run(gcc.arg("-o").arg(directory.path().join("ask")).arg(file_of_tests("semantics/ask.c"))).good();
        Self { directory }
    }

    /// Where it is.
    pub fn program(&self) -> PathBuf {
        self.directory.path().join("ask")
    }

    pub fn of(&self, path: &Path, words: &[&str]) -> Finished {
        run(Program::new(self.program()).arg(path).args(words))
    }

    /// Version, rank, bytes kept, budget, bytes read from the backing file system.
    fn metrics(&self, view: &Path) -> [u64; 5] {
        let printed = self.of(view, &["metrics"]).good().text();
        let counts: Vec<u64> = printed.split_whitespace().map(|count| count.parse().unwrap()).collect();
        counts.try_into().unwrap()
    }
}

#[test]
fn metrics_are_those_of_the_node() {
    require!(Fuse, Root, Command("gcc"));
    let (ask, site) = (Ask::compile(), Site::with_options(3, &["--roots", "1", "--budget", "128MiB"], |_| {}));
    let size = 3 * tree::CHUNK_BYTES + 17;
    assert_eq!(fs::read(site.view(format!("plain/{size}"))).unwrap().len(), size);
    for rank in 0..3 {
        let [version, own, kept, budget, backing] = ask.metrics(site.job().view(rank));
        assert_eq!((version, own, budget), (1, rank as u64, 128 << 20));
        assert!(kept <= budget, "{kept} bytes kept");
        assert_eq!(backing >= size as u64, rank == 0, "the root reads, the others do not: {backing}");
    }
}

#[test]
fn clearing_shows_what_has_changed() {
    require!(Fuse, Root, Command("gcc"));
    for nodes in [1, 3] {
        let (ask, site) = (Ask::compile(), Site::new(nodes, |_| {}));
        compare::trees(&site.source("plain"), &site.view("plain"));
        fs::remove_file(site.source("plain/1")).unwrap();
        tree::write(&site.source("plain/4096"), b"changed");
        tree::write(&site.source("plain/new"), b"new");
        assert_eq!(fs::metadata(site.view("plain/new")).unwrap_err().raw_os_error(), Some(2), "one snapshot a job");
        // From the root down, so that no node fetches from one that still keeps what was.
        for rank in 0..site.job().nodes() {
            let _ = ask.of(site.job().view(rank), &["clear"]).good();
        }
        compare::trees(&site.source("plain"), &site.view("plain"));
        assert_eq!(fs::read(site.view("plain/new")).unwrap(), b"new");
    }
}

#[test]
fn pinned_bytes_stay() {
    require!(Fuse, Root, Command("gcc"));
    let build = |source: &Path| {
        for name in ["pinned", "other"] {
            tree::write(&source.join(name), &tree::contents(24 << 20));
        }
    };
    let (ask, site) = (Ask::compile(), Site::with_options(1, &["--budget", "64MiB"], build));
    let shown = |name: &str| Path::new("/").join(site.source(name)).display().to_string();
    let view = site.job().view(0).to_owned();
    let _ = ask.of(&view, &["pin", &shown("pinned")]).good();
    let pinned = site.view("pinned");
    assert!(fs::read(&pinned).unwrap() == tree::contents(24 << 20));
    for _ in 0..3 {
        for name in ["other", "sparse/holes", "plain/9437184"] {
            fs::read(site.view(name)).unwrap();
        }
    }
    forget_pages(&pinned);
    let before = ask.metrics(&view)[4];
    assert!(fs::read(&pinned).unwrap() == tree::contents(24 << 20));
    assert_eq!(ask.metrics(&view)[4], before, "a pinned file is read from the backing file system once");
}

/// Drops a file from the kernel's page cache, so that the next read asks the daemon.
fn forget_pages(path: &Path) {
    let file = fs::File::open(path).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

#[test]
fn only_the_root_directory_can_be_asked() {
    require!(Fuse, Root, Command("gcc"));
    let (ask, site) = (Ask::compile(), Site::new(1, |_| {}));
    let others: [PathBuf; 3] = [site.view("plain/1"), site.view("plain"), site.source("plain")];
    for path in others {
        for words in [&["metrics"][..], &["clear"], &["pin", "/x"]] {
            let refused = ask.of(&path, words);
            assert_eq!(refused.text().trim_end(), ENOTTY, "{} {words:?}", path.display());
        }
    }
    let long = "x".repeat(5000);
    let wrong: [&str; 2] = ["/with/../dots", &long];
    for path in wrong {
        assert!(!ask.of(site.job().view(0), &["pin", path]).status.success(), "pinned {path:.20}");
    }
}
