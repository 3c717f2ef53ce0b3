//! The targets of the workers on one server.

use super::opened::OpenTarget;
use crate::clock::RunClock;
use crate::net::Network;
use crate::net::plan::ServerPlan;
use crate::pool::TargetFactory;
use crate::recorded::RecordedSource;
use bw_model::EngineError;
use bw_protocol::Protocol;
use serde::Serialize;
use serde_json::{Value, json};

/// The connections of a run, of which each worker has its share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    connections: u32,
    workers: u32,
}

impl Shares {
    /// Returns the shares of so many workers.
    ///
    /// # Errors
    /// `connections`: there are fewer than workers.
    pub(super) fn new(connections: u32, workers: u32) -> Result<Self, EngineError> {
        if connections < workers {
            let message = format!("{connections} connections for {workers} workers");
            let remedy = "use at least one for each worker";
            return Err(EngineError::request("connections", message, remedy));
        }
        Ok(Self {
            connections,
            workers,
        })
    }

    /// Returns this worker's share: an equal part, one more for the first workers.
    pub(super) fn of(self, worker: usize) -> u32 {
        let more = (worker as u32) < self.connections % self.workers;
        self.connections / self.workers + u32::from(more)
    }
}

/// Makes targets on one server; each worker has its share of the connections.
pub(super) struct ServerFactory<P> {
    pub(super) plan: ServerPlan<P>,
    pub(super) shares: Shares,
}

impl<P: Protocol + 'static> TargetFactory for ServerFactory<P> {
    type Target = Network<P>;

    fn make(&self, worker: usize, _clock: RunClock) -> Result<Self::Target, EngineError> {
        self.plan.open(self.shares.of(worker))
    }

    fn describe(&self, target: &Self::Target) -> Value {
        let mut described = described(self.plan.kind, Value::Null, &target.describe());
        if let Some(fields) = described.as_object_mut() {
            fields.extend(self.plan.about.clone());
        }
        described
    }
}

impl<P: Protocol + 'static> OpenTarget for ServerFactory<P> {
    fn extent(&self) -> u64 {
        self.plan.requests as u64
    }

    fn labels(&self) -> Vec<Vec<String>> {
        vec![self.plan.labels.clone()]
    }

    fn recorded(&self) -> Option<Vec<RecordedSource>> {
        self.plan.recorded.clone()
    }
}

/// Returns the result's description of a target with connections: what it did, and what every target says.
pub(super) fn described(kind: &str, size_bytes: Value, did: &impl Serialize) -> Value {
    let mut described = serde_json::to_value(did).unwrap_or_default();
    if let Some(fields) = described.as_object_mut() {
        let more = json!({"kind": kind, "engine": "epoll", "size_bytes": size_bytes, "features": [], "absent": []});
        fields.extend(more.as_object().cloned().unwrap_or_default());
    }
    described
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_shared_out_whole() {
        let shares = Shares::new(8, 3).unwrap();
        assert_eq!([0, 1, 2].map(|worker| shares.of(worker)), [3, 3, 2]);
        assert!(Shares::new(2, 3).is_err());
    }
}
