//! Sums over short runs of doubles in eight lanes, which compilers turn into vector instructions.
//!
//! The order of additions is part of the result: lane by lane, then the lanes in pairs.

const LANES: usize = 8;

fn fold(lanes: [f64; LANES]) -> f64 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// The sum of `term` of all values.
pub fn sum(values: &[f64], term: impl Fn(f64) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let (whole, rest) = values.as_chunks::<LANES>();
    for eight in whole {
        for (lane, value) in lanes.iter_mut().zip(eight) {
            *lane += term(*value);
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane += term(*value);
    }
    fold(lanes)
}

/// The sum of the products of two runs of one length.
pub fn dot(left: &[f64], right: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    let ((left, left_rest), (right, right_rest)) = (left.as_chunks::<LANES>(), right.as_chunks::<LANES>());
    for (left, right) in left.iter().zip(right) {
        for (lane, (a, b)) in lanes.iter_mut().zip(left.iter().zip(right)) {
            *lane += a * b;
        }
    }
    for (lane, (a, b)) in lanes.iter_mut().zip(left_rest.iter().zip(right_rest)) {
        *lane += a * b;
    }
    fold(lanes)
}

/// The least and the greatest of values without NaN; infinities the wrong way round if there are none.
pub fn extremes(values: &[f64]) -> (f64, f64) {
    let mut least = [f64::INFINITY; LANES];
    let mut greatest = [f64::NEG_INFINITY; LANES];
    let (whole, rest) = values.as_chunks::<LANES>();
    for run in whole.iter().map(|eight| &eight[..]).chain([rest]) {
        for ((least, greatest), value) in least.iter_mut().zip(&mut greatest).zip(run) {
            *least = if *value < *least { *value } else { *least };
            *greatest = if *value > *greatest { *value } else { *greatest };
        }
    }
    let least = least.into_iter().fold(f64::INFINITY, f64::min);
    (least, greatest.into_iter().fold(f64::NEG_INFINITY, f64::max))
}
