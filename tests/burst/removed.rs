//! Directories that are removed while programs have them open, or work in them: as on a local file system, whichever node removes them.

use std::time::Duration;

use forebay_tests::program::wait_until;
use forebay_tests::require;

use crate::bed::Bed;
use crate::calls::Calls;

const PATIENCE: Duration = Duration::from_secs(60);

/// Calls on a removed directory: through a descriptor `d`, and by a program that works in it.
const SEEN: [(&str, &str); 10] = [
    ("os.fstat(d).st_nlink", "0"),
    ("os.listdir(d)", "[]"),
    ("os.stat('name', dir_fd=d)", "ENOENT"),
    ("os.open('name', os.O_CREAT | os.O_WRONLY, dir_fd=d)", "ENOENT"),
    ("os.mkdir('name', dir_fd=d)", "ENOENT"),
    ("os.stat('.').st_nlink", "0"),
    ("os.listdir('.')", "[]"),
    ("os.symlink('to', 'name')", "ENOENT"),
    ("os.rename('../moved', 'name')", "ENOENT"),
    ("[os.fsync(d), os.access('.', os.X_OK), os.close(os.open('.', os.O_RDONLY))]", "[None, True, None]"),
];

#[test]
fn a_removed_directory_is_empty_for_who_is_in_it() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::of(2);
    let _ = bed.shell("mkdir moved").good();
    for (node, remover) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        for remove in ["rmdir d", "mkdir e; mv -T e d; rmdir d", "mkdir e; mv -T e d"] {
            let _ = bed.shell("mkdir d").good();
            let mut inside = Calls::new(&bed.mount_of(node));
            assert_eq!(inside.says("globals().update(d=os.open('d', os.O_RDONLY))"), "None");
            assert_eq!(inside.says("os.chdir('d')"), "None");
            let _ = bed.shell_on(remover, remove).good();
            for (call, seen) in SEEN {
                assert_eq!(inside.says(call), seen, "{call} on {node} after {remove} on {remover}");
            }
            if node == remover {
                assert_eq!(inside.says("os.getcwd()"), "ENOENT", "after {remove} on {remover}");
            }
            inside.end();
            let _ = bed.shell("rm -rf d").good();
        }
    }
    bed.drain();
    assert_eq!(Bed::listing(&bed.mount()), Bed::listing(&bed.backing()));
    bed.job.down();
}

#[test]
fn it_is_so_after_the_death_of_every_daemon() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::of(2);
    let _ = bed.shell("mkdir moved d").good();
    let mut inside = [0, 1].map(|node| Calls::new(&bed.mount_of(node)));
    for program in &mut inside {
        assert_eq!(program.says("globals().update(d=os.open('d', os.O_RDONLY))"), "None");
        assert_eq!(program.says("os.chdir('d')"), "None");
    }
    let _ = bed.shell("rmdir d").good();
    for node in [0, 1] {
        let killed = bed.job.kill_daemon(node);
        wait_until("a daemon serves again", PATIENCE, || bed.job.daemon(node).is_some_and(|pid| pid != killed));
    }
    for mut program in inside {
        for (call, seen) in SEEN {
            assert_eq!(program.says(call), seen, "{call}");
        }
        program.end();
    }
    bed.job.down();
}
