//! The chunked transfer coding, read a few bytes at a time: pure.
//!
//! Decision: our own parser, because existing crates read a blocking stream to its end, and because
//! a load generator only counts the body: nothing is copied. Line ends must be CR LF:
//! anything else is an error. Extensions and trailers are read and dropped.
//! Source: RFC 9112, section 7.1.

/// Limit of the extensions and trailers of one body together; a longer body is malformed [bytes].
pub(crate) const OVERHEAD_LIMIT: u32 = 16 * 1024;

/// Number of digits of the largest size that fits 64 bits.
const SIZE_DIGITS: u8 = 16;

/// The position in a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    /// In the digits of a size: the value so far and how many digits it has.
    Size(u64, u8),
    /// Between the size and the line's end: blanks or an extension.
    Extension(u64),
    /// Before the LF that ends the size's line.
    SizeEnd(u64),
    /// In the data: how many bytes are still to come.
    Data(u64),
    /// Before the CR after the data.
    DataReturn,
    /// Before the LF after the data.
    DataEnd,
    /// At the start of a trailer line.
    TrailerStart,
    /// In a trailer line.
    Trailer,
    /// Before the LF that ends a trailer line.
    TrailerEnd,
    /// Before the LF that ends the body.
    LastEnd,
    /// After the body.
    Done,
}

/// The result of reading a piece of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    /// How many of the piece's bytes belong to the chunked body.
    pub used: usize,
    /// How many of them are data.
    pub data: u64,
    /// Whether the body is complete.
    pub complete: bool,
}

/// A part of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyPart<'a> {
    /// Some of its bytes, without the transfer coding.
    Bytes(&'a [u8]),
    /// The end of a chunk.
    ChunkEnd,
}

/// The bytes are not a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// A reader of one chunked body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunked {
    place: ChunkState,
    overhead: u32,
}

impl Chunked {
    /// Returns a reader at the start of a body.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self {
            place: ChunkState::Size(0, 0),
            overhead: 0,
        }
    }

    /// Reads the next piece of the body, up to its end; its data, and the end of each chunk, go to `data`.
    ///
    /// # Errors
    /// The bytes are not a chunked body; the reader must not be used again.
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        mut data: impl FnMut(BodyPart<'_>),
    ) -> Result<Read, Malformed> {
        let mut read = Read {
            used: 0,
            data: 0,
            complete: false,
        };
        while self.place != ChunkState::Done && read.used < bytes.len() {
            if let ChunkState::Data(left) = self.place {
                let taken = left.min((bytes.len() - read.used) as u64);
                read.data += taken;
                // No more than the length of a slice.
                let end = read.used + taken as usize;
                data(BodyPart::Bytes(&bytes[read.used..end]));
                if taken == left {
                    data(BodyPart::ChunkEnd);
                }
                read.used = end;
                self.place = after_data(left - taken);
            } else {
                self.place = self.step(bytes[read.used])?;
                read.used += 1;
            }
        }
        read.complete = self.place == ChunkState::Done;
        Ok(read)
    }

    /// Returns the position after one byte outside the data.
    fn step(&mut self, byte: u8) -> Result<ChunkState, Malformed> {
        match (self.place, byte) {
            (ChunkState::Size(value, digits), _) => size(value, digits, byte),
            (ChunkState::Extension(value), b'\r') => Ok(ChunkState::SizeEnd(value)),
            (ChunkState::Extension(_) | ChunkState::Trailer, b'\n') => Err(Malformed),
            (ChunkState::Extension(_), _) => self.overhead(self.place),
            (ChunkState::SizeEnd(0), b'\n') => Ok(ChunkState::TrailerStart),
            (ChunkState::SizeEnd(value), b'\n') => Ok(ChunkState::Data(value)),
            (ChunkState::DataReturn, b'\r') => Ok(ChunkState::DataEnd),
            (ChunkState::DataEnd, b'\n') => Ok(ChunkState::Size(0, 0)),
            (ChunkState::TrailerStart, b'\r') => Ok(ChunkState::LastEnd),
            (ChunkState::TrailerStart, b'\n') => Err(Malformed),
            (ChunkState::Trailer, b'\r') => Ok(ChunkState::TrailerEnd),
            (ChunkState::TrailerStart | ChunkState::Trailer, _) => {
                self.overhead(ChunkState::Trailer)
            }
            (ChunkState::TrailerEnd, b'\n') => Ok(ChunkState::TrailerStart),
            (ChunkState::LastEnd, b'\n') => Ok(ChunkState::Done),
            _ => Err(Malformed),
        }
    }

    /// Counts one byte that is neither size nor data, and continues at `place`.
    fn overhead(&mut self, place: ChunkState) -> Result<ChunkState, Malformed> {
        self.overhead += 1;
        (self.overhead <= OVERHEAD_LIMIT)
            .then_some(place)
            .ok_or(Malformed)
    }
}

impl Default for Chunked {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the position in the data, or behind it when nothing is left.
fn after_data(left: u64) -> ChunkState {
    if left == 0 {
        ChunkState::DataReturn
    } else {
        ChunkState::Data(left)
    }
}

/// Returns the position after a byte that may be a digit of a size.
fn size(value: u64, digits: u8, byte: u8) -> Result<ChunkState, Malformed> {
    let digit = match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        b'A'..=b'F' => byte - b'A' + 10,
        b'\r' if digits > 0 => return Ok(ChunkState::SizeEnd(value)),
        b';' | b' ' | b'\t' if digits > 0 => return Ok(ChunkState::Extension(value)),
        _ => return Err(Malformed),
    };
    if digits == SIZE_DIGITS {
        return Err(Malformed);
    }
    Ok(ChunkState::Size(value << 4 | u64::from(digit), digits + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(bytes: &[u8]) -> Result<Read, Malformed> {
        Chunked::new().read(bytes, |_| ())
    }

    #[test]
    fn extensions_and_trailers_are_read_over() {
        let body = b"4;name=\"v;w\"\r\nWiki\r\n1 \r\nX\r\n0\r\nDate: now\r\nA:\r\n\r\nnext";
        let read = whole(body).unwrap();
        assert_eq!(read.data, 5);
        assert!(read.complete);
        assert_eq!(&body[read.used..], b"next");
    }

    #[test]
    fn what_is_no_chunked_body_is_refused() {
        for body in [
            "\r\n",
            "g\r\n",
            "-1\r\n",
            "1\nX\r\n0\r\n\r\n",
            "1\r\nXY\r\n0\r\n\r\n",
            "11111111111111111\r\n",
            "0\r\n\n",
            "1;a\nX",
            "0\r\nA: b\n\r\n",
        ] {
            assert_eq!(whole(body.as_bytes()), Err(Malformed), "{body:?}");
        }
    }

    #[test]
    fn endless_extensions_and_trailers_are_refused() {
        let much = "x".repeat(OVERHEAD_LIMIT as usize);
        assert!(whole(format!("0\r\n{much}\r\n\r\n").as_bytes()).is_ok());
        assert_eq!(
            whole(format!("0\r\nx{much}\r\n\r\n").as_bytes()),
            Err(Malformed)
        );
        assert_eq!(
            whole(format!("0;xx{much}\r\n\r\n").as_bytes()),
            Err(Malformed)
        );
    }

    #[test]
    fn the_largest_size_is_read_as_it_is() {
        let mut chunked = Chunked::new();
        let read = chunked.read(b"ffffffffffffffff\r\nabc", |_| ()).unwrap();
        assert_eq!(read.data, 3);
        assert_eq!(chunked.place, ChunkState::Data(u64::MAX - 3));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic_and_any_split_reads_the_same(
            bytes in prop::collection::vec(prop_oneof![
                Just(b'\r'), Just(b'\n'), Just(b'0'), Just(b'3'), Just(b';'), Just(b'x'), any::<u8>(),
            ], 0..64),
            at in 0_usize..64,
        ) {
            let once = whole(&bytes);
            let (head, tail) = bytes.split_at(at.min(bytes.len()));
            let mut chunked = Chunked::new();
            let twice = chunked.read(head, |_| ()).and_then(|first| {
                let second = chunked.read(tail, |_| ())?;
                Ok(Read {
                    used: first.used + second.used,
                    data: first.data + second.data,
                    complete: second.complete,
                })
            });
            prop_assert_eq!(once, twice);
        }
    }
}
