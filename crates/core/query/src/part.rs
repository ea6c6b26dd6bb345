//! The partials of a part of a file, which may begin within quotes or not.
//!
//! Every quote turns quoting, so a part without quotes is as quoted at its end as at its beginning, and if it begins within
//! quotes no row begins in it. A part with quotes is parsed for both; what comes before it decides.

use memchr::memchr_iter;
use serde::{Deserialize, Serialize};

use crate::partials::Partials;

/// The quotes of some blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Quotes {
    /// There are none.
    None,
    /// An even number.
    Even,
    /// An odd number.
    Odd,
}

impl Quotes {
    /// Those of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        match memchr_iter(b'"', bytes).count() {
            0 => Self::None,
            count if count % 2 == 0 => Self::Even,
            _ => Self::Odd,
        }
    }

    /// Whether quoting is another behind them than before.
    pub fn turn(self) -> bool {
        self == Self::Odd
    }
}

/// A part's partials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartState {
    /// Its quotes; `None` too if no rows were asked for.
    pub quotes: Quotes,
    /// If it does not begin within quotes.
    pub unquoted: Option<Partials>,
    /// If it does; not needed where there are no quotes.
    pub quoted: Option<Partials>,
}

impl PartState {
    /// As it travels.
    ///
    /// # Panics
    /// Never: plain structures encode into memory.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("encoding into memory cannot fail")
    }

    /// The state in these bytes, if they hold just one. `Parts::answered` checks whether it answers the request.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        postcard::take_from_bytes(bytes).ok().and_then(|(state, rest)| rest.is_empty().then_some(state))
    }

    /// The partials that hold, now that it is known how the part begins. None if they were not made.
    pub fn chosen(self, begins_quoted: bool) -> Option<Partials> {
        match (begins_quoted, self.quoted, self.quotes) {
            (false, ..) => self.unquoted,
            (true, Some(quoted), _) => Some(quoted),
            (true, None, Quotes::None) => self.unquoted.map(Partials::without_rows),
            (true, None, _) => None,
        }
    }

    /// All partials that there are.
    pub(crate) fn partials(&self) -> impl Iterator<Item = &Partials> {
        self.unquoted.iter().chain(&self.quoted)
    }
}
