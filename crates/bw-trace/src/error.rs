//! What is wrong with a trace: where it is wrong, what is wrong there, and what to do.
//!
//! Decision: one error type for reading, measuring, comparing and writing, because all of them
//! end in the same answer to the user (`error` in docs/engine-protocol.md). A text format gives a line
//! and a column, a binary one the offset of the record in the (decompressed) bytes.

use serde::Serialize;
use std::fmt;

/// Which kind of trouble: a stable word that scripts may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceCode {
    /// The file cannot be opened.
    TraceOpen,
    /// Reading failed on the way, or the compressed data is damaged.
    TraceRead,
    /// The format is unknown or ambiguous, or it is not supported.
    TraceFormat,
    /// A line or a record is malformed.
    TraceLine,
    /// A stamp lies further back than the reorder window.
    TraceOrder,
    /// The options contradict each other or the trace.
    TraceOption,
    /// The output cannot be written.
    TraceWrite,
    /// This kernel, or this user, cannot record block I/O.
    TraceCapture,
}

impl TraceCode {
    /// Returns the word for it in the protocol.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TraceOpen => "trace-open",
            Self::TraceRead => "trace-read",
            Self::TraceFormat => "trace-format",
            Self::TraceLine => "trace-line",
            Self::TraceOrder => "trace-order",
            Self::TraceOption => "trace-option",
            Self::TraceWrite => "trace-write",
            Self::TraceCapture => "trace-capture",
        }
    }
}

/// An error with its place, its reason and its remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceError {
    /// Which kind of trouble.
    pub code: TraceCode,
    /// The file, as the user named it.
    pub path: Box<str>,
    /// The line, from 1; None where there is no line (a binary format, an option).
    pub line: Option<u64>,
    /// The column in bytes, from 1.
    pub column: Option<u64>,
    /// The place of a binary record: bytes from the start, after decompression.
    pub byte: Option<u64>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

impl TraceError {
    /// Returns an error about the whole of `path`.
    pub fn new(
        code: TraceCode,
        path: &str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            code,
            path: path.into(),
            line: None,
            column: None,
            byte: None,
            message: message.into(),
            remedy: remedy.into(),
        }
    }

    /// Returns the same error with its line and column, both from 1.
    #[must_use]
    pub fn at_line(mut self, line: u64, column: u64) -> Self {
        self.line = Some(line);
        self.column = Some(column);
        self
    }

    /// Returns the same error with the place of a binary record [bytes from the start].
    #[must_use]
    pub fn at_byte(mut self, byte: u64) -> Self {
        self.byte = Some(byte);
        self
    }

    /// Returns the engine's exit status for it: 1 for an operating error, 2 for bad input.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self.code {
            TraceCode::TraceRead | TraceCode::TraceWrite => 1,
            _ => 2,
        }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        if let Some(byte) = self.byte {
            write!(f, ": byte {byte}")?;
        }
        write!(f, ": {}; {}", self.message, self.remedy)
    }
}

impl std::error::Error for TraceError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_place_reason_and_remedy() {
        let error = TraceError::new(TraceCode::TraceLine, "a.csv", "no size", "add it");
        assert_eq!(error.to_string(), "a.csv: no size; add it");
        assert_eq!(
            error.clone().at_line(3, 7).to_string(),
            "a.csv:3:7: no size; add it"
        );
        assert_eq!(
            error.at_byte(64).to_string(),
            "a.csv: byte 64: no size; add it"
        );
    }

    #[test]
    fn the_code_in_json_is_the_code_in_the_protocol() {
        for code in [TraceCode::TraceOpen, TraceCode::TraceOption] {
            let json = serde_json::to_string(&code).unwrap();
            assert_eq!(json, format!("\"{}\"", code.name()));
        }
    }
}
