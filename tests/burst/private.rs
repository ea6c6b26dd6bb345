//! Files below `--private` belong to one node until they are closed, and small writes to them are gathered.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use forebay_tests::program::{file_of_tests, run, wait_until};
use forebay_tests::{Sandbox, require};

use crate::bed::{Bed, DIR, arguments};
use crate::full::small_store_with;
use crate::promise::Shell;

const PATIENCE: Duration = Duration::from_secs(60);

/// The error that programs get for a file that another node has.
const BUSY: &str = "Device or resource busy";

/// A job with `--private DIR/p`.
pub fn bed(nodes: u32, more: &[&str]) -> Bed {
    let private = format!("{DIR}/p");
    Bed::with(nodes, &[&["--private", &private], more].concat())
}

/// The prefix on a node's private mount, which `forebay run` shows at its own path.
pub fn prefix(bed: &Bed, node: usize) -> PathBuf {
    let mount = bed.job.status()["nodes"][node]["burst"]["private"]["mount"].as_str().map(PathBuf::from);
    mount.expect("a private mount").join("p")
}

fn shells<const NODES: usize>(bed: &Bed) -> [Shell; NODES] {
    std::array::from_fn(|node| Shell::new(&prefix(bed, node)))
}

/// A new daemon serves in place of one that is killed.
pub fn replace_daemon(bed: &Bed, node: usize) {
    let killed = bed.job.kill_daemon(node);
    wait_until("a daemon serves again", PATIENCE, || bed.job.daemon(node).is_some_and(|pid| pid != killed));
}

#[test]
fn small_writes_are_gathered() {
    require!(Fuse, Root);
    let bed = bed(1, &[]);
    let [mut shell] = shells(&bed);
    let copied = shell.says("dd if=/dev/urandom of=small bs=4k count=65536 conv=fsync status=none && stat -c %s small");
    assert_eq!(copied, "268435456\n");
    let writes = bed.job.status()["nodes"][0]["burst"]["private"]["writes"].as_u64().unwrap();
    println!("{writes} messages for 65,536 writes of 4 KiB");
    assert!((256..6_554).contains(&writes), "{writes} messages");
    bed.drain();
    assert_eq!(Bed::listing(&prefix(&bed, 0)), Bed::listing(&bed.backing().join("p")));
    shell.end();
    bed.job.down();
}

#[test]
fn a_file_belongs_to_one_node_until_it_is_closed() {
    require!(Fuse, Root);
    let bed = bed(4, &[]);
    let [mut one, mut two, mut three, mut four] = shells(&bed);
    // A shell that writes to a descriptor of its own closes a copy of it each time, which commits.
    let fifo = bed.job.sandbox.base().join("fifo");
    let fifo = fifo.display();
    let open =
        format!("mkfifo {fifo}; cat < {fifo} > a & exec 9> {fifo}; printf one >&9; until [ -s a ]; do sleep 0.1; done");
    assert_eq!(one.says(&open), "");
    let others = [&mut two, &mut three, &mut four];
    for shell in others {
        assert_eq!(shell.says("cat a; stat -c %s a"), "0\n", "the last commit");
        for write in ["sh -c ': >> a'", "sh -c ': > a'", "truncate -s 1 a", "dd if=a of=a conv=notrunc status=none"] {
            let said = shell.says(&format!("{write} 2>&1"));
            assert!(said.contains(BUSY), "{write}: {said}");
        }
    }
    assert_eq!(one.says("cat a; echo; printf ,two >> a; cat a; echo; sync a"), "one\none,two\n");
    assert_eq!(two.says("cat a; echo; stat -c %s a"), "one,two\n7\n");
    // A reader on the same node keeps it there.
    assert_eq!(one.says("exec 8< a; exec 9>&-; wait; cat a; echo"), "one,two\n");
    assert!(two.says("sh -c ': >> a' 2>&1").contains(BUSY));
    assert_eq!(one.says("printf ,three >> a; cat <&8; echo; exec 8<&-"), "one,two,three\n");
    assert_eq!(two.says("exec 7>> a; printf ,four >&7; cat a; echo"), "one,two,three,four\n");
    assert!(one.says("sh -c ': >> a' 2>&1").contains(BUSY));
    assert_eq!(two.says("exec 7>&-"), "");
    assert_eq!(one.says("stat -c %s a; cat a; echo"), "18\none,two,three,four\n");
    // From node to node, longer and shorter.
    let mut shells = [one, two, three, four];
    for turn in 0..24 {
        let text = "x".repeat(1 + (turn * 7919) % 9000);
        let shell = &mut shells[turn % 4];
        shell.says(&format!("printf {text} > turn; printf , >> turn"));
        for shell in &mut shells {
            assert_eq!(
                shell.says("stat -c %s turn; cat turn; echo"),
                format!("{}\n{text},\n", text.len() + 1),
                "{turn}"
            );
        }
    }
    shells.into_iter().for_each(Shell::end);
    bed.drain();
    assert_eq!(Bed::listing(&prefix(&bed, 1)), Bed::listing(&bed.backing().join("p")));
    bed.job.down();
}

/// Appends, truncations, maps, renames, links, holes, by a seed.
#[test]
fn random_operations_come_to_the_same_as_elsewhere() {
    require!(Fuse, Root, Command("python3"));
    let bed = bed(1, &[]);
    for seed in 1..=4 {
        let [ours, plain] = [prefix(&bed, 0), bed.job.sandbox.base()].map(|base| base.join(seed.to_string()));
        let said = [ours, plain].map(|directory| {
            fs::create_dir(&directory).unwrap();
            let mut command = Command::new("python3");
            command.arg(file_of_tests("burst/operations.py")).arg(directory).args([&seed.to_string(), "600"]);
            run(&mut command).good().text()
        });
        for (ours, plain) in said[0].lines().zip(said[1].lines()) {
            assert_eq!(ours, plain, "seed {seed}");
        }
        assert_eq!(said[0].lines().count(), said[1].lines().count());
    }
    bed.drain();
    assert_eq!(Bed::listing(&prefix(&bed, 0)), Bed::listing(&bed.backing().join("p")));
    bed.job.down();
}

#[test]
fn names_are_those_of_the_tree() {
    require!(Fuse, Root);
    let bed = bed(2, &[]);
    let [mut one, mut two] = shells(&bed);
    let outside = bed.mount_of(1);
    let outside = outside.display();
    assert_eq!(
        one.says("mkdir d; echo x > d/a; mv d e; ln e/a hard; ln -s hard soft; cat soft; ls"),
        "x\ne\nhard\nsoft\n"
    );
    assert_eq!(
        two.says("cat soft; stat -c %h hard; mv hard hard2; ls; rm soft; rm -r e; cat hard2"),
        "x\n2\ne\nhard2\nsoft\nx\n"
    );
    assert_eq!(one.says("exec 7<> hard2; rm hard2; echo y >&7; cat /proc/$$/fd/7; exec 7>&-; ls"), "y\n");
    // Elsewhere is another mount: a move copies.
    assert_eq!(
        two.says(&format!("echo in > b; mv b {outside}/b; cat {outside}/b; echo >> {outside}/b; mv {outside}/b c; ls")),
        "in\nc\n"
    );
    assert_eq!(one.says("cat c"), "in\n\n");
    assert_eq!(
        one.says("python3 -c 'import os; os.rename(\"c\", \"../c\")' 2>&1 | grep -o 'Read-only.*: '"),
        "Read-only file system: \n"
    );
    assert_eq!(one.says("ls ..; touch ../x 2>&1 | grep -o 'Read-only.*'"), "p\nRead-only file system\n");
    [one, two].into_iter().for_each(Shell::end);
    bed.job.down();
}

/// Programs that are not of `run` may read, and do not remove what the private mount is of.
#[test]
fn on_the_burst_mount_a_prefix_can_be_read() {
    require!(Fuse, Root);
    let bed = bed(2, &[]);
    let [mut one, mut two] = shells(&bed);
    assert_eq!(one.says("mkdir d; echo x > d/a"), "");
    let mut plain = Shell::new(&bed.mount_of(1));
    assert_eq!(plain.says("cat p/d/a; ls p/d; find p -type f"), "x\na\np/d/a\n");
    for change in
        ["touch p/d/a", "sh -c ': >> p/d/a'", "mkdir p/x", "rm p/d/a", "mv p/d/a a", "ln p/d/a a", "touch p/b"]
    {
        let said = plain.says(&format!("{change} 2>&1"));
        assert!(said.contains("Read-only file system"), "{change}: {said}");
    }
    assert_eq!(
        plain.says("echo y > y; mv y p/y 2>&1 | grep -o 'Read-only.*' | head -n 1; mv p q 2>&1 | grep -o 'busy'"),
        "Read-only file system\nbusy\n"
    );
    assert_eq!(two.says("rm -r d"), "");
    assert!(plain.says("rmdir p 2>&1").contains("busy"));
    assert_eq!(two.says("echo z > z"), "");
    assert_eq!(plain.says("cat p/z; ls p"), "z\nz\n");
    assert_eq!(one.says("printf zz >> z"), "");
    assert_eq!(plain.says("cat p/z"), "z\nzz");
    // A reader keeps the file on its node, whose programs write to it all the same.
    assert_eq!(plain.says("exec 7< p/z"), "");
    assert_eq!(two.says("printf + >> z; printf + >> z; cat z; echo"), "z\nzz++\n");
    assert_eq!(two.says("exec 8< z; printf x >> z && truncate -s 6 z && cat <&8; echo; exec 8<&-"), "z\nzz++\n");
    assert!(one.says("sh -c ': >> z' 2>&1").contains(BUSY));
    assert_eq!(plain.says("cat <&7; echo; exec 7<&-"), "z\nzz++\n");
    assert_eq!(one.says("printf - >> z; cat z; echo"), "z\nzz++-\n");
    [one, two, plain].into_iter().for_each(Shell::end);
    bed.job.down();
}

#[test]
fn a_daemon_dies_while_the_kernel_has_what_was_written() {
    require!(Fuse, Root);
    for owner in [false, true] {
        let bed = bed(2, &["--drain", "manual"]);
        let (writer, other) = if owner { (0, 1) } else { (1, 0) };
        let [mut here, mut there] = [writer, other].map(|node| Shell::new(&prefix(&bed, node)));
        assert_eq!(here.says("exec 7>> a; i=0; while [ $i -lt 3000 ]; do echo line $i >&7; i=$((i + 1)); done"), "");
        for death in 0..3 {
            replace_daemon(&bed, writer);
            assert_eq!(
                here.says(&format!("echo death {death} >&7; echo by name >> a; tail -n 1 a; wc -l < a")).lines().last(),
                Some(&*(3002 + death * 2).to_string())
            );
            assert!(there.says("sh -c ': >> a' 2>&1").contains(BUSY), "it is still that node's");
        }
        replace_daemon(&bed, other);
        assert!(there.says("sh -c ': >> a' 2>&1").contains(BUSY));
        let sum = here.says("sha256sum < a; exec 7>&-");
        assert_eq!(there.says("sha256sum < a; wc -l < a; echo more >> a"), format!("{sum}3006\n"));
        assert_eq!(here.says("wc -l < a; echo again >> a; wc -l < a"), "3007\n3008\n");
        [here, there].into_iter().for_each(Shell::end);
        bed.drain();
        bed.job.down();
    }
}

/// Data that programs have written to files that they have not closed land at a drain.
#[test]
fn a_drain_lands_what_the_kernel_has() {
    require!(Fuse, Root);
    let bed = bed(2, &["--drain", "manual"]);
    let [mut one, mut two] = shells(&bed);
    for (shell, name) in [(&mut one, "a"), (&mut two, "b")] {
        assert_eq!(shell.says(&format!("exec 7> {name}; echo {name} >&7")), "");
    }
    bed.drain();
    for name in ["a", "b"] {
        assert_eq!(fs::read_to_string(bed.backing().join("p").join(name)).unwrap(), format!("{name}\n"));
    }
    assert_eq!(one.says("echo more >&7"), "");
    let landed = bed.landed("p/a");
    assert_eq!(landed["state"], "dirty", "nobody knows what the kernel has: {landed}");
    assert!(landed["why"].as_str().unwrap().contains("node 0 has it open for writing below --private"), "{landed}");
    assert_eq!(one.says("exec 7>&-"), "");
    bed.drain();
    // The kernel tells of a close when it has returned.
    wait_until("it has landed", PATIENCE, || bed.landed("p/a")["state"] == "landed");
    assert_eq!(fs::read_to_string(bed.backing().join("p/a")).unwrap(), "a\nmore\n");
    [one, two].into_iter().for_each(Shell::end);
    bed.job.down();
}

/// Under `run` the prefix is at its own paths, on every node.
#[test]
fn programs_of_run_find_it_at_its_own_paths() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let base = sandbox.base().to_owned();
    for dir in ["backing", "ckpt", "backing/kept"] {
        fs::create_dir(base.join(dir)).unwrap();
    }
    fs::write(base.join("backing/kept/old"), "old").unwrap();
    let mut words = arguments(&sandbox, 2);
    let at = words.iter().position(|word| word == "--burst").unwrap();
    let (dir, backing) = (base.join("ckpt"), base.join("backing"));
    let (dir, backing) = (dir.display(), backing.display());
    words[at + 1] = format!("{dir}={backing}");
    for prefix in ["kept", "new/deep", "new/deep/deeper"] {
        words.extend(["--private".to_owned(), format!("{dir}/{prefix}")]);
    }
    let bed = Bed::up_with(sandbox, &words);
    let written = |node: usize| bed.job.status()["nodes"][node]["burst"]["private"]["writes"].as_u64().unwrap();
    let run_on =
        |node: &str, script: &str| bed.command(&["run", "--rank", node, "--", "sh", "-euc", script]).good().text();
    let script = format!(
        "cd {dir}; echo +new >> kept/old; echo x > new/deep/a; cat {backing}/kept/old {backing}/new/deep/a; echo y > b"
    );
    assert_eq!(run_on("1", &script), "old+new\nx\n");
    assert_eq!((written(0), written(1)), (0, 2), "through the private mount");
    assert_eq!(run_on("0", &format!("cat {dir}/kept/old {backing}/new/deep/a {dir}/b")), "old+new\nx\ny\n");
    bed.drain();
    assert_eq!(fs::read_to_string(base.join("backing/kept/old")).unwrap(), "old+new\n");
    bed.job.down();
    assert!(!base.join("store").exists());
}

/// The store gives room back as files land, and the kernel sends no more at once than may wait for it.
#[test]
fn a_file_may_be_larger_than_the_store() {
    require!(Fuse, Root);
    let bed = small_store_with("256MiB", 1, &["--private", &format!("{DIR}/p")]);
    let [mut shell] = shells(&bed);
    let pattern = bed.job.sandbox.base().join("pattern");
    let pattern = pattern.display();
    let written = shell.says(&format!(
        "seq 100000000 199999999 | head -c 600M > {pattern}; dd if={pattern} of=a bs=64k status=none 2>&1; cmp {pattern} a"
    ));
    assert_eq!(written, "");
    shell.end();
    bed.drain();
    bed.job.down();
}

/// A file has a name below a prefix and one elsewhere, from a job that had no prefixes: one of both mounts writes it at a time.
#[test]
fn a_hard_link_from_elsewhere_is_written_on_one_mount_at_a_time() {
    require!(Fuse, Root, Command("python3"));
    let bed = earlier_job("mkdir p s; echo x > s/x; ln s/x p/x", 2);
    let [mut one, mut two] = shells(&bed);
    let mut plain = Shell::new(&bed.mount_of(0).join("s"));
    let mut also = Shell::new(&bed.mount_of(1).join("s"));
    assert_eq!(plain.says("exec 7>> x; echo plain >&7"), "");
    assert_eq!(also.says("echo also >> x"), "", "the burst mount has no such rule");
    for shell in [&mut one, &mut two] {
        for write in ["sh -c ': >> x'", "python3 -c 'import os; os.truncate(\"x\", 1)'"] {
            assert!(shell.says(&format!("{write} 2>&1")).contains(BUSY), "{write}");
        }
    }
    assert_eq!(plain.says("exec 7>&-"), "");
    assert_eq!(one.says("cat x; exec 7>> x; echo private >&7; sync x"), "x\nplain\nalso\n");
    for shell in [&mut plain, &mut also] {
        for write in ["sh -c ': >> x'", "sh -c ': > x'", "python3 -c 'import os; os.truncate(\"x\", 1)'"] {
            assert!(shell.says(&format!("{write} 2>&1")).contains(BUSY), "{write}");
        }
        assert_eq!(shell.says("cat x"), "x\nplain\nalso\nprivate\n");
    }
    assert_eq!(one.says("exec 7>&-"), "");
    // The kernel tells of the last close after `close` has returned.
    wait_until("the file is nobody's", PATIENCE, || plain.says("{ echo again >> x; } 2>&1").is_empty());
    assert_eq!(two.says("cat x"), "x\nplain\nalso\nprivate\nagain\n");
    [one, two, plain, also].into_iter().for_each(Shell::end);
    bed.drain();
    bed.job.down();
}

/// A broken prefix does not affect other files.
#[test]
fn a_prefix_that_is_a_file_in_the_tree_spoils_only_its_own_name() {
    require!(Fuse, Root);
    let bed = earlier_job("echo file > p", 1);
    let mut plain = Shell::new(&bed.mount());
    assert_eq!(plain.says("echo x > other; mkdir d; mv other d; cat d/other; ls"), "x\nd\np\n");
    for wrong in ["cat p", "touch p", "rm p", "mkdir p", "mv d p"] {
        let said = plain.says(&format!("{wrong} 2>&1"));
        assert!(said.contains("Not a directory"), "{wrong}: {said}");
    }
    plain.end();
    bed.drain();
    bed.job.down();
}

/// A job with `--private DIR/p`, in which a job before it has left something.
fn earlier_job(script: &str, nodes: u32) -> Bed {
    let bed = Bed::with(nodes, &["--drain", "manual"]);
    let _ = bed.shell(script).good();
    let down = bed.command(&["down", "--no-drain"]);
    assert_eq!(down.status.code(), Some(3), "{}", down.stderr);
    let Bed { job } = bed;
    let mut words = arguments(&job.sandbox, nodes);
    words.extend(["--drain", "manual", "--private", &format!("{DIR}/p")].map(str::to_owned));
    let words: Vec<&std::ffi::OsStr> = words.iter().map(std::ffi::OsStr::new).collect();
    let again = job.sandbox.up(&words);
    assert!(again.status.success(), "{}", again.stderr);
    Bed { job }
}

/// Through a descriptor that was open before, a program reads the contents of then, or an error: never a mixture.
#[test]
fn a_descriptor_stays_with_its_contents() {
    require!(Fuse, Root);
    let bed = bed(2, &[]);
    let [mut one, mut two] = shells(&bed);
    assert_eq!(two.says("yes old | head -c 64M > a"), "");
    // Otherwise it would be read as it is then: closing it ends after `close` has returned.
    assert_eq!(one.says("until sh -c ': >> a' 2> /dev/null; do sleep 0.1; done"), "");
    assert_eq!(one.says("exec 7< a; head -c 4 <&7"), "old\n");
    assert_eq!(two.says("yes new | head -c 64M > a"), "");
    let said = one.says("dd bs=1M skip=60 count=1 <&7 2>&1 | uniq -c");
    assert!(said.contains("Stale file handle") && !said.contains("new"), "{said}");
    assert_eq!(one.says("exec 7<&-; tail -c 4 a"), "new\n");
    [one, two].into_iter().for_each(Shell::end);
    bed.job.down();
}

#[test]
fn a_file_that_another_node_changes_all_the_time_can_be_opened() {
    require!(Fuse, Root);
    let bed = bed(2, &[]);
    let [mut one, mut two] = shells(&bed);
    assert_eq!(two.says(": > a; (i=0; until [ -e done ]; do echo $i >> a; i=$((i + 1)); done) > /dev/null & :"), "");
    let said = one.says("n=0; while [ $n -lt 1000 ]; do sh -c ': < a' 2>&1; n=$((n + 1)); done; touch done");
    assert_eq!(said, "");
    // A file that the other node has open is read as it is then.
    assert_eq!(two.says("wait; exec 7> a; echo one >&7; sync a"), "");
    assert_eq!(one.says("exec 8< a; head -n 1 <&8"), "one\n");
    assert_eq!(two.says("echo two >&7; sync a"), "");
    assert_eq!(one.says("cat /proc/self/fd/8 <&8; cat <&8; exec 8<&-"), "one\ntwo\ntwo\n");
    [one, two].into_iter().for_each(Shell::end);
    bed.job.down();
}

#[test]
fn a_file_that_is_truncated_while_daemons_die_is_free_afterwards() {
    require!(Fuse, Root, Command("python3"));
    let bed = bed(2, &[]);
    let [mut one, mut two] = shells(&bed);
    let count = bed.job.sandbox.base().join("count");
    let script = format!(
        "import os, itertools\ncount = open(\"{}\", \"wb\", 0)\nfor n in itertools.count():\n  os.truncate(\"a\", n %% 50)\n  count.write(b\".\")\n  if n %% 50 == 0 and os.path.exists(\"done\"): break",
        count.display()
    );
    assert_eq!(two.says(&format!("echo x > a; printf '{script}\n' > t.py; python3 t.py 2>&1 & :")), "");
    let truncated = || fs::metadata(&count).map_or(0, |meta| meta.len());
    for _ in 0..12 {
        let before = truncated();
        wait_until("it is truncated", PATIENCE, || truncated() > before + 20);
        replace_daemon(&bed, 1);
    }
    assert_eq!(one.says("touch done"), "");
    assert_eq!(two.says("wait"), "");
    assert_eq!(one.says("printf x > a; cat a; echo"), "x\n");
    [one, two].into_iter().for_each(Shell::end);
    bed.job.down();
}

#[test]
fn wrong_prefixes_are_named() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let backing = sandbox.base().join("backing");
    fs::create_dir_all(backing.join("directory")).unwrap();
    fs::write(backing.join("file"), "").unwrap();
    std::os::unix::fs::symlink("directory", backing.join("link")).unwrap();
    let with = |prefix: &str| {
        let mut words = arguments(&sandbox, 1);
        words.extend(["--private".to_owned(), prefix.to_owned()]);
        let words: Vec<&std::ffi::OsStr> = words.iter().map(std::ffi::OsStr::new).collect();
        let refused = sandbox.up(&words);
        assert!(!refused.status.success());
        refused.stderr
    };
    let said = with("/elsewhere");
    assert!(said.contains("--private: /elsewhere is not below /burst/ckpt"), "{said}");
    let said = with(DIR);
    assert!(said.contains("--private: name directories below /burst/ckpt, not the burst tier as a whole"), "{said}");
    for (prefix, wrong) in [
        ("file", "is not a directory"),
        ("file/deeper", "is not a directory"),
        ("link", "is a link; name the directory it leads to"),
        ("link/deeper", "is a link; name the directory it leads to"),
    ] {
        for base in [PathBuf::from(DIR), backing.clone()] {
            let said = with(&base.join(prefix).display().to_string());
            assert!(said.contains("--private: ") && said.contains(wrong), "{prefix}: {said}");
        }
    }
}
