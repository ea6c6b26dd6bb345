//! Sizes, rates and times as people read them, in few characters.

use std::time::Duration;

/// `0 B`, `512 B`, `1.4 GiB`, `52 MiB`.
pub fn size(bytes: u64) -> String {
    scaled(bytes, 1024.0, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// `20 MB/s`, `2.1 GB/s`.
pub fn rate(bytes_per_s: u64) -> String {
    scaled(bytes_per_s, 1000.0, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"])
}

/// `120 of 300 MiB`: both in the unit of the second; `2.9 MiB of 64 GiB` where that would be next to nothing.
pub fn part(done: u64, all: u64) -> String {
    let all_in_words = size(all);
    if done > 0 && done < all / 100 {
        return format!("{} of {all_in_words}", size(done));
    }
    let (_, unit) = all_in_words.split_once(' ').unwrap_or_default();
    let power = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"].iter().position(|name| *name == unit).unwrap_or(0);
    let done = done as f64 / 1024f64.powi(power as i32);
    format!("{} of {all_in_words}", digits(done, power))
}

/// `9 s`, `3 min 4 s`, `2 h 5 min`, `11 days`: whole seconds, since it is a prediction or an age.
pub fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..172_800 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// `25 us`, `1.4 ms`, `9.0 s`, `3 min 4 s`.
pub fn time(time: Duration) -> String {
    match time.as_micros() {
        us @ 0..1000 => format!("{us} us"),
        us @ 1000..1_000_000 => format!("{:.1} ms", us as f64 / 1000.0),
        us @ 1_000_000..10_000_000 => format!("{:.1} s", us as f64 / 1_000_000.0),
        _ => span(time),
    }
}

/// `23:16:40 UTC`, as the logs have it.
pub fn time_of_day(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// `[#####...............]`.
pub fn bar(part: f64, width: usize) -> String {
    let full = (part.clamp(0.0, 1.0) * width as f64) as usize;
    format!("[{}{}]", "#".repeat(full), ".".repeat(width - full))
}

/// Of `all`, how much `part` is, 0 to 1; 0 of nothing.
pub fn share(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

fn scaled(amount: u64, step: f64, units: [&str; 6]) -> String {
    let (mut scaled, mut power) = (amount as f64, 0);
    // 999.6 would be shown as 1000.
    while scaled >= step - 0.5 && power + 1 < units.len() {
        (scaled, power) = (scaled / step, power + 1);
    }
    format!("{} {}", digits(scaled, power), units[power])
}

/// Two digits at least, but for bytes, which are whole.
fn digits(scaled: f64, power: usize) -> String {
    if power == 0 || scaled >= 9.95 || scaled == 0.0 { format!("{scaled:.0}") } else { format!("{scaled:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_short() {
        assert_eq!(
            [0, 512, 1024, 1536, 52 << 20, 1500 << 30].map(size),
            ["0 B", "512 B", "1.0 KiB", "1.5 KiB", "52 MiB", "1.5 TiB"]
        );
        assert_eq!(
            [0, 999, 999_999, 20_000_000, 2_100_000_000].map(rate),
            ["0 B/s", "999 B/s", "1.0 MB/s", "20 MB/s", "2.1 GB/s"]
        );
        assert_eq!(part(120 << 20, 300 << 20), "120 of 300 MiB");
        assert_eq!(part(1 << 19, 3 << 20), "0.5 of 3.0 MiB");
        assert_eq!(part(3 << 20, 64 << 30), "3.0 MiB of 64 GiB");
        assert_eq!(part(0, 64 << 30), "0 of 64 GiB");
        assert_eq!(
            [9, 184, 7500, 941_760].map(|seconds| span(Duration::from_secs(seconds))),
            ["9 s", "3 min 4 s", "2 h 5 min", "10 days"]
        );
        assert_eq!(time_of_day(83_800_999), "23:16:40 UTC");
        assert_eq!([bar(0.0, 4), bar(0.5, 4), bar(7.0, 4)], ["[....]", "[##..]", "[####]"]);
    }
}
