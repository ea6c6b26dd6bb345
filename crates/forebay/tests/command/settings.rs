//! `config` and `doctor`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use serde_json::json;

use crate::place::Place;

#[test]
fn values_come_with_their_origin() {
    let place = Place::new();
    let file = place.path("job.toml");
    fs::write(&file, "# settings\nfanout = 5\nexport = ['/a', '/b']\nreaders = 1\n").unwrap();
    let mut command = place.command(&["config", "--json", "--config", file.to_str().unwrap(), "--local", "3"]);
    let output = command.env("FOREBAY_READERS", "2").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let config: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(config["local"]["value"], "3");
    assert_eq!(config["local"]["origin"], "option");
    assert_eq!(config["readers"]["origin"], "environment");
    assert_eq!(config["fanout"]["origin"], "file");
    assert_eq!(config["fanout"]["line"], 2);
    assert_eq!(config["export"]["value"], json!(["/a", "/b"]));
    assert_eq!(config["log"]["origin"], "default");
    assert_eq!(config["log"]["environment"], "FOREBAY_LOG");
    assert_eq!(config["budget"]["value"], json!(null));
}

#[test]
fn mistakes_in_a_file_are_told_with_their_line() {
    let place = Place::new();
    let file = place.path("job.toml");
    let file = file.to_str().unwrap();
    for (text, part) in [
        ("\nfan-out = 2\n", "line 2: there is no setting 'fan-out'; the name is 'fanout'"),
        ("fanout = 'many'\n", "line 1, fanout: 'many' is not a number"),
        ("fanout = \n", "line 1"),
    ] {
        fs::write(file, text).unwrap();
        for command in ["config", "up"] {
            let message = place.fails(2, &[command, "--config", file]);
            assert!(message.contains(part), "{message}");
        }
    }
    assert!(place.fails(1, &["config", "--config", "/nonexistent"]).contains("cannot read the configuration file"));
    place.assert_clean();
}

#[test]
fn a_mistake_in_the_environment_does_not_keep_down_from_working() {
    let place = Place::new();
    let output = place.command(&["down", "--job", "x"]).env("FOREBAY_FANOUT", "many").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("no job x"), "{output:?}");
    let output = place.command(&["up"]).env("FOREBAY_FANOUT", "many").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the environment variable FOREBAY_FANOUT: 'many'"));
}

#[test]
fn a_misspelt_variable_is_named_with_the_one_that_is_meant() {
    let place = Place::new();
    let said = |variables: &[(&str, &str)]| {
        let output = place.command(&["config"]).envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let misspelt = said(&[("FOREBAY_FANUOT", "3"), ("FOREBAY_READERS", "2")]);
    let warning = "forebay: warning: the environment variable FOREBAY_FANUOT is not known and is ignored; did you \
                   mean FOREBAY_FANOUT?\n";
    assert_eq!(misspelt, warning);
    let own = [("FOREBAY_VIEW", "/v"), ("FOREBAY_PREFIX", "/v"), ("FOREBAY_MISSING", "fail"), ("FOREBAY_CONFIG", "")];
    assert_eq!(said(&own), "");
    assert_eq!(said(&[("FOREBAY_FANUOT", "")]), "", "an empty one is none");
    assert_eq!(said(&[("FOREBAY_FANUOT", "3"), ("SLURM_PROCID", "1")]), "", "the first of many processes says it");
    let own = place.command(&["doctor", "--json"]).env("FOREBAY_FANUOT", "3").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&own.stderr).matches("FANUOT").count(), 1, "not by the trials: {own:?}");
    assert!(!String::from_utf8_lossy(&own.stdout).contains("FANUOT"), "{own:?}");
    let inside = place.command(&["status"]).env("FOREBAY_BURST", "/mount").output().unwrap();
    assert!(!String::from_utf8_lossy(&inside.stderr).contains("FOREBAY_BURST"), "{inside:?}");
}

#[test]
fn the_doctor_looks_at_everything_and_leaves_nothing() {
    let place = Place::new();
    let output = place.run(&["doctor", "--json"]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = found["checks"].as_array().unwrap();
    for name in
        ["view", "/dev/fuse", "fusermount3", "user namespaces", "kernel", "open files", "memory", "job directory"]
    {
        assert!(checks.iter().any(|check| check["name"] == name), "{name}");
    }
    if found["view_possible"] == true {
        let agreed = checks.iter().find(|check| check["name"] == "FUSE protocol").unwrap();
        let (details, said) = (&agreed["details"], agreed["found"].as_str().unwrap());
        let version = details["version"].as_str().unwrap();
        assert!(
            version.strip_prefix("7.").unwrap().parse::<u32>().unwrap() >= 31 && said.starts_with(version),
            "{said}"
        );
        let (flags, offered) = (details["flags"].as_u64().unwrap(), details["offered"].as_u64().unwrap());
        assert!(flags != 0 && flags & !offered == 0, "nothing is used that is not offered: {details}");
        let is_offered = offered & 1 << 37 != 0;
        assert_eq!(details["passthrough_offered"], is_offered);
        assert!(
            said.contains(if is_offered { "passthrough is offered" } else { "passthrough is not offered" }),
            "{said}"
        );
    }
    let all_ok = checks.iter().all(|check| check["state"] == "ok" || check["state"] == "note");
    let expected = match (found["view_possible"].as_bool().unwrap(), all_ok) {
        (false, _) => 1,
        (true, false) => 3,
        (true, true) => 0,
    };
    assert_eq!(output.status.code(), Some(expected), "{output:?}");
    let text = String::from_utf8(place.run(&["doctor"]).stdout).unwrap();
    assert!(text.lines().next().unwrap().contains("view: "), "{text}");
    assert_eq!(text.lines().last(), found["verdict"].as_str(), "the verdict comes last");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains("forebay-doctor"));
}

#[test]
fn a_relative_path_below_what_is_no_text_is_refused() {
    let place = Place::new();
    let directory = place.path("source").join(OsStr::from_bytes(b"odd-\xff"));
    fs::create_dir(&directory).unwrap();
    for option in ["--view", "--metrics", "--export"] {
        let output = place.command(&["up", option, "relative"]).current_dir(&directory).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("not valid UTF-8"), "{option}: {said}");
    }
    let output = place.command(&["up"]).env("FOREBAY_VIEW", "relative").current_dir(&directory).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let blamed = "the environment variable FOREBAY_VIEW: 'relative' cannot be made an absolute path";
    assert!(output.status.code() == Some(2) && said.contains(blamed), "{said}");
}

/// Of options, variables and files alike.
#[test]
fn relative_paths_mean_the_callers_directory() {
    let place = Place::new();
    fs::write(place.path("job.toml"), "burst-mount = 'mount'\nmetrics = '/m'\n").unwrap();
    let options = ["export", "view", "hostfile", "topology", "profile", "profile-dir", "burst-store", "data", "munge"];
    let options: Vec<String> = options.iter().map(|key| format!("--{key}=some/{key}")).collect();
    let pairs = ["--burst=ckpt=backing", "--stage-in=in=/out,scatter", "--directives=off", "--config=job.toml"];
    let arguments: Vec<&str> =
        ["config", "--json"].into_iter().chain(options.iter().map(String::as_str)).chain(pairs).collect();
    let output = place.command(&arguments).env("FOREBAY_DIRECTORY", "jobs").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let config: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let here = place.path("").canonicalize().unwrap().display().to_string();
    let here = here.trim_end_matches('/');
    for (key, value) in [
        ("export", json!([format!("{here}/some/export")])),
        ("view", json!(format!("{here}/some/view"))),
        ("hostfile", json!(format!("{here}/some/hostfile"))),
        ("topology", json!(format!("{here}/some/topology"))),
        ("profile", json!(format!("{here}/some/profile"))),
        ("profile-dir", json!(format!("{here}/some/profile-dir"))),
        ("burst-store", json!(format!("{here}/some/burst-store"))),
        ("data", json!(format!("{here}/some/data"))),
        ("munge", json!(format!("{here}/some/munge"))),
        ("burst", json!([format!("{here}/ckpt={here}/backing")])),
        ("stage-in", json!([format!("{here}/in=/out,scatter")])),
        ("directives", json!("off")),
        ("burst-mount", json!(format!("{here}/mount"))),
        ("metrics", json!("/m")),
        ("directory", json!(format!("{here}/jobs"))),
    ] {
        assert_eq!(config[key]["value"], value, "{key}");
    }
}

#[test]
fn a_switch_has_no_value_and_the_last_one_counts() {
    let place = Place::new();
    let values = |arguments: &[&str]| {
        let config = place.json(&[&["config"], arguments].concat());
        ["prefetch", "resend", "allow-other"].map(|key| config[key]["value"].as_str().unwrap() == "true")
    };
    assert_eq!(values(&[]), [true, true, false]);
    assert_eq!(values(&["--no-prefetch", "--no-resend", "--allow-other"]), [false, false, true]);
    assert_eq!(values(&["--no-prefetch", "--prefetch", "--allow-other", "--no-allow-other"]), [true, true, false]);
    // The forms of before.
    assert_eq!(values(&["--prefetch", "false", "--resend=false"]), [false, false, false]);
    assert_eq!(values(&["--anticipate", "false", "--resend", "true"]), [false, true, false]);
    let file = place.path("job.toml");
    fs::write(&file, "prefetch = false\nallow-other = true\n").unwrap();
    let file = ["--config", file.to_str().unwrap()];
    assert_eq!(values(&file), [false, true, true]);
    assert_eq!(values(&[&file[..], &["--prefetch", "--no-allow-other"]].concat()), [true, true, false]);
    let help = place.succeeds(&["up", "--help=all"]);
    assert!(["--no-prefetch", "--no-resend", "--allow-other"].iter().all(|option| help.contains(option)), "{help}");
    assert!(!["BOOL", " --prefetch", " --resend", "--no-allow-other"].iter().any(|form| help.contains(form)), "{help}");
}
