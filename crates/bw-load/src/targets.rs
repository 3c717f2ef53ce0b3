//! The targets of a request: opened once for the run; then each worker makes its own.

use crate::clock::RunClock;
use crate::file::{self, FileTarget, OpenFile, TargetUse};
use crate::file_set::claim::Claim;
use crate::file_set::dir::{self, OpenDirectory};
use crate::file_set::make::{self, MakeOptions, MakeProgress, MakeReport};
use crate::http;
use crate::http::request::HttpVersion;
use crate::net::Network;
use crate::nfs::{NfsFiles, NfsPlan, NfsSpec, NfsTarget};
use crate::null::{Null, NullSpec};
use crate::pool::TargetFactory;
use crate::postgres::{PostgresPlan, PostgresTarget};
use crate::recorded::{self, RecordedSource};
use crate::redis::RedisPlan;
use crate::request::{self, LoadRequest, NamedTarget, SeveralSpec, TargetSpec};
use crate::routes::Routes;
use crate::several::Several;
use crate::target::Target;
use crate::tcp::TcpPlan;
use crate::udp::{UdpPlan, UdpTarget};
use bw_model::EngineError;
use bw_protocol::Protocol;
use bw_schedule::file_set::FileSet;
use bw_schedule::workload::{FilamentSpec, WorkloadSpec};
use bw_trace::input::TraceInput;
use serde_json::{Map, Value, json};
use std::any::Any;
use std::sync::Arc;

/// An opened target: it exists, it is large enough, its server has an address.
pub(crate) enum OpenTarget {
    /// The null target.
    Null(NullFactory),
    /// A file or a block device.
    File(Box<FileFactory>),
    /// A TCP server.
    Tcp(NetFactory<TcpPlan>),
    /// A UDP server.
    Udp(NetFactory<UdpPlan>),
    /// An HTTP/1.1 server.
    Http(NetFactory<http::request::HttpPlan>),
    /// An HTTP/2 server.
    Http2(NetFactory<http::Http2Plan>),
    /// A Redis server.
    Redis(NetFactory<RedisPlan>),
    /// A PostgreSQL server.
    Postgres(NetFactory<PostgresPlan>),
    /// A file set in a mounted directory.
    Directory(Box<DirectoryFactory>),
    /// A file set on an NFS server.
    Nfs(Box<NfsFactory>),
    /// Several targets.
    Several(Box<SeveralFactory>),
}

/// Something that is done with the factory of a target, whatever its kind.
pub(crate) trait OnFactory {
    type Output;

    /// Does it.
    fn on<M: TargetFactory>(self, factory: &M) -> Self::Output;
}

impl OpenTarget {
    /// Passes the target's factory to `visitor`.
    pub(crate) fn visited_by<V: OnFactory>(&self, visitor: V) -> V::Output {
        match self {
            Self::Null(factory) => visitor.on(factory),
            Self::File(factory) => visitor.on(&**factory),
            Self::Tcp(factory) => visitor.on(factory),
            Self::Udp(factory) => visitor.on(factory),
            Self::Http(factory) => visitor.on(factory),
            Self::Http2(factory) => visitor.on(factory),
            Self::Redis(factory) => visitor.on(factory),
            Self::Postgres(factory) => visitor.on(factory),
            Self::Directory(factory) => visitor.on(&**factory),
            Self::Nfs(factory) => visitor.on(&**factory),
            Self::Several(factory) => visitor.on(&**factory),
        }
    }

    /// Returns which of several targets the operations of each filament go to; None if there is one target.
    pub(crate) fn routes(&self) -> Option<&Routes> {
        match self {
            Self::Several(factory) => Some(factory.routes()),
            _ => None,
        }
    }

    /// Returns the names of several targets; empty if there is one target.
    pub(crate) fn names(&self) -> Vec<String> {
        match self {
            Self::Several(factory) => factory.names().map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    }
}

/// Opens the target of a request, with the file set of its workload; calls `report` every second while the set is made.
/// Call it before threads are pinned: a pool of threads runs where the caller may run.
///
/// # Errors
/// Those of the target: bad input (status 2).
pub(crate) fn open(
    request: &LoadRequest,
    files: Option<&Arc<FileSet>>,
    report: &mut dyn FnMut(&MakeProgress),
) -> Result<OpenTarget, EngineError> {
    let (depth, workers) = (request.depth, request.workers as u32);
    Ok(match &request.target {
        TargetSpec::Null(spec) => OpenTarget::Null(NullFactory {
            spec: spec.clone(),
            depth,
        }),
        TargetSpec::File(spec) => {
            let writes = request::writes(&request.workload);
            let open = file::open(spec, TargetUse { writes })?;
            for (what, bytes) in request::multiples(&request.workload) {
                let checked = open.check_multiple(&what, bytes);
                checked.map_err(|error| error.about(format!("workload.{what}")))?;
            }
            let largest_bytes = request::largest_bytes(&request.workload);
            OpenTarget::File(Box::new(FileFactory {
                open,
                depth,
                largest_bytes,
            }))
        }
        TargetSpec::Tcp(spec) => {
            OpenTarget::Tcp(NetFactory::new(spec.plan()?, spec.connections, workers)?)
        }
        TargetSpec::Udp(spec) => {
            let plan = spec.plan_with(request.workload.seed)?;
            OpenTarget::Udp(NetFactory::new(plan, spec.connections, workers)?)
        }
        TargetSpec::Http(spec) => {
            let recorded = recorded::read(&request.workload)?;
            match spec.http {
                HttpVersion::One => {
                    let plan = spec.plan_of(request.workload.seed, recorded)?;
                    OpenTarget::Http(NetFactory::new(plan, spec.connections, workers)?)
                }
                HttpVersion::Two => {
                    let plan = spec.plan_http2_of(request.workload.seed, recorded)?;
                    OpenTarget::Http2(NetFactory::new(plan, spec.connections, workers)?)
                }
            }
        }
        TargetSpec::Redis(spec) => {
            let plan = spec.plan_with(request.workload.seed)?;
            OpenTarget::Redis(NetFactory::new(plan, spec.connections, workers)?)
        }
        TargetSpec::Postgres(spec) => {
            let plan = spec.plan_with(request.workload.seed)?;
            OpenTarget::Postgres(NetFactory::new(plan, spec.connections, workers)?)
        }
        TargetSpec::Dir(spec) => {
            let set = Arc::clone(files.ok_or_else(no_file_set)?);
            let open = dir::open(spec, set, request::set_use(&request.workload), report)?;
            OpenTarget::Directory(Box::new(DirectoryFactory {
                open,
                depth,
                largest_bytes: request::largest_bytes(&request.workload),
            }))
        }
        TargetSpec::Nfs(spec) => {
            let set = files.ok_or_else(no_file_set)?;
            OpenTarget::Nfs(Box::new(NfsFactory::open(spec, set, request, report)?))
        }
        TargetSpec::Several(spec) => {
            OpenTarget::Several(Box::new(SeveralFactory::open(request, spec, report)?))
        }
    })
}

fn no_file_set() -> EngineError {
    let message = "workload.file_set: this target needs a file set";
    EngineError::request("bad-request", message, "describe the files").about("workload.file_set")
}

impl OpenTarget {
    /// Returns the target's size [bytes]; for a server the number of paths, commands or operations.
    #[must_use]
    pub(crate) fn extent(&self) -> u64 {
        match self {
            Self::Null(_) => NullSpec::SIZE_BYTES,
            Self::File(factory) => factory.open.size_bytes(),
            Self::Tcp(_) => 1,
            Self::Udp(factory) => factory.plan.payload_count() as u64,
            Self::Http(factory) => factory.plan.requests().count() as u64,
            Self::Http2(factory) => factory.plan.requests().count() as u64,
            Self::Redis(factory) => factory.plan.command_count() as u64,
            Self::Postgres(factory) => factory.plan.operations() as u64,
            // Its filaments use the file set instead.
            Self::Directory(_) | Self::Nfs(_) => 0,
            // Each filament has the extent of its own target.
            Self::Several(_) => 0,
        }
    }

    /// Returns the labels of the requests of each target.
    #[must_use]
    pub(crate) fn labels(&self) -> Vec<Vec<String>> {
        match self {
            Self::Http(factory) => vec![factory.plan.labels().to_vec()],
            Self::Http2(factory) => vec![factory.plan.labels().to_vec()],
            Self::Redis(factory) => vec![factory.plan.labels().to_vec()],
            Self::Postgres(factory) => vec![factory.plan.labels().to_vec()],
            Self::Several(several) => several.labels(),
            Self::Null(_)
            | Self::File(_)
            | Self::Tcp(_)
            | Self::Udp(_)
            | Self::Directory(_)
            | Self::Nfs(_) => Vec::new(),
        }
    }

    /// Returns the traces of recorded requests that have been read.
    #[must_use]
    pub(crate) fn recorded(&self) -> Vec<RecordedSource> {
        match self {
            Self::Http(factory) => factory.plan.recorded().to_vec(),
            Self::Http2(factory) => factory.plan.recorded().to_vec(),
            Self::Several(several) => several.targets().flat_map(Self::recorded).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns whether a trace of requests that has not been read before the run can be replayed.
    #[must_use]
    pub(crate) fn takes_any_request(&self) -> bool {
        match self {
            Self::Null(_) => true,
            // An HTTP server among several has read its own traces.
            Self::Several(several) => several
                .targets()
                .all(|one| matches!(one, Self::Null(_) | Self::Http(_) | Self::Http2(_))),
            _ => false,
        }
    }

    /// Returns what making the file set found and did; None for a target without one.
    #[must_use]
    pub(crate) fn made(&self) -> Option<MakeReport> {
        match self {
            Self::Directory(factory) => Some(factory.open.report()),
            Self::Nfs(factory) => Some(factory.made),
            _ => None,
        }
    }
}

impl OpenTarget {
    /// Returns what offsets and sizes must be multiples of [bytes]; None if there is no constraint.
    #[must_use]
    pub(crate) fn block_bytes(&self) -> Option<u64> {
        match self {
            Self::File(factory) => {
                Some(u64::from(factory.open.block_bytes())).filter(|block| *block > 1)
            }
            Self::Null(_)
            | Self::Tcp(_)
            | Self::Udp(_)
            | Self::Http(_)
            | Self::Http2(_)
            | Self::Redis(_)
            | Self::Postgres(_)
            | Self::Directory(_)
            | Self::Nfs(_)
            | Self::Several(_) => None,
        }
    }
}

/// Makes null targets.
pub(crate) struct NullFactory {
    /// What the target does.
    pub(crate) spec: NullSpec,
    depth: u32,
}

impl TargetFactory for NullFactory {
    type Target = Null<RunClock>;

    fn make(&self, _worker: usize, clock: RunClock) -> Result<Self::Target, EngineError> {
        Ok(Null::new(self.spec.clone(), clock, self.depth))
    }

    fn begin(&self, target: &mut Self::Target, clock: RunClock) {
        target.set_clock(clock);
    }

    fn describe(&self, _target: &Self::Target) -> Value {
        json!({"kind": "null", "engine": null, "size_bytes": NullSpec::SIZE_BYTES, "features": [], "absent": []})
    }
}

/// Makes targets on one open file.
pub(crate) struct FileFactory {
    /// The open file.
    pub(crate) open: OpenFile,
    depth: u32,
    /// The largest operation that is announced.
    pub(crate) largest_bytes: u32,
}

impl TargetFactory for FileFactory {
    type Target = FileTarget;

    fn make(&self, _worker: usize, _clock: RunClock) -> Result<Self::Target, EngineError> {
        self.open.worker(self.depth, self.largest_bytes)
    }

    fn describe(&self, target: &Self::Target) -> Value {
        let described = target.description();
        json!({"kind": "file", "engine": described.engine, "size_bytes": self.open.size_bytes(),
            "block_bytes": self.open.block_bytes(), "features": described.features, "absent": described.absent})
    }
}

/// Makes targets on one file set in a mounted directory.
pub(crate) struct DirectoryFactory {
    open: OpenDirectory,
    depth: u32,
    largest_bytes: u32,
}

impl TargetFactory for DirectoryFactory {
    type Target = FileTarget;

    fn make(&self, _worker: usize, _clock: RunClock) -> Result<Self::Target, EngineError> {
        self.open.worker(self.depth, self.largest_bytes)
    }

    fn describe(&self, target: &Self::Target) -> Value {
        let described = target.description();
        json!({"kind": "dir", "engine": described.engine, "size_bytes": self.open.set().bytes(),
            "features": described.features, "absent": described.absent})
    }
}

/// Makes targets on one server; each worker has its share of the connections.
pub(crate) struct NetFactory<P> {
    plan: P,
    connections: u32,
    workers: u32,
}

impl<P> NetFactory<P> {
    fn new(plan: P, connections: u32, workers: u32) -> Result<Self, EngineError> {
        if connections < workers {
            return Err(EngineError::request(
                "connections",
                format!("{connections} connections for {workers} workers"),
                "use at least one for each worker",
            ));
        }
        Ok(Self {
            plan,
            connections,
            workers,
        })
    }

    /// Returns this worker's share of the connections: an equal part, one more for the first workers.
    fn share(&self, worker: usize) -> u32 {
        let more = (worker as u32) < self.connections % self.workers;
        self.connections / self.workers + u32::from(more)
    }
}

/// Returns the description of a network target.
fn describe<P: Protocol>(kind: &str, target: &Network<P>) -> Value {
    let mut described = serde_json::to_value(target.describe()).unwrap_or_default();
    if let Some(fields) = described.as_object_mut() {
        let more = json!({"kind": kind, "engine": "epoll", "size_bytes": null, "features": [], "absent": []});
        fields.extend(more.as_object().cloned().unwrap_or_default());
    }
    described
}

/// Returns the description of an HTTP target.
fn describe_http<P: Protocol>(version: &str, target: &Network<P>) -> Value {
    let mut described = describe("http", target);
    if let Some(fields) = described.as_object_mut() {
        fields.insert("http".to_owned(), json!(version));
    }
    described
}

impl TargetFactory for NetFactory<TcpPlan> {
    type Target = crate::tcp::TcpTarget;

    fn make(&self, worker: usize, _clock: RunClock) -> Result<Self::Target, EngineError> {
        self.plan.open(self.share(worker))
    }

    fn describe(&self, target: &Self::Target) -> Value {
        describe("tcp", target)
    }
}

impl TargetFactory for NetFactory<UdpPlan> {
    type Target = UdpTarget;

    fn make(&self, worker: usize, _clock: RunClock) -> Result<Self::Target, EngineError> {
        self.plan.open(self.share(worker))
    }

    fn describe(&self, target: &Self::Target) -> Value {
        describe("udp", target)
    }
}

impl TargetFactory for NetFactory<http::request::HttpPlan> {
    type Target = http::HttpTarget;

    fn make(&self, worker: usize, _clock: RunClock) -> Result<Self::Target, EngineError> {
        self.plan.open(self.share(worker))
    }

    fn describe(&self, target: &Self::Target) -> Value {
        describe_http("1.1", target)
    }
}

impl TargetFactory for NetFactory<http::Http2Plan> {
    type Target = http::Http2Target;

    fn make(&self, worker: usize, _clock: RunClock) -> Result<Self::Target, EngineError> {
        self.plan.open(self.share(worker))
    }

    fn describe(&self, target: &Self::Target) -> Value {
        describe_http("2", target)
    }
}

impl TargetFactory for NetFactory<RedisPlan> {
    type Target = crate::redis::RedisTarget;

    fn make(&self, worker: usize, _clock: RunClock) -> Result<Self::Target, EngineError> {
        self.plan.open(self.share(worker))
    }

    fn describe(&self, target: &Self::Target) -> Value {
        describe("redis", target)
    }
}

impl TargetFactory for NetFactory<PostgresPlan> {
    type Target = PostgresTarget;

    fn make(&self, worker: usize, _clock: RunClock) -> Result<Self::Target, EngineError> {
        self.plan.open(self.share(worker))
    }

    fn describe(&self, target: &Self::Target) -> Value {
        describe("postgres", target)
    }
}

/// Makes targets on one export.
pub(crate) struct NfsFactory {
    net: NetFactory<NfsPlan>,
    files: NfsFiles,
    size_bytes: u64,
    made: MakeReport,
    _claim: Claim,
}

impl NfsFactory {
    /// Finds the export, and makes the file set on it.
    fn open(
        spec: &NfsSpec,
        set: &Arc<FileSet>,
        request: &LoadRequest,
        report: &mut dyn FnMut(&MakeProgress),
    ) -> Result<Self, EngineError> {
        let plan = spec.plan(request::largest_piece(&request.workload))?;
        let net = NetFactory::new(plan, spec.connections, request.workers as u32)?;
        let files = NfsFiles::new(Arc::clone(set));
        let options = MakeOptions {
            replace: spec.replace,
            changes: request::set_use(&request.workload).changes,
        };
        let made = make::make(set, options, &|| net.plan.store(&files), report)?;
        Ok(Self {
            net,
            files,
            size_bytes: set.bytes(),
            made: made.report,
            _claim: made.claim,
        })
    }
}

impl TargetFactory for NfsFactory {
    type Target = NfsTarget;

    fn make(&self, worker: usize, _clock: RunClock) -> Result<Self::Target, EngineError> {
        let connections = self.net.share(worker);
        self.net.plan.open(connections, &self.files)
    }

    fn describe(&self, target: &Self::Target) -> Value {
        let mut described = serde_json::to_value(target.describe()).unwrap_or_default();
        if let Some(fields) = described.as_object_mut() {
            let more = json!({"kind": "nfs", "engine": "epoll", "size_bytes": self.size_bytes,
                "features": [], "absent": []});
            fields.extend(more.as_object().cloned().unwrap_or_default());
        }
        described
    }
}

/// Makes composite targets.
pub(crate) struct SeveralFactory {
    parts: Vec<(String, OpenTarget)>,
    /// The part of each entry of the workload's list.
    entries: Vec<u16>,
    routes: Routes,
    depth: u32,
}

impl SeveralFactory {
    /// Opens the targets of a request, which has been checked.
    ///
    /// # Errors
    /// Those of each target, with its name.
    pub(crate) fn open(
        request: &LoadRequest,
        spec: &SeveralSpec,
        report: &mut dyn FnMut(&MakeProgress),
    ) -> Result<Self, EngineError> {
        let mut parts = Vec::with_capacity(spec.targets.len());
        let mut entries = vec![0; request.workload.filaments.len()];
        for (part, named) in (0_u16..).zip(&spec.targets) {
            let own = LoadRequest {
                target: named.target.clone(),
                workload: only(&request.workload, &named.filaments),
                ..request.clone()
            };
            let opened = open(&own, None, report).map_err(|error| of(error, part, named))?;
            parts.push((named.name.clone(), opened));
            named
                .filaments
                .iter()
                .for_each(|place| entries[*place] = part);
        }
        let routes = Routes::new(&request.workload.ids()?, &entries);
        Ok(Self {
            parts,
            entries,
            routes,
            depth: request.depth,
        })
    }

    /// Returns the target of each entry of the workload's list, in order.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &OpenTarget> {
        let part = |part: &u16| &self.parts[usize::from(*part)].1;
        self.entries.iter().map(part)
    }

    /// Returns the labels of the requests of each target.
    fn labels(&self) -> Vec<Vec<String>> {
        let labels = |(_, target): &(String, OpenTarget)| target.labels().pop();
        let labels = self.parts.iter().map(labels);
        labels.map(Option::unwrap_or_default).collect()
    }

    /// Returns the names of the targets.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|(name, _)| name.as_str())
    }

    /// Returns which target the operations of each filament go to.
    pub(crate) fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Returns the workload with traces that are fitted to their own targets.
    pub(crate) fn fitted(&self, workload: &WorkloadSpec<TraceInput>) -> WorkloadSpec<TraceInput> {
        let mut fitted = workload.clone();
        for (filament, target) in fitted.filaments.iter_mut().zip(self.targets()) {
            if let FilamentSpec::Trace(trace) = filament {
                let input = &mut trace.input;
                input.target_bytes = input.target_bytes.or(Some(target.extent()));
                input.align_bytes = input.align_bytes.or(target.block_bytes());
            }
        }
        fitted
    }
}

/// Returns the workload with only these entries of its list.
fn only(workload: &WorkloadSpec<TraceInput>, places: &[usize]) -> WorkloadSpec<TraceInput> {
    let chosen = places.iter().map(|place| &workload.filaments[*place]);
    WorkloadSpec {
        seed: workload.seed,
        file_set: None,
        filaments: chosen.cloned().collect(),
    }
}

/// Returns the error of one of several targets: with its name, with its place, and with the places of filaments in the whole list.
fn of(mut error: EngineError, part: u16, named: &NamedTarget) -> EngineError {
    error.message = format!("target {}: {}", named.name, error.message);
    let field = error
        .location
        .as_mut()
        .and_then(|location| location.field.as_mut());
    if let Some(field) = field {
        if field
            .strip_prefix("target")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        {
            *field = format!("target.targets[{part}].{field}");
        }
        let place = field.strip_prefix("workload.filaments[").and_then(|rest| {
            let (number, rest) = rest.split_once(']')?;
            let place = named.filaments.get(number.parse::<usize>().ok()?)?;
            Some(format!("workload.filaments[{place}]{rest}"))
        });
        if let Some(place) = place {
            *field = place;
        }
    }
    error
}

/// Makes one worker's part.
struct MakePart {
    worker: usize,
    clock: RunClock,
}

impl OnFactory for MakePart {
    type Output = Result<Box<dyn Target>, EngineError>;

    fn on<M: TargetFactory>(self, factory: &M) -> Self::Output {
        Ok(Box::new(factory.make(self.worker, self.clock)?))
    }
}

/// Gives a part the clock that counts from time zero.
struct BeginPart<'a> {
    part: &'a mut dyn Target,
    clock: RunClock,
}

impl OnFactory for BeginPart<'_> {
    type Output = ();

    fn on<M: TargetFactory>(self, factory: &M) -> Self::Output {
        let part: &mut dyn Any = self.part;
        if let Some(target) = part.downcast_mut::<M::Target>() {
            factory.begin(target, self.clock);
        }
    }
}

/// Describes a part for the result.
struct DescribePart<'a> {
    part: &'a dyn Target,
}

impl OnFactory for DescribePart<'_> {
    type Output = Value;

    fn on<M: TargetFactory>(self, factory: &M) -> Self::Output {
        let part: &dyn Any = self.part;
        let target = part.downcast_ref::<M::Target>();
        target.map_or(Value::Null, |target| factory.describe(target))
    }
}

impl TargetFactory for SeveralFactory {
    type Target = Several;

    fn make(&self, worker: usize, clock: RunClock) -> Result<Self::Target, EngineError> {
        let make = |(_, target): &(String, OpenTarget)| {
            target.visited_by(MakePart {
                worker,
                clock: clock.clone(),
            })
        };
        let parts: Result<Vec<_>, EngineError> = self.parts.iter().map(make).collect();
        Ok(Several::new(parts?, self.routes.clone(), self.depth))
    }

    fn begin(&self, target: &mut Self::Target, clock: RunClock) {
        for (part, (_, opened)) in self.parts.iter().enumerate() {
            opened.visited_by(BeginPart {
                part: target.part_mut(part),
                clock: clock.clone(),
            });
        }
    }

    fn describe(&self, target: &Self::Target) -> Value {
        let describe = |(part, (name, opened)): (usize, &(String, OpenTarget))| {
            let part = target.part(part);
            (name.clone(), opened.visited_by(DescribePart { part }))
        };
        let targets: Map<String, Value> = self.parts.iter().enumerate().map(describe).collect();
        json!({"kind": "several", "engine": null, "size_bytes": null, "features": [], "absent": [],
            "targets": targets})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_shared_out_whole() {
        let factory = NetFactory::new((), 8, 3).unwrap();
        assert_eq!([0, 1, 2].map(|worker| factory.share(worker)), [3, 3, 2]);
        assert!(NetFactory::new((), 2, 3).is_err());
    }

    #[test]
    fn an_error_names_the_target_and_the_filament_of_the_whole_list() {
        let named: NamedTarget = serde_json::from_value(json!({
            "name": "b", "filaments": [1, 4], "target": {"kind": "null"},
        }))
        .unwrap();
        let error = EngineError::request("x", "too large", "y");
        let error = of(error.about("workload.filaments[1].access.size"), 2, &named);
        assert_eq!(error.message, "target b: too large");
        let field = error.location.unwrap().field;
        assert_eq!(field.as_deref(), Some("workload.filaments[4].access.size"));
        let error = EngineError::request("x", "too large", "y").about("target.requests[3]");
        let field = of(error, 2, &named).location.unwrap().field;
        assert_eq!(
            field.as_deref(),
            Some("target.targets[2].target.requests[3]")
        );
    }
}
