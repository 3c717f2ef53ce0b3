//! Parsers with arbitrary bytes: none may panic or write a value that is not there.

#![allow(clippy::unwrap_used)]

use bw_watch::blocked::Call;
use bw_watch::cgroup_limits::{
    Throttle, add_throttle, amount, cpu_max, cpu_quota, hierarchies, io_max, memberships,
};
use bw_watch::columns::{ABSENT, Columns, Parser};
use bw_watch::disks::Disks;
use bw_watch::kernel_log::record;
use bw_watch::memory::{FileTable, MEMORY_LINES, Memory, VM_LINES, Vm};
use bw_watch::network::{Interfaces, NETSTAT, SNMP, Sockets, Softnet};
use bw_watch::output;
use bw_watch::processors::{Cpu, Pressure, SoftIrqs};
use bw_watch::text::{lines, number, only, words};
use bw_watch::threads::{io, open_files_limit, schedstat, stat};
use proptest::prelude::*;
use std::path::PathBuf;

/// Returns bytes that resemble the kernel's texts often enough to pass the first check.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        "[a-z]{1,6}[0-9]{0,2}:?",
        "[0-9]{1,21}",
        Just("cpu0".to_owned()),
        Just("MemTotal:".to_owned()),
        Just("allocstall_dma".to_owned()),
        Just("Tcp: OutSegs".to_owned()),
        Just("some total=7".to_owned()),
        Just("7 (a) b) R".to_owned()),
        Just("8 0 sda".to_owned()),
        Just("-1".to_owned()),
        Just("\u{e9}".to_owned()),
    ];
    let line = proptest::collection::vec(word, 0..26).prop_map(|words| words.join(" "));
    let text =
        proptest::collection::vec(line, 0..8).prop_map(|lines| lines.join("\n").into_bytes());
    prop_oneof![3 => text, 1 => proptest::collection::vec(any::<u8>(), 0..300)]
}

/// Learns one text and parses another; refusing the learned text is a defect.
fn learn_and_read<P: Parser>(mut parser: P, first: &[u8], second: &[u8]) {
    let mut columns = Columns::default();
    parser.learn(first, &mut columns);
    let mut values = vec![0; columns.named.len()];
    assert!(
        parser.parse(first, &mut values),
        "{} refuses what it learned",
        P::WHAT
    );
    parser.parse(second, &mut values);
    assert!(
        values
            .iter()
            .all(|value| *value >= 0 || *value == ABSENT || *value == -1)
    );
}

proptest! {
    #[test]
    fn any_text_is_learned_and_read(first in texts(), second in texts()) {
        learn_and_read(Cpu::default(), &first, &second);
        learn_and_read(SoftIrqs::default(), &first, &second);
        learn_and_read(Memory::new("memory/", MEMORY_LINES), &first, &second);
        learn_and_read(Vm::new("vm/", VM_LINES), &first, &second);
        learn_and_read(Disks::new(PathBuf::from("/nowhere")), &first, &second);
        learn_and_read(Interfaces::default(), &first, &second);
        learn_and_read(Sockets::new(SNMP), &first, &second);
        learn_and_read(Sockets::new(NETSTAT), &first, &second);
        learn_and_read(Softnet, &first, &second);
        learn_and_read(FileTable, &first, &second);
        learn_and_read(Pressure::new("cpu"), &first, &second);
    }

    #[test]
    fn small_parsers_take_any_bytes(text in texts()) {
        let mut limits = Vec::new();
        add_throttle(&mut limits, Throttle::Reads, &text);
        let _ = (stat(&text), schedstat(&text), io(&text), open_files_limit(&text), Call::of(&text));
        let _ = (cpu_max(&text), cpu_quota(&text, &text), amount(&text), io_max(&text));
        let _ = (record(&text), only(&text));
        let text = String::from_utf8_lossy(&text);
        let _ = hierarchies(&text);
        assert!(memberships(&text).all(|(version, _, _)| version == 1 || version == 2));
    }

    #[test]
    fn tokens_are_those_of_the_standard_library(text in texts()) {
        let text = String::from_utf8_lossy(&text).into_owned();
        let ours: Vec<&[u8]> = lines(text.as_bytes()).collect();
        let theirs: Vec<&[u8]> = text.split_terminator('\n').map(str::as_bytes).collect();
        assert_eq!(ours, theirs);
        for line in text.lines() {
            let line = line.trim_end_matches('\r');
            let ours: Vec<&[u8]> = words(line.as_bytes()).collect();
            let theirs = line.split([' ', '\t']).filter(|word| !word.is_empty());
            assert_eq!(ours, theirs.map(str::as_bytes).collect::<Vec<_>>());
        }
    }

    #[test]
    fn numbers_are_those_of_the_standard_library(value in any::<u64>()) {
        let expected = i64::try_from(value).unwrap_or(i64::MAX);
        assert_eq!(number(value.to_string().as_bytes()), Some(expected));
    }

    #[test]
    fn any_bytes_become_a_json_string(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut out = Vec::new();
        output::string(&mut out, &bytes);
        let read: String = serde_json::from_slice(&out).unwrap();
        assert_eq!(read, String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn a_system_call_has_its_name_and_its_arguments() {
    let text = b"0 0x3 0x7f98 0x20000 0x7f98 0xffffffff 0x0 0x7ffc 0x7f98\n";
    let call = Call::of(text).unwrap();
    assert_eq!(call.arguments[..3], [3, 0x7f98, 0x20000]);
    assert_eq!(Call::of(b"running\n"), None);
    assert_eq!(Call::of(b"0 0x3\n"), None);
    let fault = Call::of(b"-1 0x7ffc 0x7f98\n").unwrap();
    assert_eq!(fault.name(), "page fault");
    let unknown = Call {
        number: 9999,
        arguments: [0; 5],
    };
    assert_eq!(unknown.name(), "syscall 9999");
    let futex = format!("{} 0x55d0 0x80 0x2 0x0 0x0 0x0 0x1 0x2\n", libc::SYS_futex);
    assert_eq!(Call::of(futex.as_bytes()).unwrap().name(), "futex");
}
