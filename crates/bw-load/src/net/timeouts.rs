//! Which operations have been under way for too long.
//!
//! Decision: every operation has the same limit, so the order of their starts is the order in which they are
//! due: a doubly linked list over the slots does, where starting and ending cost the same at any depth and
//! nothing allocates. A timer wheel lost: it is for limits that differ.

use bw_model::Nanos;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    due_ns: u64,
    previous: u32,
    next: u32,
    listed: bool,
}

/// The operations under way, the first to be due first.
#[derive(Debug)]
pub struct Timeouts {
    limit: Option<Nanos>,
    entries: Box<[Entry]>,
    first: u32,
    last: u32,
}

impl Timeouts {
    /// Returns an empty list for `slots` operations; without a limit it stays empty.
    pub fn new(limit: Option<Nanos>, slots: usize) -> Self {
        let entry = Entry {
            due_ns: 0,
            previous: NONE,
            next: NONE,
            listed: false,
        };
        Self {
            limit,
            entries: vec![entry; slots].into_boxed_slice(),
            first: NONE,
            last: NONE,
        }
    }

    /// Notes that the operation of `slot` starts at `now_ns()`, which is called only where there is a limit.
    pub fn start(&mut self, slot: u32, now_ns: impl FnOnce() -> u64) {
        let Some(limit) = self.limit else { return };
        self.end(slot);
        let Some(entry) = self.entries.get_mut(slot as usize) else {
            return;
        };
        *entry = Entry {
            due_ns: now_ns().saturating_add(limit.0),
            previous: self.last,
            next: NONE,
            listed: true,
        };
        match self.last {
            NONE => self.first = slot,
            last => self.entries[last as usize].next = slot,
        }
        self.last = slot;
    }

    /// Notes that the operation of `slot` has ended.
    pub fn end(&mut self, slot: u32) {
        let Some(entry) = self.entries.get_mut(slot as usize) else {
            return;
        };
        if !std::mem::replace(&mut entry.listed, false) {
            return;
        }
        let Entry { previous, next, .. } = *entry;
        match previous {
            NONE => self.first = next,
            previous => self.entries[previous as usize].next = next,
        }
        match next {
            NONE => self.last = previous,
            next => self.entries[next as usize].previous = previous,
        }
    }

    /// Returns the operation that is due first, and when.
    pub fn first(&self) -> Option<(u32, u64)> {
        let entry = self.entries.get(self.first as usize)?;
        Some((self.first, entry.due_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_the_one_that_has_been_under_way_longest(
            steps in prop::collection::vec((0u32..8, any::<bool>()), 0..200),
        ) {
            let mut timeouts = Timeouts::new(Some(Nanos(100)), 8);
            let mut model: Vec<(u32, u64)> = Vec::new();
            for (now, (slot, starts)) in (0..).zip(steps) {
                model.retain(|(other, _)| *other != slot);
                if starts {
                    model.push((slot, now + 100));
                    timeouts.start(slot, || now);
                } else {
                    timeouts.end(slot);
                }
                prop_assert_eq!(timeouts.first(), model.first().copied());
            }
        }
    }

    #[test]
    fn without_a_limit_no_clock_is_read_and_nothing_is_due() {
        let mut timeouts = Timeouts::new(None, 1);
        timeouts.start(0, || unreachable!());
        assert_eq!(timeouts.first(), None);
    }
}
