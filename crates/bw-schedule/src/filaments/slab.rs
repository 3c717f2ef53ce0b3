//! Items under small numbers that are used again: sessions, and operations somebody waits for.

/// Items that are found by the number that `insert` gave them.
#[derive(Debug)]
pub struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Keeps `item` and returns its number, the one freed last if there is one.
    ///
    /// # Panics
    /// There are 2^32 items already: more than fit any memory.
    pub fn insert(&mut self, item: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self.items[number as usize] = Some(item);
            return number;
        }
        let number = u32::try_from(self.items.len()).expect("fewer than 2^32 items");
        self.items.push(Some(item));
        number
    }

    /// Returns the item with this number, to be changed.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.items.get_mut(number as usize)?.as_mut()
    }

    /// Returns the item with this number and forgets it.
    pub fn remove(&mut self, number: u32) -> Option<T> {
        let item = self.items.get_mut(number as usize)?.take();
        if item.is_some() {
            self.free.push(number);
        }
        item
    }

    /// Returns how many items there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_number_is_used_again_and_a_wrong_one_finds_nothing() {
        let mut slab = Slab::default();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!(slab.remove(a), Some('a'));
        assert_eq!(slab.remove(a), None);
        assert_eq!(slab.insert('c'), a);
        assert_eq!(slab.get_mut(b), Some(&mut 'b'));
        assert_eq!(slab.get_mut(7), None);
        assert_eq!(slab.len(), 2);
    }
}
