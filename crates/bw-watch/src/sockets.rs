//! /proc/net/snmp, /proc/net/netstat (a line of names, then one of numbers), and
//! /proc/net/softnet_stat (hexadecimal, a line per processor). Source: proc_pid_net(5).

use crate::columns::{ABSENT, Columns, Kind, Parser};
use crate::text::{hex, lines, signed, words};

/// One wanted number: the group of lines, the kernel's name, ours.
type Wanted = (&'static str, &'static str, &'static str);

/// Of /proc/net/snmp.
pub const SNMP: &[Wanted] = &[
    ("Tcp:", "OutSegs", "tcp/segments_out"),
    ("Tcp:", "RetransSegs", "tcp/retransmits"),
    ("Udp:", "InErrors", "udp/receive_errors"),
];

/// Of /proc/net/netstat.
pub const NETSTAT: &[Wanted] = &[
    ("TcpExt:", "ListenOverflows", "tcp/listen_overflows"),
    ("TcpExt:", "ListenDrops", "tcp/listen_drops"),
    ("TcpExt:", "TCPBacklogDrop", "tcp/backlog_drop"),
];

/// Where the wanted numbers are: group, place in its line, column.
#[derive(Debug)]
pub struct Sockets {
    wanted: &'static [Wanted],
    places: Vec<(&'static str, usize, usize)>,
}

impl Sockets {
    /// Wants some numbers.
    pub fn new(wanted: &'static [Wanted]) -> Self {
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
                columns.add(*name, Kind::Counter);
            } else {
                let why = format!("the kernel tells no {group} {key}");
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

/// Packets that were dropped for want of room, and times the budget was spent.
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
mod tests {
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
