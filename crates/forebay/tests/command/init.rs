//! The scripts of `init`. Schedulers that no test has are replaced by stand-ins of their launchers, which run the program once on this
//! machine; `forebay` is the real one, with two nodes here in place of the job's hosts. A real Slurm runs its script in
//! `tests/schedulers/init.rs`.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;

use crate::place::{Place, signal, wait_until};

const SCHEDULERS: [&str; 5] = ["slurm", "pbs", "lsf", "flux", "pals"];

/// Stands for `mpiexec`, `flux` and `bjobs`: options have a value each, and the program runs once.
const STAND_IN: &str = r#"#!/bin/sh
echo "$(basename "$0") $*" >>"$STAND_IN_LOG"
case "$*" in
  "resource list"*) echo 2; exit ;;
  "-noheader -o time_left"*) echo "1:30 L"; exit ;;
  run*) shift ;;
esac
while [ "${1#-}" != "$1" ]; do shift 2; done
exec "$@"
"#;

/// A machine without any scheduler but for stand-ins.
struct Machine {
    place: Place,
    bin: PathBuf,
}

impl Machine {
    fn of(place: Place) -> Self {
        let bin = place.path("bin");
        fs::create_dir(&bin).unwrap();
        Self { place, bin }
    }

    fn stand_in(&self, name: &str) {
        let file = self.bin.join(name);
        fs::write(&file, STAND_IN).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn surround<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let hosts = self.place.path("hosts");
        fs::write(&hosts, "a\nb\n").unwrap();
        for name in ["VIRTUAL_ENV", "CONDA_PREFIX", "SCRATCH", "WORK", "PROJECT"] {
            command.env_remove(name);
        }
        command
            .env("PATH", format!("{}:/usr/bin:/bin", self.bin.display()))
            .env("STAND_IN_LOG", self.place.path("log"))
            .env("PBS_NODEFILE", &hosts)
            .env("LSB_DJOB_HOSTFILE", &hosts)
            // The nodes are here.
            .env("FOREBAY_LOCAL", "2")
    }

    /// The script that `init` writes, in a file.
    fn script(&self, arguments: &[&str]) -> PathBuf {
        let file = self.place.path(&format!("{}.sh", arguments[0]));
        let _ = fs::remove_file(&file);
        let mut command = self.place.command(&["init", "--output", file.to_str().unwrap()]);
        let output = self.surround(command.args(arguments)).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let how = String::from_utf8(output.stdout).unwrap();
        assert!(how.trim_end().ends_with(file.to_str().unwrap()), "{how}");
        file
    }

    fn run(&self, script: &Path) -> Command {
        let mut shell = self.place.shell(script.parent().unwrap());
        shell.args(["-c", "exec bash \"$0\""]).arg(script).stdin(Stdio::null());
        self.surround(&mut shell);
        shell
    }

    fn output(&self, script: &Path) -> (Output, String) {
        let output = self.run(script).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output, said)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.place.path("log")).unwrap_or_default()
    }
}

fn check(program: &str, arguments: &[&str], script: &Path) {
    let done = Command::new(program).args(arguments).arg(script).output().unwrap();
    assert!(done.status.success(), "{}: {}", script.display(), String::from_utf8_lossy(&done.stdout));
}

#[test]
fn each_script_is_one_of_bash_in_which_shellcheck_finds_nothing() {
    let machine = Machine::of(Place::new());
    let has_shellcheck = Command::new("shellcheck").arg("--version").output().is_ok();
    assert!(has_shellcheck || std::env::var_os("CI").is_none_or(|ci| ci != "true"), "shellcheck is missing");
    let odd = ["--", "/a b/$HOME/it's", "%UP%", "--x=;|", "", "*"];
    for scheduler in SCHEDULERS {
        for burst in [&[][..], &["--burst", "/c k=/lustre/me/ckpt", "--export", "/s $x"]] {
            let script = machine.script(&[&[scheduler, "--nodes", "3", "--time", "90min"], burst, &odd].concat());
            check("bash", &["-n"], &script);
            if has_shellcheck {
                // It takes the function of a trap for one that is never called, and this dollar for one that is meant.
                check("shellcheck", &["--exclude=SC2317,SC2016"], &script);
            }
            let text = fs::read_to_string(&script).unwrap();
            assert!(text.contains(r"program=('/a b/$HOME/it'\''s' %UP% '--x=;|' '' '*')"), "{text}");
            assert!(text.contains("1:30") || text.contains("time-limit=90m"), "{text}");
        }
    }
}

#[test]
fn a_script_has_the_paths_of_this_machine() {
    let machine = Machine::of(Place::new());
    let source = machine.place.source();
    let mut command = machine.place.command(&["init", "slurm"]);
    let output = machine.surround(&mut command).env("CONDA_PREFIX", &source).env("WORK", "/tmp").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("\nforebay={}\n", env!("CARGO_BIN_EXE_forebay"))), "{text}");
    assert!(text.contains(&format!("\nexports=({source})\n")) && text.contains("--burst $WORK/ckpt"), "{text}");
}

#[test]
fn without_a_name_the_scheduler_here_is_taken_or_all_are_listed() {
    let machine = Machine::of(Place::new());
    let init = |arguments: &[&str]| {
        let mut command = machine.place.command(&["init"]);
        machine.surround(command.args(arguments)).env("PATH", &machine.bin).output().unwrap()
    };
    let none = init(&[]);
    let said = String::from_utf8(none.stderr).unwrap();
    assert_eq!(none.status.code(), Some(2), "{said}");
    assert!(said.contains("slurm, pbs, lsf, flux, pals"), "{said}");
    machine.stand_in("flux");
    assert!(String::from_utf8(init(&[]).stdout).unwrap().contains("#flux: --nodes=2\n"));
}

#[test]
fn a_file_that_exists_stays_as_it_is() {
    let place = Place::new();
    let file = place.path("job.sh");
    fs::write(&file, "mine").unwrap();
    let said = place.fails(1, &["init", "pbs", "--output", file.to_str().unwrap()]);
    assert!(said.contains("exists and stays as it is"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn scripts_keep_the_programs_status_and_leave_nothing() {
    let Some(place) = Place::with_views() else { return };
    let machine = Machine::of(place);
    let source = machine.place.source();
    let file = format!("{source}/file");
    for (scheduler, launcher) in [
        ("pbs", format!("mpiexec --hostfile {} -n 2 ", machine.place.path("hosts").display())),
        ("lsf", format!("mpiexec --hostfile {} -n 2 ", machine.place.path("hosts").display())),
        ("pals", "mpiexec -n 2 --ppn 1 ".to_owned()),
        ("flux", "flux run -N 2 -n 2 ".to_owned()),
    ] {
        machine.stand_in(launcher.split(' ').next().unwrap());
        for (program, status) in [("cat \"$0\" && touch \"$0\"; exit 7", 7), ("cat \"$0\"", 0)] {
            let script = machine.script(&[scheduler, "--export", &source, "--", "sh", "-c", program, &file]);
            let (output, said) = machine.output(&script);
            assert_eq!(output.status.code(), Some(status), "{scheduler}: {said}");
            assert!(said.contains("contents of file\n") && said.contains("is down"), "{scheduler}: {said}");
            assert_eq!(said.contains("Read-only file system"), status == 7, "{scheduler}: {said}");
            machine.place.assert_clean();
        }
        assert!(machine.log().contains(&launcher), "{}", machine.log());
    }
}

/// The program hears of the end, and what it wrote last lands.
#[test]
fn scripts_that_are_ended_end_the_program_land_and_leave_nothing() {
    let Some(place) = Place::with_views() else { return };
    let machine = Machine::of(place);
    let [backing, dir, disk] = ["backing", "ckpt", "disk"].map(|name| machine.place.path(name));
    for directory in [&backing, &dir, &disk] {
        fs::create_dir(directory).unwrap();
    }
    let burst = format!("{}={}", dir.display(), backing.display());
    let program = "trap 'echo heard >\"$0/last\"; exit 3' TERM; echo begun; while :; do sleep 0.05; done";
    for (scheduler, launcher, sent) in [
        ("pbs", "mpiexec", Signal::TERM),
        ("lsf", "mpiexec", Signal::USR2),
        ("pals", "mpiexec", Signal::TERM),
        ("flux", "flux", Signal::HUP),
    ] {
        machine.stand_in(launcher);
        let words = [scheduler, "--export", &machine.place.source(), "--burst", &burst, "--", "bash", "-c", program];
        let script = machine.script(&[&words[..], &[dir.to_str().unwrap()]].concat());
        let mut command = machine.run(&script);
        // By it goes `--burst-store auto`.
        command.env("TMPDIR", &disk).env("FOREBAY_BURST_CAPACITY", "256MiB");
        if scheduler == "lsf" {
            machine.stand_in("bjobs");
            command.env("LSB_JOBID", "17").env("LSB_JOBINDEX", "0");
        }
        let out = machine.place.path("out");
        let file = fs::File::create(&out).unwrap();
        let mut child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        let said = || {
            let mut text = String::new();
            fs::File::open(&out).unwrap().read_to_string(&mut text).unwrap();
            text
        };
        wait_until("the program runs", || said().contains("begun\n") || child.try_wait().unwrap().is_some());
        assert!(said().contains("begun\n"), "{scheduler}: {}", said());
        signal(child.id().into(), sent);
        assert_eq!(child.wait().unwrap().code(), Some(143), "{scheduler}: {}", said());
        assert!(said().contains("is down"), "{scheduler}: {}", said());
        assert_eq!(fs::read_to_string(backing.join("last")).unwrap(), "heard\n", "{scheduler}: {}", said());
        fs::remove_file(backing.join("last")).unwrap();
        assert_eq!(fs::read_dir(&disk).unwrap().count(), 0, "{scheduler}: the stores");
        machine.place.assert_clean();
    }
}
