//! Maps the trace's addresses to the target's: unchanged, wrapped or scaled, and aligned.
//!
//! Decision: an operation always fits the target afterwards, is never split, and every change is counted.
//! Wrapping preserves distances, so sequential runs stay sequential. Scaling preserves the distribution
//! over the whole device, so hot regions stay apart, but neighbours may overlap.

use crate::entry::TraceEntry;
use crate::input::Offsets;
use bw_model::Kind;

/// How addresses are mapped; sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressMapping {
    offsets: Offsets,
    align: u64,
    /// The part of the target that consists of whole aligned blocks; None: no limit.
    span: Option<u64>,
    /// The size of the device that the trace was taken from; only for scaling.
    source: u64,
}

/// How often the mapping changed something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Addresses changed by wrapping.
    pub wrapped: u64,
    /// Offsets or sizes changed by alignment.
    pub aligned: u64,
    /// Sizes that were reduced.
    pub clipped: u64,
}

impl AddressMapping {
    /// Returns the mapping onto a target of this size [bytes].
    ///
    /// Errors: a wrap or scale without a target's size, a target smaller than one aligned block.
    pub(crate) fn new(
        offsets: Offsets,
        target: Option<u64>,
        align: Option<u64>,
        source: u64,
    ) -> Result<Self, &'static str> {
        let align = align.unwrap_or(1);
        if align == 0 || align > 1 << 30 {
            return Err("the alignment is not between 1 byte and 1 GiB");
        }
        let span = target.map(|target| target - target % align);
        match span {
            Some(0) => Err("the target is smaller than one aligned block"),
            None if offsets != Offsets::Exact => Err("the target's size is not known"),
            _ => Ok(Self {
                offsets,
                align,
                span,
                source: source.max(1),
            }),
        }
    }

    /// Maps an operation.
    ///
    /// Errors: with exact addresses, it lies beyond the target.
    #[allow(clippy::cast_possible_truncation)]
    pub(crate) fn apply(
        &self,
        entry: &mut TraceEntry,
        changes: &mut Changes,
    ) -> Result<(), &'static str> {
        changes.clipped += u64::from(entry.clipped);
        if matches!(entry.row.kind, Kind::Flush | Kind::Exchange) || entry.row.kind.needs_files() {
            return Ok(());
        }
        let (offset, size) = (entry.row.offset, u64::from(entry.row.size));
        let mut bytes = self.whole_blocks(size);
        if let Some(span) = self.span
            && self.offsets != Offsets::Exact
            && bytes > span
        {
            bytes = span;
            changes.clipped += 1;
        }
        let mapped = self.offset(offset, bytes)?;
        let down = mapped - mapped % self.align;
        changes.wrapped += u64::from(self.offsets == Offsets::Wrap && mapped != offset);
        changes.aligned += u64::from(down != mapped || bytes > size);
        entry.row.offset = down;
        entry.row.size = bytes as u32;
        Ok(())
    }

    fn whole_blocks(&self, size: u64) -> u64 {
        let most = u64::from(u32::MAX) - u64::from(u32::MAX) % self.align;
        size.next_multiple_of(self.align).min(most)
    }

    fn offset(&self, offset: u64, bytes: u64) -> Result<u64, &'static str> {
        let Some(span) = self.span else {
            return Ok(offset);
        };
        let last = span - bytes.min(span);
        match self.offsets {
            Offsets::Exact if offset > last || bytes > span => {
                Err("the operation lies beyond the end of the target")
            }
            Offsets::Exact => Ok(offset),
            Offsets::Wrap => Ok((offset % span).min(last)),
            Offsets::Scale => {
                let scaled = u128::from(offset) * u128::from(span) / u128::from(self.source);
                Ok(u64::try_from(scaled).unwrap_or(u64::MAX).min(last))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn map(mapping: &AddressMapping, offset: u64, size: u64) -> (u64, u32, Changes) {
        let mut entry = TraceEntry::new(0, Kind::Write, offset, size);
        let mut changes = Changes::default();
        mapping.apply(&mut entry, &mut changes).unwrap();
        (entry.row.offset, entry.row.size, changes)
    }

    #[test]
    fn wrapping_keeps_neighbours_together_and_counts() {
        let mapping = AddressMapping::new(Offsets::Wrap, Some(1 << 20), None, 0).unwrap();
        let (first, ..) = map(&mapping, 5 << 20, 4096);
        let (second, _, changes) = map(&mapping, (5 << 20) + 4096, 4096);
        assert_eq!((first, second), (0, 4096));
        assert_eq!(changes.wrapped, 1);
        assert_eq!(map(&mapping, 4096, 4096).2, Changes::default());
    }

    #[test]
    fn scaling_is_in_proportion() {
        let mapping = AddressMapping::new(Offsets::Scale, Some(1000), None, 100_000).unwrap();
        assert_eq!(map(&mapping, 50_000, 10).0, 500);
        assert_eq!(map(&mapping, 100_000, 10).0, 990);
    }

    #[test]
    fn alignment_widens_and_is_counted() {
        let mapping = AddressMapping::new(Offsets::Exact, Some(1 << 20), Some(4096), 0).unwrap();
        let (offset, size, changes) = map(&mapping, 4608, 512);
        assert_eq!((offset, size, changes.aligned), (4096, 4096, 1));
    }

    #[test]
    fn an_exact_address_beyond_the_target_is_refused() {
        let mapping = AddressMapping::new(Offsets::Exact, Some(8192), None, 0).unwrap();
        let mut entry = TraceEntry::new(0, Kind::Read, 8000, 512);
        assert!(mapping.apply(&mut entry, &mut Changes::default()).is_err());
        assert!(AddressMapping::new(Offsets::Wrap, None, None, 0).is_err());
        assert!(AddressMapping::new(Offsets::Wrap, Some(100), Some(4096), 0).is_err());
    }

    proptest! {
        #[test]
        fn everything_mapped_fits_and_is_aligned(
            offset in 0..=i64::MAX as u64 / 2,
            size in 0_u64..=u64::from(u32::MAX),
            target in 4096_u64..1 << 50,
            source in 1_u64..1 << 62,
            scale: bool,
            align in prop_oneof![Just(1_u64), Just(512), Just(4096)],
        ) {
            let offsets = if scale { Offsets::Scale } else { Offsets::Wrap };
            let mapping = AddressMapping::new(offsets, Some(target), Some(align), source).unwrap();
            let (offset, size, _) = map(&mapping, offset, size);
            prop_assert!(offset + u64::from(size) <= target);
            prop_assert_eq!(offset % align, 0);
            prop_assert_eq!(u64::from(size) % align, 0);
        }
    }
}
