//! HPACK by the examples of RFC 7541, appendix C, and against tables that a server makes in other ways.

use super::*;
use proptest::prelude::*;

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| *byte != b' ').collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// Decodes a block; returns its status, and the table's entries and size.
fn step(decoder: &mut Decoder, hex: &str) -> (Option<u16>, usize, u32) {
    let fields = decoder.decode(&bytes_of(hex)).unwrap();
    (fields.status, decoder.entries.len(), decoder.table_bytes)
}

#[test]
fn integers_are_those_of_c_1() {
    for (prefix, number, bytes) in [(5, 10, "0a"), (5, 1337, "1f9a0a"), (8, 42, "2a")] {
        let bytes = bytes_of(bytes);
        let mut rest = &bytes[..];
        assert_eq!(integer(&mut rest, prefix), Ok(number));
        assert_eq!(rest, b"");
        let mut block = Vec::new();
        put_integer(0, prefix, number as usize, &mut block);
        assert_eq!(block, bytes);
    }
    // A number that no index and no length can have, and one that does not end.
    let endless = [0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    assert_eq!(integer(&mut &endless[..], 5), Err(CompressionError));
    assert_eq!(integer(&mut &endless[..3], 5), Err(CompressionError));
}

#[test]
fn fields_are_those_of_c_2() {
    for (hex, entries, size) in [
        (
            "400a637573746f6d2d6b65790d637573746f6d2d686561646572",
            1,
            55,
        ),
        ("040c2f73616d706c652f70617468", 0, 0),
        ("100870617373776f726406736563726574", 0, 0),
        ("82", 0, 0),
    ] {
        assert_eq!(step(&mut Decoder::new(), hex), (None, entries, size));
    }
}

#[test]
fn requests_are_those_of_c_3_and_c_4() {
    let plain = [
        "828684410f7777772e6578616d706c652e636f6d",
        "828684be58086e6f2d6361636865",
        "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
    ];
    let huffman = [
        "828684418cf1e3c2e5f23a6ba0ab90f4ff",
        "828684be5886a8eb10649cbf",
        "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
    ];
    for blocks in [plain, huffman] {
        let mut decoder = Decoder::new();
        let sizes = blocks.map(|block| step(&mut decoder, block));
        assert_eq!(sizes, [(None, 1, 57), (None, 2, 110), (None, 3, 164)]);
    }
}

#[test]
fn responses_are_those_of_c_5_and_c_6() {
    let date = "4d6f6e2c203231204f637420323031332032303a31333a323120474d54";
    let later = "4d6f6e2c203231204f637420323031332032303a31333a323220474d54";
    let url = "68747470733a2f2f7777772e6578616d706c652e636f6d";
    let cookie = "666f6f3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31";
    let plain = [
        format!("4803333032580770726976617465611d{date}6e17{url}"),
        "4803333037c1c0bf".to_owned(),
        format!("88c1611d{later}c05a04677a69707738{cookie}"),
    ];
    let huffman = [
        "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3".to_owned(),
        "4883640effc1c0bf".to_owned(),
        "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007".to_owned(),
    ];
    for blocks in [plain, huffman] {
        // The examples have a table of 256 bytes, so entries are evicted.
        let mut decoder = Decoder::new();
        assert_eq!(step(&mut decoder, "3fe101"), (None, 0, 0));
        assert_eq!(decoder.limit_bytes, 256);
        let steps = blocks.map(|block| step(&mut decoder, &block));
        assert_eq!(
            steps,
            [
                (Some(302), 4, 222),
                (Some(307), 4, 222),
                (Some(200), 3, 215)
            ]
        );
    }
}

#[test]
fn a_status_and_a_length_are_found_however_they_are_written() {
    let mut decoder = Decoder::new();
    let mut block = vec![0x48, 3];
    block.extend_from_slice(b"418");
    block.extend_from_slice(b"\x5c\x0212");
    let fields = decoder.decode(&block).unwrap();
    assert_eq!(
        (fields.status, fields.content_length),
        (Some(418), Some(12))
    );
    // From the dynamic table, the newest first; then the name from it, with another value.
    let fields = decoder.decode(b"\xbf\xbe").unwrap();
    assert_eq!(
        (fields.status, fields.content_length),
        (Some(418), Some(12))
    );
    let fields = decoder
        .decode(b"\x0f\x30\x03503\x00\x0econtent-length\x017")
        .unwrap();
    assert_eq!((fields.status, fields.content_length), (Some(503), Some(7)));
    assert!(!fields.malformed);
}

#[test]
fn fields_that_break_the_rules_are_malformed() {
    let malformed = |block: &[u8]| Decoder::new().decode(block).unwrap().malformed;
    assert!(!malformed(b"\x88"));
    assert!(malformed(b"\x88\x89"), "two statuses");
    assert!(malformed(b"\x58\x00\x88"), "the status behind a field");
    assert!(malformed(b"\x82\x88"), "a field of requests");
    assert!(malformed(b"\x08\x0220"), "a status of two digits");
    assert!(malformed(b"\x88\x0f\x0d\x02-1"), "a negative length");
    assert!(malformed(b"\x88\x0f\x0d\x011\x0f\x0d\x012"), "two lengths");
    assert!(!malformed(b"\x88\x0f\x0d\x011\x0f\x0d\x011"));
}

#[test]
fn blocks_that_cannot_be_decoded_are_errors() {
    for block in [
        &b"\x80"[..],
        b"\xbe",
        b"\x7e\x01a",
        b"\x00\x05abc",
        b"\x00\x01",
        b"\x88\x20",
        b"\x3f\xe2\x1f",
        b"\x00\x81\x00\x00",
    ] {
        let decoded = Decoder::new().decode(block);
        assert_eq!(decoded, Err(CompressionError), "{block:?}");
    }
}

#[test]
fn a_field_larger_than_the_table_empties_it() {
    let mut decoder = Decoder::new();
    decoder.decode(b"\x40\x01a\x01b").unwrap();
    assert_eq!((decoder.entries.len(), decoder.table_bytes), (1, 34));
    let mut block = vec![0x40];
    put_text(&[b'n'; 3000], &mut block);
    put_text(&[b'v'; 3000], &mut block);
    decoder.decode(&block).unwrap();
    assert_eq!((decoder.entries.len(), decoder.table_bytes), (0, 0));
}

#[test]
fn requests_are_encoded_without_the_tables_of_a_connection() {
    let mut block = Vec::new();
    put_field(":method", b"GET", &mut block);
    put_field(":method", b"PUT", &mut block);
    put_field("x-y", b"z", &mut block);
    assert_eq!(block, b"\x82\x02\x03PUT\x00\x03x-y\x01z");
}

/// A field as a server may write it.
#[derive(Clone, Debug)]
enum Written {
    Literal {
        stored: bool,
        huffman: bool,
        name: usize,
        value: Vec<u8>,
    },
    Again(usize),
    Resize(u32),
}

fn written() -> impl Strategy<Value = Written> {
    let value = prop::collection::vec(any::<u8>(), 0..200);
    let literal = (any::<bool>(), any::<bool>(), 0..NAMES.len(), value).prop_map(
        |(stored, huffman, name, value)| Written::Literal {
            stored,
            huffman,
            name,
            value,
        },
    );
    prop_oneof![
        6 => literal,
        3 => (0_usize..200).prop_map(Written::Again),
        1 => (0..=TABLE_BYTES).prop_map(Written::Resize),
    ]
}

const NAMES: [&str; 4] = [
    "x-one",
    "content-type",
    ":status",
    "an-unusual-name-of-a-field",
];

proptest! {
    /// The table of texts that a server has is in step with that of lengths.
    #[test]
    fn the_table_has_the_same_entries_as_one_with_texts(fields in prop::collection::vec(written(), 0..60)) {
        let mut decoder = Decoder::new();
        let mut model: VecDeque<(Vec<u8>, Vec<u8>)> = VecDeque::new();
        let mut limit = TABLE_BYTES as usize;
        let size = |model: &VecDeque<(Vec<u8>, Vec<u8>)>| -> usize {
            model.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
        };
        for field in fields {
            let mut block = Vec::new();
            match field {
                Written::Resize(bytes) => {
                    limit = bytes as usize;
                    put_integer(0x20, 5, limit, &mut block);
                }
                Written::Again(place) => {
                    if place >= model.len() {
                        continue;
                    }
                    put_integer(0x80, 7, STATIC.len() + 1 + place, &mut block);
                }
                Written::Literal { stored, huffman, name, value } => {
                    let name = NAMES[name].as_bytes();
                    block.push(if stored { 0x40 } else { 0 });
                    for text in [name, &value[..]] {
                        if huffman {
                            let text = huffman::tests::encode(text);
                            put_integer(0x80, 7, text.len(), &mut block);
                            block.extend_from_slice(&text);
                        } else {
                            put_text(text, &mut block);
                        }
                    }
                    if stored {
                        model.push_front((name.to_vec(), value));
                    }
                }
            }
            while size(&model) > limit {
                model.pop_back();
            }
            decoder.decode(&block).unwrap();
            prop_assert_eq!(decoder.table_bytes as usize, size(&model));
            let lengths: Vec<_> = decoder.entries.iter().map(|one| (one.name.bytes, one.value_bytes)).collect();
            let texts: Vec<_> = model.iter().map(|(name, value)| (name.len() as u32, value.len() as u32)).collect();
            prop_assert_eq!(lengths, texts);
        }
    }

    #[test]
    fn garbage_never_panics_and_the_table_stays_bounded(
        blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..20),
    ) {
        let mut decoder = Decoder::new();
        let capacity = decoder.entries.capacity();
        for block in blocks {
            let _ = decoder.decode(&block);
            prop_assert!(decoder.table_bytes <= TABLE_BYTES);
            prop_assert_eq!(decoder.entries.capacity(), capacity);
        }
    }
}
