//! Traces whose figures are known in closed form.

#![allow(clippy::unwrap_used)]

use bw_model::{Kind, Nanos, Row};
use bw_record::segment::{Content, Header, Order, SegmentWriter};
use bw_schedule::random::Stream;
use bw_trace::input::TraceInput;
use bw_trace::stat::popularity::Method;
use bw_trace::stat::{StatRequest, StatResult, stat};
use tempfile::NamedTempFile;

const MS: u64 = 1_000_000;

fn row(at: u64, offset: u64) -> Row {
    Row {
        intended: Nanos(at),
        issued: Nanos::NEVER,
        completed: Nanos::NEVER,
        offset,
        size: 4096,
        result: 0,
        stream: 0,
        device: 0,
        kind: Kind::Read,
    }
}

fn measured(rows: &[Row]) -> StatResult {
    measured_in(rows, 256 << 20)
}

fn measured_in(rows: &[Row], memory_bytes: u64) -> StatResult {
    let file = NamedTempFile::new().unwrap();
    let header = Header::new(Content::Trace, Order::Intended);
    let mut writer = SegmentWriter::new(file.as_file(), &header).unwrap();
    writer.write_all(rows).unwrap();
    writer.finish().unwrap();
    let input = TraceInput::new(&file.path().to_string_lossy());
    stat(&StatRequest {
        input,
        block_bytes: 4096,
        memory_bytes,
    })
    .unwrap()
}

/// Returns the stamps of Poisson arrivals with a mean gap of `mean_ns`.
fn poisson(stream: &mut Stream, mean_ns: f64, count: usize) -> Vec<u64> {
    let mut at = 0.0;
    let gaps = (0..count).map(|_| stream.exponential() * mean_ns);
    gaps.map(|gap| {
        at += gap;
        at as u64
    })
    .collect()
}

#[test]
fn even_arrivals_have_no_dispersion() {
    let rows: Vec<Row> = (0..300_000).map(|n| row(n * MS / 10, 0)).collect();
    let result = measured(&rows);
    assert_eq!(result.operations, 300_000);
    assert_eq!(result.duration_ns, 299_999 * MS / 10);
    assert_eq!(result.rate_per_s, Some(10_000.0));
    for scale in &result.dispersion {
        let index = scale.index.unwrap();
        assert_eq!((index, scale.max), (0.0, scale.bin_ns * 10 / MS));
    }
    assert_eq!(result.gaps.cv_squared, Some(0.0));
    assert_eq!(result.gaps.gap_ns.p50, Some(MS / 10));
    assert_eq!(result.rate.operations.iter().sum::<u64>(), 300_000);
    assert!(result.rate.operations.len() <= 2000);
}

#[test]
fn poisson_arrivals_have_dispersion_one() {
    let stamps = poisson(&mut Stream::new(1, 0), 1e5, 600_000);
    let rows: Vec<Row> = stamps.iter().map(|at| row(*at, 0)).collect();
    let result = measured(&rows);
    for scale in &result.dispersion {
        // The index of n bins has a standard error of sqrt(2 / n).
        let error = (2.0 / scale.bins as f64).sqrt();
        assert!(
            (scale.index.unwrap() - 1.0).abs() < 4.0 * error,
            "{scale:?}"
        );
    }
    assert!((result.gaps.cv_squared.unwrap() - 1.0).abs() < 0.02);
}

#[test]
fn bursts_have_the_dispersion_of_their_arithmetic() {
    // Ten at once, every 10 ms: a bin of 1 ms has 10 with probability 1/10, otherwise none: 90/10 = 9 (times n/(n-1)).
    let rows: Vec<Row> = (0..100_000).map(|n| row(n / 10 * 10 * MS, 0)).collect();
    let result = measured(&rows);
    let [fine, coarse] = [0, 1].map(|scale| result.dispersion[scale].index.unwrap());
    assert!((fine - 9.0).abs() < 0.01, "{fine}");
    assert_eq!(coarse, 0.0);
    assert_eq!(result.gaps.equal, 90_000);
}

#[test]
fn a_sequential_trace_is_wholly_sequential() {
    let rows: Vec<Row> = (0..1000).map(|n| row(n * MS, n * 4096)).collect();
    let found = measured(&rows).sequentiality.unwrap();
    assert_eq!(
        (found.sequential_share, found.recent_share),
        (Some(1.0), Some(1.0))
    );
    assert_eq!((found.runs.runs, found.runs.max), (1, Some(1000)));
    assert!(found.jumps.is_empty());
}

#[test]
fn streams_that_take_turns_are_sequential_to_the_loose_share_only() {
    let place = |n: u64| n % 4 * (1 << 30) + n / 4 * 4096;
    let rows: Vec<Row> = (0..4000).map(|n| row(n * MS, place(n))).collect();
    let found = measured(&rows).sequentiality.unwrap();
    assert_eq!(found.sequential_share, Some(0.0));
    assert_eq!(found.recent_share, Some(3996.0 / 3999.0));
    assert_eq!(found.runs.mean, Some(1.0));
    let jumps: u64 = found
        .jumps
        .iter()
        .map(|jump| jump.forward + jump.backward)
        .sum();
    assert_eq!(jumps, 3999);
}

#[test]
fn a_zipf_exponent_is_found_again() {
    for exponent in [0.6, 0.9, 1.2] {
        let rows = zipf(exponent, 1_000_000);
        let result = measured(&rows).popularity;
        let fit = result.zipf.unwrap();
        assert!(
            (fit.exponent - exponent).abs() < 0.05,
            "{exponent}: {fit:?}"
        );
        assert!(fit.misfit < 0.01, "{fit:?}");
        assert_eq!(result.method, Method::Exact);
    }
}

/// Returns accesses to 10,000 blocks by a Zipf law, drawn by searching the cumulative weights.
fn zipf(exponent: f64, count: u64) -> Vec<Row> {
    let mut total = 0.0;
    let weights = (1..=10_000).map(|rank| {
        total += f64::from(rank).powf(-exponent);
        total
    });
    let cumulative: Vec<f64> = weights.collect();
    let mut stream = Stream::new(7, 0);
    let mut draw = || {
        let drawn = stream.unit() * total;
        cumulative.partition_point(|edge| *edge < drawn) as u64
    };
    (0..count).map(|n| row(n * 1000, draw() * 4096)).collect()
}

#[test]
fn the_most_popular_blocks_have_their_share() {
    // Ten blocks of a thousand get half of the accesses.
    let place = |n: u64| {
        if n.is_multiple_of(2) {
            n / 2 % 10
        } else {
            10 + n / 2 % 990
        }
    };
    let rows: Vec<Row> = (0..19_800 * 2)
        .map(|n| row(n * MS, place(n) * 4096))
        .collect();
    let result = measured(&rows);
    let shares: Vec<f64> = result
        .popularity
        .tops
        .iter()
        .map(|top| top.accesses_share)
        .collect();
    assert_eq!(shares[..2], [0.05, 0.5]);
    assert!((shares[2] - (0.5 + 90.0 / 990.0 / 2.0)).abs() < 1e-12);
    assert_eq!(result.working_set.blocks, 1000.0);
    assert_eq!(result.working_set.cumulative.last(), Some(&1000.0));
}

#[test]
fn a_table_that_is_full_is_sampled_fairly() {
    let rows: Vec<Row> = (0..400_000).map(|n| row(n * 1000, n * 4096)).collect();
    let result = measured_in(&rows, 1 << 20);
    assert_eq!(result.popularity.method, Method::Sampled);
    assert!((result.working_set.blocks / 4e5 - 1.0).abs() < 0.04);
    assert!((result.popularity.accesses / 4e5 - 1.0).abs() < 0.04);
}

#[test]
fn a_queue_with_poisson_arrivals_and_even_service_has_its_length() {
    // M/D/1 at half load: 1/2 + 1/4 / (2 * 1/2) = 3/4 in the system (Pollaczek and Khinchine).
    let stamps = poisson(&mut Stream::new(3, 0), 2e6, 400_000);
    let mut free = 0;
    let rows: Vec<Row> = stamps
        .iter()
        .map(|at| {
            free = free.max(*at) + MS;
            Row {
                completed: Nanos(free),
                ..row(*at, 0)
            }
        })
        .collect();
    let result = measured(&rows);
    let queue = result.queue.unwrap();
    let mean = queue.mean.unwrap();
    assert!((mean - 0.75).abs() < 0.02, "{mean}");
    assert!(
        (queue.mean_at_arrival - 0.75).abs() < 0.02,
        "Poisson arrivals see time averages"
    );
    // Little's law: exactly the rate times the mean response time.
    let last = rows[rows.len() - 1].completed.0 - stamps[0];
    let little = result.response_ns.mean.unwrap() * result.operations as f64 / last as f64;
    assert!((mean / little - 1.0).abs() < 1e-9, "{mean} {little}");
}

#[test]
fn a_trace_without_ends_has_no_queue_and_an_empty_one_no_figures() {
    let result = measured(&[row(0, 0), row(MS, 4096)]);
    assert_eq!(
        (result.queue.is_none(), result.response_ns.count),
        (true, 0)
    );
    let nothing = measured(&[]);
    assert_eq!((nothing.operations, nothing.rate_per_s), (0, None));
    assert_eq!(nothing.gaps.gap_ns.p50, None);
    assert_eq!(nothing.sequentiality.unwrap().sequential_share, None);
    assert!(nothing.popularity.tops.is_empty());
    assert_eq!(nothing.dispersion[0].index, None);
}

#[test]
fn kinds_and_sizes_are_counted_exactly() {
    let mut rows: Vec<Row> = (0..10).map(|n| row(n * MS, 0)).collect();
    rows[3] = Row {
        kind: Kind::Write,
        size: 512,
        ..rows[3]
    };
    let result = measured(&rows);
    assert_eq!(result.kinds["write"].share, 0.1);
    assert_eq!(result.kinds["read"].bytes, 9 * 4096);
    let sizes = result.sizes.unwrap();
    assert_eq!(sizes.different, Some(2));
    assert_eq!(sizes.commonest[0].operations, 9);
    let buckets: Vec<_> = sizes
        .buckets
        .iter()
        .map(|one| (one.up_to_bytes, one.operations))
        .collect();
    assert_eq!(buckets, [(512, 1), (4096, 9)]);
}
