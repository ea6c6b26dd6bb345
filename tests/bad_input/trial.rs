//! `forebay try`: what it compares, and that nothing is left however it ends.

use std::fs;
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::{Child, Command as Program, Stdio};
use std::time::Duration;

use forebay_tests::job::{NOBODY, binary};
use forebay_tests::program::{Finished, run, wait_until};
use forebay_tests::{Sandbox, require, tree};
use rustix::process::{Pid, Signal, kill_process};

use crate::{FAILED, WRONG_USAGE};

/// How long a step of a trial may take on a busy machine.
const STEP: Duration = Duration::from_secs(60);

/// Where a trial's own directory lies.
fn temporary(sandbox: &Sandbox) -> PathBuf {
    sandbox.base().join("t")
}

fn with_files(sandbox: Sandbox) -> Sandbox {
    fs::create_dir(temporary(&sandbox)).unwrap();
    if sandbox.source().metadata().is_ok_and(|found| std::os::unix::fs::MetadataExt::uid(&found) == NOBODY) {
        chown(temporary(&sandbox), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    for number in 0..40 {
        tree::write(&sandbox.source().join(format!("file-{number}")), &[7; 5000]);
    }
    sandbox
}

/// The trial of `words` on two nodes, over the sandbox's source.
fn trial(sandbox: &Sandbox, options: &[&str], words: &[&str]) -> Program {
    let mut command = sandbox.command();
    command.env("TMPDIR", temporary(sandbox)).args(["try", "--nodes", "2", "--tree"]).arg(sandbox.source());
    command.args(options).arg("--").args(words);
    command
}

/// Beside the steps of the trial, which are several lines.
#[track_caller]
fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word}: {text}");
    }
}

/// No directory, mount or process of any trial is there.
#[track_caller]
fn assert_nothing_left(sandbox: &Sandbox) {
    assert_eq!(fs::read_dir(temporary(sandbox)).unwrap().count(), 0, "directories");
    assert_eq!(sandbox.left(), [""; 0]);
    let base = format!("{}/", temporary(sandbox).display());
    let lines = fs::read_dir("/proc").unwrap().filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    let left: Vec<String> =
        lines.map(|line| String::from_utf8_lossy(&line).into_owned()).filter(|line| line.contains(&base)).collect();
    assert_eq!(left, [""; 0]);
}

#[track_caller]
fn ends(sandbox: &Sandbox, done: &Finished, code: i32, words: &[&str]) {
    assert_eq!(done.status.code(), Some(code), "{}", done.stderr);
    assert_eq!(done.text(), "", "{}", done.stderr);
    says(&done.stderr, words);
    assert_nothing_left(sandbox);
}

/// The files are asked for once with Forebay, and by each node without; each process sees the tree at its own path.
fn is_compared(sandbox: &Sandbox) {
    let pattern = sandbox.source().join("file-*");
    let script = format!("test \"$(cat {} | wc -c)\" = 200000", pattern.display());
    let done = run(&mut trial(sandbox, &["--processes", "2", "--json"], &["sh", "-c", &script])).good();
    let told: serde_json::Value = serde_json::from_str(&done.text()).unwrap();
    assert_eq!((&told["nodes"], &told["processes_per_node"]), (&2.into(), &2.into()), "{told}");
    assert_eq!(told["tree"], sandbox.source().to_str().unwrap());
    assert!(told["command"][0].as_str().unwrap().ends_with("/sh") && told["command"][1] == "-c", "{told}");
    assert!(told["model"]["described"].as_str().unwrap().contains("MODEL"), "{told}");
    let number =
        |path: &str| told.pointer(path).and_then(serde_json::Value::as_f64).unwrap_or_else(|| panic!("{path}: {told}"));
    // Each node looks up, opens and reads each of the 40 files.
    assert!(number("/direct/requests/open") >= 80.0 && number("/direct/requests/read") >= 80.0, "{told}");
    assert!(number("/forebay/requests/read") <= 45.0, "{told}");
    assert!(number("/direct/requests_total") > number("/forebay/requests_total"), "{told}");
    assert!(number("/direct/sent_bytes") >= 400_000.0 && number("/forebay/sent_bytes") < 300_000.0, "{told}");
    for way in ["direct", "forebay"] {
        assert!(number(&format!("/{way}/seconds")) > 0.0 && number(&format!("/{way}/runs")) >= 1.0, "{told}");
    }
    // A ratio is there exactly if neither run was disturbed.
    let is_quiet = told["direct"]["disturbed"].is_null() && told["forebay"]["disturbed"].is_null();
    assert_eq!(told["times_as_fast"].is_number(), is_quiet, "{told}");
    says(&done.stderr, &["MODEL", "direct, cold", "through Forebay, cold"]);
    assert_nothing_left(sandbox);
}

#[test]
fn a_command_is_compared_and_nothing_is_left() {
    require!(Root, Fuse);
    is_compared(&with_files(Sandbox::new()));
}

#[test]
fn an_ordinary_users_command_is_compared_and_nothing_is_left() {
    require!(Root, Fuse, FuseForUsers, Command("setpriv"), Command("fusermount3"));
    is_compared(&with_files(Sandbox::of_nobody()));
}

/// In the trial run on the tree itself no more than in any other.
#[test]
fn a_command_cannot_change_the_tree() {
    require!(Root, Fuse, FuseForUsers, Command("setpriv"), Command("fusermount3"));
    for sandbox in [with_files(Sandbox::new()), with_files(Sandbox::of_nobody())] {
        let script = r#"for f in "$0"/*; do ! rm -f "$f" && ! touch "$f" && ! (: > "$f.new") || exit 9; done 2>/dev/null; exit 0"#;
        let source = sandbox.source();
        let names = || fs::read_dir(&source).unwrap().count();
        let before = names();
        let _ = run(&mut trial(&sandbox, &["--json"], &["sh", "-c", script, source.to_str().unwrap()])).good();
        assert_eq!(names(), before);
        assert_nothing_left(&sandbox);
    }
}

#[test]
fn without_a_command_python_or_a_directory_is_read_and_the_table_says_so() {
    require!(Root, Fuse, Command("python3"));
    let sandbox = with_files(Sandbox::new());
    let try_alone = |path: &str| {
        let mut command = sandbox.command();
        command.env("TMPDIR", temporary(&sandbox)).env("PATH", path).args(["try", "--nodes", "2"]);
        run(&mut command).good()
    };
    let done = try_alone("/usr/bin:/bin");
    says(&done.stderr, &["python3 imports its standard library"]);
    let text = done.text();
    for words in ["requests", "a MODEL of a network file system", "times do not", "forebay init"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let done = try_alone("/nowhere");
    says(&done.stderr, &["reading files of /usr/share"]);
    assert_nothing_left(&sandbox);
}

#[test]
fn a_command_that_fails_says_what_it_said_and_has_its_status() {
    require!(Root, Fuse);
    let sandbox = with_files(Sandbox::new());
    let failing = run(&mut trial(&sandbox, &[], &["sh", "-c", "echo 'no such lattice' >&2; exit 7"]));
    ends(
        &sandbox,
        &failing,
        7,
        &["failed on the tree itself, which a trial does not let it change (exit status: 7)", "no such lattice"],
    );
    let file = sandbox.source().join("new");
    let writing = format!("rm -f {0}; echo x >{0}", file.display());
    let writing = run(&mut trial(&sandbox, &[], &["sh", "-c", &writing]));
    ends(&sandbox, &writing, 2, &["on the tree itself, which a trial does not let it change"]);
    assert!(!file.exists());
}

#[test]
fn commands_and_trees_that_are_none_are_refused_before_anything_starts() {
    let sandbox = with_files(Sandbox::new());
    let none = run(&mut trial(&sandbox, &[], &["no-such-command"]));
    ends(&sandbox, &none, 127, &["no-such-command", "no such command"]);
    let file = sandbox.source().join("file-1");
    let no_program = run(&mut trial(&sandbox, &[], &[file.to_str().unwrap()]));
    ends(&sandbox, &no_program, 126, &["file-1", "cannot be run"]);
    let mut covering = sandbox.command();
    covering.env("TMPDIR", temporary(&sandbox)).args(["try", "--tree"]).arg(sandbox.base()).args(["--", "true"]);
    ends(&sandbox, &run(&mut covering), WRONG_USAGE, &["--tree", "which the trial itself needs"]);
    let mut unknown = sandbox.command();
    unknown.env("TMPDIR", temporary(&sandbox)).env_remove("VIRTUAL_ENV").env_remove("CONDA_PREFIX");
    ends(&sandbox, &run(unknown.args(["try", "--", "true"])), WRONG_USAGE, &["true", "--tree DIR"]);
}

fn started(sandbox: &Sandbox, words: &[&str]) -> Child {
    let errors = fs::File::create(sandbox.base().join("said")).unwrap();
    trial(sandbox, &[], words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn().unwrap()
}

/// At three moments: while the command runs on the tree, on the model, and through Forebay.
#[test]
fn a_trial_that_is_interrupted_leaves_nothing() {
    require!(Root, Fuse);
    for (way, signal) in
        [("without any model", Signal::INT), ("direct, cold", Signal::TERM), ("through Forebay", Signal::INT)]
    {
        let sandbox = with_files(Sandbox::new());
        let mark = sandbox.base().join("runs");
        // Its first run is on the tree, the next two are direct ones, and then two through Forebay.
        let most = match way {
            "without any model" => 0,
            "direct, cold" => 1,
            _ => 3,
        };
        let script = format!("echo x >>{0}; test $(wc -l <{0}) -le {most} || exec sleep 600", mark.display());
        let mut child = started(&sandbox, &["sh", "-c", &script]);
        let said = || fs::read_to_string(sandbox.base().join("said")).unwrap();
        let runs = || fs::read_to_string(&mark).unwrap_or_default().lines().count();
        wait_until("the run that does not end", STEP, || runs() > most || child.try_wait().unwrap().is_some());
        assert!(said().trim_end().ends_with("...") && said().contains(way), "{}", said());
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{}", said());
        says(&said(), &["everything that the trial had started is gone"]);
        assert_nothing_left(&sandbox);
    }
}

/// The command and the daemons go on when a trial is killed, until the next one.
#[test]
fn a_trial_that_was_killed_is_cleaned_up_after_by_the_next() {
    require!(Root, Fuse);
    let sandbox = with_files(Sandbox::new());
    let mark = sandbox.base().join("runs");
    let script = format!("echo x >>{0}; test $(wc -l <{0}) -le 3 || exec sleep 600", mark.display());
    let mut child = started(&sandbox, &["sh", "-c", &script]);
    let runs = || fs::read_to_string(&mark).unwrap_or_default().lines().count();
    wait_until("the nodes' commands run through Forebay", STEP, || runs() == 5 || child.try_wait().unwrap().is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(fs::read_dir(temporary(&sandbox)).unwrap().count(), 1, "{:?}", sandbox.left());
    assert!(sandbox.mounts().len() >= 4, "{:?}", sandbox.mounts());
    // Its commands are the user's own, and hold no more than their namespaces.
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let is_ours = String::from_utf8_lossy(&environment).contains(temporary(&sandbox).to_str().unwrap());
        if let (Some(pid), true, true) = (pid, is_ours, line.starts_with(b"sleep\0")) {
            kill_process(pid, Signal::KILL).unwrap();
        }
    }
    let done = run(&mut trial(&sandbox, &[], &["true"])).good();
    assert!(!done.stderr.contains("cleaning up"), "{}", done.stderr);
    assert_nothing_left(&sandbox);
}

/// Runs a trial in a mount namespace after `prepare` has changed it.
fn after(sandbox: &Sandbox, prepare: &str) -> Finished {
    let script = format!("set -e\n{prepare}\nexec \"$@\"");
    let tried = trial(sandbox, &[], &["true"]);
    let mut unshare = Program::new("unshare");
    sandbox.surround(&mut unshare);
    unshare.env("TMPDIR", temporary(sandbox)).args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh"]);
    run(unshare.arg(tried.get_program()).args(tried.get_args()))
}

#[test]
fn without_fuse_it_says_so() {
    require!(Root, Command("unshare"));
    let sandbox = with_files(Sandbox::new());
    let hidden = "mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; mknod -m 666 /dev/urandom c 1 9";
    ends(
        &sandbox,
        &after(&sandbox, hidden),
        FAILED,
        &["modelled file system cannot be mounted", "/dev/fuse", "forebay doctor"],
    );
}

/// Only the command itself has to be executable, not where its temporary files lie, and nothing is written at home.
#[test]
fn a_temporary_directory_without_programs_and_a_home_that_is_read_only_will_do() {
    require!(Root, Fuse, Command("unshare"));
    let sandbox = with_files(Sandbox::new());
    let (home, temporary) = (sandbox.base().join("home"), temporary(&sandbox));
    fs::create_dir(&home).unwrap();
    let (home, temporary) = (home.display(), temporary.display());
    let prepare = format!(
        "mount -t tmpfs -o noexec none {temporary}; mount -t tmpfs -o ro none {home}; unset XDG_STATE_HOME XDG_CACHE_HOME; export HOME={home}"
    );
    let done = after(&sandbox, &prepare);
    assert!(done.status.success() && done.text().contains("through Forebay"), "{}", done.stderr);
    assert!(!done.stderr.contains("Read-only") && !done.stderr.contains("cleaning up"), "{}", done.stderr);
    assert_nothing_left(&sandbox);
}

/// The process that becomes the command on a machine where users cannot make namespaces; the trial shows what it says.
#[test]
fn without_namespaces_it_says_so() {
    require!(Root, Command("unshare"), Command("setpriv"));
    let sandbox = with_files(Sandbox::new());
    let script = "echo 0 >/proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"";
    let mut limited = Program::new("unshare");
    sandbox.surround(&mut limited);
    limited.args(["--user", "--map-root-user", "sh", "-euc", script, "sh"]).arg(binary());
    limited.args(["try", "--enter"]).arg(sandbox.source()).arg("--tree").arg(sandbox.source()).args(["--", "true"]);
    ends(&sandbox, &run(&mut limited), FAILED, &["shows the tree at its own path", "user.max_user_namespaces=0"]);
}

#[test]
fn the_binary_under_test_knows_it() {
    let help = run(Program::new(binary()).args(["try", "--help"])).good().text();
    assert!(help.contains("MODEL") && !help.contains("--enter") && !help.contains("--read"), "{help}");
}
