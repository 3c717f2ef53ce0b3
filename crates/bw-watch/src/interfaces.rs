//! /proc/net/dev: bytes, packets, errors, drops of each interface. Source: proc_pid_net(5).

use crate::columns::{ABSENT, Columns, Parser};
use crate::text::{lines, number, words};

/// Our names, and the place after the interface's name.
const FIELDS: [(&str, usize); 8] = [
    ("rx_bytes", 0),
    ("rx_packets", 1),
    ("rx_errors", 2),
    ("rx_dropped", 3),
    ("tx_bytes", 8),
    ("tx_packets", 9),
    ("tx_errors", 10),
    ("tx_dropped", 11),
];

/// What is known of the text: the interfaces, in its order.
#[derive(Debug, Default)]
pub struct Interfaces {
    names: Vec<Vec<u8>>,
}

impl Parser for Interfaces {
    const ONE_RECORD: bool = false;
    const WHAT: &'static str = "net";

    fn learn(&mut self, text: &[u8], columns: &mut Columns) {
        self.names = rows(text).map(|(name, _)| name.to_owned()).collect();
        for name in &self.names {
            let prefix = format!("net/{}/", String::from_utf8_lossy(name));
            columns.counters(&prefix, &FIELDS.map(|(field, _)| field));
        }
    }

    fn parse(&self, text: &[u8], values: &mut [i64]) -> bool {
        values.fill(ABSENT);
        let mut slots = values.chunks_exact_mut(FIELDS.len());
        let mut names = self.names.iter();
        for (name, numbers) in rows(text) {
            let (Some(known), Some(slot)) = (names.next(), slots.next()) else {
                return false;
            };
            if known != name {
                return false;
            }
            for (place, word) in words(numbers).enumerate() {
                if let Some(field) = FIELDS.iter().position(|(_, at)| *at == place) {
                    slot[field] = number(word).unwrap_or(ABSENT);
                }
            }
        }
        names.next().is_none()
    }
}

/// Returns each interface and its numbers: there may be no blank after the colon, and an
/// alias has a colon in its name.
fn rows(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines(text).filter_map(|line| {
        let end = line.iter().rposition(|&byte| byte == b':')?;
        Some((words(&line[..end]).next()?, &line[end + 1..]))
    })
}

#[cfg(test)]
mod tests {
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
