//! The open loop: operations start at the times of the arrival process, whatever the target does.
//!
//! Decision: a source of operations, so that [`Operations`] plays it
//! ahead of time and splits it over workers. An open loop never sees a completion.
//!
//! Also a filament for any sequence of operations that is known ahead of time: a trace, arrivals.
//!
//! Decision: everything that does not depend on completions is a source of blocks, and one
//! filament plays all sources: it emits a block and sets a timer to the block's middle, at which it
//! requests the next block. So a worker has operations half a block before they are due, and
//! generating them does not delay issuing. Rejected: one operation per timer, as in Buttress,
//! which wakes the filament at the very moment at which the operation is due.
//!
//! Each of W workers reads the whole source and keeps every W-th
//! operation: no worker waits for another, and together they issue the whole sequence.

use crate::access::{Access, Numbers};
use crate::arrival::Arrivals;
use crate::filaments::{Emissions, Event, Filament};
use bw_model::{ExchangeAddress, Kind, Nanos, Operation};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The operations of an open loop, in the order of their intended starts.
#[derive(Debug)]
pub struct Open {
    arrivals: Arrivals,
    access: Access,
    left: u64,
}

impl Open {
    /// Returns the open loop with these arrivals; at most `count` of them, all for None.
    #[must_use]
    pub fn new(arrivals: Arrivals, access: Access, count: Option<u64>) -> Self {
        Self {
            arrivals,
            access,
            left: count.unwrap_or(u64::MAX),
        }
    }
}

impl Iterator for Open {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        self.left = self.left.checked_sub(1)?;
        let at = self.arrivals.next()?;
        Some(self.access.next(at))
    }
}

impl OperationSource for Open {
    fn next_block(&mut self, block: &mut Vec<Operation>) -> SourceState {
        fill(block, self)
    }
}

/// Number of operations in a generated block.
pub const BLOCK_OPERATIONS: usize = 64;

/// Delay before a source that had nothing ready is asked again [ns].
pub const ASK_AGAIN: Nanos = Nanos(100_000);

/// The answer of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceState {
    /// The block has at least one operation.
    Ready,
    /// Nothing is ready: the reader is behind. The block is empty; ask again.
    NotYet,
    /// There are no more operations after this block, which may hold the last ones.
    Ended,
}

/// A sequence of operations, handed out in blocks.
pub trait OperationSource: Send {
    /// Fills `block`, which is empty, with the next operations, `at` never decreasing. Must not
    /// block. It may swap the vector for one of its own.
    fn next_block(&mut self, block: &mut Vec<Operation>) -> SourceState;
}

impl OperationSource for Box<dyn OperationSource> {
    fn next_block(&mut self, block: &mut Vec<Operation>) -> SourceState {
        (**self).next_block(block)
    }
}

/// Fills a block from a sequence that never waits.
pub(super) fn fill(
    block: &mut Vec<Operation>,
    operations: &mut impl Iterator<Item = Operation>,
) -> SourceState {
    block.extend(operations.take(BLOCK_OPERATIONS));
    if block.len() == BLOCK_OPERATIONS {
        SourceState::Ready
    } else {
        SourceState::Ended
    }
}

/// The part of a sequence that is kept: the operations whose index is `keep` modulo `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stride {
    /// Below `of`.
    pub keep: u64,
    /// At least 1.
    pub of: u64,
}

impl Stride {
    /// The whole sequence.
    pub const WHOLE: Self = Self { keep: 0, of: 1 };

    /// Returns whether the item with this index is kept.
    #[must_use]
    pub fn keeps(self, index: u64) -> bool {
        index % self.of == self.keep
    }
}

/// Plays a source. Its timers have no meaning except "ask the source".
pub struct Operations<S> {
    source: S,
    stride: Stride,
    /// Index of the next operation of the whole sequence.
    index: u64,
    /// When the last operation of the whole sequence so far was due.
    emitted_until: Nanos,
    block: Vec<Operation>,
    /// None: the source numbers its exchanges.
    numbers: Option<Numbers>,
    starved: Arc<AtomicU64>,
}

impl<S: OperationSource> Operations<S> {
    /// Returns a filament that plays `stride` of `source`. `starved` is incremented each time
    /// the source had nothing ready although everything emitted before was already due.
    pub fn new(source: S, stride: Stride, starved: Arc<AtomicU64>) -> Self {
        Self {
            source,
            stride,
            index: 0,
            emitted_until: Nanos::ZERO,
            block: Vec::with_capacity(BLOCK_OPERATIONS),
            numbers: None,
            starved,
        }
    }

    /// Gives the exchanges of the source these numbers.
    #[must_use]
    pub(crate) fn numbered(self, numbers: Option<Numbers>) -> Self {
        Self { numbers, ..self }
    }

    fn ask(&mut self, at: Nanos, emit: &mut Emissions) {
        self.block.clear();
        let state = self.source.next_block(&mut self.block);
        let middle = self.block.get(self.block.len() / 2).map(|o| o.at);
        self.keep(emit);
        match (state, middle) {
            (SourceState::Ended, _) => {}
            (_, Some(middle)) => emit.timers.push((middle.max(at), 0)),
            (_, None) => self.ask_again(at, emit),
        }
    }

    fn keep(&mut self, emit: &mut Emissions) {
        for operation in &mut self.block {
            if let Some(numbers) = &mut self.numbers
                && operation.kind == Kind::Exchange
            {
                let number = numbers.take();
                let request = ExchangeAddress::unpack(operation.offset).request;
                operation.offset = ExchangeAddress { request, number }.pack();
            }
            if self.stride.keeps(self.index) {
                emit.operations.push(*operation);
            }
            self.index += 1;
            self.emitted_until = operation.at;
        }
    }

    fn ask_again(&mut self, at: Nanos, emit: &mut Emissions) {
        if at >= self.emitted_until {
            // A count, read after the run: no order with other memory matters.
            self.starved.fetch_add(1, Ordering::Relaxed);
        }
        emit.timers.push((at + ASK_AGAIN, 0));
    }
}

impl<S: OperationSource> Filament for Operations<S> {
    fn wake(&mut self, event: Event, emit: &mut Emissions) {
        match event {
            Event::Start => self.ask(Nanos::ZERO, emit),
            Event::Timer { at, .. } => self.ask(at, emit),
            Event::Completed(_) | Event::Message { .. } => {}
        }
    }
}
