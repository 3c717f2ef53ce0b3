//! The Huffman code of HPACK.
//!
//! The code is canonical: codes of one length are consecutive, in the order of their symbols, and follow those of the
//! shorter lengths. So the lengths alone define it, and everything else is computed from them by the compiler.
//! Source: RFC 7541, section 5.2 and appendix B.

/// The server's bytes cannot be decoded; the connection has no common state any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompressionError;

/// Length of the code of each byte [bits], and of the end of a string, which no string may contain.
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, //
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, //
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, //
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, //
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, //
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, //
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, //
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, //
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, //
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, //
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, //
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, //
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, //
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, //
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, //
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, //
    30,
];
const SYMBOLS: usize = 257;
/// The end of a string, as a symbol.
const END: u16 = 256;
const SHORTEST: usize = 5;
const LONGEST: usize = 30;

/// The code, by lengths.
struct Code {
    /// The symbols in the order of their codes.
    symbols: [u16; SYMBOLS],
    /// The first code of each length.
    first: [u32; LONGEST + 1],
    /// The place of its symbol in `symbols`.
    place: [u32; LONGEST + 1],
    /// The first 32 bits that are too large for a code of this length.
    above: [u64; LONGEST + 1],
}

const CODE: Code = Code::new();

impl Code {
    const fn new() -> Self {
        let mut code = Self {
            symbols: [0; SYMBOLS],
            first: [0; LONGEST + 1],
            place: [0; LONGEST + 1],
            above: [0; LONGEST + 1],
        };
        let (mut next, mut place, mut length) = (0_u32, 0_usize, SHORTEST);
        while length <= LONGEST {
            next <<= 1;
            code.first[length] = next;
            code.place[length] = place as u32;
            let mut symbol = 0;
            while symbol < SYMBOLS {
                if LENGTHS[symbol] as usize == length {
                    code.symbols[place] = symbol as u16;
                    place += 1;
                    next += 1;
                }
                symbol += 1;
            }
            code.above[length] = (next as u64) << (32 - length);
            length += 1;
        }
        code
    }
}

/// Passes the bytes of a string to `sink`.
///
/// # Errors
/// The string contains its end, or does not end with the first bits of that code.
pub(super) fn decode(bytes: &[u8], mut sink: impl FnMut(u8)) -> Result<(), CompressionError> {
    let mut bytes = bytes.iter();
    // The bits that are not decoded yet, from the highest on, and their number.
    let (mut bits, mut count) = (0_u64, 0_usize);
    loop {
        while count <= 56
            && let Some(byte) = bytes.next()
        {
            bits |= u64::from(*byte) << (56 - count);
            count += 8;
        }
        // Behind the last bit there are ones, like the padding.
        let next = (bits | u64::MAX.checked_shr(count as u32).unwrap_or(0)) >> 32;
        let length = (SHORTEST..LONGEST)
            .find(|length| next < CODE.above[*length])
            .unwrap_or(LONGEST);
        if length > count {
            let padding = count < 8 && next == u64::from(u32::MAX);
            return if padding {
                Ok(())
            } else {
                Err(CompressionError)
            };
        }
        // Its bits below 32 - length are cut off.
        let place = (next >> (32 - length)) as u32 - CODE.first[length] + CODE.place[length];
        match CODE.symbols[place as usize] {
            END => return Err(CompressionError),
            symbol => sink(symbol as u8),
        }
        bits <<= length;
        count -= length;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the code of a symbol and its length.
    fn code_of(symbol: u16) -> (u32, usize) {
        let length = usize::from(LENGTHS[usize::from(symbol)]);
        let place = CODE.symbols.iter().position(|one| *one == symbol).unwrap();
        let code = CODE.first[length] + place as u32 - CODE.place[length];
        (code, length)
    }

    pub(in crate::http2::hpack) fn encode(text: &[u8]) -> Vec<u8> {
        let mut bits: Vec<bool> = Vec::new();
        for byte in text {
            let (code, length) = code_of(u16::from(*byte));
            bits.extend((0..length).rev().map(|bit| code >> bit & 1 == 1));
        }
        while !bits.len().is_multiple_of(8) {
            bits.push(true);
        }
        let byte = |bits: &[bool]| bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
        bits.chunks(8).map(byte).collect()
    }

    fn decoded(bytes: &[u8]) -> Result<Vec<u8>, CompressionError> {
        let mut text = Vec::new();
        decode(bytes, |byte| text.push(byte))?;
        Ok(text)
    }

    #[test]
    fn the_code_is_that_of_appendix_b() {
        // A code whose last symbol of the greatest length has only ones uses all bit strings, each once.
        assert_eq!(code_of(END), (0x3fff_ffff, 30));
        for (symbol, code, length) in [
            (b'0', 0x0, 5),
            (b't', 0x9, 5),
            (b' ', 0x14, 6),
            (b':', 0x5c, 7),
            (b'&', 0xf8, 8),
            (b'!', 0x3f8, 10),
            (b'\'', 0x7fa, 11),
            (b'#', 0xffa, 12),
            (0, 0x1ff8, 13),
            (b'^', 0x3ffc, 14),
            (b'{', 0x7ffe, 15),
            (b'\\', 0x7fff0, 19),
            (128, 0xfffe6, 20),
            (153, 0x1f_ffdc, 21),
            (129, 0x3f_ffd2, 22),
            (1, 0x7f_ffd8, 23),
            (9, 0xff_ffea, 24),
            (199, 0x1ff_ffec, 25),
            (255, 0x3ff_ffee, 26),
            (254, 0x7ff_fff0, 27),
            (249, 0xfff_fffe, 28),
            (22, 0x3fff_fffe, 30),
        ] {
            assert_eq!(code_of(u16::from(symbol)), (code, length), "{symbol}");
        }
    }

    #[test]
    fn the_strings_of_appendix_c_are_decoded() {
        for (bytes, text) in [
            (
                &b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"[..],
                "www.example.com",
            ),
            (b"\xa8\xeb\x10\x64\x9c\xbf", "no-cache"),
            (b"\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f", "custom-key"),
            (b"\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf", "custom-value"),
            (b"\x64\x02", "302"),
            (
                b"\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff",
                "Mon, 21 Oct 2013 20:13:21 GMT",
            ),
            (
                b"\x9d\x29\xad\x17\x18\x63\xc7\x8f\x0b\x97\xc8\xe9\xae\x82\xae\x43\xd3",
                "https://www.example.com",
            ),
            (
                b"\x94\xe7\x82\x1d\xd7\xf2\xe6\xc7\xb3\x35\xdf\xdf\xcd\x5b\x39\x60\xd5\xaf\x27\x08\x7f\x36\x72\xc1\xab\x27\x0f\xb5\x29\x1f\x95\x87\x31\x60\x65\xc0\x03\xed\x4e\xe5\xb1\x06\x3d\x50\x07",
                "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
            ),
        ] {
            assert_eq!(decoded(bytes).unwrap(), text.as_bytes());
            assert_eq!(encode(text.as_bytes()), bytes);
        }
    }

    #[test]
    fn wrong_padding_and_the_end_inside_a_string_are_errors() {
        // '0' is five zero bits; eight ones are too many, zeros are no padding.
        assert_eq!(decoded(b"\x07"), Ok(b"0".to_vec()));
        assert_eq!(decoded(b"\x00"), Err(CompressionError));
        assert_eq!(decoded(b"\x07\xff"), Err(CompressionError));
        assert_eq!(decoded(b"\xff\xff\xff\xff"), Err(CompressionError));
        assert_eq!(decoded(b"\xff\xff\xff\xfc\x07"), Err(CompressionError));
        assert_eq!(decoded(b""), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(text in prop::collection::vec(any::<u8>(), 0..80)) {
            prop_assert_eq!(decoded(&encode(&text)), Ok(text));
        }

        #[test]
        fn garbage_is_an_error_or_a_text(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(text) = decoded(&bytes) {
                prop_assert_eq!(encode(&text), bytes);
            }
        }
    }
}
