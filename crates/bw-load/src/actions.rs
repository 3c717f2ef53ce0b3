//! What a worker did, and when: for finding what delays it.
//!
//! Each worker has a log of its own, so there are no locks, and hands it over at its end. Waits that follow each other are
//! one entry: a second of spinning would be thousands. A full log overwrites its oldest entries, because the end of a run
//! that went wrong says more than its begin. The file is in the trace event format, which Perfetto shows. Rejected: a
//! format of our own, which would need a viewer of our own. Source: Buttress, section 5.4.

use crate::output_file::{FileReport, create_output};
use bw_model::{EngineError, Nanos};
use serde_json::json;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The most entries of a log: 24 MiB, one second of a worker that does a million things in it.
const MOST: usize = 1 << 20;

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It starts operations.
    Issue,
    /// It wakes filaments for timers and messages.
    Wake,
    /// It takes completions from the target.
    Reap,
    /// It waits on its CPU.
    Spin,
    /// It waits without a CPU.
    Sleep,
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Self::Issue => "issue",
            Self::Wake => "wake filaments",
            Self::Reap => "take completions",
            Self::Spin => "spin",
            Self::Sleep => "sleep",
        }
    }

    fn is_wait(self) -> bool {
        matches!(self, Self::Spin | Self::Sleep)
    }
}

/// An action, or waits that followed each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    begin: Nanos,
    end: Nanos,
    /// How many operations, filaments, completions or waits.
    count: u32,
    action: Action,
}

/// What one worker did.
#[derive(Debug)]
pub(crate) struct ActionLog {
    entries: Vec<Entry>,
    /// The place of the oldest entry, once all are used.
    oldest: usize,
    overwritten: u64,
}

impl ActionLog {
    /// Returns an empty log, all of whose memory has been written to.
    pub(crate) fn new() -> Self {
        Self::of(MOST)
    }

    fn of(most: usize) -> Self {
        let (action, zero) = (Action::Sleep, Nanos::ZERO);
        let none = Entry {
            begin: zero,
            end: zero,
            count: 0,
            action,
        };
        let mut entries = vec![none; most];
        std::hint::black_box(&mut entries).clear();
        Self {
            entries,
            oldest: 0,
            overwritten: 0,
        }
    }

    /// Adds what a worker did from one moment to another.
    pub(crate) fn add(&mut self, action: Action, (begin, end): (Nanos, Nanos), count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let newest = self.oldest.checked_sub(1);
        let newest = newest.unwrap_or(self.entries.len().wrapping_sub(1));
        if let Some(last) = self.entries.get_mut(newest)
            && last.action == action
            && action.is_wait()
        {
            last.end = end;
            last.count = last.count.saturating_add(count);
            return;
        }
        let entry = Entry {
            begin,
            end,
            count,
            action,
        };
        if self.entries.len() < self.entries.capacity() {
            self.entries.push(entry);
        } else {
            self.entries[self.oldest] = entry;
            self.oldest = (self.oldest + 1) % self.entries.len();
            self.overwritten += 1;
        }
    }

    fn in_order(&self) -> impl Iterator<Item = &Entry> {
        let (newer, older) = self.entries.split_at(self.oldest);
        older.iter().chain(newer)
    }
}

/// The file of the actions of all workers.
#[derive(Debug)]
pub(crate) struct ActionFile {
    path: PathBuf,
    file: File,
}

impl ActionFile {
    /// Makes the file, before the workers start.
    ///
    /// # Errors
    /// `actions-file`: it exists already, or cannot be made.
    pub(crate) fn create(path: &Path) -> Result<Self, EngineError> {
        Ok(Self {
            path: path.to_owned(),
            file: create_output(path, "actions", "actions-file")?,
        })
    }

    /// Writes what the workers did; `started_ns`: `CLOCK_REALTIME` at time zero.
    #[must_use]
    pub(crate) fn finish<'a>(
        self,
        logs: impl Iterator<Item = &'a ActionLog>,
        started_ns: u64,
    ) -> FileReport {
        let logs: Vec<&ActionLog> = logs.collect();
        let lost = logs.iter().map(|log| log.overwritten).sum();
        let written = write(BufWriter::new(self.file), &logs, started_ns);
        FileReport {
            path: self.path,
            rows: logs.iter().map(|log| log.entries.len() as u64).sum(),
            lost,
            failed: written.err().map(|error| bw_sys::reason(&error)),
        }
    }
}

/// Writes the actions as trace events, whose times are in microseconds.
fn write(mut file: impl Write, logs: &[&ActionLog], started_ns: u64) -> io::Result<()> {
    let about = json!({"started_ns": started_ns, "source": concat!("bw-engine ", env!("CARGO_PKG_VERSION"))});
    write!(file, "{{\"otherData\":{about},\"traceEvents\":[")?;
    for (worker, log) in logs.iter().enumerate() {
        let comma = if worker == 0 { "" } else { "," };
        let name = json!({"ph": "M", "pid": 1, "tid": worker, "name": "thread_name", "args": {"name": format!("worker {worker}")}});
        write!(file, "{comma}\n{name}")?;
        for entry in log.in_order() {
            let (name, count) = (entry.action.name(), entry.count);
            let (begin, length) = (entry.begin.0, entry.end.since(entry.begin).0);
            let time = |ns: u64| format!("{}.{:03}", ns / 1000, ns % 1000);
            let (begin, length) = (time(begin), time(length));
            write!(
                file,
                ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":{worker},\"name\":\"{name}\",\"ts\":{begin},\"dur\":{length},\"args\":{{\"count\":{count}}}}}"
            )?;
        }
    }
    writeln!(file, "\n]}}")?;
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(begin: u64, end: u64) -> (Nanos, Nanos) {
        (Nanos(begin), Nanos(end))
    }

    #[test]
    fn waits_that_follow_each_other_are_one_and_the_oldest_are_overwritten() {
        let mut log = ActionLog::of(3);
        for (action, begin) in [
            (Action::Spin, 0),
            (Action::Spin, 10),
            (Action::Issue, 20),
            (Action::Issue, 30),
            (Action::Reap, 40),
            (Action::Sleep, 50),
            (Action::Sleep, 60),
        ] {
            log.add(action, at(begin, begin + 5), 2);
        }
        let found: Vec<_> = log
            .in_order()
            .map(|one| (one.action, one.begin.0, one.end.0, one.count))
            .collect();
        assert_eq!(
            found,
            [
                (Action::Issue, 30, 35, 2),
                (Action::Reap, 40, 45, 2),
                (Action::Sleep, 50, 65, 4)
            ]
        );
        assert_eq!(log.overwritten, 2);
    }

    #[test]
    fn a_file_is_json_with_times_in_microseconds() {
        let mut logs = [ActionLog::of(2), ActionLog::of(2)];
        logs[1].add(Action::Issue, at(1_002_003, 1_002_503), 7);
        let mut text = Vec::new();
        write(&mut text, &logs.iter().collect::<Vec<_>>(), 77).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(document["otherData"]["started_ns"], 77);
        assert_eq!(
            document["traceEvents"][2],
            json!({"ph": "X", "pid": 1, "tid": 1, "name": "issue", "ts": 1002.003, "dur": 0.5, "args": {"count": 7}})
        );
        assert_eq!(document["traceEvents"].as_array().unwrap().len(), 3);
    }
}
