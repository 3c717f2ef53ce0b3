//! A client that sends one call and waits for its reply: finds the handle of an export, and makes file sets.
//!
//! Every wait is bounded: a call that is not answered within the time limit is an error, and the connection is not used
//! again, since the reply may still arrive.

use crate::net::connection::Endpoint;
use bw_model::EngineError;
use bw_nfs::call::{Call, NFS, NfsCaller};
use bw_nfs::mount;
use bw_nfs::record::Records;
use bw_nfs::reply::{self, Limits, Reply};
use bw_nfs::rpc::{Caller, Credentials, Results, read_reply, xid_of};
use bw_nfs::status::{FIRST_OWN, Status};
use bw_nfs::value::Handle;
use socket2::Socket;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

/// Maximum length of a record [bytes]: a READ of 1 MiB, with its head.
const RECORD_MOST: usize = (1 << 20) + 4096;
/// Maximum size of one read from the socket [bytes].
const BUFFER_BYTES: usize = 64 * 1024;
/// How many exports an error names.
const NAMED_EXPORTS: usize = 8;
/// Time between two attempts of a call that the server postpones (NFS3ERR_JUKEBOX).
const JUKEBOX_WAIT: Duration = Duration::from_millis(100);

/// A connection with one call at a time.
#[derive(Debug)]
pub(crate) struct Exchanger {
    socket: Socket,
    records: Records,
    buffer: Box<[u8]>,
    outgoing: Vec<u8>,
    xid: u32,
    limit: Duration,
}

impl Exchanger {
    /// Returns a connection to the server; every call has `limit` to be answered.
    ///
    /// # Errors
    /// As [`Endpoint::connect`].
    pub(crate) fn connect(endpoint: &Endpoint, limit: Duration) -> Result<Self, EngineError> {
        let mut sockets = endpoint.connect(1)?.sockets;
        let socket = sockets.remove(0);
        let blocking = socket.set_nonblocking(false);
        blocking.map_err(|error| operating(&endpoint.name, &error))?;
        Ok(Self {
            socket,
            records: Records::new(RECORD_MOST, RECORD_MOST),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            outgoing: Vec::new(),
            // Any number; not always the same, so that a server does not take a call for a repetition.
            xid: bw_sys::clock::realtime_ns() as u32,
            limit,
        })
    }

    /// Sends the call that `encode` appends, and returns what `read` makes of its results.
    ///
    /// # Errors
    /// The connection failed, the call was refused or not answered in time, or the reply is malformed.
    pub(crate) fn call<T>(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>, u32),
        read: impl FnOnce(Results<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.xid = self.xid.wrapping_add(1);
        self.outgoing.clear();
        encode(&mut self.outgoing, self.xid);
        let deadline = Instant::now() + self.limit;
        self.socket.set_write_timeout(Some(self.limit))?;
        (&self.socket).write_all(&self.outgoing).map_err(timely)?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
            }
            self.socket.set_read_timeout(Some(left))?;
            let length = (&self.socket).read(&mut self.buffer).map_err(timely)?;
            if length == 0 {
                return Err(io::Error::from_raw_os_error(libc::ECONNRESET));
            }
            let mut bytes = &self.buffer[..length];
            while let Some(record) = self.records.next(&mut bytes).map_err(malformed)? {
                // Others answer a call that an earlier process sent from the same port.
                if xid_of(&record) == Some(self.xid) {
                    let head = read_reply(&record).map_err(malformed)?;
                    return read(head.results.map_err(|refusal| {
                        io::Error::new(io::ErrorKind::PermissionDenied, refusal.to_string())
                    })?);
                }
            }
        }
    }
}

/// Returns an error of a reply that does not follow the protocol.
pub(crate) fn malformed(error: bw_nfs::Malformed) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Names the end of a time limit as such: the kernel reports EAGAIN.
fn timely(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::from_raw_os_error(libc::ETIMEDOUT)
        }
        _ => error,
    }
}

fn operating(server: &str, error: &io::Error) -> EngineError {
    let remedy = "check the server, its log and the network";
    EngineError::operating("nfs", format!("{server}: {error}"), remedy)
}

/// A client of one NFS server.
#[derive(Debug)]
pub(crate) struct Client {
    exchanger: Exchanger,
    caller: NfsCaller,
}

impl Client {
    /// Returns a client with its own connection.
    ///
    /// # Errors
    /// As [`Endpoint::connect`].
    pub(crate) fn connect(
        endpoint: &Endpoint,
        credentials: &Credentials,
        limit: Duration,
    ) -> Result<Self, EngineError> {
        Ok(Self {
            exchanger: Exchanger::connect(endpoint, limit)?,
            caller: NfsCaller::new(credentials),
        })
    }

    /// Executes a call and returns what `read` makes of its reply. A call that the server postpones is sent again until
    /// the time limit.
    ///
    /// # Errors
    /// As [`Exchanger::call`]; the status of a call that failed, with the errno where there is one.
    pub(crate) fn call<T>(
        &mut self,
        call: &Call<'_>,
        mut read: impl FnMut(Reply<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        let deadline = Instant::now() + self.exchanger.limit;
        loop {
            let caller = &self.caller;
            let done = self.exchanger.call(
                |out, xid| caller.call(out, xid, call),
                |results| {
                    let reply = reply::read(call.procedure(), results).map_err(malformed)?;
                    match reply {
                        Ok(reply) => read(reply).map(Ok),
                        Err(status) => Ok(Err(status)),
                    }
                },
            )?;
            match done {
                Ok(done) => return Ok(done),
                Err(Status::JUKEBOX) if Instant::now() + JUKEBOX_WAIT < deadline => {
                    std::thread::sleep(JUKEBOX_WAIT);
                }
                Err(status) => return Err(error_of(status)),
            }
        }
    }
}

/// Returns the error of a status: with its errno, or with the name that only NFS has.
pub(crate) fn error_of(status: Status) -> io::Error {
    if status.0 < FIRST_OWN {
        return io::Error::from_raw_os_error(-status.result());
    }
    io::Error::other(status.to_string())
}

/// An export: where its server is, and the handle of its root.
#[derive(Clone, Debug)]
pub(crate) struct Mounted {
    /// The server's NFS port.
    pub endpoint: Endpoint,
    /// The root of the export.
    pub root: Handle,
    /// What the server can do.
    pub limits: Limits,
}

/// How an export is found.
#[derive(Clone, Debug)]
pub(crate) struct MountRequest<'a> {
    pub host: &'a str,
    /// The port of NFS; None: the portmapper knows it.
    pub port: Option<u16>,
    /// The port of MOUNT; None: the portmapper knows it.
    pub mount_port: Option<u16>,
    pub export: &'a str,
    /// The root of the export, so that MOUNT is not needed.
    pub root: Option<Handle>,
    pub credentials: &'a Credentials,
    /// How long each call may take.
    pub limit: Duration,
}

impl MountRequest<'_> {
    /// Returns the export, with the limits of its server.
    ///
    /// # Errors
    /// `nfs-port`: the portmapper does not know the server; `nfs-mount`: the server refuses the export; `nfs`: it does
    /// not answer as an NFS server.
    pub(crate) fn mount(&self) -> Result<Mounted, EngineError> {
        let port = match self.port {
            Some(port) => port,
            None => self.registered(NFS, "NFS version 3", "port")?,
        };
        let endpoint = Endpoint::resolve(self.host, port)?.with_reserved_port();
        let root = match self.root {
            Some(root) => root,
            None => self.root()?,
        };
        let mut client = Client::connect(&endpoint, self.credentials, self.limit)?;
        let unusable = |error: io::Error| {
            let message = format!("{}: {}: FSINFO: {error}", endpoint.name, self.export);
            let remedy = "check that NFS version 3 is served there, and the export's handle";
            EngineError::request("nfs", message, remedy)
        };
        let limits = client.call(&Call::Fsinfo(&root), |reply| match reply {
            Reply::Limits(limits) => Ok(limits),
            _ => Err(io::ErrorKind::InvalidData.into()),
        });
        let limits = limits.map_err(unusable)?;
        Ok(Mounted {
            endpoint,
            root,
            limits,
        })
    }

    /// Asks the portmapper for the port of a program.
    fn registered(&self, program: (u32, u32), what: &str, field: &str) -> Result<u16, EngineError> {
        let remedy = format!("start the server's rpcbind, or give the port ({field})");
        let refused = |why: String| {
            let message = format!("{}: the portmapper does not know {what}: {why}", self.host);
            EngineError::request("nfs-port", message, remedy.as_str())
                .about(format!("target.{field}"))
        };
        let endpoint = Endpoint::resolve(self.host, mount::PMAP_PORT)?;
        let mut exchanger =
            Exchanger::connect(&endpoint, self.limit).map_err(|error| refused(error.message))?;
        let caller = |version| Caller::new(mount::PORTMAP_NUMBER, version, self.credentials);
        let server = exchanger.socket.peer_addr();
        let port = if server.is_ok_and(|address| address.is_ipv6()) {
            let [newest, former] = mount::RPCBIND_VERSIONS;
            let mut ask = |version| {
                let caller = caller(version);
                exchanger.call(
                    |out, xid| mount::call_getaddr(&caller, out, xid, program),
                    |results| mount::read_getaddr(results).map_err(malformed),
                )
            };
            match ask(newest) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => ask(former),
                port => port,
            }
        } else {
            let caller = caller(mount::PORTMAP_VERSION);
            exchanger.call(
                |out, xid| mount::call_getport(&caller, out, xid, program),
                |results| mount::read_getport(results).map_err(malformed),
            )
        };
        let port = port.map_err(|error| refused(error.to_string()))?;
        port.ok_or_else(|| refused("it is not registered".to_owned()))
    }

    /// Asks the server's MOUNT program for the handle of the export.
    fn root(&self) -> Result<Handle, EngineError> {
        let program = (mount::MOUNT_NUMBER, mount::MOUNT_VERSION);
        let port = match self.mount_port {
            Some(port) => port,
            None => self.registered(program, "MOUNT version 3", "mount_port")?,
        };
        let endpoint = Endpoint::resolve(self.host, port)?.with_reserved_port();
        let mut exchanger = Exchanger::connect(&endpoint, self.limit)?;
        let caller = Caller::new(program.0, program.1, self.credentials);
        let refused = |why: String, remedy: &str| {
            let message = format!("{}: {}: not mounted: {why}", endpoint.name, self.export);
            EngineError::request("nfs-mount", message, remedy).about("target.export")
        };
        let mounted = exchanger.call(
            |out, xid| mount::call_mount(&caller, out, xid, self.export.as_bytes()),
            |results| mount::read_mount(results).map_err(malformed),
        );
        match mounted {
            Ok(Ok(handle)) => Ok(handle),
            Ok(Err(status)) => {
                let mut exports = Vec::new();
                let listed = exchanger.call(
                    |out, xid| mount::call_exports(&caller, out, xid),
                    |results| {
                        let take = |path: &[u8]| {
                            if exports.len() < NAMED_EXPORTS {
                                exports.push(String::from_utf8_lossy(path).into_owned());
                            }
                        };
                        mount::read_exports(results, take).map_err(malformed)
                    },
                );
                let exported = match (listed, exports.is_empty()) {
                    (Ok(()), false) => format!("the server exports {}", exports.join(", ")),
                    (Ok(()), true) => "the server exports nothing".to_owned(),
                    (Err(_), _) => "the server does not list its exports".to_owned(),
                };
                let remedy = "check the export's name and who may mount it";
                Err(refused(format!("{status}; {exported}"), remedy))
            }
            Err(error) => {
                let remedy =
                    "check the port of MOUNT (mount_port), or give the root's handle (root_handle)";
                Err(refused(error.to_string(), remedy))
            }
        }
    }
}
