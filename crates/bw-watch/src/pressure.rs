//! /proc/pressure: time in which some, or all, tasks waited for a resource [us].
//! `cpu` has no `full` before 5.13. Source: the kernel's accounting/psi.

use crate::columns::{ABSENT, Columns, Kind, Parser};
use crate::text::{lines, number, words};

/// One resource: `cpu`, `memory` or `io`.
#[derive(Debug)]
pub struct Pressure {
    resource: &'static str,
    places: [Option<usize>; 2],
}

impl Pressure {
    /// Takes the file's name.
    pub fn new(resource: &'static str) -> Self {
        Self {
            resource,
            places: [None; 2],
        }
    }
}

impl Parser for Pressure {
    const WHAT: &'static str = "pressure";

    fn learn(&mut self, text: &[u8], columns: &mut Columns) {
        let mut count = 0;
        for (place, kind) in self.places.iter_mut().zip(["some", "full"]) {
            *place = total(text, kind).map(|_| count);
            if place.is_some() {
                columns.add(format!("pressure/{}/{kind}", self.resource), Kind::Counter);
                count += 1;
            }
        }
    }

    fn parse(&self, text: &[u8], values: &mut [i64]) -> bool {
        for (place, kind) in self.places.iter().zip(["some", "full"]) {
            if let Some(place) = place {
                values[*place] = total(text, kind).unwrap_or(ABSENT);
            }
        }
        true
    }
}

fn total(text: &[u8], kind: &str) -> Option<i64> {
    let line = lines(text).find(|line| line.starts_with(kind.as_bytes()))?;
    words(line).find_map(|word| number(word.strip_prefix(b"total=")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_may_be_missing() {
        let text = b"some avg10=0.00 avg60=1.50 avg300=2.00 total=123\n";
        let mut pressure = Pressure::new("cpu");
        let mut columns = Columns::default();
        pressure.learn(text, &mut columns);
        assert_eq!(columns.named.len(), 1);
        let mut values = [0];
        assert!(pressure.parse(text, &mut values));
        assert_eq!(values, [123]);
    }
}
