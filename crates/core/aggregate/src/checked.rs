//! Numbers of a description that must make sense by themselves.

use crate::error::CaseError;

pub fn positive(what: &'static str, value: f64) -> Result<f64, CaseError> {
    if value.is_finite() && value > 0.0 { Ok(value) } else { Err(CaseError::NotPositive { what, value }) }
}

pub fn latency(what: &'static str, value: f64) -> Result<f64, CaseError> {
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(CaseError::Negative { what, value }) }
}

pub fn counted(what: &'static str, count: usize, max: usize) -> Result<usize, CaseError> {
    if (1..=max).contains(&count) { Ok(count) } else { Err(CaseError::Count { what, count, max }) }
}
