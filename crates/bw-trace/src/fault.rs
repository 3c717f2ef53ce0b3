//! A fault as a format's parser sees it: it knows the column, not the file.
//!
//! The reader adds line and path ([`crate::error::TraceError`]); a lenient reader goes on after a
//! fault of one line, and no reader goes on after a fatal one.

use crate::error::{TraceCode, TraceError};
use std::io;

/// What is wrong at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Which kind of trouble; only `TraceLine` can be skipped.
    pub code: TraceCode,
    /// Which file of the input.
    pub file: u16,
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

/// Where a fault or an operation is, in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The whole file.
    Whole,
    /// A line and a column, from 1; line 0: not yet known.
    Text(u64, u64),
    /// Bytes from the start.
    Byte(u64),
}

/// The remedy for a malformed line of a format that is otherwise right.
pub(crate) const MEND_OR_SKIP: &str = "mend the line, or skip such lines with --lenient";

impl Fault {
    /// Returns the fault of one field: `column` counts bytes from 0.
    pub fn column(column: usize, message: impl Into<String>) -> Self {
        Self {
            code: TraceCode::TraceLine,
            file: 0,
            place: Place::Text(0, column as u64 + 1),
            message: message.into(),
            remedy: MEND_OR_SKIP.to_owned(),
        }
    }

    /// Returns the fault of one binary record at `byte`.
    pub fn byte(byte: u64, message: impl Into<String>) -> Self {
        Self {
            place: Place::Byte(byte),
            remedy: "mend the file, or skip such records with --lenient".to_owned(),
            ..Self::column(0, message)
        }
    }

    /// Returns the same fault as one after which nothing can be read.
    pub fn fatal(mut self, remedy: &str) -> Self {
        if self.code == TraceCode::TraceLine {
            self.code = TraceCode::TraceFormat;
            remedy.clone_into(&mut self.remedy);
        }
        self
    }

    /// Returns the same fault with its line, from 1.
    pub fn on_line(mut self, line: u64) -> Self {
        if let Place::Text(0, column) = self.place {
            self.place = Place::Text(line, column);
        }
        self
    }

    /// Returns the fault of a failed read after `place`.
    pub fn read(error: &io::Error, place: Place) -> Self {
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
                "see that the device is sound",
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

    /// Returns whether a lenient reader may go on after it.
    pub fn can_be_skipped(&self) -> bool {
        self.code == TraceCode::TraceLine
    }

    /// Returns it as the error of its file.
    pub fn into_error(self, paths: &[String]) -> TraceError {
        let path = paths.get(usize::from(self.file)).map_or("", String::as_str);
        let error = TraceError::new(self.code, path, self.message, self.remedy);
        self.place.of(error)
    }
}

impl Place {
    /// Returns `error` at this place.
    pub fn of(self, error: TraceError) -> TraceError {
        match self {
            Self::Whole => error,
            Self::Text(line, column) => error.at_line(line, column),
            Self::Byte(byte) => error.at_byte(byte),
        }
    }
}
