//! Parts of the page: text, tables, sections that scroll.

use crate::output::without_controls;

/// Characters of a text at most: a path is 4 KiB.
const TEXT_MAX: usize = 4096;

/// Text in the page. Characters that direct a terminal, or the direction of writing, are shown as their numbers.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in without_controls(text).chars().take(TEXT_MAX) {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                escaped.extend(c.escape_unicode())
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// Columns of a table: their names, and whether they are numbers.
pub type Columns<'a> = &'a [(&'a str, bool)];

/// A table whose cells are plain text; the first of a row is its head. Without rows, no table.
pub fn table(name: &str, columns: Columns<'_>, rows: &[Vec<String>], note: &str) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let class = |index: usize| match columns.get(index) {
        Some((_, true)) => " class=\"n\"",
        Some(("Path", _)) => " class=\"path\"",
        _ => "",
    };
    let id = name.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let mut table = "<table>\n<thead><tr>".to_owned();
    for (index, (column, _)) in columns.iter().enumerate() {
        table.push_str(&format!("<th scope=\"col\"{}>{column}</th>", class(index)));
    }
    table.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        table.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            let (open, close) = if index == 0 { ("th scope=\"row\"", "th") } else { ("td", "td") };
            table.push_str(&format!("<{open}{}>{}</{close}>", class(index), escaped(cell)));
        }
        table.push_str("</tr>\n");
    }
    wide(&id, name, note, &(table + "</tbody>\n</table>\n"))
}

/// A section that may be wider than the page. A region that scrolls can be reached by the keyboard.
pub fn wide(id: &str, name: &str, note: &str, content: &str) -> String {
    format!(
        "<h2 id=\"{id}\">{name}</h2>\n{note}<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-labelledby=\"{id}\">{content}</div>\n"
    )
}
