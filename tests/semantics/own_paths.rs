//! `forebay run`: programs see the exports at their own paths, as root and as anybody else, and nothing else changes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};

use forebay_tests::program::{Finished, run};
use forebay_tests::{Job, Sandbox, require, tree};

/// Two tests of one function: a job of root's, who needs no user namespace, and one of a user's.
macro_rules! for_root_and_a_user {
    ($(#[doc = $doc:literal])? $name:ident $(, [$($need:expr),*])?) => {
        mod $name {
            #[test]
            fn as_root() {
                forebay_tests::require!(Fuse, Root $($(, $need)*)?);
                super::$name(forebay_tests::Sandbox::new());
            }

            #[test]
            fn as_a_user() {
                forebay_tests::require!(Fuse, Root, FuseForUsers, Command("fusermount3") $($(, $need)*)?);
                super::$name(forebay_tests::Sandbox::of_nobody());
            }
        }
    };
}
pub(crate) use for_root_and_a_user;

/// A job of one node over the sandbox's source, with a few files.
pub fn job(sandbox: Sandbox, arguments: &[&str]) -> Job {
    let source = sandbox.source();
    tree::write(&source.join("file"), b"contents\n");
    tree::write(&source.join("large"), &vec![7; 3 << 20]);
    fs::create_dir_all(source.join("dir/nested")).unwrap();
    tree::write(&source.join("dir/inner"), b"inner\n");
    symlink(source.join("dir"), source.join("absolute")).unwrap();
    symlink("dir/inner", source.join("relative")).unwrap();
    Job::up_local(sandbox, 1, &source, arguments)
}

/// `forebay run` with a command.
pub fn command(job: &Job, words: &[&str]) -> Program {
    let mut command = job.sandbox.command();
    command.args(["run", "--job", &job.sandbox.name, "--"]).args(words);
    command
}

/// The output of a shell that is run so; `$source` is the export.
pub fn shell(job: &Job, script: &str) -> Finished {
    run(command(job, &["sh", "-euc", script]).env("source", job.sandbox.source()))
}

/// A process that is to be ended with the test.
pub struct Running(pub Child);

impl Running {
    pub fn start(command: &mut Program) -> Self {
        Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    /// The next line that it prints.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        BufReader::with_capacity(1, self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Lets it go on, and what it prints until it ends.
    pub fn go_on(mut self) -> String {
        self.0.stdin.take().unwrap().write_all(b"\n").unwrap();
        let mut rest = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        self.0.wait().unwrap();
        rest
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn exports_are_at_their_own_paths(sandbox: Sandbox) {
    let job = job(sandbox, &[]);
    let source = job.sandbox.source();
    let look =
        r#"cd "$source"; find . | sort; cat file; sha256sum < large; readlink absolute; cat relative absolute/inner"#;
    let outside = run(Program::new("sh").args(["-euc", look]).env("source", &source)).good().text();
    assert_eq!(shell(&job, look).good().text(), outside);
    assert_eq!(shell(&job, r#"stat -f -c %T "$source" "$source/dir""#).good().text(), "fuseblk\nfuseblk\n");
    let written = shell(&job, r#"echo x > "$source/new""#);
    assert!(written.stderr.contains("ead-only file system"), "{}", written.stderr);
    fs::write(source.join("new"), "x").unwrap();
    let mounts = job.sandbox.mounts();
    assert_eq!(mounts, [job.view(0).display().to_string()], "nothing is mounted outside");
    job.down();
}
for_root_and_a_user!(exports_are_at_their_own_paths);

fn the_current_directory_and_the_environment_stay(sandbox: Sandbox) {
    let job = job(sandbox, &[]);
    let dir = job.sandbox.source().join("dir");
    let within = run(command(&job, &["sh", "-c", "pwd -P; cat inner; stat -f -c %T ."]).current_dir(&dir)).good();
    assert_eq!(within.text(), format!("{}\ninner\nfuseblk\n", dir.display()));
    // The second enters where the first was made.
    let again = run(command(&job, &["sh", "-c", "pwd -P; stat -f -c %T ."]).current_dir(&dir)).good();
    assert_eq!(again.text(), format!("{}\nfuseblk\n", dir.display()));
    let mut outside = Program::new("env");
    job.sandbox.surround(&mut outside);
    assert_eq!(run(&mut command(&job, &["env"])).good().text(), run(&mut outside).good().text());
    job.down();
}
for_root_and_a_user!(the_current_directory_and_the_environment_stay);

/// Something mounted, until dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn at(dir: &Path, owner: u32) -> Self {
        let options = format!("size=1m,uid={owner}");
        let mut mount = Program::new("mount");
        let _ = run(mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(dir)).good();
        Self(dir.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The daemon may hold directories of it.
        let _ = run(Program::new("umount").arg("--lazy").arg(&self.0));
    }
}

fn what_is_mounted_below_an_export_stays(sandbox: Sandbox) {
    let owner = fs::metadata(sandbox.source()).unwrap().uid();
    let (source, nested) = (sandbox.source(), sandbox.source().join("dir/nested"));
    fs::create_dir_all(&nested).unwrap();
    let mounted = Mounted::at(&nested, owner);
    tree::write(&nested.join("below"), b"below\n");
    fs::create_dir(nested.join("named")).unwrap();
    let named = nested.join("named");
    let job = job(sandbox, &["--export", named.to_str().unwrap()]);
    let types = r#"stat -f -c %T "$source/dir" "$source/dir/nested" "$source/dir/nested/named""#;
    assert_eq!(shell(&job, types).good().text(), "fuseblk\ntmpfs\nfuseblk\n");
    let written = r#"cat "$source/dir/nested/below"; echo new > "$source/dir/nested/new""#;
    assert_eq!(shell(&job, written).good().text(), "below\n");
    assert_eq!(fs::read_to_string(source.join("dir/nested/new")).unwrap(), "new\n", "it is the same file system");
    drop(mounted);
    job.down();
}
for_root_and_a_user!(what_is_mounted_below_an_export_stays);

fn all_programs_of_a_node_are_in_one_namespace(sandbox: Sandbox) {
    let job = job(sandbox, &[]);
    // All at once: one of them makes it.
    let mut all: Vec<Running> = (0..12)
        .map(|_| {
            Running::start(&mut command(&job, &["sh", "-c", "readlink /proc/self/ns/mnt /proc/self/ns/user; read x"]))
        })
        .collect();
    let mut seen: BTreeSet<[String; 2]> = all.iter_mut().map(|one| [one.line(), one.line()]).collect();
    drop(all);
    let later = run(&mut command(&job, &["readlink", "/proc/self/ns/mnt", "/proc/self/ns/user"])).good().text();
    let later: Vec<&str> = later.lines().collect();
    seen.insert([later[0].to_owned(), later[1].to_owned()]);
    assert_eq!(seen.len(), 1, "{seen:?}");
    let own = fs::read_link("/proc/self/ns/mnt").unwrap();
    assert_ne!(seen.first().unwrap()[0], own.display().to_string());
    // One that starts others the same way stays where it is.
    let nested = format!("'{}' run --job {} -- readlink /proc/self/ns/mnt", program(&job).display(), job.sandbox.name);
    assert_eq!(shell(&job, &nested).good().text().trim_end(), seen.first().unwrap()[0]);
    job.down();
}
for_root_and_a_user!(all_programs_of_a_node_are_in_one_namespace);

/// The command that the job's user may run.
fn program(job: &Job) -> PathBuf {
    let copy = job.sandbox.base().join("forebay");
    if copy.exists() { copy } else { forebay_tests::job::binary() }
}

/// As ranks of an MPI job do among each other (cross-memory attach).
fn programs_read_each_others_memory(sandbox: Sandbox) {
    let job = job(sandbox, &[]);
    let holds = "import ctypes, os, sys; b = ctypes.create_string_buffer(b'from the other'); \
                 print(os.getpid(), ctypes.addressof(b), flush=True); sys.stdin.readline()";
    let reads = "import ctypes, sys; libc = ctypes.CDLL(None, use_errno=True)\n\
                 class Part(ctypes.Structure): _fields_ = [('at', ctypes.c_void_p), ('len', ctypes.c_size_t)]\n\
                 pid, at = map(int, sys.argv[1:]); b = ctypes.create_string_buffer(14)\n\
                 here = Part(ctypes.addressof(b), 14); there = Part(at, 14)\n\
                 n = libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)\n\
                 print(b.value.decode() if n == 14 else ctypes.get_errno())";
    let mut holder = Running::start(&mut command(&job, &["python3", "-I", "-c", holds]));
    let line = holder.line();
    let place: Vec<&str> = line.split(' ').collect();
    let read = run(&mut command(&job, &["python3", "-I", "-c", reads, place[0], place[1]])).good();
    assert_eq!(read.text(), "from the other\n");
    holder.go_on();
    job.down();
}
for_root_and_a_user!(programs_read_each_others_memory, [Command("python3")]);

/// Read once for all programs. A machine may drop pages while they read, which are then read again; without a shared page
/// cache it would be twelve times.
fn twelve_programs_share_one_page_cache(sandbox: Sandbox) {
    let job = job(sandbox, &[]);
    let script = r#"read x; sha256sum < "$source/large""#;
    let all: Vec<Running> = (0..12)
        .map(|_| Running::start(command(&job, &["sh", "-euc", script]).env("source", job.sandbox.source())))
        .collect();
    let sums: BTreeSet<String> = all.into_iter().map(Running::go_on).collect();
    assert_eq!(sums.len(), 1, "{sums:?}");
    let read_bytes = job.status()["nodes"][0]["kernel"]["bytes_read"].as_u64().unwrap();
    assert!((3 << 20..4 * (3 << 20)).contains(&read_bytes), "{read_bytes} bytes of a file of 3 MiB");
    job.down();
}
for_root_and_a_user!(twelve_programs_share_one_page_cache);

fn the_command_is_the_process(sandbox: Sandbox) {
    let job = job(sandbox, &[]);
    assert_eq!(shell(&job, "exit 7").status.code(), Some(7));
    assert_eq!(shell(&job, "kill -TERM $$").signal(), Some(15));
    // A directory of PATH that the user may not enter would make it 126.
    let absent = run(command(&job, &["no-such-command"]).env("PATH", "/usr/bin:/bin"));
    assert_eq!(absent.status.code(), Some(127), "{}", absent.stderr);
    assert_eq!(run(&mut command(&job, &["/etc/passwd"])).status.code(), Some(126));
    let mut waiting = Running::start(&mut command(&job, &["sh", "-c", "echo $$; read x"]));
    assert_eq!(waiting.line(), waiting.0.id().to_string());
    waiting.go_on();
    job.down();
}
for_root_and_a_user!(the_command_is_the_process);

#[test]
fn of_the_whole_file_system_programs_come_from_the_tier_and_the_rest_can_be_written() {
    require!(Fuse, Root);
    let sandbox = Sandbox::new();
    let job = Job::up_local(sandbox, 1, Path::new("/"), &[]);
    assert_eq!(shell(&job, "stat -f -c %T /usr /usr/bin").good().text(), "fuseblk\nfuseblk\n");
    let _ = shell(&job, r#"echo x > "$source/new"; head -c1 /proc/self/stat > /dev/null; : > /dev/null"#).good();
    assert!(job.sandbox.source().join("new").exists());
    let _ = shell(&job, r#"stat -f -c %T /etc /tmp | grep -v fuse"#).good();
    job.down();
}
