//! The messages of docs/launcher-protocol.md.
//!
//! Unknown fields are refused: a misspelt `timeout_ns` must not run without a timeout.

use bw_sys::process::ResourceUsage;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// The version of the protocol that `hello` names.
pub(crate) const PROTOCOL: u32 = 1;
/// Maximum number of processes at a time; larger requests are refused.
pub(crate) const MOST_THREADS: u32 = 4096;

/// A line from `bw`.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum LauncherRequest {
    /// Run a batch of epochs.
    Run(Box<Run>),
    /// End the run in progress.
    Interrupt(Interrupt),
}

/// Run `epochs` epochs of these commands.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    /// Copied into every reply.
    pub id: i64,
    /// Number of the first epoch.
    pub first_epoch: u64,
    /// Maximum number of epochs.
    pub epochs: u64,
    /// The number of processes, N.
    pub threads: u32,
    /// Commands, in order within each mode.
    pub commands: Vec<Command>,
    /// Variables added to the launcher's own; later ones win.
    #[serde(default)]
    pub environment: Vec<(String, String)>,
    /// Working directory of every process.
    pub directory: String,
    /// Existing directory for logs.
    pub logs: String,
    /// Limit of the EXEC phase [ns].
    #[serde(default)]
    pub timeout_ns: Option<u64>,
    /// Time between SIGTERM and SIGKILL [ns].
    #[serde(default = "default_grace_ns")]
    pub grace_ns: u64,
    /// Time budget: the batch ends after the epoch that exceeds it [ns].
    #[serde(default)]
    pub budget_ns: Option<u64>,
    /// Hooks: executables, or directories of them.
    #[serde(default)]
    pub hooks: Vec<String>,
    /// Whether the batch ends after an epoch that failed.
    #[serde(default)]
    pub stop_on_failure: bool,
    /// Exit statuses with which a command of EXEC succeeds.
    #[serde(default = "default_ok_status")]
    pub ok_status: Vec<i32>,
    /// How much of the output of EXEC is stored.
    #[serde(default)]
    pub output: OutputPolicy,
}

impl Run {
    /// Returns whether a process failed: it could not be started, or its status means failure.
    pub(crate) fn failed(&self, record: &ProcessRecord) -> bool {
        let accepted = match record.mode {
            Mode::Exec => &self.ok_status[..],
            _ => &[0],
        };
        !record.error.is_empty() || !accepted.contains(&record.status)
    }
}

/// How much of a process's output is stored.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutputPolicy {
    /// The stored part.
    pub keep: Keep,
    /// With `whole`: an epoch with a stream longer than this is ended [bytes].
    #[serde(default)]
    pub limit_bytes: Option<u64>,
    /// With `whole`: whether it is also copied to the launcher's stderr.
    #[serde(default)]
    pub relay: bool,
}

/// The stored part of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Keep {
    /// Nothing: it goes to /dev/null.
    Null,
    /// The first and last 64 KiB.
    Ends,
    /// Everything.
    #[default]
    Whole,
}

/// One command.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Command {
    /// The part of the test it belongs to.
    pub mode: Mode,
    /// Program and arguments.
    pub argv: Vec<String>,
}

/// Ends the run in progress.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Interrupt {
    /// Whether CLEANUP still runs.
    pub cleanup: bool,
}

fn default_ok_status() -> Vec<i32> {
    vec![0]
}

fn default_grace_ns() -> u64 {
    2_000_000_000
}

/// The part of a test; the value of APMODE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Before EXEC; a failure skips EXEC.
    Setup,
    /// The measured command.
    Exec,
    /// After EXEC, even if it failed.
    Cleanup,
    /// PRESETUP, POSTCLEANUP, SYSTEM, FASTFAIL...: runs once, outside of epochs.
    Single(String),
}

impl Mode {
    /// Returns its name, in capitals.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Setup => "SETUP",
            Self::Exec => "EXEC",
            Self::Cleanup => "CLEANUP",
            Self::Single(name) => name,
        }
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        match name.as_str() {
            "SETUP" => Ok(Self::Setup),
            "EXEC" => Ok(Self::Exec),
            "CLEANUP" => Ok(Self::Cleanup),
            other if !other.is_empty() && other.bytes().all(|b| b.is_ascii_uppercase()) => {
                Ok(Self::Single(name))
            }
            other => Err(D::Error::custom(format!(
                "mode `{other}` is not a word in capitals"
            ))),
        }
    }
}

impl Serialize for Mode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A line to `bw`.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum LauncherReply<'a> {
    /// The first line.
    Hello {
        protocol: u32,
        /// Process id of the runner.
        pid: u32,
        /// Version of this program.
        version: &'a str,
        /// The lowest peak RSS that can be measured [bytes].
        rss_floor_bytes: u64,
    },
    /// One epoch.
    Epoch(&'a EpochRecord),
    /// The end of a request.
    Done {
        /// The request's id.
        id: i64,
        /// The first epoch that was not run.
        next_epoch: u64,
        /// Why the batch ended.
        reason: Reason,
        /// The current floor, which may have grown since hello [bytes].
        rss_floor_bytes: u64,
    },
    /// The request could not be run.
    Error {
        /// The request's id, 0 if unreadable.
        id: i64,
        /// What is wrong, where and why.
        message: &'a str,
    },
}

/// Why a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reason {
    /// All epochs ran.
    Complete,
    /// `budget_ns` is used up.
    Budget,
    /// An epoch failed, and the request asked to stop then.
    Failed,
    /// An interrupt.
    Interrupted,
}

/// How an epoch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ending {
    /// Every command succeeded.
    Ok,
    /// A command failed.
    Failed,
    /// EXEC exceeded its time limit.
    Timeout,
    /// An interrupt cut it short.
    Interrupted,
}

/// The record of one epoch.
#[derive(Debug, Serialize)]
pub(crate) struct EpochRecord {
    /// The request's id.
    pub id: i64,
    /// Its number.
    pub epoch: u64,
    /// How it ended.
    pub ending: Ending,
    /// Start, CLOCK_REALTIME [ns].
    pub started_ns: u64,
    /// Duration from SETUP to CLEANUP [ns].
    pub duration_ns: u64,
    /// Last minus first start of the N threads [ns].
    pub release_skew_ns: u64,
    /// Whether EXEC was ended because a stream exceeded `limit_bytes`.
    pub output_full: bool,
    /// Whether the launcher was stopped and continued meanwhile, so that its stamps are late.
    pub stopped: bool,
    /// Processes that had to be ended afterwards.
    pub left_running: u32,
    /// Processes that still run, because they belong to another user.
    pub not_permitted: u32,
    /// Processes, in the order of their starts.
    pub processes: Vec<ProcessRecord>,
    /// APLOG's text by thread.
    pub aplog: Vec<(u32, String)>,
    /// Output of hooks: name, event, text.
    pub hooks: Vec<(String, &'static str, String)>,
}

/// The record of one process.
#[derive(Debug, Serialize)]
pub(crate) struct ProcessRecord {
    /// The part of the test.
    pub mode: Mode,
    /// Position in its mode's list.
    pub index: u32,
    /// 1..N, 0 for commands that run once.
    pub thread: u32,
    /// Exit status, 128 + signal, or 127 if it could not be started.
    pub status: i32,
    /// Time from just before execve to the wake-up [ns].
    pub elapsed_ns: u64,
    /// Resource usage of the process and the children that it waited for: members of this object.
    #[serde(flatten)]
    pub usage: ResourceUsage,
    /// Start, CLOCK_MONOTONIC [ns].
    pub start_ns: u64,
    /// Offset and length of its stdout [bytes].
    pub out: [u64; 2],
    /// Offset and length of its stderr [bytes].
    pub err: [u64; 2],
    /// Bytes written to stdout, stored or not [bytes].
    pub out_bytes: u64,
    /// Bytes written to stderr, stored or not [bytes].
    pub err_bytes: u64,
    /// Why it could not be started.
    pub error: String,
}

#[cfg(test)]
#[path = "../../bw-programs/tests/support/field_tables.rs"]
mod field_tables;

/// The tables of docs/launcher-protocol.md agree with what these types read.
#[cfg(test)]
mod tests {
    use super::field_tables::check;
    use super::*;
    use serde_json::{Value, from_value, json};
    use std::fmt::Debug;

    const PAGE: &str = include_str!("../../../docs/launcher-protocol.md");

    fn read<T: for<'de> Deserialize<'de> + Debug>(document: Value) -> Result<String, String> {
        let read: Result<T, _> = from_value(document);
        read.map(|read| format!("{read:?}"))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_tables_of_the_page_are_true() {
        let run = json!({"id": 1, "first_epoch": 1, "epochs": 1, "threads": 1, "commands": [],
                         "directory": "/", "logs": "/"});
        check(PAGE, "run", &run, &read::<Run>);
        check(
            PAGE,
            "a command",
            &json!({"mode": "EXEC", "argv": []}),
            &read::<Command>,
        );
        check(
            PAGE,
            "an output policy",
            &json!({"keep": "ends"}),
            &read::<OutputPolicy>,
        );
        check(
            PAGE,
            "interrupt",
            &json!({"cleanup": true}),
            &read::<Interrupt>,
        );
    }
}
