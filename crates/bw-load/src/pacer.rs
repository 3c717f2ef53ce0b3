//! Other pacers than the engine's own, for comparison: what issues the operations of a run in place of its workers.
//!
//! Decision: this crate has none. A program that has one sets [`OTHER_PACER`] before its first run
//! (`benches/naive-pacers`); it gets the filaments and the record, so that its figures are those of the engine's own loop.

use crate::clock::RunClock;
use crate::record::WorkerRecord;
use crate::request::LoadRequest;
use crate::worker::{Stop, WorkerFilament};
use bw_model::EngineError;
use serde_json::Value;
use std::sync::OnceLock;

pub use crate::queue::{InFlight, Planned};

/// The pacer for requests that name another than the engine's own.
pub static OTHER_PACER: OnceLock<OtherPacer> = OnceLock::new();

/// Issues the operations of a run. Calls the function at the start, often during the run, and at the end.
///
/// # Errors
/// The request is none for this pacer, or threads cannot be started.
pub type OtherPacer =
    fn(PacerJob<'_>, &mut dyn FnMut(PacerPhase)) -> Result<PacerOutcome, EngineError>;

/// What a pacer is given.
pub struct PacerJob<'a> {
    /// The request.
    pub request: &'a LoadRequest,
    /// The size of the target [bytes].
    pub size_bytes: u64,
    /// The flag that ends the run early.
    pub stop: &'a Stop,
    /// Sets time zero to now; returns the clock, when it has passed zero.
    pub begin: &'a (dyn Fn() -> RunClock + Sync),
    /// The filaments, which have not received their start.
    pub filaments: Vec<WorkerFilament>,
    /// Where everything is recorded.
    pub record: WorkerRecord,
}

/// What the thread that reports is notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacerPhase {
    /// Time zero is set: `CLOCK_REALTIME` [ns].
    Begun(u64),
    /// The run is in progress.
    Under,
    /// The run has ended.
    Over,
}

/// What a pacer returns at its end.
pub struct PacerOutcome {
    /// What it recorded.
    pub record: WorkerRecord,
    /// What the result says about the target.
    pub target: Value,
    /// Time zero: `CLOCK_REALTIME` [ns].
    pub started_ns: u64,
}
