//! Pairs issues with completions into rows, in the order of issue.
//!
//! Decision: a row is written when every row before it has been written, so the output is sorted by
//! issue and only requests in flight are stored. A request whose completion was not seen (lost events, the
//! end of the capture) is written without one.
//! A completion is matched by device and first sector. A replay may have several requests in flight at one
//! place: of these, the oldest of the same kind and length ends. Flushes have no sector and
//! end in the order of their issue. Only after lost events is an older request at the
//! place of a new one assumed to have completed unseen.

use crate::capture::events::BlockRequest;
use bw_model::{Kind, Nanos, Row};
use std::collections::{HashMap, VecDeque};

const SECTOR_BYTES: u64 = 512;

/// The key of a request in flight: its device, whether it is a flush, and its first sector.
type RequestKey = ((u32, u32), bool, u64);

/// The requests that were issued and not written yet.
#[derive(Debug, Default)]
pub(crate) struct Pairing {
    rows: VecDeque<PendingRequest>,
    /// For each request in flight: its number in the order of issue.
    in_flight: HashMap<RequestKey, VecDeque<u64>>,
    /// The number of `rows[0]`.
    first: u64,
    /// Requests below this number may have completed unseen.
    doubtful: u64,
    /// Completions of requests that were issued before the capture, or by other processes.
    pub strangers: u64,
}

#[derive(Debug)]
struct PendingRequest {
    row: Row,
    sectors_left: u32,
    ended: bool,
}

impl Pairing {
    /// Adds an issue. `device` is the index in the trace's list of devices.
    pub(crate) fn issue(&mut self, at: Nanos, request: BlockRequest, (device, stream): (u16, u32)) {
        let Some(kind) = request.kind else { return };
        let row = Row {
            intended: at,
            issued: at,
            completed: Nanos::NEVER,
            offset: request.sector * SECTOR_BYTES,
            size: u32::try_from(u64::from(request.sectors) * SECTOR_BYTES).unwrap_or(u32::MAX),
            result: 0,
            stream,
            device,
            kind,
        };
        let number = self.first + self.rows.len() as u64;
        let numbers = self.in_flight.entry(key(&request)).or_default();
        if request.kind != Some(Kind::Flush) {
            numbers.retain(|older| *older >= self.doubtful);
        }
        numbers.push_back(number);
        self.rows.push_back(PendingRequest {
            row,
            sectors_left: request.sectors,
            ended: false,
        });
    }

    /// Handles the completion of a request, or of its first part.
    pub(crate) fn complete(&mut self, at: Nanos, request: BlockRequest, error: i32) {
        let Some(number) = self.take(&request) else {
            self.strangers += 1;
            return;
        };
        let Some(waiting) = self.waiting(number) else {
            return;
        };
        waiting.sectors_left = waiting.sectors_left.saturating_sub(request.sectors);
        if waiting.sectors_left > 0 && error == 0 && request.sectors > 0 {
            // The rest continues where this part ended.
            let rest = BlockRequest {
                sector: request.sector + u64::from(request.sectors),
                ..request
            };
            self.in_flight
                .entry(key(&rest))
                .or_default()
                .push_front(number);
            return;
        }
        waiting.ended = true;
        waiting.row.completed = at;
        waiting.row.result = match error {
            0 => i32::try_from(waiting.row.size).unwrap_or(i32::MAX),
            error => error,
        };
    }

    /// Notes that events were lost: completions of requests in flight may be among them.
    pub(crate) fn doubt(&mut self) {
        self.doubtful = self.first + self.rows.len() as u64;
    }

    /// Removes an issue that the driver returned: it will be issued again.
    pub(crate) fn requeue(&mut self, request: BlockRequest) {
        if let Some(number) = self.take(&request)
            && let Some(at) = self.index(number)
        {
            // Later numbers must stay valid, so the row remains and is marked as left out.
            self.rows[at].ended = true;
            self.rows[at].row.issued = Nanos::NEVER;
        }
    }

    /// Passes finished rows to `write`. With `limit`, the oldest are written unfinished until no more than that wait.
    ///
    /// # Errors
    /// Those of `write`.
    pub(crate) fn leave<E>(
        &mut self,
        limit: usize,
        mut write: impl FnMut(&Row) -> Result<(), E>,
    ) -> Result<(), E> {
        while self.rows.front().is_some_and(|oldest| oldest.ended) || self.rows.len() > limit {
            let Some(oldest) = self.rows.pop_front() else {
                break;
            };
            self.first += 1;
            if oldest.row.issued != Nanos::NEVER {
                write(&oldest.row)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, request: &BlockRequest) -> Option<u64> {
        let numbers = self.in_flight.get_mut(&key(request))?;
        let (first, rows) = (self.first, &self.rows);
        let like = |number: &u64| {
            let at = usize::try_from(number.checked_sub(first)?).ok()?;
            let waiting = rows.get(at)?;
            let same = waiting.sectors_left == request.sectors;
            Some(same && Some(waiting.row.kind) == request.kind)
        };
        let at = numbers.iter().position(|number| like(number) == Some(true));
        let number = numbers.remove(at.unwrap_or(0));
        if numbers.is_empty() {
            self.in_flight.remove(&key(request));
        }
        number
    }

    fn index(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    fn waiting(&mut self, number: u64) -> Option<&mut PendingRequest> {
        let at = self.index(number)?;
        self.rows.get_mut(at)
    }
}

fn key(request: &BlockRequest) -> RequestKey {
    let flush = request.kind == Some(Kind::Flush);
    (
        request.device,
        flush,
        if flush { 0 } else { request.sector },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sector: u64, sectors: u32) -> BlockRequest {
        BlockRequest {
            device: (7, 1),
            kind: Some(Kind::Read),
            sector,
            sectors,
        }
    }

    fn left(pairing: &mut Pairing, limit: usize) -> Vec<(u64, u64, i32)> {
        let mut rows = Vec::new();
        pairing
            .leave(limit, |row| {
                rows.push((row.offset / 512, row.completed.0, row.result));
                Ok::<(), ()>(())
            })
            .unwrap();
        rows
    }

    #[test]
    fn rows_leave_in_the_order_of_issue() {
        let mut pairing = Pairing::default();
        pairing.issue(Nanos(1), read(8, 8), (0, 1));
        pairing.issue(Nanos(2), read(16, 8), (0, 1));
        pairing.complete(Nanos(5), read(16, 8), 0);
        assert_eq!(left(&mut pairing, 9), []);
        pairing.complete(Nanos(7), read(8, 8), -5);
        assert_eq!(left(&mut pairing, 9), [(8, 7, -5), (16, 5, 4096)]);
    }

    #[test]
    fn a_request_that_ends_in_parts_ends_with_the_last() {
        let mut pairing = Pairing::default();
        pairing.issue(Nanos(1), read(8, 24), (0, 1));
        pairing.complete(Nanos(5), read(8, 8), 0);
        pairing.complete(Nanos(6), read(16, 16), 0);
        assert_eq!(left(&mut pairing, 9), [(8, 6, 24 * 512)]);
        assert_eq!(pairing.strangers, 0);
    }

    #[test]
    fn what_was_given_back_counts_once() {
        let mut pairing = Pairing::default();
        pairing.issue(Nanos(1), read(8, 8), (0, 1));
        pairing.requeue(read(8, 8));
        pairing.issue(Nanos(3), read(8, 8), (0, 1));
        pairing.complete(Nanos(4), read(8, 8), 0);
        assert_eq!(left(&mut pairing, 9), [(8, 4, 4096)]);
    }

    #[test]
    fn an_unfinished_request_leaves_without_an_end() {
        let mut pairing = Pairing::default();
        pairing.complete(Nanos(1), read(99, 8), 0);
        pairing.issue(Nanos(2), read(8, 8), (0, 1));
        assert_eq!(left(&mut pairing, 0), [(8, u64::MAX, 0)]);
        // Its completion comes too late: its request has been dropped.
        pairing.complete(Nanos(9), read(8, 8), 0);
        assert_eq!(left(&mut pairing, 0), []);
        assert_eq!(pairing.strangers, 1);
    }

    #[test]
    fn several_at_one_place_end_each_once() {
        let mut pairing = Pairing::default();
        pairing.issue(Nanos(1), read(8, 8), (0, 1));
        pairing.issue(Nanos(2), read(8, 16), (0, 1));
        pairing.issue(Nanos(3), read(8, 8), (0, 1));
        pairing.complete(Nanos(4), read(8, 16), 0);
        pairing.complete(Nanos(5), read(8, 8), 0);
        pairing.complete(Nanos(6), read(8, 8), 0);
        assert_eq!(
            left(&mut pairing, 9),
            [(8, 5, 4096), (8, 4, 8192), (8, 6, 4096)]
        );
        assert_eq!(pairing.strangers, 0);
    }

    #[test]
    fn a_lost_end_does_not_take_the_end_of_the_next() {
        let mut pairing = Pairing::default();
        pairing.issue(Nanos(1), read(8, 8), (0, 1));
        pairing.doubt();
        pairing.issue(Nanos(5), read(8, 8), (0, 1));
        pairing.complete(Nanos(6), read(8, 8), 0);
        assert_eq!(left(&mut pairing, 0), [(8, u64::MAX, 0), (8, 6, 4096)]);
    }

    #[test]
    fn flushes_end_in_the_order_of_their_issue() {
        let flush = BlockRequest {
            device: (7, 1),
            kind: Some(Kind::Flush),
            sector: 0,
            sectors: 0,
        };
        let mut pairing = Pairing::default();
        pairing.issue(Nanos(1), flush, (0, 1));
        pairing.issue(Nanos(2), flush, (0, 1));
        pairing.complete(Nanos(3), flush, 0);
        pairing.complete(Nanos(4), flush, 0);
        assert_eq!(left(&mut pairing, 9), [(0, 3, 0), (0, 4, 0)]);
    }
}
