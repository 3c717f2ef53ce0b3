//! How far the clock of another host is from ours: an echo server there, and a prober here (`clock-echo`, `clock-probe`).
//!
//! Decision: CLOCK_MONOTONIC of both hosts, because the engine starts by it and nobody sets it. The estimate is that of
//! the round trip with the smallest delay, as in NTP: if the two ways of that packet differ, the error is at most half of
//! its delay, whatever the network does. Rejected: the time of day, which the hosts' own synchronisation steps; kernel
//! time stamps of packets, which are in CLOCK_REALTIME.
//!
//! The echo answers only packets with its token, with as many bytes as it received.
//! Source: RFC 5905, section 8 (offset and delay of a round trip).

use bw_model::EngineError;
use bw_sys::clock::monotonic_ns;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::Duration;

/// A packet: token, number, and of an answer the time of its arrival and of its departure.
const BYTES: usize = 32;
/// How long an answer is awaited.
const PATIENCE: Duration = Duration::from_millis(250);
/// After so many packets without an answer, at the start or in total, the way counts as blocked or as bad.
const LOST_FIRST: u32 = 3;
const LOST_IN_ALL: u32 = 20;

fn field(packet: &[u8; BYTES], place: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&packet[place * 8..place * 8 + 8]);
    u64::from_be_bytes(bytes)
}

fn set_field(packet: &mut [u8; BYTES], place: usize, value: u64) {
    packet[place * 8..place * 8 + 8].copy_from_slice(&value.to_be_bytes());
}

/// The request for an echo.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EchoRequest {
    /// Packets without it are not answered.
    pub token: u64,
}

/// The request for a measurement.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeRequest {
    /// The host of the echo.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// Its token.
    pub token: u64,
    /// Number of round trips.
    #[serde(default = "default_round_trips")]
    pub round_trips: u32,
}

fn default_round_trips() -> u32 {
    200
}

/// The result of a measurement; without an answer it has no times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClockOffset {
    /// Round trips that were answered.
    pub round_trips: u32,
    /// Packets without an answer, or with one whose times cannot be.
    pub lost: u32,
    /// CLOCK_MONOTONIC there minus that here.
    pub offset_ns: Option<i64>,
    /// The smallest delay, without the time that the echo took: the error of the offset is at most half of it.
    pub delay_ns: Option<u64>,
    /// When that was, in CLOCK_MONOTONIC here.
    pub at_ns: Option<u64>,
}

/// The four times of a round trip [ns].
#[derive(Clone, Copy, Debug)]
pub struct RoundTrip {
    /// Departure here.
    pub sent: u64,
    /// Arrival there.
    pub received: u64,
    /// Departure there.
    pub answered: u64,
    /// Arrival here.
    pub returned: u64,
}

impl RoundTrip {
    /// Returns the clock there minus the clock here, if both ways took the same time.
    #[must_use]
    pub fn offset_ns(self) -> i64 {
        let there = self.received.wrapping_sub(self.sent).cast_signed();
        let back = self.answered.wrapping_sub(self.returned).cast_signed();
        // The sum of two offsets of years does not fit.
        there / 2 + back / 2 + (there % 2 + back % 2) / 2
    }

    /// Returns the time of both ways; None if the echo says that it held the packet for longer than the round trip took,
    /// or that it answered before it received.
    #[must_use]
    pub fn delay_ns(self) -> Option<u64> {
        let there = self.answered.wrapping_sub(self.received);
        self.returned.wrapping_sub(self.sent).checked_sub(there)
    }
}

/// Returns a socket for an echo, on a port of the kernel's choice.
///
/// # Errors
/// `clock-echo`: there is no socket.
pub fn echo_socket() -> Result<UdpSocket, EngineError> {
    let any = |address: IpAddr| UdpSocket::bind((address, 0));
    let socket = any(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| any(Ipv4Addr::UNSPECIFIED.into()));
    socket.map_err(|error| failed("clock-echo", &error))
}

/// Answers packets until the socket fails. Never returns otherwise.
pub fn echo(socket: &UdpSocket, token: u64) {
    let mut packet = [0; BYTES];
    loop {
        let (length, from) = match socket.recv_from(&mut packet) {
            Ok(received) => received,
            // A report that an earlier answer did not arrive.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(_) => return,
        };
        let received = monotonic_ns();
        if length != BYTES || field(&packet, 0) != token {
            continue;
        }
        set_field(&mut packet, 2, received);
        set_field(&mut packet, 3, monotonic_ns());
        // A lost answer is a lost packet.
        drop(socket.send_to(&packet, from));
    }
}

/// Measures the offset of the clock of an echo.
///
/// # Errors
/// `clock-probe`: there is no socket, or no way to the address.
pub fn probe(request: &ProbeRequest) -> Result<ClockOffset, EngineError> {
    let failed = |error: io::Error| failed("clock-probe", &error);
    let own: IpAddr = match request.address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((own, 0)).map_err(failed)?;
    socket.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    socket
        .connect((request.address, request.port))
        .map_err(failed)?;
    let mut found = ClockOffset::default();
    let mut number = 0;
    while found.round_trips < request.round_trips {
        if found.lost >= LOST_IN_ALL || found.round_trips == 0 && found.lost >= LOST_FIRST {
            break;
        }
        number += 1;
        let trip = round_trip(&socket, request.token, number);
        let Some((trip, delay)) = trip.and_then(|trip| Some((trip, trip.delay_ns()?))) else {
            found.lost += 1;
            continue;
        };
        found.round_trips += 1;
        if found.delay_ns.is_none_or(|smallest| delay < smallest) {
            found.delay_ns = Some(delay);
            found.offset_ns = Some(trip.offset_ns());
            found.at_ns = Some(trip.sent + (trip.returned - trip.sent) / 2);
        }
    }
    Ok(found)
}

/// Sends a packet and returns its times; None without an answer.
fn round_trip(socket: &UdpSocket, token: u64, number: u64) -> Option<RoundTrip> {
    let mut packet = [0; BYTES];
    set_field(&mut packet, 0, token);
    set_field(&mut packet, 1, number);
    let sent = monotonic_ns();
    socket.send(&packet).ok()?;
    loop {
        let length = socket.recv(&mut packet).ok()?;
        let returned = monotonic_ns();
        // An answer to an earlier packet was late.
        if length == BYTES && field(&packet, 0) == token && field(&packet, 1) == number {
            return Some(RoundTrip {
                sent,
                received: field(&packet, 2),
                answered: field(&packet, 3),
                returned,
            });
        }
    }
}

fn failed(code: &'static str, error: &io::Error) -> EngineError {
    let message = format!("no packets: {}", bw_sys::reason(error));
    EngineError::operating(code, message, "check the network between the hosts")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_of_years_is_exact_and_its_error_is_at_most_half_of_the_delay() {
        for offset in [i64::MIN / 4, -77, 0, 5, 1 << 60] {
            for (there, back) in [(10, 10), (0, 40), (40, 0)] {
                let sent = 1_u64 << 61;
                let received = (sent + there).wrapping_add_signed(offset);
                let trip = RoundTrip {
                    sent,
                    received,
                    answered: received + 3,
                    returned: sent + there + 3 + back,
                };
                assert_eq!(trip.delay_ns(), Some(there + back));
                assert!((trip.offset_ns() - offset).unsigned_abs() <= (there + back) / 2);
            }
        }
    }

    #[test]
    fn times_that_cannot_be_have_no_delay() {
        for (received, answered) in [(1000, 999), (u64::MAX, 0), (0, u64::MAX), (0, 51)] {
            let trip = RoundTrip {
                sent: 100,
                received,
                answered,
                returned: 150,
            };
            let possible = (received, answered) == (u64::MAX, 0);
            assert_eq!(trip.delay_ns().is_some(), possible, "{trip:?}");
        }
    }

    #[test]
    fn an_echo_on_the_same_clock_has_an_offset_within_its_bound() {
        let socket = echo_socket().unwrap();
        let port = socket.local_addr().unwrap().port();
        std::thread::spawn(move || echo(&socket, 7));
        let mut request = ProbeRequest {
            address: Ipv4Addr::LOCALHOST.into(),
            port,
            token: 7,
            round_trips: 50,
        };
        let found = probe(&request).unwrap();
        assert_eq!((found.round_trips, found.lost), (50, 0));
        assert!(found.offset_ns.unwrap().unsigned_abs() <= found.delay_ns.unwrap() / 2 + 1);
        request.token = 8;
        let none = ClockOffset {
            lost: LOST_FIRST,
            ..ClockOffset::default()
        };
        assert_eq!(probe(&request).unwrap(), none);
    }
}
