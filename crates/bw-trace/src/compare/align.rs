//! Puts A's arrivals on B's axis of time: speed and shift.
//!
//! Decision: the speed of a replay is known to whoever ran it, so it is best given. Estimated, it is the median of
//! the ratios of the times between pairs that are far apart among the first operations (incomplete Theil-Sen,
//! which stalls do not move); within 1 % of a whole number or of one over a whole number it is taken as that,
//! because a speed wrong by 1e-5 is 36 ms wrong after an hour. The result says which it was.

use super::CompareRequest;
use crate::error::{TraceCode, TraceError};
use crate::report::TraceReport;
use bw_model::Row;
use bw_model::Nanos;
use serde::Serialize;
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};

/// How many operations of each the alignment looks at.
const PREFIX: usize = 20_000;
const MILLION: u64 = 1_000_000;

/// How A's times become B's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Alignment {
    /// How much faster B is, in millionths.
    pub speed_micro: u64,
    /// Where the speed comes from.
    pub speed_from: Origin,
    /// The time of A's time zero in B.
    pub shift_ns: i64,
    /// Where the shift comes from.
    pub shift_from: Origin,
    /// Pairs that the estimates rest on; 0 where nothing was estimated.
    pub pairs: u64,
}

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// From the request.
    Given,
    /// From the stamps themselves: both have the same time zero.
    Stamps,
    /// Estimated from the first operations.
    Estimated,
    /// Estimated, and taken as the whole number (or one over it) close by.
    EstimatedWhole,
}

impl Alignment {
    /// Returns the time on B's axis of a time of A's [ns].
    pub fn on_b(&self, at: u64) -> i128 {
        scaled(at, self.speed_micro) + i128::from(self.shift_ns)
    }
}

fn scaled(at: u64, speed_micro: u64) -> i128 {
    i128::from(at) * i128::from(MILLION) / i128::from(speed_micro)
}

/// Returns when an operation came to its target: its actual start if that is known [ns].
pub fn arrival(row: &Row) -> u64 {
    match row.issued {
        Nanos::NEVER => row.intended.0,
        issued => issued.0,
    }
}

/// What pairs are found by.
pub type Key = u64;

/// One operation, as it is compared.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// Its kind, place and size, as a hash.
    pub key: Key,
    /// Its row.
    pub row: Row,
}

/// Rows with an account of their reading.
pub trait Source: Iterator<Item = Result<Row, TraceError>> {
    /// Returns the account so far.
    fn report(&self) -> TraceReport;

    /// Returns whether its arrivals are an engine's intentions.
    fn tells_intentions(&self) -> bool;
}

/// The first rows of a trace.
pub struct Prefix {
    rows: VecDeque<Row>,
    /// Whether they say what was meant and what was done.
    intention_known: bool,
}

impl Prefix {
    /// Reads them.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read(from: &mut impl Source) -> Result<Self, TraceError> {
        let rows: VecDeque<Row> = from.by_ref().take(PREFIX).collect::<Result<_, _>>()?;
        let issued = rows.iter().any(|row| row.issued != Nanos::NEVER);
        Ok(Self {
            rows,
            intention_known: issued && from.tells_intentions(),
        })
    }

    /// Returns all rows of the trace, these first.
    pub fn then(self, rest: impl Source + 'static) -> Rows {
        Rows {
            first: self.rows,
            rest: Box::new(rest),
            names: Vec::new(),
        }
    }
}

/// All rows of a trace.
pub struct Rows {
    first: VecDeque<Row>,
    rest: Box<dyn Source>,
    names: Vec<String>,
}

impl Rows {
    /// Returns the next row; None at the end.
    ///
    /// # Errors
    /// Those of reading.
    pub fn row(&mut self) -> Result<Option<Row>, TraceError> {
        match self.first.pop_front() {
            Some(row) => Ok(Some(row)),
            None => self.rest.next().transpose(),
        }
    }

    /// Returns `row`, which is there, as it is compared.
    pub fn operation(&mut self, row: Option<Row>, by_device: bool) -> Operation {
        let row = row.unwrap_or_else(|| unreachable!("the caller has looked"));
        let device = if by_device {
            self.device(row.device)
        } else {
            0
        };
        Operation {
            key: key(&row, device),
            row,
        }
    }

    /// Returns a hash of a device's name.
    fn device(&mut self, number: u16) -> u64 {
        if usize::from(number) >= self.names.len() {
            self.names = self.rest.report().devices;
        }
        let mut hash = DefaultHasher::new();
        self.names.get(usize::from(number)).hash(&mut hash);
        hash.finish()
    }

    /// Returns the account of the reading.
    pub fn report(&self) -> TraceReport {
        self.rest.report()
    }
}

fn key(row: &Row, device: u64) -> Key {
    let mut hash = DefaultHasher::new();
    (row.kind, row.offset, row.size, device).hash(&mut hash);
    hash.finish()
}

/// Returns how A's times become B's.
///
/// # Errors
/// The speed is neither given nor can it be estimated.
pub fn align(request: &CompareRequest, (a, b): &(Prefix, Prefix)) -> Result<Alignment, TraceError> {
    let pairs = paired(&a.rows, &b.rows);
    let (speed_micro, speed_from) = match request.speed_micro {
        Some(given) => (given, Origin::Given),
        None => estimated_speed(&pairs).ok_or_else(|| no_speed(request))?,
    };
    let (shift_ns, shift_from) = match request.shift_ns {
        Some(given) => (given, Origin::Given),
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

fn no_speed(request: &CompareRequest) -> TraceError {
    let path = request.b.path.list().first().map_or("", String::as_str);
    let message = "too few of its first operations are the other trace's to estimate the speed";
    let remedy = "give it, as in --speed 4x, and read A with the replay's policy of offsets";
    TraceError::new(TraceCode::TraceOption, path, message, remedy)
}

/// Returns the arrivals of pairs, in A's order: the n-th of a kind, place and size in A with the n-th in B.
fn paired(a: &VecDeque<Row>, b: &VecDeque<Row>) -> Vec<(u64, u64)> {
    let mut places: HashMap<Key, VecDeque<u64>> = HashMap::new();
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

/// Returns the shift with which half of the pairs are early and half are late [ns].
fn estimated_shift(pairs: &[(u64, u64)], speed_micro: u64) -> i64 {
    let late = |(a, b): &(u64, u64)| i128::from(*b) - scaled(*a, speed_micro);
    let mut late: Vec<i128> = pairs.iter().map(late).collect();
    late.sort_unstable();
    let median = late.get(late.len() / 2).copied().unwrap_or(0);
    i64::try_from(median).unwrap_or(0)
}
