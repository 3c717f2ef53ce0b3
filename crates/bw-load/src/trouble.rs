//! Why the engine cannot do what it was asked: the protocol's `error`.

use bw_schedule::workload::WorkloadError;
use bw_trace::error::TraceError;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

/// A typed error: what is wrong, where, what to do about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Trouble {
    /// The exit status: 1 an operating error, 2 a request that cannot be carried out.
    pub status: i32,
    /// A stable word for programs.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: String,
    /// Where, if it is a place in a text.
    #[serde(flatten)]
    pub place: Option<Box<ErrorLocation>>,
    /// All that is wrong, one by one, where there may be several things; `message` has them all too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Wrong>,
}

/// One of several things that are wrong with a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Wrong {
    /// Which field of the request, as `workload.filaments[0]`.
    pub field: String,
    /// What is wrong and what to do.
    pub message: String,
}

/// A place in a file or in the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ErrorLocation {
    /// The file; None: the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The column in the line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    /// The field of the request, as `workload.filaments[0].access.size`: who made the request of other
    /// words can say which of those it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

impl Trouble {
    /// Returns an error of the request (status 2).
    #[must_use]
    pub fn request(code: &'static str, message: impl Into<String>, remedy: &str) -> Self {
        Self {
            status: 2,
            code,
            message: message.into(),
            remedy: remedy.to_owned(),
            ..Self::default()
        }
    }

    /// Returns an error of the machine (status 1).
    #[must_use]
    pub fn operating(code: &'static str, message: impl Into<String>, remedy: &str) -> Self {
        Self {
            status: 1,
            ..Self::request(code, message, remedy)
        }
    }

    /// Returns the same error, about this field of the request.
    #[must_use]
    pub fn about(mut self, field: impl Into<String>) -> Self {
        self.place.get_or_insert_default().field = Some(field.into());
        self
    }
}

impl From<WorkloadError> for Trouble {
    fn from(error: WorkloadError) -> Self {
        let message = error.to_string();
        let field = |place| match place {
            Some(place) => format!("workload.filaments[{place}]"),
            None => "workload".to_owned(),
        };
        let problems = error.0.into_iter().map(|problem| Wrong {
            field: field(problem.place),
            message: problem.message,
        });
        Self {
            problems: problems.collect(),
            ..Self::request("bad-workload", message, "correct the workload")
        }
    }
}

impl From<TraceError> for Trouble {
    fn from(error: TraceError) -> Self {
        Self {
            status: i32::from(error.status()),
            code: error.code.name(),
            place: Some(Box::new(ErrorLocation {
                path: Some(PathBuf::from(&*error.path)),
                line: error.line,
                column: error.column,
                field: None,
            })),
            problems: Vec::new(),
            message: error.message,
            remedy: error.remedy,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}; {}", self.message, self.remedy)
    }
}

impl std::error::Error for Trouble {}
