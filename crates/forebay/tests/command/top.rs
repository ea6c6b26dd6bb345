//! `top` in a real terminal: tmux, whose screen is read and whose keys are pressed.

use std::process::Command;

use rustix::process::Signal;

use crate::place::{Place, signal, wait_until};

/// A tmux of its own with one window, a shell. It ends with this.
struct Screen<'a> {
    place: &'a Place,
    socket: String,
}

impl<'a> Screen<'a> {
    /// `None`, said aloud, without tmux.
    fn new(place: &'a Place, (width, height): (u16, u16)) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "must not be skipped in CI: no tmux");
            println!("skipped: no tmux");
            return None;
        }
        // One for each: the server of the screen before may not have ended yet.
        let socket = place.path(&format!("tmux-{width}")).display().to_string();
        let screen = Self { place, socket };
        let (width, height) = (width.to_string(), height.to_string());
        screen.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &width,
            "-y",
            &height,
            "env",
            "PS1=$ ",
            "NO_COLOR=1",
            "sh",
        ]);
        screen.waits_for("$");
        Some(screen)
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = self.place.shell(&self.place.path(""));
        command.args(["-c", "exec tmux -S \"$0\" \"$@\"", &self.socket]).args(arguments).env_remove("TMUX");
        let output = command.env("TERM", "xterm").env("LC_ALL", "C.UTF-8").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn types(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.press("Enter");
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    fn waits_for(&self, text: &str) -> String {
        wait_until(&format!("{text:?} on the screen"), || self.text().contains(text));
        self.text()
    }

    /// Runs `top`; its exit status stands after it.
    fn starts_top(&self) {
        self.types(&format!("clear; {} top; echo \"status:$?\"", env!("CARGO_BIN_EXE_forebay")));
    }

    /// The shell has the terminal as it was: its own screen, echo, lines, and a cursor.
    fn ended_with(&self, status: u8) -> String {
        let text = self.waits_for(&format!("status:{status}"));
        assert!(!text.contains("q quit"), "the screen of before is back: {text}");
        assert_eq!(self.tmux(&["display-message", "-p", "#{cursor_flag} #{alternate_on}"]).trim(), "1 0");
        self.types("stty -a | tr ' ' '\\n' | grep -xE -- '-?(echo|icanon|isig)' | xargs");
        self.waits_for("isig icanon echo")
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        Command::new("tmux").args(["-S", &self.socket, "kill-server"]).output().ok();
    }
}

#[test]
fn top_shows_the_job_at_three_sizes_and_restores_the_terminal() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--local", "2", "--export", &place.source()]);
    for size in [(80, 24), (120, 40), (200, 50)] {
        let Some(screen) = Screen::new(&place, size) else { break };
        screen.starts_top();
        screen.waits_for("healthy");
        let text = screen.waits_for("req/s");
        assert!(text.starts_with("forebay default  2/2 nodes  up "), "{text}");
        let row = |rank: &str| {
            text.lines().any(|line| line.split_whitespace().next() == Some(rank) && line.contains(" ready "))
        };
        assert!(row("0") && row("1") && text.contains("NODE HOST"), "{text}");
        assert_eq!(text.contains(" UP "), size.0 > 80, "{text}");
        assert_eq!(text.lines().nth(usize::from(size.1) - 1).unwrap_or_default().split("  ").next(), Some("q quit"));
        screen.press("f");
        screen.waits_for("the job has no burst tier");
        screen.press("l");
        screen.waits_for("node-1: ");
        screen.press("?");
        screen.waits_for("The exit status is 0");
        screen.press("Escape");
        screen.waits_for("healthy");
        screen.press("q");
        screen.ended_with(0);
    }
    place.succeeds(&["down"]);
    place.assert_clean();
}

#[test]
fn top_answers_keys_beside_a_stopped_daemon_and_ends_by_ctrl_c_and_sigterm() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--export", &place.source()]);
    if let Some(screen) = Screen::new(&place, (80, 24)) {
        screen.starts_top();
        screen.waits_for("healthy");
        // The keeper would end a silent daemon.
        let pids = ["process", "daemon"].map(|of| place.daemon("default", 0)[of]["pid"].as_u64().unwrap());
        pids.iter().for_each(|pid| signal(*pid, Signal::STOP));
        screen.waits_for("no answer for ");
        screen.press("?");
        screen.waits_for("The exit status is 0");
        screen.press("C-c");
        screen.ended_with(0);
        pids.iter().rev().for_each(|pid| signal(*pid, Signal::CONT));
        screen.starts_top();
        screen.waits_for("healthy");
        let shell: u64 = screen.tmux(&["display-message", "-p", "#{pane_pid}"]).trim().parse().unwrap();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        signal(children.split_whitespace().next().unwrap().parse().unwrap(), Signal::TERM);
        screen.ended_with(143);
        screen.starts_top();
        screen.waits_for("healthy");
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        signal(children.split_whitespace().next().unwrap().parse().unwrap(), Signal::HUP);
        screen.ended_with(129);
    }
    place.succeeds(&["down"]);
    place.assert_clean();
}

/// A thread whose stack is larger than the address space cannot be started, which is a panic.
#[test]
fn a_panic_of_top_is_told_on_the_terminal_as_it_was() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--export", &place.source()]);
    if let Some(screen) = Screen::new(&place, (80, 24)) {
        screen.types(&format!(
            "clear; ulimit -c 0; RUST_MIN_STACK=1152921504606846976 {} top; echo \"status:$?\"",
            env!("CARGO_BIN_EXE_forebay")
        ));
        screen.waits_for("panicked at");
        screen.ended_with(134);
    }
    place.succeeds(&["down"]);
    place.assert_clean();
}

#[test]
fn top_names_the_files_to_land() {
    let Some(place) = Place::with_views() else { return };
    let backing = place.path("backing");
    std::fs::create_dir(&backing).unwrap();
    let tier = format!("{}={}", place.path("tier").display(), backing.display());
    let store = place.path("store").display().to_string();
    let burst = ["--burst", &tier, "--burst-store", &store, "--burst-capacity", "256MiB", "--drain", "manual"];
    place.succeeds(&[&["up", "--export", &place.source()], &burst[..]].concat());
    let mount = place.burst_mount(0);
    std::fs::create_dir(mount.join("run")).unwrap();
    std::fs::write(mount.join("run/large"), vec![1; 3 << 20]).unwrap();
    std::fs::write(mount.join("small"), "few").unwrap();
    if let Some(screen) = Screen::new(&place, (120, 40)) {
        screen.starts_top();
        screen.waits_for("NODE");
        screen.press("f");
        let text = screen.waits_for("tier/small");
        let of =
            |size: &str, name: &str| text.lines().position(|line| line.contains(size) && line.contains(name)).unwrap();
        assert!(of("3.0 MiB", "tier/run/large") < of("3 B", "tier/small"), "{text}");
        screen.press("q");
        screen.ended_with(0);
    }
    place.succeeds(&["drain", "--wait"]);
    place.succeeds(&["down"]);
    place.assert_clean();
}

#[test]
fn top_ends_with_its_job() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--export", &place.source()]);
    let screen = Screen::new(&place, (80, 24));
    if let Some(screen) = &screen {
        screen.starts_top();
        screen.waits_for("healthy");
    }
    place.succeeds(&["down"]);
    if let Some(screen) = &screen {
        screen.waits_for("forebay: the job default has ended");
        screen.ended_with(0);
    }
    drop(screen);
    place.assert_clean();
}

#[test]
fn a_terminal_without_a_name_is_not_drawn_on() {
    let place = Place::new();
    let Some(screen) = Screen::new(&place, (100, 24)) else { return };
    for (term, fault) in [("TERM=dumb", "is dumb"), ("TERM=", "is empty"), ("-u TERM", "is not set")] {
        screen.types(&format!("clear; env {term} {} top; echo \"status:$?\"", env!("CARGO_BIN_EXE_forebay")));
        screen.waits_for("status:1");
        screen.waits_for(&format!("top cannot draw: TERM {fault}"));
    }
}

#[test]
fn without_a_terminal_top_names_the_command_that_needs_none() {
    let place = Place::new();
    let message = place.fails(1, &["top"]);
    assert!(message.contains("needs a terminal") && message.contains("forebay status --watch prints lines anywhere"));
}
