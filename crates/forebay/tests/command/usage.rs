//! Wrong usage is refused immediately, with exit status 2 and a hint at the right one.

use std::fs;

use serde_json::Value;

use crate::place::Place;

#[test]
fn wrong_options_are_wrong_usage() {
    let place = Place::new();
    for (arguments, part) in [
        (&["up", "--fanout", "0"][..], "'0' is not a number from 1 to 1024"),
        (&["up", "--budget", "64"], "16MiB is the least"),
        (&["up", "--budget", "16383k"], "16MiB is the least"),
        (&["up", "--budget", "16MB"], "16MiB is the least"),
        (&["up", "--budget", "1Gi"], "is not a size; write for example 4096, 64MiB, 64M (the same) or 1.5GB"),
        (&["up", "--deadline", "5"], "write for example 500ms"),
        (&["up", "--export", ""], "not an absolute path"),
        (&["up", "--no-prefetch=true"], "unexpected value 'true'"),
        (&["up", "--nodes", "n[1-"], "not closed"),
        (&["up", "--nodes=-oProxyCommand=x"], "is not a host name"),
        (&["up", "--nodes", "a,b,a"], "--nodes names a twice"),
        (&["up", "--job", "a/b"], "cannot be a job's name"),
        (&["up", "--local", "2", "--nodes", "a"], "choose one way"),
        (&["up", "--replace", "--fanout", "2", "--local", "3"], "cannot change them: leave out --fanout, --local, or"),
        (&["up", "--no-such", "x"], "unexpected argument"),
        (&["up", "--burst", "/"], "name a directory below /"),
        (&["up", "--burst", "/a/../b=/c"], "without .."),
        (&["explain"], "PATH"),
        (&["simulate", "nonsense"], "there is no scenario nonsense; the scenarios are import-direct"),
        (&["simulate", "cold", "--nodes", "0"], "a job has 1 to"),
        (&["simulate", "lost", "--nodes", "8,16"], "takes one number"),
        (&["simulate", "links", "--plot", "x.svg"], "has no plot"),
        (&["simulate", "--check", "lost"], "has no bar"),
        (&["simulate", "--json"], "<NAME>"),
        (&["nonsense"], "unrecognized subcommand"),
        (&["completions", "tcl"], "possible values"),
    ] {
        let message = place.fails(2, arguments);
        assert!(message.contains(part), "{arguments:?}: {message}");
    }
    place.assert_clean();
}

/// A reader of the exit status must be able to tell its command's from those of `run` itself.
#[test]
fn the_failures_of_run_are_those_of_env() {
    let place = Place::new();
    for (arguments, part) in [
        (&["run"][..], "COMMAND"),
        (&["run", "--"], "COMMAND"),
        // Not taken for the command.
        (&["run", "--veiw", "--", "true"], "a similar argument exists: '--view'"),
        (&["run", "--job", "a/b", "--", "true"], "cannot be a job's name"),
        (&["run", "--job", "none-such", "--", "true"], "no job none-such is up on this host; forebay up starts one"),
    ] {
        let message = place.fails(125, arguments);
        assert!(message.contains(part), "{arguments:?}: {message}");
    }
    place.succeeds(&["run", "--help"]);
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--job", "r", "--export", &place.source()]);
    let file = format!("{}/file", place.source());
    let run = |more: &[&str], command: &str| [&["run", "--job", "r"], more, &["--", command]].concat().join("\n");
    for (status, arguments, part) in [
        (126, run(&[], &file), "cannot run"),
        (127, run(&[], "no-such-command"), "cannot run no-such-command"),
        (126, run(&["--view"], &file), "cannot run"),
        (1, run(&[], "false"), ""),
        (125, run(&["--rank", "7"], "true"), "has no node 7 on this host"),
        (125, run(&["--image", "/no/such/image"], "true"), "/no/such/image"),
    ] {
        let message = place.fails(status, &arguments.split('\n').collect::<Vec<_>>());
        assert!(message.contains(part), "{arguments}: {message}");
    }
    place.succeeds(&["down", "--job", "r"]);
    place.assert_clean();
}

#[test]
fn the_help_with_all_options_has_two_names() {
    let place = Place::new();
    let all = place.succeeds(&["up", "--help=all"]);
    assert_eq!(place.succeeds(&["help", "up", "--all"]), all);
    assert!(all.contains("--burst-capacity") && !place.succeeds(&["help", "up"]).contains("--burst-capacity"));
}

#[test]
fn a_model_says_what_it_is_and_whether_its_bars_are_met() {
    let place = Place::new();
    let plot = place.path("start.svg");
    let said = place.succeeds(&["simulate", "start", "--nodes", "16,2,16", "--plot", plot.to_str().unwrap()]);
    let numbered = |line: &&str| line.starts_with(|first: char| first.is_ascii_digit());
    let rows: Vec<&str> = said.lines().map(str::trim_start).filter(numbered).collect();
    assert!(said.contains("a model, nothing is measured") && rows.len() == 2 && rows[0].starts_with("2 "), "{said}");
    assert!(fs::read_to_string(plot).unwrap().starts_with("<svg "));
    let checked = place.succeeds(&["simulate", "start", "--check"]);
    assert!(checked.starts_with("met: readiness of 10,000 daemons: "), "{checked}");
    let nowhere = place.path("nowhere/x.svg");
    let message = place.fails(1, &["simulate", "cold", "--plot", nowhere.to_str().unwrap()]);
    assert!(message.contains("the plot cannot be written to"), "{message}");
}

#[test]
fn every_command_explains_itself() {
    let place = Place::new();
    for command in ["up", "node"] {
        let help = place.succeeds(&[command, "--help"]).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("Sizes: 64MiB or 64M (by 1024), 1GB (by 1000)."), "{help}");
    }
    let options = |help: &str| help.lines().filter(|line| line.trim_start().starts_with("--")).count();
    let (first, all) = (place.succeeds(&["up", "--help"]), place.succeeds(&["up", "--help=all"]));
    assert_eq!(options(&first), 12, "{first}");
    assert!(first.contains("up --help=all shows all options") && options(&all) > 50, "{all}");
    place.succeeds(&["config", "--budget", "16384k", "--direct-above", "4G"]);
    let help = place.succeeds(&["--help"]);
    for command in [
        "up",
        "node",
        "run",
        "status",
        "top",
        "down",
        "explain",
        "refresh",
        "drain",
        "landed",
        "profile",
        "query",
        "doctor",
        "simulate",
        "config",
        "completions",
        "man",
        "version",
    ] {
        assert!(help.contains(&format!("\n  {command} ")), "{command}");
        assert!(place.succeeds(&[command, "--help"]).contains("Examples:"), "{command}");
    }
}

#[test]
fn without_a_job_there_is_nothing_to_ask() {
    let place = Place::new();
    for command in [&["status"][..], &["explain", "/usr"], &["refresh", "/usr"], &["profile", "record"]] {
        let arguments = [command, &["--job", "none-such"]].concat();
        assert!(place.fails(1, &arguments).contains("no job none-such is up on this host"), "{command:?}");
    }
}

#[test]
fn down_without_a_job_says_so_and_has_nothing_to_do() {
    let place = Place::new();
    for arguments in [&["down"][..], &["down", "--job", "none-such"], &["down", "--local-only", "--job", "none-such"]] {
        let said = place.succeeds(arguments);
        assert!(said.starts_with("nothing to end: no job ") && said.contains(" is up on this host"), "{said}");
    }
    let told = place.json(&["down"]);
    assert_eq!((&told["job"], &told["ended"]), (&serde_json::Value::Null, &serde_json::json!([])), "{told}");
    let asked = place.fails(4, &["down", "--local-only", "--must-be-up", "--job", "none-such"]);
    assert!(asked.contains("no job none-such is up on this host"), "{asked}");
}

#[test]
fn a_log_level_that_is_none_is_refused_and_the_levels_are_named() {
    let place = Place::new();
    for level in ["verbose", "foo", "info,forebay_fuse=loud"] {
        let message = place.fails(2, &["up", "--log", level]);
        assert!(message.contains("is not a log level; the levels are error, warn, info, debug, trace"), "{message}");
    }
}

/// It would serve one of its nodes, and leave the others alone.
#[test]
fn a_job_of_flux_is_not_started_on_one_of_its_nodes() {
    let place = Place::new();
    let mut command = place.command(&["up", "--export", &place.source()]);
    let up = command.env("FLUX_JOB_ID", "f2Wz").env("FLUX_JOB_NNODES", "4").output().unwrap();
    let said = String::from_utf8(up.stderr).unwrap();
    assert_eq!(up.status.code(), Some(1), "{said}");
    assert!(said.contains("job f2Wz of Flux with 4 nodes") && said.contains("--nodes HOSTLIST"), "{said}");
    place.assert_clean();
}

#[test]
fn bad_host_files_name_the_line() {
    let place = Place::new();
    let hosts = place.path("hosts");
    let hosts = hosts.to_str().unwrap();
    for (text, part) in [
        ("a\nb\na\n", "line 3: a is on line 1 already"),
        ("a\nb c\n", "line 2: 'b c' is more than a host"),
        ("a:99999\n", "line 1: '99999' is not a port"),
        ("# none\n", "names no hosts"),
    ] {
        fs::write(hosts, text).unwrap();
        let message = place.fails(1, &["up", "--hostfile", hosts]);
        assert!(message.contains(part) && message.contains(hosts), "{message}");
    }
    assert!(place.fails(1, &["up", "--hostfile", "/nonexistent/hosts"]).contains("No such file"));
    place.assert_clean();
}

#[test]
fn completions_and_manual_pages_cover_the_commands() {
    let place = Place::new();
    assert!(place.succeeds(&["completions", "bash"]).contains("--direct-above"));
    let pages = place.path("man");
    fs::create_dir(&pages).unwrap();
    place.succeeds(&["man", pages.to_str().unwrap()]);
    assert!(fs::read_to_string(pages.join("forebay-up.1")).unwrap().contains("fanout"));
    assert!(place.fails(1, &["man", "/nonexistent"]).contains("cannot write manual pages into /nonexistent"));
}

#[test]
fn the_build_is_described_by_stable_json() {
    let place = Place::new();
    let line = place.succeeds(&["--version"]);
    assert_eq!((line.lines().count(), line.trim()), (1, concat!("forebay ", env!("CARGO_PKG_VERSION"))), "{line}");
    let build = place.json(&["version"]);
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("no text: {build}")).to_owned();
    assert_eq!(build["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(build["protocol"], forebay_wire::message::PROTOCOL_VERSION);
    assert!(text(&build["target"]).starts_with(&format!("{}-unknown-linux-", std::env::consts::ARCH)), "{build}");
    let (commit, date) = (text(&build["commit"]), text(&build["commit_date"]));
    let digits = commit.strip_suffix("-dirty").unwrap_or(&commit);
    assert!(commit == "unknown" || (digits.len() == 12 && digits.bytes().all(|b| b.is_ascii_hexdigit())), "{build}");
    assert!(date == "unknown" || (date.len() == 20 && date.ends_with('Z')), "{build}");
    assert!(["debug", "release"].contains(&text(&build["features"]["profile"]).as_str()), "{build}");
    assert_eq!(build["features"]["static"], text(&build["features"]["libc"]) == "musl", "{build}");
    let people = place.succeeds(&["version"]);
    for part in [&commit, &date, &text(&build["target"]), &text(&build["features"]["allocator"])] {
        assert!(people.contains(part.as_str()), "{part}: {people}");
    }
}

#[test]
fn a_reader_that_has_gone_is_no_failure_to_shout_about() {
    let place = Place::new();
    let mut child = place
        .command(&["config", "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn an_empty_path_of_the_tier_is_called_so() {
    let place = Place::new();
    for command in ["landed", "drain"] {
        let message = place.fails(2, &[command, "a", "b", ""]);
        assert!(message.contains("this path is empty"), "{message}");
    }
}
