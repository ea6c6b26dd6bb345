//! For fuzzing and for its corpus: what a daemon makes of bytes from outside, without a node around it.

pub use crate::job::control::is_command;
pub use crate::write::exercise::{read_checkpoint, read_note, recover};

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The corpus of the fuzz target `local_messages`, as far as it is of daemons.
    #[test]
    fn commands_of_the_corpus_are_what_their_names_say() {
        let mut found = 0;
        for file in fs::read_dir("../../fuzz/corpus/local_messages").unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_one = fs::read_to_string(&path).is_ok_and(|line| is_command(&line));
            assert_eq!(is_one, name.starts_with("command-") && !name.contains("lying"), "{name}");
            found += usize::from(is_one);
        }
        assert!(found > 10, "{found} commands");
    }
}
