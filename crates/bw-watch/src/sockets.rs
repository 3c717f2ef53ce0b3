//! The sockets of the machine by inode: their addresses, and what was sent again or dropped at each.
//!
//! Purpose: the machine's counters of packets include those of all programs; these belong to one socket, so they can be
//! assigned to the processes that have it open. Decision: one dump of the kernel's sock_diag for each protocol, without
//! connections that are over. It shows the sampler's own network namespace. A dump costs about a microsecond a
//! socket, so callers limit how often they ask. Source: sock_diag(7), the kernel's linux/inet_diag.h, linux/tcp.h.

use crate::columns::ABSENT;
use crate::system::{cpu_ns, each_open, monotonic_ns};
use crate::text::socket_inode;
use bw_sys::reason;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// One socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SocketState {
    /// `tcp 127.0.0.1:80` (the peer), `tcp listen 0.0.0.0:80`, `udp 10.0.0.1:53`.
    pub label: String,
    pub counts: SocketCounts,
}

/// What happened at a socket since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SocketCounts {
    /// TCP segments sent again.
    pub retransmits: i64,
    /// TCP segments sent, with those sent again.
    pub segments_out: i64,
    /// Connections that a listening socket dropped.
    pub listen_drops: i64,
    /// Datagrams that did not fit into a receive buffer.
    pub datagram_drops: i64,
}

const DIAG_BY_FAMILY: u16 = 20;
const REQUEST_DUMP: u16 = 0x301;
const REQUEST_ONE: u16 = 1;
const DONE: u16 = 3;
const ERROR: u16 = 2;
const TCP: u8 = 6;
const UDP: u8 = 17;
const LISTEN: u8 = 10;
/// All states but TIME_WAIT (6), NEW_SYN_RECV (12): connections that no process has.
const STATES: u32 = 0xfff & !(1 << 6);
const INFO: u16 = 2;
const MEMORY: u16 = 7;
/// Bytes of the header of a message, and of a socket's fixed part.
const HEADER: usize = 16;
const FIXED: usize = 72;
/// Bytes of the fixed part of a Unix socket, what is asked of it, and the attribute that answers.
const UNIX_FIXED: usize = 16;
const SHOW_PEER: u32 = 4;
const PEER: u16 = 2;
const REQUEST: usize = HEADER + 56;

/// Returns the sockets by inode. Errors: the kernel has no sock_diag, or refuses it.
pub(crate) fn sockets() -> io::Result<HashMap<u64, SocketState>> {
    let netlink = diagnosis()?;
    let mut found = HashMap::new();
    for protocol in [TCP, UDP] {
        for family in [libc::AF_INET, libc::AF_INET6] {
            dump(&netlink, family as u8, protocol, &mut found)?;
        }
    }
    Ok(found)
}

/// Opens a connection to sock_diag.
fn diagnosis() -> io::Result<OwnedFd> {
    let netlink = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    // The kernel answers at once; a limit nevertheless, because a sampler that waits stops its watch.
    let limit = Duration::from_millis(200);
    set_socket_timeout(&netlink, Timeout::Recv, Some(limit))?;
    Ok(netlink)
}

fn dump(
    netlink: &OwnedFd,
    family: u8,
    protocol: u8,
    found: &mut HashMap<u64, SocketState>,
) -> io::Result<()> {
    let mut request = [0_u8; REQUEST];
    request[..4].copy_from_slice(&(REQUEST as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&DIAG_BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&REQUEST_DUMP.to_ne_bytes());
    let extensions = 1 << (INFO - 1) | 1 << (MEMORY - 1);
    request[HEADER..HEADER + 3].copy_from_slice(&[family, protocol, extensions]);
    request[HEADER + 4..HEADER + 8].copy_from_slice(&STATES.to_ne_bytes());
    send(netlink.as_fd(), &request, SendFlags::empty())?;
    let mut buffer = vec![0_u8; 1 << 16];
    loop {
        let (length, _) = recv(netlink.as_fd(), &mut buffer[..], RecvFlags::empty())?;
        let mut rest = &buffer[..length];
        if rest.is_empty() {
            return Ok(());
        }
        while let Some(message) = Message::first(&mut rest) {
            match message.kind {
                DONE => return Ok(()),
                ERROR => return Err(message.error()),
                DIAG_BY_FAMILY => {
                    found.extend(message.socket(protocol));
                }
                _ => {}
            }
        }
    }
}

/// Returns the inode of a Unix socket's peer; None: it has none, is no Unix socket, or that cannot be read.
pub(crate) fn unix_peer(inode: u64) -> Option<u64> {
    let netlink = diagnosis().ok()?;
    let mut request = [0_u8; HEADER + 24];
    let length = request.len() as u32;
    request[..4].copy_from_slice(&length.to_ne_bytes());
    request[4..6].copy_from_slice(&DIAG_BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&REQUEST_ONE.to_ne_bytes());
    request[HEADER] = libc::AF_UNIX as u8;
    let inode = u32::try_from(inode).ok()?;
    for (at, value) in [(4, u32::MAX), (8, inode), (12, SHOW_PEER)] {
        request[HEADER + at..HEADER + at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    // The cookie that stands for any.
    request[HEADER + 16..].fill(0xff);
    send(netlink.as_fd(), &request, SendFlags::empty()).ok()?;
    let mut buffer = [0_u8; 512];
    let (length, _) = recv(netlink.as_fd(), &mut buffer[..], RecvFlags::empty()).ok()?;
    let message = Message::first(&mut &buffer[..length])?;
    if message.kind != DIAG_BY_FAMILY {
        return None;
    }
    let mut rest = message.body.get(UNIX_FIXED..)?;
    std::iter::from_fn(|| attribute(&mut rest))
        .find_map(|(kind, value)| (kind == PEER).then(|| u32_at(value, 0))?)
        .map(u64::from)
}

struct Message<'a> {
    kind: u16,
    body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Takes the first message of a datagram; None at its end.
    fn first(rest: &mut &'a [u8]) -> Option<Self> {
        let length = u32_at(rest, 0)? as usize;
        let body = rest.get(HEADER..length)?;
        let kind = u16_at(rest, 4)?;
        *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Self { kind, body })
    }

    fn error(&self) -> io::Error {
        let number = u32_at(self.body, 0).map_or(0, u32::cast_signed);
        io::Error::from_raw_os_error(-number)
    }

    fn socket(&self, protocol: u8) -> Option<(u64, SocketState)> {
        let inode = u64::from(u32_at(self.body, FIXED - 4)?);
        // A socket that no process has open.
        if inode == 0 {
            return None;
        }
        let [family, state] = [*self.body.first()?, *self.body.get(1)?];
        let listens = protocol == TCP && state == LISTEN;
        let mut counts = SocketCounts::default();
        let mut rest = &self.body[FIXED..];
        while let Some((kind, value)) = attribute(&mut rest) {
            match (kind, protocol) {
                (INFO, TCP) if !listens => {
                    counts.retransmits = i64::from(u32_at(value, 100).unwrap_or(0));
                    counts.segments_out = i64::from(u32_at(value, 136).unwrap_or(0));
                }
                (MEMORY, _) => {
                    let drops = i64::from(u32_at(value, 32).unwrap_or(0));
                    if listens {
                        counts.listen_drops = drops;
                    } else if protocol == UDP {
                        counts.datagram_drops = drops;
                    }
                }
                _ => {}
            }
        }
        let label = label(protocol, family, listens, &self.body[4..])?;
        Some((inode, SocketState { label, counts }))
    }
}

fn label(protocol: u8, family: u8, listens: bool, id: &[u8]) -> Option<String> {
    let port = |at: usize| Some(u16::from_be_bytes(id.get(at..at + 2)?.try_into().ok()?));
    let (own_port, peer_port) = (port(0)?, port(2)?);
    let name = if protocol == TCP { "tcp" } else { "udp" };
    let own = address(family, id.get(4..20)?)?;
    let peer = address(family, id.get(20..36)?)?;
    Some(if listens {
        format!("{name} listen {}", with_port(own, own_port))
    } else if peer_port == 0 {
        format!("{name} bound {}", with_port(own, own_port))
    } else {
        format!("{name} {}", with_port(peer, peer_port))
    })
}

fn with_port(address: IpAddr, port: u16) -> String {
    std::net::SocketAddr::new(address, port).to_string()
}

fn address(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    if i32::from(family) == libc::AF_INET {
        let four: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
        return Some(Ipv4Addr::from(four).into());
    }
    let all: [u8; 16] = bytes.try_into().ok()?;
    Some(IpAddr::from(Ipv6Addr::from(all)).to_canonical())
}

/// Takes the first attribute: its kind and its value.
fn attribute<'a>(rest: &mut &'a [u8]) -> Option<(u16, &'a [u8])> {
    let length = usize::from(u16_at(rest, 0)?);
    let kind = u16_at(rest, 2)?;
    let value = rest.get(4..length)?;
    *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, value))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

// -- The sockets of the trees: what they lost since the watch began, and their labels --------------------------
//
// Decision: the descriptors of the trees are listed only in a second in which the machine lost anything at all, and at most
// `MOST_DESCRIPTORS`: listing them costs more than everything else about a server with many connections. What a socket
// lost before the watch is that of the first dump.

/// Maximum number of descriptors of the trees that are examined at once.
const MOST_DESCRIPTORS: usize = 4096;
/// Part of the elapsed time that may be spent on labels [1/n], and the time that may be spent at any rate [ns].
const LABEL_SHARE: i64 = 1000;
const LABEL_NS: i64 = 2_000_000;

/// Sockets of the own and the target trees.
#[derive(Debug, Default)]
pub(crate) struct TreeSockets {
    begin_ns: i64,
    at_begin: HashMap<u64, SocketCounts>,
    /// Own, target.
    lost: [HashMap<u64, SocketCounts>; 2],
    labels: HashMap<u64, String>,
    unlabelled: HashSet<u64>,
    spent_ns: i64,
    /// Why the sockets cannot be read; empty if they can.
    pub absent: String,
}

impl TreeSockets {
    /// Records what all sockets lost so far.
    pub(crate) fn begin(&mut self) {
        self.begin_ns = monotonic_ns();
        let found = self.dump().into_iter();
        self.at_begin = found.map(|(inode, state)| (inode, state.counts)).collect();
    }

    fn dump(&mut self) -> HashMap<u64, SocketState> {
        sockets().unwrap_or_else(|error| {
            self.absent = format!("sock_diag: {}", reason(&error));
            HashMap::new()
        })
    }

    /// Counts again what the sockets of the trees lost. `processes`: directories of /proc, and 0 for own, 1 for target.
    pub(crate) fn count<'a>(&mut self, processes: impl Iterator<Item = (&'a Path, usize)>) {
        let all = self.dump();
        let mut left = MOST_DESCRIPTORS;
        for (process, tree) in processes {
            for inode in open_sockets(process, &mut left) {
                if let Some(state) = all.get(&inode) {
                    let before = self.at_begin.get(&inode).copied().unwrap_or_default();
                    self.lost[tree].insert(inode, state.counts.since(before));
                }
            }
        }
        if left == 0 {
            self.absent = format!("only {MOST_DESCRIPTORS} descriptors were examined");
        }
    }

    /// Returns what the sockets of a tree lost since the watch began, in the order of their columns.
    pub(crate) fn sums(&self, tree: usize) -> [i64; 4] {
        if self.absent.starts_with("sock_diag") {
            return [ABSENT; 4];
        }
        let each = self.lost[tree].values();
        each.fold([0; 4], |sums, counts| {
            let more = counts.columns();
            std::array::from_fn(|nth| sums[nth] + more[nth])
        })
    }

    /// Looks for the labels of these sockets, unless that has cost too much.
    pub(crate) fn learn_labels(&mut self, wanted: &[u64]) {
        let unknown = |inode| !self.labels.contains_key(inode) && !self.unlabelled.contains(inode);
        let affordable = (monotonic_ns() - self.begin_ns) / LABEL_SHARE + LABEL_NS;
        if self.spent_ns > affordable || !wanted.iter().any(unknown) {
            return;
        }
        let before = cpu_ns();
        let found = self.dump();
        self.labels = found
            .into_iter()
            .map(|(inode, state)| (inode, state.label))
            .collect();
        // Of another family: Unix, netlink, packet.
        self.unlabelled = wanted
            .iter()
            .copied()
            .filter(|inode| !self.labels.contains_key(inode))
            .collect();
        self.spent_ns += cpu_ns() - before;
    }

    /// Returns a socket's label; `socket` if it is not known.
    pub(crate) fn label(&self, inode: u64) -> &str {
        self.labels.get(&inode).map_or("socket", String::as_str)
    }
}

impl SocketCounts {
    fn columns(self) -> [i64; 4] {
        [
            self.segments_out,
            self.retransmits,
            self.listen_drops,
            self.datagram_drops,
        ]
    }

    fn since(self, before: Self) -> Self {
        Self {
            retransmits: self.retransmits - before.retransmits,
            segments_out: self.segments_out - before.segments_out,
            listen_drops: self.listen_drops - before.listen_drops,
            datagram_drops: self.datagram_drops - before.datagram_drops,
        }
    }
}

/// Returns the inodes of a process's sockets, from at most `left` descriptors.
fn open_sockets(process: &Path, left: &mut usize) -> Vec<u64> {
    let mut found = Vec::new();
    each_open(process, left, |name, _| found.extend(socket_inode(name)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::{AsRawFd, RawFd};

    #[test]
    fn a_tree_counts_what_its_own_sockets_lost_since_the_begin() {
        let (own, other) = (
            UdpSocket::bind("127.0.0.1:0").unwrap(),
            UdpSocket::bind("127.0.0.1:0").unwrap(),
        );
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let flood = |socket: &UdpSocket| {
            for _ in 0..2000 {
                let _ = sender.send_to(&[0; 1000], socket.local_addr().unwrap());
            }
        };
        flood(&own);
        let mut sockets = TreeSockets::default();
        sockets.begin();
        flood(&other);
        let process = tempfile::tempdir().unwrap();
        let process = process.path();
        fs::create_dir(process.join("fd")).unwrap();
        let link = fs::read_link(format!("/proc/self/fd/{}", own.as_raw_fd())).unwrap();
        std::os::unix::fs::symlink(link, process.join("fd/3")).unwrap();
        sockets.count([(process, 0)].into_iter());
        let quiet = sockets.sums(0);
        flood(&own);
        sockets.count([(process, 0)].into_iter());
        if sockets.absent.is_empty() {
            assert_eq!(quiet, [0; 4]);
            assert!(sockets.sums(0)[3] > 0);
            assert_eq!(sockets.sums(1), [0; 4]);
        }
    }

    fn inode(descriptor: RawFd) -> u64 {
        let link = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).unwrap();
        crate::text::socket_inode(&link.to_string_lossy()).unwrap()
    }

    #[test]
    fn a_socket_has_its_peer_and_its_segments() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let server = UdpSocket::bind("[::1]:0").unwrap();
        let Ok(found) = sockets() else { return };
        let client = &found[&inode(client.as_raw_fd())];
        assert_eq!(client.label, format!("tcp {address}"));
        assert!(client.counts.segments_out > 0);
        let listening = &found[&inode(listener.as_raw_fd())].label;
        assert_eq!(*listening, format!("tcp listen {address}"));
        let bound = format!("udp bound {}", server.local_addr().unwrap());
        assert_eq!(found[&inode(server.as_raw_fd())].label, bound);
    }

    #[test]
    fn a_message_that_was_cut_ends_the_reading() {
        let mut rest = &[200_u8, 0, 0, 0, 20, 0][..];
        assert!(Message::first(&mut rest).is_none());
        let message = Message {
            kind: DIAG_BY_FAMILY,
            body: &[2; 30],
        };
        assert!(message.socket(TCP).is_none());
    }
}
