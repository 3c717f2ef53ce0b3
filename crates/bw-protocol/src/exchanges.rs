//! What both versions of HTTP have: requests that all workers share, and counts of their responses.

use crate::MeasuredPart;
use crate::check::{Check, StatusClasses};
use crate::grpc::Calls;
use crate::streams::Streams;
use bw_model::{Nanos, Operation};
use bw_record::errno::HTTP_STATUS;
use std::sync::Arc;

/// The requests of one version of HTTP, and how many responses had which status.
#[derive(Debug)]
pub(crate) struct Exchanges<R> {
    pub(crate) requests: Arc<R>,
    /// Maximum number of requests in progress on a connection.
    pub(crate) outstanding: u32,
    measured: MeasuredPart,
    statuses: StatusClasses,
    /// None: the operations are no calls of gRPC.
    pub(crate) calls: Option<Calls>,
    /// None: responses are not read as streams.
    pub(crate) streams: Option<Streams>,
}

impl<R> Exchanges<R> {
    pub(crate) fn new(requests: Arc<R>, outstanding: u32) -> Self {
        Self {
            requests,
            outstanding,
            measured: MeasuredPart::default(),
            statuses: StatusClasses::default(),
            calls: None,
            streams: None,
        }
    }

    /// Makes room for the streams of one more connection.
    pub(crate) fn grow(&self) {
        if let Some(streams) = &self.streams {
            streams.grow(self.outstanding);
        }
    }

    /// Begins the stream of an operation.
    pub(crate) fn begin(&self, slot: u32) {
        if let Some(streams) = &self.streams {
            streams.begin(slot);
        }
    }

    /// Returns what reads the body of a response with this status as a stream.
    #[inline]
    pub(crate) fn streams_of(&self, status: u16) -> Option<&Streams> {
        let streams = self.streams.as_ref();
        streams.filter(|_| (200..300).contains(&status))
    }

    /// Counts a complete response; returns the result of its operation, which was `result` so far. Where answers are
    /// streams, a redirect is none, so it fails unless it is expected.
    #[inline]
    pub(crate) fn complete(
        &self,
        slot: u32,
        status: u16,
        check: &Check,
        is_measured: bool,
        result: i64,
    ) -> i64 {
        if is_measured {
            self.statuses.count(status);
        }
        match self.streams_of(status) {
            Some(streams) => streams.complete(slot, is_measured, result),
            None if self.streams.is_some() && result >= 0 && !check.accepts_error(status) => {
                -i64::from(HTTP_STATUS + i32::from(status))
            }
            None => result,
        }
    }

    /// Returns whether the response to this operation is counted.
    pub(crate) fn is_measured(&self, operation: &Operation) -> bool {
        self.measured.has(operation)
    }

    pub(crate) fn measure_from(&mut self, from: Nanos) {
        self.measured.set_start(from);
    }

    pub(crate) fn statuses(&self) -> [u64; 4] {
        self.statuses.counts()
    }
}
