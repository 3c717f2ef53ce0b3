//! Which of several targets the operations of each filament go to.

use bw_schedule::filaments::FilamentId;
use std::ops::Range;

/// Which target the operations of each filament go to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// The first filament of each range, ascending, and the part.
    ranges: Vec<(FilamentId, u16)>,
}

impl Routes {
    /// Returns the routes of filaments whose ids are `ids`, each entry with its part. The ids of each entry follow those of
    /// the entry before.
    #[must_use]
    pub fn new(ids: &[Range<FilamentId>], parts: &[u16]) -> Self {
        let mut ranges: Vec<(FilamentId, u16)> = Vec::new();
        for (ids, part) in ids.iter().zip(parts) {
            if ranges.last().is_none_or(|(_, last)| last != part) {
                ranges.push((ids.start, *part));
            }
        }
        Self { ranges }
    }

    /// Returns the part that executes the operations of a filament.
    #[inline]
    #[must_use]
    pub fn part_of(&self, filament: FilamentId) -> u16 {
        let place = self.ranges.partition_point(|(first, _)| *first <= filament);
        place.checked_sub(1).map_or(0, |place| self.ranges[place].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filaments_of_one_entry_go_to_its_target() {
        let routes = Routes::new(&[0..1, 1..65, 65..66, 66..67], &[1, 0, 0, 2]);
        let parts = [0, 1, 64, 65, 66, 1000].map(|filament| routes.part_of(filament));
        assert_eq!(parts, [1, 0, 0, 0, 2, 2]);
        assert_eq!(Routes::default().part_of(7), 0);
    }
}
