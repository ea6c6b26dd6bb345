//! Programs that people run over a view: they must not notice.

use std::fs;
use std::path::Path;
use std::process::Command as Program;

use forebay_tests::program::{Finished, run};
use forebay_tests::{Site, compare, on_both, require};

fn shell(script: &str, arguments: &[&Path]) -> Finished {
    run(Program::new("sh").arg("-euc").arg(script).arg("sh").args(arguments))
}

on_both!(programs_can_be_executed, |site| {
    let printed = run(Program::new(site.view("programs/cat")).arg(site.view("plain/a/b/c/text"))).good();
    assert_eq!(printed.text(), "some text\n");
    let own = run(Program::new(site.view("programs/sh")).args(["-c", "readlink /proc/$$/exe"])).good();
    assert_eq!(Path::new(own.text().trim_end()), site.view("programs/sh"));
});

on_both!(scripts_can_be_executed, |site| {
    let printed = run(Program::new(site.view("programs/script")).arg("a")).good();
    assert_eq!(printed.text(), "script a\n");
    let rank = site.rank();
    let printed = run(Program::new(site.view(format!("programs/script-by-view{rank}"))).arg("b")).good();
    assert_eq!(printed.text(), "by view b\n", "the interpreter lies in the view too");
});

on_both!(what_is_not_executable_is_refused, |site| {
    let refused = Program::new(site.view("plain/4096")).spawn().unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(13), "EACCES");
});

on_both!(a_directory_can_be_worked_in, |site| {
    let printed =
        run(Program::new("sh").args(["-c", "pwd -P && cat text"]).current_dir(site.view("plain/a/b/c"))).good();
    assert_eq!(printed.text(), format!("{}\nsome text\n", site.view("plain/a/b/c").display()));
});

on_both!(find_finds_the_same, |site| {
    let format = r"%P\0%y\0%s\0%b\0%n\0%i\0%U\0%G\0%m\0%T@\0%C@\0%l\0\n";
    let find = |path: &Path| {
        let found = run(Program::new("find").arg(path).args(["-printf", format])).good().stdout;
        let mut lines: Vec<_> = found.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
        lines.sort();
        lines
    };
    assert_eq!(find(&site.source("")), find(&site.view("")));
});

on_both!(tar_packs_the_same, [Command("tar")], |site| {
    let directories = ["plain", "names", "links", "modes", "times", "programs"];
    let pack = |path: &Path| {
        let mut tar = Program::new("tar");
        tar.args(["--create", "--format=posix", "--sort=name", "--numeric-owner", "--file=-"]);
        // Access and change times would be in it, and the first are a mount's own.
        tar.args(["--pax-option=delete=atime,delete=ctime,exthdr.name=%d/%f", "-C"]).arg(path);
        run(tar.args(directories)).good().stdout
    };
    compare::same(&pack(&site.source("")), &pack(&site.view("")), Path::new("the archive"));
});

on_both!(rsync_finds_no_difference, [Command("rsync")], |site| {
    let mut rsync = Program::new("rsync");
    rsync.args(["--archive", "--checksum", "--hard-links", "--dry-run", "--itemize-changes", "--delete", "--specials"]);
    rsync.args(["--devices", "--exclude=/sparse/big"]);
    let (mut from, mut to) = (site.view("").into_os_string(), site.source("").into_os_string());
    for path in [&mut from, &mut to].into_iter().filter(|path| !path.as_encoded_bytes().ends_with(b"/")) {
        path.push("/");
    }
    let printed = run(rsync.arg(from).arg(to)).good();
    assert_eq!(printed.text(), "", "what rsync would change");
});

on_both!(copies_are_equal, |site| {
    let target = tempfile::tempdir().unwrap();
    let (view, copy) = (site.view("plain"), target.path().join("copy"));
    let _ = run(Program::new("cp").arg("-a").args([&view, &copy])).good();
    let _ = run(Program::new("diff").arg("-r").args([&site.source("plain"), &copy])).good();
    let times = shell("cd \"$1\" && find . -printf '%P %T@ %m %s\\n' | sort", &[&site.source("plain")]).good();
    let copied = shell("cd \"$1\" && find . -printf '%P %T@ %m %s\\n' | sort", &[&copy]).good();
    assert_eq!(times.text(), copied.text());
});

on_both!(checksums_agree, |site| {
    let script = "cd \"$1\" && find . -type f ! -path ./sparse/big -print0 | sort -z | xargs -0 sha256sum";
    let sums = |path: &Path| shell(script, &[path]).good().stdout;
    assert_eq!(sums(&site.source("")), sums(&site.view("")));
});

on_both!(a_compiler_finds_its_headers, [Command("gcc")], |site| {
    let target = tempfile::tempdir().unwrap();
    let program = target.path().join("main.c");
    fs::write(&program, "#include <first.h>\nint main(void) { return FIRST - 42; }\n").unwrap();
    let search = |root: &Path| {
        let mut gcc = Program::new("gcc");
        for name in ["nowhere", "plain", "names", "programs/include"] {
            gcc.arg("-I").arg(root.join(name));
        }
        let found = run(gcc.args(["-H", "-o"]).arg(target.path().join("main")).arg(&program)).good().stderr;
        let _ = run(&mut Program::new(target.path().join("main"))).good();
        found.replace(&root.display().to_string(), "ROOT")
    };
    assert_eq!(search(&site.source("")), search(&site.view("")));
});

on_both!(python_imports_from_it, [Command("python3")], |site| {
    let code = "import sys; sys.path[:0] = [sys.argv[1]]; import importlib.util as u\n\
                assert u.find_spec('nothing_of_this_name') is None\nimport json; json.dumps({})";
    let _ = forebay_tests::program::python(code, &[&site.view("programs")]).good();
});

fn git(nodes: u32) {
    let home = tempfile::tempdir().unwrap();
    let git = |path: &Path, arguments: &[&str]| {
        let mut git = Program::new("git");
        git.env("HOME", home.path()).env("GIT_CONFIG_NOSYSTEM", "1").arg("-C").arg(path);
        git.args([
            "-c",
            "safe.directory=*",
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.org",
            "-c",
            "commit.gpgsign=false",
        ]);
        run(git.args(arguments)).good().text()
    };
    let site = Site::new(nodes, |source| {
        git(source, &["init", "--quiet"]);
        git(source, &["add", "plain", "names", "links", "programs"]);
        git(source, &["commit", "--quiet", "--message=everything"]);
        fs::write(source.join("programs/include/first.h"), "changed\n").unwrap();
        fs::write(source.join("programs/new"), "new\n").unwrap();
    });
    let status = ["status", "--porcelain", "--", "plain", "names", "links", "programs"];
    let expected = " M programs/include/first.h\n?? programs/new\n";
    assert_eq!(git(&site.source(""), &status), expected);
    assert_eq!(git(&site.view(""), &status), expected);
    assert_eq!(git(&site.view(""), &["rev-parse", "HEAD"]), git(&site.source(""), &["rev-parse", "HEAD"]));
    assert_eq!(git(&site.view(""), &["fsck", "--full", "--no-progress"]), "");
}

#[test]
fn git_sees_no_changes_single() {
    require!(Fuse, Root, Command("git"));
    git(1);
}

#[test]
fn git_sees_no_changes_leaf() {
    require!(Fuse, Root, Command("git"));
    git(7);
}
