//! Programs of `forebay run` see the burst tier where their scripts expect it.

use std::fs;

use forebay_tests::{Sandbox, require};

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

#[test]
fn a_directory_that_does_not_exist_is_named() {
    require!(Fuse, Root);
    let bed = Bed::new();
    let refused = bed.command(&["run", "--", "true"]);
    assert!(!refused.status.success());
    assert!(
        refused.stderr.contains("cannot be shown at /burst/ckpt, because there is no such directory"),
        "{}",
        refused.stderr
    );
    // From the view it goes.
    let script = "echo x > $FOREBAY_BURST/burst/ckpt/a; cat $FOREBAY_BURST/burst/ckpt/a";
    assert_eq!(bed.command(&["run", "--view", "--", "sh", "-c", script]).good().text(), "x\n");
    bed.job.down();
}
