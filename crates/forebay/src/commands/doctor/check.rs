//! One finding of `doctor`, and the cost of a lack.

use serde::Serialize;
use serde_json::Value;

/// How well something is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// All is there.
    Ok,
    /// Something that most jobs do without is not there.
    Note,
    /// It costs something.
    Limited,
    /// It does not go without.
    Missing,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub struct Check {
    pub name: &'static str,
    pub state: State,
    pub found: String,
    /// The cost of the lack, and the remedy.
    pub cost: Option<String>,
    /// The finding, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Value>,
}

impl Check {
    /// It is there.
    pub fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: State::Ok, found: found.into(), cost: None, details: None }
    }

    /// It is not there, and only jobs that want it meet that.
    pub fn note(name: &'static str, found: impl Into<String>, cost: impl Into<String>) -> Self {
        Self { state: State::Note, cost: Some(cost.into()), ..Self::ok(name, found) }
    }

    /// It is there, at that cost.
    pub fn limited(name: &'static str, found: impl Into<String>, cost: impl Into<String>) -> Self {
        Self { state: State::Limited, cost: Some(cost.into()), ..Self::ok(name, found) }
    }

    /// It is not there, at that cost.
    pub fn missing(name: &'static str, found: impl Into<String>, cost: impl Into<String>) -> Self {
        Self { state: State::Missing, cost: Some(cost.into()), ..Self::ok(name, found) }
    }

    /// The same with what was found, for programs.
    pub fn with_details(self, details: Value) -> Self {
        Self { details: Some(details), ..self }
    }
}
