//! Things handed over whole to another thread, and empty ones that come back to be filled again.
//!
//! Decision: two rings (rtrb) instead of a channel: neither side allocates or waits, and the memory of
//! what is handed over is used again.

use rtrb::{Consumer, Producer, RingBuffer};

/// The side that fills.
#[derive(Debug)]
pub struct Filler<T> {
    full: Producer<T>,
    empty: Consumer<T>,
}

/// The side that empties.
#[derive(Debug)]
pub struct Emptier<T> {
    full: Consumer<T>,
    empty: Producer<T>,
}

/// Returns both sides, with so many empty ones made beforehand, and room for `capacity` under way.
#[must_use]
pub fn exchange<T>(capacity: usize, empties: Vec<T>) -> (Filler<T>, Emptier<T>) {
    let (full, full_out) = RingBuffer::new(capacity);
    let (mut empty, empty_out) = RingBuffer::new(capacity.max(empties.len()));
    // The ring has room for all of them.
    empties.into_iter().for_each(|one| drop(empty.push(one)));
    (
        Filler {
            full,
            empty: empty_out,
        },
        Emptier {
            full: full_out,
            empty,
        },
    )
}

impl<T> Filler<T> {
    /// Returns whether something full would find no room now.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.full.is_full()
    }

    /// Returns whether the other side is gone.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.full.is_abandoned()
    }

    /// Takes an empty one, if one is there.
    pub fn take(&mut self) -> Option<T> {
        self.empty.pop().ok()
    }

    /// Hands over a full one.
    ///
    /// # Errors
    /// There is no room: it is given back.
    pub fn give(&mut self, full: T) -> Result<(), T> {
        self.full
            .push(full)
            .map_err(|rtrb::PushError::Full(full)| full)
    }
}

impl<T> Emptier<T> {
    /// Returns whether the other side is gone; what it handed over before may still be here.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.full.is_abandoned()
    }

    /// Takes a full one, if one is there.
    pub fn take(&mut self) -> Option<T> {
        self.full.pop().ok()
    }

    /// Gives an empty one back; there are never more of them than the ring has room for, or it is freed.
    pub fn give(&mut self, empty: T) {
        drop(self.empty.push(empty));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_full_goes_over_and_what_is_empty_comes_back() {
        let (mut filler, mut emptier) = exchange(2, vec![0]);
        assert_eq!((filler.take(), filler.take()), (Some(0), None));
        assert_eq!([1, 2, 3].map(|n| filler.give(n)), [Ok(()), Ok(()), Err(3)]);
        assert!(filler.is_full());
        assert_eq!(emptier.take(), Some(1));
        emptier.give(7);
        assert_eq!(filler.take(), Some(7));
        drop(emptier);
        assert!(filler.is_abandoned());
    }
}
