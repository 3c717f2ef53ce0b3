//! A record of the ring buffer as an event that a capture needs: those of the block layer, and forks.
//!
//! Source: Linux `include/trace/events/block.h` and `sched.h` (kernels 5.x to 6.18).
//!
//! Also the processes that belong to a tree: one process and its descendants.

use crate::capture::format::{Field, Format};
use bw_model::Kind;
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

/// The event of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceEvent {
    /// A request went to the driver.
    Issue {
        /// The process in whose context it was issued.
        pid: u32,
        /// What was issued.
        request: BlockRequest,
    },
    /// A request, or the first part of it, completed.
    Complete {
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
    /// The kernel's buffer was full: events before this one are lost.
    Lost,
    /// A record that could not be read.
    Unread,
}

/// The events of requests, by their names in tracefs: issue, completion, requeue.
pub(crate) const BLOCK: [&str; 3] = [
    "block/block_rq_issue",
    "block/block_rq_complete",
    "block/block_rq_requeue",
];
/// The event of a new process.
pub(crate) const FORK: &str = "sched/sched_process_fork";

/// Where a request is in a record.
#[derive(Clone, Copy, Debug)]
struct RequestFields {
    id: u64,
    device: Field,
    flags: Field,
    sector: Field,
    sectors: Field,
}

impl RequestFields {
    fn of(event: &Format) -> Option<Self> {
        Some(Self {
            id: event.id?,
            device: event.field("dev")?,
            flags: event.field("rwbs")?,
            sector: event.field("sector")?,
            sectors: event.field("nr_sector")?,
        })
    }

    fn request(&self, record: &[u8]) -> Option<BlockRequest> {
        // The kernel's own dev_t, which is not the one of user space (include/linux/kdev_t.h).
        let device = u32::try_from(self.device.number(record)?).ok()?;
        Some(BlockRequest {
            device: (device >> 20, device & ((1 << 20) - 1)),
            kind: kind(self.flags.bytes(record)?),
            sector: self.sector.number(record)?,
            sectors: number(self.sectors, record)?,
        })
    }
}

/// Reads records: the fields of the events of this kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventFields {
    id: Field,
    pid: Field,
    error: Field,
    issue: RequestFields,
    complete: RequestFields,
    requeue: RequestFields,
    /// Number of the event, parent and child; None where forks are not recorded.
    fork: Option<(u64, Field, Field)>,
}

impl EventFields {
    /// Returns the fields of the events `BLOCK` and, if they are recorded, of `FORK`, from their descriptions; None if
    /// a field is missing.
    #[must_use]
    pub(crate) fn of(
        [issue, complete, requeue]: &[Format; 3],
        fork: Option<&Format>,
    ) -> Option<Self> {
        Some(Self {
            id: issue.field("common_type")?,
            pid: issue.field("common_pid")?,
            error: complete.field("error")?,
            issue: RequestFields::of(issue)?,
            complete: RequestFields::of(complete)?,
            requeue: RequestFields::of(requeue)?,
            fork: match fork {
                None => None,
                Some(fork) => Some((
                    fork.id?,
                    fork.field("parent_pid")?,
                    fork.field("child_pid")?,
                )),
            },
        })
    }

    /// Returns the event of a record; None if a capture has no use for it.
    #[must_use]
    pub(crate) fn event(&self, record: &[u8]) -> Option<TraceEvent> {
        let id = self.id.number(record);
        let fork = self.fork.filter(|(fork, ..)| Some(*fork) == id);
        let event = if id == Some(self.issue.id) {
            self.issued(record)
        } else if id == Some(self.complete.id) {
            self.completed(record)
        } else if id == Some(self.requeue.id) {
            self.requeue.request(record).map(TraceEvent::Requeue)
        } else if let Some((_, parent, child)) = fork {
            number(parent, record)
                .zip(number(child, record))
                .map(|(parent, child)| TraceEvent::Fork { parent, child })
        } else if id.is_some() {
            return None;
        } else {
            None
        };
        Some(event.unwrap_or(TraceEvent::Unread))
    }

    fn issued(&self, record: &[u8]) -> Option<TraceEvent> {
        let (pid, request) = (number(self.pid, record)?, self.issue.request(record)?);
        Some(TraceEvent::Issue { pid, request })
    }

    fn completed(&self, record: &[u8]) -> Option<TraceEvent> {
        let error = number(self.error, record)?.cast_signed();
        let request = self.complete.request(record)?;
        Some(TraceEvent::Complete { request, error })
    }
}

fn number(field: Field, record: &[u8]) -> Option<u32> {
    u32::try_from(field.number(record)?).ok()
}

/// Returns the operation: `R`, `W`, `D` (also `DE`), `F`; a write with a flush before it is `FW`. Others move no data.
fn kind(flags: &[u8]) -> Option<Kind> {
    match flags.first()? {
        b'R' => Some(Kind::Read),
        b'W' => Some(Kind::Write),
        b'D' => Some(Kind::Discard),
        b'F' => match flags.get(1) {
            Some(b'W') => Some(Kind::Write),
            Some(b'R') => Some(Kind::Read),
            _ => Some(Kind::Flush),
        },
        _ => None,
    }
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
    pub(crate) fn follow(&mut self, parent: u32, child: u32) {
        if self.0.contains(&parent) {
            self.0.insert(child);
        }
    }

    /// Returns whether the process or thread is a member.
    #[must_use]
    pub(crate) fn has(&self, pid: u32) -> bool {
        self.0.contains(&pid)
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
        tree.follow(child.id(), 4_000_001);
        tree.follow(4_000_009, 4_000_002);
        assert!(tree.has(4_000_001));
        assert!(!tree.has(4_000_002));
    }
}

#[cfg(test)]
pub(crate) mod event_tests {
    use super::*;

    /// The fields of Linux 6.18, with forks.
    pub(crate) fn fields() -> EventFields {
        let common = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";
        let request = format!(
            "{common}\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
            \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
            \tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\
            \tfield:int error;\toffset:28;\tsize:4;\tsigned:1;\n\
            \tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n"
        );
        let fork = format!(
            "ID: 9\n{common}\tfield:pid_t parent_pid;\toffset:12;\tsize:4;\tsigned:1;\n\
            \tfield:pid_t child_pid;\toffset:20;\tsize:4;\tsigned:1;\n"
        );
        let events = [1, 2, 3].map(|id| Format::parse(&format!("ID: {id}\n{request}")));
        EventFields::of(&events, Some(&Format::parse(&fork))).unwrap()
    }

    /// Returns the record of an event.
    pub(crate) fn record(event: TraceEvent) -> Vec<u8> {
        let mut record = vec![0; 44];
        let mut put = |offset: usize, value: u32| {
            record[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
        };
        let (id, request) = match event {
            TraceEvent::Issue { pid, request } => {
                put(4, pid);
                (1_u16, request)
            }
            TraceEvent::Complete { request, error } => {
                put(28, error.cast_unsigned());
                (2, request)
            }
            TraceEvent::Requeue(request) => (3, request),
            TraceEvent::Fork { parent, child } => {
                put(12, parent);
                put(20, child);
                record[..2].copy_from_slice(&9_u16.to_ne_bytes());
                return record;
            }
            // Too short for an issue.
            TraceEvent::Lost | TraceEvent::Unread => {
                return [1_u16, 0].map(u16::to_ne_bytes).concat();
            }
        };
        put(8, request.device.0 << 20 | request.device.1);
        put(24, request.sectors);
        record[16..24].copy_from_slice(&request.sector.to_ne_bytes());
        record[34] = match request.kind {
            Some(Kind::Read) => b'R',
            Some(Kind::Write) => b'W',
            Some(Kind::Discard) => b'D',
            Some(Kind::Flush) => b'F',
            _ => b'N',
        };
        record[..2].copy_from_slice(&id.to_ne_bytes());
        record
    }

    #[test]
    fn each_event_is_read_and_others_are_passed_over() {
        let request = BlockRequest {
            device: (259, 77_777),
            kind: Some(Kind::Read),
            sector: 1 << 40,
            sectors: 8,
        };
        for event in [
            TraceEvent::Issue {
                pid: 16836,
                request,
            },
            TraceEvent::Complete { request, error: -5 },
            TraceEvent::Requeue(request),
            TraceEvent::Fork {
                parent: 5,
                child: 99,
            },
        ] {
            let record = record(event);
            assert_eq!(fields().event(&record), Some(event));
            assert_eq!(fields().event(&record[..20]), Some(TraceEvent::Unread));
        }
        assert_eq!(fields().event(&[7; 44]), None);
        assert_eq!(fields().event(&[1]), Some(TraceEvent::Unread));
    }

    #[test]
    fn flags_say_the_kind_also_behind_a_flush() {
        for (flags, expected) in [
            (b"R\0", Some(Kind::Read)),
            (b"WS", Some(Kind::Write)),
            (b"FW", Some(Kind::Write)),
            (b"FF", Some(Kind::Flush)),
            (b"F\0", Some(Kind::Flush)),
            (b"DS", Some(Kind::Discard)),
            (b"DE", Some(Kind::Discard)),
            (b"N\0", None),
        ] {
            assert_eq!(kind(flags), expected, "{flags:?}");
        }
    }
}
