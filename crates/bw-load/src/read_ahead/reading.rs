//! The reader's thread: rows to operations, in blocks, into every ring.
//!
//! A full ring is waited for by sleeping: the workers must not pay a system call to wake anyone. The
//! rest is a quarter of the time that lies in the ring, so it is never emptied meanwhile.

use super::{BLOCK, BLOCKS, Block, Outcome};
use crate::exchange::Filler;
use bw_model::Row;
use bw_model::Operation;
use bw_trace::error::TraceError;
use bw_trace::trace::Trace;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

/// The shortest and the longest rest while the rings are full [ns].
const REST_NS: (u64, u64) = (200_000, 20_000_000);

/// What a reader tells.
pub(super) enum News {
    /// The rings are full.
    Filled,
    /// There is nothing more to read.
    Done(Box<Outcome>),
}

/// A trace being read.
pub(super) struct Reading {
    trace: Trace,
    /// None: its worker has gone, or never wanted it.
    rings: Vec<Option<Filler<Block>>>,
    stop: Arc<AtomicBool>,
    tell: Sender<News>,
    block: Block,
    /// When the blocks that may still lie in a ring begin [ns].
    starts: VecDeque<u64>,
    filled: bool,
}

/// How a block ended.
enum End {
    Full,
    OfTrace(Option<TraceError>),
}

impl Reading {
    pub(super) fn new(
        trace: Trace,
        rings: Vec<Option<Filler<Block>>>,
        stop: Arc<AtomicBool>,
        tell: Sender<News>,
    ) -> Self {
        Self {
            trace,
            rings,
            stop,
            tell,
            block: Vec::with_capacity(BLOCK),
            starts: VecDeque::with_capacity(BLOCKS + 1),
            filled: false,
        }
    }

    /// Reads to the end, or until nobody wants more; then tells the outcome.
    pub(super) fn run(mut self, ended: &AtomicBool) {
        let error = loop {
            let end = self.read_block();
            let wanted = self.hand_over();
            match end {
                End::OfTrace(error) => break error,
                End::Full if wanted => {}
                End::Full => break None,
            }
        };
        // Published with the last blocks: whoever sees it finds them in its ring.
        ended.store(true, Ordering::Release);
        let report = self.trace.report();
        // Nobody listens any more if the run ended first.
        drop(
            self.tell
                .send(News::Done(Box::new(Outcome { report, error }))),
        );
    }

    /// Fills the block; less than full if the next row has to be waited for.
    fn read_block(&mut self) -> End {
        self.block.clear();
        while self.block.len() < BLOCK {
            match self.trace.next() {
                Some(Ok(row)) => self.block.push(operation(&row)),
                Some(Err(error)) => return End::OfTrace(Some(error)),
                None => return End::OfTrace(None),
            }
            if !self.trace.at_hand() {
                break;
            }
        }
        End::Full
    }

    /// Copies the block into every ring. Returns false when nobody takes anything any more.
    fn hand_over(&mut self) -> bool {
        let Some(first) = self.block.first() else {
            return true;
        };
        self.starts.push_back(first.at.0);
        if self.starts.len() > BLOCKS {
            self.starts.pop_front();
        }
        for place in 0..self.rings.len() {
            while !self.offer(place) {
                if self.stop.load(Ordering::Relaxed) {
                    return false;
                }
                self.rest();
            }
        }
        self.rings.iter().any(Option::is_some)
    }

    /// Copies the block into one ring; returns false if it has no room now.
    fn offer(&mut self, place: usize) -> bool {
        let Some(ring) = &mut self.rings[place] else {
            return true;
        };
        if ring.is_abandoned() {
            self.rings[place] = None;
            return true;
        }
        if ring.is_full() {
            return false;
        }
        let Some(mut copy) = ring.take() else {
            return false;
        };
        copy.clear();
        copy.extend_from_slice(&self.block);
        // There is room, and only this thread fills it.
        ring.give(copy).is_ok()
    }

    fn rest(&mut self) {
        if !self.filled {
            self.filled = true;
            drop(self.tell.send(News::Filled));
        }
        let newest = self.block.last().map_or(0, |operation| operation.at.0);
        let oldest = self.starts.front().copied().unwrap_or(newest);
        let span = newest.saturating_sub(oldest);
        thread::sleep(Duration::from_nanos((span / 4).clamp(REST_NS.0, REST_NS.1)));
    }
}

fn operation(row: &Row) -> Operation {
    Operation {
        at: row.intended,
        offset: row.offset,
        size: row.size,
        kind: row.kind,
        notify: false,
        tag: 0,
    }
}
