//! Against a real `munged` of the test's own, with its own key and socket.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use rustix::process::{Pid, Signal, kill_process};

use super::*;

use crate::limits;

const KEY: [u8; 32] = [0xab; 32];

/// A `munged` that ends with the test.
struct Munged {
    directory: tempfile::TempDir,
    child: Child,
}

impl Munged {
    /// `None`, with a word, where the machine has none.
    fn start(key: u8) -> Option<Self> {
        let directory = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("key"), [key; 1024]).unwrap();
        fs::set_permissions(path("key"), Permissions::from_mode(0o400)).unwrap();
        let program = ["/usr/sbin/munged", "/sbin/munged"].into_iter().find(|path| Path::new(path).exists());
        let Some(program) = program else {
            assert!(std::env::var_os("CI").is_none(), "needs munged");
            println!("skipped: needs the command munged");
            return None;
        };
        let mut command = Command::new(program);
        // --force: /tmp is everybody's, and the tests may run as root.
        command.args(["--foreground", "--force"]);
        for (option, name) in [("key", "key"), ("pid", "pid"), ("log", "log"), ("seed", "seed")] {
            command.arg(format!("--{option}-file={}", path(name).display()));
        }
        command.arg(format!("--socket={}", path("socket").display()));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let munged = Self { directory, child };
        let deadline = Instant::now() + Duration::from_secs(20);
        while UnixStream::connect(munged.socket()).is_err() {
            assert!(Instant::now() < deadline, "munged does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(munged)
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn munge(&self) -> Munge {
        Munge::at(Some(&self.socket()))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Munged {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn causes(error: LaunchError) -> String {
    let mut text = error.to_string();
    let mut error: &dyn std::error::Error = &error;
    while let Some(source) = error.source() {
        text = format!("{text}: {source}");
        error = source;
    }
    text
}

#[test]
fn a_sealed_key_is_opened_as_often_as_there_are_nodes() {
    let Some(munged) = Munged::start(1) else { return };
    let key = JobKey::from_bytes(KEY);
    let sealed = munged.munge().seal(&key).unwrap();
    assert!(!sealed.contains("abab") && sealed.starts_with("MUNGE:"), "{sealed}");
    for _ in 0..3 {
        assert_eq!(munged.munge().open(&sealed).unwrap(), key);
    }
}

#[test]
fn descriptors_other_than_sealed_keys_are_refused() {
    let Some(munged) = Munged::start(1) else { return };
    let refused = |text: &str| causes(munged.munge().open(text).unwrap_err());
    assert!(refused("garbage").contains("armor"), "{}", refused("garbage"));
    assert!(refused(&"x".repeat(1 << 20)).contains("too long"));
    let sealed = munged.munge().seal(&JobKey::from_bytes(KEY)).unwrap();
    let altered = sealed.replacen(&sealed[40..44], "AAAA", 1);
    assert!(refused(&altered).starts_with("cannot open the job's key by MUNGE"), "{}", refused(&altered));
    let other = munged.munge().run("munge", &[], b"no key").unwrap();
    assert!(refused(&String::from_utf8_lossy(&other.stdout)).contains("is not a key"));
    let flood = munged.munge().run("munge", &[], &[b'a'; 60_000]).unwrap();
    assert_eq!(flood.stdout.len(), limits::MUNGE_BYTES_MAX, "more is not read");
}

#[test]
fn a_host_with_another_key_of_munge_cannot_open_it() {
    let (Some(here), Some(there)) = (Munged::start(1), Munged::start(2)) else { return };
    let sealed = here.munge().seal(&JobKey::from_bytes(KEY)).unwrap();
    let refused = causes(there.munge().open(&sealed).unwrap_err());
    assert!(refused.contains("unmunge: ") && refused.contains("nvalid credential"), "{refused}");
}

#[test]
fn a_key_that_another_user_sealed_is_refused() {
    if !geteuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "needs root");
        return println!("skipped: only root can act as another user");
    }
    let Some(munged) = Munged::start(1) else { return };
    let socket = munged.socket();
    let script = format!("printf %064d 0 | munge --socket={}", socket.display());
    use std::os::unix::process::CommandExt;
    let sealed = Command::new("sh").args(["-c", &script]).uid(65_534).gid(65_534).output().unwrap();
    assert!(sealed.status.success(), "{}", String::from_utf8_lossy(&sealed.stderr));
    let refused = causes(munged.munge().open(&String::from_utf8_lossy(&sealed.stdout)).unwrap_err());
    assert!(refused.contains("sealed by user 65534, not by you (user 0)"), "{refused}");
}

/// The field of a credential as `munged` itself reports it.
fn about(munged: &Munged, sealed: &str, field: &str) -> String {
    let said = munged.munge().run("unmunge", &["--numeric", &format!("--keys={field}")], sealed.as_bytes()).unwrap();
    let text = String::from_utf8(said.stdout.to_vec()).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {field} in {text}")).trim().to_owned()
}

#[test]
fn a_sealed_key_can_be_opened_for_ten_minutes_and_by_this_user_alone() {
    let Some(munged) = Munged::start(1) else { return };
    let sealed = munged.munge().seal(&JobKey::from_bytes(KEY)).unwrap();
    assert_eq!(about(&munged, &sealed, "TTL"), "600");
    assert_eq!(about(&munged, &sealed, "UID_RESTRICTION"), geteuid().as_raw().to_string());
}

/// The same key, sealed for a second.
#[test]
fn a_key_whose_time_is_over_is_refused() {
    let Some(munged) = Munged::start(1) else { return };
    let sealed = munged.munge().run("munge", &["--ttl=1"], JobKey::from_bytes(KEY).secret_hex().as_bytes()).unwrap();
    let sealed = String::from_utf8(sealed.stdout.to_vec()).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let refused = loop {
        match munged.munge().open(&sealed) {
            Err(error) => break causes(error),
            Ok(_) => assert!(Instant::now() < deadline, "it can still be opened"),
        }
    };
    assert!(refused.contains("has expired") && refused.contains("clocks disagree"), "{refused}");
}

#[test]
fn a_service_that_is_not_there_says_so() {
    if Munged::start(1).is_none() {
        return;
    }
    let nowhere = Munge::at(Some(Path::new("/nonexistent/socket")));
    let refused = causes(nowhere.seal(&JobKey::from_bytes(KEY)).unwrap_err());
    assert!(refused.contains("/nonexistent/socket"), "{refused}");
    let missing = nowhere.run("forebay-no-munge", &[], b"").err();
    assert!(matches!(missing, Some(MungeProblem::NotInstalled("forebay-no-munge"))), "{missing:?}");
}

#[test]
fn a_service_that_hangs_hangs_nobody() {
    let Some(munged) = Munged::start(1) else { return };
    let key = JobKey::from_bytes(KEY);
    let sealed = munged.munge().seal(&key).unwrap();
    let hasty = Munge { timeout: Duration::from_millis(300), ..munged.munge() };
    munged.signal(Signal::STOP);
    let began = Instant::now();
    for refused in [hasty.seal(&key).map(drop).unwrap_err(), hasty.open(&sealed).map(drop).unwrap_err()] {
        assert!(causes(refused).contains("did not end within 300ms"));
    }
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(munged.munge().timeout, Duration::from_secs(10), "what `up` gives it");
    munged.signal(Signal::CONT);
    assert_eq!(munged.munge().open(&sealed).unwrap(), key);
}
