//! Pairs the operations of A and B: first the alignment of times, then pairs within a window.
//!
//! Decision: the speed of a replay should be given, since its user knows it. Otherwise it is estimated: the median of
//! the ratios of the times between pairs that are far apart among the first operations (incomplete Theil-Sen, which
//! stalls do not affect). An estimate within 1 % of a whole number, or of its reciprocal, is rounded to that, because a
//! speed that is wrong by 1e-5 is 36 ms wrong after an hour. The result names the origin. A pair has the same key
//! (kind, offset, size, and device on request), in order, within a window.

use crate::error::TraceCode;
use crate::input::TraceReport;
use bw_model::EngineError;
use bw_model::{Nanos, Row};
use serde::Serialize;
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};

/// How many operations of each side the alignment uses.
const PREFIX: usize = 20_000;
const MILLION: u64 = 1_000_000;

/// The conversion of A's times to B's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Alignment {
    /// Speed of B relative to A, in millionths.
    pub speed_micro: u64,
    /// Where the speed comes from.
    pub speed_from: Origin,
    /// The time of A's time zero in B.
    pub shift_ns: i64,
    /// Where the shift comes from.
    pub shift_from: Origin,
    /// Number of pairs that the estimates are based on; 0 without an estimate.
    pub pairs: u64,
}

/// The origin of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// From the request.
    Given,
    /// From the stamps: both have the same time zero.
    Stamps,
    /// Estimated from the first operations.
    Estimated,
    /// Estimated, and rounded to a whole number or its reciprocal.
    EstimatedWhole,
}

impl Alignment {
    /// Converts a time of A to B's axis [ns].
    pub(crate) fn on_b(&self, at: u64) -> i128 {
        scaled(at, self.speed_micro) + i128::from(self.shift_ns)
    }
}

fn scaled(at: u64, speed_micro: u64) -> i128 {
    i128::from(at) * i128::from(MILLION) / i128::from(speed_micro)
}

/// Returns when an operation reached its target: its actual start if that is known [ns].
pub fn arrival(row: &Row) -> u64 {
    match row.issued {
        Nanos::NEVER => row.intended.0,
        issued => issued.0,
    }
}

/// The key by which pairs are found.
pub(crate) type OperationKey = u64;

/// One operation of a comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComparedOperation {
    /// Hash of its kind, offset and size.
    pub key: OperationKey,
    /// Its row.
    pub row: Row,
}

/// Rows with a report of their reading.
pub(crate) trait RowSource: Iterator<Item = Result<Row, EngineError>> {
    /// Returns the report so far.
    fn report(&self) -> TraceReport;

    /// Returns the names of the devices found so far: `Row::device` is the index.
    fn devices(&self) -> &[String];

    /// Returns whether its arrivals are an engine's intended starts.
    fn tells_intentions(&self) -> bool;
}

/// The first rows of a trace.
pub struct Prefix {
    rows: VecDeque<Row>,
    /// Whether they contain both intended and actual starts.
    intention_known: bool,
}

impl Prefix {
    /// Reads the first rows.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn read(from: &mut impl RowSource) -> Result<Self, EngineError> {
        let rows: VecDeque<Row> = from.by_ref().take(PREFIX).collect::<Result<_, _>>()?;
        let issued = rows.iter().any(|row| row.issued != Nanos::NEVER);
        Ok(Self {
            rows,
            intention_known: issued && from.tells_intentions(),
        })
    }

    /// Returns all rows of the trace, starting with these.
    pub(crate) fn then(self, rest: impl RowSource + 'static) -> TraceRows {
        TraceRows {
            first: self.rows,
            rest: Box::new(rest),
            names: Vec::new(),
        }
    }
}

/// All rows of a trace.
pub(crate) struct TraceRows {
    first: VecDeque<Row>,
    rest: Box<dyn RowSource>,
    names: Vec<String>,
}

impl TraceRows {
    /// Returns the next row; None at the end.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn row(&mut self) -> Result<Option<Row>, EngineError> {
        match self.first.pop_front() {
            Some(row) => Ok(Some(row)),
            None => self.rest.next().transpose(),
        }
    }

    /// Returns `row`, which is not None, as an operation to compare.
    pub(crate) fn operation(&mut self, row: Option<Row>, by_device: bool) -> ComparedOperation {
        let row = row.unwrap_or_else(|| unreachable!("the caller has looked"));
        let device = if by_device {
            self.device(row.device)
        } else {
            0
        };
        ComparedOperation {
            key: key(&row, device),
            row,
        }
    }

    /// Returns a hash of a device's name.
    fn device(&mut self, number: u16) -> u64 {
        if usize::from(number) >= self.names.len() {
            self.names = self.rest.devices().to_vec();
        }
        let mut hash = DefaultHasher::new();
        self.names.get(usize::from(number)).hash(&mut hash);
        hash.finish()
    }

    /// Returns the report of the reading.
    pub(crate) fn report(&self) -> TraceReport {
        self.rest.report()
    }
}

fn key(row: &Row, device: u64) -> OperationKey {
    let mut hash = DefaultHasher::new();
    (row.kind, row.offset, row.size, device).hash(&mut hash);
    hash.finish()
}

/// The alignment that the request gives.
#[derive(Clone, Copy, Debug)]
pub struct GivenAlignment<'a> {
    /// Speed of B relative to A, in millionths; None: to be estimated.
    pub speed_micro: Option<u64>,
    /// The time of A's time zero in B; None: by the stamps, or to be estimated.
    pub shift_ns: Option<i64>,
    /// B's file, for errors.
    pub path: &'a str,
}

/// Returns the conversion of A's times to B's.
///
/// # Errors
/// The speed is neither given nor can it be estimated.
pub fn align(
    given: GivenAlignment<'_>,
    (a, b): &(Prefix, Prefix),
) -> Result<Alignment, EngineError> {
    let pairs = paired(&a.rows, &b.rows);
    let (speed_micro, speed_from) = match given.speed_micro {
        Some(value) => (value, Origin::Given),
        None => estimated_speed(&pairs).ok_or_else(|| no_speed(given.path))?,
    };
    let (shift_ns, shift_from) = match given.shift_ns {
        Some(value) => (value, Origin::Given),
        None if b.intention_known => (0, Origin::Stamps),
        None => (estimated_shift(&pairs, speed_micro), Origin::Estimated),
    };
    let estimated = speed_from != Origin::Given || shift_from == Origin::Estimated;
    Ok(Alignment {
        speed_micro,
        speed_from,
        shift_ns,
        shift_from,
        pairs: if estimated { pairs.len() as u64 } else { 0 },
    })
}

fn no_speed(path: &str) -> EngineError {
    let message = "too few of its first operations match the other trace to estimate the speed";
    let remedy = "give it, as in --speed 4x, and read A with the replay's policy of offsets";
    TraceCode::TraceOption.error(path, message, remedy)
}

/// Returns the arrivals of pairs, in A's order: the n-th with a key in A and the n-th in B.
fn paired(a: &VecDeque<Row>, b: &VecDeque<Row>) -> Vec<(u64, u64)> {
    let mut places: HashMap<OperationKey, VecDeque<u64>> = HashMap::new();
    for row in b {
        places
            .entry(key(row, 0))
            .or_default()
            .push_back(arrival(row));
    }
    let pair = |row: &Row| Some((row.intended.0, places.get_mut(&key(row, 0))?.pop_front()?));
    a.iter().filter_map(pair).collect()
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
fn estimated_speed(pairs: &[(u64, u64)]) -> Option<(u64, Origin)> {
    let half = pairs.len() / 2;
    let far = pairs.iter().zip(&pairs[half..]);
    let ratio = |(first, second): (&(u64, u64), &(u64, u64))| {
        let (a, b) = (
            second.0.checked_sub(first.0)?,
            second.1.checked_sub(first.1)?,
        );
        (a > 0 && b > 0).then(|| a as f64 / b as f64)
    };
    let mut ratios: Vec<f64> = far.filter_map(ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let speed = *ratios.get(ratios.len() / 2)?;
    let whole = if speed >= 1.0 {
        speed.round()
    } else {
        1.0 / (1.0 / speed).round()
    };
    let (speed, origin) = match (speed / whole - 1.0).abs() < 0.01 {
        true => (whole, Origin::EstimatedWhole),
        false => (speed, Origin::Estimated),
    };
    Some((((speed * MILLION as f64).round() as u64).max(1), origin))
}

/// Returns the shift for which half of the pairs are early and half are late [ns].
fn estimated_shift(pairs: &[(u64, u64)], speed_micro: u64) -> i64 {
    let late = |(a, b): &(u64, u64)| i128::from(*b) - scaled(*a, speed_micro);
    let mut late: Vec<i128> = pairs.iter().map(late).collect();
    late.sort_unstable();
    let median = late.get(late.len() / 2).copied().unwrap_or(0);
    i64::try_from(median).unwrap_or(0)
}

/// Maximum number of unpaired operations: 4 Mi, about 500 MB. Beyond it the oldest are counted as unmatched.
const MOST: usize = 4 << 20;

/// The side that an operation belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The original.
    A,
    /// The replay.
    B,
}

/// The unpaired operations of one key: all of them belong to one side.
#[derive(Debug)]
struct UnmatchedRows {
    which: Side,
    since: VecDeque<(i128, u64)>,
}

/// Pairs operations that arrive in the order of time.
#[derive(Debug)]
pub(crate) struct PairMatcher {
    window: i128,
    waiting: HashMap<OperationKey, UnmatchedRows>,
    in_order: VecDeque<(i128, u64, OperationKey)>,
    number: u64,
    matched: u64,
    given_up: [u64; 2],
}

impl PairMatcher {
    /// Returns an empty matcher; a pair is at most `window_ns` apart.
    #[must_use]
    pub(crate) fn new(window_ns: u64) -> Self {
        Self {
            window: i128::from(window_ns),
            waiting: HashMap::new(),
            in_order: VecDeque::new(),
            number: 0,
            matched: 0,
            given_up: [0; 2],
        }
    }

    /// Adds an operation that arrives at `at`. Returns B's arrival minus A's if it completes a pair [ns].
    pub(crate) fn take(&mut self, which: Side, at: i128, key: OperationKey) -> Option<i128> {
        self.give_up_before(at - self.window);
        if let Some(other) = self.other_half(which, key) {
            self.matched += 1;
            return Some(if which == Side::B {
                at - other
            } else {
                other - at
            });
        }
        self.number += 1;
        let since = VecDeque::new();
        let waiting = self
            .waiting
            .entry(key)
            .or_insert(UnmatchedRows { which, since });
        waiting.since.push_back((at, self.number));
        self.in_order.push_back((at, self.number, key));
        None
    }

    fn other_half(&mut self, which: Side, key: OperationKey) -> Option<i128> {
        let waiting = self.waiting.get_mut(&key)?;
        if waiting.which == which {
            return None;
        }
        let (at, _) = waiting.since.pop_front()?;
        if waiting.since.is_empty() {
            self.waiting.remove(&key);
        }
        Some(at)
    }

    fn give_up_before(&mut self, before: i128) {
        while let Some((at, number, key)) = self.in_order.front().copied() {
            if at >= before && self.in_order.len() <= MOST {
                break;
            }
            self.in_order.pop_front();
            self.give_up(number, key);
        }
    }

    /// Counts operation `number` as unmatched if it is still unpaired: then it is the first of its key.
    fn give_up(&mut self, number: u64, key: OperationKey) {
        let Some(waiting) = self.waiting.get_mut(&key) else {
            return;
        };
        if waiting.since.front().is_some_and(|first| first.1 == number) {
            waiting.since.pop_front();
            self.given_up[waiting.which as usize] += 1;
        }
        if waiting.since.is_empty() {
            self.waiting.remove(&key);
        }
    }

    /// Returns the number of pairs.
    #[must_use]
    pub(crate) fn matched(&self) -> u64 {
        self.matched
    }

    /// Returns how many operations of A and of B have no pair, including those still waiting for one.
    #[must_use]
    pub(crate) fn unmatched(&self) -> (u64, u64) {
        let mut left = self.given_up;
        for waiting in self.waiting.values() {
            left[waiting.which as usize] += waiting.since.len() as u64;
        }
        (left[0], left[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_operations_are_paired_in_their_order() {
        let mut pairs = PairMatcher::new(100);
        assert_eq!(pairs.take(Side::A, 0, 7), None);
        assert_eq!(pairs.take(Side::A, 10, 7), None);
        assert_eq!(pairs.take(Side::B, 12, 7), Some(12));
        assert_eq!(pairs.take(Side::B, 13, 7), Some(3));
        assert_eq!(pairs.take(Side::B, 14, 7), None);
        assert_eq!(pairs.take(Side::A, 20, 7), Some(-6));
        assert_eq!((pairs.matched(), pairs.unmatched()), (3, (0, 0)));
    }

    #[test]
    fn what_is_too_far_apart_is_no_pair() {
        let mut pairs = PairMatcher::new(100);
        pairs.take(Side::A, 0, 7);
        assert_eq!(pairs.take(Side::B, 101, 7), None);
        assert_eq!((pairs.matched(), pairs.unmatched()), (0, (1, 1)));
    }

    proptest! {
        #[test]
        fn nothing_is_lost(steps in prop::collection::vec((any::<bool>(), 0..50i128, 0..4u64), 0..200)) {
            let mut pairs = PairMatcher::new(100);
            let (mut at, mut all) = (0, [0, 0]);
            for (of_b, gap, key) in steps {
                at += gap;
                let which = if of_b { Side::B } else { Side::A };
                all[which as usize] += 1;
                if let Some(error) = pairs.take(which, at, key) {
                    prop_assert!(error.abs() <= 100);
                }
            }
            let (a, b) = pairs.unmatched();
            prop_assert_eq!([a + pairs.matched(), b + pairs.matched()], all);
        }
    }
}
