//! Traces of recorded requests in a load: read whole before the run, since the target must have their requests.
//!
//! Decision: an arrival is a time and an index, which all workers share, so a worker reads memory and no thread reads
//! ahead. The requests themselves are the target's (`http::request`).

use bw_model::{EngineError, ExchangeAddress, Kind, Nanos, Operation};
use bw_schedule::filaments::open::{OperationSource, SourceState};
use bw_schedule::workload::{FilamentSpec, WorkloadSpec};
use bw_trace::input::{TraceInput, TraceReport};
use bw_trace::recorded::{self, RecordedTrace};
use std::sync::Arc;

/// Operations in a block.
const BLOCK: usize = 256;

/// A trace that has been read, and the input that describes it.
#[derive(Debug)]
pub(crate) struct ReadTrace {
    input: TraceInput,
    pub(crate) recorded: RecordedTrace,
}

impl ReadTrace {
    /// Returns its arrivals, whose requests are at `first` and behind it in their target.
    pub(crate) fn source(self, first: u32) -> RecordedSource {
        RecordedSource {
            input: self.input,
            report: self.recorded.report,
            arrivals: self.recorded.arrivals,
            first,
        }
    }
}

/// The arrivals of a trace.
#[derive(Clone, Debug)]
pub(crate) struct RecordedSource {
    input: TraceInput,
    pub(crate) report: TraceReport,
    arrivals: Arc<[(Nanos, u32)]>,
    first: u32,
}

impl RecordedSource {
    /// Returns whether it is the trace that `input` describes, for whatever target.
    pub(crate) fn is_of(&self, input: &TraceInput) -> bool {
        let unfitted = TraceInput {
            target_bytes: self.input.target_bytes,
            align_bytes: self.input.align_bytes,
            ..input.clone()
        };
        unfitted == self.input
    }

    /// Returns all its operations, from the first one on.
    pub(crate) fn operations(&self) -> RecordedOperations {
        RecordedOperations {
            arrivals: Arc::clone(&self.arrivals),
            first: self.first,
            next: 0,
        }
    }
}

/// Reads the traces of requests of a workload; empty if it has none.
///
/// # Errors
/// A trace cannot be read; a filament has no recorded requests, and another one does.
pub(crate) fn read(workload: &WorkloadSpec<TraceInput>) -> Result<Vec<ReadTrace>, EngineError> {
    let mut traces = Vec::new();
    let mut other = None;
    for (place, filament) in workload.filaments.iter().enumerate() {
        let FilamentSpec::Trace(trace) = filament else {
            other = Some(place);
            continue;
        };
        match recorded::read(&trace.input)? {
            Some(recorded) => traces.push(ReadTrace {
                input: trace.input.clone(),
                recorded,
            }),
            None => other = Some(place),
        }
    }
    match other {
        Some(place) if !traces.is_empty() => {
            let message = "a target that replays recorded requests has no other requests";
            let remedy = "give the other filaments a target of their own";
            let error = EngineError::request("bad-request", message, remedy);
            Err(error.about(format!("workload.filaments[{place}]")))
        }
        _ => Ok(traces),
    }
}

/// The operations of a trace for one worker.
pub(crate) struct RecordedOperations {
    arrivals: Arc<[(Nanos, u32)]>,
    first: u32,
    next: usize,
}

impl OperationSource for RecordedOperations {
    fn next_block(&mut self, block: &mut Vec<Operation>) -> SourceState {
        let left = &self.arrivals[self.next..];
        let taken = &left[..left.len().min(BLOCK)];
        block.extend(taken.iter().map(|(at, request)| {
            Operation {
                at: *at,
                ..Operation::new(
                    Kind::Exchange,
                    ExchangeAddress {
                        request: self.first + request,
                        number: 0,
                    }
                    .pack(),
                    0,
                )
            }
        }));
        self.next += taken.len();
        if taken.is_empty() {
            SourceState::Ended
        } else {
            SourceState::Ready
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_gets_all_arrivals_with_the_requests_of_their_trace() {
        let arrivals = (0..600).map(|at| (Nanos(at), (at % 3) as u32));
        let source = RecordedSource {
            input: TraceInput::new("x"),
            report: bw_trace::trace::read(
                Box::new(&b"0,8,4096,r,0.5\n"[..]),
                &TraceInput::new("x"),
            )
            .unwrap()
            .report(),
            arrivals: arrivals.collect(),
            first: 7,
        };
        for _ in 0..2 {
            let mut operations = source.operations();
            let mut all = Vec::new();
            while operations.next_block(&mut all) == SourceState::Ready {}
            assert_eq!(all.len(), 600);
            for (place, operation) in all.iter().enumerate() {
                assert_eq!(operation.at, Nanos(place as u64));
                let request = ExchangeAddress::unpack(operation.offset).request as usize;
                assert_eq!(request, 7 + place % 3);
            }
        }
    }
}
