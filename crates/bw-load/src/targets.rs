//! The targets of a request: opened once for the run; then each worker makes its own.
//!
//! A server of another protocol has a spec, which becomes a [`ServerPlan`], and here a line of [`open`].

mod opened;
mod server;
mod several;

pub(crate) use opened::{OpenTarget, RunTarget};
pub(crate) use several::SeveralFactory;

use crate::clock::RunClock;
use crate::file::{self, FileTarget, OpenFile, TargetUse};
use crate::file_set::claim::Claim;
use crate::file_set::dir::{self, OpenDirectory};
use crate::file_set::make::{self, MakeOptions, MakeProgress, MakeReport};
use crate::http::request::HttpVersion;
use crate::net::plan::{PlanOptions, ServerPlan};
use crate::nfs::{NfsFiles, NfsPlan, NfsSpec, NfsTarget};
use crate::null::{Null, NullSpec};
use crate::pool::TargetFactory;
use crate::recorded;
use crate::request::{self, LoadRequest, TargetSpec};
use bw_model::EngineError;
use bw_protocol::Protocol;
use bw_schedule::file_set::FileSet;
use serde_json::{Value, json};
use server::{ServerFactory, Shares, described};
use std::sync::Arc;

/// Opens the target of a request, with the file set of its workload; calls `report` every second while the set is made.
/// Call it before threads are pinned: a pool of threads runs where the caller may run.
///
/// # Errors
/// Those of the target: bad input (status 2).
pub(crate) fn open(
    request: &LoadRequest,
    files: Option<&Arc<FileSet>>,
    report: &mut dyn FnMut(&MakeProgress),
) -> Result<Box<dyn RunTarget>, EngineError> {
    let depth = request.depth;
    let options = || PlanOptions::with_seed(request.workload.seed);
    match &request.target {
        TargetSpec::Null(spec) => Ok(Box::new(NullFactory {
            spec: spec.clone(),
            depth,
        })),
        TargetSpec::File(spec) => Ok(Box::new(FileFactory::open(spec, request)?)),
        TargetSpec::Tcp(spec) => server(request, spec.connections, spec.plan(options())),
        TargetSpec::Udp(spec) => server(request, spec.connections, spec.plan(options())),
        TargetSpec::Http(spec) => {
            let options = PlanOptions {
                traces: recorded::read(&request.workload)?,
                ..options()
            };
            match spec.http {
                HttpVersion::One => server(request, spec.connections, spec.plan(options)),
                HttpVersion::Two => server(request, spec.connections, spec.plan_http2(options)),
            }
        }
        TargetSpec::WebSocket(spec) => server(request, spec.connections, spec.plan(options())),
        TargetSpec::Redis(spec) => server(request, spec.connections, spec.plan(options())),
        TargetSpec::Postgres(spec) => server(request, spec.connections, spec.plan(options())),
        TargetSpec::Dir(spec) => {
            let set = Arc::clone(files.ok_or_else(no_file_set)?);
            Ok(Box::new(DirectoryFactory {
                open: dir::open(spec, set, request::set_use(&request.workload), report)?,
                depth,
                largest_bytes: request::largest_bytes(&request.workload),
            }))
        }
        TargetSpec::Nfs(spec) => {
            let set = files.ok_or_else(no_file_set)?;
            Ok(Box::new(NfsFactory::open(spec, set, request, report)?))
        }
        TargetSpec::Several(spec) => {
            Ok(Box::new(SeveralFactory::open(request, spec, &mut |own| {
                open(own, None, report)
            })?))
        }
    }
}

/// Returns the targets on one server, from the plan of its spec.
fn server<P: Protocol + 'static>(
    request: &LoadRequest,
    connections: u32,
    plan: Result<ServerPlan<P>, EngineError>,
) -> Result<Box<dyn RunTarget>, EngineError> {
    Ok(Box::new(ServerFactory {
        plan: plan?,
        shares: Shares::new(connections, request.workers as u32)?,
    }))
}

fn no_file_set() -> EngineError {
    let message = "workload.file_set: this target needs a file set";
    EngineError::request("bad-request", message, "describe the files").about("workload.file_set")
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

impl OpenTarget for NullFactory {
    fn extent(&self) -> u64 {
        NullSpec::SIZE_BYTES
    }

    fn takes_any_request(&self) -> bool {
        true
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

impl FileFactory {
    fn open(spec: &file::FileSpec, request: &LoadRequest) -> Result<Self, EngineError> {
        let writes = request::writes(&request.workload);
        let open = file::open(spec, TargetUse { writes })?;
        for (what, bytes) in request::multiples(&request.workload) {
            let checked = open.check_multiple(&what, bytes);
            checked.map_err(|error| error.about(format!("workload.{what}")))?;
        }
        Ok(Self {
            open,
            depth: request.depth,
            largest_bytes: request::largest_bytes(&request.workload),
        })
    }
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

impl OpenTarget for FileFactory {
    fn extent(&self) -> u64 {
        self.open.size_bytes()
    }

    fn block_bytes(&self) -> Option<u64> {
        Some(u64::from(self.open.block_bytes())).filter(|block| *block > 1)
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

impl OpenTarget for DirectoryFactory {
    fn made(&self) -> Option<MakeReport> {
        Some(self.open.report())
    }
}

/// Makes targets on one export.
pub(crate) struct NfsFactory {
    plan: NfsPlan,
    shares: Shares,
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
        let shares = Shares::new(spec.connections, request.workers as u32)?;
        let files = NfsFiles::new(Arc::clone(set));
        let options = MakeOptions {
            replace: spec.replace,
            changes: request::set_use(&request.workload).changes,
            part: request.part,
        };
        let made = make::make(set, options, &|| plan.store(&files), report)?;
        Ok(Self {
            plan,
            shares,
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
        self.plan.open(self.shares.of(worker), &self.files)
    }

    fn describe(&self, target: &Self::Target) -> Value {
        described("nfs", json!(self.size_bytes), &target.describe())
    }
}

impl OpenTarget for NfsFactory {
    fn made(&self) -> Option<MakeReport> {
        Some(self.made)
    }
}
