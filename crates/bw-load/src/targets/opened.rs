//! An opened target, whatever its kind.

use crate::clock::RunClock;
use crate::file_set::make::MakeReport;
use crate::pool::{TargetFactory, WorkerOutcome, WorkerPool};
use crate::record::RecordChannels;
use crate::recorded::RecordedSource;
use crate::reporter::Reporter;
use crate::target::Target;
use bw_model::EngineError;
use serde_json::Value;
use std::any::Any;

/// An opened target: it exists, it is large enough, its server has an address.
pub(crate) trait OpenTarget: Any {
    /// Returns the target's size [bytes]; for a server the number of its requests. 0: the filaments use a file set
    /// instead, or each has the extent of its own target.
    fn extent(&self) -> u64 {
        0
    }

    /// Returns what offsets and sizes must be multiples of [bytes]; None if there is no constraint.
    fn block_bytes(&self) -> Option<u64> {
        None
    }

    /// Returns the labels of the requests of each target.
    fn labels(&self) -> Vec<Vec<String>> {
        Vec::new()
    }

    /// Returns the traces of recorded requests that it has read; None if it sends no such requests.
    fn recorded(&self) -> Option<Vec<RecordedSource>> {
        None
    }

    /// Returns whether a trace of requests that has not been read before the run can be replayed.
    fn takes_any_request(&self) -> bool {
        false
    }

    /// Returns what making the file set found and did; None for a target without one.
    fn made(&self) -> Option<MakeReport> {
        None
    }
}

/// An opened target whose workers' targets are of whatever type: every [`TargetFactory`] is one.
pub(crate) trait RunTarget: OpenTarget + Sync {
    /// See [`WorkerPool::run`].
    ///
    /// # Errors
    /// As there.
    fn run(
        &self,
        pool: &WorkerPool<'_>,
        channels: Vec<RecordChannels>,
        reporter: &mut Reporter<'_>,
    ) -> Result<(Vec<WorkerOutcome>, u64), EngineError>;

    /// See [`TargetFactory::make`].
    ///
    /// # Errors
    /// As there.
    fn make_part(&self, worker: usize, clock: RunClock) -> Result<Box<dyn Target>, EngineError>;

    /// See [`TargetFactory::begin`].
    fn begin_part(&self, part: &mut dyn Target, clock: RunClock);

    /// See [`TargetFactory::describe`].
    fn describe_part(&self, part: &dyn Target) -> Value;
}

impl<F: TargetFactory + OpenTarget> RunTarget for F {
    fn run(
        &self,
        pool: &WorkerPool<'_>,
        channels: Vec<RecordChannels>,
        reporter: &mut Reporter<'_>,
    ) -> Result<(Vec<WorkerOutcome>, u64), EngineError> {
        pool.run(self, channels, reporter)
    }

    fn make_part(&self, worker: usize, clock: RunClock) -> Result<Box<dyn Target>, EngineError> {
        Ok(Box::new(self.make(worker, clock)?))
    }

    fn begin_part(&self, part: &mut dyn Target, clock: RunClock) {
        let part: &mut dyn Any = part;
        if let Some(target) = part.downcast_mut::<F::Target>() {
            self.begin(target, clock);
        }
    }

    fn describe_part(&self, part: &dyn Target) -> Value {
        let part: &dyn Any = part;
        let target = part.downcast_ref::<F::Target>();
        target.map_or(Value::Null, |target| self.describe(target))
    }
}
