//! The plan of a load on a server: what its spec becomes before the run, whatever the protocol.
//!
//! Decision: a plan has a function that makes a worker's protocol, so that the protocols themselves need not be shared
//! between threads. Rejected: a trait that each protocol's plan implements.

use crate::net::Network;
use crate::net::spec::Connecting;
use crate::recorded::{ReadTrace, RecordedSource};
use bw_model::EngineError;
use bw_protocol::values::ValueSpec;
use bw_protocol::{Protocol, Values};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// What a plan follows from beside its spec.
#[derive(Debug, Default)]
pub struct PlanOptions {
    /// The seed of the run, from which values of templates follow.
    pub seed: u64,
    /// The traces whose requests are sent; empty: those of the spec are.
    pub(crate) traces: Vec<ReadTrace>,
}

impl PlanOptions {
    /// Returns the options of a run with this seed and the requests of its spec.
    #[must_use]
    pub fn with_seed(seed: u64) -> Self {
        Self {
            seed,
            traces: Vec::new(),
        }
    }

    /// Returns the values of a target's templates.
    ///
    /// # Errors
    /// `values`: one of them is wrong.
    pub(crate) fn values(
        &self,
        specs: &BTreeMap<String, ValueSpec>,
    ) -> Result<Values, EngineError> {
        Values::new(specs, self.seed).map_err(|message| {
            EngineError::request("values", message, "correct the value").about("target.values")
        })
    }
}

/// Makes one worker's protocol, for so many operations in progress on a connection.
type MakeProtocol<P> = dyn Fn(u32) -> P + Send + Sync;

/// A checked spec with a resolved name: every worker opens its own target from it.
pub struct ServerPlan<P> {
    pub(crate) kind: &'static str,
    connecting: Connecting,
    make: Box<MakeProtocol<P>>,
    /// How many requests there are: an operation's `offset` selects one.
    pub(crate) requests: usize,
    pub(crate) labels: Vec<String>,
    pub(crate) recorded: Option<Vec<RecordedSource>>,
    /// More fields of the target's description.
    pub(crate) about: Map<String, Value>,
}

impl<P: Protocol> ServerPlan<P> {
    /// Returns the plan of a target of this kind, as requests name it, with one request; `make` returns a worker's
    /// protocol for so many operations in progress on a connection.
    pub(crate) fn new(
        kind: &'static str,
        connecting: Connecting,
        make: impl Fn(u32) -> P + Send + Sync + 'static,
    ) -> Self {
        Self {
            kind,
            connecting,
            make: Box::new(make),
            requests: 1,
            labels: Vec::new(),
            recorded: None,
            about: Map::new(),
        }
    }

    /// Sets how many requests there are, and their labels; empty: they have none.
    pub(crate) fn with_requests(self, requests: usize, labels: Vec<String>) -> Self {
        Self {
            requests,
            labels,
            ..self
        }
    }

    /// Sets the traces whose requests it has; empty: it could have had some.
    pub(crate) fn with_recorded(self, recorded: Vec<RecordedSource>) -> Self {
        let recorded = Some(recorded);
        Self { recorded, ..self }
    }

    /// Adds a field to the target's description.
    pub(crate) fn about(mut self, field: &str, value: &str) -> Self {
        self.about.insert(field.to_owned(), json!(value));
        self
    }

    /// Returns a target with `connections` connections, all established and their handshakes complete.
    ///
    /// # Errors
    /// `connections`: their number is impossible; the server cannot be reached, or refuses the handshake.
    pub fn open(&self, connections: u32) -> Result<Network<P>, EngineError> {
        let protocol = (self.make)(self.connecting.outstanding());
        self.connecting.open(protocol, connections)
    }
}

impl<P> fmt::Debug for ServerPlan<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ServerPlan")
            .field("kind", &self.kind)
            .field("connecting", &self.connecting)
            .field("requests", &self.requests)
            .field("labels", &self.labels)
            .finish_non_exhaustive()
    }
}
