//! For fuzzing and for its corpus: the packets of keepers, daemons and programs.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::handed::HandedNames;
use crate::messages::{ToDaemon, ToKeeper};
use crate::own_paths::{AnswerText, QuestionText};
use crate::packets;

/// Reads bytes as each packet that there is, and checks what must hold then; how many they are.
///
/// # Panics
/// When something does not hold.
#[must_use]
pub fn read_packet(bytes: &[u8]) -> usize {
    let kinds = [
        comes_back::<ToDaemon>,
        is_read_again,
        comes_back::<QuestionText>,
        comes_back::<AnswerText>,
        comes_back::<HandedNames>,
    ];
    kinds.iter().filter(|is_one| is_one(bytes)).count()
}

/// Reports that a daemon has gathered are not compared: a number may have another last digit when it is read again.
fn is_read_again(bytes: &[u8]) -> bool {
    let Ok(message) = packets::read::<ToKeeper>(bytes) else { return false };
    assert!(packets::read::<ToKeeper>(&serde_json::to_vec(&message).unwrap_or_default()).is_ok());
    true
}

fn comes_back<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> bool {
    let Ok(message) = packets::read::<T>(bytes) else { return false };
    let value = |message: &T| serde_json::to_value(message).unwrap_or(Value::Null);
    let text = serde_json::to_vec(&message).unwrap_or_default();
    assert_eq!(packets::read::<T>(&text).map(|again| value(&again)).ok(), Some(value(&message)));
    true
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn packets_of_the_corpus_are_what_their_names_say() {
        let mut found = 0;
        for file in fs::read_dir("../../fuzz/corpus/local_messages").unwrap() {
            let path = file.unwrap().path();
            let (name, bytes) = (path.file_name().unwrap().to_str().unwrap(), fs::read(&path).unwrap());
            let count = read_packet(&bytes);
            if name.starts_with("packet-") {
                assert_eq!(count > 0, !name.contains("lying"), "{name}");
                found += usize::from(count > 0);
            }
        }
        assert!(found > 10, "{found} packets");
    }
}
