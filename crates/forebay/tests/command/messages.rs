//! Messages that say what to do.

use std::fs;

use crate::place::{Place, wait_until};

#[test]
fn a_salvage_of_the_wrong_directory_says_that_it_did_nothing() {
    let place = Place::new();
    let message = place.fails(1, &["salvage", "--burst-store", "/nope"]);
    assert_eq!(message.trim(), "forebay: /nope does not exist; nothing was salvaged. `up` prints the store of a job.");
    let output = place.run(&["salvage", "--burst-store", &place.source(), "--json"]);
    assert_eq!(output.status.code(), Some(3), "no store below it: {output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"landed\":null"), "{output:?}");
}

#[test]
fn a_plan_begins_with_an_example() {
    let place = Place::new();
    let example = place.succeeds(&["plan", "--example"]);
    fs::write(place.path("case.json"), &example).unwrap();
    assert!(place.succeeds(&["plan", "case.json"]).contains("joint"));
    let planned = place.succeeds(&["plan", "--example", "--plot", "plan.svg"]);
    assert_eq!(planned, place.succeeds(&["plan", "case.json"]), "the example is that case");
    assert!(fs::read_to_string(place.path("plan.svg")).unwrap().contains("I/O floor"));
    place.fails(2, &["plan", "--example", "case.json"]);
    fs::write(place.path("text"), "hello").unwrap();
    let message = place.fails(1, &["plan", "text"]);
    assert!(
        message.contains("text is not JSON: ") && message.contains("forebay plan --example prints a case"),
        "{message}"
    );
    fs::write(place.path("text"), "[]").unwrap();
    assert!(place.fails(1, &["plan", "text"]).contains("text is not a case: "));
    place.fails(2, &["plan"]);
}

#[test]
fn a_store_that_is_too_small_says_the_least() {
    let Some(place) = Place::with_views() else { return };
    let up = ["up", "--export", &place.source(), "--burst", "source/below", "--burst-store", "store"];
    let message = place.fails(1, &[&up[..], &["--burst-capacity", "10MiB"]].concat());
    assert!(message.contains("is too small: 10 MiB; 192 MiB is the least"), "{message}");
    place.assert_clean();
}

/// The store of a job that has not landed, for a job of another name.
#[test]
fn a_store_of_another_job_says_what_is_lost_with_it() {
    let Some(place) = Place::with_views() else { return };
    let source = place.source();
    let tier = ["--burst", "source/below", "--burst-store", "store", "--burst-capacity", "256MiB", "--drain", "manual"];
    let up = |job: &'static str| [&["up", "--job", job, "--export", source.as_str()][..], &tier].concat();
    let said = place.succeeds(&up("one"));
    let store = place.path("store").display().to_string();
    assert!(said.lines().any(|line| line == format!("store:   {store}")), "{said}");
    let write = format!("echo x > {source}/below/new");
    place.succeeds(&["run", "--job", "one", "--", "sh", "-c", &write]);
    place.fails(3, &["down", "--job", "one"]);
    let message = place.fails(1, &up("two"));
    assert!(message.contains("belongs to job one, not to two, and holds up to "), "{message}");
    let advice = format!("have not landed. Land them: forebay salvage --burst-store {store}. Deleting it loses them");
    assert!(message.contains(&advice), "{message}");
    place.succeeds(&["salvage", "--burst-store", &store]);
    assert_eq!(fs::read_to_string(place.path("source/below/new")).unwrap(), "x\n");
    place.assert_clean();
}

/// In the command's own words: how much, on whose disk.
#[test]
fn a_file_of_the_burst_tier_is_explained() {
    let Some(place) = Place::with_views() else { return };
    let source = place.source();
    let tier = ["--burst", "source/below", "--burst-store", "store", "--burst-capacity", "256MiB", "--drain", "manual"];
    place.succeeds(&[&["up", "--export", &source][..], &tier].concat());
    let file = format!("{source}/below/new");
    place.succeeds(&["run", "--", "sh", "-c", &format!("head -c 1048576 /dev/zero > {file}")]);
    let explained = || place.succeeds(&["explain", &file]);
    let told = explained();
    assert!(told.contains("burst tier: 1MiB on node 0's disk, 0 % landed"), "{told}");
    assert_eq!(place.run(&["landed"]).status.code(), Some(3));
    assert_eq!(place.json(&["explain", &file])[0]["answer"], "burst");
    place.succeeds(&["drain", "--wait"]);
    wait_until("it is on its file system", || explained().contains("landed") && !explained().contains('%'));
    place.succeeds(&["landed", &file]);
    place.succeeds(&["down"]);
    place.assert_clean();
}

/// A test has a shell for its caller where it names one.
#[test]
fn a_shells_profile_is_told_to_those_who_ask() {
    let Some(place) = Place::with_views() else { return };
    let up = |words: &str| {
        let like = place.command(&[]);
        let mut shell = std::process::Command::new("bash");
        let environment = like.get_envs().filter_map(|(name, value)| Some((name, value?)));
        shell.envs(environment).env("FOREBAY_PROFILE", "auto").current_dir(place.path(""));
        // Commands on standard input: the shell of a person.
        let script = format!("{} up {words} --export {}\n", env!("CARGO_BIN_EXE_forebay"), place.source());
        fs::write(place.path("typed"), script).unwrap();
        let output = shell.stdin(fs::File::open(place.path("typed")).unwrap()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        place.succeeds(&["down"]);
        String::from_utf8(output.stdout).unwrap()
    };
    let said = up("");
    assert!(!said.contains("profile") && !said.contains("recording"), "{said}");
    let said = up("--verbose");
    let directory = place.path("profiles").display().to_string();
    assert!(said.contains(&format!("recording this start for later ones ({directory}, ")), "{said}");
    assert!(said.contains(" of 4GiB)"), "{said}");
}

#[test]
fn down_names_programs_that_have_files_of_the_job_open() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--export", &place.source()]);
    let file = place.job("default").join("view").join(place.source().trim_start_matches('/')).join("file");
    let sleep = || std::process::Command::new("sleep");
    let mut user = sleep().arg("60").stdin(fs::File::open(&file).unwrap()).spawn().unwrap();
    let mut visitor = sleep().arg("60").current_dir(file.parent().unwrap()).spawn().unwrap();
    // A job of the same name in another directory.
    let other = |arguments: &[&str]| {
        let done = place.command(arguments).env("FOREBAY_DIRECTORY", place.path("other")).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stderr).unwrap()
    };
    other(&["up", "--export", &place.source()]);
    assert!(!other(&["down"]).contains("still using"));
    let down = place.run(&["down"]);
    let message = String::from_utf8(down.stderr).unwrap();
    for process in [&mut user, &mut visitor] {
        process.kill().unwrap();
        process.wait().unwrap();
    }
    assert!(down.status.success(), "{message}");
    let mut pids = [user.id(), visitor.id()];
    pids.sort_unstable();
    let both = [pids, [pids[1], pids[0]]].map(|[one, other]| {
        format!("still using files of the job: {one} (sleep), {other} (sleep); their next calls there fail")
    });
    assert!(both.iter().any(|named| message.contains(named)), "{message}");
    place.succeeds(&["up", "--export", &place.source()]);
    assert!(place.run(&["down"]).stderr.is_empty());
    place.assert_clean();
}

/// Names may have what directs a terminal, or what a shell takes for more than a name.
#[test]
fn names_are_printed_without_controls_and_as_words_of_a_shell() {
    let Some(place) = Place::with_views() else { return };
    let export = place.path("it's $HOME\x1b[2J");
    fs::create_dir(&export).unwrap();
    let told = place.succeeds(&["up", "--export", export.to_str().unwrap()]);
    assert!(!told.contains('\x1b'), "{told}");
    let tried =
        told.lines().filter_map(|line| line.strip_prefix("try:     ").or(line.trim().strip_prefix("forebay run ")));
    for words in tried.map(|line| line.rsplit_once("ls ").unwrap().1) {
        let listed = std::process::Command::new("bash").args(["-c", &format!("ls -d {words}")]).output().unwrap();
        assert!(listed.status.success(), "{words}: {listed:?}");
    }
    let absent = export.join("absent\nx");
    for command in [&["explain"][..], &["refresh"], &["landed"], &["status", "--job"], &["logs", "--job"]] {
        let output = place.run(&[command, &[absent.to_str().unwrap()]].concat());
        let all = [output.stdout, output.stderr].concat();
        assert!(!all.contains(&0x1b), "{command:?}: {}", String::from_utf8_lossy(&all));
    }
    place.succeeds(&["down"]);
    place.assert_clean();
}
