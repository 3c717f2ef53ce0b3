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
        let position = self.position(offset);
        let beyond = "the operation lies beyond the end of the target";
        let start = position - position % self.align;
        let end = position
            .checked_add(size)
            .and_then(|end| end.checked_next_multiple_of(self.align))
            .ok_or(beyond)?;
        let longest = u64::from(u32::MAX) - u64::from(u32::MAX) % self.align;
        let mut bytes = (end - start).min(longest);
        let mut fitted = start;
        if let Some(span) = self.span {
            if self.offsets == Offsets::Exact && end > span {
                return Err(beyond);
            }
            bytes = bytes.min(span);
            fitted = start.min(span - bytes);
        }
        changes.clipped += u64::from(bytes < end - start);
        changes.wrapped +=
            u64::from(self.offsets == Offsets::Wrap && (position, start) != (offset, fitted));
        changes.aligned += u64::from(start != position || bytes > size);
        entry.row.offset = fitted;
        entry.row.size = bytes as u32;
        Ok(())
    }

    /// Returns where an offset lies in the target, before alignment.
    fn position(&self, offset: u64) -> u64 {
        let Some(span) = self.span else {
            return offset;
        };
        match self.offsets {
            Offsets::Exact => offset,
            Offsets::Wrap => offset % span,
            Offsets::Scale => {
                let scaled = u128::from(offset) * u128::from(span) / u128::from(self.source);
                u64::try_from(scaled).unwrap_or(u64::MAX).min(span)
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
    fn exact_addresses_fit_if_their_blocks_do_and_keep_their_last_bytes() {
        let mapping = AddressMapping::new(Offsets::Exact, Some(8192), Some(4096), 0).unwrap();
        let (offset, size, _) = map(&mapping, 7680, 512);
        assert_eq!((offset, size), (4096, 4096));
        let (offset, size, changes) = map(&mapping, 3584, 1024);
        assert_eq!((offset, size, changes.aligned), (0, 8192, 1));
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
        fn everything_mapped_fits_is_aligned_and_covers_its_source(
            offset in prop_oneof![0..=i64::MAX as u64 / 2, 0..=1_u64 << 20],
            size in prop_oneof![0_u64..=u64::from(u32::MAX), 0_u64..=1 << 16],
            target in prop_oneof![4096_u64..1 << 50, 4096_u64..1 << 21],
            source in 1_u64..1 << 62,
            offsets in prop_oneof![Just(Offsets::Exact), Just(Offsets::Wrap), Just(Offsets::Scale)],
            align in prop_oneof![Just(1_u64), Just(512), Just(4096)],
        ) {
            let mapping = AddressMapping::new(offsets, Some(target), Some(align), source).unwrap();
            let span = target - target % align;
            let mut entry = TraceEntry::new(0, Kind::Write, offset, size);
            let mut changes = Changes::default();
            if mapping.apply(&mut entry, &mut changes).is_err() {
                prop_assert!(offsets == Offsets::Exact && offset + size > span);
                return Ok(());
            }
            let (start, end) = (entry.row.offset, entry.row.offset + u64::from(entry.row.size));
            prop_assert!(end <= target);
            prop_assert_eq!((start % align, end % align), (0, 0));
            if offsets != Offsets::Scale && offset + size <= span && changes.clipped == 0 {
                prop_assert!(start <= offset && offset + size <= end, "[{start}, {end})");
            }
        }
    }
}
