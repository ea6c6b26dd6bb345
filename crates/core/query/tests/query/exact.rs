//! Every operator against exact rational arithmetic: an error of 1e-12 of the sum of magnitudes at most.

use forebay_query::{ColumnSummary, Header, State};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, ToPrimitive, Zero};
use proptest::prelude::*;

use crate::reference::{Asked, EVERYTHING, whole};

const ERROR_MAX: f64 = 1e-12;

fn exact(value: f64) -> BigRational {
    BigRational::from_float(value).unwrap()
}

/// Whether `value` is `expected`, but for `ERROR_MAX` of `magnitude`, or what lies below the least double that has all
/// its digits; beyond the largest double it is infinite.
fn is_near(value: f64, expected: &BigRational, magnitude: &BigRational) -> bool {
    if !value.is_finite() {
        return expected.abs() > exact(f64::MAX) * exact(1.0 - ERROR_MAX);
    }
    let error = (exact(value) - expected).abs();
    error <= exact(ERROR_MAX) * magnitude + exact(f64::MIN_POSITIVE) * exact(ERROR_MAX)
}

fn count(number: usize) -> BigRational {
    BigRational::from_integer(BigInt::from(number))
}

fn text(rows: &[Vec<f64>]) -> String {
    let line = |row: &Vec<f64>| row.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(",");
    rows.iter().map(|row| line(row) + "\n").collect()
}

fn state(rows: &[Vec<f64>], block_len: usize) -> State {
    whole(text(rows).as_bytes(), block_len, Asked { header: Header::No, ..EVERYTHING }).unwrap()
}

fn check_column(values: &[f64], summary: ColumnSummary) {
    let values: Vec<BigRational> = values.iter().map(|value| exact(*value)).collect();
    let n = count(values.len());
    let sum: BigRational = values.iter().sum();
    let magnitude: BigRational = values.iter().map(Signed::abs).sum();
    assert!(is_near(summary.sum, &sum, &magnitude), "sum {}", summary.sum);
    let mean = &sum / &n;
    assert!(is_near(summary.mean, &mean, &(&magnitude / &n)), "mean {}", summary.mean);
    let squares: BigRational = values.iter().map(|value| (value - &mean) * (value - &mean)).sum();
    let variance = squares / &n;
    assert!(is_near(summary.variance, &variance, &variance), "variance {} of {values:?}", summary.variance);
    // The deviation may be a double where its square is none.
    let deviation = exact(summary.deviation);
    let (error, bound) = ((&deviation * &deviation - &variance).abs(), &variance * exact(2.0 * ERROR_MAX));
    assert!(error <= bound || deviation < exact(f64::MIN_POSITIVE), "deviation {}", summary.deviation);
    let least = values.iter().min().unwrap();
    assert_eq!((exact(summary.min) == *least, summary.count), (true, values.len() as u64));
    assert_eq!(exact(summary.max), *values.iter().max().unwrap());
}

fn check(rows: &[Vec<f64>], block_len: usize) {
    let state = state(rows, block_len);
    let found = state.rows.as_ref().unwrap();
    assert_eq!((found.good, found.bad), (rows.len() as u64, 0));
    let width = rows[0].len();
    for column in 0..width {
        let values: Vec<f64> = rows.iter().map(|row| row[column]).collect();
        check_column(&values, found.columns[column].summary());
    }
    let matrix = found.gramian.as_ref().unwrap().matrix();
    for left in 0..width {
        for right in 0..width {
            let products: Vec<BigRational> = rows.iter().map(|row| exact(row[left]) * exact(row[right])).collect();
            let magnitude = products.iter().map(Signed::abs).sum::<BigRational>();
            let is_in_range = magnitude < exact(f64::MAX);
            let value = matrix[left][right];
            // A product below the least double is 0; as many as there are rows.
            let lost = exact(f64::from_bits(1)) * count(rows.len());
            let sum = products.iter().sum::<BigRational>();
            let good = !is_in_range || is_near(value, &sum, &magnitude) || (exact(value) - &sum).abs() <= lost;
            assert!(good, "[{left}][{right}]: {value}, not {:?}", sum.to_f64());
        }
    }
}

/// Values as columns have them, and as they should not.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -1000.0..1000.0f64,
        2 => (-1_000_000i64..1_000_000).prop_map(|cents| cents as f64 / 100.0),
        1 => (0..1000u32).prop_map(|small| 1e9 + f64::from(small) / 1024.0),
        1 => Just(0.0),
    ]
}

fn hostile() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(1e300),
        Just(-1e300),
        Just(1e-300),
        Just(-1e-300),
        Just(f64::MAX),
        Just(f64::MIN_POSITIVE),
        Just(1.0),
        Just(-1.0),
        Just(1e16),
        Just(-1e16),
        Just(f64::from_bits(1)),
        Just(0.0),
        Just(1e130),
        Just(1e-130),
        any::<f64>().prop_filter("finite", |value| value.is_finite()),
    ]
}

fn table(value: impl Strategy<Value = f64>) -> impl Strategy<Value = Vec<Vec<f64>>> {
    prop::collection::vec(prop::collection::vec(value, 3), 1..40)
}

/// Their sums are doubles, so that nothing has to be rounded.
#[test]
fn sums_of_small_integers_are_exact() {
    let mut number = 7_i64;
    let mut next = || {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        number >> 33
    };
    for count in [1, 2, 3, 7, 64, 1000, 5003] {
        for block_len in [3, 1 << 16] {
            for below in [100, 1 << 20, 1 << 31] {
                let values: Vec<i64> = (0..count).map(|_| next() % below).collect();
                let rows: Vec<Vec<f64>> = values.iter().map(|value| vec![*value as f64]).collect();
                let sum = state(&rows, block_len).rows.unwrap().columns[0].summary().sum;
                assert_eq!(sum, values.iter().sum::<i64>() as f64, "{count} below {below}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn of_random_columns(rows in table(value()), block_len in 1..400usize) {
        check(&rows, block_len);
    }

    #[test]
    fn of_hostile_columns(rows in table(hostile()), block_len in 1..400usize) {
        check(&rows, block_len);
    }

    #[test]
    fn of_columns_of_one_magnitude(
        rows in table(value()), exponents in prop::collection::vec(-900..900i32, 3), block_len in 1..400usize,
    ) {
        let scaled = |row: &Vec<f64>| row.iter().zip(&exponents).map(|(value, exponent)| value * 2f64.powi(*exponent)).collect();
        check(&rows.iter().map(scaled).collect::<Vec<_>>(), block_len);
    }
}

#[test]
fn sums_that_cancel() {
    let column: Vec<Vec<f64>> = [1e300, 1.0, -1e300, 1e16, 3.0, -1e16].map(|value| vec![value, 1.0]).to_vec();
    check(&column, 1000);
    check(&column, 3);
    // All doubles near the largest: their sum is none, the mean and the deviation are.
    let large: Vec<Vec<f64>> = (0..1000).map(|row| vec![f64::MAX * (1.0 - f64::from(row) / 2048.0)]).collect();
    check(&large, 4096);
    assert_eq!(state(&large, 4096).rows.unwrap().columns[0].summary().sum, f64::INFINITY);
}

#[test]
fn a_small_variance_far_from_zero() {
    let rows: Vec<Vec<f64>> = (0..5000u32).map(|row| vec![1e15 + f64::from(row % 7), f64::from(row)]).collect();
    check(&rows, 1000);
    let normalised = state(&rows, 1000).rows.unwrap().columns[0].normalised();
    assert!(normalised.0.abs() < 0.1 && (normalised.1 - 1.0).abs() < 1e-12, "{normalised:?}");
}

#[test]
fn the_closed_form_is_what_normalising_gives() {
    let values: Vec<f64> = (0..1000u32).map(|row| f64::from(row * row % 977) / 7.0 + 1e6).collect();
    let rows: Vec<Vec<f64>> = values.iter().map(|value| vec![*value]).collect();
    let column = state(&rows, 777).rows.unwrap().columns[0].clone();
    let ColumnSummary { mean, deviation, .. } = column.summary();
    let normalised: Vec<BigRational> =
        values.iter().map(|value| (exact(*value) - exact(mean)) / exact(deviation)).collect();
    let exact_mean = normalised.iter().sum::<BigRational>() / count(values.len());
    let squares: BigRational = normalised.iter().map(|value| (value - &exact_mean) * (value - &exact_mean)).sum();
    let exact_variance = (squares / count(values.len())).to_f64().unwrap();
    let (mean, deviation) = column.normalised();
    assert!((exact(mean) - &exact_mean).abs() < exact(1e-12) && !exact_mean.is_zero(), "{mean}");
    assert!((deviation * deviation - exact_variance).abs() < 1e-12, "{deviation}");
}
