//! One line of a tracefs instance's `trace_pipe`: the block layer's events that a capture needs.
//!
//! A process name may contain anything, so it is not parsed: it always fills the first 16 bytes
//! of a line. The instance shows no interrupt flags:
//!
//! ```text
//!               dd-16836   [001] 24397.271033: block_rq_issue: 7,1 RA 4096 () 120 + 8 be,0,4 [dd]
//!      ksoftirqd/1-22      [001] 24397.271036: block_rq_complete: 7,1 RA () 120 + 8 be,0,4 [0]
//! CPU:1 [LOST 317 EVENTS]
//! ```
//!
//! Source: Linux `include/trace/events/block.h` (kernels 4.x to 6.18; the priority between
//! the sectors and the bracket came with 6.x).
//!
//! Also the processes that belong to a tree: one process and its descendants.

use bw_model::{Kind, Nanos};
use bw_sys::process::ProcessId;
use bw_sys::procfs::{listed_children, threads};
use std::collections::HashSet;

/// A request as the block layer names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRequest {
    /// Major and minor number of the device.
    pub device: (u32, u32),
    /// The operation; None for a kind that moves no data (`N`).
    pub kind: Option<Kind>,
    /// First sector [512 bytes].
    pub sector: u64,
    /// Number of sectors [512 bytes].
    pub sectors: u32,
}

/// The event of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceEvent {
    /// A request went to the driver.
    Issue {
        /// CLOCK_MONOTONIC [ns]; the kernel prints whole microseconds.
        at: Nanos,
        /// The process in whose context it was issued.
        pid: u32,
        /// What was issued.
        request: BlockRequest,
    },
    /// A request, or the first part of it, completed.
    Complete {
        /// CLOCK_MONOTONIC [ns].
        at: Nanos,
        /// What ended.
        request: BlockRequest,
        /// 0, or a negative errno.
        error: i32,
    },
    /// The driver returned a request, which will be issued again.
    Requeue(BlockRequest),
    /// A process started another one.
    Fork {
        /// The one that forked.
        parent: u32,
        /// The new one (or a new thread of the same process).
        child: u32,
    },
    /// The kernel's buffer was full, and this number of events is lost.
    Lost(u64),
    /// Another event, or an empty line.
    Other,
}

/// Length of the process name in every line: TASK_COMM_LEN [bytes].
const NAME: usize = 16;

/// Returns the event of a line; None if the line has an unknown form.
#[must_use]
pub(crate) fn parse(line: &[u8]) -> Option<TraceEvent> {
    if let Some(lost) = line.strip_prefix(b"CPU:") {
        return lost_events(&String::from_utf8_lossy(lost)).map(TraceEvent::Lost);
    }
    if line.trim_ascii().is_empty() {
        return Some(TraceEvent::Other);
    }
    let text = String::from_utf8_lossy(line.get(NAME..)?);
    let (context, rest) = text.split_once("] ")?;
    let (stamp, event) = rest.trim_start().split_once(": ")?;
    let (name, fields) = event.split_once(": ")?;
    let at = stamp_ns(stamp)?;
    match name {
        "block_rq_issue" => {
            let (request, _) = request(fields, true)?;
            let pid = context_pid(context)?;
            Some(TraceEvent::Issue { at, pid, request })
        }
        "block_rq_complete" => {
            let (request, last) = request(fields, false)?;
            let error = last?.parse().ok()?;
            Some(TraceEvent::Complete { at, request, error })
        }
        "block_rq_requeue" => Some(TraceEvent::Requeue(request(fields, false)?.0)),
        "sched_process_fork" => fork(fields),
        _ => Some(TraceEvent::Other),
    }
}

/// Parses `7,1 RA 4096 () 120 + 8 be,0,4 [dd]`; `bytes` only in an issue. Returns the last bracket too.
fn request(fields: &str, with_bytes: bool) -> Option<(BlockRequest, Option<&str>)> {
    let (device, rest) = fields.split_once(' ')?;
    let (major, minor) = device.split_once(',')?;
    let (flags, rest) = rest.split_once(' ')?;
    let rest = if with_bytes {
        rest.split_once(' ')?.1
    } else {
        rest
    };
    // The command of a passthrough request is in brackets and may contain anything.
    let (_, place) = rest.split_once(") ")?;
    let mut words = place.split_whitespace();
    let sector = words.next()?.parse().ok()?;
    (words.next()? == "+").then_some(())?;
    let sectors = words.next()?.parse().ok()?;
    let request = BlockRequest {
        device: (major.parse().ok()?, minor.parse().ok()?),
        kind: kind(flags),
        sector,
        sectors,
    };
    let last = place
        .rsplit_once('[')
        .map(|(_, last)| last.trim_end_matches([']', ' ']));
    Some((request, last))
}

/// Returns the operation: `R`, `W`, `D` (also `DE`), `F`; a write with a flush before it is `FW`. Others move no data.
fn kind(flags: &str) -> Option<Kind> {
    let mut letters = flags.chars();
    match letters.next()? {
        'R' => Some(Kind::Read),
        'W' => Some(Kind::Write),
        'D' => Some(Kind::Discard),
        'F' => match letters.next() {
            Some('W') => Some(Kind::Write),
            Some('R') => Some(Kind::Read),
            _ => Some(Kind::Flush),
        },
        _ => None,
    }
}

/// Parses `comm=sh pid=1 child_comm=sh child_pid=2`; the numbers are searched from the end.
fn fork(fields: &str) -> Option<TraceEvent> {
    let (rest, child) = fields.rsplit_once(" child_pid=")?;
    let (rest, _) = rest.rsplit_once(" child_comm=")?;
    let (_, parent) = rest
        .rsplit_once(" pid=")
        .or_else(|| rest.rsplit_once("pid="))?;
    Some(TraceEvent::Fork {
        parent: parent.trim().parse().ok()?,
        child: child.trim().parse().ok()?,
    })
}

/// Returns the process id in `-16836   [001`, which follows the name.
fn context_pid(context: &str) -> Option<u32> {
    let (pid, _) = context.strip_prefix('-')?.split_once(' ')?;
    pid.parse().ok()
}

/// Converts `24397.271033` to nanoseconds, with integers.
fn stamp_ns(stamp: &str) -> Option<Nanos> {
    let (seconds, fraction) = stamp.split_once('.')?;
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let scale = 10_u64.pow(9 - u32::try_from(fraction.len()).ok()?);
    let seconds: u64 = seconds.parse().ok()?;
    let below: u64 = fraction.parse().ok()?;
    Some(Nanos(
        seconds
            .checked_mul(1_000_000_000)?
            .checked_add(below * scale)?,
    ))
}

/// Returns the number in `1 [LOST 317 EVENTS]`.
fn lost_events(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("[LOST ")?;
    rest.split_once(" EVENTS")?.0.parse().ok()
}

/// The processes and threads of a tree, kept up to date by fork events.
#[derive(Debug)]
pub(crate) struct ProcessTree(HashSet<u32>);

impl ProcessTree {
    /// Returns the tree of `root` as /proc shows it now. Forks between this reading and the first
    /// event would be missing, so start recording forks first.
    #[must_use]
    pub(crate) fn of(root: u32) -> Self {
        let number = |pid: u32| ProcessId::try_from(pid).unwrap_or_default();
        let mut members = HashSet::new();
        let mut unread = vec![root];
        while let Some(process) = unread.pop() {
            if members.insert(process) {
                members.extend(threads(number(process)).into_iter().map(i32::cast_unsigned));
                let children = listed_children(number(process));
                unread.extend(children.into_iter().map(i32::cast_unsigned));
            }
        }
        Self(members)
    }

    /// Follows a fork: the child of a member is a member.
    pub(crate) fn follow(&mut self, line: &TraceEvent) {
        if let TraceEvent::Fork { parent, child } = line
            && self.0.contains(parent)
        {
            self.0.insert(*child);
        }
    }

    /// Returns whether the process or thread is a member.
    #[must_use]
    pub(crate) fn has(&self, pid: u32) -> bool {
        self.0.contains(&pid)
    }
}

#[cfg(test)]
mod event_tests {
    use super::*;
    use proptest::prelude::*;

    fn request_of(kind: Kind, sector: u64, sectors: u32) -> BlockRequest {
        BlockRequest {
            device: (7, 1),
            kind: Some(kind),
            sector,
            sectors,
        }
    }

    #[test]
    fn an_issue_has_its_stamp_process_and_place() {
        let line = b"     [7] -9 ] -1-16836   [001] 24397.271033: block_rq_issue: 7,1 RA 4096 () 120 + 8 be,0,4 [dd ] x]";
        let expected = TraceEvent::Issue {
            at: Nanos(24_397_271_033_000),
            pid: 16836,
            request: request_of(Kind::Read, 120, 8),
        };
        assert_eq!(parse(line), Some(expected));
    }

    #[test]
    fn an_older_kernels_line_without_a_priority_is_read_too() {
        let line = b"           <...>-1 [000] 1.000002: block_rq_complete: 7,1 WS () 16 + 8 [-5]";
        let expected = TraceEvent::Complete {
            at: Nanos(1_000_002_000),
            request: request_of(Kind::Write, 16, 8),
            error: -5,
        };
        assert_eq!(parse(line), Some(expected));
    }

    #[test]
    fn flags_say_the_kind_also_behind_a_flush() {
        for (flags, expected) in [
            ("R", Some(Kind::Read)),
            ("RAM", Some(Kind::Read)),
            ("FWFS", Some(Kind::Write)),
            ("FF", Some(Kind::Flush)),
            ("F", Some(Kind::Flush)),
            ("DS", Some(Kind::Discard)),
            ("DE", Some(Kind::Discard)),
            ("N", None),
        ] {
            assert_eq!(kind(flags), expected, "{flags}");
        }
    }

    #[test]
    fn lost_events_and_forks_are_reported() {
        assert_eq!(
            parse(b"CPU:1 [LOST 317 EVENTS]"),
            Some(TraceEvent::Lost(317))
        );
        let fork = b"           <...>-5 [000] 2.5: sched_process_fork: comm=a pid=7 pid=5 child_comm=a pid=7 child_pid=99";
        assert_eq!(
            parse(fork),
            Some(TraceEvent::Fork {
                parent: 5,
                child: 99
            })
        );
    }

    #[test]
    fn what_is_no_event_is_refused_and_what_is_another_is_passed_over() {
        assert_eq!(parse(b"nonsense"), None);
        assert_eq!(
            parse(b"           <...>-5 [000] 2.5: block_rq_issue: 7,1 R 4096 () x + 8 [a]"),
            None
        );
        assert_eq!(
            parse(b"           <...>-5 [000] 2.5: block_plug: [dd]"),
            Some(TraceEvent::Other)
        );
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in ".{0,200}") {
            let _ = parse(text.as_bytes());
            let line = format!("           <...>-5 [000] 2.5: block_rq_issue: {text}");
            let _ = parse(line.as_bytes());
        }
    }
}

#[cfg(test)]
mod tree_tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_that_runs_already_and_one_that_is_begun_later_are_members() {
        let mut child = Command::new("sleep")
            .arg("60")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut tree = ProcessTree::of(std::process::id());
        assert!(tree.has(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        tree.follow(&TraceEvent::Fork {
            parent: child.id(),
            child: 4_000_001,
        });
        tree.follow(&TraceEvent::Fork {
            parent: 4_000_009,
            child: 4_000_002,
        });
        assert!(tree.has(4_000_001));
        assert!(!tree.has(4_000_002));
    }
}
