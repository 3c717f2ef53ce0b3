//! Small files: /proc/sys/fs/file-nr.

use crate::columns::{ABSENT, Columns, Kind, Parser};
use crate::text::{lines, number, words};

/// Open files of the machine and their limit: the first and the third word.
#[derive(Debug, Default)]
pub struct FileTable;

impl Parser for FileTable {
    const WHAT: &'static str = "files";

    fn learn(&mut self, _text: &[u8], columns: &mut Columns) {
        columns.add("files/open", Kind::Gauge);
        columns.add("files/limit", Kind::Gauge);
    }

    fn parse(&self, text: &[u8], values: &mut [i64]) -> bool {
        let mut found = lines(text).next().into_iter().flat_map(words).map(number);
        values[0] = found.next().flatten().unwrap_or(ABSENT);
        values[1] = found.nth(1).flatten().unwrap_or(ABSENT);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_word_is_passed_over() {
        let mut values = [0; 2];
        assert!(FileTable.parse(b"1024\t0\t9223372036854775807\n", &mut values));
        assert_eq!(values, [1024, i64::MAX]);
        assert!(FileTable.parse(b"", &mut values));
        assert_eq!(values, [ABSENT; 2]);
    }
}
