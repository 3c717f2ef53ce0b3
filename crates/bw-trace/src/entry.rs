//! One operation on its way from a format's parser to the caller, and the names of the devices.

use crate::fault::{Fault, Place};
use bw_model::Row;
use bw_model::Kind;
use bw_model::Nanos;
use std::collections::HashMap;

/// The largest size of one operation: 4 GiB less a page, so that it stays aligned [bytes].
pub(crate) const LARGEST_BYTES: u64 = 0xffff_f000;

/// The largest end of an operation that a file offset can express [bytes].
pub(crate) const LARGEST_END_BYTES: u64 = i64::MAX as u64;

/// One operation with the place it was read from. Stamps are the trace's own until they are
/// taken from the first arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The operation.
    pub row: Row,
    /// Its line or byte.
    pub place: Place,
    /// Its number among all that were read: equal stamps keep their order by it.
    pub sequence: u64,
    /// Its file.
    pub file: u16,
    /// Whether its size was larger than [`LARGEST_BYTES`].
    pub clipped: bool,
}

impl Entry {
    /// Returns the operation that arrives at `at` [ns], without a device, start or end.
    #[allow(clippy::cast_possible_truncation)]
    pub fn new(at: u64, kind: Kind, offset: u64, bytes: u64) -> Self {
        Self {
            row: Row {
                intended: Nanos(at),
                issued: Nanos::NEVER,
                completed: Nanos::NEVER,
                offset,
                size: bytes.min(LARGEST_BYTES) as u32,
                result: 0,
                stream: 0,
                device: 0,
                kind,
            },
            place: Place::Whole,
            sequence: 0,
            file: 0,
            clipped: bytes > LARGEST_BYTES,
        }
    }

    /// Returns it on device number `device`.
    pub fn on(mut self, device: u16) -> Self {
        self.row.device = device;
        self
    }

    /// Returns it with its end at `at` [ns], all its bytes transferred; None: not known.
    pub fn ended(mut self, at: Option<u64>) -> Self {
        if let Some(at) = at {
            self.row.completed = Nanos(at);
            self.row.result = transferred(self.row.size);
        }
        self
    }

    /// Returns its arrival [ns].
    pub fn at(&self) -> u64 {
        self.row.intended.0
    }
}

/// Returns the result of an operation that moved all its bytes.
pub(crate) fn transferred(size: u32) -> i32 {
    i32::try_from(size).unwrap_or(i32::MAX)
}

/// The longest name of a device [bytes]: bounds the memory that a hostile trace can take.
const LONGEST_NAME_BYTES: usize = 1024;

/// The devices of a trace in the order of their first appearance.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    names: Vec<String>,
    index: HashMap<Box<[u8]>, u16>,
    last: Option<(Box<[u8]>, u16)>,
}

impl Devices {
    /// Returns the number of the device called `name`, new or known.
    ///
    /// Errors: a name that is not UTF-8 or longer than 1,024 bytes, a 65,537th device.
    pub fn number(&mut self, name: &[u8], column: usize) -> Result<u16, Fault> {
        if let Some((last, number)) = &self.last
            && **last == *name
        {
            return Ok(*number);
        }
        let number = match self.index.get(name) {
            Some(number) => *number,
            None => self.add(name).map_err(|why| Fault::column(column, why))?,
        };
        self.last = Some((name.into(), number));
        Ok(number)
    }

    fn add(&mut self, name: &[u8]) -> Result<u16, &'static str> {
        if name.len() > LONGEST_NAME_BYTES {
            return Err("the device's name is longer than 1,024 bytes");
        }
        let text = std::str::from_utf8(name).map_err(|_| "the device's name is not UTF-8")?;
        let number = u16::try_from(self.names.len()).map_err(|_| "more than 65,536 devices")?;
        self.names.push(text.to_owned());
        self.index.insert(name.into(), number);
        Ok(number)
    }

    /// Returns the names: a device's number is its place.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}
