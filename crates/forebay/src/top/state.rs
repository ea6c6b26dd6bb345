//! The state machine of `top`.

use std::time::Duration;

use super::answer::Answer;
use super::rates::Rates;

/// After this time without an answer, the screen says so: three missed.
const SILENT_AFTER: Duration = Duration::from_secs(4);

/// Something that happens.
#[derive(Debug)]
pub enum Input {
    Key(Key),
    /// The daemons have answered.
    Answer(Box<Answer>),
    /// They have not, and the reason.
    Failure(String),
    /// The last lines of the logs, in place of those before.
    Log(Vec<String>),
    /// The job has ended.
    Ended,
}

/// A key with a meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    Quit,
    Back,
    Show(Screen),
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
}

/// A screen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Screen {
    Overview,
    Nodes,
    Files,
    Slow,
    Log,
    Help,
}

/// Whether it goes on after an input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    Continue,
    /// The end, with the words to say after it.
    Quit(Option<String>),
}

/// The state.
pub struct Top {
    pub(super) job: String,
    pub(super) has_colour: bool,
    began: Duration,
    pub(super) screen: Screen,
    /// Rows before the first that is shown; of the log, rows after the last one.
    offset: usize,
    /// Rows that scroll, as the last frame had them.
    page: usize,
    pub(super) last: Option<Answered>,
    pub(super) failure: Option<String>,
    pub(super) log: Option<Vec<String>>,
}

/// The last answer.
pub(super) struct Answered {
    pub(super) answer: Answer,
    at: Duration,
    pub(super) rates: Option<Rates>,
}

impl Top {
    /// The start, at `now`; times count from any instant.
    pub fn new(job: String, has_colour: bool, now: Duration) -> Self {
        Self {
            job,
            has_colour,
            began: now,
            screen: Screen::Overview,
            offset: 0,
            page: 1,
            last: None,
            failure: None,
            log: None,
        }
    }

    /// Whether the log is shown, so that it has to be read.
    pub fn wants_log(&self) -> bool {
        self.screen == Screen::Log
    }

    /// Takes an input.
    pub fn input(&mut self, input: Input, now: Duration) -> Step {
        match input {
            Input::Key(key) => return self.key(key),
            Input::Answer(answer) => self.answer(*answer, now),
            Input::Failure(why) => self.failure = Some(why),
            Input::Log(lines) => self.log = Some(lines),
            Input::Ended => return Step::Quit(Some(format!("the job {} has ended", self.job))),
        }
        Step::Continue
    }

    fn answer(&mut self, answer: Answer, now: Duration) {
        let before = self.last.take();
        let rates = before.and_then(|before| {
            let rates = Rates::between(&before.answer.sample, &answer.sample, now.saturating_sub(before.at));
            rates.or(before.rates)
        });
        self.last = Some(Answered { answer, at: now, rates });
        self.failure = None;
    }

    fn key(&mut self, key: Key) -> Step {
        let (is_log, page) = (self.screen == Screen::Log, self.page.max(1));
        // The log is read from its end.
        let (less, more) = (|offset: usize, rows| offset.saturating_sub(rows), usize::saturating_add);
        match key {
            Key::Quit => return Step::Quit(None),
            Key::Back => self.show(Screen::Overview),
            Key::Show(screen) if screen == self.screen => self.show(Screen::Overview),
            Key::Show(screen) => self.show(screen),
            Key::Up if is_log => self.offset = more(self.offset, 1),
            Key::PageUp if is_log => self.offset = more(self.offset, page),
            Key::Down if is_log => self.offset = less(self.offset, 1),
            Key::PageDown if is_log => self.offset = less(self.offset, page),
            Key::Up => self.offset = less(self.offset, 1),
            Key::PageUp => self.offset = less(self.offset, page),
            Key::Down => self.offset = more(self.offset, 1),
            Key::PageDown => self.offset = more(self.offset, page),
            Key::First | Key::Last => self.offset = if (key == Key::First) == is_log { usize::MAX } else { 0 },
        }
        Step::Continue
    }

    pub(super) fn show(&mut self, screen: Screen) {
        (self.screen, self.offset) = (screen, 0);
    }

    /// For how long the daemons have been silent, where that is too long.
    pub(super) fn silent_for(&self, now: Duration) -> Option<Duration> {
        let since = self.last.as_ref().map_or(self.began, |last| last.at);
        let time = now.saturating_sub(since);
        (time >= SILENT_AFTER).then_some(time)
    }

    /// The range of `count` rows that is shown in `page`. The offset is clamped, so that the next key moves.
    pub(super) fn window(&mut self, count: usize, page: usize) -> std::ops::Range<usize> {
        let page = page.min(count);
        (self.page, self.offset) = (page, self.offset.min(count - page));
        let first = if self.screen == Screen::Log { count - page - self.offset } else { self.offset };
        first..first + page
    }
}
