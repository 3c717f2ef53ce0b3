//! What recorded HTTP requests are: methods, statuses, hosts, paths, sizes of bodies.
//!
//! Decision: a path counts without its query, since `/search?q=a` and `/search?q=b` are the same work of a server; the
//! popularity, from which the hits of a cache follow, counts paths with their queries and hosts. The memory grows with the
//! number of different requests, which are held anyway.

use crate::entry::RecordedResponse;
use crate::requests::RecordedRequest;
use crate::stat::popularity::Popularity;
use bw_model::Nanos;
use bw_record::histogram::Histogram;
use bw_record::summary::HistogramSummary;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

/// How many hosts and paths the result has.
const SHOWN: usize = 20;

/// The share of one kind or method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct KindShare {
    /// Number of operations.
    pub operations: u64,
    /// Sum of their sizes.
    pub bytes: u64,
    /// Share of all operations.
    pub share: f64,
}

/// What the requests of a trace are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestStatistics {
    /// Requests by the status of their response; those without a recorded one are missing.
    pub statuses: BTreeMap<u16, u64>,
    /// The hosts with the most requests, most first; empty if the trace has no hosts.
    pub hosts: Vec<RequestShare>,
    /// The paths with the most requests, most first.
    pub paths: Vec<RequestShare>,
    /// Number of different paths, without their queries.
    pub different_paths: u64,
    /// Sizes of the requests' bodies, of those that have one [bytes].
    pub body_bytes: HistogramSummary,
    /// Sizes of the responses' bodies, of those that are known [bytes].
    pub response_bytes: HistogramSummary,
}

/// The share of one host or path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestShare {
    /// The host or path; bytes that are not UTF-8 are replaced.
    pub name: String,
    /// Number of requests.
    pub operations: u64,
    /// Sum of the bodies of their responses.
    pub bytes: u64,
    /// Share of all requests.
    pub share: f64,
}

/// The state of the statistics of requests.
pub(crate) struct RequestMeasures {
    methods: HashMap<Box<str>, KindShare>,
    statuses: BTreeMap<u16, u64>,
    hosts: HashMap<u16, KindShare>,
    paths: HashMap<Box<[u8]>, KindShare>,
    popularity: Popularity,
    bodies: Histogram,
    responses: Histogram,
}

impl RequestMeasures {
    /// Returns an empty state, whose popularity takes about `memory_bytes`.
    pub(crate) fn new(memory_bytes: u64) -> Self {
        Self {
            methods: HashMap::new(),
            statuses: BTreeMap::new(),
            hosts: HashMap::new(),
            paths: HashMap::new(),
            popularity: Popularity::new(None, memory_bytes),
            bodies: Histogram::new(),
            responses: Histogram::new(),
        }
    }

    /// Adds a request to a host, which arrives at `at`, not before the previous one.
    pub(crate) fn add(
        &mut self,
        at: Nanos,
        host: u16,
        request: &RecordedRequest,
        response: RecordedResponse,
    ) {
        let bytes = response.body_bytes.unwrap_or(0);
        let target = &request.target;
        let end = target.iter().position(|byte| *byte == b'?');
        let path = &target[..end.unwrap_or(target.len())];
        count(&mut self.methods, &*request.method, bytes);
        count(&mut self.paths, path, bytes);
        let of_host = self.hosts.entry(host).or_default();
        of_host.operations += 1;
        of_host.bytes += bytes;
        if let Some(status) = response.status {
            *self.statuses.entry(status).or_default() += 1;
        }
        if let Some(bytes) = response.body_bytes {
            self.responses.record(bytes);
        }
        if let Some(body) = &request.body {
            self.bodies.record(body.len() as u64);
        }
        // Its keys are fixed: the same figures each time.
        let mut hash = DefaultHasher::new();
        target.hash(&mut hash);
        let number = hash.finish();
        self.popularity.add_numbers(at, host, number..=number);
    }

    /// Returns the methods, the popularity of the paths with their queries, and the other figures; `hosts` are the names of
    /// the devices.
    pub(crate) fn result(
        self,
        hosts: &[String],
    ) -> (BTreeMap<String, KindShare>, Popularity, RequestStatistics) {
        let all = self.methods.values().map(|one| one.operations).sum();
        let methods = self.methods.into_iter();
        let named = self.hosts.into_iter().filter_map(|(host, share)| {
            let name = hosts.get(usize::from(host))?;
            Some((name.clone(), share))
        });
        let different_paths = self.paths.len() as u64;
        let paths = self.paths.into_iter();
        let paths = paths.map(|(path, share)| (String::from_utf8_lossy(&path).into_owned(), share));
        let found = RequestStatistics {
            statuses: self.statuses,
            hosts: most_first(named.collect(), all),
            paths: most_first(paths.collect(), all),
            different_paths,
            body_bytes: (&self.bodies).into(),
            response_bytes: (&self.responses).into(),
        };
        let methods = methods.map(|(name, share)| (name.into(), share));
        (methods.collect(), self.popularity, found)
    }
}

/// Counts a request with a response of `bytes`; only a new key is copied.
fn count<K, Q>(shares: &mut HashMap<K, KindShare>, key: &Q, bytes: u64)
where
    K: Eq + Hash + std::borrow::Borrow<Q> + for<'a> From<&'a Q>,
    Q: Eq + Hash + ?Sized,
{
    if let Some(share) = shares.get_mut(key) {
        share.operations += 1;
        share.bytes += bytes;
    } else {
        let share = KindShare {
            operations: 1,
            bytes,
            share: 0.0,
        };
        shares.insert(key.into(), share);
    }
}

/// Returns those with the most requests, of as many by name.
#[allow(clippy::cast_precision_loss)]
fn most_first(mut shares: Vec<(String, KindShare)>, all: u64) -> Vec<RequestShare> {
    shares.sort_unstable_by(|(a_name, a), (b_name, b)| {
        (b.operations, a_name).cmp(&(a.operations, b_name))
    });
    shares.truncate(SHOWN);
    let one = |(name, share): (String, KindShare)| RequestShare {
        name,
        operations: share.operations,
        bytes: share.bytes,
        share: share.operations as f64 / all as f64,
    };
    shares.into_iter().map(one).collect()
}
