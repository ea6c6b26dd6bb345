//! The text of a script.

use std::time::Duration;

use crate::cli::{InitArguments, SchedulerName};
use crate::commands::init::found::Found;
use crate::commands::init::scheduler::{self, Scheduler};
use crate::output::quoted_path;
use crate::search_path::find_program;

/// The longest time before the end of a job at which it is told of the end, and the shortest.
const NOTICE_MAX: Duration = Duration::from_secs(120);
const NOTICE_MIN: Duration = Duration::from_secs(10);

/// The part that all scripts share, with the names of the other parts between `%`.
const FRAME: &str = include_str!("frame.sh");

/// The parts of a script that differ.
struct Parts {
    /// Lines that the scheduler reads.
    directives: Vec<String>,
    /// Lines that find the nodes, and set `launch`.
    surroundings: Vec<String>,
    /// Words that start `forebay up` and `down`.
    by: &'static str,
    /// The last line of the end.
    removes: &'static str,
    /// More options of `up`.
    up: Vec<String>,
    /// The burst store, as a shell writes it.
    store: String,
}

/// The script of a scheduler.
pub fn of(name: SchedulerName, arguments: &InitArguments, found: &Found) -> String {
    let scheduler = scheduler::of(name);
    let parts = match name {
        SchedulerName::Slurm => slurm(arguments, found),
        SchedulerName::Pbs => pbs(arguments, found),
        SchedulerName::Pals => pals(arguments, found),
        SchedulerName::Flux => flux(arguments, found),
        SchedulerName::Lsf if find_program("jsrun".as_ref(), std::env::var_os("PATH")).is_some() => csm(arguments),
        SchedulerName::Lsf => lsf(arguments, found),
    };
    framed(&scheduler, arguments, found, parts)
}

fn framed(scheduler: &Scheduler, arguments: &InitArguments, found: &Found, parts: Parts) -> String {
    let words: Vec<String> = arguments.command.iter().map(|word| quoted_path(word.as_ref())).collect();
    let program = if words.is_empty() { "./program".to_owned() } else { words.join(" ") };
    let has_burst = !arguments.burst.is_empty();
    let (options, run) = if has_burst { ("", "run") } else { (" --on-failure direct", "run --or-direct") };
    let mut up = parts.up.clone();
    up.extend(burst(scheduler, arguments, &parts.store));
    let up = up.iter().map(|option| format!(" {option}")).collect::<String>();
    let replaced = [
        ("DIRECTIVES", parts.directives.join("\n")),
        ("TITLE", scheduler.title.to_owned()),
        ("SUBMIT", scheduler.submit.to_owned()),
        ("FOREBAY", quoted_path(&found.forebay)),
        ("PROGRAM", program),
        ("EXPORTS", found.exports_quoted()),
        ("BURST", burst_lines(scheduler, arguments, found)),
        ("PATIENCE", scheduler.patience.to_string()),
        ("SIGNALS", scheduler.signals.to_owned()),
        ("SURROUNDINGS", parts.surroundings.join("\n")),
        ("BY", parts.by.to_owned()),
        ("REMOVES", parts.removes.to_owned()),
        ("UP", format!("{options}{up}")),
        ("RUN", run.to_owned()),
    ];
    // Each once and from the frame alone: a program's arguments may have such a name.
    let mut script = String::new();
    for (index, part) in FRAME.split('%').enumerate() {
        match replaced.iter().find(|(known, _)| index % 2 == 1 && *known == part) {
            Some((_, text)) => script += text,
            None => script += part,
        }
    }
    script
}

/// Options of the burst tier.
fn burst(scheduler: &Scheduler, arguments: &InitArguments, store: &str) -> Vec<String> {
    if arguments.burst.is_empty() {
        return Vec::new();
    }
    let limit = if scheduler.tells_time { "auto" } else { "\"$limit\"" };
    vec![
        "\"${bursts[@]/#/--burst=}\"".to_owned(),
        format!("--burst-store \"{store}\""),
        format!("--time-limit {limit}"),
    ]
}

fn burst_lines(scheduler: &Scheduler, arguments: &InitArguments, found: &Found) -> String {
    if arguments.burst.is_empty() {
        let backing = found.backing.as_deref().unwrap_or("/scratch");
        return format!(
            "# For checkpoints: forebay init with --burst {backing}/ckpt, a directory that programs write to."
        );
    }
    let pairs = arguments.burst.iter().map(|pair| format!("{}={}", pair.dir.display(), pair.backing.display()));
    let pairs: Vec<String> = pairs.map(|pair| quoted_path(pair.as_ref())).collect();
    let mut lines = vec![
        "# CHANGE: where the program writes checkpoints, and the directory that they land in".to_owned(),
        format!("bursts=({})", pairs.join(" ")),
    ];
    if !scheduler.tells_time {
        let seconds = (arguments.time - notice(arguments.time)).as_secs();
        lines.push("# CHANGE with the time above: everything lands within this time".to_owned());
        lines.push(format!("limit={seconds}s"));
    }
    lines.join("\n")
}

fn notice(time: Duration) -> Duration {
    (time / 10).clamp(NOTICE_MIN, NOTICE_MAX).min(time / 2)
}

/// Whole minutes, as few as hold it.
fn minutes(time: Duration) -> u64 {
    time.as_secs().div_ceil(60).max(1)
}

/// `HH:MM:SS`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs().max(1);
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn slurm(arguments: &InitArguments, found: &Found) -> Parts {
    let notice = notice(arguments.time).as_secs();
    Parts {
        directives: vec![
            "# CHANGE: nodes, programs per node, time".to_owned(),
            format!("#SBATCH --nodes={}", arguments.nodes),
            "#SBATCH --ntasks-per-node=1".to_owned(),
            format!("#SBATCH --time={}", clock(arguments.time)),
            format!("# This script hears of its time limit {notice} s before it."),
            format!("#SBATCH --signal=B:TERM@{notice}"),
        ],
        surroundings: vec!["launch=(srun)".to_owned()],
        by: "",
        removes: "",
        up: Vec::new(),
        store: found.store.clone(),
    }
}

fn pbs(arguments: &InitArguments, found: &Found) -> Parts {
    Parts {
        directives: vec![
            "# CHANGE: nodes, programs per node (mpiprocs), time".to_owned(),
            format!("#PBS -l select={}:ncpus=1:mpiprocs=1", arguments.nodes),
            "#PBS -l place=scatter".to_owned(),
            format!("#PBS -l walltime={}", clock(arguments.time)),
        ],
        surroundings: vec![
            "cd \"${PBS_O_WORKDIR:-.}\" || exit".to_owned(),
            "# The file has a line for each program.".to_owned(),
            "launch=(mpiexec --hostfile \"$PBS_NODEFILE\" -n \"$(wc -l <\"$PBS_NODEFILE\")\")".to_owned(),
        ],
        by: "",
        removes: "",
        up: Vec::new(),
        store: found.store.clone(),
    }
}

fn pals(arguments: &InitArguments, found: &Found) -> Parts {
    Parts {
        directives: vec![
            "# CHANGE: nodes, time, and what your site requires (-A PROJECT, -q QUEUE, -l filesystems=home)".to_owned(),
            format!("#PBS -l select={}", arguments.nodes),
            "#PBS -l place=scatter".to_owned(),
            format!("#PBS -l walltime={}", clock(arguments.time)),
        ],
        surroundings: vec![
            "cd \"${PBS_O_WORKDIR:-.}\" || exit".to_owned(),
            "per_node=1   # CHANGE: programs per node".to_owned(),
            "nodes=$(sort -u \"$PBS_NODEFILE\" | wc -l)".to_owned(),
            "launch=(mpiexec -n \"$((nodes * per_node))\" --ppn \"$per_node\")".to_owned(),
        ],
        by: "",
        removes: "",
        up: Vec::new(),
        store: found.store.clone(),
    }
}

fn flux(arguments: &InitArguments, found: &Found) -> Parts {
    let mut directives = vec![
        "# CHANGE: nodes, time".to_owned(),
        format!("#flux: --nodes={}", arguments.nodes),
        "#flux: --exclusive".to_owned(),
        format!("#flux: --time-limit={}m", minutes(arguments.time)),
    ];
    if !arguments.burst.is_empty() && found.store.contains("DW_JOB_") {
        directives.push("# CHANGE: the storage of the job's Rabbits".to_owned());
        let name = found.store.trim_start_matches("${DW_JOB_").split(':').next().unwrap_or("store");
        directives.push(format!("#DW jobdw type=xfs capacity=1TiB name={name}"));
    }
    Parts {
        directives,
        surroundings: vec![
            "per_node=1   # CHANGE: programs per node".to_owned(),
            "nodes=$(flux resource list -s up -n -o '{nnodes}')".to_owned(),
            "launch=(flux run -N \"$nodes\" -n \"$((nodes * per_node))\")".to_owned(),
        ],
        by: "",
        removes: "",
        up: Vec::new(),
        store: found.store.clone(),
    }
}

/// LSF tells the job of its end by a signal, too, which the notice puts some time before it.
fn lsf_times(arguments: &InitArguments) -> [String; 4] {
    let (all, notice) = (minutes(arguments.time), minutes(notice(arguments.time)));
    [
        format!("#BSUB -W {}:{:02}", all / 60, all % 60),
        format!("# This script hears of its time limit {notice} min before it."),
        "#BSUB -wa TERM".to_owned(),
        format!("#BSUB -wt {notice}"),
    ]
}

fn lsf(arguments: &InitArguments, found: &Found) -> Parts {
    let mut directives = vec![
        "# CHANGE: programs, programs per node (ptile), time".to_owned(),
        format!("#BSUB -n {}", arguments.nodes),
        "#BSUB -R \"span[ptile=1]\"".to_owned(),
    ];
    directives.extend(lsf_times(arguments));
    Parts {
        directives,
        surroundings: vec![
            "# The file has a line for each program.".to_owned(),
            "launch=(mpiexec --hostfile \"$LSB_DJOB_HOSTFILE\" -n \"$(wc -l <\"$LSB_DJOB_HOSTFILE\")\")".to_owned(),
        ],
        by: "",
        removes: "",
        up: Vec::new(),
        store: found.store.clone(),
    }
}

/// With CSM, the script runs on a launch node, which has no NVMe and is the first line of the host file.
fn csm(arguments: &InitArguments) -> Parts {
    let mut directives = vec!["# CHANGE: nodes, time".to_owned(), format!("#BSUB -nnodes {}", arguments.nodes)];
    directives.extend(lsf_times(arguments));
    if !arguments.burst.is_empty() {
        directives.push("#BSUB -alloc_flags nvme".to_owned());
    }
    Parts {
        directives,
        surroundings: vec![
            "# This script runs on a launch node, the first line of the file; a compute node has a line for each slot."
                .to_owned(),
            "hosts=$(mktemp \"$HOME/.forebay-hosts-XXXXXX\") || exit".to_owned(),
            "tail -n +2 \"$LSB_DJOB_HOSTFILE\" | uniq >\"$hosts\"".to_owned(),
            "first=(jsrun --nrs 1 --rs_per_host 1)".to_owned(),
            "launch=(jsrun --nrs \"$(wc -l <\"$hosts\")\" --rs_per_host 1 --cpu_per_rs ALL_CPUS)".to_owned(),
        ],
        by: "\"${first[@]}\" ",
        removes: "\n  rm -f \"$hosts\"",
        up: vec!["--hostfile \"$hosts\"".to_owned()],
        // `/mnt/bb/$USER` of the compute nodes.
        store: "auto".to_owned(),
    }
}
