//! Files without a name: `O_TMPFILE`, by which Python's `tempfile` makes them, and files that are opened by their handles alone.

use std::fs;
use std::process::Command;
use std::time::Duration;

use forebay_tests::program::{file_of_tests, run, wait_until};
use forebay_tests::require;

use crate::bed::Bed;
use crate::calls::Calls;

const PATIENCE: Duration = Duration::from_secs(60);

/// Opens a file without a name, for a program that knows it as `f`.
fn open(more_flags: &str) -> String {
    format!("globals().update(f=os.open('d', os.O_TMPFILE | os.O_RDWR {more_flags}, 0o640))")
}

/// Gives it a name. With a directory, Python follows the link.
const LINK: &str = "os.link(f'/proc/self/fd/{f}', 'd/named', src_dir_fd=0, follow_symlinks=True)";

fn die(bed: &Bed, node: usize) {
    let killed = bed.job.kill_daemon(node);
    wait_until("a daemon serves again", PATIENCE, || bed.job.daemon(node).is_some_and(|pid| pid != killed));
}

#[test]
fn a_file_made_without_a_name_gets_one_or_goes() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::of(2);
    for (node, dies) in [(0, false), (1, false), (0, true), (1, true)] {
        let _ = bed.shell("mkdir d").good();
        let mut program = Calls::new(&bed.mount_of(node));
        assert_eq!(program.says(&open("")), "None");
        assert_eq!(program.says("os.write(f, b'contents')"), "8");
        if dies {
            die(&bed, node as usize);
            die(&bed, 0);
        }
        let attributes = "[os.fstat(f).st_nlink, oct(os.fstat(f).st_mode), os.fstat(f).st_size, os.pread(f, 9, 0)]";
        assert_eq!(program.says(attributes), "[0, '0o100640', 8, b'contents']");
        assert_eq!(program.says("os.listdir('d')"), "[]");
        bed.drain();
        assert!(fs::read_dir(bed.backing().join("d")).unwrap().next().is_none(), "nothing of it has landed");
        assert_eq!(program.says(LINK), "None");
        assert_eq!(program.says(LINK), "EEXIST");
        assert_eq!(program.says("[os.fstat(f).st_nlink, os.write(f, b' and more'), os.close(f)]"), "[1, 9, None]");
        assert_eq!(bed.shell_on(1 - node, "cat d/named").good().text(), "contents and more");
        program.end();
        bed.drain();
        assert_eq!(Bed::listing(&bed.mount()), Bed::listing(&bed.backing()));
        let _ = bed.shell("rm -r d").good();
    }
    bed.job.down();
}

#[test]
fn one_that_never_gets_a_name_takes_no_room_once_it_is_closed() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::of(2);
    let _ = bed.shell("mkdir d").good();
    for node in [0, 1] {
        let mut program = Calls::new(&bed.mount_of(node));
        assert_eq!(program.says(&open("| os.O_EXCL")), "None");
        assert_eq!(program.says("[os.write(f, b'contents'), os.fsync(f)]"), "[8, None]");
        assert_eq!(program.says(LINK), "ENOENT", "it was opened with O_EXCL");
        die(&bed, node as usize);
        assert_eq!(program.says("os.pread(f, 9, 0)"), "b'contents'");
        // As many do it: by O_TMPFILE where that works.
        let temporary = "globals().update(t=tempfile.TemporaryFile(dir='d'))";
        assert_eq!(program.says(temporary), "None");
        assert_eq!(
            program.says("[t.write(b'x' * 10000), t.flush(), t.seek(0), len(t.read())]"),
            "[10000, None, 0, 10000]"
        );
        assert_eq!(
            program.says("[os.listdir('d'), os.readlink(f'/proc/self/fd/{t.fileno()}')[-9:]]"),
            "[[], '(deleted)']"
        );
        program.kill();
    }
    bed.drain();
    assert_eq!(Bed::listing(&bed.backing()), "");
    bed.job.down();
}

/// On the second node, whose kernel has not heard of the file: its daemon has to find it.
#[test]
fn a_handle_finds_a_file_as_long_as_it_has_a_name() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::of(2);
    let _ = bed.shell("mkdir -p d/e; echo contents > d/e/f").good();
    let by_handle = |words: &[&str]| {
        let mut command = Command::new("python3");
        command.arg(file_of_tests("burst/by_handle.py")).args(words);
        run(&mut command).good().text().trim_end().to_owned()
    };
    let [file, directory] = ["d/e/f", "d/e"].map(|name| by_handle(&["of", bed.mount().join(name).to_str().unwrap()]));
    let mount = bed.mount_of(1);
    let open = |handle: &str| by_handle(&["open", mount.to_str().unwrap(), handle]);
    assert_eq!((open(&file), open(&directory)), ("contents".to_owned(), "f".to_owned()));
    let _ = bed.shell("mv d/e/f g; mv d/e e").good();
    die(&bed, 1);
    assert_eq!((open(&file), open(&directory)), ("contents".to_owned(), String::new()));
    // On the same node, since the kernel may know what it has opened by its handle itself.
    let _ = bed.shell_on(1, "rm -r g e").good();
    assert_eq!((open(&file), open(&directory)), ("ESTALE".to_owned(), "ESTALE".to_owned()));
    bed.job.down();
}
