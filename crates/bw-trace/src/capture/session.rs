//! One capture while it runs: lines in, rows out.

use super::CaptureResult;
use super::devices::Devices;
use super::event::{Line, Request, parse};
use super::pairing::Pairing;
use super::tree::Tree;
use crate::error::TraceError;
use bw_model::Row;
use bw_model::Nanos;

/// More requests than this are never in flight; beyond it the oldest leave without an end.
const PENDING: usize = 1 << 16;

/// The state of a capture. Pure: it is given lines and a place for rows.
#[derive(Debug)]
pub struct Session {
    devices: Devices,
    tree: Option<Tree>,
    pairing: Pairing,
    /// The end of the text so far: a line that is not whole yet.
    part: Vec<u8>,
    /// The stamp of the first operation: the trace's zero.
    zero: Option<Nanos>,
    result: CaptureResult,
}

impl Session {
    /// Returns a session that has seen nothing.
    #[must_use]
    pub fn new(devices: Devices, tree: Option<Tree>) -> Self {
        let result = CaptureResult {
            devices: devices.names.clone(),
            ..CaptureResult::default()
        };
        let (pairing, part, zero) = (Pairing::default(), Vec::new(), None);
        Self {
            devices,
            tree,
            pairing,
            part,
            zero,
            result,
        }
    }

    /// Takes in text as it comes, lines cut anywhere; hands over the rows that are finished.
    ///
    /// # Errors
    /// What `write` says.
    pub fn take(
        &mut self,
        text: &[u8],
        write: &mut impl FnMut(&Row) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        let mut rest = text;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.part.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.part);
            self.line(&line);
            self.part = line;
            self.part.clear();
        }
        self.part.extend_from_slice(rest);
        self.leave(PENDING, write)
    }

    /// Hands over what is left, finished or not, and returns what was recorded.
    ///
    /// # Errors
    /// What `write` says.
    pub fn finish(
        mut self,
        write: &mut impl FnMut(&Row) -> Result<(), TraceError>,
    ) -> Result<CaptureResult, TraceError> {
        self.leave(0, write)?;
        self.result.strangers = self.pairing.strangers;
        self.result.zero_monotonic_ns = self.zero.map(|zero| zero.0);
        Ok(self.result)
    }

    fn line(&mut self, line: &[u8]) {
        match parse(line) {
            None => self.result.unread_lines += 1,
            Some(Line::Issue { at, pid, request }) => self.issue(at, pid, request),
            Some(Line::Complete { at, request, error }) => {
                self.pairing.complete(at, request, error);
            }
            Some(Line::Requeue(request)) => self.pairing.requeue(request),
            Some(Line::Lost(events)) => {
                self.result.lost_events += events;
                self.pairing.doubt();
            }
            Some(fork @ Line::Fork { .. }) => {
                if let Some(tree) = &mut self.tree {
                    tree.follow(&fork);
                }
            }
            Some(Line::Other) => {}
        }
    }

    fn issue(&mut self, at: Nanos, pid: u32, request: Request) {
        if self.tree.as_ref().is_some_and(|tree| !tree.has(pid)) {
            return;
        }
        let Some(device) = self.devices.index(request.device) else {
            self.result.new_devices += 1;
            return;
        };
        self.zero.get_or_insert(at);
        self.pairing.issue(at, request, (device, pid));
    }

    fn leave(
        &mut self,
        limit: usize,
        write: &mut impl FnMut(&Row) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        let (zero, result) = (self.zero.unwrap_or_default(), &mut self.result);
        self.pairing.leave(limit, |row| {
            let mut row = *row;
            row.intended = row.intended - zero;
            row.issued = row.issued - zero;
            if row.completed == Nanos::NEVER {
                result.unfinished += 1;
            } else {
                row.completed = row.completed - zero;
            }
            result.operations += 1;
            write(&row)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
           <...>-50 [000] 10.000000: sched_process_fork: comm=a pid=50 child_comm=a child_pid=51
           <...>-51 [000] 10.000010: block_rq_issue: 7,1 R 4096 () 8 + 8 none,0,0 [a]
           <...>-99 [000] 10.000011: block_rq_issue: 7,1 R 4096 () 96 + 8 none,0,0 [b]
CPU:0 [LOST 3 EVENTS]
           <...>-51 [000] 10.000020: block_rq_issue: 7,1 WS 8192 () 16 + 16 none,0,0 [a]
garbage
           <...>-2 [001] 10.000110: block_rq_complete: 7,1 WS () 16 + 16 none,0,0 [0]
           <...>-2 [001] 10.000120: block_rq_complete: 7,1 R () 96 + 8 none,0,0 [0]
           <...>-51 [000] 10.000200: block_rq_issue: 9,9 R 4096 () 8 + 8 none,0,0 [a]
";

    fn session() -> Session {
        let devices = Devices::of(&[("loop1", (7, 1))]);
        let mut tree = Tree::of(u32::MAX);
        tree.follow(&Line::Fork {
            parent: u32::MAX,
            child: 50,
        });
        Session::new(devices, Some(tree))
    }

    #[test]
    fn a_tree_is_told_from_the_others_however_the_text_is_cut() {
        for cut in 1..TEXT.len() {
            let mut rows = Vec::new();
            let mut write = |row: &Row| {
                rows.push((row.intended.0, row.offset, row.completed.0, row.stream));
                Ok(())
            };
            let mut session = session();
            for piece in TEXT.as_bytes().chunks(cut) {
                session.take(piece, &mut write).unwrap();
            }
            let result = session.finish(&mut write).unwrap();
            assert_eq!(
                rows,
                [(0, 4096, u64::MAX, 51), (10_000, 8192, 100_000, 51)],
                "{cut}"
            );
            let told = (
                result.operations,
                result.unfinished,
                result.lost_events,
                result.strangers,
            );
            assert_eq!(told, (2, 1, 3, 1));
            assert_eq!((result.unread_lines, result.new_devices), (1, 1));
            assert_eq!(result.zero_monotonic_ns, Some(10_000_010_000));
        }
    }
}
