//! The sources of entries and events: one parser, or several merged by time.

use crate::entry::{DeviceNames, ParseError, TraceEntry};

/// A stream of items with stamps, approximately in the order of time.
pub(crate) trait TraceSource<T>: Send {
    /// Returns the next item; None at the end. After an error that can be skipped it may be
    /// called again and continues after it.
    fn next(&mut self, devices: &mut DeviceNames) -> Result<Option<T>, ParseError>;

    /// Returns counts and notes so far.
    fn account(&self) -> Account {
        Account::default()
    }

    /// Returns what is known about its stamps beforehand.
    fn timing(&self) -> Timing {
        Timing::default()
    }

    /// Returns whether the next item is available without reading; false if reading may take long.
    fn at_hand(&self) -> bool {
        true
    }
}

/// Properties of stamps that are known before reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timing {
    /// They never go back.
    pub sorted: bool,
    /// They count from a time zero that is not the first arrival.
    pub from_zero: bool,
    /// Arrivals are an engine's intended starts, and actual starts are present.
    pub intended: bool,
}

/// The counts and notes of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// Lines or records that are not arrivals.
    pub other_events: u64,
    /// Completions without an arrival.
    pub unmatched_completions: u64,
    /// Damaged places that were skipped without an error.
    pub skipped: u64,
    pub skipped_first: Option<String>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl Account {
    /// Returns the sum of both.
    pub(crate) fn with(mut self, other: Self) -> Self {
        self.other_events += other.other_events;
        self.unmatched_completions += other.unmatched_completions;
        self.skipped += other.skipped;
        self.skipped_first = self.skipped_first.or(other.skipped_first);
        for note in other.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        self
    }
}

/// An item that has a time and was read from a file.
pub(crate) trait Stamped {
    /// Returns its stamp [ns].
    fn stamp(&self) -> u64;
    /// Stores which file it was read from.
    fn mark_file(&mut self, file: u16);
}

impl Stamped for TraceEntry {
    fn stamp(&self) -> u64 {
        self.at()
    }

    fn mark_file(&mut self, file: u16) {
        self.file = file;
    }
}

enum Head<T> {
    Unknown,
    Known(T),
    Ended,
}

/// Merges several sources: returns the earliest of their next items. Equal stamps come in the
/// order of the sources.
pub(crate) struct Merge<T> {
    sources: Vec<(Box<dyn TraceSource<T>>, Head<T>)>,
}

impl<T: Stamped> Merge<T> {
    /// Returns the merge of `sources`; their indexes are the files' numbers.
    pub(crate) fn new(sources: Vec<Box<dyn TraceSource<T>>>) -> Self {
        let sources = sources.into_iter().map(|source| (source, Head::Unknown));
        Self {
            sources: sources.collect(),
        }
    }

    fn fill(&mut self, devices: &mut DeviceNames) -> Result<(), ParseError> {
        for (number, (source, head)) in self.sources.iter_mut().enumerate() {
            if !matches!(head, Head::Unknown) {
                continue;
            }
            let file = u16::try_from(number).unwrap_or(u16::MAX);
            *head = match source.next(devices) {
                Ok(Some(mut item)) => {
                    item.mark_file(file);
                    Head::Known(item)
                }
                Ok(None) => Head::Ended,
                Err(mut fault) => {
                    fault.file = file;
                    return Err(fault);
                }
            };
        }
        Ok(())
    }
}

impl<T: Stamped + Send> TraceSource<T> for Merge<T> {
    fn next(&mut self, devices: &mut DeviceNames) -> Result<Option<T>, ParseError> {
        self.fill(devices)?;
        let earliest = self
            .sources
            .iter_mut()
            .map(|(_, head)| head)
            .filter_map(|head| match head {
                Head::Known(item) => Some((item.stamp(), head)),
                _ => None,
            })
            .min_by_key(|(stamp, _)| *stamp);
        Ok(
            earliest.and_then(|(_, head)| match std::mem::replace(head, Head::Unknown) {
                Head::Known(item) => Some(item),
                _ => None,
            }),
        )
    }

    fn account(&self) -> Account {
        self.sources
            .iter()
            .map(|(source, _)| source.account())
            .fold(Account::default(), Account::with)
    }

    fn timing(&self) -> Timing {
        let timings = || self.sources.iter().map(|(source, _)| source.timing());
        Timing {
            sorted: timings().all(|timing| timing.sorted),
            from_zero: timings().all(|timing| timing.from_zero),
            intended: timings().all(|timing| timing.intended),
        }
    }

    fn at_hand(&self) -> bool {
        let known = |(source, head): &(Box<dyn TraceSource<T>>, Head<T>)| match head {
            Head::Unknown => source.at_hand(),
            _ => true,
        };
        self.sources.iter().all(known)
    }
}
