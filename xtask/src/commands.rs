//! Documents name commands and options that exist.
//!
//! The list of commands is read from the clap definitions in the binary's sources (enums that derive `Subcommand`),
//! the options from the same files: a word `--direct-above` is known when a field `direct_above` or a string
//! `"direct-above"` is. So a renamed option is found in every document, without running anything.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::source::{Source, words};
use crate::tree::{File, Tree};

const BINARY_SOURCES: &str = "crates/forebay/src/";

/// Options that every command has from clap.
const EVERYWHERE: [&str; 2] = ["help", "version"];

/// Commands and options in documents that the binary does not have.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let (commands, options) = known(tree);
    let mut findings = vec![];
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (line, text) in code_lines(&file.text) {
            let mut say = |message| findings.push(Finding::new(&file.path, line, message));
            for call in calls(&text) {
                check_call(&call, &commands, &options, &mut say);
            }
        }
    }
    findings
}

fn check_call(call: &str, commands: &BTreeSet<String>, options: &BTreeSet<String>, say: &mut impl FnMut(String)) {
    let own = call.split(" -- ").next().unwrap_or(call);
    let mut words = own.split_whitespace().skip(1);
    let command = words.clone().find(|word| !word.starts_with('-'));
    if let Some(command) = command.filter(|word| is_command(word)).filter(|word| !commands.contains(*word)) {
        say(format!("there is no command `forebay {command}`"));
    }
    let known = |name: &str| EVERYWHERE.contains(&name) || options.contains(name);
    let named = words.by_ref().filter_map(|word| word.strip_prefix("--"));
    let names = named.map(|word| word.split(|c: char| !(c.is_alphanumeric() || c == '-')).next().unwrap_or_default());
    for name in names.filter(|name| !name.is_empty() && !known(name)) {
        say(format!("there is no option `--{name}`"));
    }
}

/// A placeholder such as `COMMAND`, a path or punctuation names no command.
fn is_command(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
}

/// Inline code and the lines of code blocks, numbered; a line that ends in a backslash goes on in the next.
fn code_lines(text: &str) -> Vec<(usize, String)> {
    let (mut lines, mut fenced, mut going_on) = (vec![], false, false);
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            let more = line.trim_end().strip_suffix('\\');
            let part = more.unwrap_or(line);
            match lines.last_mut() {
                Some((_, last)) if going_on => *last = format!("{last}{part}"),
                _ => lines.push((index + 1, part.to_owned())),
            }
            going_on = more.is_some();
        } else {
            lines.extend(line.split('`').skip(1).step_by(2).map(|code| (index + 1, code.to_owned())));
        }
    }
    lines
}

/// The parts of a line of code that call the binary, up to the end of that command.
fn calls(line: &str) -> Vec<String> {
    let line = line.trim_start().trim_start_matches("$ ");
    let ends = [" | ", " && ", " || ", "; ", " > ", " #", " & "];
    let mut parts = vec![line.to_owned()];
    for end in ends {
        parts = parts.iter().flat_map(|part| part.split(end).map(str::to_owned).collect::<Vec<_>>()).collect();
    }
    let is_call = |part: &String| {
        let program = part.split_whitespace().find(|word| !word.contains('=')).unwrap_or_default();
        program == "forebay" || program.ends_with("/forebay")
    };
    let from_program = |part: String| part[part.find("forebay").unwrap_or(0)..].to_owned();
    parts.into_iter().filter(is_call).map(from_program).collect()
}

/// Commands and options of the binary.
fn known(tree: &Tree) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut commands, mut options) = (BTreeSet::from(["help".to_owned()]), BTreeSet::new());
    for (File { text, .. }, source) in tree.rust().filter(|(file, _)| file.path.starts_with(BINARY_SOURCES)) {
        commands.extend(subcommands(text, source));
        options.extend(source.words().map(|(_, word)| word.replace('_', "-")));
        let literals = text.split('"').skip(1).step_by(2);
        options.extend(literals.filter(|literal| is_command(literal)).map(str::to_owned));
    }
    (commands, options)
}

/// The variants of the enums that derive `Subcommand`, as clap spells them, or as they are told to be called.
fn subcommands(text: &str, source: &Source) -> Vec<String> {
    let code = &source.code;
    let mut found = vec![];
    for (derive, _) in code.match_indices("Subcommand").filter(|&(at, _)| in_derive(code, at)) {
        let Some(open) = code[derive..].find("enum ").and_then(|at| Some(derive + at + code[derive + at..].find('{')?))
        else {
            continue;
        };
        let (mut depth, mut expects) = (0usize, false);
        for (at, byte) in code.bytes().enumerate().skip(open) {
            match byte {
                b'{' | b'(' | b'[' => depth += 1,
                b'}' | b')' | b']' => depth -= 1,
                b',' if depth == 1 => expects = true,
                byte if depth == 1 && expects && byte.is_ascii_alphabetic() => {
                    found.extend(words(&code[at..]).next().map(|(_, name)| kebab(name)));
                    expects = false;
                }
                _ => {}
            }
            if at == open {
                expects = true;
            } else if depth == 0 {
                found.extend(renamed(&text[open..at]));
                break;
            }
        }
    }
    found
}

fn in_derive(code: &str, at: usize) -> bool {
    code[..at].rfind("#[").is_some_and(|open| {
        let before = &code[open..at];
        before.starts_with("#[derive(") && !before.contains(']')
    })
}

/// Names given by `#[command(name = "...")]`.
fn renamed(text: &str) -> Vec<String> {
    let named = text.split("#[command(").skip(1).filter_map(|rest| rest.split_once("name = \"")?.1.split('"').next());
    named.map(str::to_owned).collect()
}

fn kebab(name: &str) -> String {
    let mut kebab = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.extend(c.to_lowercase());
    }
    kebab
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLI: (&str, &str) = (
        "crates/forebay/src/cli.rs",
        "#[derive(Debug, Subcommand)]\npub enum Command {\n    /// Starts, stops.\n    Up(Up),\n    #[command(hide = true)]\n    \
         Down { job: String },\n    Node,\n    DryRun,\n    #[command(name = \"show-all\")]\n    All,\n}\n\
         #[derive(Args)]\nstruct Up { #[arg(long)]\n local: u32, direct_above: u64, #[arg(long = \"fanout\")]\n k: u8 }\n\
         enum Other { Gone }\n",
    );

    fn messages(text: &str) -> Vec<String> {
        check(&Tree::made_of(&[("README.md", text), CLI])).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn reads_the_commands() {
        let (commands, _) = known(&Tree::made_of(&[CLI]));
        let commands: Vec<_> = commands.iter().map(String::as_str).collect();
        assert_eq!(commands, ["all", "down", "dry-run", "help", "node", "show-all", "up"]);
    }

    #[test]
    fn checks_inline_code_and_blocks() {
        let good = "`forebay up --local 4`, `forebay`, `forebay COMMAND`, `forebay --version`, forebay gone\n\
                    ```sh\n$ forebay up --fanout=2 \\\n    --direct-above 1GB\nX=1 ./target/debug/forebay down # gone\n```\n";
        assert!(messages(good).is_empty(), "{:?}", messages(good));
        assert_eq!(messages("`forebay gone`\n"), ["there is no command `forebay gone`"]);
        assert_eq!(messages("```\nforebay up && forebay gone\n```\n").len(), 1);
        assert_eq!(messages("```\nforebay up \\\n  --gone\n```\n"), ["there is no option `--gone`"]);
    }

    #[test]
    fn options_of_the_command_that_is_run_are_its_own() {
        assert!(messages("`forebay up -- python3 --gone`\n").is_empty());
    }
}
