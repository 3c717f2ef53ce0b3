//! /proc/softirqs, each kind summed over processors. Source: proc_softirqs(5).

use crate::columns::{ABSENT, Columns, Kind, Parser};
use crate::text::{lines, number, words};

/// What is known of the text: the kinds, in its order.
#[derive(Debug, Default)]
pub struct SoftIrqs {
    kinds: Vec<Vec<u8>>,
}

impl Parser for SoftIrqs {
    const WHAT: &'static str = "softirq";

    fn learn(&mut self, text: &[u8], columns: &mut Columns) {
        self.kinds = rows(text).map(|(kind, _)| kind.to_owned()).collect();
        for kind in &self.kinds {
            let name = String::from_utf8_lossy(kind);
            columns.add(format!("softirq/{name}"), Kind::Counter);
        }
    }

    fn parse(&self, text: &[u8], values: &mut [i64]) -> bool {
        values.fill(ABSENT);
        let mut seen = 0;
        for (kind, counts) in rows(text) {
            if self.kinds.get(seen).map(Vec::as_slice) != Some(kind) {
                return false;
            }
            let counts = words(counts).filter_map(number);
            values[seen] = counts.fold(0, i64::saturating_add);
            seen += 1;
        }
        seen == self.kinds.len()
    }
}

/// Returns each kind and its counts; the heading has no colon.
fn rows(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines(text).filter_map(|line| {
        let end = line.iter().position(|&byte| byte == b':')?;
        Some((words(&line[..end]).next()?, &line[end + 1..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_summed_over_processors() {
        let text = b"      CPU0  CPU1\n  HI: 1 2\n NET_RX: 30 40\n";
        let mut kinds = SoftIrqs::default();
        let mut columns = Columns::default();
        kinds.learn(text, &mut columns);
        let mut values = [0; 2];
        assert!(kinds.parse(text, &mut values));
        assert_eq!(values, [3, 70]);
        assert_eq!(columns.named[1].0, "softirq/NET_RX");
        assert!(!kinds.parse(b" HI: 1\n", &mut values));
    }
}
