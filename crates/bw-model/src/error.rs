//! The engine's error: the protocol's `error`.
//!
//! Decision: one type from a file that cannot be opened to a malformed line, because all produce the same
//! answer to the user. A text error gives a line and a column, a binary format the offset of the record in the
//! (decompressed) bytes, a request the field.

use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

/// What is wrong, where, and what to do about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EngineError {
    /// The exit status: 1 an operating error, 2 a request that cannot be carried out.
    pub status: i32,
    /// A stable word that scripts may rely on.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: String,
    /// The position in a text, if there is one.
    #[serde(flatten)]
    pub location: Option<Box<ErrorLocation>>,
    /// All problems of a workload, one by one; `message` contains them too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<FieldProblem>,
}

/// One of several problems of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FieldProblem {
    /// The field of the request, such as `workload.filaments[0]`.
    pub field: String,
    /// What is wrong and what to do.
    pub message: String,
}

/// A place in a file or in the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ErrorLocation {
    /// The file, as the user named it; None: the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The line, from 1; None if there is none (a binary format, an option).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The column in the line, in bytes from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    /// The offset of a binary record from the start, after decompression [bytes]. It is in messages, not in the
    /// protocol.
    #[serde(skip)]
    pub byte: Option<u64>,
    /// The field of the request, such as `workload.filaments[0].access.size`: a program that generated the
    /// request can translate it to its own option.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

impl EngineError {
    /// Returns an error of the request (status 2).
    #[must_use]
    pub fn request(
        code: &'static str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            status: 2,
            code,
            message: message.into(),
            remedy: remedy.into(),
            ..Self::default()
        }
    }

    /// Returns an error of the machine (status 1).
    #[must_use]
    pub fn operating(
        code: &'static str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            status: 1,
            ..Self::request(code, message, remedy)
        }
    }

    fn with(mut self, change: impl FnOnce(&mut ErrorLocation)) -> Self {
        change(self.location.get_or_insert_default());
        self
    }

    /// Returns the same error, about this field of the request.
    #[must_use]
    pub fn about(self, field: impl Into<String>) -> Self {
        self.with(|location| location.field = Some(field.into()))
    }

    /// Returns the same error, in this file.
    #[must_use]
    pub fn in_file(self, path: &str) -> Self {
        self.with(|location| location.path = Some(PathBuf::from(path)))
    }

    /// Returns the same error with its line and column, both from 1.
    #[must_use]
    pub fn at_line(self, line: u64, column: u64) -> Self {
        self.with(|location| {
            location.line = Some(line);
            location.column = Some(column);
        })
    }

    /// Returns the same error with the offset of a binary record [bytes from the start].
    #[must_use]
    pub fn at_byte(self, byte: u64) -> Self {
        self.with(|location| location.byte = Some(byte))
    }

    /// Returns the line, if there is one.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        self.location.as_ref()?.line
    }

    /// Returns the column, if there is one.
    #[must_use]
    pub fn column(&self) -> Option<u64> {
        self.location.as_ref()?.column
    }

    /// Returns the offset of the binary record, if there is one.
    #[must_use]
    pub fn byte(&self) -> Option<u64> {
        self.location.as_ref()?.byte
    }

    /// Returns the text without the remedy: `PATH:LINE:COLUMN: MESSAGE`.
    #[must_use]
    pub fn without_remedy(&self) -> String {
        format!("{}{}", self.place(), self.message)
    }

    /// Returns the position, with the colon and blank before a message; empty if no file is known.
    fn place(&self) -> String {
        let Some(location) = &self.location else {
            return String::new();
        };
        let Some(path) = &location.path else {
            return String::new();
        };
        let mut text = path.display().to_string();
        for number in [location.line, location.column].into_iter().flatten() {
            text.push_str(&format!(":{number}"));
        }
        if let Some(byte) = location.byte {
            text.push_str(&format!(": byte {byte}"));
        }
        text + ": "
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}; {}", self.without_remedy(), self.remedy)
    }
}

impl std::error::Error for EngineError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_place_message_and_remedy() {
        let error = EngineError::request("trace-line", "no size", "add it");
        assert_eq!(error.to_string(), "no size; add it");
        let error = error.in_file("a.csv");
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
}
