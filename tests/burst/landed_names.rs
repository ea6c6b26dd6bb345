//! `landed` of names that are not just files: links, pipes, what others would take for lines.

use std::io::Write;
use std::time::{Duration, Instant};

use forebay_tests::require;

use crate::bed::{Bed, DIR};

/// The lines about names below `DIR`, and the exit status.
fn landed(bed: &Bed, names: &[&str]) -> (Vec<String>, Option<i32>) {
    let paths: Vec<String> = names.iter().map(|name| format!("{DIR}/{name}")).collect();
    let told = bed.command(&[&["landed"][..], &paths.iter().map(String::as_str).collect::<Vec<_>>()].concat());
    let text = if told.stdout.is_empty() { told.stderr.clone() } else { told.text() };
    (text.lines().map(str::to_owned).collect(), told.status.code())
}

#[test]
fn a_path_leads_where_it_leads_programs() {
    require!(Fuse, Root);
    let bed = Bed::new();
    let script = format!(
        "mkdir step; echo a > step/a; ln -s step latest; ln -s {DIR}/step absolute; ln -s ../latest/a step/own"
    );
    let _ = bed.shell(&script).good();
    bed.drain();
    let file = format!("landed {DIR}/step/a (2B of 2B landed)");
    let link = format!("link {DIR}/step/own -> ../latest/a: landed");
    for path in ["latest/a", "absolute/a", "step/../step/a", "latest/../latest/./a"] {
        assert_eq!(landed(&bed, &[path]), (vec![file.clone()], Some(0)), "{path}");
    }
    let whole = (vec![file.clone(), link], Some(0));
    for directory in ["step", "latest", "absolute", "latest/."] {
        assert_eq!(landed(&bed, &[directory]), whole, "{directory}");
    }
    assert_eq!(landed(&bed, &["latest", "step/a", "latest/a", "step"]), whole, "each is told once");
    for (path, why) in [("../../etc/hosts", "is not in the burst tier"), ("step/a/../a", "step/a is not a directory")] {
        let (lines, code) = landed(&bed, &[path]);
        assert!(lines.len() == 1 && lines[0].contains(why) && code != Some(0), "{path}: {lines:?} {code:?}");
    }
    bed.job.down();
}

/// Links and `..` may lead out of the tier and back into it, by any of the directories at which it is seen.
#[test]
fn a_path_that_comes_back_to_the_tier_has_its_files_state() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    let (other, backing) = (bed.mount_of(1), bed.backing());
    let beside = format!("{}/../{}", backing.display(), backing.file_name().unwrap().display());
    let links = [
        ("up", format!("../../..{DIR}/step/a")),
        ("far", format!("/proc/self/../..{DIR}/step/a")),
        ("node", format!("{}/step/a", other.display())),
        ("back", format!("{beside}/step/a")),
    ];
    let _ = bed.shell("mkdir step; echo a > step/a").good();
    for (link, target) in &links {
        std::os::unix::fs::symlink(target, bed.mount().join("step").join(link)).unwrap();
    }
    let paths = [format!("{DIR}/../..{DIR}/step/a"), format!("{}/step/a", other.display()), format!("{beside}/step/a")];
    let ask = |path: &str| {
        let told = bed.command(&["landed", path]);
        (told.text(), told.status.code())
    };
    bed.drain();
    let mut open = std::fs::File::options().append(true).open(bed.mount().join("step/a")).unwrap();
    for (state, code, far) in [("landed", 0, " (2B of 2B landed)"), ("dirty", 3, " (2B of 4B landed)")] {
        for path in &paths {
            assert_eq!(ask(path), (format!("{state} {DIR}/step/a{far}\n"), Some(code)), "{path}");
        }
        for (link, target) in &links {
            let far = if state == "landed" { "" } else { far };
            let expected = format!("link {DIR}/step/{link} -> {target}: {state}{far}\n");
            assert_eq!(ask(&format!("{DIR}/step/{link}")), (expected, Some(code)));
        }
        open.write_all(b"b\n").unwrap();
    }
    drop(open);
    bed.job.down();
}

#[test]
fn names_without_contents_land_as_what_they_are() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "manual"]);
    let made = "ln -s loop loop; ln -s none dangling; mkfifo pipe; mkdir -p d/e; ln -s .. d/up; ln -s /etc/hosts d/out; echo x > d/x";
    let _ = bed.shell(made).good();
    let told = |state: &str| {
        [
            ("loop", format!("{state} {DIR}/loop: a link to loop, and {DIR}/loop leads in a circle")),
            ("dangling", format!("{state} {DIR}/dangling: a link to none, which does not exist")),
            ("pipe", format!("{state} {DIR}/pipe: a named pipe")),
            ("d/e", format!("{state} {DIR}/d/e: an empty directory")),
            ("d/out", format!("{state} {DIR}/d/out: a link to /etc/hosts, which is not in the burst tier")),
        ]
    };
    for (name, line) in told("committed") {
        assert_eq!(landed(&bed, &[name]), (vec![line], Some(3)), "{name}");
    }
    bed.drain();
    for (name, line) in told("landed") {
        assert_eq!(landed(&bed, &[name]), (vec![line], Some(0)), "{name}");
    }
    let (lines, code) = landed(&bed, &["d"]);
    let up = format!("landed {DIR}/d/up: a link to the directory {DIR}");
    assert_eq!((lines.len(), &lines[2], code), (4, &up, Some(0)), "{lines:?}");
    // Another's link at the name is not the one that landed.
    std::fs::remove_file(bed.backing().join("dangling")).unwrap();
    std::os::unix::fs::symlink("other", bed.backing().join("dangling")).unwrap();
    assert_eq!(landed(&bed, &["dangling", "d/x"]).1, Some(3));
    bed.job.down();
}

#[test]
fn a_name_is_one_line_without_controls() {
    require!(Fuse, Root);
    let bed = Bed::new();
    let name = "a\x1b[2J\u{9b}\u{202e}\nlanded all";
    std::fs::write(bed.mount().join(name), "x").unwrap();
    std::os::unix::fs::symlink(name, bed.mount().join("b\n")).unwrap();
    bed.drain();
    let escaped = "a\\u{1b}[2J\\u{9b}\\u{202e}\\nlanded all";
    let expected =
        [format!("landed {DIR}/{escaped} (1B of 1B landed)"), format!("link {DIR}/b\\n -> {escaped}: landed")];
    assert_eq!(landed(&bed, &["", name]), (expected.to_vec(), Some(0)));
    let explained = bed.command(&["explain", &format!("{DIR}/{name}")]).good().text();
    assert_eq!(explained.lines().next().unwrap(), format!("{DIR}/{escaped}"));
    bed.job.down();
}

/// The order of landing is that of the changes, so a path is waited for and not brought forward.
#[test]
fn a_drain_of_a_path_waits_for_that_path() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "manual"]);
    let _ = bed.shell("mkdir d; echo a > d/a; echo b > b").good();
    let path = format!("{DIR}/d");
    let begun = bed.command(&["drain", &format!("{DIR}/none"), "--wait"]);
    assert!(begun.status.code() == Some(1) && begun.stderr.contains("No such file"), "{}", begun.stderr);
    let told = bed.command(&["drain", "--wait", &path]).good().text();
    assert_eq!(told, format!("landed {DIR}/d/a (2B of 2B landed)\n"));
    let json = bed.command(&["drain", "--wait", "--json", &path]).good().text();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&value["landed"], &value["files"][0]["state"]), (&true.into(), &"landed".into()), "{value}");
    bed.drain();
    bed.job.down();
}

/// The kernel holds a process that asks until the daemon gives up.
#[test]
fn without_a_leader_commands_say_for_whom_they_wait_and_end() {
    require!(Fuse, Root);
    let mut bed = Bed::of(2);
    let _ = bed.shell("mkdir d").good();
    bed.job.kill_node(0);
    let name = format!("{DIR}/d/unknown");
    let began = Instant::now();
    std::thread::scope(|scope| {
        let landed = scope.spawn(|| bed.command(&["landed", &name]));
        let explained = scope.spawn(|| bed.command(&["explain", "--rank", "1", &name]));
        for told in [landed, explained].map(|told| told.join().unwrap()) {
            assert_eq!(told.status.code(), Some(1), "{} {}", told.text(), told.stderr);
            assert!(told.stderr.contains("waiting for the node that leads the burst tier"), "{}", told.stderr);
            assert!(told.stderr.contains("has not answered within 30s"), "{}", told.stderr);
        }
    });
    assert!(began.elapsed() >= Duration::from_secs(30));
    bed.job.kill_all();
}

/// The kernel may know the directory, and the leader alone what is in it.
#[test]
fn without_a_leader_a_directory_that_the_kernel_knows_holds_no_command_up() {
    require!(Fuse, Root);
    let mut bed = Bed::of(2);
    let _ = bed.shell("mkdir d; echo x > d/x").good();
    bed.drain();
    let directory = bed.mount_of(1).join("d");
    let _ = directory.symlink_metadata().unwrap();
    bed.job.kill_node(0);
    // Its entry is believed for a time, which a look by another process extends.
    let began = Instant::now();
    let told = bed.command(&["landed", &format!("{DIR}/d")]);
    assert!(told.status.code() == Some(1) && began.elapsed() < Duration::from_secs(45), "{told:?}");
    assert!(told.stderr.contains("has not answered within 30s"), "{}", told.stderr);
    bed.job.kill_all();
}

/// More than the arguments of a program may have.
#[test]
fn many_names_are_looked_at_at_once() {
    require!(Fuse, Root);
    let bed = Bed::new();
    let name = "n".repeat(60);
    std::fs::write(bed.mount().join(&name), "x").unwrap();
    bed.drain();
    let (lines, code) = landed(&bed, &vec![name.as_str(); 21_000]);
    assert_eq!((lines, code), (vec![format!("landed {DIR}/{name} (1B of 1B landed)")], Some(0)));
    bed.job.down();
}

#[test]
fn a_name_that_is_no_text_hides_no_other() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    require!(Fuse, Root);
    let bed = Bed::new();
    let raw = OsStr::from_bytes(b"raw\xff");
    std::fs::write(bed.mount().join("text"), "x").unwrap();
    std::fs::write(bed.mount().join(raw), "y").unwrap();
    bed.drain();
    let paths = [OsStr::new(DIR).to_owned(), std::path::Path::new(DIR).join(raw).into_os_string()];
    let arguments: Vec<&OsStr> = paths.iter().map(|path| path.as_os_str()).collect();
    for arguments in [&arguments[..1], &arguments[..]] {
        let told = bed.job.command("landed", arguments);
        let text = told.text();
        assert_eq!((text.lines().count(), told.status.code()), (2, Some(3)), "{told:?}");
        assert!(text.contains(&format!("landed {DIR}/text (1B of 1B landed)")), "{text}");
        assert!(text.contains("only names that are valid UTF-8 can be asked about"), "{text}");
    }
    bed.job.down();
}
