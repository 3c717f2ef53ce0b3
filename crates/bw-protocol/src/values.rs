//! Named values of requests, each drawn for every operation.
//!
//! Decision: a value is a function of the seed of the run, its own name and the number of the operation, and has no state.
//! The number is that of `bw_model::ExchangeAddress`: operation n of filament f of F has n F + f, so it says
//! which operation of the workload it is, and not which worker issues it, or when. An open loop therefore sends the same
//! requests with any number of workers and hosts, a request that is sent again has the same values, and two places of
//! one operation agree. A counter is the number itself: no two operations of a run have the same, and those of a
//! single open loop have 0, 1, 2, ... in the order of their intended starts. A value `of` the session is drawn by the
//! number of the session, which all its requests have in their lower bits. Rejected: a random stream for each worker or
//! connection (the requests would depend on the split and on which connection is free), and a shared counter (an atomic
//! operation of all workers for each request, and an order that no second run has).

use crate::Sink;
use bw_model::ExchangeAddress;
use bw_schedule::location::{Location, LocationSpec};
use bw_schedule::random::Stream;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The numbers of operations are below this: see `bw_model::ExchangeAddress`.
const NUMBERS: i64 = 1 << 40;
/// Maximum number of digits of an integer.
const DIGITS: u8 = 20;
/// Maximum length of a random text [bytes].
const TEXT_BYTES: u32 = 1 << 20;
/// A random text is put in pieces of this many bytes.
const PIECE: usize = 64;
/// The lanes of values: those of filaments have not got this bit.
const LANE: u64 = 1 << 63;

/// A value as the user describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ValueSpec {
    /// An integer from `min` to `max`.
    Integer {
        /// The smallest.
        min: i64,
        /// The greatest.
        max: i64,
        /// How it is chosen, as a block of a region is: the k-th of them is `min` + k.
        #[serde(default = "uniform")]
        location: LocationSpec,
        /// Its least number of digits: zeros are put before it.
        #[serde(default)]
        digits: u8,
        /// Whose it is.
        #[serde(default)]
        of: Owner,
    },
    /// The number of the operation.
    Counter {
        /// That of the first operation.
        #[serde(default)]
        start: i64,
        /// Its least number of digits: zeros are put before it.
        #[serde(default)]
        digits: u8,
    },
    /// One of several texts.
    Line {
        /// The texts.
        lines: Vec<String>,
        /// How it is chosen: `sequential` is in order, and again from the first after the last.
        #[serde(default = "uniform")]
        location: LocationSpec,
        /// Whose it is.
        #[serde(default)]
        of: Owner,
    },
    /// Random characters.
    Text {
        /// Their number.
        length: u32,
        /// Which.
        #[serde(default)]
        characters: Characters,
        /// Whose it is.
        #[serde(default)]
        of: Owner,
    },
}

/// For what a value is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// For each operation.
    #[default]
    Operation,
    /// Once for all requests of a session.
    Session,
}

impl Owner {
    fn number(self, operation: u64) -> u64 {
        match self {
            // Below 2^40.
            Self::Operation => operation % NUMBERS as u64,
            Self::Session => operation % ExchangeAddress::SESSION_STEP,
        }
    }
}

fn uniform() -> LocationSpec {
    LocationSpec::Uniform {}
}

impl ValueSpec {
    fn owner(&self) -> Owner {
        match *self {
            Self::Integer { of, .. } | Self::Line { of, .. } | Self::Text { of, .. } => of,
            Self::Counter { .. } => Owner::Operation,
        }
    }
}

/// The characters of a random text, all with the same probability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Characters {
    /// Digits and a to f.
    #[default]
    Hex,
    /// Digits.
    Digits,
    /// Digits, a to z and A to Z.
    Alphanumeric,
}

impl Characters {
    fn all(self) -> &'static [u8] {
        match self {
            Self::Hex => b"0123456789abcdef",
            Self::Digits => b"0123456789",
            Self::Alphanumeric => b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
        }
    }
}

/// The values of a run, by name and by index.
#[derive(Clone, Debug, Default)]
pub struct Values(Box<[Value]>);

#[derive(Clone, Debug)]
struct Value {
    name: String,
    seed: u64,
    of: Owner,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Integer {
        min: i64,
        max: i64,
        location: Location,
        digits: u8,
    },
    Counter {
        start: i64,
        digits: u8,
    },
    Line {
        lines: Box<[Box<str>]>,
        location: Location,
    },
    Text {
        length: u32,
        characters: &'static [u8],
    },
}

impl Values {
    /// Returns the values of a run with this seed.
    ///
    /// # Errors
    /// What is wrong with the first value that is wrong, and what to do.
    pub fn new(specs: &BTreeMap<String, ValueSpec>, seed: u64) -> Result<Self, String> {
        let value = |(name, spec): (&String, &ValueSpec)| {
            let source = check_name(name).and_then(|()| Source::new(spec));
            let source = source.map_err(|error| format!("value {name}: {error}"))?;
            let seed = Stream::new(seed, LANE | hash(name)).next_u64();
            Ok(Value {
                name: name.clone(),
                seed,
                of: spec.owner(),
                source,
            })
        };
        specs
            .iter()
            .map(value)
            .collect::<Result<_, String>>()
            .map(Self)
    }

    /// Returns the index of a value.
    ///
    /// # Errors
    /// There is none of this name; what names there are.
    pub fn index(&self, name: &str) -> Result<usize, String> {
        let found = self.0.iter().position(|value| value.name == name);
        found.ok_or_else(|| {
            let names: Vec<_> = self.0.iter().map(|value| value.name.as_str()).collect();
            let names = match &*names {
                [] => "there are no values".to_owned(),
                names => format!("there are {}", names.join(", ")),
            };
            format!("there is no value {name:?}: {names}; for a literal ${{ write $${{")
        })
    }

    /// Returns the name of a value.
    #[must_use]
    pub fn name(&self, index: usize) -> &str {
        &self.0[index].name
    }

    /// Puts the value of the operation with this number, which is taken modulo 2^40.
    pub fn put(&self, index: usize, number: u64, sink: &mut impl Sink) {
        let value = &self.0[index];
        let number = value.of.number(number);
        let stream = || Stream::new(value.seed, number);
        match &value.source {
            Source::Integer {
                min,
                location,
                digits,
                ..
            } => {
                let place = location.at(number, &mut stream());
                // At most `max`: there are so many places.
                put_integer(min.wrapping_add_unsigned(place), *digits, sink);
            }
            Source::Counter { start, digits } => put_integer(start + number as i64, *digits, sink),
            Source::Line { lines, location } => {
                let place = location.at(number, &mut stream());
                sink.put(lines[place as usize].as_bytes());
            }
            Source::Text { length, characters } => put_text(*length, characters, stream(), sink),
        }
    }

    /// Returns the texts that a value can be: its lines, or None if it consists of letters, digits and `-` alone.
    pub fn lines(&self, index: usize) -> Option<impl Iterator<Item = &str>> {
        match &self.0[index].source {
            Source::Line { lines, .. } => Some(lines.iter().map(AsRef::as_ref)),
            _ => None,
        }
    }

    /// Returns how many characters a value has if it always has as many, and all are hexadecimal digits.
    #[must_use]
    pub fn hex_digits(&self, index: usize) -> Option<usize> {
        let integer = |least: i64, greatest: i64, digits: u8| {
            let length = |number: i64| number.checked_ilog10().unwrap_or(0) as usize + 1;
            let [shortest, longest] =
                [least, greatest].map(|one| length(one).max(usize::from(digits)));
            (least >= 0 && shortest == longest).then_some(longest)
        };
        match &self.0[index].source {
            Source::Integer {
                min, max, digits, ..
            } => integer(*min, *max, *digits),
            Source::Counter { start, digits } => integer(*start, start + NUMBERS - 1, *digits),
            Source::Line { lines, .. } => {
                let length = lines.first()?.len();
                let fits = |line: &str| {
                    line.len() == length && line.bytes().all(|byte| byte.is_ascii_hexdigit())
                };
                lines.iter().all(|line| fits(line)).then_some(length)
            }
            Source::Text { length, characters } => {
                let all_hex = characters.iter().all(u8::is_ascii_hexdigit);
                all_hex.then_some(*length as usize)
            }
        }
    }

    /// Returns the greatest length of a value [bytes].
    #[must_use]
    pub fn most_bytes(&self, index: usize) -> usize {
        let integer = |least: i64, greatest: i64, digits: u8| {
            let length = |number: i64| {
                let digits = number.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
                digits + usize::from(number < 0)
            };
            length(least)
                .max(length(greatest))
                .max(usize::from(digits) + 1)
        };
        match &self.0[index].source {
            Source::Integer {
                min, max, digits, ..
            } => integer(*min, *max, *digits),
            Source::Counter { start, digits } => integer(*start, start + NUMBERS, *digits),
            Source::Line { lines, .. } => lines.iter().map(|line| line.len()).max().unwrap_or(0),
            Source::Text { length, .. } => *length as usize,
        }
    }
}

impl Source {
    fn new(spec: &ValueSpec) -> Result<Self, String> {
        let digits = match *spec {
            ValueSpec::Integer { digits, .. } | ValueSpec::Counter { digits, .. } => digits,
            ValueSpec::Line { .. } | ValueSpec::Text { .. } => 0,
        };
        if digits > DIGITS {
            return Err(format!("digits is {digits}: give at most {DIGITS}"));
        }
        match spec {
            ValueSpec::Integer {
                min, max, location, ..
            } => {
                let span = max.checked_sub(*min).filter(|span| *span >= 0);
                let span = span.ok_or_else(|| {
                    format!("from {min} to {max}: give a greatest that is not below the least, and at most 2^62 of them")
                })?;
                Ok(Self::Integer {
                    min: *min,
                    max: *max,
                    location: Location::new(location, span as u64 + 1, 1)?,
                    digits,
                })
            }
            ValueSpec::Counter { start, .. } => {
                if start.checked_add(NUMBERS).is_none() {
                    return Err(format!(
                        "start is {start}: it has no room for 2^40 operations"
                    ));
                }
                let start = *start;
                Ok(Self::Counter { start, digits })
            }
            ValueSpec::Line {
                lines, location, ..
            } => {
                if lines.is_empty() {
                    return Err("it has no lines: give at least one".into());
                }
                Ok(Self::Line {
                    location: Location::new(location, lines.len() as u64, 1)?,
                    lines: lines.iter().map(|line| line.as_str().into()).collect(),
                })
            }
            ValueSpec::Text {
                length, characters, ..
            } => {
                if *length > TEXT_BYTES {
                    return Err(format!("length is {length}: give at most {TEXT_BYTES}"));
                }
                Ok(Self::Text {
                    length: *length,
                    characters: characters.all(),
                })
            }
        }
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    if name.is_empty() || !name.chars().all(allowed) {
        return Err("a name has letters, digits, _ and - only".into());
    }
    Ok(())
}

/// Returns 64 bits of a name (FNV-1a), which differ between any names that a user writes.
fn hash(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

pub(crate) fn put_integer(number: i64, digits: u8, sink: &mut impl Sink) {
    const LENGTH: usize = DIGITS as usize + 1;
    let mut text = [b'0'; LENGTH];
    let mut begin = LENGTH;
    let mut rest = number.unsigned_abs();
    while rest > 0 || begin == LENGTH {
        begin -= 1;
        text[begin] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    begin = begin.min(LENGTH - usize::from(digits));
    if number < 0 {
        begin -= 1;
        text[begin] = b'-';
    }
    sink.put(&text[begin..]);
}

fn put_text(length: u32, characters: &[u8], mut stream: Stream, sink: &mut impl Sink) {
    let mut left = length as usize;
    while left > 0 {
        let mut piece = [0; PIECE];
        let piece = &mut piece[..left.min(PIECE)];
        for byte in piece.iter_mut() {
            *byte = characters[stream.below(characters.len() as u64) as usize];
        }
        sink.put(piece);
        left -= piece.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn specs(text: &str) -> BTreeMap<String, ValueSpec> {
        serde_json::from_str(text).unwrap()
    }

    fn values(text: &str, seed: u64) -> Values {
        Values::new(&specs(text), seed).unwrap()
    }

    fn drawn(values: &Values, name: &str, number: u64) -> String {
        let (mut text, index) = (Vec::new(), values.index(name).unwrap());
        values.put(index, number, &mut text);
        assert!(text.len() <= values.most_bytes(index), "{text:?}");
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_counter_is_the_number_of_the_operation() {
        let values = values(
            r#"{"n": {"type": "counter"}, "m": {"type": "counter", "start": -2, "digits": 3}}"#,
            1,
        );
        let of = |name, numbers: [u64; 3]| numbers.map(|number| drawn(&values, name, number));
        assert_eq!(of("n", [0, 10, 1 << 40]), ["0", "10", "0"]);
        assert_eq!(of("m", [0, 2, 5000]), ["-002", "000", "4998"]);
    }

    #[test]
    fn values_that_are_always_as_many_hexadecimal_digits_say_so() {
        let values = values(
            r#"{"a": {"type": "counter"}, "b": {"type": "counter", "digits": 13},
                "c": {"type": "integer", "min": 10, "max": 99}, "d": {"type": "integer", "min": 9, "max": 10},
                "e": {"type": "integer", "min": -1, "max": 0, "digits": 2}, "f": {"type": "text", "length": 4},
                "g": {"type": "text", "length": 4, "characters": "alphanumeric"},
                "h": {"type": "line", "lines": ["ab", "0F"]}, "i": {"type": "line", "lines": ["ab", "0"]},
                "j": {"type": "line", "lines": ["xy"]}}"#,
            1,
        );
        let digits: Vec<_> = (0..10).map(|index| values.hex_digits(index)).collect();
        let expected = [
            None,
            Some(13),
            Some(2),
            None,
            None,
            Some(4),
            None,
            Some(2),
            None,
            None,
        ];
        assert_eq!(digits, expected);
    }

    #[test]
    fn integers_cover_their_range_and_no_more() {
        let values = values(
            r#"{"n": {"type": "integer", "min": -1, "max": 1},
                "all": {"type": "integer", "min": 0, "max": 4611686018427387903},
                "zipf": {"type": "integer", "min": 1, "max": 100,
                    "location": {"type": "zipf", "exponent_micro": 1000000, "scattered": false}}}"#,
            7,
        );
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        for number in 0..3000 {
            *seen.entry(drawn(&values, "n", number)).or_default() += 1;
            drawn(&values, "all", number);
        }
        assert_eq!(
            seen.keys().map(String::as_str).collect::<Vec<_>>(),
            ["-1", "0", "1"]
        );
        assert!(
            seen.values().all(|times| (850..1150).contains(times)),
            "{seen:?}"
        );
        let most_popular = (0..3000).filter(|number| drawn(&values, "zipf", *number) == "1");
        // 1 / (1 + 1/2 + ... + 1/100) = 19.3 %.
        let times = most_popular.count();
        assert!((500..660).contains(&times), "{times}");
    }

    #[test]
    fn lines_are_in_order_or_random() {
        let lines = r#"{"o": {"type": "line", "lines": ["a", "b", "c"], "location": {"type": "sequential"}},
            "r": {"type": "line", "lines": ["a", "b", "c"]}}"#;
        let values = values(lines, 7);
        let in_order: String = (0..7).map(|number| drawn(&values, "o", number)).collect();
        assert_eq!(in_order, "abcabca");
        let random: BTreeSet<String> = (0..50).map(|number| drawn(&values, "r", number)).collect();
        assert_eq!(random.len(), 3);
        let index = values.index("r").unwrap();
        assert_eq!(
            values.lines(index).unwrap().collect::<Vec<_>>(),
            ["a", "b", "c"]
        );
    }

    #[test]
    fn a_value_of_a_session_is_the_same_in_all_its_requests() {
        let values = values(
            r#"{"t": {"type": "text", "length": 8, "of": "session"}, "u": {"type": "text", "length": 8},
                "l": {"type": "line", "lines": ["a", "b", "c"], "location": {"type": "sequential"}, "of": "session"}}"#,
            7,
        );
        let of = |name, session: u64| -> BTreeSet<String> {
            let requests = (0..3).map(|request| session + request * ExchangeAddress::SESSION_STEP);
            requests
                .map(|number| drawn(&values, name, number))
                .collect()
        };
        assert_eq!(of("u", 4).len(), 3);
        assert_eq!(of("t", 4).len(), 1);
        assert_ne!(of("t", 4), of("t", 5));
        assert_eq!(of("l", 4), BTreeSet::from(["b".to_owned()]));
    }

    #[test]
    fn texts_have_their_length_and_characters() {
        let values = values(
            r#"{"h": {"type": "text", "length": 200}, "d": {"type": "text", "length": 9, "characters": "digits"},
                "a": {"type": "text", "length": 4000, "characters": "alphanumeric"}}"#,
            7,
        );
        let text = drawn(&values, "h", 5);
        assert_eq!(text.len(), 200);
        assert!(text.bytes().all(|byte| b"0123456789abcdef".contains(&byte)));
        assert!(
            drawn(&values, "d", 5)
                .bytes()
                .all(|byte| byte.is_ascii_digit())
        );
        let seen: BTreeSet<u8> = drawn(&values, "a", 5).bytes().collect();
        assert_eq!(seen.len(), 62);
    }

    #[test]
    fn values_differ_by_seed_and_by_name_but_not_by_other_values() {
        let text = r#"{"type": "text", "length": 16}"#;
        let (one, two) = (
            format!(r#"{{"b": {text}}}"#),
            format!(r#"{{"a": {text}, "b": {text}}}"#),
        );
        let (one, two, other) = (values(&one, 1), values(&two, 1), values(&one, 2));
        assert_eq!(drawn(&one, "b", 3), drawn(&two, "b", 3));
        assert_ne!(drawn(&two, "a", 3), drawn(&two, "b", 3));
        assert_ne!(drawn(&one, "b", 3), drawn(&other, "b", 3));
        assert_ne!(drawn(&one, "b", 3), drawn(&one, "b", 4));
    }

    #[test]
    fn mistakes_are_refused_with_the_name_of_the_value() {
        for wrong in [
            r#"{"v": {"type": "integer", "min": 2, "max": 1}}"#,
            r#"{"v": {"type": "integer", "min": -9223372036854775808, "max": 9223372036854775807}}"#,
            r#"{"v": {"type": "integer", "min": 0, "max": 9, "digits": 21}}"#,
            r#"{"v": {"type": "counter", "start": 9223372036854775807}}"#,
            r#"{"v": {"type": "line", "lines": []}}"#,
            r#"{"v": {"type": "text", "length": 1048577}}"#,
        ] {
            let error = Values::new(&specs(wrong), 1).unwrap_err();
            assert!(error.starts_with("value v: "), "{error}");
        }
        let error = Values::new(&specs(r#"{"a b": {"type": "counter"}}"#), 1).unwrap_err();
        assert!(error.contains("letters"), "{error}");
    }

    proptest! {
        #[test]
        fn an_integer_is_written_as_usual(number: i64, digits in 0..=20_u8) {
            let mut text = Vec::new();
            put_integer(number, digits, &mut text);
            let width = usize::from(digits) + usize::from(number < 0);
            prop_assert_eq!(String::from_utf8(text).unwrap(), format!("{number:0width$}"));
        }

        #[test]
        fn a_draw_does_not_depend_on_those_before(seed: u64, numbers in prop::collection::vec(0..1_u64 << 40, 1..20)) {
            let text = r#"{"v": {"type": "text", "length": 8}, "i": {"type": "integer", "min": 0, "max": 99},
                "l": {"type": "line", "lines": ["a", "b"], "location": {"type": "mixed", "parts":
                    [[{"type": "sequential"}, 1], [{"type": "strided", "stride_bytes": 3}, 1]]}}}"#;
            let all = values(text, seed);
            for name in ["v", "i", "l"] {
                let forwards: Vec<_> = numbers.iter().map(|number| drawn(&all, name, *number)).collect();
                let again = values(text, seed);
                let mut backwards: Vec<_> = numbers.iter().rev().map(|number| drawn(&again, name, *number)).collect();
                backwards.reverse();
                prop_assert_eq!(forwards, backwards);
            }
        }
    }
}
