//! One operation between a format's parser and the caller, the names of the devices, and the errors of parsers.
//!
//! A parser knows the column of an error, not the file; the reader adds line and path. A lenient reader continues
//! after an error of one line; no reader continues after a fatal one.

use crate::error::TraceCode;
use bw_model::EngineError;
use bw_model::{Kind, Nanos, Row};
use std::collections::HashMap;
use std::fmt;
use std::io;

/// A sector of block-layer formats, whatever the device's own is [bytes].
pub(crate) const SECTOR_BYTES: u64 = 512;

/// A microsecond [ns].
pub(crate) const MICROSECOND_NS: u64 = 1000;

/// The largest size of one operation: 4 GiB less a page, so that it stays aligned [bytes].
pub(crate) const LARGEST_BYTES: u64 = 0xffff_f000;

/// The largest end of an operation that a file offset can express [bytes].
pub(crate) const LARGEST_END_BYTES: u64 = i64::MAX as u64;

/// How far equal stamps are spread at most, unless the unit of the stamps is known [ns].
pub(crate) const FARTHEST_NS: u64 = 1_000_000_000;

/// One operation with the position it was read from. Stamps are the trace's own until they are
/// converted to the time since the first arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceEntry {
    /// The operation.
    pub row: Row,
    /// Its line or byte.
    pub place: Position,
    /// Its number in reading order: equal stamps keep this order.
    pub sequence: u64,
    pub file: u16,
    /// Whether its size was larger than [`LARGEST_BYTES`].
    pub clipped: bool,
    /// How far it may be spread at most: the unit of its stamp [ns].
    pub reach_ns: u64,
    /// What a recorded request was answered with.
    pub response: RecordedResponse,
}

/// What a trace has of the response to a recorded request; None: it is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordedResponse {
    pub status: Option<u16>,
    pub body_bytes: Option<u64>,
}

impl TraceEntry {
    /// Returns the operation that arrives at `at` [ns], without a device, start or end.
    #[allow(clippy::cast_possible_truncation)]
    pub(crate) fn new(at: u64, kind: Kind, offset: u64, bytes: u64) -> Self {
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
            place: Position::Whole,
            sequence: 0,
            file: 0,
            clipped: bytes > LARGEST_BYTES,
            reach_ns: FARTHEST_NS,
            response: RecordedResponse::default(),
        }
    }

    /// Returns it on device number `device`.
    pub(crate) fn on(mut self, device: u16) -> Self {
        self.row.device = device;
        self
    }

    /// Returns it with its completion at `at` [ns] and all its bytes transferred; None: unknown.
    pub(crate) fn ended(mut self, at: Option<u64>) -> Self {
        if let Some(at) = at {
            self.row.completed = Nanos(at);
            self.row.result = transferred(self.row.size);
        }
        self
    }

    /// Returns its arrival [ns].
    pub(crate) fn at(&self) -> u64 {
        self.row.intended.0
    }
}

/// Returns the result of an operation that transferred all its bytes.
pub(crate) fn transferred(size: u32) -> i32 {
    i32::try_from(size).unwrap_or(i32::MAX)
}

/// The name of the host of requests that state none, where others do.
const NO_HOST: &str = "-";

/// Maximum length of a device's name [bytes]: bounds the memory that a hostile trace can take.
const LONGEST_NAME_BYTES: usize = 1024;

/// The devices of a trace in the order of their first appearance.
#[derive(Debug, Default)]
pub(crate) struct DeviceNames {
    names: Vec<String>,
    index: HashMap<Box<[u8]>, u16>,
    last: Option<(Box<[u8]>, u16)>,
}

impl DeviceNames {
    /// Returns the number of the device called `name`, new or known.
    ///
    /// Errors: a name that is not UTF-8 or longer than 1,024 bytes, a 65,537th device.
    pub(crate) fn number(&mut self, name: &[u8], column: usize) -> Result<u16, ParseError> {
        if let Some((last, number)) = &self.last
            && **last == *name
        {
            return Ok(*number);
        }
        let number = match self.index.get(name) {
            Some(number) => *number,
            None => self
                .add(name)
                .map_err(|why| ParseError::column(column, why))?,
        };
        self.last = Some((name.into(), number));
        Ok(number)
    }

    /// Returns the number of a request's host; those without one have a number of their own.
    ///
    /// Errors: as [`DeviceNames::number`].
    pub(crate) fn host(&mut self, name: Option<&[u8]>) -> Result<u16, ParseError> {
        self.number(name.unwrap_or(NO_HOST.as_bytes()), 0)
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

    /// Returns the names: a device's number is its index. Empty where no request has a host.
    pub(crate) fn names(&self) -> &[String] {
        match &self.names[..] {
            [name] if name == NO_HOST => &[],
            names => names,
        }
    }
}

/// An error at one position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParseError {
    /// The error code; only `TraceLine` can be skipped.
    pub code: TraceCode,
    /// The input's file.
    pub file: u16,
    pub place: Position,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

/// The position of an error or an operation in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// The whole file.
    Whole,
    /// A line and a column, from 1; line 0: not yet known.
    Text(u64, u64),
    /// Bytes from the start.
    Byte(u64),
}

/// The remedy for a malformed line of a format that is otherwise right.
pub(crate) const FIX_OR_SKIP: &str = "fix the line, or skip such lines with --lenient";

impl ParseError {
    /// Returns an error in one field: `column` counts bytes from 0.
    pub(crate) fn column(column: usize, message: impl Into<String>) -> Self {
        Self {
            code: TraceCode::TraceLine,
            file: 0,
            place: Position::Text(0, column as u64 + 1),
            message: message.into(),
            remedy: FIX_OR_SKIP.to_owned(),
        }
    }

    /// Returns an error in the binary record at `byte`.
    pub(crate) fn byte(byte: u64, message: impl Into<String>) -> Self {
        Self {
            place: Position::Byte(byte),
            remedy: "fix the file, or skip such records with --lenient".to_owned(),
            ..Self::column(0, message)
        }
    }

    /// Returns the same error as one after which nothing can be read.
    pub(crate) fn fatal(mut self, remedy: &str) -> Self {
        if self.code == TraceCode::TraceLine {
            self.code = TraceCode::TraceFormat;
            remedy.clone_into(&mut self.remedy);
        }
        self
    }

    /// Returns the same error with its line, from 1.
    pub(crate) fn on_line(mut self, line: u64) -> Self {
        if let Position::Text(0, column) = self.place {
            self.place = Position::Text(line, column);
        }
        self
    }

    /// Returns the error of a failed read after `place`.
    pub(crate) fn read(error: &io::Error, place: Position) -> Self {
        let (message, remedy) = match error.kind() {
            io::ErrorKind::UnexpectedEof => (
                "the compressed data is cut short".to_owned(),
                "copy or download the file again",
            ),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other => (
                format!("the compressed data is damaged: {error}"),
                "copy or download the file again",
            ),
            _ => (
                format!("cannot be read: {error}"),
                "check the device for errors",
            ),
        };
        Self {
            code: TraceCode::TraceRead,
            file: 0,
            place,
            message,
            remedy: remedy.to_owned(),
        }
    }

    /// Returns whether a lenient reader may continue after it.
    pub(crate) fn can_be_skipped(&self) -> bool {
        self.code == TraceCode::TraceLine
    }

    /// Returns it as the error of its file.
    pub(crate) fn into_error(self, paths: &[String]) -> EngineError {
        let path = paths.get(usize::from(self.file)).map_or("", String::as_str);
        let error = self.code.error(path, self.message, self.remedy);
        self.place.of(error)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("the whole file"),
            Self::Text(line, column) => write!(f, "line {line}, column {column}"),
            Self::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}

impl Position {
    /// Returns `error` at this place.
    pub(crate) fn of(self, error: EngineError) -> EngineError {
        match self {
            Self::Whole => error,
            Self::Text(line, column) => error.at_line(line, column),
            Self::Byte(byte) => error.at_byte(byte),
        }
    }
}
