//! For any bytes, every reader ends with rows or an error: no panic, no endless loop, and
//! no more rows than the input can hold.

#![allow(clippy::unwrap_used)]

use bw_record::segment::{Content, Header, Order, SegmentWriter};
use bw_trace::input::{Duplicates, Format, Offsets, TraceInput};
use bw_trace::trace;
use proptest::prelude::*;
use std::io::Cursor;

const GOLDEN: [(&str, Option<Format>); 23] = [
    ("", Some(Format::Bw)),
    ("small.load", Some(Format::Load)),
    ("v2.iolog", Some(Format::FioIolog)),
    ("v3.iolog", Some(Format::FioIolog)),
    ("small.blkparse", Some(Format::Blkparse)),
    ("le.blktrace.0", Some(Format::Blktrace)),
    ("be.blktrace.1", Some(Format::Blktrace)),
    ("small.msr.csv", Some(Format::Msr)),
    ("small.systor.csv", Some(Format::Systor)),
    ("small.spc", Some(Format::Spc)),
    ("v1.vscsi", Some(Format::Vscsi)),
    ("v2.vscsi", Some(Format::Vscsi)),
    ("small.alibaba.csv", Some(Format::Alibaba)),
    ("small.tencent.csv", Some(Format::Tencent)),
    ("small.mqsim", Some(Format::Mqsim)),
    ("small.strace", Some(Format::Strace)),
    ("small.load", None),
    ("small.access.log", Some(Format::AccessLog)),
    ("small.msec.log", Some(Format::AccessLog)),
    ("small.vhost.log", None),
    ("small.har", Some(Format::Har)),
    ("small.jsonl", Some(Format::Jsonl)),
    ("small.jsonl", None),
];

fn golden(name: &str) -> Vec<u8> {
    if name.is_empty() {
        let header = Header::new(Content::Trace, Order::Intended);
        let mut writer = SegmentWriter::new(Vec::new(), &header).unwrap();
        let rows = trace::read(
            Box::new(Cursor::new(golden("small.load"))),
            &TraceInput::new("t"),
        );
        rows.unwrap()
            .for_each(|row| writer.write(&row.unwrap()).unwrap());
        return writer.finish().unwrap();
    }
    std::fs::read(format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Reads everything; returns the number of rows.
fn drain(bytes: &[u8], format: Option<Format>, lenient: bool) -> usize {
    let input = TraceInput {
        format,
        lenient,
        duplicates: Some(if lenient {
            Duplicates::Spread
        } else {
            Duplicates::Burst
        }),
        offsets: if lenient && !format.is_some_and(Format::has_requests) {
            Offsets::Wrap
        } else {
            Offsets::Exact
        },
        target_bytes: lenient.then_some(1 << 30),
        align_bytes: lenient.then_some(4096),
        ..TraceInput::new("t")
    };
    let Ok(trace) = trace::read(Box::new(Cursor::new(bytes.to_vec())), &input) else {
        return 0;
    };
    let mut before = 0;
    let mut rows = 0;
    for row in trace.map_while(Result::ok) {
        assert!(row.intended.0 >= before, "rows come in the order of time");
        before = row.intended.0;
        rows += 1;
    }
    rows
}

fn any_format() -> impl Strategy<Value = Option<Format>> {
    let formats: Vec<Option<Format>> = Format::ALL.into_iter().map(Some).chain([None]).collect();
    proptest::sample::select(formats)
}

/// Returns bytes that resemble the texts and magics of traces.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let digits = proptest::sample::select(b"0123456789.,; rRwW+\n[]-".to_vec());
    let magic = proptest::sample::select(vec![
        vec![],
        vec![0x1f, 0x8b, 8, 0],
        vec![0x28, 0xb5, 0x2f, 0xfd],
        vec![0x50, 0x2a, 0x4d, 0x18],
        vec![7, 0x74, 0x61, 0x65],
        b"fio version 3 iolog\n".to_vec(),
        b"fio version 2 iolog\n".to_vec(),
        b"bwtrace\n\x01\0\x30\0".to_vec(),
        b"{\"log\":{\"entries\":[".to_vec(),
        b"{\"time\":1,\"path\":".to_vec(),
        b"- - - [10/Oct/2000:13:55:36 -0700] \"GET /".to_vec(),
    ]);
    let body = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..400),
        proptest::collection::vec(digits, 0..400),
    ];
    (magic, body).prop_map(|(magic, body)| [magic, body].concat())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn arbitrary_bytes(bytes in bytes(), format in any_format(), lenient: bool) {
        prop_assert!(drain(&bytes, format, lenient) <= bytes.len());
    }

    #[test]
    fn golden_files_with_changes(
        (name, format) in proptest::sample::select(GOLDEN.to_vec()),
        changes in proptest::collection::vec((any::<usize>(), any::<u8>(), 0_u8..4), 1..8),
        lenient: bool,
    ) {
        let mut bytes = golden(name);
        for (place, byte, what) in changes {
            let place = place % bytes.len().max(1);
            match what {
                0 => bytes.insert(place, byte),
                1 if !bytes.is_empty() => { bytes.remove(place); }
                2 => bytes.truncate(place),
                _ if !bytes.is_empty() => bytes[place] = byte,
                _ => {}
            }
        }
        prop_assert!(drain(&bytes, format, lenient) <= bytes.len());
    }

    #[test]
    fn compressed_files_with_changes(
        place in any::<usize>(),
        byte in any::<u8>(),
        zstd: bool,
    ) {
        let mut bytes = if zstd {
            ruzstd::encoding::compress_to_vec(
                golden("small.blkparse").as_slice(),
                ruzstd::encoding::CompressionLevel::Fastest,
            )
        } else {
            let mut gz = flate2::read::GzEncoder::new(
                Cursor::new(golden("small.blkparse")),
                flate2::Compression::best(),
            );
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut gz, &mut bytes).unwrap();
            bytes
        };
        let place = place % bytes.len();
        bytes[place] = byte;
        drain(&bytes, None, true);
    }
}
