//! Dates as ISO 8601 has them: `2026-11-29`, perhaps with a time of day behind it. In order as texts, they are in order in time.

/// Whether a text is one.
pub fn is_date(text: &[u8]) -> bool {
    let Some((date, rest)) = text.split_at_checked(10) else { return false };
    let is_day = matches!(date, [_, _, _, _, b'-', _, _, b'-', _, _])
        && digits(&date[..4])
        && in_range(&date[5..7], 1, 12)
        && in_range(&date[8..], 1, 31);
    is_day && (rest.is_empty() || matches!(rest[0], b'T' | b' ') && is_time(&rest[1..]))
}

/// `hh:mm`, perhaps with seconds, a fraction of them, and a zone.
fn is_time(text: &[u8]) -> bool {
    let Some((minutes, rest)) = text.split_at_checked(5) else { return false };
    if !(minutes[2] == b':' && in_range(&minutes[..2], 0, 24) && in_range(&minutes[3..], 0, 59)) {
        return false;
    }
    let rest = match rest {
        [b':', seconds @ ..] => {
            let Some((two, rest)) = seconds.split_at_checked(2) else { return false };
            if !in_range(two, 0, 60) {
                return false;
            }
            match rest {
                [b'.' | b',', fraction @ ..] => {
                    let len = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
                    if len == 0 {
                        return false;
                    }
                    &fraction[len..]
                }
                rest => rest,
            }
        }
        rest => rest,
    };
    match rest {
        [] | [b'Z'] => true,
        [b'+' | b'-', hour @ ..] => match hour.len() {
            2 => in_range(hour, 0, 23),
            4 => in_range(&hour[..2], 0, 23) && in_range(&hour[2..], 0, 59),
            5 => in_range(&hour[..2], 0, 23) && hour[2] == b':' && in_range(&hour[3..], 0, 59),
            _ => false,
        },
        _ => false,
    }
}

fn digits(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_digit)
}

/// Whether two digits are a number from `least` to `greatest`.
fn in_range(text: &[u8], least: u8, greatest: u8) -> bool {
    digits(text) && (least..=greatest).contains(&text.iter().fold(0, |sum, digit| sum * 10 + (digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_told_from_other_text() {
        for date in [
            "2026-11-29",
            "0001-01-31",
            "2026-11-29T09:18",
            "2026-11-29 09:18:25",
            "2026-11-29T09:18:25.123456Z",
            "2026-11-29T24:00:00+01:00",
            "2026-11-29T09:18-0530",
            "2026-06-30 23:59:60,5+02",
        ] {
            assert!(is_date(date.as_bytes()), "{date}");
        }
        for other in [
            "",
            "2026",
            "2026-11",
            "2026-13-01",
            "2026-00-01",
            "2026-01-32",
            "26-11-2901",
            "2026/11/29",
            "2026-11-29x",
            "2026-11-29T",
            "2026-11-29T9:18",
            "2026-11-29T09:60",
            "2026-11-29T09:18:",
            "2026-11-29T09:18:25.",
            "2026-11-29T09:18ZZ",
            "2026-1a-01",
            "2026-11-29T09:18+1",
        ] {
            assert!(!is_date(other.as_bytes()), "{other}");
        }
    }
}
