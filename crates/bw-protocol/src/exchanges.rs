//! What both versions of HTTP have: requests that all workers share, and counts of their responses.

use crate::MeasuredPart;
use crate::check::StatusClasses;
use bw_model::{Nanos, Operation};
use std::sync::Arc;

/// The requests of one version of HTTP, and how many responses had which status.
#[derive(Clone, Debug)]
pub(crate) struct Exchanges<R> {
    pub(crate) requests: Arc<R>,
    /// Maximum number of requests in progress on a connection.
    pub(crate) outstanding: u32,
    measured: MeasuredPart,
    statuses: StatusClasses,
}

impl<R> Exchanges<R> {
    pub(crate) fn new(requests: Arc<R>, outstanding: u32) -> Self {
        Self {
            requests,
            outstanding,
            measured: MeasuredPart::default(),
            statuses: StatusClasses::default(),
        }
    }

    /// Returns whether the response to this operation is counted.
    pub(crate) fn is_measured(&self, operation: &Operation) -> bool {
        self.measured.has(operation)
    }

    /// Counts a complete response, unless it belongs to the warm-up.
    pub(crate) fn count(&self, status: u16, is_measured: bool) {
        if is_measured {
            self.statuses.count(status);
        }
    }

    pub(crate) fn measure_from(&mut self, from: Nanos) {
        self.measured.set_start(from);
    }

    pub(crate) fn statuses(&self) -> [u64; 4] {
        self.statuses.counts()
    }
}
