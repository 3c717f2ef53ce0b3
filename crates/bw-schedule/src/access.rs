//! Accesses: kind, size and location together produce the operations of a filament.
//!
//! Decision: `align_bytes` is the grid of the offsets. A size that the user named (constant, weighted) is used
//! unchanged; a size drawn from a law (exponential, uniform, ...) is rounded up to the grid, because O_DIRECT requires
//! it, and cut to what fits. Exchanges with a server have no offset: their region is the server's paths or requests, they
//! carry their number ([`ExchangeAddress`]), and they mix with nothing else.

use crate::distribution::{Distribution, DistributionSpec, Weights};
use crate::location::{Location, LocationSpec};
use crate::random::Stream;
use bw_model::{ExchangeAddress, Kind, Nanos, Operation};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The operations of a filament, as the user describes them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessSpec {
    /// Kinds by weight.
    pub kinds: Vec<(Kind, u64)>,
    /// Size [bytes].
    pub size: DistributionSpec,
    /// Location within the region.
    pub location: LocationSpec,
    /// Part of the target.
    #[serde(default)]
    pub region: RegionSpec,
    /// Offsets are multiples of this [bytes]; no meaning for exchanges.
    pub align_bytes: u64,
}

/// A part of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionSpec {
    /// Start of the region; for a network target the first path.
    #[serde(default)]
    pub offset_bytes: u64,
    /// Length of the region; None: to the end of the target.
    #[serde(default)]
    pub length_bytes: Option<u64>,
}

/// Maximum size of one kernel transfer (`MAX_RW_COUNT`, read(2)), rounded down to pages [bytes].
const GREATEST_BYTES: u64 = 0x7fff_f000;

/// The operations of a filament, one after the other.
#[derive(Clone, Debug)]
pub struct Access {
    tables: Arc<Tables>,
    location: Location,
    stream: Stream,
    numbers: Numbers,
}

/// The numbers of a filament's exchanges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    /// That of the next one.
    pub next: u64,
    /// The difference between two of them.
    pub step: u64,
}

impl Numbers {
    /// Takes the next number.
    #[inline]
    pub(crate) fn take(&mut self) -> u64 {
        let number = self.next;
        self.next = number.wrapping_add(self.step);
        number
    }

    /// Returns those of session `session` of the filament that has these.
    pub(crate) fn of_session(self, session: u64) -> Self {
        let first = self.next.wrapping_add(session.wrapping_mul(self.step));
        Self {
            next: first % ExchangeAddress::SESSION_STEP,
            step: ExchangeAddress::SESSION_STEP,
        }
    }
}

/// Data computed from the description, shared by all filaments that have it.
#[derive(Debug)]
struct Tables {
    kinds: Vec<Kind>,
    weights: Weights,
    size: Distribution,
    grid: Grid,
}

/// The blocks that operations may use.
#[derive(Clone, Copy, Debug)]
struct Grid {
    offset: u64,
    length: u64,
    align: u64,
    /// Maximum size drawn from a law.
    most: u64,
}

impl Access {
    /// Returns the accesses described to a target of `target_bytes` (of a network target: paths).
    ///
    /// # Errors
    /// What is wrong with the description, and what to do.
    pub fn new(spec: &AccessSpec, target_bytes: u64, stream: Stream) -> Result<Self, String> {
        let weights = Weights::new("access: kinds", spec.kinds.iter().map(|&(_, w)| w))?;
        let kinds: Vec<Kind> = spec.kinds.iter().map(|&(kind, _)| kind).collect();
        let exchanges = exchanges(&kinds)?;
        let align = if exchanges { 1 } else { spec.align_bytes };
        let mut grid = spec.region.grid(target_bytes, align)?;
        let size = Distribution::new(&spec.size).map_err(|error| format!("size: {error}"))?;
        if exchanges {
            grid.most = GREATEST_BYTES;
        }
        if kinds
            .iter()
            .any(|&kind| kind != Kind::Flush && kind != Kind::Exchange)
        {
            check_size(&size, &grid)?;
        } else if size.is_named() && size.range().1 > GREATEST_BYTES {
            return Err(too_large(size.range().1, GREATEST_BYTES));
        }
        let location = Location::new(&spec.location, grid.length / align, align)?;
        let tables = Tables {
            kinds,
            weights,
            size,
            grid,
        };
        Ok(Self {
            tables: Arc::new(tables),
            location,
            stream,
            numbers: Numbers { next: 0, step: 1 },
        })
    }

    /// Returns the same accesses for another filament: the computed data are shared, the randomness
    /// is `stream`'s, and a sequential location starts at its beginning.
    #[must_use]
    pub(crate) fn with_stream(&self, stream: Stream) -> Self {
        Self {
            tables: Arc::clone(&self.tables),
            location: self.location.restarted(),
            stream,
            numbers: self.numbers,
        }
    }

    /// Returns the same accesses with these numbers of exchanges; before, they are 0, 1, 2, ...
    #[must_use]
    pub(crate) fn numbered(self, numbers: Numbers) -> Self {
        Self { numbers, ..self }
    }

    /// Returns the same accesses for a session: see [`with_stream`](Self::with_stream).
    #[must_use]
    pub(crate) fn of_session(&self, session: u64, stream: Stream) -> Self {
        self.with_stream(stream)
            .numbered(self.numbers.of_session(session))
    }

    /// Returns the next operation, to start at `at`. Its `notify` is false and its `tag` 0.
    pub fn next(&mut self, at: Nanos) -> Operation {
        let tables = &*self.tables;
        let kind = tables.kinds[tables.weights.draw(&mut self.stream)];
        let (offset, size) = match kind {
            Kind::Flush => (0, 0),
            Kind::Exchange => {
                let size = tables.size.draw(&mut self.stream).min(tables.grid.most);
                let path = self.location.draw(&mut self.stream, 1);
                let address = ExchangeAddress {
                    request: (tables.grid.offset + path) as u32,
                    number: self.numbers.take(),
                };
                (address.pack(), size)
            }
            // The others were refused.
            _ => self.extent(),
        };
        Operation {
            at,
            ..Operation::new(kind, offset, size as u32)
        }
    }

    /// Returns offset and size inside the region.
    fn extent(&mut self) -> (u64, u64) {
        let Grid {
            offset,
            align,
            most,
            ..
        } = self.tables.grid;
        let named = self.tables.size.is_named();
        let mut size = self.tables.size.draw(&mut self.stream);
        if !named {
            size = size.clamp(1, most).next_multiple_of(align);
        }
        let block = (self.location).draw(&mut self.stream, size.div_ceil(align));
        (offset + block * align, size)
    }
}

impl RegionSpec {
    /// Returns the start of the region on a target and its length [bytes], in whole blocks of `align`.
    ///
    /// # Errors
    /// The region reaches beyond the target, is not aligned, or has less than one block; and what to do.
    pub fn extent(&self, target_bytes: u64, align: u64) -> Result<(u64, u64), String> {
        let grid = self.grid(target_bytes, align)?;
        Ok((grid.offset, grid.length))
    }

    /// Returns the whole blocks of the region.
    fn grid(&self, target_bytes: u64, align: u64) -> Result<Grid, String> {
        let offset = self.offset_bytes;
        if align == 0 || align > GREATEST_BYTES {
            return Err(format!(
                "access: align_bytes is {align}: give 1 to {GREATEST_BYTES}"
            ));
        }
        if !offset.is_multiple_of(align) {
            return Err(format!(
                "region: offset_bytes is {offset}: give a multiple of align_bytes ({align})"
            ));
        }
        let room = target_bytes.saturating_sub(offset);
        let length = self.length_bytes.unwrap_or(room);
        if length > room {
            return Err(format!(
                "region: offset_bytes {offset} and length_bytes {length} reach beyond the target's {target_bytes}: \
                 make the region smaller or the target larger"
            ));
        }
        let whole = length - length % align;
        if whole == 0 {
            return Err(format!(
                "region: from offset_bytes {offset} of a target of {target_bytes} it has not one block of \
                 align_bytes ({align}): make it larger"
            ));
        }
        Ok(Grid {
            offset,
            length: whole,
            align,
            most: whole.min(GREATEST_BYTES - GREATEST_BYTES % align),
        })
    }
}

/// Returns whether the kinds are exchanges.
fn exchanges(kinds: &[Kind]) -> Result<bool, String> {
    if let Some(kind) = kinds.iter().find(|kind| kind.needs_files()) {
        return Err(format!(
            "access: kinds: {} is of file sets: use a filament of type files",
            kind.name()
        ));
    }
    let exchanges = kinds.iter().filter(|&&kind| kind == Kind::Exchange).count();
    if exchanges > 0 && exchanges < kinds.len() {
        return Err(
            "access: kinds: exchange is of network targets, the others of storage: use one sort in a filament"
                .into(),
        );
    }
    Ok(exchanges > 0)
}

/// Checks the sizes that are certain to be drawn.
fn check_size(size: &Distribution, grid: &Grid) -> Result<(), String> {
    let (least, greatest) = size.range();
    let surely = if size.is_named() { greatest } else { least };
    // A named size need not be a multiple of the grid, but its last block must be in the region.
    let most = if size.is_named() {
        grid.length.min(GREATEST_BYTES)
    } else {
        grid.most
    };
    if surely > most {
        return Err(too_large(surely, most));
    }
    if least == 0 && size.is_named() {
        return Err("size: 0 bytes cannot be read, written or discarded: give at least 1".into());
    }
    Ok(())
}

fn too_large(size: u64, most: u64) -> String {
    format!(
        "size: {size} bytes in one operation: at most {most} fit; make it smaller or the region larger"
    )
}
