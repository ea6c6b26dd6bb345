//! Programs of `forebay run` see the burst tier where their scripts expect it.

use std::ffi::OsStr;
use std::fs;

use forebay_tests::{Job, Sandbox, require};

use crate::bed::{Bed, arguments};

#[test]
fn scripts_find_it_at_its_directory_and_where_it_lands() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let base = sandbox.base().to_owned();
    // The backing directory lies in an export, as home and scratch do.
    for dir in ["source/scratch/ckpt", "ckpt", "source/soft"] {
        fs::create_dir_all(base.join(dir)).unwrap();
    }
    fs::write(base.join("source/soft/tool"), "x").unwrap();
    fs::write(base.join("source/scratch/ckpt/old"), "old").unwrap();
    let mut words = arguments(&sandbox, 2);
    let at = words.iter().position(|word| word == "--burst").unwrap();
    let (dir, backing) = (base.join("ckpt"), base.join("source/scratch/ckpt"));
    words[at + 1] = format!("{}={}", dir.display(), backing.display());
    let bed = Bed::up_with(sandbox, &words);
    let (dir, backing, tool) = (dir.display(), backing.display(), base.join("source/soft/tool"));
    let script = format!(
        "cat {dir}/old {backing}/old; echo new > {dir}/made; cat {backing}/made; mv {backing}/made {dir}/moved; \
         ls {backing}; ls $FOREBAY_BURST{dir}; cat {tool}; ! echo x > {tool}.new",
        tool = tool.display()
    );
    let shown = bed.command(&["run", "--rank", "1", "--", "sh", "-euc", &script]).good().text();
    assert_eq!(shown, "oldoldnew\nmoved\nold\nmoved\nold\nx", "one tree, whatever it is called");
    bed.drain();
    assert_eq!(fs::read(base.join("source/scratch/ckpt/moved")).unwrap(), b"new\n");
    // A view would show it as it was at some time.
    let view = base.join("view/0");
    let hidden = bed.job.sandbox.base().join("source/scratch/ckpt");
    let shown = view.join(hidden.strip_prefix("/").unwrap()).join("old");
    assert!(!shown.exists());
    bed.job.down();
}

#[test]
fn mpi_programs_lock_where_other_nodes_see_the_tier() {
    require!(Fuse, Root);
    let named = "echo ${ROMIO_FSTYPE_FORCE-none} ${OMPI_MCA_fs_ufs_lock_algorithm-none}";
    for (nodes, shown) in [(2, "nfs: 3\n"), (1, "none none\n")] {
        let bed = Bed::of(nodes);
        let run = |words: &[&str]| {
            bed.command(&[&["run", "--view"], words, &["--", "sh", "-c", named]].concat()).good().text()
        };
        assert_eq!(run(&[]), shown);
        assert_eq!(run(&["--no-mpi-locks"]), "none none\n");
        let mut own = bed.job.sandbox.command();
        let own = own.args(["run", "--view", "--job", &bed.job.sandbox.name, "--", "sh", "-c", named]);
        let set = forebay_tests::program::run(own.env("ROMIO_FSTYPE_FORCE", "ufs:")).good().text();
        assert!(set.starts_with("ufs: "), "{set}");
        bed.job.down();
    }
}

/// Neither it nor the directory above it is there.
#[test]
fn without_its_directory_the_tier_is_shown_where_it_lands() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.base().join("backing")).unwrap();
    let words = arguments(&sandbox, 1);
    let backing = sandbox.base().join("backing").display().to_string();
    let message = format!(
        "/burst/ckpt does not exist on this node, so programs find the tier only at {backing}. Use that path, or choose a DIR that \
         exists (--burst)."
    );
    let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
    let up = sandbox.up(&words).good();
    assert!(up.stderr.contains(&message), "{}", up.stderr);
    assert!(up.text().contains(&format!("forebay run shows it at {backing})")), "{}", up.text());
    let bed = Bed { job: Job::of(sandbox) };
    let script = format!("echo y > {backing}/b; stat -fc %T {backing}");
    let run = bed.command(&["run", "--", "sh", "-c", &script]).good();
    assert_eq!(run.text(), "fuseblk\n");
    assert_eq!(run.stderr.trim(), format!("forebay: note: {message}"));
    // From the view too.
    let script = "echo x > $FOREBAY_BURST/burst/ckpt/a; cat $FOREBAY_BURST/burst/ckpt/a";
    assert_eq!(bed.command(&["run", "--view", "--", "sh", "-c", script]).good().text(), "x\n");
    bed.job.down();
}

/// It is made beside what is there, and stays: another job may show its tier there. A directory alone is where programs write and where files land.
#[test]
fn a_missing_directory_is_made_and_one_alone_is_both() {
    require!(Fuse, Root);
    for pair in ["ckpt=backing", "backing"] {
        let sandbox = Sandbox::new();
        let base = sandbox.base();
        fs::create_dir(base.join("backing")).unwrap();
        let dir = base.join(pair.split('=').next().unwrap());
        let words = ["--export", "source", "--burst", pair, "--burst-store", "store", "--burst-capacity", "256MiB"];
        let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
        let bed = Bed { job: Job::up(sandbox, &words) };
        assert!(dir.is_dir());
        let script = format!("echo x > {0}/a && cat {0}/a", dir.display());
        let run = bed.command(&["run", "--", "sh", "-c", &script]).good();
        assert_eq!(run.text() + &run.stderr, "x\n");
        assert!(bed.command(&["down"]).status.success());
        assert_eq!(fs::read_to_string(base.join("backing/a")).unwrap(), "x\n");
        assert!(dir.exists());
        bed.job.forget();
    }
}
