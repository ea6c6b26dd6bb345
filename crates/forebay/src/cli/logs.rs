//! The commands that show what went wrong.

use std::path::PathBuf;

use clap::Args;

use super::OfJob;

/// `logs`.
#[derive(Args, Debug)]
#[command(
    after_help = "Without a job that is up, the logs of the last one are shown, from ~/.local/state/forebay/JOB \
                        (or below $XDG_STATE_HOME). Times are UTC.\n\nExamples:\n  forebay logs\n  forebay logs --level warn\n  \
                        forebay logs --node 3 --follow\n  forebay logs --job 4711"
)]
pub struct LogsArguments {
    /// Show the log of this node alone [default: those of all nodes on this host]
    #[arg(long, value_name = "N")]
    pub node: Option<u32>,
    /// Go on with what is written, until the job ends
    #[arg(long, short)]
    pub follow: bool,
    /// Show what is at least this grave: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", value_parser = crate::log_lines::Level::parse)]
    pub level: Option<crate::log_lines::Level>,
    /// Ask no other host.
    #[arg(long, hide = true)]
    pub local_only: bool,
    /// The job.
    #[command(flatten)]
    pub of_job: OfJob,
}

/// `debug`.
#[derive(Args, Debug)]
#[command(
    after_help = "The archive has the job's logs, records, settings and status, what doctor says, the mounts of the job, and where \
                        the threads of its processes on this host wait. It has no key. It may have paths and names of hosts: look into it \
                        before you send it.\n\nExamples:\n  forebay debug\n  forebay debug --job 4711 --output /tmp/bug.tar.gz"
)]
pub struct DebugArguments {
    /// Write the archive to this file [default: forebay-debug-JOB.tar.gz here]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The job.
    #[command(flatten)]
    pub of_job: OfJob,
}

/// `keep-logs`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  forebay keep-logs 4711")]
pub struct KeepLogsArguments {
    /// The job, for who looks at the processes
    pub job: String,
}
