//! Ctrl-C and its kin: a flag that every wait looks at, never a handler that acts.
//!
//! A measurement holds mounts, namespaces and daemons. They are given back by the destructors of their guards, so a
//! signal must travel as an ordinary error up the stack. Programs that are started run in process groups of their
//! own: the terminal's Ctrl-C reaches this process alone, and the commands that clean up are never hit by it.

use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// How often a wait looks at the flag.
pub const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The exit status of a program that ended on Ctrl-C (128 + SIGINT).
const EXIT_STOPPED: u8 = 130;

/// The user asked for an end: not a failure, but everything in progress must unwind.
#[derive(Debug, thiserror::Error)]
#[error("stopped on request")]
pub struct Stopped;

fn flag() -> &'static Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(Arc::default)
}

/// From now on SIGINT, SIGTERM and SIGHUP raise the flag.
///
/// # Errors
/// When a handler cannot be installed.
pub fn on_signals() -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(flag()))?;
    }
    Ok(())
}

/// Fails once the flag is up.
///
/// # Errors
/// [`Stopped`].
pub fn check() -> Result<(), Stopped> {
    if flag().load(Ordering::Relaxed) { Err(Stopped) } else { Ok(()) }
}

/// The exit status for a finished `main`, whose guards are all dropped by then; prints what failed.
pub fn exit_code(name: &str, outcome: anyhow::Result<ExitCode>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(error) if error.is::<Stopped>() => {
            eprintln!("{name}: stopped; everything it had started is gone");
            ExitCode::from(EXIT_STOPPED)
        }
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
