//! `tests/setup.sh` provides every program that a test asks the machine for, so that nothing is skipped on a fresh one.

use crate::finding::Finding;
use crate::tree::Tree;

const SETUP: &str = "tests/setup.sh";

/// How tests name a program that they need (`forebay_tests::need`).
const NEED: &str = "Command(\"";

/// Needs of tests that nothing would install.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let provided: Vec<&str> = tree.get(SETUP).map(|file| provided(&file.text)).unwrap_or_default();
    let mut findings = vec![];
    for file in tree.files.iter().filter(|file| file.path.starts_with("tests/") && file.path.ends_with(".rs")) {
        for (index, line) in file.text.lines().enumerate() {
            let needs = line.split(NEED).skip(1).filter_map(|rest| rest.split_once("\")"));
            for (program, _) in needs.filter(|(program, _)| !provided.contains(program)) {
                let message = format!("the tests need {program}, and no package of {SETUP} provides it");
                findings.push(Finding::new(&file.path, index + 1, message));
            }
        }
    }
    findings
}

/// The proofs behind the packages: `package:program,program`.
fn provided(setup: &str) -> Vec<&str> {
    let list = setup.split_once("PACKAGES=(").and_then(|(_, rest)| rest.split_once("\n)")).map_or("", |(list, _)| list);
    let lines = list.lines().filter(|line| !line.trim_start().starts_with('#'));
    let pairs = lines.flat_map(str::split_whitespace).filter_map(|pair| pair.split_once(':'));
    pairs.flat_map(|(_, proofs)| proofs.trim_end_matches('\'').split(',')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::File;

    const SETUP_TEXT: &str =
        "PACKAGES=(\n  # Why: so.\n  mount:mount,losetup 'libc6-dev:/usr/include/stdio.h'\n)\nelse:where";

    #[test]
    fn a_need_without_a_package_is_found() {
        let test = "require!(Root, Command(\"mount\"), Command(\"losetup\"));\nrequire!(Command(\"where\"));";
        let files = vec![File::new(SETUP, SETUP_TEXT), File::new("tests/bad_input/disk.rs", test)];
        let findings = check(&Tree { files, ..Tree::default() });
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!((findings[0].line, findings[0].message.contains("need where")), (2, true));
    }
}
