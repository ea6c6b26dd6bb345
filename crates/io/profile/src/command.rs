//! The command of a job, by which its next start finds the profile of this one.
//!
//! Under Slurm it is the job's name and the arguments of its script; elsewhere the command line of the process that calls
//! `forebay up`, which is the script. Text that changes from job to job (Slurm's copy of the script below its spool
//! directory) is left out, for it would make every start the first one.

use crate::limits;

/// Slurm's name for its copy of a batch script (`slurmd`'s spool directory holds `jobN/slurm_script`).
const SLURM_SCRIPT: &str = "slurm_script";

/// The command of a job in this environment, when `forebay up` is called by a process with this command line, as
/// `/proc/PID/cmdline` has it: printable text of at most `limits::PROFILE_COMMAND_BYTES_MAX`.
#[must_use]
pub fn command_of(variable: &dyn Fn(&str) -> Option<String>, caller_command_line: &[u8]) -> String {
    let words: Vec<String> = caller_command_line
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| printable(&String::from_utf8_lossy(word)))
        .collect();
    let script = words.iter().position(|word| word.rsplit('/').next() == Some(SLURM_SCRIPT));
    let is_in_slurm = variable("SLURM_JOB_ID").is_some_and(|id| !id.is_empty());
    let name = variable("SLURM_JOB_NAME").filter(|name| is_in_slurm && !name.is_empty()).map(|name| printable(&name));
    let parts: Vec<String> = match (name, script) {
        (Some(name), Some(script)) => std::iter::once(name).chain(words[script + 1..].iter().cloned()).collect(),
        (Some(name), None) => std::iter::once(format!("{name}:")).chain(words).collect(),
        (None, _) => words,
    };
    let mut command = parts.join(" ");
    command.truncate(command.floor_char_boundary(limits::PROFILE_COMMAND_BYTES_MAX));
    command
}

/// The text without what would do something to a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(environment: &[(&str, &str)], words: &[&str]) -> String {
        let variable =
            |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, text)| (*text).to_owned());
        let line: Vec<u8> = words.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect();
        command_of(&variable, &line)
    }

    const SLURM: [(&str, &str); 2] = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NAME", "train")];

    #[test]
    fn outside_slurm_it_is_the_script() {
        assert_eq!(command(&[], &["bash", "./train.sh", "--size", "7"]), "bash ./train.sh --size 7");
        assert_eq!(command(&[("SLURM_JOB_NAME", "left over")], &["bash"]), "bash");
        assert_eq!(command(&[], &[]), "");
    }

    #[test]
    fn a_batch_script_is_the_same_in_every_job() {
        let script = |job: &str| format!("/var/spool/slurmd/job{job}/slurm_script");
        for job in ["00007", "12345"] {
            assert_eq!(command(&SLURM, &["/bin/bash", &script(job), "gpt"]), "train gpt");
        }
        assert_eq!(command(&SLURM, &["bash", "train.sh"]), "train: bash train.sh");
    }

    #[test]
    fn it_is_printable_and_bounded() {
        assert_eq!(command(&[], &["a\x1b[2J\nb", "\u{9b}c"]), "a?[2J?b ?c");
        let long = "ä".repeat(2000);
        let command = command(&[], &["x", &long]);
        assert!(command.len() <= limits::PROFILE_COMMAND_BYTES_MAX && command.len() > 1000);
        let profile = crate::Profile::new(command, vec![], 0);
        assert!(profile.encode().is_ok());
        assert!(!command_of(&|_| None, b"\xff\xfe\0").is_empty());
    }
}
