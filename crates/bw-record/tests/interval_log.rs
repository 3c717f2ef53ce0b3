//! The golden files of the formats `hlog` and `hgrm` of `bw export`, read by the library of HdrHistogram.

#![allow(clippy::unwrap_used)]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use std::time::Duration;

const LOG: &[u8] = include_bytes!("../../../tests/golden/exports/hlog.hlog");

#[test]
fn each_interval_and_label_has_its_time_tag_and_histogram() {
    let (mut bases, mut intervals) = (Vec::new(), Vec::new());
    for entry in IntervalLogIterator::new(LOG) {
        match entry.unwrap() {
            LogEntry::BaseTime(time) | LogEntry::StartTime(time) => bases.push(time),
            LogEntry::Interval(interval) => intervals.push(interval),
        }
    }
    assert_eq!(bases, [Duration::from_millis(1_795_376_153_832); 2]);
    let starts: Vec<_> = intervals.iter().map(|one| one.start_timestamp()).collect();
    assert_eq!(
        starts,
        [0, 0, 0, 1, 10, 10, 10, 11].map(Duration::from_secs)
    );
    let tags: Vec<_> = intervals
        .iter()
        .map(|one| one.tag().unwrap().as_str())
        .collect();
    // Of each load its labels, then its intervals.
    let [first, second] = [1, 2].map(|load| {
        [":GET_/a_b", ":say_\"_1_2\"", "", ""].map(|label| format!("web:{load}{label}"))
    });
    assert_eq!(tags, [first, second].concat());
    let lengths: Vec<_> = intervals.iter().map(|one| one.duration()).collect();
    assert_eq!(lengths, [2, 2, 1, 1, 2, 2, 1, 1].map(Duration::from_secs));
    let longest: Vec<_> = intervals.iter().map(|one| one.max()).collect();
    assert_eq!(longest, [1.25, 0.12, 0.12, 1.25, 0.09, 2.0, 0.07, 2.0]);
    let mut deserializer = Deserializer::new();
    let decoded = intervals.iter().map(|one| {
        let bytes = STANDARD.decode(one.encoded_histogram()).unwrap();
        let read: Histogram<u64> = deserializer.deserialize(&mut &bytes[..]).unwrap();
        (read.len(), read.max() / 10_000)
    });
    let decoded: Vec<_> = decoded.collect();
    let expected = [
        (3, 125),
        (2, 12),
        (2, 12),
        (3, 125),
        (2, 9),
        (1, 200),
        (1, 7),
        (2, 200),
    ];
    assert_eq!(decoded, expected);
}

const DISTRIBUTION: &str = include_str!("../../../tests/golden/exports/hgrm.hgrm");

/// The response times of both loads of the session that the golden files have [ns].
const TIMES: [u64; 8] = [
    80_000, 120_000, 1_250_000, 80_100, 95_000, 70_000, 2_000_000, 90_000,
];

#[test]
fn a_distribution_is_the_one_of_the_library() {
    let mut whole = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
    TIMES.iter().for_each(|time| whole.record(*time).unwrap());
    let mut count = 0;
    let expected = whole.iter_quantiles(5).map(|one| {
        count += one.count_since_last_iteration();
        let value = one.value_iterated_to().min(2_000_000) as f64 / 1e6;
        (value, one.quantile_iterated_to(), count)
    });
    let rows = DISTRIBUTION
        .lines()
        .filter(|line| line.starts_with("    ") && !line.contains("Value"));
    let rows = rows.map(|row| {
        let words: Vec<_> = row.split_whitespace().collect();
        let number = |place: usize| words[place].parse::<f64>().unwrap();
        (number(0), number(1), words[2].parse::<u64>().unwrap())
    });
    let (expected, rows): (Vec<_>, Vec<_>) = (expected.collect(), rows.collect());
    // Where a step is exactly the share of some values, the library's sum of steps may be just above it, ours is not.
    assert!(rows.len().abs_diff(expected.len()) <= 1);
    let mut compared = 0;
    for (value, quantile, count) in expected {
        let same = rows.iter().find(|row| (row.1 - quantile).abs() < 1e-9);
        let row = same.unwrap_or_else(|| panic!("no step {quantile}"));
        let values = quantile * TIMES.len() as f64;
        if quantile == 1.0 || (values - values.round()).abs() > 1e-9 {
            assert_eq!(row.2, count, "{row:?}");
            assert!((row.0 - value).abs() < 1e-9, "{row:?} {value}");
            compared += 1;
        }
    }
    assert!(compared > 10);
}
