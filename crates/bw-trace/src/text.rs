//! Lines and fields of text formats, as bytes: a valid line needs no string.
//!
//! Decision: numbers are parsed with integers, seconds with decimals too. A stamp like
//! 1455592200.123456789 has more digits than an `f64` holds: it would be off by up to 119 ns.
//! Digits after the ninth decimal are cut off.

use crate::entry::{DeviceNames, ParseError, Position, TraceEntry};
use crate::source::{Account, Timing, TraceSource};
use std::io::{self, BufRead, BufReader, Read};

/// The decompressed bytes of a trace.
pub(crate) type Bytes = BufReader<Box<dyn Read + Send>>;

/// Fills `bytes` as far as the stream has data; returns the number of bytes.
pub(crate) fn read_up_to(stream: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < bytes.len() {
        match stream.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// Maximum length of a line [bytes]: bounds the memory if a file has no line ends.
const LONGEST_LINE_BYTES: u64 = 64 * 1024;

/// The lines of a file, one at a time, in one reused buffer.
pub(crate) struct LineReader {
    stream: Bytes,
    buffer: Vec<u8>,
    number: u64,
    longest: u64,
}

impl LineReader {
    /// Returns the lines of `stream`.
    pub(crate) fn new(stream: Bytes) -> Self {
        Self {
            stream,
            buffer: Vec::with_capacity(256),
            number: 0,
            longest: LONGEST_LINE_BYTES,
        }
    }

    /// Returns it with lines of up to `longest` bytes.
    fn up_to(self, longest: u64) -> Self {
        Self { longest, ..self }
    }

    /// Returns the next line without its end, with its number from 1; None at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &[u8])>, ParseError> {
        self.buffer.clear();
        let length = (&mut self.stream)
            .take(self.longest)
            .read_until(b'\n', &mut self.buffer)
            .map_err(|error| ParseError::read(&error, Position::Text(self.number + 1, 1)))?;
        if length == 0 {
            return Ok(None);
        }
        self.number += 1;
        if length as u64 == self.longest && self.buffer.last() != Some(&b'\n') {
            self.pass_rest_of_line()?;
            let what = format!("the line is longer than {} KiB", self.longest >> 10);
            return Err(ParseError::column(length, what).on_line(self.number));
        }
        Ok(Some((self.number, without_end(&self.buffer))))
    }

    fn pass_rest_of_line(&mut self) -> Result<(), ParseError> {
        self.stream
            .skip_until(b'\n')
            .map(|_| ())
            .map_err(|error| ParseError::read(&error, Position::Text(self.number, 1)))
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The fields of one line.
pub(crate) struct FieldReader<'a> {
    line: &'a [u8],
    start: usize,
    separator: u8,
}

/// One field, without blanks around it.
#[derive(Clone, Copy)]
pub(crate) struct Field<'a> {
    /// Its bytes; never empty.
    pub bytes: &'a [u8],
    /// Its start in the line, from 0.
    pub column: usize,
    /// Its name, for messages.
    pub name: &'static str,
}

impl<'a> FieldReader<'a> {
    /// Returns the fields of `line` between `separator`s; a blank separates by runs of blanks and tabs.
    pub(crate) fn new(line: &'a [u8], separator: u8) -> Self {
        Self {
            line,
            start: 0,
            separator,
        }
    }

    /// Returns the next field, called `name` in messages.
    ///
    /// Errors: there is none, or it is empty.
    pub(crate) fn next(&mut self, name: &'static str) -> Result<Field<'a>, ParseError> {
        let column = self.start.min(self.line.len());
        self.optional(name)
            .ok_or_else(|| ParseError::column(column, format!("the {name} is missing")))
    }

    /// Returns the next field if it exists and is not empty, and moves past it.
    pub(crate) fn optional(&mut self, name: &'static str) -> Option<Field<'a>> {
        self.skip_blanks();
        let rest = self.line.get(self.start..)?;
        let blank = self.separator == b' ';
        let length = rest
            .iter()
            .position(|byte| *byte == self.separator || (blank && *byte == b'\t'))
            .unwrap_or(rest.len());
        let column = self.start;
        self.start += length + 1;
        let bytes = rest[..length].trim_ascii_end();
        (!bytes.is_empty()).then_some(Field {
            bytes,
            column,
            name,
        })
    }

    fn skip_blanks(&mut self) {
        while matches!(self.line.get(self.start), Some(b' ' | b'\t')) {
            self.start += 1;
        }
    }

    /// Returns everything after the last field, without blanks around it.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        self.skip_blanks();
        self.line.get(self.start..).unwrap_or(&[]).trim_ascii_end()
    }

    /// Checks that nothing is left.
    pub(crate) fn end(&mut self) -> Result<(), ParseError> {
        let rest = self.rest();
        if rest.is_empty() {
            return Ok(());
        }
        let shown = Escaped(&rest[..rest.len().min(40)]);
        let message = format!("text after the last field: {shown:?}");
        Err(ParseError::column(self.start, message))
    }
}

impl Field<'_> {
    /// Returns the error `what` of this field.
    pub(crate) fn fault(&self, what: &str) -> ParseError {
        let shown = &self.bytes[..self.bytes.len().min(40)];
        let text = format!("the {} {:?} {what}", self.name, Escaped(shown));
        ParseError::column(self.column, text)
    }

    /// Returns it as a whole number.
    pub(crate) fn number(&self) -> Result<u64, ParseError> {
        whole(self.bytes).map_err(|what| self.fault(what))
    }

    /// Returns the product of it, as a whole number, and `unit`.
    pub(crate) fn times(&self, unit: u64) -> Result<u64, ParseError> {
        self.number()?
            .checked_mul(unit)
            .ok_or_else(|| self.fault("is too large"))
    }

    /// Returns seconds with up to nine decimals as nanoseconds, exactly.
    pub(crate) fn seconds(&self) -> Result<u64, ParseError> {
        seconds_ns(self.bytes).map_err(|what| self.fault(what))
    }

    /// Returns the offset of an operation of `bytes` [bytes]: the field times `unit`.
    ///
    /// Errors: it ends beyond the largest file offset.
    pub(crate) fn offset(&self, unit: u64, bytes: u64) -> Result<u64, ParseError> {
        let offset = self.times(unit)?;
        match offset.checked_add(bytes) {
            Some(end) if end <= crate::entry::LARGEST_END_BYTES => Ok(offset),
            _ => Err(self.fault("lies beyond 8 EiB")),
        }
    }
}

/// Bytes as text between quotation marks, whatever they are.
struct Escaped<'a>(&'a [u8]);

impl std::fmt::Debug for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "'{}'", self.0.escape_ascii())
    }
}

fn whole(bytes: &[u8]) -> Result<u64, &'static str> {
    let mut value: u64 = 0;
    for byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(not_a_number(bytes));
        }
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(u64::from(digit)))
            .ok_or("is too large")?;
    }
    Ok(value)
}

fn not_a_number(bytes: &[u8]) -> &'static str {
    if bytes.first() == Some(&b'-') {
        "is negative"
    } else {
        "is not a number in decimal digits"
    }
}

fn seconds_ns(bytes: &[u8]) -> Result<u64, &'static str> {
    let point = bytes.iter().position(|byte| *byte == b'.');
    let (seconds, decimals) = match point {
        Some(point) => (&bytes[..point], &bytes[point + 1..]),
        None => (bytes, &bytes[..0]),
    };
    if seconds.is_empty() && decimals.is_empty() {
        return Err("is not a number in decimal digits");
    }
    let mut fraction = 0;
    for place in 0..9 {
        let digit = decimals
            .get(place)
            .map_or(0, |byte| byte.wrapping_sub(b'0'));
        fraction = fraction * 10 + u64::from(digit);
    }
    if !decimals.iter().all(u8::is_ascii_digit) {
        return Err(not_a_number(bytes));
    }
    whole(seconds)?
        .checked_mul(1_000_000_000)
        .and_then(|nanoseconds| nanoseconds.checked_add(fraction))
        .ok_or("is too large")
}

/// A format in which each operation is one line of its own.
pub(crate) trait LineFormat: Send {
    /// Maximum length of a line [bytes].
    const LONGEST_LINE_BYTES: u64 = LONGEST_LINE_BYTES;

    /// Returns the operation of `line`, which is not empty; None if the line is a heading.
    fn parse(
        &mut self,
        line: &[u8],
        devices: &mut DeviceNames,
    ) -> Result<Option<TraceEntry>, ParseError>;

    /// Returns notes for the user.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns what is known about its stamps beforehand.
    fn timing(&self) -> Timing {
        Timing::default()
    }
}

/// The operations of a text file.
pub(crate) struct TextSource<F> {
    lines: LineReader,
    format: F,
}

impl<F: LineFormat> TextSource<F> {
    /// Returns the operations of `stream`.
    pub(crate) fn new(stream: Bytes, format: F) -> Self {
        Self {
            lines: LineReader::new(stream).up_to(F::LONGEST_LINE_BYTES),
            format,
        }
    }
}

impl<F: LineFormat> TraceSource<TraceEntry> for TextSource<F> {
    fn next(&mut self, devices: &mut DeviceNames) -> Result<Option<TraceEntry>, ParseError> {
        while let Some((number, line)) = self.lines.next()? {
            if line.trim_ascii().is_empty() {
                continue;
            }
            match self.format.parse(line, devices) {
                Ok(Some(mut entry)) => {
                    entry.place = Position::Text(number, 1);
                    return Ok(Some(entry));
                }
                Ok(None) => {}
                Err(fault) => return Err(fault.on_line(number)),
            }
        }
        Ok(None)
    }

    fn timing(&self) -> Timing {
        self.format.timing()
    }

    fn account(&self) -> Account {
        Account {
            notes: self.format.notes(),
            ..Account::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoch_seconds_with_nine_decimals_are_exact() {
        assert_eq!(
            seconds_ns(b"1455592200.123456789"),
            Ok(1_455_592_200_123_456_789)
        );
        assert_eq!(seconds_ns(b".5"), Ok(500_000_000));
        assert_eq!(seconds_ns(b"7"), Ok(7_000_000_000));
        assert_eq!(seconds_ns(b"0.0000000019"), Ok(1));
    }

    #[test]
    fn numbers_that_are_none_are_refused() {
        for bad in [
            &b"."[..],
            b"1.x",
            b"1.1234567890x",
            b"x",
            b"-1",
            b"18446744074",
        ] {
            assert!(seconds_ns(bad).is_err(), "{bad:?}");
        }
        assert_eq!(whole(b"18446744073709551615"), Ok(u64::MAX));
        assert_eq!(whole(b"18446744073709551616"), Err("is too large"));
        assert_eq!(whole(b"-3"), Err("is negative"));
    }
}
