//! Replays whose fidelity is known by construction.

#![allow(clippy::unwrap_used)]

use bw_model::{DROPPED, Kind, Nanos, Row};
use bw_record::segment::{Content, Header, Order, SegmentWriter};
use bw_schedule::random::Stream;
use bw_trace::compare::pairing::Origin;
use bw_trace::compare::{CompareRequest, CompareResult, compare};
use bw_trace::input::TraceInput;
use tempfile::NamedTempFile;

const US: u64 = 1000;
const MS: u64 = 1000 * US;

/// Returns a trace of `count` operations, each 4 KiB at a random place, with gaps of 0 to 2 ms and a response time of 1 ms.
fn trace(count: u64) -> Vec<Row> {
    let mut stream = Stream::new(5, 0);
    let mut at = 0;
    let rows = (0..count).map(|_| {
        let row = Row {
            intended: Nanos(at),
            issued: Nanos::NEVER,
            completed: Nanos(at + MS),
            offset: stream.below(1000) * 4096,
            size: 4096,
            result: 4096,
            stream: 0,
            device: 0,
            kind: Kind::Read,
        };
        at += stream.below(2 * MS);
        row
    });
    rows.collect()
}

/// Returns the samples of a replay that issues each operation `late(number)` ns late at `speed` times the speed.
fn replay(of: &[Row], speed: u64, late: impl Fn(u64) -> u64) -> Vec<Row> {
    let rows = of.iter().zip(0..).map(|(row, number)| {
        let intended = Nanos(row.intended.0 / speed);
        let issued = intended + Nanos(late(number));
        Row {
            intended,
            issued,
            completed: issued + Nanos(2 * MS),
            ..*row
        }
    });
    rows.collect()
}

fn written(content: Content, rows: &[Row]) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    let header = Header::new(content, Order::Intended);
    let mut writer = SegmentWriter::new(file.as_file(), &header).unwrap();
    writer.write_all(rows).unwrap();
    writer.finish().unwrap();
    file
}

fn compared(a: &[Row], b: &[Row], speed: Option<u64>) -> CompareResult {
    let a = written(Content::Trace, a);
    let b = written(Content::Samples, b);
    let input = |file: &NamedTempFile| TraceInput::new(&file.path().to_string_lossy());
    let request = CompareRequest {
        a: input(&a),
        b: input(&b),
        speed_micro: speed.map(|speed| speed * 1_000_000),
        shift_ns: None,
        window_ns: 1_000_000_000,
        by_device: false,
    };
    compare(&request).unwrap()
}

#[test]
fn a_perfect_replay_is_perfect() {
    let a = trace(20_000);
    let result = compared(&a, &replay(&a, 1, |_| 0), None);
    assert_eq!(
        (result.matched, result.unmatched_a, result.unmatched_b),
        (20_000, 0, 0)
    );
    assert_eq!(result.alignment.speed_micro, 1_000_000);
    assert_eq!(result.alignment.speed_from, Origin::EstimatedWhole);
    assert_eq!(result.alignment.shift_from, Origin::Stamps);
    assert_eq!(result.arrival_error.mean_ns, Some(0.0));
    assert_eq!(result.arrival_error.within[0].share, 1.0);
    let counts = &result.counts;
    assert_eq!(
        (counts.equal_share, counts.overlap_share),
        (Some(1.0), Some(1.0))
    );
    assert_eq!(counts.a, counts.b);
    assert_eq!(result.response_ratio, Some(2.0));
    assert_eq!(result.a.response_cdf[50].response_ns, MS);
    assert_eq!(result.a.dispersion, result.b.dispersion);
    // Little's law: twice the response time at the same arrivals, over about the same time.
    assert!((result.queue_ratio.unwrap() - 2.0).abs() < 0.001);
}

#[test]
fn a_replay_at_four_times_the_speed_is_put_on_its_own_axis() {
    let a = trace(20_000);
    let b = replay(&a, 4, |number| number % 4 * 40 * US);
    let result = compared(&a, &b, None);
    assert_eq!(result.alignment.speed_micro, 4_000_000);
    assert_eq!(result.matched, 20_000);
    let shares: Vec<f64> = result
        .arrival_error
        .within
        .iter()
        .map(|within| within.share)
        .collect();
    assert_eq!(shares, [0.25, 0.75, 1.0]);
    let mean = result.arrival_error.mean_ns.unwrap();
    assert!((mean - 60_000.0).abs() < 2.0, "{mean}");
    assert_eq!(result.arrival_error.late_ns.max, Some(120 * US));
}

#[test]
fn a_given_speed_is_not_estimated() {
    let a = trace(2000);
    let result = compared(&a, &replay(&a, 3, |_| 7), Some(3));
    assert_eq!(
        (result.alignment.speed_from, result.alignment.pairs),
        (Origin::Given, 0)
    );
    assert_eq!(result.arrival_error.absolute_ns.p50, Some(7));
}

#[test]
fn an_observer_with_another_time_zero_is_shifted_by_the_median() {
    let a = trace(5000);
    let mut b = replay(&a, 1, |number| if number % 10 == 0 { 50 * US } else { 0 });
    for row in &mut b {
        row.intended = row.issued + Nanos(77 * MS);
        row.issued = Nanos::NEVER;
        row.completed += Nanos(77 * MS);
    }
    b.sort_by_key(|row| row.intended);
    let result = compared(&a, &b, Some(1));
    assert_eq!(result.alignment.shift_from, Origin::Estimated);
    assert_eq!(result.alignment.shift_ns, 77 * MS as i64);
    assert_eq!(result.arrival_error.within[0].share, 0.9);
    assert_eq!(result.arrival_error.late_ns.max, Some(50 * US));
}

/// A capture records when the driver got a request, and counts from the first one: another program's, 3 s earlier.
#[test]
fn a_capture_of_the_replay_is_shifted_too() {
    let a = trace(5000);
    let mut b = replay(&a, 1, |number| {
        5 * US + if number % 10 == 0 { 50 * US } else { 0 }
    });
    for row in &mut b {
        row.intended = row.issued + Nanos(3000 * MS);
        row.issued = row.intended;
        row.completed += Nanos(3000 * MS);
    }
    let other = Row {
        intended: Nanos(0),
        issued: Nanos(0),
        offset: 1 << 40,
        ..a[0]
    };
    b.insert(0, other);
    b.sort_by_key(|row| row.intended);
    let (a, b) = (written(Content::Trace, &a), written(Content::Trace, &b));
    let result = compare(&CompareRequest {
        a: TraceInput::new(&a.path().to_string_lossy()),
        b: TraceInput::new(&b.path().to_string_lossy()),
        speed_micro: Some(1_000_000),
        shift_ns: None,
        window_ns: 60_000_000_000,
        by_device: false,
    })
    .unwrap();
    assert_eq!(result.alignment.shift_from, Origin::Estimated);
    assert_eq!(result.alignment.shift_ns, (3000 * MS + 5 * US) as i64);
    assert_eq!((result.matched, result.unmatched_b), (5000, 1));
    assert_eq!(result.arrival_error.within[0].share, 0.9);
}

#[test]
fn what_one_side_lacks_is_counted_and_nothing_falls_out_of_step() {
    let a = trace(10_000);
    let mut b = replay(&a, 1, |_| 3);
    let mut number = 0;
    b.retain(|_| {
        number += 1;
        number % 100 != 0
    });
    let mut extra = a[10];
    (extra.intended, extra.issued, extra.offset) = (Nanos(5 * MS), Nanos(5 * MS), 1 << 40);
    b.push(extra);
    b[500].result = DROPPED;
    b.sort_by_key(|row| row.intended);
    let result = compared(&a, &b, Some(1));
    assert_eq!((result.unmatched_b, result.dropped_b), (1, 1));
    assert_eq!(result.matched + result.unmatched_a, 10_000);
    // An operation whose place recurs within the window may be taken for the missing one.
    assert_eq!(result.unmatched_a, 101);
    assert!(result.arrival_error.within[0].share > 0.6);
}

#[test]
fn a_replay_of_something_else_is_reported() {
    let a = trace(1000);
    let mut b = replay(&a, 1, |_| 0);
    b.iter_mut().for_each(|row| row.offset += 1 << 30);
    let (a, b) = (written(Content::Trace, &a), written(Content::Samples, &b));
    let mut request = CompareRequest {
        a: TraceInput::new(&a.path().to_string_lossy()),
        b: TraceInput::new(&b.path().to_string_lossy()),
        speed_micro: None,
        shift_ns: None,
        window_ns: 1_000_000_000,
        by_device: false,
    };
    let error = compare(&request).unwrap_err();
    assert!(error.remedy.contains("--speed"), "{error}");
    request.speed_micro = Some(0);
    assert!(compare(&request).unwrap_err().message.contains("zero"));
    request.speed_micro = Some(1_000_000);
    let result = compare(&request).unwrap();
    assert_eq!(
        (result.matched, result.unmatched_a, result.unmatched_b),
        (0, 1000, 1000)
    );
    assert_eq!(result.arrival_error.mean_ns, None);
}
