//! A Rust file taken apart as far as style needs it: code, comments, functions, items, test regions.
//!
//! A scanner and no parser. It knows comments (nested), strings (raw ones too), characters and lifetimes, so that
//! braces are counted right; the rest follows from matching them. It takes what the compiler would refuse without
//! complaint: broken files are the compiler's affair.

use std::ops::Range;

/// A Rust file's parts. `code` and `comments` are as long as the text, with all that is not theirs blanked, so an
/// offset means the same in each of them.
pub struct Source {
    pub code: String,
    pub comments: String,
    /// Where each line begins.
    line_starts: Vec<usize>,
    tests: Vec<Range<usize>>,
    macros: Vec<Range<usize>>,
}

/// A function with a body.
pub struct Function {
    pub name: String,
    /// First line, counted from 1.
    pub line: usize,
    pub lines: usize,
}

/// Something with a name of its own: function, type, constant, module, macro.
pub struct Item<'a> {
    pub name: &'a str,
    pub line: usize,
}

const ITEM_WORDS: [&str; 10] =
    ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod", "macro_rules"];

impl Source {
    /// Takes `text` apart.
    pub fn of(text: &str) -> Self {
        let kinds = kinds(text.as_bytes());
        let blanked = |wanted: Kind| {
            let keep = |(index, byte): (usize, u8)| {
                if kinds[index] == wanted || byte == b'\n' { byte } else { b' ' }
            };
            let bytes: Vec<u8> = text.bytes().enumerate().map(keep).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let newlines = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n').map(|(index, _)| index + 1);
        let line_starts = std::iter::once(0).chain(newlines).collect();
        let mut source = Self {
            code: blanked(Kind::Code),
            comments: blanked(Kind::Comment),
            line_starts,
            tests: vec![],
            macros: vec![],
        };
        source.tests = source.test_regions();
        source.macros = source.macro_regions();
        source
    }

    /// The line of an offset, counted from 1.
    pub fn line_of(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|&start| start <= offset)
    }

    /// Whether the offset lies in an item under `#[cfg(test)]`.
    pub fn in_test(&self, offset: usize) -> bool {
        self.tests.iter().any(|region| region.contains(&offset))
    }

    /// Whether the offset lies in the definition of a macro: names there mean what they mean where it is used.
    pub fn in_macro(&self, offset: usize) -> bool {
        self.macros.iter().any(|region| region.contains(&offset))
    }

    /// Lines outside items under `#[cfg(test)]`.
    pub fn product_lines(&self) -> usize {
        let in_tests =
            self.tests.iter().map(|region| self.line_of(region.end.saturating_sub(1)) + 1 - self.line_of(region.start));
        let total = self.line_starts.len() - 1;
        total.saturating_sub(in_tests.sum())
    }

    /// Identifiers and keywords of the code with their offsets. Raw identifiers lose their prefix.
    pub fn words(&self) -> impl Iterator<Item = (usize, &str)> {
        words(&self.code)
    }

    /// Every function with a body.
    pub fn functions(&self) -> Vec<Function> {
        let mut functions = vec![];
        let mut words = self.words().peekable();
        while let Some((start, word)) = words.next() {
            let Some(&(at, name)) = words.peek().filter(|_| word == "fn") else {
                continue;
            };
            if !self.code[start + word.len()..at].trim().is_empty() {
                continue;
            }
            let Some(end) = self.body_end(at) else { continue };
            let line = self.line_of(start);
            functions.push(Function { name: name.to_owned(), line, lines: self.line_of(end) + 1 - line });
        }
        functions
    }

    /// Everything that is given a name by its item's keyword.
    pub fn items(&self) -> Vec<Item<'_>> {
        let words: Vec<_> = self.words().collect();
        let named = |pair: &[(usize, &'_ str)]| {
            let [(start, keyword), (at, name)] = *pair else {
                return None;
            };
            let between = self.code[start + keyword.len()..at].trim();
            let apart = between.is_empty() || between == "!";
            let names = apart && ITEM_WORDS.contains(&keyword) && !ITEM_WORDS.contains(&name);
            names.then(|| (at, self.line_of(at)))
        };
        let found: Vec<_> = words.windows(2).filter_map(|pair| Some((named(pair)?, pair[1].1))).collect();
        found.into_iter().map(|((_, line), name)| Item { name, line }).collect()
    }

    /// The end of the item that begins at `from`: its closing brace, or its semicolon if it has no body. The offset
    /// of the last byte, and whether it is a brace.
    pub fn item_end(&self, from: usize) -> (usize, bool) {
        let (mut depth, mut braces) = (0usize, 0usize);
        for (index, byte) in self.code.bytes().enumerate().skip(from) {
            match byte {
                b'(' | b'[' => depth += 1,
                b')' | b']' => depth = depth.saturating_sub(1),
                b'{' => braces += 1,
                b'}' if braces <= 1 => return (index, braces == 1),
                b'}' => braces -= 1,
                b';' if depth == 0 && braces == 0 => return (index, false),
                _ => {}
            }
        }
        (self.code.len().saturating_sub(1), false)
    }

    fn body_end(&self, from: usize) -> Option<usize> {
        let (end, braced) = self.item_end(from);
        braced.then_some(end)
    }

    fn macro_regions(&self) -> Vec<Range<usize>> {
        let definitions = self.words().filter(|(_, word)| *word == "macro_rules");
        definitions.map(|(start, _)| start..self.item_end(start).0 + 1).collect()
    }

    fn test_regions(&self) -> Vec<Range<usize>> {
        let mut regions: Vec<Range<usize>> = vec![];
        for (start, attribute) in self.code.match_indices("#[cfg(test)]") {
            if regions.last().is_none_or(|last| last.end <= start) {
                let (end, _) = self.item_end(start + attribute.len());
                regions.push(start..end + 1);
            }
        }
        regions
    }
}

/// Identifiers and keywords of `text` with their offsets.
pub fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(is_word)?;
        let len = text[start..].find(|c| !is_word(c)).unwrap_or(text.len() - start);
        at = start + len;
        Some((start, &text[start..at]))
    })
    .filter(move |&(start, word)| !(word == "r" && text[start + 1..].starts_with('#')))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// The kind of each byte. Quotes count as code, the text between them as literal.
fn kinds(text: &[u8]) -> Vec<Kind> {
    let mut kinds = vec![Kind::Code; text.len()];
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let (skip, len, kind) = if rest.starts_with(b"//") {
            (0, find(rest, 0, b"\n"), Kind::Comment)
        } else if rest.starts_with(b"/*") {
            (0, block_comment(rest), Kind::Comment)
        } else if let Some(hashes) = raw_string(text, at) {
            let close: Vec<u8> = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
            let open = hashes + 2;
            (open, find(rest, open, &close) - open, Kind::Literal)
        } else if rest[0] == b'"' {
            (1, quoted(rest, b'"') - 1, Kind::Literal)
        } else if rest[0] == b'\'' && is_character(rest) {
            (1, quoted(rest, b'\'') - 1, Kind::Literal)
        } else {
            at += 1;
            continue;
        };
        let end = (at + skip + len).min(text.len());
        kinds[(at + skip).min(end)..end].fill(kind);
        at = if kind == Kind::Comment { end } else { end + 1 };
    }
    kinds
}

/// The offset of `needle` in `text` from `from` on, or the text's end.
fn find(text: &[u8], from: usize, needle: &[u8]) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    rest.windows(needle.len()).position(|window| window == needle).map_or(text.len(), |index| from + index)
}

fn block_comment(text: &[u8]) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < text.len() {
        if text[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if text[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// The number of hashes of a raw string that begins at `at`, if one does: `r"`, `r#"`, also after `b` or `c`.
fn raw_string(text: &[u8], at: usize) -> Option<usize> {
    let before = at.checked_sub(1).map(|index| text[index]);
    let inside_word =
        before.is_some_and(|byte| (byte.is_ascii_alphanumeric() && !b"bc".contains(&byte)) || byte == b'_');
    if text[at] != b'r' || inside_word {
        return None;
    }
    let hashes = text[at + 1..].iter().take_while(|&&byte| byte == b'#').count();
    (text.get(at + 1 + hashes) == Some(&b'"')).then_some(hashes)
}

/// The offset of the closing quote of a literal that may hold escapes.
fn quoted(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < text.len() && text[at] != quote {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    at.min(text.len())
}

/// A quote opens a character unless it opens a lifetime: an escape follows, or one character and a quote.
fn is_character(text: &[u8]) -> bool {
    let Some(&first) = text.get(1) else { return false };
    let len = match first {
        b'\\' => return true,
        0..0x80 => 1,
        0x80..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    };
    text.get(1 + len) == Some(&b'\'')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_code_from_comments_and_literals() {
        let source = Source::of("let a = \"unsafe // {\"; // unsafe {\nlet b = '{'; /* { /* { */ { */ let c: &'a str;");
        assert_eq!(source.code.matches('{').count(), 0);
        assert!(source.code.contains("&'a str;"));
        assert!(!source.code.contains("unsafe"));
        assert_eq!(source.comments.matches("unsafe").count(), 1);
        assert_eq!(source.code.len(), source.comments.len());
    }

    #[test]
    fn knows_raw_strings_and_escapes() {
        let source = Source::of(r##"f(r#"{"x{"#, br"{\", b"\"{", '\'', '\\', "\\"); done"##);
        assert_eq!(source.code.matches('{').count(), 0, "{}", source.code);
        assert!(source.code.ends_with("done"));
    }

    #[test]
    fn characters_beyond_ascii_are_no_lifetimes() {
        let source = Source::of("let a = ['é', '→', '𝕏', '\"']; let b = \"{\";");
        assert_eq!(source.code.matches('{').count(), 0, "{}", source.code);
    }

    #[test]
    fn measures_functions() {
        let text = "trait T {\n    fn no_body(&self, a: [u8; 2]);\n    fn one(&self) -> bool { true }\n}\n\
                    fn three<const N: usize>(a: [u8; N]) -> u8\nwhere u8: Copy {\n}\n";
        let source = Source::of(text);
        let found: Vec<_> = source.functions().into_iter().map(|f| (f.name, f.line, f.lines)).collect();
        assert_eq!(found, [("one".to_owned(), 3, 1), ("three".to_owned(), 5, 3)]);
    }

    #[test]
    fn function_pointers_are_no_functions() {
        let source = Source::of("type F = fn(u8) -> u8;\nstruct S { f: fn(u8) -> u8, g: u8 }\nimpl S { }\n");
        assert!(source.functions().is_empty());
    }

    #[test]
    fn leaves_tests_out() {
        let source = Source::of("fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n");
        assert_eq!(source.product_lines(), 2);
        let tested: Vec<_> = source.words().filter(|&(at, _)| source.in_test(at)).map(|(_, word)| word).collect();
        assert!(tested.contains(&"b") && !tested.contains(&"c"), "{tested:?}");
    }

    #[test]
    fn test_module_in_its_own_file_is_one_line() {
        let source = Source::of("fn a() {}\n#[cfg(test)]\nmod tests;\n");
        assert_eq!(source.product_lines(), 1);
    }

    #[test]
    fn names_items() {
        let source =
            Source::of("pub const fn a() {}\nstruct B<'a>;\nmacro_rules! c { () => {} }\nlet d = 1; for e in f {}");
        let names: Vec<_> = source.items().into_iter().map(|item| item.name).collect();
        assert_eq!(names, ["a", "B", "c"]);
    }

    #[test]
    fn survives_what_is_no_rust() {
        for text in ["", "'", "\"", "/*", "r#\"", "b'", "fn", "fn f(", "'\\", "r", "{}}", "fn f() {"] {
            let source = Source::of(text);
            assert_eq!(source.code.len(), text.len());
            let _ = (source.functions(), source.items(), source.product_lines());
        }
    }
}
