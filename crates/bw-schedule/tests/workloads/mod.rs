//! Workloads for tests: from JSON, with a synthetic trace.

#![allow(dead_code, reason = "each test uses its part")]

use bw_model::{Kind, Nanos, Operation};
use bw_schedule::filaments::FilamentId;
use bw_schedule::filaments::open::{OperationSource, SourceState};
use bw_schedule::replay::{Placed, drive};
use bw_schedule::workload::{Placement, WorkloadError, WorkloadSpec};
use serde::{Deserialize, Serialize};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const TARGET_BYTES: u64 = 1 << 36;

/// A trace of `rows` operations, one each `gap_ns`, whose reader is behind before every block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MadeUp {
    pub rows: u64,
    pub gap_ns: u64,
    #[serde(default)]
    pub block: Option<u64>,
}

/// Its reader.
pub(crate) struct Reader {
    pub trace: MadeUp,
    pub next: u64,
    pub behind: bool,
}

impl Reader {
    pub(crate) fn new(trace: &MadeUp) -> Self {
        Self {
            trace: trace.clone(),
            next: 0,
            behind: true,
        }
    }
}

impl OperationSource for Reader {
    fn next_block(&mut self, block: &mut Vec<Operation>) -> SourceState {
        assert!(block.is_empty());
        self.behind = !self.behind;
        if !self.behind {
            return SourceState::NotYet;
        }
        let end = self
            .trace
            .rows
            .min(self.next + self.trace.block.unwrap_or(10));
        block.extend((self.next..end).map(|row| Operation {
            at: Nanos(row * self.trace.gap_ns),
            ..Operation::new(Kind::Read, row * 4096, 4096)
        }));
        self.next = end;
        if end == self.trace.rows {
            return SourceState::Ended;
        }
        SourceState::Ready
    }
}

pub(crate) type Workload = WorkloadSpec<MadeUp>;

/// Returns the workload of these filaments, written in the protocol's form.
pub(crate) fn workload(filaments: &str) -> Workload {
    serde_json::from_str(&format!(r#"{{"seed":4,"filaments":[{filaments}]}}"#)).unwrap()
}

pub(crate) fn build(
    workload: &Workload,
    placement: Placement,
) -> Result<Vec<Placed>, WorkloadError> {
    let mut sources = |trace: &MadeUp| -> Result<Box<dyn OperationSource>, String> {
        Ok(Box::new(Reader::new(trace)))
    };
    let built = workload.build(placement, TARGET_BYTES, &mut sources)?;
    Ok(built.filaments)
}

/// Returns what a single worker issues before `until` to a target that always takes `service`.
pub(crate) fn issued(filaments: &str, service: u64, until: u64) -> Vec<(FilamentId, Operation)> {
    let filaments = build(&workload(filaments), Placement::ALONE).unwrap();
    drive(filaments, |_| Nanos(service), Nanos(until))
}

/// Returns the intended starts of one filament [ns].
pub(crate) fn starts(issued: &[(FilamentId, Operation)], id: FilamentId) -> Vec<u64> {
    let own = issued.iter().filter(|(of, _)| *of == id);
    own.map(|(_, operation)| operation.at.0).collect()
}

/// Returns an access of 4 KiB with a location.
pub(crate) fn access(kinds: &str, location: &str) -> String {
    format!(
        r#""access":{{"kinds":[{kinds}],"size":{{"type":"constant","value":4096}},
        "location":{{"type":"{location}"}},"align_bytes":4096}}"#
    )
}

/// Returns reads of 4 KiB anywhere.
pub(crate) fn reads() -> String {
    access(r#"["read",1]"#, "uniform")
}

/// Returns a constant distribution.
pub(crate) fn constant(value: u64) -> String {
    format!(r#"{{"type":"constant","value":{value}}}"#)
}

/// Returns an open loop with constant gaps.
pub(crate) fn open(name: &str, per_s: u64) -> String {
    let micro = per_s * 1_000_000;
    let reads = reads();
    format!(
        r#"{{"type":"open","name":"{name}","arrival":{{"type":"constant"}},"rate":{{"micro_per_s":{micro}}},{reads}}}"#
    )
}

/// Returns a closed loop.
pub(crate) fn closed(name: &str, users: u64, think: u64) -> String {
    let (think, reads) = (constant(think), reads());
    format!(r#"{{"type":"closed","name":"{name}","users":{users},"think":{think},{reads}}}"#)
}

/// Returns a filament that follows another.
pub(crate) fn follow(name: &str, leader: &str, every: u64, delay: u64) -> String {
    let (delay, writes) = (constant(delay), access(r#"["write",1]"#, "sequential"));
    format!(
        r#"{{"type":"follow","name":"{name}","leader":"{leader}","every":{every},"delay":{delay},{writes}}}"#
    )
}
