//! Rings between threads: blocks that are handed over and returned empty, and messages between workers.
//!
//! Decision: rings for one sender and one receiver (rtrb) instead of channels: neither side allocates, locks or waits, and
//! blocks are reused. A message that finds its ring full stays with the sender and is sent before anything newer.
//! Workers detect together that nothing is left to do: one counter holds the number of active workers plus messages on
//! their way. It is zero only when every worker is idle and no message will wake one.

use bw_model::Nanos;
use bw_schedule::filaments::FilamentId;
use rtrb::{Consumer, Producer, PushError, RingBuffer};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// The side that fills blocks.
#[derive(Debug)]
pub struct BlockSender<T> {
    full: Producer<T>,
    empty: Consumer<T>,
    /// Blocks that were never handed over.
    stock: Vec<T>,
}

/// The side that empties blocks.
#[derive(Debug)]
pub struct BlockReceiver<T> {
    full: Consumer<T>,
    empty: Producer<T>,
}

/// Returns both sides of an exchange with the given empty blocks; up to `capacity` blocks can be on their way.
#[must_use]
pub fn exchange<T>(capacity: usize, empties: Vec<T>) -> (BlockSender<T>, BlockReceiver<T>) {
    let (full, full_out) = RingBuffer::new(capacity);
    let (empty, empty_out) = RingBuffer::new(capacity.max(empties.len()));
    (
        BlockSender {
            full,
            empty: empty_out,
            stock: empties,
        },
        BlockReceiver {
            full: full_out,
            empty,
        },
    )
}

impl<T> BlockSender<T> {
    /// Returns whether the ring has no room for a full block now.
    #[must_use]
    pub(crate) fn is_full(&self) -> bool {
        self.full.is_full()
    }

    /// Returns whether the other side is gone.
    #[must_use]
    pub(crate) fn is_abandoned(&self) -> bool {
        self.full.is_abandoned()
    }

    /// Adds empty blocks, of the thread that will fill them; at most as many as can be on their way.
    pub(crate) fn stock(&mut self, empties: impl Iterator<Item = T>) {
        self.stock.extend(empties);
    }

    /// Takes an empty block, if there is one.
    pub(crate) fn take(&mut self) -> Option<T> {
        self.stock.pop().or_else(|| self.empty.pop().ok())
    }

    /// Hands over a full block.
    ///
    /// # Errors
    /// The ring has no room: the block is returned.
    pub(crate) fn give(&mut self, full: T) -> Result<(), T> {
        self.full
            .push(full)
            .map_err(|rtrb::PushError::Full(full)| full)
    }
}

impl<T> BlockReceiver<T> {
    /// Returns whether the other side is gone; blocks that it handed over before may still be here.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.full.is_abandoned()
    }

    /// Takes a full block, if there is one.
    pub fn take(&mut self) -> Option<T> {
        self.full.pop().ok()
    }

    /// Returns an empty block to the other side. The block is freed if the ring has no room, which does not happen.
    pub fn give(&mut self, empty: T) {
        drop(self.empty.push(empty));
    }
}

const RING: usize = 4096;

/// Interval at which a waiting worker looks for messages: after the first message was sent, and before.
const OFTEN: Nanos = Nanos(50_000);
const NOW_AND_THEN: Nanos = Nanos(1_000_000);

/// A message from one filament to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RemoteMessage {
    /// When the message arrives.
    pub at: Nanos,
    /// The sender.
    pub from: FilamentId,
    /// The receiver.
    pub to: FilamentId,
    /// The content.
    pub payload: u64,
}

/// One worker's ends of the message rings.
#[derive(Debug)]
pub struct MessageLinks {
    own: usize,
    outgoing: Vec<Option<Producer<RemoteMessage>>>,
    incoming: Vec<Consumer<RemoteMessage>>,
    held_back: Vec<VecDeque<RemoteMessage>>,
    open: Arc<AtomicI64>,
    used: Arc<AtomicBool>,
    idle: bool,
}

/// Returns the message links of `workers` workers, all active.
#[must_use]
pub fn mesh(workers: usize) -> Vec<MessageLinks> {
    let open = Arc::new(AtomicI64::new(i64::try_from(workers).unwrap_or(i64::MAX)));
    let used = Arc::new(AtomicBool::new(false));
    let mut links: Vec<MessageLinks> = (0..workers)
        .map(|own| MessageLinks {
            own,
            outgoing: Vec::new(),
            incoming: Vec::new(),
            held_back: vec![VecDeque::new(); workers],
            open: Arc::clone(&open),
            used: Arc::clone(&used),
            idle: false,
        })
        .collect();
    for from in 0..workers {
        for to in 0..workers {
            let ring = (from != to).then(|| RingBuffer::new(RING));
            let (producer, consumer) = ring.unzip();
            links[from].outgoing.push(producer);
            links[to].incoming.extend(consumer);
        }
    }
    links
}

impl MessageLinks {
    /// Returns the worker of a filament that is not on this one.
    #[must_use]
    pub(crate) fn worker_of(&self, filament: FilamentId) -> usize {
        filament as usize % self.outgoing.len()
    }

    /// Returns how long a waiting worker need not look for messages; [`Nanos::NEVER`] if it is the only worker.
    #[must_use]
    pub(crate) fn poll_limit(&self) -> Nanos {
        match (self.incoming.is_empty(), self.used.load(Ordering::Relaxed)) {
            (true, _) => Nanos::NEVER,
            (false, true) => OFTEN,
            (false, false) => NOW_AND_THEN,
        }
    }

    /// Returns whether these are the links of that worker.
    #[must_use]
    pub(crate) fn is_own(&self, worker: usize) -> bool {
        worker == self.own
    }

    /// Sends a message to another worker. A message to the worker itself is discarded: that is the caller's error.
    pub(crate) fn send(&mut self, worker: usize, message: RemoteMessage) {
        self.used.store(true, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::AcqRel);
        self.held_back[worker].push_back(message);
        self.send_held_back();
    }

    /// Moves the messages that were held back into the rings, as far as there is room.
    pub(crate) fn send_held_back(&mut self) {
        for (waiting, ring) in self.held_back.iter_mut().zip(&mut self.outgoing) {
            while let (Some(message), Some(ring)) = (waiting.front(), ring.as_mut()) {
                if let Err(PushError::Full(_)) = ring.push(*message) {
                    break;
                }
                waiting.pop_front();
            }
        }
    }

    /// Takes one message that has arrived, if there is one; the worker is active from then on.
    #[inline]
    pub(crate) fn receive(&mut self) -> Option<RemoteMessage> {
        let message = self.incoming.iter_mut().find_map(|ring| ring.pop().ok())?;
        if self.idle {
            self.idle = false;
        } else {
            // The message's share of the count; if the worker was idle, the share becomes the worker's.
            self.open.fetch_sub(1, Ordering::AcqRel);
        }
        Some(message)
    }

    /// Reports that this worker has nothing left to do; returns whether all workers are idle, which is then final.
    pub(crate) fn become_idle(&mut self) -> bool {
        if !self.idle && self.held_back.iter().all(VecDeque::is_empty) {
            self.idle = true;
            self.open.fetch_sub(1, Ordering::AcqRel);
        }
        self.open.load(Ordering::Acquire) == 0
    }

    /// Leaves the mesh: this worker's run is over, and the others do not wait for it.
    pub(crate) fn close(&mut self) {
        if !self.idle {
            self.idle = true;
            self.open.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_full_goes_over_and_what_is_empty_comes_back() {
        let (mut sender, mut receiver) = exchange(2, vec![0]);
        assert_eq!((sender.take(), sender.take()), (Some(0), None));
        assert_eq!([1, 2, 3].map(|n| sender.give(n)), [Ok(()), Ok(()), Err(3)]);
        assert!(sender.is_full());
        assert_eq!(receiver.take(), Some(1));
        receiver.give(7);
        assert_eq!(sender.take(), Some(7));
        drop(receiver);
        assert!(sender.is_abandoned());
    }

    fn message(payload: u64) -> RemoteMessage {
        RemoteMessage {
            at: Nanos(1),
            from: 0,
            to: 1,
            payload,
        }
    }

    #[test]
    fn a_message_on_its_way_keeps_all_workers_going() {
        let mut links = mesh(2);
        links[0].send(1, message(7));
        assert!(!links[1].become_idle() && !links[0].become_idle());
        assert_eq!(links[1].receive(), Some(message(7)));
        assert!(!links[0].become_idle());
        assert!(links[1].become_idle() && links[0].become_idle());
    }

    #[test]
    fn more_messages_than_a_ring_holds_arrive_in_order() {
        let mut links = mesh(2);
        let many = RING as u64 + 100;
        (0..many).for_each(|n| links[0].send(1, message(n)));
        assert!(!links[0].become_idle());
        for n in 0..many {
            assert_eq!(links[1].receive(), Some(message(n)));
            links[0].send_held_back();
        }
        assert!(links[1].receive().is_none());
        assert!(!links[0].become_idle() || links[1].become_idle());
    }

    #[test]
    fn rings_are_read_often_once_messages_are_sent() {
        let mut links = mesh(2);
        assert_eq!(links[1].poll_limit(), NOW_AND_THEN);
        links[0].send(1, message(1));
        assert_eq!(links[1].poll_limit(), OFTEN);
        assert_eq!(mesh(1)[0].poll_limit(), Nanos::NEVER);
    }

    #[test]
    fn a_single_worker_that_is_idle_is_the_end() {
        assert!(mesh(1)[0].become_idle());
    }
}
