//! The formats of recorded HTTP requests: access logs, JSON lines, HAR.
//!
//! Decision: a line of an access log is recognised by its time and the quoted request behind it, whatever stands before
//! and after them, so that the formats `common`, `combined`, `vhost_combined` and most own ones are one. A request that
//! cannot be sent again (none, CONNECT) is no malformed line: servers log what anybody sends them. Sources:
//! `ngx_http_log_module` and `mod_log_config` (layout, escapes), RFC 3339 (times), the HAR 1.2 specification.

use crate::entry::{DeviceNames, ParseError, Position, RecordedResponse, TraceEntry};
use crate::error::TraceCode;
use crate::requests::{RecordedParts, SharedRequests, authority};
use crate::source::TraceSource;
use crate::text::{Bytes, LineFormat};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bw_model::Kind;
use serde::Deserialize;
use serde_json::Value;
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
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

impl CivilTime {
    /// Returns the seconds since 1970 in a zone this far east of UTC [s]; None before 1970, or if there is no such time.
    fn seconds(&self, east: i64) -> Option<u64> {
        let Self {
            year, month, day, ..
        } = *self;
        let fits = (1..=12).contains(&month) && (1..=31).contains(&day) && year >= 1;
        if !fits || self.hour > 23 || self.minute > 59 || self.second > 60 {
            return None;
        }
        // Days of the Gregorian calendar, with years that start in March.
        let (year, month) = if month > 2 {
            (year, month - 3)
        } else {
            (year - 1, month + 9)
        };
        let days =
            year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
        let since_1970 = i64::try_from(days).ok()? - 719_468;
        let of_day = i64::try_from(self.hour * 3600 + self.minute * 60 + self.second).ok()?;
        u64::try_from(since_1970 * 86_400 + of_day - east).ok()
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
        year: number(7, 11)?,
        month,
        day: digits(day, 2)?,
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
        year: number(0, 4)?,
        month: number(5, 7)?,
        day: number(8, 10)?,
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

/// Returns the time of a line, where it starts, and where what follows it starts: in brackets, or as seconds with decimals
/// before the request.
fn line_time(line: &[u8]) -> Option<(Stamp, usize, usize)> {
    let mut from = 0;
    while let Some(open) = memchr(b'[', line, from) {
        let close = memchr(b']', line, open)?;
        if let Some(stamp) = any_time(&line[open + 1..close]) {
            return Some((stamp, open, close + 1));
        }
        from = open + 1;
    }
    let quote = memchr(b'"', line, 0)?;
    let mut start = 0;
    for token in line[..quote].split(|byte| *byte == b' ') {
        let end = start + token.len();
        // Ten digits before the point: since 2001; an address or a duration is not one.
        if token.len() > 11
            && token[10] == b'.'
            && let Some(stamp) = epoch_time(token)
        {
            return Some((stamp, start, end));
        }
        start = end + 1;
    }
    None
}

fn memchr(wanted: u8, line: &[u8], from: usize) -> Option<usize> {
    let place = line[from..].iter().position(|byte| *byte == wanted)?;
    Some(from + place)
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

/// Returns method and target of a request line: `GET /path HTTP/1.1`; both empty if it is none.
fn request_line(line: &[u8]) -> (&[u8], &[u8]) {
    let none = (&b""[..], &b""[..]);
    let Some(first) = line.iter().position(|byte| *byte == b' ') else {
        return none;
    };
    let Some(last) = line.iter().rposition(|byte| *byte == b' ') else {
        return none;
    };
    if first == last || !line[last + 1..].starts_with(b"HTTP/") {
        return none;
    }
    (&line[..first], &line[first + 1..last])
}

/// Returns the response in what follows the request: its status, and the length of its body, `-` for none (Apache's `%b`).
fn logged_response(behind: &[u8]) -> RecordedResponse {
    let mut words = behind.trim_ascii().split(|byte| *byte == b' ');
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
        let missing = |what: &str| ParseError::column(0, format!("the {what} is missing"));
        let (stamp, start, behind) = line_time(line).ok_or_else(|| missing("time"))?;
        let quote = memchr(b'"', line, behind).ok_or_else(|| missing("request"))?;
        let (request, end) = quoted(line, quote).ok_or_else(|| {
            ParseError::column(quote, "the request has no closing quotation mark")
        })?;
        let (method, target) = request_line(&request);
        let response = logged_response(&line[end..]);
        let device = match virtual_host(&line[..start]) {
            Some(host) => devices.number(host, 0)?,
            None => 0,
        };
        let parts = RecordedParts {
            method: method.to_vec(),
            target: target.to_vec(),
            status: response.status,
            whole_second: stamp.is_whole_second(),
            ..RecordedParts::default()
        };
        let index = self.requests.lock().add(parts);
        let index = index.map_err(|what| ParseError::column(quote, what))?;
        Ok(index.map(|index| stamp.entry(index, response).on(device)))
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
        let target = match (request.path, request.url) {
            (Some(path), None) => path,
            (None, Some(url)) => url,
            (None, None) => return Err(wrong("the path or url is missing")),
            (Some(_), Some(_)) => return Err(wrong("it has a path and a url: leave one out")),
        };
        let body = match (request.body, request.body_base64) {
            (Some(_), Some(_)) => {
                return Err(wrong("it has a body and a body_base64: leave one out"));
            }
            (Some(text), None) => Some(text.into_bytes()),
            (None, Some(text)) => {
                let decoded = STANDARD.decode(text);
                Some(decoded.map_err(|error| wrong(&format!("body_base64: {error}")))?)
            }
            (None, None) => None,
        };
        let headers = json_headers(&request.headers.unwrap_or_default()).ok_or_else(|| {
            wrong("the headers are neither {\"name\": \"value\"} nor [[\"name\", \"value\"]]")
        })?;
        let status = match &request.status {
            Some(Value::String(text)) => digits(text.as_bytes(), 3),
            Some(value) => value.as_u64(),
            None => None,
        };
        let response = RecordedResponse {
            status: status.and_then(|status| u16::try_from(status).ok()),
            body_bytes: request.response_bytes,
        };
        let device = match authority(target.as_bytes()) {
            Some(host) => devices.number(host, 0)?,
            None => 0,
        };
        let parts = RecordedParts {
            method: request
                .method
                .unwrap_or_else(|| "GET".to_owned())
                .into_bytes(),
            target: target.into_bytes(),
            headers,
            body,
            status: response.status,
            whole_second: stamp.is_whole_second(),
            ..RecordedParts::default()
        };
        let index = self.requests.lock().add(parts);
        let index = index.map_err(|what| wrong(&what))?;
        Ok(index.map(|index| stamp.entry(index, response).on(device)))
    }
}

#[derive(Deserialize)]
struct HarFile {
    log: HarLog,
}

#[derive(Deserialize)]
struct HarLog {
    entries: Vec<HarEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HarEntry {
    started_date_time: String,
    request: HarRequest,
    response: Option<HarResponse>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HarRequest {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<HarPair>,
    post_data: Option<HarBody>,
}

#[derive(Deserialize)]
struct HarPair {
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HarBody {
    #[serde(default)]
    mime_type: String,
    #[serde(default)]
    params: Vec<HarParameter>,
    #[serde(default)]
    text: String,
}

/// A posted parameter; one of a file also has `fileName`, and only in `multipart/form-data`.
#[derive(Deserialize)]
struct HarParameter {
    name: String,
    value: Option<String>,
}

impl HarBody {
    /// Returns the bytes of the body; None if there is none. Parameters without a text are encoded as a form.
    ///
    /// Errors: they are those of another kind of body, of which bytes are missing: boundaries, the headers of its parts.
    fn bytes(&self) -> Result<Option<Vec<u8>>, ()> {
        const FORM: &str = "application/x-www-form-urlencoded";
        if !self.text.is_empty() {
            return Ok(Some(self.text.clone().into_bytes()));
        }
        let mime_type = self.mime_type.split(';').next().unwrap_or_default().trim();
        let is_form = mime_type.is_empty() || mime_type.eq_ignore_ascii_case(FORM);
        match (self.params.is_empty(), is_form) {
            (true, _) => Ok(None),
            (false, true) => Ok(Some(form(&self.params))),
            (false, false) => Err(()),
        }
    }
}

/// Returns parameters as `application/x-www-form-urlencoded`, in UTF-8. Source: URL Standard, section 5.2.
fn form(parameters: &[HarParameter]) -> Vec<u8> {
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
    for (place, parameter) in parameters.iter().enumerate() {
        if place > 0 {
            body.push(b'&');
        }
        put(&mut body, &parameter.name);
        body.push(b'=');
        put(&mut body, parameter.value.as_deref().unwrap_or_default());
    }
    body
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HarResponse {
    #[serde(default)]
    status: i64,
    /// Below zero: unknown.
    body_size: Option<f64>,
    content: Option<HarContent>,
}

#[derive(Deserialize)]
struct HarContent {
    /// Without a coding (gzip).
    size: Option<f64>,
    /// What the coding saved.
    compression: Option<f64>,
}

impl HarResponse {
    fn recorded(&self) -> RecordedResponse {
        let content = self.content.as_ref();
        let of_content = content.and_then(|content| {
            let size = content.size.filter(|size| *size >= 0.0)?;
            Some(size - content.compression.unwrap_or_default())
        });
        let size = self.body_size.filter(|size| *size >= 0.0).or(of_content);
        // Saturates, and a negative one was none.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let body_bytes = size.filter(|size| *size >= 0.0).map(|size| size as u64);
        RecordedResponse {
            // 0: there was no response.
            status: u16::try_from(self.status).ok().filter(|status| *status > 0),
            body_bytes,
        }
    }
}

/// The requests of an HTTP archive, which is read whole, without its responses.
pub(crate) struct Har {
    entries: std::vec::IntoIter<HarEntry>,
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
        let mut entries = file.log.entries;
        // Browsers sort by page. Times that are none come first, and are reported there.
        entries.sort_by_key(|entry| {
            iso_time(entry.started_date_time.as_bytes()).map_or(0, |stamp| stamp.at)
        });
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
        let wrong = |what: &str| ParseError {
            place: Position::Whole,
            code: TraceCode::TraceLine,
            ..ParseError::column(
                0,
                format!("the entry of {}: {what}", entry.started_date_time),
            )
        };
        let stamp = iso_time(entry.started_date_time.as_bytes());
        let stamp = stamp.ok_or_else(|| wrong("startedDateTime is no time"))?;
        let device = match authority(entry.request.url.as_bytes()) {
            Some(host) => devices.number(host, 0)?,
            None => 0,
        };
        let headers = entry.request.headers.into_iter();
        let mut headers: Vec<_> = headers.map(|field| (field.name, field.value)).collect();
        let body = entry.request.post_data.as_ref().map(HarBody::bytes);
        let has_lost_body = matches!(body, Some(Err(())));
        let body = body.and_then(Result::ok).flatten();
        let has_type = |(name, _): &(String, String)| name.eq_ignore_ascii_case("content-type");
        if let (Some(_), Some(posted)) = (&body, entry.request.post_data)
            && !posted.mime_type.is_empty()
            && !headers.iter().any(has_type)
        {
            headers.push(("Content-Type".to_owned(), posted.mime_type));
        }
        let response = entry.response.as_ref().map(HarResponse::recorded);
        let response = response.unwrap_or_default();
        let parts = RecordedParts {
            method: entry.request.method.into_bytes(),
            target: entry.request.url.into_bytes(),
            headers,
            body,
            has_lost_body,
            status: response.status,
            whole_second: stamp.is_whole_second(),
        };
        let index = self.requests.lock().add(parts);
        let index = index.map_err(|what| wrong(&what))?;
        Ok(index.map(|index| stamp.entry(index, response).on(device)))
    }
}

impl TraceSource<TraceEntry> for Har {
    fn next(&mut self, devices: &mut DeviceNames) -> Result<Option<TraceEntry>, ParseError> {
        while let Some(entry) = self.entries.next() {
            if let Some(found) = self.entry(entry, devices)? {
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
