//! XDR by borrowing: reads values from received bytes, appends values to bytes to send.

use nfs3_types::xdr_codec::{Error, Pack, Unpack};
use std::fmt;

/// A reply that does not follow its protocol: what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "malformed reply: no {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// Bytes that are read from front to back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    /// Bytes of the record after `bytes`, which were not kept.
    beyond: usize,
}

impl<'a> Reader<'a> {
    /// Returns a reader of `bytes`, the start of a record of `length` bytes.
    pub(crate) fn new(bytes: &'a [u8], length: usize) -> Self {
        Self {
            bytes,
            beyond: length.saturating_sub(bytes.len()),
        }
    }

    pub(crate) fn take(
        &mut self,
        length: usize,
        what: &'static str,
    ) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(Malformed(what))?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(Malformed(what))?;
        self.bytes = rest;
        Ok(*taken)
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, Malformed> {
        self.array(what).map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, Malformed> {
        self.array(what).map(u64::from_be_bytes)
    }

    pub(crate) fn bool(&mut self, what: &'static str) -> Result<bool, Malformed> {
        match self.u32(what)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed(what)),
        }
    }

    /// Reads an opaque of at most `most` bytes, with its padding.
    pub(crate) fn opaque(
        &mut self,
        most: usize,
        what: &'static str,
    ) -> Result<&'a [u8], Malformed> {
        let length = self.u32(what)? as usize;
        if length > most {
            return Err(Malformed(what));
        }
        let padded = self.take(length.next_multiple_of(4), what)?;
        Ok(&padded[..length])
    }

    /// Reads the opaque that ends a record and may be longer than what was kept of it: its length, and its start.
    pub(crate) fn last_opaque(&mut self, what: &'static str) -> Result<(u32, &'a [u8]), Malformed> {
        let length = self.u32(what)?;
        let size = length as usize;
        if size.next_multiple_of(4) > self.bytes.len() + self.beyond {
            return Err(Malformed(what));
        }
        Ok((length, &self.bytes[..size.min(self.bytes.len())]))
    }

    /// Reads a type of fixed size, which allocates nothing.
    pub(crate) fn fixed<T: Unpack>(&mut self, what: &'static str) -> Result<T, Malformed> {
        let unpacked: Result<(T, usize), Error> = T::unpack(&mut self.bytes);
        unpacked
            .map(|(value, _)| value)
            .map_err(|_| Malformed(what))
    }
}

/// Appends a number.
pub(crate) fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends a number.
pub(crate) fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends an opaque: its length, its bytes, padding.
///
/// # Panics
/// It is longer than 4 GiB.
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn put_opaque(out: &mut Vec<u8>, bytes: &[u8]) {
    assert!(
        u32::try_from(bytes.len()).is_ok(),
        "XDR has lengths of 32 bits"
    );
    put_u32(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
    let padding = bytes.len().next_multiple_of(4) - bytes.len();
    out.extend_from_slice(&[0; 3][..padding]);
}

/// Appends a value of the library.
pub(crate) fn put(out: &mut Vec<u8>, value: &impl Pack) {
    let packed = value.pack(out);
    debug_assert!(packed.is_ok(), "a Vec accepts all bytes");
}
