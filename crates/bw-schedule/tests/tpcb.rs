//! The TPC-B-like load: the operations of a transaction, their order and locations.

#![allow(
    clippy::unwrap_used,
    reason = "a test may unwrap, in its own functions too"
)]

use bw_model::{Kind, Operation};
use std::collections::HashMap;
use workloads::{MS, issued};

mod workloads;

const SCALE: u64 = 1_000;
const CLIENTS: u64 = 8;
/// Pages of accounts, tellers and branches at this scale: 40 rows each.
const PAGES: [u64; 3] = [SCALE * 2_500, SCALE / 4, SCALE / 40];
const KINDS: [Kind; 7] = [
    Kind::Read,
    Kind::Write,
    Kind::Write,
    Kind::Write,
    Kind::Write,
    Kind::Write,
    Kind::Flush,
];

/// Returns the whole transactions of every client, each with its number.
fn transactions() -> Vec<(u64, Vec<Operation>)> {
    let text = format!(r#"{{"type":"tpcb","scale":{SCALE},"clients":{CLIENTS}}}"#);
    let mut clients: HashMap<u32, Vec<Operation>> = HashMap::new();
    for (id, operation) in issued(&text, MS, 14_000 * MS) {
        clients.entry(id).or_default().push(operation);
    }
    let mut all = Vec::new();
    for (id, operations) in clients {
        for (turn, chain) in (0..).zip(operations.chunks_exact(7)) {
            all.push((u64::from(id) + CLIENTS * turn, chain.to_vec()));
        }
    }
    all.sort_unstable_by_key(|&(number, _)| number);
    all
}

#[test]
fn each_step_waits_for_the_one_before_and_the_log_is_flushed_last() {
    let all = transactions();
    assert_eq!(all.len() as u64, CLIENTS * 2_000);
    for (number, chain) in all {
        let kinds: Vec<Kind> = chain.iter().map(|o| o.kind).collect();
        assert_eq!(kinds, KINDS);
        let begun = number / CLIENTS * 7;
        let at: Vec<u64> = chain.iter().map(|o| o.at.0 / MS).collect();
        assert_eq!(at, (begun..begun + 7).collect::<Vec<_>>());
        assert_eq!(chain[0].offset, chain[1].offset);
    }
}

#[test]
fn tables_are_where_they_belong_and_appends_are_in_order() {
    let (tellers, branches) = (PAGES[0], PAGES[0] + PAGES[1]);
    let history = branches + PAGES[2];
    let rest = workloads::TARGET_BYTES / 4096 - history;
    for (number, chain) in transactions() {
        let page = |step: usize| chain[step].offset / 4096;
        assert!(page(0) < tellers);
        assert!((tellers..branches).contains(&page(2)));
        // A teller's page has the tellers of four branches, a branch's page forty branches.
        assert_eq!(page(3), branches + (page(2) - tellers) / 10);
        assert_eq!(page(4), history + number / 81);
        assert_eq!(page(5), history + rest - rest / 4 + number);
        assert_eq!((chain[6].offset, chain[6].size), (0, 0));
    }
}

#[test]
fn of_a_hundred_accounts_eighty_five_are_the_branch_s_own() {
    let all = transactions();
    let of_same_page = all.iter().filter(|(_, chain)| {
        let (account, teller) = (chain[0].offset / 4096, chain[2].offset / 4096);
        // The account's branch is among the four of the teller's page.
        account / 2_500 / 4 == teller - PAGES[0]
    });
    let n = all.len() as f64;
    let share = 0.85 + 0.15 * 3.0 / (SCALE - 1) as f64;
    let deviation = (n * share * (1.0 - share)).sqrt();
    let home = of_same_page.count() as f64;
    assert!((home - n * share).abs() < 5.0 * deviation, "{home} of {n}");
}

#[test]
fn open_transactions_arrive_though_none_is_finished() {
    let text = r#"{"type":"tpcb","scale":3,"clients":1,"rate":{"micro_per_s":1000000000}}"#;
    let begun = issued(text, 60_000 * MS, 10_000 * MS);
    assert!(begun.iter().all(|(_, o)| o.kind == Kind::Read));
    // Poisson: 10,000 with a standard deviation of 100.
    assert!((9_500..10_500).contains(&begun.len()), "{}", begun.len());
    let finished = issued(text, MS, 10_000 * MS);
    let flushes = finished
        .iter()
        .filter(|(_, o)| o.kind == Kind::Flush)
        .count();
    let reads = finished
        .iter()
        .filter(|(_, o)| o.kind == Kind::Read)
        .count();
    // Transactions started in the last 6 ms are still in progress.
    let late = finished
        .iter()
        .filter(|(_, o)| o.kind == Kind::Read && o.at.0 >= 9_994 * MS);
    assert_eq!(flushes + late.count(), reads);
}
