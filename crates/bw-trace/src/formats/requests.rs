//! The formats of recorded HTTP requests: access logs, JSON lines, HAR.
//!
//! Decision: a line of an access log is recognised by its time and the request behind it, which is the first text between
//! quotation marks that is a request line, whatever else the line has: so the formats `common`, `combined`, `vhost_combined`
//! and most own ones are one. A request that cannot be sent again (none, CONNECT) is no malformed line: servers log what
//! anybody sends them. An archive is read entry by entry, because one with a member of an unexpected type says nothing
//! about the others; `null` is as if the member were absent. Sources: `ngx_http_log_module` and `mod_log_config` (layout,
//! escapes), RFC 3339 (times), the HAR 1.2 specification.

use crate::entry::{DeviceNames, ParseError, Position, RecordedResponse, TraceEntry};
use crate::requests::{RecordedBody, RecordedParts, SharedRequests, authority};
use crate::source::TraceSource;
use crate::text::{Bytes, LineFormat};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bw_model::{Date, Kind};
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;
use std::io::{BufRead, Read};

/// A second [ns].
const SECOND_NS: u64 = 1_000_000_000;

/// A recorded time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    /// Since 1970 [ns].
    at: u64,
    /// Its unit [ns].
    unit: u64,
}

impl Stamp {
    /// Returns the operation of a request at this time; its stamp may be spread over the unit.
    fn entry(self, index: u32, response: RecordedResponse) -> TraceEntry {
        TraceEntry {
            reach_ns: self.unit,
            response,
            ..TraceEntry::new(self.at, Kind::Exchange, u64::from(index), 0)
        }
    }

    fn is_whole_second(self) -> bool {
        self.unit == SECOND_NS
    }
}

/// Returns the decimals of a second as nanoseconds, and their unit.
fn fraction(decimals: &[u8]) -> Option<(u64, u64)> {
    if !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let (mut value, mut unit) = (0, SECOND_NS);
    for digit in decimals.iter().take(9) {
        unit /= 10;
        value += u64::from(digit - b'0') * unit;
    }
    Some((value, unit))
}

/// Returns a number of at most `digits` decimal digits.
fn digits(bytes: &[u8], most: usize) -> Option<u64> {
    let fits = (1..=most).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_digit);
    fits.then(|| {
        let add = |value: u64, digit: &u8| value * 10 + u64::from(digit - b'0');
        bytes.iter().fold(0, add)
    })
}

/// Seconds since 1970 with decimals: nginx' `$msec`.
fn epoch_time(text: &[u8]) -> Option<Stamp> {
    let point = text.iter().position(|byte| *byte == b'.');
    let (seconds, decimals) = text.split_at(point.unwrap_or(text.len()));
    let (part, unit) = fraction(decimals.get(1..).unwrap_or(&[]))?;
    // 11 digits reach the year 5138: more are not seconds.
    let at = digits(seconds, 11)?.checked_mul(SECOND_NS)?;
    Some(Stamp {
        at: at.checked_add(part)?,
        unit,
    })
}

/// The parts of a date and a time of the day.
struct CivilTime {
    date: Date,
    hour: u64,
    minute: u64,
    second: u64,
}

impl CivilTime {
    /// Returns the seconds since 1970 in a zone this far east of UTC [s]; None before 1970, or if there is no such time.
    fn seconds(&self, east: i64) -> Option<u64> {
        if self.hour > 23 || self.minute > 59 || self.second > 60 {
            return None;
        }
        let of_day = i64::try_from(self.hour * 3600 + self.minute * 60 + self.second).ok()?;
        let days = self.date.days_since_1970()?;
        u64::try_from(days * 86_400 + of_day - east).ok()
    }
}

/// Returns how far east of UTC a zone is [s]: `Z`, `+0100`, `+01:00`.
fn zone(text: &[u8]) -> Option<i64> {
    let (sign, hours, minutes) = match text {
        [b'Z' | b'z'] => return Some(0),
        [sign, hours @ .., b':', tens, ones] if hours.len() == 2 => (sign, hours, [*tens, *ones]),
        [sign, hours @ .., tens, ones] if hours.len() == 2 => (sign, hours, [*tens, *ones]),
        _ => return None,
    };
    let seconds = digits(hours, 2)? * 3600 + digits(&minutes, 2)? * 60;
    let seconds = i64::try_from(seconds).ok()?;
    match sign {
        b'+' => Some(seconds),
        b'-' => Some(-seconds),
        _ => None,
    }
}

/// Splits decimals and zone: what is behind the seconds.
fn decimals_and_zone(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let Some(decimals) = rest.strip_prefix(b".") else {
        return Some((&[], rest));
    };
    let end = decimals.iter().position(|byte| !byte.is_ascii_digit())?;
    Some(decimals.split_at(end))
}

const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// The time of access logs: `10/Oct/2000:13:55:36 -0700`, also with decimals of the second.
fn log_time(text: &[u8]) -> Option<Stamp> {
    let (date, rest) = text.split_at_checked(20)?;
    let [day @ .., b'/'] = &date[..3] else {
        return None;
    };
    let month = MONTHS.iter().position(|name| **name == date[3..6])? as u64 + 1;
    if [6, 11, 14, 17].map(|place| date[place]) != *b"/:::" {
        return None;
    }
    let number = |from: usize, to: usize| digits(&date[from..to], 4);
    let time = CivilTime {
        date: Date {
            year: number(7, 11)?,
            month,
            day: digits(day, 2)?,
        },
        hour: number(12, 14)?,
        minute: number(15, 17)?,
        second: number(18, 20)?,
    };
    stamp(&time, rest)
}

/// The time of RFC 3339: `2009-07-24T19:20:30.45+01:00`.
fn iso_time(text: &[u8]) -> Option<Stamp> {
    let (date, rest) = text.split_at_checked(19)?;
    let separators = [4, 7, 13, 16].map(|place| date[place]);
    if separators != *b"--::" || !b"Tt ".contains(&date[10]) {
        return None;
    }
    let number = |from: usize, to: usize| digits(&date[from..to], 4);
    let time = CivilTime {
        date: Date {
            year: number(0, 4)?,
            month: number(5, 7)?,
            day: number(8, 10)?,
        },
        hour: number(11, 13)?,
        minute: number(14, 16)?,
        second: number(17, 19)?,
    };
    stamp(&time, rest)
}

fn stamp(time: &CivilTime, rest: &[u8]) -> Option<Stamp> {
    let (decimals, east) = decimals_and_zone(rest)?;
    let (part, unit) = fraction(decimals)?;
    let seconds = time.seconds(zone(east.trim_ascii())?)?;
    let at = seconds.checked_mul(SECOND_NS)?.checked_add(part)?;
    Some(Stamp { at, unit })
}

fn any_time(text: &[u8]) -> Option<Stamp> {
    log_time(text)
        .or_else(|| iso_time(text))
        .or_else(|| epoch_time(text))
}

/// nginx and Apache.
pub(crate) struct AccessLog {
    requests: SharedRequests,
}

impl AccessLog {
    /// Returns the parser; its requests go into this table.
    pub(crate) fn new(requests: SharedRequests) -> Self {
        Self { requests }
    }
}

/// How far apart two times of one line may be [ns]: both are of the moment at which it was written.
const AGREEMENT_NS: u64 = 2 * SECOND_NS;

/// A time in a line.
struct LineTime {
    stamp: Stamp,
    /// Where the line's fields end that are before time and request.
    start: usize,
    /// Where the request is looked for.
    behind: usize,
}

/// Returns the time of a line: in brackets, or as seconds with decimals. Of times that agree, it is the finest.
fn line_time(line: &[u8]) -> Option<LineTime> {
    let numbers = epoch_numbers(line);
    let is_number = |open: usize| numbers.iter().any(|(_, place)| *place == open + 1);
    let bracketed = bracketed_time(line).filter(|(_, open, _)| !is_number(*open));
    if let Some((stamp, start, behind)) = bracketed {
        let agrees = |other: &Stamp| other.at.abs_diff(stamp.at) <= AGREEMENT_NS;
        let numbers = numbers.into_iter().map(|(number, _)| number);
        let times = std::iter::once(stamp).chain(numbers.filter(agrees));
        return Some(LineTime {
            stamp: times.min_by_key(|time| time.unit)?,
            start,
            behind,
        });
    }
    let (stamp, place) = *numbers.first()?;
    let quote = find(b'"', line, 0).unwrap_or(line.len());
    Some(LineTime {
        stamp,
        start: place.min(quote),
        behind: 0,
    })
}

/// Returns the first time in brackets, and where the brackets start and end.
fn bracketed_time(line: &[u8]) -> Option<(Stamp, usize, usize)> {
    let mut from = 0;
    while let Some(open) = find(b'[', line, from) {
        let close = find(b']', line, open)?;
        if let Some(stamp) = any_time(&line[open + 1..close]) {
            return Some((stamp, open, close + 1));
        }
        from = open + 1;
    }
    None
}

/// Returns a word that is seconds since 1970 with decimals, also with a name: `at=1700000000.123`.
fn epoch_number(word: &[u8]) -> Option<Stamp> {
    let is_name = |text: &[u8]| {
        text.iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte))
    };
    let value = match find(b'=', word, 0) {
        Some(equals) if is_name(&word[..equals]) => &word[equals + 1..],
        _ => word,
    };
    // Ten digits before the point: since 2001; an address or a duration is not one.
    let is_one = value.len() > 11 && value[10] == b'.';
    is_one.then(|| epoch_time(value)).flatten()
}

/// Returns the seconds since 1970 with decimals of a line, and where they start. A part of a quoted text is none: clients
/// choose the texts, and add such numbers to their requests.
fn epoch_numbers(line: &[u8]) -> Vec<(Stamp, usize)> {
    let is_start = |bytes: &[u8]| bytes[10] == b'.' && bytes[..10].iter().all(u8::is_ascii_digit);
    let mut found = Vec::new();
    if !line.windows(11).any(is_start) {
        return found;
    }
    let mut start = 0;
    let mut words = |from: usize, until: usize| {
        let mut start = from;
        for word in line[from..until].split(|byte| b" \t,;[]".contains(byte)) {
            found.extend(epoch_number(word).map(|stamp| (stamp, start)));
            start += word.len() + 1;
        }
    };
    for text in (QuotedTexts { line, place: 0 }) {
        words(start, text.open);
        start = text.end;
    }
    words(start, find(b'"', line, start).unwrap_or(line.len()));
    found
}

/// A text between quotation marks in a line.
struct QuotedText {
    /// The place of the first quotation mark.
    open: usize,
    /// The text without escapes.
    bytes: Vec<u8>,
    /// The place behind the second one.
    end: usize,
}

/// The texts between quotation marks of a line from a place on, until one has no end.
struct QuotedTexts<'a> {
    line: &'a [u8],
    place: usize,
}

impl Iterator for QuotedTexts<'_> {
    type Item = QuotedText;

    fn next(&mut self) -> Option<QuotedText> {
        let open = find(b'"', self.line, self.place)?;
        let (bytes, end) = quoted(self.line, open)?;
        self.place = end;
        Some(QuotedText { open, bytes, end })
    }
}

/// Returns where a byte is, from `from` on.
fn find(wanted: u8, line: &[u8], from: usize) -> Option<usize> {
    memchr::memchr(wanted, &line[from..]).map(|place| from + place)
}

/// Returns the text between the quotation marks at `from`, without escapes, and the place behind it.
fn quoted(line: &[u8], from: usize) -> Option<(Vec<u8>, usize)> {
    let mut text = Vec::new();
    let mut place = from + 1;
    loop {
        match *line.get(place)? {
            b'"' => return Some((text, place + 1)),
            b'\\' => {
                let (byte, length) = unescaped(line.get(place + 1..)?)?;
                text.push(byte);
                place += 1 + length;
            }
            byte => {
                text.push(byte);
                place += 1;
            }
        }
    }
}

/// Returns the byte of an escape behind its backslash, and the escape's length.
fn unescaped(escape: &[u8]) -> Option<(u8, usize)> {
    let hex = |digits: &[u8]| {
        let text = std::str::from_utf8(digits).ok()?;
        u8::from_str_radix(text, 16).ok()
    };
    Some(match *escape.first()? {
        b'x' => match escape.get(1..3).and_then(hex) {
            Some(byte) => (byte, 3),
            None => (b'\\', 0),
        },
        // `escape=json` of nginx.
        b'u' if escape.get(1..3) == Some(b"00") => match escape.get(3..5).and_then(hex) {
            Some(byte) => (byte, 5),
            None => (b'\\', 0),
        },
        b'b' => (8, 1),
        b't' => (b'\t', 1),
        b'n' => (b'\n', 1),
        b'v' => (11, 1),
        b'f' => (12, 1),
        b'r' => (b'\r', 1),
        byte @ (b'"' | b'\\' | b'/') => (byte, 1),
        _ => (b'\\', 0),
    })
}

/// Returns the virtual host of Apache's `vhost_combined`, `host:port address - user`.
fn virtual_host(before: &[u8]) -> Option<&[u8]> {
    let mut fields = before
        .split(|byte| *byte == b' ')
        .filter(|field| !field.is_empty());
    let host = fields.next()?;
    let _address = fields.next()?;
    let colon = host.iter().rposition(|byte| *byte == b':')?;
    let has_port = digits(&host[colon + 1..], 5).is_some();
    (fields.next()? == b"-" && fields.next().is_some() && has_port).then_some(host)
}

/// Returns method and target of a request line: `GET /path HTTP/1.1`; None if it is none.
fn request_line(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let first = line.iter().position(|byte| *byte == b' ')?;
    let last = line.iter().rposition(|byte| *byte == b' ')?;
    let is_request = first != last && line[last + 1..].starts_with(b"HTTP/");
    is_request.then(|| (&line[..first], &line[first + 1..last]))
}

/// Returns the request of a line behind its time: the first quoted text that is a request line, or else the first quoted
/// text, which the server logged in place of one.
fn logged_request(line: &[u8], behind: usize) -> Result<QuotedText, ParseError> {
    const REMEDY: &str = "log \"$request\" (nginx) or \"%r\" (Apache), with the quotation marks";
    let (mut first, mut place) = (None, behind);
    for text in (QuotedTexts { line, place }) {
        if request_line(&text.bytes).is_some() {
            return Ok(text);
        }
        if has_request(&line[place..text.open]) {
            break;
        }
        place = text.end;
        first.get_or_insert(text);
    }
    let rest = &line[place..];
    let unquoted = rest.split(|byte| *byte == b'"').next();
    let (column, message) = match first {
        _ if unquoted.is_some_and(has_request) => (
            place,
            "the request must be in quotation marks, as in \"GET / HTTP/1.1\"",
        ),
        Some(text) => return Ok(text),
        None => match find(b'"', line, behind) {
            Some(quote) => (quote, "the request has no closing quotation mark"),
            None => (behind, "the request in quotation marks is missing"),
        },
    };
    Err(ParseError {
        remedy: REMEDY.to_owned(),
        ..ParseError::column(column, message)
    })
}

/// Returns whether a text without quotation marks contains a request: `GET /path HTTP/1.1`.
fn has_request(text: &[u8]) -> bool {
    let words: Vec<_> = text
        .split(|byte| *byte == b' ')
        .filter(|word| !word.is_empty())
        .collect();
    let is_request = |words: &[&[u8]]| {
        words[0].iter().all(u8::is_ascii_uppercase) && words[2].starts_with(b"HTTP/")
    };
    words.windows(3).any(is_request)
}

/// Returns the response in what follows the request: its status, and the length of its body, `-` for none (Apache's `%b`).
fn logged_response(behind: &[u8]) -> RecordedResponse {
    let words = behind.trim_ascii().split(|byte| *byte == b' ');
    let mut words = words.skip_while(|word| epoch_number(word).is_some());
    let status = words.next().and_then(|word| digits(word, 3));
    let bytes = words.next().filter(|_| status.is_some());
    RecordedResponse {
        status: status.and_then(|status| u16::try_from(status).ok()),
        body_bytes: bytes.and_then(|word| match word {
            b"-" => Some(0),
            word => digits(word, 15),
        }),
    }
}

impl LineFormat for AccessLog {
    fn parse(
        &mut self,
        line: &[u8],
        devices: &mut DeviceNames,
    ) -> Result<Option<TraceEntry>, ParseError> {
        let time = line_time(line);
        let time = time.ok_or_else(|| ParseError::column(0, "the time is missing"))?;
        let LineTime {
            stamp,
            start,
            behind,
        } = time;
        let request = logged_request(line, behind)?;
        let (method, target) = request_line(&request.bytes).unwrap_or_default();
        let response = logged_response(&line[request.end..]);
        let parts = RecordedParts {
            method: method.to_vec(),
            target: target.to_vec(),
            status: response.status,
            whole_second: stamp.is_whole_second(),
            ..RecordedParts::default()
        };
        let index = self.requests.lock().add(parts);
        let index = index.map_err(|what| ParseError::column(request.open, what))?;
        let Some(index) = index else {
            return Ok(None);
        };
        // An absolute target overrides the host that the server logged (RFC 9112, 3.2.2).
        let host = authority(target).or_else(|| virtual_host(&line[..start]));
        Ok(Some(stamp.entry(index, response).on(devices.host(host)?)))
    }
}

/// One request as a JSON object; other members have no meaning.
#[derive(Deserialize)]
struct JsonRequest {
    time: Value,
    method: Option<String>,
    path: Option<String>,
    url: Option<String>,
    headers: Option<Value>,
    body: Option<String>,
    body_base64: Option<String>,
    status: Option<Value>,
    response_bytes: Option<u64>,
}

/// A number of seconds as a stamp: an integer, or rounded to microseconds, which is what a float of today's times holds.
fn number_time(number: &serde_json::Number) -> Option<Stamp> {
    if let Some(whole) = number.as_u64() {
        return epoch_time(whole.to_string().as_bytes());
    }
    let text = format!("{:.6}", number.as_f64()?);
    let stamp = epoch_time(text.as_bytes())?;
    let unit = if stamp.at % 1_000_000 == 0 {
        1_000_000
    } else {
        1000
    };
    Some(Stamp { unit, ..stamp })
}

/// Returns the fields of `{"name": "value"}`, `{"name": ["value"]}` or `[["name", "value"]]`.
fn json_headers(headers: &Value) -> Option<Vec<(String, String)>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut found = Vec::new();
    match headers {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::Array(values) => {
                        for value in values {
                            found.push((name.clone(), text(value)?));
                        }
                    }
                    value => found.push((name.clone(), text(value)?)),
                }
            }
        }
        Value::Array(pairs) => {
            for pair in pairs {
                let [name, value] = pair.as_array()?.as_slice() else {
                    return None;
                };
                found.push((text(name)?, text(value)?));
            }
        }
        _ => return None,
    }
    Some(found)
}

/// JSON lines.
pub(crate) struct JsonLines {
    requests: SharedRequests,
}

impl JsonLines {
    /// Returns the parser; its requests go into this table.
    pub(crate) fn new(requests: SharedRequests) -> Self {
        Self { requests }
    }
}

impl LineFormat for JsonLines {
    /// A body is a part of its line.
    const LONGEST_LINE_BYTES: u64 = 16 << 20;

    fn parse(
        &mut self,
        line: &[u8],
        devices: &mut DeviceNames,
    ) -> Result<Option<TraceEntry>, ParseError> {
        let wrong = |what: &str| ParseError::column(0, what);
        let request: JsonRequest = serde_json::from_slice(line).map_err(|error| {
            let column = error.column().saturating_sub(1);
            ParseError::column(column, format!("no request as JSON: {error}"))
        })?;
        let stamp = match &request.time {
            Value::Number(number) => number_time(number),
            Value::String(text) => any_time(text.trim().as_bytes()),
            _ => None,
        };
        let stamp = stamp.ok_or_else(|| {
            wrong("the time is neither seconds since 1970 nor a time as 2026-01-31T12:00:00.5Z")
        })?;
        let url = match (request.path, request.url) {
            (Some(path), None) => path,
            (None, Some(url)) => url,
            (None, None) => return Err(wrong("the path or url is missing")),
            (Some(_), Some(_)) => return Err(wrong("it has a path and a url: leave one out")),
        };
        let headers = json_headers(&request.headers.unwrap_or_default()).ok_or_else(|| {
            wrong("the headers are neither {\"name\": \"value\"} nor [[\"name\", \"value\"]]")
        })?;
        let stated = StatedLengths::new(&headers, None);
        let body = match (request.body, request.body_base64) {
            (Some(_), Some(_)) => {
                return Err(wrong("it has a body and a body_base64: leave one out"));
            }
            (Some(text), None) => Some(stated.body(&text)),
            (None, Some(text)) => {
                let body = decoded(&text, &stated);
                Some(body.map_err(|error| wrong(&format!("body_base64: {error}")))?)
            }
            (None, None) => None,
        };
        let status = match &request.status {
            Some(Value::String(text)) => digits(text.as_bytes(), 3),
            Some(value) => value.as_u64(),
            None => None,
        };
        let response = RecordedResponse {
            status: status.and_then(|status| u16::try_from(status).ok()),
            body_bytes: request.response_bytes,
        };
        let parts = RecordedParts {
            method: request
                .method
                .unwrap_or_else(|| "GET".to_owned())
                .into_bytes(),
            target: url.clone().into_bytes(),
            headers,
            body,
            status: response.status,
            whole_second: stamp.is_whole_second(),
            ..RecordedParts::default()
        };
        let index = self.requests.lock().add(parts);
        let index = index.map_err(|what| wrong(&what))?;
        let Some(index) = index else {
            return Ok(None);
        };
        let host = authority(url.as_bytes());
        Ok(Some(stamp.entry(index, response).on(devices.host(host)?)))
    }
}

#[derive(Deserialize)]
#[serde(expecting = "an object with `log`")]
struct HarFile {
    log: HarLog,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with `entries`")]
struct HarLog {
    entries: HarEntries,
}

/// The entries of an archive, each with what it has that cannot be read.
struct HarEntries(Vec<Result<HarEntry, ParseError>>);

impl<'de> Deserialize<'de> for HarEntries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = HarEntries;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("an array of entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<HarEntries, A::Error> {
        let mut entries = Vec::new();
        // One at a time: responses may have large bodies.
        while let Some(value) = array.next_element::<Value>()? {
            let entry = Member {
                name: format!("entry {}", entries.len() + 1),
                value: &value,
            };
            entries.push(HarEntry::read(&entry).map_err(wrong_entry));
        }
        Ok(HarEntries(entries))
    }
}
/// Returns the error of an entry, whose line is unknown.
fn wrong_entry(what: String) -> ParseError {
    ParseError {
        place: Position::Whole,
        remedy: "correct the entry, or skip such entries with --lenient".to_owned(),
        ..ParseError::column(0, what)
    }
}

/// A member of an entry that is not null.
struct Member<'a> {
    /// Its place, for messages: `entry 3 request.headers`.
    name: String,
    value: &'a Value,
}

impl<'a> Member<'a> {
    fn is_not(&self, what: &str) -> String {
        format!("{} is not {what}", self.name)
    }

    /// Returns a member of this one; None if it is absent or null.
    fn get(&self, key: &str) -> Result<Option<Self>, String> {
        let object = self.value.as_object();
        let members = object.ok_or_else(|| self.is_not("an object"))?;
        let separator = if self.name.contains(' ') { '.' } else { ' ' };
        let value = members.get(key).filter(|value| !value.is_null());
        Ok(value.map(|value| Self {
            name: format!("{}{separator}{key}", self.name),
            value,
        }))
    }

    fn required(&self, key: &str) -> Result<Self, String> {
        let missing = || format!("{} has no {key}", self.name);
        self.get(key)?.ok_or_else(missing)
    }

    /// Returns a member that is a text; None if it is absent.
    fn text(&self, key: &str) -> Result<Option<&'a str>, String> {
        let text = |member: Self| member.value.as_str().ok_or_else(|| member.is_not("a text"));
        self.get(key)?.map(text).transpose()
    }

    fn required_text(&self, key: &str) -> Result<&'a str, String> {
        let missing = || format!("{} has no {key}", self.name);
        self.text(key)?.ok_or_else(missing)
    }

    /// Returns a member that is a number; None if it is absent.
    fn number(&self, key: &str) -> Result<Option<f64>, String> {
        let number = |member: Self| {
            let number = member.value.as_f64();
            number.ok_or_else(|| member.is_not("a number"))
        };
        self.get(key)?.map(number).transpose()
    }

    /// Returns what `read` returns of the elements of a member that is an array; nothing if it is absent.
    fn each<T>(
        &self,
        key: &str,
        read: impl Fn(&Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let Some(member) = self.get(key)? else {
            return Ok(Vec::new());
        };
        let array = member.value.as_array();
        let elements = array.ok_or_else(|| member.is_not("an array"))?;
        let element = |(place, value): (usize, &'a Value)| {
            let name = format!("{}[{place}]", member.name);
            read(&Self { name, value })
        };
        let elements = elements.iter().enumerate();
        let there = elements.filter(|(_, value)| !value.is_null());
        there.map(element).collect()
    }

    /// Returns the names and values of the pairs of a member.
    fn pairs(&self, key: &str) -> Result<Vec<(String, String)>, String> {
        self.each(key, |pair| {
            let value = pair.text("value")?.unwrap_or_default();
            Ok((pair.required_text("name")?.to_owned(), value.to_owned()))
        })
    }
}

/// A request of an archive.
struct HarEntry {
    stamp: Stamp,
    parts: RecordedParts,
    response: RecordedResponse,
}

impl HarEntry {
    /// Returns the request of an entry.
    ///
    /// Errors: what of it cannot be read.
    fn read(entry: &Member<'_>) -> Result<Self, String> {
        let at = entry.required_text("startedDateTime")?;
        let stamp = iso_time(at.as_bytes());
        let stamp =
            stamp.ok_or_else(|| format!("{}: startedDateTime {at:?} is no time", entry.name))?;
        let request = entry.required("request")?;
        let mut headers = request.pairs("headers")?;
        let mut body = Ok(None);
        if let Some(posted) = request.get("postData")? {
            // A size of zero beside a text is none that anybody measured.
            let size = request.number("bodySize")?.filter(|size| *size > 0.0);
            // Saturates.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let stated = StatedLengths::new(&headers, size.map(|size| size as u64));
            body = posted_body(&posted, &stated)?;
            let mime_type = posted.text("mimeType")?.unwrap_or_default();
            let has_type = |(name, _): &(String, String)| name.eq_ignore_ascii_case("content-type");
            if matches!(body, Ok(Some(_))) && !mime_type.is_empty() && !headers.iter().any(has_type)
            {
                headers.push(("Content-Type".to_owned(), mime_type.to_owned()));
            }
        }
        let response = entry.get("response")?;
        let response = response.as_ref().map(recorded_response).transpose()?;
        let response = response.unwrap_or_default();
        let parts = RecordedParts {
            method: request.required_text("method")?.into(),
            target: request.required_text("url")?.into(),
            headers,
            has_lost_body: body.is_err(),
            body: body.unwrap_or_default(),
            status: response.status,
            whole_second: stamp.is_whole_second(),
        };
        Ok(Self {
            stamp,
            parts,
            response,
        })
    }
}

/// The lengths of a request's body that a trace states [bytes].
struct StatedLengths(Vec<u64>);

impl StatedLengths {
    /// Returns those of a header Content-Length and of a member.
    fn new(headers: &[(String, String)], member: Option<u64>) -> Self {
        let named = headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let of_header = named.filter_map(|(_, value)| value.trim().parse().ok());
        Self(of_header.chain(member).collect())
    }

    fn agree(&self, bytes: &[u8]) -> bool {
        self.0.is_empty() || self.0.contains(&(bytes.len() as u64))
    }

    /// Returns the body of this text: in UTF-8, or in Latin-1 if only these bytes have a stated length.
    fn body(&self, text: &str) -> RecordedBody {
        let utf8 = RecordedBody::new(text.into(), self);
        if !utf8.has_other_length {
            return utf8;
        }
        let latin1: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
        match latin1 {
            Ok(bytes) if self.agree(&bytes) => RecordedBody::new(bytes, self),
            _ => utf8,
        }
    }
}

impl RecordedBody {
    fn new(bytes: Vec<u8>, stated: &StatedLengths) -> Self {
        Self {
            has_other_length: !stated.agree(&bytes),
            bytes,
        }
    }
}

/// Returns the bytes of a text in base64.
fn decoded(text: &str, stated: &StatedLengths) -> Result<RecordedBody, String> {
    let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
    Ok(RecordedBody::new(bytes, stated))
}

/// A body that is described, but not recorded.
struct LostBody;

/// Returns a body; None if there is none. Parameters without a text are encoded as a form: of another kind of body, bytes
/// are missing (boundaries, the headers of its parts).
#[allow(clippy::type_complexity)]
fn posted_body(
    posted: &Member<'_>,
    stated: &StatedLengths,
) -> Result<Result<Option<RecordedBody>, LostBody>, String> {
    const FORM: &str = "application/x-www-form-urlencoded";
    // One of a file also has `fileName`, and is only in `multipart/form-data`.
    let parameters = posted.pairs("params")?;
    if let Some(text) = posted.text("text")?.filter(|text| !text.is_empty()) {
        // Of `content` in HAR 1.2; some programs write it here.
        let encoding = posted.text("encoding")?.unwrap_or_default();
        let body = if encoding.eq_ignore_ascii_case("base64") {
            decoded(text, stated).map_err(|error| format!("{}.text: {error}", posted.name))?
        } else {
            stated.body(text)
        };
        return Ok(Ok(Some(body)));
    }
    let mime_type = posted.text("mimeType")?.unwrap_or_default();
    let mime_type = mime_type.split(';').next().unwrap_or_default().trim();
    let is_form = mime_type.is_empty() || mime_type.eq_ignore_ascii_case(FORM);
    Ok(match (parameters.is_empty(), is_form) {
        (true, _) => Ok(None),
        (false, true) => Ok(Some(RecordedBody::new(form(&parameters), stated))),
        (false, false) => Err(LostBody),
    })
}

/// Returns parameters as `application/x-www-form-urlencoded`, in UTF-8. Source: URL Standard, section 5.2.
fn form(parameters: &[(String, String)]) -> Vec<u8> {
    let mut body = Vec::new();
    let put = |body: &mut Vec<u8>, text: &str| {
        for byte in text.bytes() {
            match byte {
                b' ' => body.push(b'+'),
                b'*' | b'-' | b'.' | b'_' => body.push(byte),
                byte if byte.is_ascii_alphanumeric() => body.push(byte),
                byte => body.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            }
        }
    };
    for (place, (name, value)) in parameters.iter().enumerate() {
        if place > 0 {
            body.push(b'&');
        }
        put(&mut body, name);
        body.push(b'=');
        put(&mut body, value);
    }
    body
}

/// Returns what an archive has of a response; a size below zero is unknown.
fn recorded_response(response: &Member<'_>) -> Result<RecordedResponse, String> {
    let content = response.get("content")?;
    let of_content = match &content {
        // What the coding (gzip) saved is not in the body.
        Some(content) => content
            .number("size")?
            .filter(|size| *size >= 0.0)
            .zip(Some(content.number("compression")?.unwrap_or_default()))
            .map(|(size, saved)| size - saved),
        None => None,
    };
    let size = response.number("bodySize")?.filter(|size| *size >= 0.0);
    let size = size.or(of_content).filter(|size| *size >= 0.0);
    // 0 and below: there was no response.
    let status = response.number("status")?.filter(|status| *status >= 1.0);
    // Both saturate.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok(RecordedResponse {
        status: status.map(|status| status as u16),
        body_bytes: size.map(|size| size as u64),
    })
}

/// The requests of an HTTP archive, which is read whole, without its responses.
pub(crate) struct Har {
    entries: std::vec::IntoIter<Result<HarEntry, ParseError>>,
    requests: SharedRequests,
}

/// What an UTF-8 file of some systems starts with.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Returns whether a file that starts like this is an HTTP archive: an object whose first member is `log`.
pub(crate) fn is_har(head: &[u8]) -> bool {
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    let inside = head.trim_ascii_start().strip_prefix(b"{");
    inside.is_some_and(|inside| inside.trim_ascii_start().starts_with(b"\"log\""))
}

impl Har {
    /// Returns the requests of `stream`; they go into this table.
    ///
    /// Errors: it is no HTTP archive, or cut short.
    pub(crate) fn new(mut stream: Bytes, requests: SharedRequests) -> Result<Self, ParseError> {
        let failed = |error: &std::io::Error| ParseError::read(error, Position::Text(1, 1));
        let start = stream.fill_buf().map_err(|error| failed(&error))?;
        if start.starts_with(BYTE_ORDER_MARK) {
            stream.consume(BYTE_ORDER_MARK.len());
        }
        let file: HarFile = serde_json::from_reader(stream.by_ref()).map_err(|error| {
            let place = Position::Text(error.line() as u64, error.column().max(1) as u64);
            let message = format!("it is no HTTP archive, or cut short: {error}");
            let mut fault = ParseError::column(0, message);
            fault.place = place;
            fault.fatal("record it again, or save it with another program")
        })?;
        let HarEntries(mut entries) = file.log.entries;
        // Browsers sort by page. What cannot be read comes first, and is reported there.
        entries.sort_by_key(|entry| entry.as_ref().map_or(0, |entry| entry.stamp.at));
        Ok(Self {
            entries: entries.into_iter(),
            requests,
        })
    }

    fn entry(
        &self,
        entry: HarEntry,
        devices: &mut DeviceNames,
    ) -> Result<Option<TraceEntry>, ParseError> {
        let HarEntry {
            stamp,
            parts,
            response,
        } = entry;
        let shown = String::from_utf8_lossy(&parts.target).into_owned();
        let index = self.requests.lock().add(parts);
        let index = index.map_err(|what| wrong_entry(format!("the entry of {shown}: {what}")))?;
        let Some(index) = index else {
            return Ok(None);
        };
        let host = authority(shown.as_bytes());
        Ok(Some(stamp.entry(index, response).on(devices.host(host)?)))
    }
}

impl TraceSource<TraceEntry> for Har {
    fn next(&mut self, devices: &mut DeviceNames) -> Result<Option<TraceEntry>, ParseError> {
        while let Some(entry) = self.entries.next() {
            if let Some(found) = self.entry(entry?, devices)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(stamp: Option<Stamp>) -> Option<(u64, u64)> {
        stamp.map(|stamp| (stamp.at, stamp.unit))
    }

    #[test]
    fn times_of_logs_archives_and_msec_are_exact() {
        let second = SECOND_NS;
        assert_eq!(
            at(log_time(b"10/Oct/2000:13:55:36 -0700")),
            Some((971_211_336 * second, second))
        );
        assert_eq!(
            at(log_time(b"01/Jan/1970:00:00:00.250 +0000")),
            Some((250_000_000, 1_000_000))
        );
        assert_eq!(
            at(iso_time(b"2009-07-24T19:20:30.45+01:00")),
            Some((1_248_459_630 * second + 450_000_000, 10_000_000))
        );
        assert_eq!(
            at(iso_time(b"2024-02-29T23:59:60Z")),
            Some((1_709_251_200 * second, second))
        );
        assert_eq!(
            at(epoch_time(b"1700000000.123")),
            Some((1_700_000_000_123_000_000, 1_000_000))
        );
    }

    #[test]
    fn times_that_are_none_are_refused() {
        for bad in [
            &b""[..],
            b"10/Oct/2000:13:55:36",
            b"10/Okt/2000:13:55:36 +0000",
            b"10/Oct/2000:24:55:36 +0000",
            b"10/Oct/1960:13:55:36 +0000",
            b"2009-07-24T19:20:30.45",
            b"2009-13-24T19:20:30Z",
            b"1700000000123",
            b"error",
        ] {
            assert_eq!(any_time(bad), None, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn escapes_of_nginx_and_apache_are_decoded() {
        let text = |line: &[u8]| quoted(line, 0).map(|(text, end)| (text, end == line.len()));
        assert_eq!(
            text(b"\"a\\x22\\xE4\\\"\\\\\""),
            Some((b"a\"\xe4\"\\".to_vec(), true))
        );
        assert_eq!(
            text(b"\"\\u0022\\t\\q\\x2\""),
            Some((b"\"\t\\q\\x2".to_vec(), true))
        );
        assert_eq!(text(b"\"open \\\""), None);
    }

    #[test]
    fn the_request_is_the_first_quoted_text_that_is_one() {
        let found = |behind: &[u8]| {
            let text = logged_request(behind, 0).ok()?;
            let (method, target) = request_line(&text.bytes).unwrap_or_default();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            Some((text(method), text(target)))
        };
        let get = Some(("GET".to_owned(), "/a".to_owned()));
        for line in [
            &b" \"GET /a HTTP/1.1\" 200 5 \"-\" \"agent\""[..],
            b" \"h.example\" \"GET /a HTTP/1.1\" 200",
            b" 200 \"h.example:80\" \"-\" 5 \"GET /a HTTP/2.0\"",
            b" \"GET /a HTTP/1.1\" \"GET /b HTTP/1.1\"",
            b" \"GET /a HTTP/1.1\" \"cut sho",
        ] {
            assert_eq!(found(line), get, "{}", line.escape_ascii());
        }
        let none = Some((String::new(), String::new()));
        for line in [
            &b" \"-\" 408 0 \"-\" \"-\""[..],
            b" \"\\x16\\x03\" 400 0",
            b" \"GET /\" 400 0",
        ] {
            assert_eq!(found(line), none, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn a_request_without_quotation_marks_is_refused_with_a_fitting_remedy() {
        for line in [
            &b" GET /a HTTP/1.1 200 5"[..],
            b" GET /a HTTP/1.1 200 5 \"-\" \"agent\"",
            b" \"h.example\" GET /a HTTP/1.1 200 5 \"-\"",
            b" h.example 0.001 POST /a HTTP/1.1 200",
        ] {
            let error = logged_request(line, 0).err().unwrap();
            assert!(
                error.message.contains("must be in quotation marks"),
                "{error:?}"
            );
            assert!(error.remedy.contains("$request"), "{error:?}");
        }
    }

    #[test]
    fn the_host_of_vhost_combined_is_recognised_alone() {
        assert_eq!(
            virtual_host(b"a.org:443 10.0.0.1 - me "),
            Some(&b"a.org:443"[..])
        );
        for plain in [&b"10.0.0.1 - me "[..], b"::1 - - ", b"10.0.0.1 - me too "] {
            assert_eq!(virtual_host(plain), None);
        }
    }
}
