//! The state of a file set during a run: which files exist, how large they are, which name they have, who uses them.
//!
//! All workers share one roster. A chain of operations acquires an object, for itself alone if it creates, removes or
//! renames it, and releases it at its end; so the load never removes a file that another operation of its own still
//! reads, and every error that is counted is the server's.
//!
//! Decision: one atomic word for each file (a compare-and-swap to acquire, another to release), and a bitmap of what
//! exists for the rare search. Rejected: a lock for each directory, which orders chains that have nothing in common, and
//! lists of absent files, which are a second truth beside the words.

use crate::file_set::{FileSet, Object};
use crate::random::Stream;
use bw_model::FileAddress;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often an object that cannot be used is drawn again before the next one that can is taken.
pub(crate) const TRIES: u32 = 16;

/// Maximum number of words of a bitmap that one search reads: 4 million objects, about 20 us.
const SEARCHED_WORDS: usize = 1 << 16;
/// Maximum number of objects that one search tries to acquire.
const SEARCHED_OBJECTS: usize = 256;

/// The state of the files and the empty directories of a set.
#[derive(Debug)]
pub struct Roster {
    set: Arc<FileSet>,
    files: States,
    empty_directories: States,
}

/// How an object is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It exists, and others may use it too.
    Shared,
    /// It exists, and nobody else uses it.
    Alone,
    /// It does not exist, and nobody else uses it.
    Absent,
}

/// The state of an object when it was acquired, or afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// Whether it exists.
    pub present: bool,
    /// Whether it has its second name.
    pub renamed: bool,
    /// Its size [bytes].
    pub size: u64,
}

const SIZE: u64 = FileAddress::BYTES - 1;
const USER: u64 = FileAddress::BYTES;
const USERS: u64 = ((1 << 24) - 1) * USER;
const RENAMED: u64 = 1 << 60;
const PRESENT: u64 = 1 << 61;
const ALONE: u64 = 1 << 62;

impl State {
    fn of(word: u64) -> Self {
        Self {
            present: word & PRESENT != 0,
            renamed: word & RENAMED != 0,
            size: word & SIZE,
        }
    }
}

impl Roster {
    /// Returns the state of a new set.
    #[must_use]
    pub fn new(set: Arc<FileSet>) -> Self {
        let word = |object| {
            let size = match set.object(object) {
                Object::File(index) => set.files()[index].size,
                _ => 0,
            };
            if set.is_present(object) {
                PRESENT | size
            } else {
                0
            }
        };
        let states = |first: Object, length: usize| {
            let first = if length == 0 { 0 } else { set.number(first) };
            States::new((first..first + length as u32).map(word))
        };
        Self {
            files: states(Object::File(0), set.files().len()),
            empty_directories: states(Object::EmptyDirectory(0), set.empty_directories().len()),
            set,
        }
    }

    /// Returns the set.
    #[must_use]
    pub fn set(&self) -> &Arc<FileSet> {
        &self.set
    }

    /// Returns how many files exist now.
    #[must_use]
    pub fn present_files(&self) -> u64 {
        self.files.present()
    }

    /// Returns the sum of the sizes of the files that exist now [bytes].
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let words = self.files.words.iter();
        words.map(|word| word.load(Ordering::Relaxed) & SIZE).sum()
    }

    /// Returns the states of the files.
    pub(crate) fn files(&self) -> &States {
        &self.files
    }

    /// Returns the states of the empty directories.
    pub(crate) fn empty_directories(&self) -> &States {
        &self.empty_directories
    }
}

/// The states of the objects of one sort, by index.
#[derive(Debug)]
pub(crate) struct States {
    words: Box<[AtomicU64]>,
    /// A bit for each object that exists. A chain that holds an object alone updates the word first.
    existing: Box<[AtomicU64]>,
}

impl States {
    fn new(words: impl Iterator<Item = u64>) -> Self {
        let words: Vec<u64> = words.collect();
        let existing = words.chunks(64).map(|chunk| {
            let bits = (0..).zip(chunk);
            let bits = bits.map(|(place, word)| u64::from(word & PRESENT != 0) << place);
            AtomicU64::new(bits.sum())
        });
        Self {
            existing: existing.collect(),
            words: words.into_iter().map(AtomicU64::new).collect(),
        }
    }

    /// Returns the number of objects.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns how many objects exist.
    fn present(&self) -> u64 {
        let words = self.existing.iter();
        words
            .map(|word| u64::from(word.load(Ordering::Relaxed).count_ones()))
            .sum()
    }

    /// Acquires an object for this use; returns its state, or None if it cannot be used so now.
    #[inline]
    pub(crate) fn acquire(&self, index: u32, how: Use) -> Option<State> {
        let word = &self.words[index as usize];
        let (refused, wanted, change) = match how {
            Use::Shared => (ALONE, PRESENT, USER),
            Use::Alone => (ALONE | USERS, PRESENT, ALONE),
            Use::Absent => (ALONE | USERS | PRESENT, 0, ALONE),
        };
        let acquire = |old: u64| {
            let free = old & refused == 0 && old & PRESENT == wanted && old & USERS != USERS;
            free.then_some(old + change)
        };
        // Acquire: the operations of the chain that released it come before ours.
        let before = word.fetch_update(Ordering::Acquire, Ordering::Relaxed, acquire);
        before.ok().map(State::of)
    }

    /// Ends a use.
    #[inline]
    pub(crate) fn release(&self, index: u32, how: Use) {
        let change = if how == Use::Shared { USER } else { ALONE };
        let before = self.words[index as usize].fetch_sub(change, Ordering::Release);
        debug_assert!(
            before & (USERS | ALONE) >= change,
            "released more often than acquired"
        );
    }

    /// Returns the state of an object that the caller uses.
    #[inline]
    pub(crate) fn state(&self, index: u32) -> State {
        State::of(self.words[index as usize].load(Ordering::Relaxed))
    }

    /// Stores the state of an object that the caller uses alone.
    pub(crate) fn set(&self, index: u32, state: State) {
        let word = &self.words[index as usize];
        let mut changed = state.size & SIZE;
        changed |= if state.present { PRESENT } else { 0 };
        changed |= if state.renamed { RENAMED } else { 0 };
        let old = word.load(Ordering::Relaxed);
        debug_assert!(
            old & ALONE != 0,
            "changed by somebody who does not use it alone"
        );
        word.store(old & (ALONE | USERS) | changed, Ordering::Relaxed);
        let (bits, bit) = (&self.existing[index as usize / 64], 1 << (index % 64));
        if state.present {
            bits.fetch_or(bit, Ordering::Relaxed);
        } else {
            bits.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Makes an object that the caller uses at least this large.
    pub(crate) fn grow(&self, index: u32, size: u64) {
        let grow = |old: u64| (old & SIZE < size).then_some(old & !SIZE | size.min(SIZE));
        let word = &self.words[index as usize];
        // An error means that it was large enough.
        let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow);
    }

    /// Adds `bytes` to an object that the caller uses; returns its size before, from which these bytes are the
    /// caller's. A file that would become too large is written from its start again: 0.
    pub(crate) fn append(&self, index: u32, bytes: u64) -> u64 {
        let longer = |old: u64| (old & SIZE).checked_add(bytes).filter(|&size| size <= SIZE);
        let append = |old: u64| longer(old).map(|size| old & !SIZE | size);
        let word = &self.words[index as usize];
        let before = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, append);
        before.map_or(0, |old| old & SIZE)
    }

    /// Acquires an object that `draw` chooses; returns it with its state. One that cannot be used is drawn again, at
    /// most [`TRIES`] times; then the next one that can is taken. None if none can. `again` is called for each
    /// repeated draw.
    #[inline]
    pub(crate) fn choose(
        &self,
        how: Use,
        mut draw: impl FnMut() -> u32,
        mut again: impl FnMut(),
    ) -> Option<(u32, State)> {
        let mut index = draw();
        for _ in 0..TRIES {
            if let Some(state) = self.acquire(index, how) {
                return Some((index, state));
            }
            again();
            index = draw();
        }
        self.next(how, index)
    }

    /// Acquires an object that any is as good as another for.
    pub(crate) fn choose_any(&self, how: Use, stream: &mut Stream) -> Option<(u32, State)> {
        let objects = self.len() as u64;
        if objects == 0 {
            return None;
        }
        self.choose(how, || stream.below(objects) as u32, || {})
    }

    /// Acquires the first object from `from` on that can be used, the first one after the last.
    fn next(&self, how: Use, from: u32) -> Option<(u32, State)> {
        let words = self.existing.len();
        let flip = if how == Use::Absent { u64::MAX } else { 0 };
        let mut tried = 0;
        for step in 0..words.min(SEARCHED_WORDS) {
            let place = (from as usize / 64 + step) % words;
            let mut bits = self.existing[place].load(Ordering::Relaxed) ^ flip;
            while bits != 0 {
                let index = place * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if index >= self.words.len() {
                    break;
                }
                if let Some(state) = self.acquire(index as u32, how) {
                    return Some((index as u32, state));
                }
                tried += 1;
                if tried == SEARCHED_OBJECTS {
                    return None;
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::AtomicU32;

    const NEW: State = State {
        present: true,
        renamed: false,
        size: 100,
    };

    fn states(words: &[u64]) -> States {
        States::new(words.iter().copied())
    }

    #[test]
    fn users_share_a_file_and_nobody_removes_it_meanwhile() {
        let states = states(&[PRESENT | 100]);
        assert_eq!(states.acquire(0, Use::Shared), Some(NEW));
        assert_eq!(states.acquire(0, Use::Shared), Some(NEW));
        assert_eq!(states.acquire(0, Use::Alone), None);
        assert_eq!(states.acquire(0, Use::Absent), None);
        states.release(0, Use::Shared);
        states.release(0, Use::Shared);
        assert_eq!(states.acquire(0, Use::Alone), Some(NEW));
        assert_eq!(states.acquire(0, Use::Shared), None);
        states.set(
            0,
            State {
                present: false,
                renamed: false,
                size: 0,
            },
        );
        assert_eq!(states.acquire(0, Use::Absent), None, "still in use");
        states.release(0, Use::Alone);
        assert_eq!(states.acquire(0, Use::Shared), None);
        assert!(states.acquire(0, Use::Absent).is_some());
    }

    #[test]
    fn appends_get_places_of_their_own_and_end_at_the_greatest_size() {
        let states = states(&[PRESENT | 100]);
        assert_eq!((states.append(0, 50), states.append(0, 7)), (100, 150));
        assert_eq!(states.state(0).size, 157);
        states.grow(0, 120);
        assert_eq!(states.state(0).size, 157);
        states.grow(0, 8192);
        assert_eq!(states.state(0).size, 8192);
        states.grow(0, SIZE);
        assert_eq!(states.append(0, 1), 0, "begins again");
        assert_eq!(states.state(0), State { size: SIZE, ..NEW });
    }

    #[test]
    fn a_search_finds_the_only_one_wherever_it_is() {
        for length in [1, 63, 64, 65, 200] {
            for only in [0, length / 2, length - 1] {
                for from in [0, length - 1] {
                    let mut words = vec![PRESENT; length];
                    words[only] = 0;
                    let found = states(&words).next(Use::Absent, from as u32);
                    assert_eq!(found.map(|(index, _)| index), Some(only as u32));
                    let mut words = vec![0; length];
                    words[only] = PRESENT;
                    let found = states(&words).next(Use::Alone, from as u32);
                    assert_eq!(found.map(|(index, _)| index), Some(only as u32));
                }
            }
        }
        assert_eq!(states(&[PRESENT; 100]).next(Use::Absent, 5), None);
        assert_eq!(states(&[0; 100]).next(Use::Shared, 5), None);
    }

    #[test]
    fn repeated_draws_are_counted_and_end() {
        let states = states(&[0, 0, PRESENT]);
        let (mut draws, mut repeated) = (0, 0);
        let draw = || {
            draws += 1;
            0
        };
        let chosen = states.choose(Use::Shared, draw, || repeated += 1);
        assert_eq!(chosen.map(|(index, _)| index), Some(2));
        assert_eq!((draws, repeated), (TRIES + 1, TRIES));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// Threads that create, remove and use files at random: at any time a file has either one thread that uses it
        /// alone or some that share it, and the bitmap equals the words in the end.
        #[test]
        fn nobody_is_alone_beside_others(present in prop::collection::vec(any::<bool>(), 1..80), seed in any::<u64>()) {
            let states = States::new(present.iter().map(|&present| if present { PRESENT } else { 0 }));
            let inside: Vec<AtomicU32> = present.iter().map(|_| AtomicU32::new(0)).collect();
            std::thread::scope(|scope| {
                for lane in 0..3 {
                    let (states, inside) = (&states, &inside);
                    scope.spawn(move || {
                        let mut stream = Stream::new(seed, lane);
                        for _ in 0..300 {
                            let how = [Use::Shared, Use::Alone, Use::Absent][stream.below(3) as usize];
                            let Some((index, state)) = states.choose_any(how, &mut stream) else { continue };
                            assert_eq!(state.present, how != Use::Absent);
                            let users = &inside[index as usize];
                            let step = if how == Use::Shared { 1 } else { 1000 };
                            let before = users.fetch_add(step, Ordering::SeqCst);
                            assert!(if how == Use::Shared { before < 1000 } else { before == 0 });
                            if how != Use::Shared {
                                states.set(index, State { present: !state.present, ..state });
                            }
                            users.fetch_sub(step, Ordering::SeqCst);
                            states.release(index, how);
                        }
                    });
                }
            });
            for index in 0..present.len() {
                let exists = states.existing[index / 64].load(Ordering::Relaxed) >> (index % 64) & 1 == 1;
                prop_assert_eq!(states.state(index as u32).present, exists);
                let word = states.words[index].load(Ordering::Relaxed);
                prop_assert_eq!(word & (ALONE | USERS), 0);
            }
        }
    }
}
