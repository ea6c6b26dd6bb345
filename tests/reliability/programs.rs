//! Objects that a program holds survive the death of its daemon: open files, mapped files, a directory being read, its working
//! directory; and an open file stays the generation that it was.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use forebay_tests::{Job, Sandbox, require, tree};

/// Goes through everything once a daemon has died, twice.
const PROGRAM: &str = r"
import mmap, os, sys
source, view = sys.argv[1:]
def wait():
    print('waiting', flush=True)
    assert sys.stdin.readline() == 'go\n'
os.chdir(view + '/names')
large = open(view + '/large', 'rb')
head = large.read(5000)
mapped_file = open(view + '/mapped', 'rb')
mapped = mmap.mmap(mapped_file.fileno(), 0, prot=mmap.PROT_READ)
first = mapped[:100]
entries = os.scandir('.')
some = [next(entries).name for _ in range(10)]
untouched = open(view + '/untouched', 'rb')
wait()
some += [next(entries).name for _ in range(3000)]
head += large.read(1 << 20)
assert mapped[3 << 20:(3 << 20) + 10] == open(source + '/mapped', 'rb').read()[3 << 20:(3 << 20) + 10]
wait()
some += [entry.name for entry in entries]
assert sorted(some) == sorted(os.listdir(source + '/names')), len(some)
assert head + large.read() == open(source + '/large', 'rb').read()
assert mapped[:] == open(source + '/mapped', 'rb').read()
assert os.fstat(large.fileno()).st_size == os.stat(source + '/large').st_size
assert untouched.read() == open(source + '/untouched', 'rb').read()
assert os.path.samefile('.', view + '/names') and os.getcwd() == view + '/names'
assert os.stat(some[17]).st_ino == os.stat(source + '/names/' + some[17]).st_ino
try:
    os.stat('no-such-name')
    sys.exit('a name came into being')
except FileNotFoundError:
    print('done', flush=True)
";

/// A program that waits for a word now and then.
struct Waiting {
    child: Child,
    says: BufReader<std::process::ChildStdout>,
}

impl Waiting {
    fn start(code: &str, arguments: &[&Path]) -> Self {
        let mut command = Command::new("python3");
        command.args(["-I", "-c", code]).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        Self { says: BufReader::new(child.stdout.take().unwrap()), child }
    }

    #[track_caller]
    fn expect(&mut self, word: &str) {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), word, "the program says why on standard error");
    }

    fn go_on(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn job(resend: &str, options: &[&str]) -> Job {
    let sandbox = Sandbox::new();
    let source = sandbox.source();
    tree::write(&source.join("large"), &tree::contents(6 * tree::CHUNK_BYTES + 77));
    tree::write(&source.join("mapped"), &tree::contents(5 * tree::CHUNK_BYTES + 99));
    tree::write(&source.join("untouched"), &tree::contents(4321));
    fs::create_dir(source.join("names")).unwrap();
    tree::fill(&source.join("names"), "name-", 10_000);
    Job::up_local(sandbox, 2, &source, &[&["--resend", resend], options].concat())
}

fn what_is_held_survives(resend: &str) {
    let job = job(resend, &[]);
    let source = job.sandbox.source();
    let mut program = Waiting::start(PROGRAM, &[&source, &job.path(1, &source)]);
    for _ in 0..2 {
        program.expect("waiting");
        job.kill_daemon(1);
        program.go_on();
    }
    program.expect("done");
    assert!(program.child.wait().unwrap().success());
    job.down();
}

#[test]
fn open_files_survive_where_the_kernel_sends_again() {
    require!(Fuse, Root);
    what_is_held_survives("true");
}

#[test]
fn open_files_survive_where_requests_are_kept() {
    require!(Fuse, Root);
    what_is_held_survives("false");
}

/// The next daemon finds another file in the place of an open one: who holds the old one is told, and never gets bytes
/// of the new one; who opens it now gets the new one, whole.
const CHANGED: &str = r"
import errno, os, sys
path = sys.argv[1]
held = os.open(path, os.O_RDONLY)
assert os.pread(held, 10, 0) == b'o' * 10
print('waiting', flush=True)
sys.stdin.readline()
try:
    later = os.pread(held, 10, 3 << 20)
    assert later == b'o' * 10, later
except OSError as error:
    assert error.errno == errno.ESTALE, error
for _ in range(10_000):
    try:
        found = open(path, 'rb').read()
        break
    except OSError as error:
        # The kernel is told a moment after the program was.
        assert error.errno == errno.ESTALE, error
assert found == b'n' * (4 << 20)
print('done', flush=True)
";

#[test]
fn a_file_that_changed_meanwhile_is_never_mixed() {
    require!(Fuse, Root);
    for resend in ["true", "false"] {
        let sandbox = Sandbox::new();
        let source = sandbox.source();
        tree::write(&source.join("file"), &vec![b'o'; 4 << 20]);
        let job = Job::up_local(sandbox, 1, &source, &["--resend", resend]);
        let mut program = Waiting::start(CHANGED, &[&job.path(0, &source.join("file"))]);
        program.expect("waiting");
        // A new file of the same name and size.
        tree::write(&source.join("new"), &vec![b'n'; 4 << 20]);
        fs::rename(source.join("new"), source.join("file")).unwrap();
        job.kill_daemon(0);
        program.go_on();
        program.expect("done");
        job.down();
    }
}
