//! Lines of a frame. Colours repeat what words say, so that a terminal without them loses nothing.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::health::State;
use crate::output::without_controls;

/// The styles, with colour or without.
#[derive(Clone, Copy)]
pub struct Paint {
    pub has_colour: bool,
}

impl Paint {
    pub fn state(self, state: State) -> Style {
        match state {
            State::Healthy => self.colour(Color::Green),
            State::Landing => self.colour(Color::Cyan),
            State::Blocked => self.trouble(),
        }
    }

    pub fn trouble(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub fn notice(self) -> Style {
        self.colour(Color::Yellow)
    }

    fn colour(self, colour: Color) -> Style {
        if self.has_colour { Style::new().fg(colour) } else { Style::new() }
    }
}

pub fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// A line in one style. Daemons of other users may have sent anything.
pub fn line(text: &str, style: Style) -> Line<'static> {
    Line::from(Span::styled(without_controls(text).replace(['\t', '\n'], " "), style))
}

/// Lines whose first word, which names them, is bold.
pub fn named(text: &str) -> Line<'static> {
    let text = without_controls(text).replace(['\t', '\n'], " ");
    let at = text.char_indices().nth(7).map_or(text.len(), |(at, _)| at);
    let (name, rest) = text.split_at(at);
    Line::from(vec![Span::styled(name.to_owned(), bold()), Span::raw(rest.to_owned())])
}

/// The end of a path in so many columns at most: it tells more than the begin. A mark says that there is more.
pub fn end_of(path: &str, width: usize) -> String {
    let count = path.chars().count();
    if count <= width {
        return path.to_owned();
    }
    std::iter::once('~').chain(path.chars().skip(count + 1 - width.max(1))).collect()
}

/// Text of so many columns at most; a mark says that there is more.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['~']).collect()
}
