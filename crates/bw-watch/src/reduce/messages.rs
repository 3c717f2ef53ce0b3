//! The kernel's log in a window: the messages that are kept, and the tasks that were killed for lack of memory.
//!
//! Decision: the report of such a kill has about a hundred lines (calls, registers, counts of memory), which would
//! displace every other message. Only its last line is kept, and what it says of the cgroup, its limit and the task is a
//! `MemoryKill`. Source: mm/oom_kill.c and mm/memcontrol.c of Linux 6.

use super::file::KernelLine;
use super::resource_use::{KERNEL_ERROR, KERNEL_WARNING, KernelMessage, MemoryKill};

/// How many messages, and how many kills, are kept.
const MOST_MESSAGES: usize = 20;
const BEGIN: &str = " invoked oom-killer: ";
const KILL: &str = "oom-kill:constraint=";
/// The longest time that a report takes; one without a task to kill has no last line.
const REPORT_NS: i64 = 1_000_000_000;
/// How far the clock of the log may run ahead (2.2 ms after 3.8 hours on a virtual machine).
const LOG_AHEAD_NS: i64 = 5_000_000;

/// A trial and when its EXEC began and ended [CLOCK_MONOTONIC ns].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TrialSpan {
    pub(super) epoch: i64,
    pub(super) begin_ns: i64,
    pub(super) end_ns: i64,
}

/// The messages in the time of some trials.
#[derive(Debug)]
pub(super) struct WindowMessages {
    trials: Vec<TrialSpan>,
    /// The first messages: warnings and worse; others.
    kept: [Vec<KernelLine>; 2],
    killed: Vec<MemoryKill>,
    /// The first line of a report that has not ended.
    report: Option<KernelLine>,
    /// Of the cgroup of that report [bytes].
    limit: Option<i64>,
}

impl WindowMessages {
    pub(super) fn new(trials: &[TrialSpan]) -> Self {
        Self {
            trials: trials.to_vec(),
            kept: [Vec::new(), Vec::new()],
            killed: Vec::new(),
            report: None,
            limit: None,
        }
    }

    /// Adds a message, in the order of the log.
    pub(super) fn take(&mut self, line: &KernelLine) {
        let begun = self.report.as_ref();
        if begun.is_some_and(|first| line.t.0 - first.t.0 > REPORT_NS) {
            self.end_report();
        }
        if line.text.contains(BEGIN) {
            self.end_report();
            self.report = Some(line.clone());
        } else if line.text.starts_with(KILL) {
            self.kill(line);
        } else if is_end(&line.text) {
            self.report = None;
            self.keep(line);
        } else if self.report.is_none() || line.level <= KERNEL_ERROR {
            self.keep(line);
        } else if let Some(kib) = limit_of(&line.text) {
            self.limit = Some(kib.saturating_mul(1024));
        }
    }

    fn end_report(&mut self) {
        if let Some(first) = self.report.take() {
            self.keep(&first);
        }
        self.limit = None;
    }

    /// Keeps a message written during a trial; the earliest are stored.
    fn keep(&mut self, line: &KernelLine) {
        if self.trial_at(line.t.0).is_none() {
            return;
        }
        let kept = &mut self.kept[usize::from(line.level > KERNEL_WARNING)];
        let place = kept.partition_point(|one| one.t.0 <= line.t.0);
        kept.insert(place, line.clone());
        kept.truncate(MOST_MESSAGES);
    }

    /// Notes a line such as
    /// `oom-kill:constraint=CONSTRAINT_MEMCG,...,oom_memcg=/a,task_memcg=/a,task=sort,pid=7,uid=0`.
    fn kill(&mut self, line: &KernelLine) {
        let limit = self.limit.take();
        let (rest, _uid) = parted(&line.text, ",uid=");
        let (rest, pid) = parted(rest, ",pid=");
        let (rest, name) = parted(rest, ",task=");
        let (rest, _of_task) = parted(rest, ",task_memcg=");
        let cgroup = rest.split_once(",oom_memcg=").map_or("", |parts| parts.1);
        let trial = self.trial_at(line.t.0);
        if self.killed.len() >= MOST_MESSAGES || !pid.bytes().all(|byte| byte.is_ascii_digit()) {
            return;
        }
        if let (Some(trial), Ok(pid)) = (trial, pid.parse()) {
            self.killed.push(MemoryKill {
                pid,
                name: name.to_owned(),
                cgroup: cgroup.to_owned(),
                limit: limit.filter(|_| !cgroup.is_empty()),
                epoch: trial.epoch,
            });
        }
    }

    /// Returns the trial in whose time a message was written; None: in that of none.
    ///
    /// The log's clock runs ahead of the trials' by milliseconds after hours, so a message just after a trial is of it.
    fn trial_at(&self, when_ns: i64) -> Option<TrialSpan> {
        let is_of = |trial: &&TrialSpan, later_ns: i64| {
            (trial.begin_ns..=trial.end_ns.saturating_add(later_ns)).contains(&when_ns)
        };
        let exact = self.trials.iter().find(|trial| is_of(trial, 0));
        let later = || {
            let mut trials = self.trials.iter();
            trials.find(|trial| is_of(trial, LOG_AHEAD_NS))
        };
        exact.or_else(later).copied()
    }

    /// Ends the series.
    pub(super) fn finish(&mut self) {
        self.end_report();
    }

    /// Returns the tasks that were killed, in order.
    pub(super) fn killed(&self) -> Vec<MemoryKill> {
        self.killed.clone()
    }

    /// Returns the messages of a window, after `finish`: warnings and worse, then others.
    pub(super) fn messages(&self, begin_ns: i64, end_ns: i64) -> Vec<KernelMessage> {
        let times = begin_ns..=end_ns.saturating_add(LOG_AHEAD_NS);
        let inside = self.kept.iter().flatten();
        inside
            .filter(|line| times.contains(&line.t.0))
            .take(MOST_MESSAGES)
            .filter_map(|line| {
                let trial = self.trial_at(line.t.0)?;
                Some(KernelMessage {
                    at_s: (line.t.0 - begin_ns) as f64 / 1e9,
                    level: line.level,
                    text: line.text.clone(),
                    epoch: trial.epoch,
                    in_trial_s: (line.t.0 - trial.begin_ns) as f64 / 1e9,
                })
            })
            .collect()
    }
}

/// Returns what is before and after the last `mark`; without it, all is after it.
fn parted<'a>(text: &'a str, mark: &str) -> (&'a str, &'a str) {
    text.rsplit_once(mark).unwrap_or(("", text))
}

/// Returns whether a text is the last line of a report: `Out of memory: Killed process 9 (cc1) ...`.
fn is_end(text: &str) -> bool {
    const KILLED: &str = ": killed process ";
    let text = text.to_ascii_lowercase();
    let begins = text.match_indices("out of memory");
    begins.into_iter().any(|(place, word)| {
        let rest = &text[place + word.len()..];
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        !rest.starts_with(is_word)
            && rest.match_indices(KILLED).any(|(between, _)| {
                let (before, number) = (&rest[..between], &rest[between + KILLED.len()..]);
                before.chars().count() <= 40
                    && !before.contains('\n')
                    && number.starts_with(|c: char| c.is_ascii_digit())
            })
    })
}

/// Returns the limit in `memory: usage 24576kB, limit 24576kB, failcnt 67` [KiB].
fn limit_of(text: &str) -> Option<i64> {
    let (used, rest) = text
        .strip_prefix("memory: usage ")?
        .split_once("kB, limit ")?;
    let (limit, _) = rest.split_once("kB,")?;
    let is_number =
        |text: &str| matches!(text.len(), 1..=20) && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(used) && is_number(limit)).then(|| limit.parse().unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::file::Ns;

    const MS: i64 = 1_000_000;

    #[test]
    fn a_message_just_after_a_trial_is_of_it() {
        let span = |epoch, begin_ms, end_ms| TrialSpan {
            epoch,
            begin_ns: begin_ms * MS,
            end_ns: end_ms * MS,
        };
        // The log's clock runs ahead.
        for (at_ms, epochs) in [
            (50, &[1][..]),
            (103, &[1]),
            (120, &[]),
            (150, &[2]),
            (252, &[2]),
            (260, &[]),
        ] {
            let mut messages = WindowMessages::new(&[span(1, 0, 100), span(2, 150, 250)]);
            messages.take(&KernelLine {
                t: Ns(at_ms * MS),
                level: 3,
                text: "I/O error, dev loop0".to_owned(),
            });
            messages.finish();
            let found = messages.messages(0, 250 * MS);
            let found: Vec<i64> = found.iter().map(|one| one.epoch).collect();
            assert_eq!(found, epochs, "{at_ms} ms");
        }
    }

    #[test]
    fn the_last_line_of_a_report_and_its_limit_are_recognized() {
        let far = format!("out of memory{}: Killed process 9", " ".repeat(41));
        for (text, expected) in [
            ("Out of memory: Killed process 9 (cc1) total-vm:90kB", true),
            (
                "Memory cgroup out of memory: Killed process 812 (so,rt)",
                true,
            ),
            (
                "Out of memory (oom_kill_allocating_task): Killed process 9",
                true,
            ),
            ("out of memory\n: Killed process 9", false),
            ("out of memoryless: Killed process 9", false),
            ("Out of memory: Killed process none", false),
            (far.as_str(), false),
        ] {
            assert_eq!(is_end(text), expected, "{text}");
        }
        let limit = limit_of("memory: usage 24576kB, limit 24570kB, failcnt 67");
        assert_eq!(limit, Some(24570));
        assert_eq!(
            limit_of("memory+swap: usage 1kB, limit 9kB, failcnt 0"),
            None
        );
        assert_eq!(
            limit_of("memory: usage 1kB, limit many kB, failcnt 0"),
            None
        );
    }
}
