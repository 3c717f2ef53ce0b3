//! Sources of network data: /proc/net/dev, /proc/net/snmp and netstat, /proc/net/softnet_stat.
//!
//! /proc/net/dev has bytes, packets, errors and drops of each interface; snmp and netstat have a line of names and then
//! one of numbers; softnet_stat is hexadecimal, a line per CPU. Source: proc_pid_net(5).

use crate::columns::{ABSENT, ColumnKind, Columns, Parser};
use crate::text::{hex, lines, number, signed, words};

/// Our names, and the field's position after the interface's name.
const INTERFACE_FIELDS: [(&str, usize); 8] = [
    ("rx_bytes", 0),
    ("rx_packets", 1),
    ("rx_errors", 2),
    ("rx_dropped", 3),
    ("tx_bytes", 8),
    ("tx_packets", 9),
    ("tx_errors", 10),
    ("tx_dropped", 11),
];

/// The interfaces, in the order of the text.
#[derive(Debug, Default)]
pub struct Interfaces {
    names: Vec<Vec<u8>>,
}

impl Parser for Interfaces {
    const ONE_RECORD: bool = false;
    const WHAT: &'static str = "net";

    fn learn(&mut self, text: &[u8], columns: &mut Columns) {
        self.names = interface_rows(text)
            .map(|(name, _)| name.to_owned())
            .collect();
        for name in &self.names {
            let prefix = format!("net/{}/", String::from_utf8_lossy(name));
            columns.counters(&prefix, &INTERFACE_FIELDS.map(|(field, _)| field));
        }
    }

    fn parse(&self, text: &[u8], values: &mut [i64]) -> bool {
        values.fill(ABSENT);
        let mut slots = values.chunks_exact_mut(INTERFACE_FIELDS.len());
        let mut names = self.names.iter();
        for (name, numbers) in interface_rows(text) {
            let (Some(known), Some(slot)) = (names.next(), slots.next()) else {
                return false;
            };
            if known != name {
                return false;
            }
            for (place, word) in words(numbers).enumerate() {
                if let Some(field) = INTERFACE_FIELDS.iter().position(|(_, at)| *at == place) {
                    slot[field] = number(word).unwrap_or(ABSENT);
                }
            }
        }
        names.next().is_none()
    }
}

/// Returns each interface and its numbers. There may be no blank after the colon, and an
/// alias has a colon in its name.
fn interface_rows(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines(text).filter_map(|line| {
        let end = line.iter().rposition(|&byte| byte == b':')?;
        Some((words(&line[..end]).next()?, &line[end + 1..]))
    })
}

/// One needed number: the group of lines, the kernel's name, ours.
type WantedNumber = (&'static str, &'static str, &'static str);

/// The numbers of /proc/net/snmp.
pub const SNMP: &[WantedNumber] = &[
    ("Tcp:", "OutSegs", "tcp/segments_out"),
    ("Tcp:", "RetransSegs", "tcp/retransmits"),
    ("Udp:", "InErrors", "udp/receive_errors"),
];

/// The numbers of /proc/net/netstat.
pub const NETSTAT: &[WantedNumber] = &[
    ("TcpExt:", "ListenOverflows", "tcp/listen_overflows"),
    ("TcpExt:", "ListenDrops", "tcp/listen_drops"),
    ("TcpExt:", "TCPBacklogDrop", "tcp/backlog_drop"),
];

/// The positions of the needed numbers: group, position in its line, column.
#[derive(Debug)]
pub struct Sockets {
    wanted: &'static [WantedNumber],
    places: Vec<(&'static str, usize, usize)>,
}

impl Sockets {
    /// Returns a parser of some numbers.
    pub fn new(wanted: &'static [WantedNumber]) -> Self {
        Self {
            wanted,
            places: Vec::new(),
        }
    }
}

impl Parser for Sockets {
    const WHAT: &'static str = "tcp";

    fn learn(&mut self, text: &[u8], columns: &mut Columns) {
        self.places.clear();
        for (group, key, name) in self.wanted {
            let heading = lines(text).find(|line| line.starts_with(group.as_bytes()));
            let place = heading.and_then(|line| words(line).position(|w| w == key.as_bytes()));
            if let Some(place) = place {
                self.places.push((group, place, self.places.len()));
                columns.add(*name, ColumnKind::Counter);
            } else {
                let why = format!("the kernel reports no {group} {key}");
                columns.absent.push(((*name).to_owned(), why));
            }
        }
    }

    fn parse(&self, text: &[u8], values: &mut [i64]) -> bool {
        values.fill(ABSENT);
        for (group, place, column) in &self.places {
            let mut of_group = lines(text).filter(|line| line.starts_with(group.as_bytes()));
            let word = of_group.nth(1).and_then(|line| words(line).nth(*place));
            values[*column] = word.and_then(signed).unwrap_or(ABSENT);
        }
        true
    }
}

/// Packets that were dropped for lack of room, and how often the budget was exhausted.
#[derive(Debug, Default)]
pub struct Softnet;

impl Parser for Softnet {
    const ONE_RECORD: bool = false;
    const WHAT: &'static str = "softnet";

    fn learn(&mut self, _text: &[u8], columns: &mut Columns) {
        columns.counters("softnet/", &["dropped", "squeezed"]);
    }

    fn parse(&self, text: &[u8], values: &mut [i64]) -> bool {
        values.fill(ABSENT);
        for line in lines(text) {
            for (value, word) in values.iter_mut().zip(words(line).skip(1)) {
                let Some(count) = hex(word) else { continue };
                *value = if *value == ABSENT {
                    count
                } else {
                    value.saturating_add(count)
                };
            }
        }
        true
    }
}

#[cfg(test)]
mod interfaces_tests {
    use super::*;

    #[test]
    fn a_colon_may_touch_the_bytes_and_stand_in_the_name() {
        let text = b"Inter-|   Receive  |  Transmit\n face |bytes packets\n  \
            lo:1234 5 0 0 0 0 0 0 77 8 0 1 0 0 0 0\neth0:1: 9 8 7 6 5 4 3 2 1 10 11 12\n";
        let mut interfaces = Interfaces::default();
        let mut columns = Columns::default();
        interfaces.learn(text, &mut columns);
        assert_eq!(columns.named[8].0, "net/eth0:1/rx_bytes");
        let mut values = [0; 16];
        assert!(interfaces.parse(text, &mut values));
        assert_eq!(values[..8], [1234, 5, 0, 0, 77, 8, 0, 1]);
        assert_eq!(values[8..], [9, 8, 7, 6, 1, 10, 11, 12]);
    }
}

#[cfg(test)]
mod sockets_tests {
    use super::*;

    #[test]
    fn numbers_stand_where_their_names_do() {
        let text = b"Tcp: RtoAlgorithm MaxConn OutSegs RetransSegs\nTcp: 1 -1 500 6\n\
            Udp: InDatagrams InErrors\nUdp: 1 2\nUdpLite: InErrors\nUdpLite: 9\n";
        let mut sockets = Sockets::new(SNMP);
        sockets.learn(text, &mut Columns::default());
        let mut values = [0; 3];
        assert!(sockets.parse(text, &mut values));
        assert_eq!(values, [500, 6, 2]);
    }

    #[test]
    fn an_old_kernel_tells_less() {
        let text = b"TcpExt: ListenOverflows ListenDrops\nTcpExt: 1 2\n";
        let mut sockets = Sockets::new(NETSTAT);
        let mut columns = Columns::default();
        sockets.learn(text, &mut columns);
        assert_eq!(columns.named.len(), 2);
        assert_eq!(columns.absent[0].0, "tcp/backlog_drop");
    }

    #[test]
    fn softnet_is_hexadecimal_and_summed() {
        let mut values = [0; 2];
        assert!(Softnet.parse(
            b"0000000f 0000000a 00000001 0\n0 00000001 00000010 0\n",
            &mut values
        ));
        assert_eq!(values, [11, 17]);
    }
}
