//! Sizes and times as text: read, and shown.

use std::time::Duration;

/// Bytes in a unit, longest suffix first, so that `MiB` is not taken for `B`. A letter alone is binary, as with most programs;
/// with `B` it is what the standards say.
const SIZE_UNITS: [(&str, u64); 13] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
];

/// Milliseconds in a unit, longest suffix first.
const DURATION_UNITS: [(&str, f64); 4] = [("ms", 1.0), ("s", 1_000.0), ("min", 60_000.0), ("h", 3_600_000.0)];

/// Bytes of `64MiB`, `64M` (the same), `1.5GB`, `4096`.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a size; write for example 4096, 64MiB, 64M (the same) or 1.5GB");
    let (number, unit) = SIZE_UNITS
        .iter()
        .find_map(|(suffix, bytes)| {
            let number = text.get(..text.len().checked_sub(suffix.len())?)?;
            text.get(number.len()..)?.eq_ignore_ascii_case(suffix).then_some((number, *bytes))
        })
        .unwrap_or((text, 1));
    let number = number.trim_end();
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit).ok_or_else(|| format!("'{text}' is too large"));
    }
    let value = decimal(number).ok_or_else(wrong)? * unit as f64;
    if value >= u64::MAX as f64 { Err(format!("'{text}' is too large")) } else { Ok(value.round() as u64) }
}

/// `500ms`, `2s`, `1.5min`, `1h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a duration; write for example 500ms, 2s or 1min");
    let found = DURATION_UNITS.iter().find_map(|(suffix, ms)| Some((text.strip_suffix(suffix)?, *ms)));
    let (number, unit_ms) = found.ok_or_else(wrong)?;
    let ms = decimal(number.trim_end()).ok_or_else(wrong)? * unit_ms;
    if ms < 1.0 {
        return Err(format!("'{text}' is too short; 1ms is the least"));
    }
    Duration::try_from_secs_f64(ms / 1000.0).map_err(|_| format!("'{text}' is too long"))
}

/// A plain decimal number: no sign, no exponent, no infinity.
fn decimal(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    (plain && text.bytes().any(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// A size as people read it: `64MiB`, `1.5GiB`, `300B`.
pub fn show_size(bytes: u64) -> String {
    let unit = SIZE_UNITS[..4].iter().rev().find(|(_, unit)| bytes >= *unit);
    match unit {
        None => format!("{bytes}B"),
        Some((name, unit)) if bytes.is_multiple_of(*unit) => format!("{}{name}", bytes / unit),
        Some((name, unit)) => format!("{:.1}{name}", bytes as f64 / *unit as f64),
    }
}

/// A duration as people read it: `350 ms`, `1.2 s`, `3 min 4 s`, `2 h 5 min`.
pub fn show_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..60 => format!("{:.1} s", duration.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}
