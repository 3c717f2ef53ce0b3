//! An NFS server as a target: NFS version 3 over TCP, spoken by the engine itself.
//!
//! Many calls are outstanding on each of several connections; replies come in any order. A file's handle comes from a
//! table that the maker of the file set fills. Writes are UNSTABLE, as those of an operating system's client; `flush` is
//! COMMIT, and a changed write verifier is counted, since the server then may have lost what was not committed.
//!
//! Decision: our own calls on the engine's loop. Rejected: libnfs, whose loop and buffers come between the intended start and the
//! send, and the crate nfs3_client, which has one call outstanding per connection.
//! Not supported: UDP, NFS version 4, Kerberos, TLS.

pub(crate) mod client;
pub(crate) mod files;
pub(crate) mod operation;
pub(crate) mod pipeline;
pub mod store;
pub(crate) mod xids;

pub use crate::nfs::files::NfsFiles;
pub use crate::nfs::pipeline::CallCounts;

use crate::net::check_capacity;
use crate::nfs::client::{MountRequest, Mounted};
use crate::nfs::operation::{DataMode, Translator};
use crate::nfs::pipeline::{Pipeline, PipelinePlan};
use crate::nfs::store::NfsStore;
use crate::target::{Awaited, Background, Reaped, Target};
use crate::worker::BATCH;
use bw_model::{EngineError, Nanos, Operation};
use bw_nfs::call::NfsCaller;
use bw_nfs::rpc::Credentials;
use bw_nfs::value::Handle;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of connections.
const CONNECTIONS: u32 = 4096;
/// Maximum number of outstanding calls of a connection.
const OUTSTANDING: u32 = 65_536;
/// Maximum size of a READ or WRITE, whatever the server accepts [bytes].
const DATA_MOST: u32 = 1 << 20;
/// How long each call may take that is sent before the run: operations may have a limit that is too short for them.
const SETUP_LIMIT: Duration = Duration::from_secs(30);

/// The user's specification of the target.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NfsSpec {
    /// A name or an address.
    pub host: String,
    /// The port of NFS; None: the host's portmapper knows it.
    #[serde(default)]
    pub port: Option<u16>,
    /// The port of MOUNT; None: the host's portmapper knows it.
    #[serde(default)]
    pub mount_port: Option<u16>,
    /// The export, such as `/srv/files`.
    pub export: String,
    /// The handle of the export's root as hexadecimal digits; None: MOUNT returns it.
    #[serde(default)]
    pub root_handle: Option<String>,
    /// The user of the calls; None: the one of this process.
    #[serde(default)]
    pub uid: Option<u32>,
    /// The group of the calls; None: the one of this process.
    #[serde(default)]
    pub gid: Option<u32>,
    /// Number of connections.
    #[serde(default = "one")]
    pub connections: u32,
    /// Maximum number of outstanding calls of a connection.
    #[serde(default = "default_outstanding")]
    pub outstanding: u32,
    /// How long an operation may take, including a wait for a connection; None: no limit.
    #[serde(default = "crate::net::spec::default_timeout")]
    pub timeout_ns: Option<Nanos>,
    /// When a call that the server postpones (NFS3ERR_JUKEBOX) is sent again.
    #[serde(default = "default_jukebox_retry")]
    pub jukebox_retry_ns: Nanos,
    /// Whether each write is durable when it ends (DATA_SYNC).
    #[serde(default)]
    pub synchronous: bool,
    /// Whether the set of another description is replaced.
    #[serde(default)]
    pub replace: bool,
    /// Whether writes repeat the same blocks, which a server may store once.
    #[serde(default)]
    pub repeat_data: bool,
}

fn one() -> u32 {
    1
}

fn default_outstanding() -> u32 {
    128
}

fn default_jukebox_retry() -> Nanos {
    Nanos(100_000_000)
}

impl NfsSpec {
    /// Finds the export, and returns what the targets and stores of a run are made from. Operations read or write at most
    /// `largest_bytes`.
    ///
    /// # Errors
    /// A field is wrong; the server is not reached, or refuses the export; `nfs-size`: it reads or writes less at a time.
    pub fn plan(&self, largest_bytes: u32) -> Result<NfsPlan, EngineError> {
        let wrong = |field: &str, what: &str, remedy: &str| {
            let message = format!("{field}: {what}");
            EngineError::request("bad-request", message, remedy).about(format!("target.{field}"))
        };
        if !(1..=CONNECTIONS).contains(&self.connections) {
            let what = format!("{}: must be 1 to {CONNECTIONS}", self.connections);
            return Err(wrong("connections", &what, "use another number"));
        }
        if !(1..=OUTSTANDING).contains(&self.outstanding) {
            let what = format!("{}: must be 1 to {OUTSTANDING}", self.outstanding);
            return Err(wrong("outstanding", &what, "use another number"));
        }
        if self.export.is_empty() || self.export.len() > bw_nfs::mount::PATH_MOST {
            let what = format!("{:?} is no path of an export", self.export);
            return Err(wrong("export", &what, "give a path such as /srv/files"));
        }
        let root = self.root_handle.as_deref().map(|digits| {
            let what = format!("{digits:?} is no file handle");
            let remedy = "give up to 64 bytes, each as two hexadecimal digits";
            Handle::from_hex(digits).ok_or_else(|| wrong("root_handle", &what, remedy))
        });
        let root = root.transpose()?;
        let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname");
        let credentials = Credentials {
            machine: hostname
                .map_or_else(|_| "localhost".to_owned(), |name| name.trim().to_owned()),
            uid: self
                .uid
                .unwrap_or_else(|| rustix::process::geteuid().as_raw()),
            gid: self
                .gid
                .unwrap_or_else(|| rustix::process::getegid().as_raw()),
        };
        let request = MountRequest {
            host: &self.host,
            port: self.port,
            mount_port: self.mount_port,
            export: &self.export,
            root,
            credentials: &credentials,
            limit: SETUP_LIMIT,
        };
        let mounted = request.mount()?;
        let (reads, writes) = (mounted.limits.read_bytes, mounted.limits.write_bytes);
        let most = reads.min(writes).min(DATA_MOST);
        if largest_bytes > most {
            let message = format!(
                "{}: operations of up to {largest_bytes} bytes: the server reads at most {reads} and writes at most {writes} \
                 bytes at a time, and this program {DATA_MOST}",
                mounted.endpoint.name
            );
            let remedy = format!("use a piece_bytes of at most {most}");
            return Err(EngineError::request("nfs-size", message, remedy));
        }
        Ok(NfsPlan {
            spec: self.clone(),
            mounted,
            credentials,
            largest_bytes,
        })
    }
}

/// An export that was found: every worker opens its own target from it.
#[derive(Clone, Debug)]
pub struct NfsPlan {
    spec: NfsSpec,
    mounted: Mounted,
    credentials: Credentials,
    largest_bytes: u32,
}

impl NfsPlan {
    /// Returns the specification.
    #[must_use]
    pub fn spec(&self) -> &NfsSpec {
        &self.spec
    }

    /// Returns a store of the export, with its own connection; it puts the handles of the set into `files`.
    ///
    /// # Errors
    /// As `Endpoint::connect`.
    pub fn store(&self, files: &NfsFiles) -> Result<NfsStore, EngineError> {
        let identity = (self.name(), SETUP_LIMIT);
        NfsStore::connect(&self.mounted, &self.credentials, identity, files)
    }

    /// Returns the target of one worker, with `connections` connections, all established.
    ///
    /// # Errors
    /// `connections`: they hold more operations than one worker can; as `Endpoint::connect`; `epoll`: the system has no more
    /// descriptors.
    pub fn open(&self, connections: u32, files: &NfsFiles) -> Result<NfsTarget, EngineError> {
        let endpoint = &self.mounted.endpoint;
        check_capacity(&endpoint.name, connections, self.spec.outstanding)?;
        let limits = self.mounted.limits;
        let established = endpoint.connect(connections)?;
        let address = established.address.to_string();
        let plan = PipelinePlan {
            reserved_port: endpoint.reserved_port,
            outstanding: self.spec.outstanding,
            timeout: self.spec.timeout_ns,
            jukebox_retry: self.spec.jukebox_retry_ns,
            data_bytes: self.largest_bytes as usize,
        };
        let caller = NfsCaller::new(&self.credentials);
        let mode = DataMode {
            largest_bytes: self.largest_bytes,
            synchronous: self.spec.synchronous,
            unique: !self.spec.repeat_data,
        };
        let translator = Translator::new(caller, Arc::clone(&files.0), mode);
        let pipeline = Pipeline::new(plan, translator, established).map_err(|error| {
            let message = format!("{}: epoll: {error}", endpoint.name);
            let remedy = "raise the limit of open files (ulimit -n)";
            EngineError::request("epoll", message, remedy)
        })?;
        Ok(NfsTarget {
            description: NfsDescription {
                server: endpoint.name.clone(),
                address,
                export: self.spec.export.clone(),
                uid: self.credentials.uid,
                gid: self.credentials.gid,
                read_bytes: limits.read_bytes,
                write_bytes: limits.write_bytes,
                connections,
                outstanding: self.spec.outstanding,
                timeout_ns: self.spec.timeout_ns,
                jukebox_retry_ns: self.spec.jukebox_retry_ns,
                ..NfsDescription::default()
            },
            pipeline,
        })
    }

    /// Returns the export's name for messages.
    #[must_use]
    pub fn name(&self) -> String {
        format!("nfs://{}{}", self.mounted.endpoint.name, self.spec.export)
    }
}

/// What the target did, for the result's `target` object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NfsDescription {
    /// The server, as the user named it.
    pub server: String,
    /// The address that the name resolved to.
    pub address: String,
    /// The export.
    pub export: String,
    /// The user of the calls.
    pub uid: u32,
    /// The group of the calls.
    pub gid: u32,
    /// Maximum size of a READ that the server states [bytes].
    pub read_bytes: u32,
    /// Maximum size of a WRITE that the server states [bytes].
    pub write_bytes: u32,
    /// How many connections this worker has.
    pub connections: u32,
    /// Maximum number of outstanding calls of a connection.
    pub outstanding: u32,
    /// The time limit of an operation.
    pub timeout_ns: Option<Nanos>,
    /// When a postponed call is sent again.
    pub jukebox_retry_ns: Nanos,
    /// What happened so far.
    #[serde(flatten)]
    pub counts: CallCounts,
}

/// An NFS server as the target of one worker.
#[derive(Debug)]
pub struct NfsTarget {
    pipeline: Pipeline,
    description: NfsDescription,
}

impl NfsTarget {
    /// Returns the target's description and counts so far.
    #[must_use]
    pub fn describe(&self) -> NfsDescription {
        NfsDescription {
            counts: self.pipeline.counts(),
            ..self.description.clone()
        }
    }
}

impl Target for NfsTarget {
    /// The calls of a batch are sent together.
    #[inline]
    fn batch(&self) -> usize {
        BATCH
    }

    fn capacity(&self) -> u32 {
        self.pipeline.capacity()
    }

    fn measure_from(&mut self, from: Nanos) {
        self.pipeline.measure_from(from);
    }

    fn submit(&mut self, slot: u32, operation: &Operation) {
        self.pipeline.submit(slot, operation);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pipeline.flush()
    }

    fn reap(&mut self, ends: &mut Vec<Reaped>) -> io::Result<()> {
        self.pipeline.reap(ends)
    }

    fn wait(&mut self, at_most: Nanos) -> io::Result<()> {
        self.pipeline.wait(at_most)
    }

    fn awaited(&mut self) -> Awaited {
        self.pipeline.awaited()
    }

    #[inline]
    fn background(&self) -> Background {
        self.pipeline.background()
    }
}
