//! What is asked and answered: docs/watch-format.md, "Requests".

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The protocol's version.
pub const PROTOCOL: u32 = 1;

/// A request.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// Begin.
    Watch(Begin),
    /// End.
    End {
        /// Of the watch.
        id: i64,
    },
}

/// What is to be watched.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begin {
    /// Told back.
    pub id: i64,
    /// The file to write; it must not exist.
    pub out: PathBuf,
    /// The root of the own tree.
    pub root_pid: i32,
    /// Between samples [ns].
    pub interval_ns: i64,
    /// Whether the statistic files are copied before and after.
    #[serde(default)]
    pub copies: bool,
    /// Processes that measure.
    #[serde(default)]
    pub watcher_pids: Vec<i32>,
    /// Roots of the targets' trees.
    #[serde(default)]
    pub extra_pids: Vec<i32>,
}

/// An answer.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Reply<'a> {
    /// The first line.
    Hello {
        /// `PROTOCOL`.
        protocol: u32,
        /// Of the sampler.
        pid: u32,
        /// Of the sampler.
        version: &'a str,
    },
    /// A watch has begun.
    Watching {
        /// Of the request.
        id: i64,
        /// Time of the first sample.
        begin_ns: i64,
    },
    /// A watch has ended.
    Watched {
        /// Of the watch.
        id: i64,
        /// What was done.
        #[serde(flatten)]
        done: &'a Done,
    },
    /// A request could not be done.
    Error {
        /// Of the request; 0 if it has none that can be read.
        id: i64,
        /// Why.
        message: &'a str,
    },
}

/// What a watch did.
#[derive(Debug, Clone, Serialize)]
pub struct Done {
    /// Rows.
    pub samples: u64,
    /// Time of the first row.
    pub begin_ns: i64,
    /// Time of the last row.
    pub end_ns: i64,
    /// Processor time of the sampler meanwhile.
    pub cost_ns: i64,
    /// Length of the file; in the file itself, where it is not known yet, 0.
    pub bytes: u64,
    /// Sum of what samples were late by more than an interval.
    pub lost_ns: i64,
    /// Why the file is not whole, else empty.
    pub error: String,
}
