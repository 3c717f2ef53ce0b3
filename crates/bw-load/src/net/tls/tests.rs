//! The stream against rustls' own server side in memory, whatever the pieces in which bytes arrive.

use super::settings::{HTTP_1_1, TlsSpec};
use super::*;
use crate::net::connection::{ConnectionOptions, Endpoint};
use crate::net::pool::Pool;
use crate::target::Reaped;
use bw_model::{Kind, Operation};
use bw_protocol::echo::Echo;
use certificates::{Authority, Validity};
use proptest::prelude::*;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};
use socket2::SockRef;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::{fs, thread};

#[path = "../../../tests/network/certificates.rs"]
mod certificates;

/// Both directions of a connection.
#[derive(Default)]
struct Wire {
    to_server: VecDeque<u8>,
    to_client: VecDeque<u8>,
    /// How much the client reads or writes at a time, in turn; 0: nothing.
    pieces: Vec<usize>,
    turn: usize,
    closed: bool,
}

impl Wire {
    fn piece(&mut self) -> usize {
        self.turn += 1;
        self.pieces[self.turn % self.pieces.len()]
    }
}

#[derive(Clone, Default)]
struct Memory(Rc<RefCell<Wire>>);

impl Read for Memory {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut wire = self.0.borrow_mut();
        if wire.closed && wire.to_client.is_empty() {
            return Ok(0);
        }
        let length = wire.piece().min(buffer.len()).min(wire.to_client.len());
        if length == 0 {
            return Err(later());
        }
        for (place, byte) in buffer.iter_mut().zip(wire.to_client.drain(..length)) {
            *place = byte;
        }
        Ok(length)
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut wire = self.0.borrow_mut();
        let length = wire.piece().min(bytes.len());
        if length == 0 {
            return Err(later());
        }
        wire.to_server.extend(&bytes[..length]);
        Ok(length)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The server, which sends back what it receives.
struct Peer {
    connection: ServerConnection,
    wire: Rc<RefCell<Wire>>,
}

impl Peer {
    /// Handles what has arrived; the error of the library, for example an alert.
    fn work(&mut self) -> Result<(), rustls::Error> {
        let bytes: Vec<u8> = self.wire.borrow_mut().to_server.drain(..).collect();
        let mut left = &bytes[..];
        let mut outcome = Ok(());
        while !left.is_empty() && outcome.is_ok() {
            self.connection.read_tls(&mut left).unwrap();
            outcome = self.connection.process_new_packets().map(|_| ());
            let mut content = [0; 4096];
            while let Ok(length @ 1..) = self.connection.reader().read(&mut content) {
                self.connection
                    .writer()
                    .write_all(&content[..length])
                    .unwrap();
            }
        }
        self.send();
        outcome
    }

    fn send(&mut self) {
        let mut bytes = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut bytes).unwrap();
        }
        self.wire.borrow_mut().to_client.extend(bytes);
    }
}

fn certificates_in(authority: &Authority, file: &str) -> Vec<CertificateDer<'static>> {
    let text = fs::read(authority.file(file)).unwrap();
    CertificateDer::pem_slice_iter(&text)
        .map(Result::unwrap)
        .collect()
}

fn server(
    authority: &Authority,
    name: &str,
    chain: Vec<CertificateDer<'static>>,
    version: &'static SupportedProtocolVersion,
) -> ServerConfig {
    let key = fs::read(authority.file(&format!("{name}.key"))).unwrap();
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_slice(&key).unwrap())
        .unwrap()
}

fn connect(
    config: ServerConfig,
    settings: &TlsSettings,
    pieces: &[usize],
) -> (TlsStream<Memory>, Peer) {
    let memory = Memory::default();
    memory.0.borrow_mut().pieces = pieces.to_vec();
    let mut connection = ServerConnection::new(Arc::new(config)).unwrap();
    connection.set_buffer_limit(None);
    let wire = Rc::clone(&memory.0);
    let stream = TlsStream::new(memory, settings).unwrap();
    (stream, Peer { connection, wire })
}

/// Completes the handshake.
fn shake(stream: &mut TlsStream<Memory>, peer: &mut Peer) -> io::Result<()> {
    for _ in 0..1_000_000 {
        let done = stream.handshake()?;
        // What the client refuses it reports itself.
        let _ = peer.work();
        if done {
            return Ok(());
        }
    }
    panic!("the handshake does not end");
}

/// Sends content and returns what comes back, as long.
fn exchange(stream: &mut TlsStream<Memory>, peer: &mut Peer, content: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0; 64 * 1024];
    let (mut sent, mut back) = (0, Vec::new());
    while back.len() < content.len() {
        match stream.write(&content[sent..]) {
            Ok(length) => sent += length,
            Err(error) => assert!(is_later(&error), "{error}"),
        }
        peer.work().unwrap();
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => panic!("the end"),
                Ok(length) => back.extend_from_slice(&buffer[..length]),
                Err(error) if is_later(&error) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(!stream.is_buffered());
    back
}

/// An authority, a certificate for localhost, and the settings of a client that trusts it.
fn trusting(test: &str, protocol: Option<&'static str>) -> Option<(Authority, TlsSettings)> {
    let authority = Authority::make(test)?;
    authority.issue("server", "DNS:localhost,IP:127.0.0.1", Validity::Now);
    let settings = spec(&authority).settings("localhost", protocol).unwrap();
    Some((authority, settings))
}

fn spec(authority: &Authority) -> TlsSpec {
    TlsSpec {
        ca: Some(authority.file("ca.pem")),
        ..TlsSpec::default()
    }
}

/// A connection that is ready, without pieces.
fn ready(
    authority: &Authority,
    settings: &TlsSettings,
    version: &'static SupportedProtocolVersion,
) -> (TlsStream<Memory>, Peer) {
    let chain = certificates_in(authority, "server.pem");
    let config = server(authority, "server", chain, version);
    let (mut stream, mut peer) = connect(config, settings, &[usize::MAX]);
    shake(&mut stream, &mut peer).unwrap();
    (stream, peer)
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or_default()
}

#[test]
fn content_is_the_same_whatever_the_pieces() {
    let Some((authority, settings)) = trusting("pieces", Some(HTTP_1_1)) else {
        return;
    };
    let chain = certificates_in(&authority, "server.pem");
    let pieces = prop::collection::vec(prop_oneof![0usize..8, 0usize..40_000], 1..20)
        .prop_filter("some bytes must pass", |pieces| {
            pieces.iter().any(|piece| *piece > 0)
        });
    let lengths = prop::collection::vec(prop_oneof![1usize..100, 1usize..100_000], 1..4);
    let config = ProptestConfig {
        cases: 32,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(pieces in pieces, lengths in lengths, old in any::<bool>())| {
        let version = if old { &TLS12 } else { &TLS13 };
        let config = server(&authority, "server", chain.clone(), version);
        let (mut stream, mut peer) = connect(config, &settings, &pieces);
        shake(&mut stream, &mut peer).unwrap();
        // Where pieces of no and few bytes alternate, much content would take minutes.
        let slow = pieces.iter().sum::<usize>() < 100 * pieces.len();
        for length in lengths {
            let length = if slow { length.min(1000) } else { length };
            let content: Vec<u8> = (0..length).map(|place| (place % 251) as u8).collect();
            prop_assert!(exchange(&mut stream, &mut peer, &content) == content);
        }
        let described = stream.describe();
        prop_assert_eq!(described.version, if old { "TLSv1.2" } else { "TLSv1.3" });
        prop_assert!(described.verified && described.cipher.starts_with("TLS_"));
        prop_assert_eq!(described.alpn, None);
    });
}

#[test]
fn a_reader_with_a_small_buffer_gets_everything() {
    let Some((authority, settings)) = trusting("small", None) else {
        return;
    };
    let (mut stream, mut peer) = ready(&authority, &settings, &TLS13);
    let content: Vec<u8> = (0..40_000_u32).map(|place| (place % 251) as u8).collect();
    peer.connection.writer().write_all(&content).unwrap();
    peer.send();
    assert!(!stream.is_buffered());
    let (mut back, mut buffer) = (Vec::new(), [0; 1000]);
    loop {
        match stream.read(&mut buffer) {
            Ok(length) => back.extend_from_slice(&buffer[..length]),
            Err(error) if is_later(&error) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(back, content);
}

#[test]
fn an_announced_end_is_an_end_and_any_other_an_error() {
    let Some((authority, settings)) = trusting("ends", None) else {
        return;
    };
    let mut buffer = vec![0; 64 * 1024];
    for announced in [true, false] {
        let (mut stream, mut peer) = ready(&authority, &settings, &TLS13);
        peer.connection.writer().write_all(b"last").unwrap();
        if announced {
            peer.connection.send_close_notify();
        }
        peer.send();
        peer.wire.borrow_mut().closed = true;
        // The content before the end is not lost, and then the end is known without the socket.
        assert_eq!(stream.read(&mut buffer).unwrap(), 4);
        let end = stream.read(&mut buffer);
        assert!(stream.is_buffered());
        match end {
            Ok(length) => assert_eq!((announced, length), (true, 0)),
            Err(error) => assert_eq!((announced, errno(&error)), (false, libc::ECONNRESET)),
        }
    }
}

#[test]
fn a_cut_record_is_a_lost_connection() {
    let Some((authority, settings)) = trusting("cut", None) else {
        return;
    };
    let (mut stream, mut peer) = ready(&authority, &settings, &TLS13);
    peer.connection.writer().write_all(&[7; 1000]).unwrap();
    peer.send();
    peer.wire.borrow_mut().to_client.pop_back();
    let mut buffer = vec![0; 64 * 1024];
    assert!(is_later(&stream.read(&mut buffer).unwrap_err()));
    peer.wire.borrow_mut().closed = true;
    let lost = stream.read(&mut buffer).unwrap_err();
    assert_eq!(errno(&lost), libc::ECONNRESET);
    let written = stream.write(b"more").unwrap_err();
    assert_eq!(errno(&written), libc::ECONNRESET);
}

#[test]
fn changed_bytes_are_a_protocol_error_after_the_content_before_them() {
    let Some((authority, settings)) = trusting("changed", None) else {
        return;
    };
    let mut buffer = vec![0; 64 * 1024];
    for version in [&TLS12, &TLS13] {
        for changed in [0, 1, 3, 4, 5, 20] {
            let (mut stream, mut peer) = ready(&authority, &settings, version);
            // Session tickets.
            assert!(is_later(&stream.read(&mut buffer).unwrap_err()));
            peer.connection.writer().write_all(b"good").unwrap();
            peer.send();
            let before = peer.wire.borrow().to_client.len();
            peer.connection.writer().write_all(b"never seen").unwrap();
            peer.send();
            peer.wire.borrow_mut().to_client[before + changed] ^= 0xff;
            peer.wire.borrow_mut().closed = true;
            assert_eq!(stream.read(&mut buffer).unwrap(), 4, "byte {changed}");
            let error = stream.read(&mut buffer).unwrap_err();
            assert!(
                [libc::EPROTO, libc::ECONNRESET].contains(&errno(&error)),
                "byte {changed}: {error}"
            );
            // The length may be that of a longer record, which was cut.
            if ![3, 4].contains(&changed) {
                assert_eq!(errno(&error), libc::EPROTO, "byte {changed}");
                assert!(peer.work().is_err(), "byte {changed}: no alert");
            }
        }
    }
}

#[test]
fn garbage_never_is_content() {
    let Some((authority, settings)) = trusting("garbage", None) else {
        return;
    };
    let config = ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(mut bytes in prop::collection::vec(any::<u8>(), 1..2000), header in 0usize..5, begun in any::<bool>())| {
        let real = [0x17, 3, 3, 0, 100];
        let length = header.min(bytes.len());
        bytes[..length].copy_from_slice(&real[..length]);
        let (mut stream, peer) = if begun {
            ready(&authority, &settings, &TLS13)
        } else {
            let chain = certificates_in(&authority, "server.pem");
            connect(server(&authority, "server", chain, &TLS13), &settings, &[usize::MAX])
        };
        if begun {
            assert!(is_later(&stream.read(&mut [0; 1]).unwrap_err()));
        }
        peer.wire.borrow_mut().to_client = bytes.into();
        peer.wire.borrow_mut().closed = true;
        let error = if begun {
            let mut buffer = vec![0; 64 * 1024];
            loop {
                match stream.read(&mut buffer) {
                    Err(error) if is_later(&error) => {}
                    outcome => break outcome.map(|_| ()),
                }
            }
        } else {
            let mut handshake = Ok(false);
            while let Ok(false) = handshake {
                handshake = stream.handshake();
            }
            handshake.map(|_| ())
        };
        prop_assert!([libc::EPROTO, libc::ECONNRESET].contains(&errno(&error.unwrap_err())));
    });
}

#[test]
fn new_keys_do_not_disturb() {
    let Some((authority, settings)) = trusting("keys", None) else {
        return;
    };
    let (mut stream, mut peer) = ready(&authority, &settings, &TLS13);
    for _ in 0..3 {
        peer.connection.refresh_traffic_keys().unwrap();
        peer.send();
        assert_eq!(exchange(&mut stream, &mut peer, b"content"), b"content");
    }
}

#[test]
fn session_tickets_are_no_content() {
    let Some((authority, settings)) = trusting("tickets", None) else {
        return;
    };
    let (mut stream, mut peer) = ready(&authority, &settings, &TLS13);
    assert!(!peer.wire.borrow().to_client.is_empty(), "session tickets");
    let mut buffer = vec![0; 64 * 1024];
    assert!(is_later(&stream.read(&mut buffer).unwrap_err()));
    peer.connection.writer().write_all(b"content").unwrap();
    peer.send();
    assert_eq!(stream.read(&mut buffer).unwrap(), 7);
    assert!(!stream.is_buffered());
}

#[test]
fn a_chain_of_certificates_larger_than_a_record_is_read() {
    let Some((authority, settings)) = trusting("chain", None) else {
        return;
    };
    let own = certificates_in(&authority, "ca.pem").remove(0);
    let mut chain = certificates_in(&authority, "server.pem");
    while chain.iter().map(|one| one.len()).sum::<usize>() < 2 * CONTENT_BYTES {
        chain.push(own.clone());
    }
    for version in [&TLS12, &TLS13] {
        let config = server(&authority, "server", chain.clone(), version);
        let (mut stream, mut peer) = connect(config, &settings, &[1000, 30_000]);
        shake(&mut stream, &mut peer).unwrap();
        assert_eq!(exchange(&mut stream, &mut peer, b"content"), b"content");
    }
}

#[test]
fn each_certificate_that_is_refused_has_its_reason() {
    let Some((authority, trusting)) = trusting("refused", None) else {
        return;
    };
    authority.issue("old", "DNS:localhost", Validity::Over);
    authority.issue("young", "DNS:localhost", Validity::Future);
    authority.issue("other", "DNS:elsewhere.example", Validity::Now);
    authority.sign_itself("alone", "DNS:localhost");
    for (name, reason) in [
        ("old", "expired"),
        ("young", "not valid yet"),
        ("other", "elsewhere.example"),
        ("alone", "self-signed"),
        ("ca", "authority"),
    ] {
        for version in [&TLS12, &TLS13] {
            let chain = certificates_in(&authority, &format!("{name}.pem"));
            let config = server(&authority, name, chain.clone(), version);
            let (mut stream, mut peer) = connect(config, &trusting, &[usize::MAX]);
            let error = shake(&mut stream, &mut peer).unwrap_err();
            let refusal = stream.refusal(-errno(&error));
            assert_eq!(refusal.code, "tls-certificate");
            assert!(refusal.what.contains(reason), "{name}: {refusal:?}");

            // The same is accepted if the user says so, and then it was not verified.
            let any = TlsSpec {
                insecure: true,
                ..TlsSpec::default()
            };
            let any = any.settings("localhost", None).unwrap();
            let config = server(&authority, name, chain, version);
            let (mut stream, mut peer) = connect(config, &any, &[usize::MAX]);
            shake(&mut stream, &mut peer).unwrap();
            assert!(!stream.describe().verified);
        }
    }
}

#[test]
fn a_given_name_is_the_one_that_counts() {
    let Some((authority, _)) = trusting("named", None) else {
        return;
    };
    let named = TlsSpec {
        server_name: Some("localhost".into()),
        ..spec(&authority)
    };
    let settings = named.settings("192.0.2.1", None).unwrap();
    let (stream, peer) = ready(&authority, &settings, &TLS13);
    assert_eq!(peer.connection.server_name(), Some("localhost"));
    assert!(stream.describe().verified);
    let address = spec(&authority).settings("127.0.0.1", None).unwrap();
    let (stream, peer) = ready(&authority, &address, &TLS13);
    assert_eq!(peer.connection.server_name(), None);
    assert!(stream.describe().verified);
}

#[test]
fn a_protocol_is_agreed_on_or_the_server_refused() {
    let Some((authority, http)) = trusting("alpn", Some(HTTP_1_1)) else {
        return;
    };
    let newer = spec(&authority).settings("localhost", Some("h2")).unwrap();
    #[allow(clippy::type_complexity)] // without the type, each slice would need a conversion
    let cases: [(&TlsSettings, &[&str], Option<Option<&str>>); 6] = [
        (&http, &["h2", HTTP_1_1], Some(Some(HTTP_1_1))),
        (&http, &[], Some(None)),
        (&http, &["h2"], None),
        (&newer, &["h2", HTTP_1_1], Some(Some("h2"))),
        (&newer, &[], None),
        (&newer, &[HTTP_1_1], None),
    ];
    for (settings, offered, agreed) in cases {
        let chain = certificates_in(&authority, "server.pem");
        let mut config = server(&authority, "server", chain, &TLS13);
        config.alpn_protocols = offered.iter().map(|name| name.as_bytes().into()).collect();
        let (mut stream, mut peer) = connect(config, settings, &[usize::MAX]);
        match (shake(&mut stream, &mut peer), agreed) {
            (Ok(()), Some(name)) => assert_eq!(stream.describe().alpn.as_deref(), name),
            (Err(error), None) => {
                let refusal = stream.refusal(-errno(&error));
                assert!(refusal.what.contains("HTTP"), "{refusal:?}");
            }
            (outcome, _) => panic!("{offered:?}: {outcome:?}"),
        }
    }
}

#[test]
fn servers_without_tls_or_with_an_old_one_are_named_so() {
    let settings = TlsSpec {
        insecure: true,
        ..TlsSpec::default()
    };
    let settings = settings.settings("localhost", None).unwrap();
    let cases: [(&[u8], &str); 5] = [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not TLS"),
        (b"220 mail.example ESMTP\r\n", "not TLS"),
        (&[0x15, 3, 1, 0, 2, 2, 70], "neither TLS 1.2 nor TLS 1.3"),
        (&[0x15, 3, 3, 0, 2, 2, 40], "refused the handshake"),
        (b"", "closed the connection"),
    ];
    for (answer, reason) in cases {
        let memory = Memory::default();
        memory.0.borrow_mut().pieces = vec![usize::MAX];
        memory.0.borrow_mut().to_client = answer.iter().copied().collect();
        memory.0.borrow_mut().closed = true;
        let mut stream = TlsStream::new(memory, &settings).unwrap();
        let error = stream.handshake().unwrap_err();
        let refusal = stream.refusal(-errno(&error));
        assert_eq!(refusal.code, "tls");
        assert!(refusal.what.contains(reason), "{refusal:?}");
    }
}

#[test]
fn authorities_that_cannot_be_read_are_refused() {
    let Some(authority) = Authority::make("unreadable") else {
        return;
    };
    fs::write(authority.file("empty.pem"), "no certificate here\n").unwrap();
    let wrong = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    fs::write(authority.file("wrong.pem"), wrong).unwrap();
    for file in ["missing.pem", "empty.pem", "wrong.pem"] {
        let spec = TlsSpec {
            ca: Some(authority.file(file)),
            ..TlsSpec::default()
        };
        let refused = spec.settings("localhost", None).unwrap_err();
        assert_eq!((refused.code, refused.status), ("ca", 2), "{file}");
        assert!(refused.message.contains(file), "{refused}");
    }
    let refused = spec(&authority).settings("not a name", None).unwrap_err();
    assert_eq!(refused.code, "server-name");
}

#[test]
fn a_read_that_writes_the_last_record_ends_its_operation_and_the_watch_for_room() {
    let Some((authority, settings)) = trusting("room", None) else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    SockRef::from(&listener)
        .set_recv_buffer_size(16 * 1024)
        .unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = authority.server_config("server");
    let (answer, answers) = mpsc::channel();
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut connection = ServerConnection::new(config).unwrap();
        connection.complete_io(&mut socket).unwrap();
        // Nothing is read until the client's kernel takes no more.
        let count: usize = answers.recv().unwrap();
        connection.writer().write_all(&vec![7; count]).unwrap();
        while connection.wants_write() {
            connection.write_tls(&mut socket).unwrap();
        }
        while matches!(socket.read(&mut [0; 4096]), Ok(1..)) {}
    });
    let endpoint = Endpoint::resolve("127.0.0.1", port).unwrap();
    let established = endpoint.with_tls(Some(settings)).connect(1).unwrap();
    let near = established.sockets[0].try_clone().unwrap();
    near.set_send_buffer_size(64 * 1024).unwrap();
    let options = ConnectionOptions {
        outstanding: 4096,
        requests_per_connection: None,
        timeout: None,
    };
    let mut pool = Pool::new(Echo::new(Some(1), 4096), established, options).unwrap();
    pool.shake_hands().unwrap().unwrap();

    let mut begun = 0;
    while !pool.connections[0].is_unfinished() {
        pool.submit(begun, &Operation::new(Kind::Exchange, 0, 5_000));
        pool.flush().unwrap();
        begun += 1;
    }
    assert!(begun > 1 && pool.connections[0].out.is_empty());

    answer.send(begun as usize).unwrap();
    let is_ready = |flags| {
        let mut poll = [rustix::event::PollFd::new(&near, flags)];
        rustix::event::poll(&mut poll, None).unwrap();
    };
    is_ready(rustix::event::PollFlags::IN);
    is_ready(rustix::event::PollFlags::OUT);
    let mut ends: Vec<Reaped> = Vec::with_capacity(4096);
    for _ in 0..100 {
        pool.reap(&mut ends).unwrap();
    }
    assert_eq!(ends.len(), begun as usize);
    assert!(!pool.connections[0].waits_for_room());
}
