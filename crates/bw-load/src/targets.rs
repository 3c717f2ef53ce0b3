//! The targets of a request: opened once for the run; then each worker makes its own.

use crate::clock::RunClock;
use crate::file::{self, FileTarget, OpenFile, TargetUse};
use crate::file_set::claim::Claim;
use crate::file_set::dir::{self, OpenDirectory};
use crate::file_set::make::{self, MakeOptions, MakeProgress, MakeReport};
use crate::http;
use crate::net::Network;
use crate::nfs::{NfsFiles, NfsPlan, NfsSpec, NfsTarget};
use crate::null::{Null, NullSpec};
use crate::pool::TargetFactory;
use crate::request::{self, LoadRequest, TargetSpec};
use crate::tcp::TcpPlan;
use bw_model::EngineError;
use bw_protocol::Protocol;
use bw_schedule::file_set::FileSet;
use serde_json::{Value, json};
use std::sync::Arc;

/// An opened target: it exists, it is large enough, its server has an address.
pub(crate) enum OpenTarget {
    /// The null target.
    Null(NullFactory),
    /// A file or a block device.
    File(Box<FileFactory>),
    /// A TCP server.
    Tcp(NetFactory<TcpPlan>),
    /// An HTTP server.
    Http(NetFactory<http::request::HttpPlan>),
    /// A file set in a mounted directory.
    Directory(Box<DirectoryFactory>),
    /// A file set on an NFS server.
    Nfs(Box<NfsFactory>),
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
        TargetSpec::Http(spec) => {
            OpenTarget::Http(NetFactory::new(spec.plan()?, spec.connections, workers)?)
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
    })
}

fn no_file_set() -> EngineError {
    let message = "workload.file_set: this target needs a file set";
    EngineError::request("bad-request", message, "describe the files").about("workload.file_set")
}

impl OpenTarget {
    /// Returns the target's size [bytes]; for a server the number of paths.
    #[must_use]
    pub(crate) fn extent(&self) -> u64 {
        match self {
            Self::Null(_) => NullSpec::SIZE_BYTES,
            Self::File(factory) => factory.open.size_bytes(),
            Self::Tcp(_) => 1,
            Self::Http(factory) => factory.plan.requests().count() as u64,
            // Its filaments use the file set instead.
            Self::Directory(_) | Self::Nfs(_) => 0,
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
            Self::Null(_) | Self::Tcp(_) | Self::Http(_) | Self::Directory(_) | Self::Nfs(_) => {
                None
            }
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

impl TargetFactory for NetFactory<TcpPlan> {
    type Target = crate::tcp::TcpTarget;

    fn make(&self, worker: usize, _clock: RunClock) -> Result<Self::Target, EngineError> {
        self.plan.open(self.share(worker))
    }

    fn describe(&self, target: &Self::Target) -> Value {
        describe("tcp", target)
    }
}

impl TargetFactory for NetFactory<http::request::HttpPlan> {
    type Target = http::HttpTarget;

    fn make(&self, worker: usize, _clock: RunClock) -> Result<Self::Target, EngineError> {
        self.plan.open(self.share(worker))
    }

    fn describe(&self, target: &Self::Target) -> Value {
        describe("http", target)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_shared_out_whole() {
        let factory = NetFactory::new((), 8, 3).unwrap();
        assert_eq!([0, 1, 2].map(|worker| factory.share(worker)), [3, 3, 2]);
        assert!(NetFactory::new((), 2, 3).is_err());
    }
}
