//! The most frequent texts, and how many different ones there are.
//!
//! Up to `FREQUENT_MAX` different texts are counted one by one. Of more, those that are frequent are kept: whenever there
//! are too many, the count of the first one too many is taken off all, and those without a rest go (J. Misra and D. Gries,
//! "Finding repeated elements", 1982; P. Agarwal and others, "Mergeable summaries", 2012). A count is then too small by
//! what was taken off at most.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use crate::describe::registers::Registers;
use crate::describe::values::Distinct;
use crate::limits::{FREQUENT_MAX, TEXT_SHOWN_BYTES_MAX};

/// Counts of texts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Frequent {
    /// By the hash of the text.
    counts: BTreeMap<u64, Counted>,
    /// Counts may be too small by so much.
    taken_off: u64,
    /// For the number of different texts, where they are not counted one by one.
    registers: Option<Registers>,
}

/// A text, and how often it was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Its beginning.
    pub text: String,
    /// How often.
    pub count: u64,
}

/// A text as it is shown. One that goes on ends in three points, behind a whole letter.
pub fn shown_beginning(text: &[u8]) -> String {
    let shown = |text| String::from_utf8_lossy(text).into_owned();
    let Some((kept, _)) = text.split_at_checked(TEXT_SHOWN_BYTES_MAX).filter(|(_, rest)| !rest.is_empty()) else {
        return shown(text);
    };
    // A letter has four bytes at most.
    let ends = (kept.len() - 3..=kept.len()).rev().map(|len| &kept[..len]);
    let whole = ends.into_iter().find(|kept| std::str::from_utf8(kept).is_ok()).unwrap_or(kept);
    format!("{}...", shown(whole))
}

/// Whether it may be one; what travelled may not.
fn is_beginning(text: &str) -> bool {
    text.len() <= TEXT_SHOWN_BYTES_MAX * char::REPLACEMENT_CHARACTER.len_utf8() + "...".len()
}

impl Frequent {
    /// This and what comes after it.
    pub fn merge(&mut self, after: &Self) {
        if self.registers.is_some() || after.registers.is_some() {
            let mut registers = self.all();
            registers.merge(&after.all());
            self.registers = Some(registers);
        }
        for (hash, counted) in &after.counts {
            match self.counts.get_mut(hash) {
                Some(here) => here.count += counted.count,
                None => drop(self.counts.insert(*hash, counted.clone())),
            }
        }
        self.taken_off += after.taken_off;
        self.fit();
    }

    /// The registers of all texts.
    fn all(&self) -> Registers {
        self.registers.clone().unwrap_or_else(|| registers_of(self.counts.keys().copied()))
    }

    fn fit(&mut self) {
        if self.counts.len() <= FREQUENT_MAX {
            return;
        }
        self.registers.get_or_insert_with(|| registers_of(self.counts.keys().copied()));
        let mut counts: Vec<u64> = self.counts.values().map(|counted| counted.count).collect();
        let (_, off, _) = counts.select_nth_unstable_by_key(FREQUENT_MAX, |count| std::cmp::Reverse(*count));
        let off = *off;
        self.counts.retain(|_, counted| {
            counted.count = counted.count.saturating_sub(off);
            counted.count > 0
        });
        self.taken_off += off;
    }

    /// Whether they can be of so many texts; what travelled may not.
    pub fn are_of(&self, count: u64) -> bool {
        let all = self.counts.values().try_fold(0u64, |sum, counted| sum.checked_add(counted.count));
        let is_sound = |counted: &Counted| counted.count > 0 && is_beginning(&counted.text);
        let rest = all.and_then(|all| count.checked_sub(all));
        // Each time, something was taken off more texts than are kept.
        let off = self.taken_off.checked_mul(FREQUENT_MAX as u64 + 1);
        let is_exact = self.registers.is_none() && self.taken_off == 0;
        self.counts.len() <= FREQUENT_MAX
            && self.counts.values().all(is_sound)
            && rest.zip(off).is_some_and(|(rest, off)| off <= rest && (!is_exact || rest == 0))
            && self.registers.is_some() == (self.taken_off > 0)
            && self.registers.as_ref().is_none_or(Registers::are_sound)
    }

    /// How many different texts there are, of so many.
    pub fn distinct(&self, count: u64) -> Distinct {
        match &self.registers {
            None => Distinct::Exactly(self.counts.len() as u64),
            Some(registers) => {
                let least = FREQUENT_MAX as u64 + 1;
                Distinct::About((registers.estimate() as u64).clamp(least, count.max(least)))
            }
        }
    }

    /// The most frequent, the first in order among equals.
    pub fn most(&self, count: usize) -> Vec<Counted> {
        let mut all: Vec<Counted> = self.counts.values().cloned().collect();
        all.sort_by(|left, right| right.count.cmp(&left.count).then_with(|| left.text.cmp(&right.text)));
        all.truncate(count);
        all
    }

    /// How much too small counts may be.
    pub fn taken_off(&self) -> u64 {
        self.taken_off
    }
}

fn registers_of(hashes: impl Iterator<Item = u64>) -> Registers {
    let mut registers = Registers::new();
    hashes.for_each(|hash| registers.add(hash));
    registers
}

/// Counts the texts of one block.
#[derive(Default)]
pub struct TextCounter {
    counts: BTreeMap<u64, Counted>,
    frequent: Frequent,
}

/// Texts in the table, of those that are kept: joined only then, they are joined seldom.
const SPARE: usize = 4;

impl TextCounter {
    /// Adds a text.
    pub fn add(&mut self, text: &[u8]) {
        let hash = XxHash3_64::oneshot(text);
        if let Some(registers) = &mut self.frequent.registers {
            registers.add(hash);
        }
        let counted = self.counts.entry(hash).or_insert_with(|| Counted { text: shown_beginning(text), count: 0 });
        counted.count += 1;
        if self.counts.len() > SPARE * FREQUENT_MAX {
            self.join();
        }
    }

    fn join(&mut self) {
        self.frequent.counts = std::mem::take(&mut self.counts);
        self.frequent.fit();
        self.counts = std::mem::take(&mut self.frequent.counts);
    }

    /// The texts since this was asked last.
    pub fn take(&mut self) -> Frequent {
        self.frequent.counts = std::mem::take(&mut self.counts);
        self.frequent.fit();
        std::mem::take(&mut self.frequent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[String]) -> Frequent {
        let mut counter = TextCounter::default();
        texts.iter().for_each(|text| counter.add(text.as_bytes()));
        counter.take()
    }

    fn texts(count: usize, often: usize) -> Vec<String> {
        let rare = (0..count).map(|index| format!("text {index}"));
        rare.flat_map(|rare| [rare, "often".to_owned()]).take(count + often).collect()
    }

    #[test]
    fn few_texts_are_exact() {
        let frequent = of(&["b", "a", "b", "a", ""].map(str::to_owned));
        assert_eq!((frequent.distinct(5), frequent.taken_off()), (Distinct::Exactly(3), 0));
        let most: Vec<_> = frequent.most(2).into_iter().map(|counted| (counted.text, counted.count)).collect();
        assert_eq!(most, [("a".to_owned(), 2), ("b".to_owned(), 2)]);
    }

    #[test]
    fn of_many_texts_frequent_ones_stay() {
        let all = texts(20_000, 20_000);
        let (one, mut merged) = (of(&all), Frequent::default());
        all.chunks(1500).for_each(|part| merged.merge(&of(part)));
        for frequent in [one, merged] {
            assert!(frequent.are_of(40_000), "{}", frequent.taken_off());
            let most = &frequent.most(1)[0];
            assert_eq!(most.text, "often");
            assert!(most.count <= 20_000 && most.count + frequent.taken_off() >= 20_000);
            let Distinct::About(about) = frequent.distinct(40_000) else { panic!("not one by one") };
            assert!((about as f64 / 20_001.0 - 1.0).abs() < 0.07, "{about}");
        }
    }

    #[test]
    fn what_travelled_is_checked() {
        let is_sound = |change: fn(&mut Frequent)| {
            let mut frequent = of(&texts(3000, 10));
            change(&mut frequent);
            frequent.are_of(3010)
        };
        assert!(is_sound(|_| {}));
        assert!(!is_sound(|frequent| frequent.registers = None));
        assert!(!is_sound(|frequent| frequent.taken_off = u64::MAX));
        assert!(!is_sound(|frequent| frequent.taken_off = 0));
        assert!(!is_sound(|frequent| frequent.counts.values_mut().for_each(|counted| counted.count = u64::MAX)));
        assert!(!is_sound(|frequent| frequent.counts.values_mut().for_each(|counted| counted.text = "x".repeat(999))));
    }
}
