//! The xids of calls, each of which a reply repeats.
//!
//! Decision: they are consecutive numbers, and a table finds the slot of one, so that an xid returns after four billion calls:
//! a server that remembers xids to recognise repetitions must not take a call for an earlier one. Rejected: a slot's number
//! and how often it was used, whose xids return the sooner the more slots there are.

/// A cell that is free.
const FREE: u32 = u32::MAX;

/// The xids in use, and to which slots they belong.
#[derive(Debug)]
pub(crate) struct Xids {
    next: u32,
    /// How many were given.
    given: u64,
    /// The slot of an xid, by its lowest bits.
    slots: Box<[u32]>,
}

impl Xids {
    /// Returns xids for calls of `capacity` slots, beginning with `first`.
    pub(crate) fn new(first: u32, capacity: usize) -> Self {
        // Twice as many cells as xids in use: a free one is found soon.
        let cells = (capacity * 2).next_power_of_two();
        Self {
            next: first,
            given: 0,
            slots: vec![FREE; cells].into_boxed_slice(),
        }
    }

    fn cell(&mut self, xid: u32) -> &mut u32 {
        &mut self.slots[xid as usize & (self.slots.len() - 1)]
    }

    /// Returns a new xid for a call of this slot.
    pub(crate) fn give(&mut self, slot: u32) -> u32 {
        loop {
            let xid = self.next;
            self.next = xid.wrapping_add(1);
            self.given += 1;
            let cell = self.cell(xid);
            if *cell == FREE {
                *cell = slot;
                return xid;
            }
        }
    }

    /// Ends the use of an xid.
    pub(crate) fn take_back(&mut self, xid: u32) {
        *self.cell(xid) = FREE;
    }

    /// Returns the only slot that can have this xid, if one can.
    pub(crate) fn slot_of(&self, xid: u32) -> Option<u32> {
        let slot = self.slots[xid as usize & (self.slots.len() - 1)];
        (slot != FREE).then_some(slot)
    }

    /// Returns whether the xid was given before.
    pub(crate) fn was_given(&self, xid: u32) -> bool {
        let ago = self.next.wrapping_sub(1).wrapping_sub(xid);
        u64::from(ago) < self.given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_xid_returns_after_all_others_and_skips_those_in_use() {
        let mut xids = Xids::new(u32::MAX - 1, 2);
        let first = xids.give(0);
        let mut last = first;
        for _ in 0..10 {
            let xid = xids.give(1);
            assert!(xid != first && xid.wrapping_sub(last) <= 2, "{last} {xid}");
            assert_eq!((xids.slot_of(first), xids.slot_of(xid)), (Some(0), Some(1)));
            assert!(xids.was_given(first) && xids.was_given(xid));
            assert!(!xids.was_given(xid.wrapping_add(1)) && !xids.was_given(first - 1));
            xids.take_back(xid);
            assert_eq!(xids.slot_of(xid), None);
            last = xid;
        }
    }
}
