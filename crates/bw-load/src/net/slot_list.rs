//! Lists of slots, and time limits. A slot is in one of the lists of its links at most, and leaves it at the same cost wherever it
//! stands; nothing allocates.

use bw_model::Nanos;

/// No slot.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Links {
    previous: u32,
    next: u32,
    listed: bool,
}

/// The ends of a list; its order is in [`SlotLinks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotList {
    first: u32,
    last: u32,
    length: u32,
}

impl Default for SlotList {
    fn default() -> Self {
        Self {
            first: NONE,
            last: NONE,
            length: 0,
        }
    }
}

impl SlotList {
    /// Returns the first slot.
    pub(crate) fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// Returns how many slots it has.
    #[inline]
    pub(crate) fn length(&self) -> u32 {
        self.length
    }

    /// Returns whether it has none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// The order of the slots of any number of lists.
#[derive(Debug)]
pub(crate) struct SlotLinks(Box<[Links]>);

impl SlotLinks {
    /// Returns links of slots below `slots`, which are in no list.
    pub(crate) fn new(slots: usize) -> Self {
        let links = Links {
            previous: NONE,
            next: NONE,
            listed: false,
        };
        Self(vec![links; slots].into_boxed_slice())
    }

    /// Appends a slot that is in no list.
    pub(crate) fn push(&mut self, list: &mut SlotList, slot: u32) {
        debug_assert!(!self.0[slot as usize].listed, "a slot is in one list only");
        self.0[slot as usize] = Links {
            previous: list.last,
            next: NONE,
            listed: true,
        };
        match list.last {
            NONE => list.first = slot,
            last => self.0[last as usize].next = slot,
        }
        list.last = slot;
        list.length += 1;
    }

    /// Removes a slot from the list that it is in; returns whether it was in one.
    pub(crate) fn remove(&mut self, list: &mut SlotList, slot: u32) -> bool {
        let Some(links) = self.0.get_mut(slot as usize) else {
            return false;
        };
        if !std::mem::replace(&mut links.listed, false) {
            return false;
        }
        let Links { previous, next, .. } = *links;
        match previous {
            NONE => list.first = next,
            previous => self.0[previous as usize].next = next,
        }
        match next {
            NONE => list.last = previous,
            next => self.0[next as usize].previous = previous,
        }
        list.length -= 1;
        true
    }

    /// Removes the first slot, and returns it.
    pub(crate) fn pop(&mut self, list: &mut SlotList) -> Option<u32> {
        let slot = list.first()?;
        self.remove(list, slot);
        Some(slot)
    }
}

/// What is in progress under a common time limit, in the order in which it expires.
#[derive(Debug)]
pub(crate) struct Timeouts {
    limit: Option<Nanos>,
    due_ns: Box<[u64]>,
    links: SlotLinks,
    list: SlotList,
}

impl Timeouts {
    /// Returns an empty list for `slots` operations; without a limit it stays empty.
    pub(crate) fn new(limit: Option<Nanos>, slots: usize) -> Self {
        Self {
            limit,
            due_ns: vec![0; slots].into_boxed_slice(),
            links: SlotLinks::new(slots),
            list: SlotList::default(),
        }
    }

    /// Adds the operation of `slot`, which starts at `now_ns()`; the clock is read only if there is a limit.
    pub(crate) fn start(&mut self, slot: u32, now_ns: impl FnOnce() -> u64) {
        let Some(limit) = self.limit else { return };
        self.end(slot);
        self.due_ns[slot as usize] = now_ns().saturating_add(limit.0);
        self.links.push(&mut self.list, slot);
    }

    /// Removes the operation of `slot`, which has ended.
    pub(crate) fn end(&mut self, slot: u32) {
        self.links.remove(&mut self.list, slot);
    }

    /// Returns the operation that expires first, and when.
    pub(crate) fn first(&self) -> Option<(u32, u64)> {
        let slot = self.list.first()?;
        Some((slot, self.due_ns[slot as usize]))
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
