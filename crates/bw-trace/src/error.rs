//! The codes of errors about traces.

use bw_model::EngineError;

/// The kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TraceCode {
    /// The file cannot be opened.
    TraceOpen,
    /// Reading failed in the middle, or the compressed data are damaged.
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
    /// Returns its name in the protocol.
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

    /// Returns an error with this code about the whole of the file `path`.
    #[must_use]
    pub fn error(
        self,
        path: &str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> EngineError {
        let error = match self {
            Self::TraceRead | Self::TraceWrite => {
                EngineError::operating(self.name(), message, remedy)
            }
            _ => EngineError::request(self.name(), message, remedy),
        };
        error.in_file(path)
    }
}
