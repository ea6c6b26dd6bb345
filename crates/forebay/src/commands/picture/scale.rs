//! Axes: round values between the least and the greatest, and how they are written.

/// An axis from a round value to another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Axis {
    pub from: f64,
    pub to: f64,
    step: f64,
}

/// The least part of the greatest magnitude that values on an axis differ by: doubles have some digits more.
const SPAN_MIN: f64 = 1e-12;

/// From this magnitude on, and below that one, values have exponents.
const PLAIN_MAX: f64 = 1e6;
const PLAIN_MIN: f64 = 1e-4;

impl Axis {
    /// One that has these values, with about as many marks.
    pub fn of(least: f64, greatest: f64, marks: usize) -> Self {
        let (least, greatest, step) = stepped(least, greatest, marks);
        let ends = [(least / step).floor() * step, (greatest / step).ceil() * step];
        let [from, to] = ends.map(|end| if end.is_finite() { end } else { end.signum() * f64::MAX / 4.0 });
        Self { from, to, step }
    }

    /// One that ends with its values, round or not.
    pub fn within(least: f64, greatest: f64, marks: usize) -> Self {
        let (from, to, step) = stepped(least, greatest, marks);
        Self { from, to, step }
    }

    /// The place of a value, 0 at the beginning and 1 at the end.
    pub fn place(&self, value: f64) -> f64 {
        ((value / 4.0 - self.from / 4.0) / (self.to / 4.0 - self.from / 4.0)).clamp(0.0, 1.0)
    }

    /// The round values.
    pub fn marks(&self) -> Vec<f64> {
        /// Of a step, what rounding takes.
        const ROUNDED: f64 = 1e-6;
        let first = (self.from / self.step - ROUNDED).ceil();
        let count = ((self.to / self.step + ROUNDED).floor() - first).max(0.0) as usize;
        // Products of a step have the digits of the step; sums of it would have others at their end.
        (0..=count).map(|index| (first + index as f64) * self.step + 0.0).collect()
    }

    /// A round value in words.
    pub fn text(&self, value: f64) -> String {
        if value == 0.0 {
            return "0".to_owned();
        }
        let largest = self.from.abs().max(self.to.abs());
        if !(PLAIN_MIN..PLAIN_MAX).contains(&largest) {
            let digits = (value.abs().log10().floor() - self.step.log10().floor()).clamp(0.0, 15.0) as usize;
            return trimmed(&format!("{value:.digits$e}"));
        }
        let digits = (-self.step.log10().floor()).clamp(0.0, 15.0) as usize;
        trimmed(&format!("{value:.digits$}"))
    }
}

/// The ends of an axis that can be divided, and the step between its marks.
fn stepped(least: f64, greatest: f64, marks: usize) -> (f64, f64, f64) {
    let largest = least.abs().max(greatest.abs());
    let (least, greatest) = match greatest / 2.0 - least / 2.0 > largest * SPAN_MIN {
        true => (least, greatest),
        // One value.
        false if largest == 0.0 => (-1.0, 1.0),
        false => (least - largest * 0.1, greatest + largest * 0.1),
    };
    let [least, greatest] = [least, greatest].map(|end| end.clamp(f64::MIN / 4.0, f64::MAX / 4.0));
    (least, greatest, round_step((greatest - least) / marks.max(1) as f64))
}

/// Without zeros behind the point.
fn trimmed(text: &str) -> String {
    let (mantissa, exponent) = text.split_once('e').map_or((text, None), |(mantissa, power)| (mantissa, Some(power)));
    let mantissa = if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
    exponent.map_or_else(|| mantissa.to_owned(), |exponent| format!("{mantissa}e{exponent}"))
}

/// 1, 2 or 5 times a power of ten, not below this.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    // Subnormal numbers have no room for a power below them.
    if power == 0.0 || !power.is_normal() {
        return step.max(f64::MIN_POSITIVE);
    }
    let times = [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| times * power >= step * (1.0 - 1e-9)).unwrap_or(10.0);
    // A power that is a fraction is nearer to its decimals as a quotient.
    if power < 1.0 { times / 10f64.powf(-step.log10().floor()) } else { times * power }
}

/// Bytes in the largest unit of which there are some.
pub fn bytes(count: f64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut count, mut unit) = (count, 0);
    while count >= 999.5 && unit + 1 < UNITS.len() {
        (count, unit) = (count / 1024.0, unit + 1);
    }
    let digits = if unit == 0 || count >= 99.95 { 0 } else { 1 };
    format!("{} {}", trimmed(&format!("{count:.digits$}")), UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(least: f64, greatest: f64) -> Vec<String> {
        let axis = Axis::of(least, greatest, 4);
        axis.marks().into_iter().map(|mark| axis.text(mark)).collect()
    }

    #[test]
    fn marks_are_round() {
        assert_eq!(texts(0.0, 1.0), ["0", "0.5", "1"]);
        assert_eq!(texts(0.0, 0.35), ["0", "0.1", "0.2", "0.3", "0.4"]);
        assert_eq!(texts(-17.0, 230.0), ["-100", "0", "100", "200", "300"]);
        assert_eq!(texts(0.0, 3e9), ["0", "1e9", "2e9", "3e9"]);
        assert_eq!(texts(5.0, 5.0), ["4.5", "5", "5.5"]);
        assert_eq!(texts(0.0, 0.0), ["-1", "-0.5", "0", "0.5", "1"]);
        let within = Axis::within(-3.2, 10.2, 5);
        assert_eq!((within.marks(), within.place(10.2)), (vec![0.0, 5.0, 10.0], 1.0));
        assert_eq!(texts(0.0, 2.1e-9), ["0", "1e-9", "2e-9", "3e-9"]);
    }

    #[test]
    fn no_value_is_too_large_or_small() {
        for (least, greatest) in
            [(f64::MIN, f64::MAX), (0.0, 5e-324), (1e300, 1e300), (1e15, 1e15 + 1.0), (-1e-310, 1e308)]
        {
            let axis = Axis::of(least, greatest, 5);
            let marks = axis.marks();
            assert!((1..30).contains(&marks.len()), "{axis:?} {}", marks.len());
            assert!(marks.iter().all(|mark| mark.is_finite() && axis.place(*mark).is_finite()), "{axis:?}");
            assert!(axis.place(least) <= axis.place(greatest), "{axis:?}");
        }
    }

    #[test]
    fn bytes_have_units() {
        let shown = [0.0, 999.0, 1024.0, 1536.0, 150.0 * 1048576.0, 3.2e12].map(bytes);
        assert_eq!(shown, ["0 B", "999 B", "1 KiB", "1.5 KiB", "150 MiB", "2.9 TiB"]);
    }
}
