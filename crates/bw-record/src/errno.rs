//! Results of failed operations, and their names.
//!
//! A negative result is a negative errno, `-(10000 + status)` for an HTTP response with an error status, `-10001` to
//! `-10008` for a code of NFS that no errno expresses (statuses of HTTP begin at 100), `-(30000 + place)` for an error
//! reply of Redis, where `place` is that of the reply's first word in a table, `-(1000000 + code)` for a SQLSTATE, whose
//! five characters are digits of base 36, `-(50000 + code)` and `-(60000 + status)` of WebSocket, [`CHECK_FAILED`], or
//! [`STREAM_CUT`] to [`WEBSOCKET_ERROR`]. Decision: the numbers of Linux on x86-64 and AArch64, as a table; asking
//! the C library would make this crate impure, and a record from another machine
//! must read the same. Source: include/uapi/asm-generic/errno-base.h and errno.h.

/// Added to an HTTP status, and negated, to give the `result` of an operation.
pub const HTTP_STATUS: i32 = 10_000;

/// The `result` of an operation whose response was not what the user expects of it.
pub const CHECK_FAILED: i32 = -20_000;

/// The `result` of a stream whose answer ended without its end mark.
pub const STREAM_CUT: i32 = -20_001;
/// The `result` of a stream that reported an error in one of its events.
pub const STREAM_ERROR: i32 = -20_002;
/// The `result` of a stream without a content event for longer than the limit of its gaps.
pub const STREAM_STALLED: i32 = -20_003;
/// The `result` of an operation whose server ended the connection, or the stream, after a part of the response.
pub const RESPONSE_CUT: i32 = -20_004;
/// The `result` of a stream whose body has a content coding: its bytes are no events.
pub const STREAM_ENCODED: i32 = -20_005;
/// The `result` of an operation whose server does not follow the rules of WebSocket.
pub const WEBSOCKET_ERROR: i32 = -20_006;
/// The names of these, in this order.
const OWN_NAMES: [&str; 6] = [
    "stream cut",
    "stream error",
    "stream stalled",
    "response cut",
    "stream encoded",
    "websocket protocol error",
];

/// Added to a status of gRPC other than OK, and negated, to give the `result` of an operation.
const GRPC: i32 = 40_000;

/// The statuses of gRPC by number. Source: google/rpc/code.proto.
const GRPC_NAMES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Returns the result of a call that ended with this status, which is not OK; one that gRPC does not define is UNKNOWN.
#[must_use]
pub fn grpc_error(status: u32) -> i32 {
    const UNKNOWN: i32 = 2;
    let number = i32::try_from(status).unwrap_or(UNKNOWN);
    let is_defined = (status as usize) < GRPC_NAMES.len();
    -(GRPC + if is_defined { number } else { UNKNOWN })
}

/// Added to the code of a close frame of WebSocket, and negated, to give the `result` of the operations that it ended.
const WEBSOCKET_CLOSED: i32 = 50_000;
/// Added to the status with which a server refuses the upgrade to WebSocket, and negated, to give a `result`.
const WEBSOCKET_REFUSED: i32 = 60_000;

/// Returns the result of an operation whose connection of WebSocket the server closed with this code.
#[must_use]
pub fn websocket_closed(code: u16) -> i32 {
    -(WEBSOCKET_CLOSED + i32::from(code.min(9999)))
}

/// Returns the result of an operation whose server refused the upgrade to WebSocket with this status.
#[must_use]
pub fn websocket_refused(status: u16) -> i32 {
    -(WEBSOCKET_REFUSED + i32::from(status.min(999)))
}

/// Returns what such a result says, and its code or status; None for any other.
fn websocket_code(result: i32) -> Option<(&'static str, i32)> {
    let number = result.checked_neg()?;
    match number {
        WEBSOCKET_CLOSED..WEBSOCKET_REFUSED => {
            Some(("websocket closed", number - WEBSOCKET_CLOSED))
        }
        WEBSOCKET_REFUSED..61_000 => Some(("upgrade refused", number - WEBSOCKET_REFUSED)),
        _ => None,
    }
}

/// Added to the number of a SQLSTATE, and negated, to give the `result` of an operation.
const SQLSTATE: i32 = 1_000_000;
/// How many characters a SQLSTATE has.
const SQLSTATE_CHARACTERS: usize = 5;
const BASE: u32 = 36;

/// Returns the `result` of an operation that failed with this SQLSTATE; None if it is none: five digits or capital
/// letters (ISO/IEC 9075-2, section 24.1).
#[must_use]
pub fn of_sqlstate(code: &[u8]) -> Option<i32> {
    let digit = |character: &u8| match character {
        b'0'..=b'9' | b'A'..=b'Z' => char::from(*character).to_digit(BASE),
        _ => None,
    };
    if code.len() != SQLSTATE_CHARACTERS {
        return None;
    }
    let number = code.iter().try_fold(0, |number, character| {
        Some(number * BASE + digit(character)?)
    })?;
    // Below 36^5, which is 60,466,176.
    Some(-(SQLSTATE + i32::try_from(number).ok()?))
}

/// Returns the SQLSTATE that a result encodes; None for any other result.
#[must_use]
pub fn sqlstate_of(result: i32) -> Option<String> {
    let mut number = u32::try_from(result.checked_neg()?.checked_sub(SQLSTATE)?).ok()?;
    let mut code = ['0'; SQLSTATE_CHARACTERS];
    for character in code.iter_mut().rev() {
        *character = char::from_digit(number % BASE, BASE)?.to_ascii_uppercase();
        number /= BASE;
    }
    (number == 0).then(|| code.iter().collect())
}

/// The codes of NFS version 3 that no errno expresses, by number - 10000 (RFC 1813, section 2.6).
const NFS_NAMES: [&str; 9] = [
    "",
    "NFS3ERR_BADHANDLE",
    "NFS3ERR_NOT_SYNC",
    "NFS3ERR_BAD_COOKIE",
    "NFS3ERR_NOTSUPP",
    "NFS3ERR_TOOSMALL",
    "NFS3ERR_SERVERFAULT",
    "NFS3ERR_BADTYPE",
    "NFS3ERR_JUKEBOX",
];

/// Added to the place of an error reply's first word, and negated, to give the `result` of an operation.
const REDIS: i32 = 30_000;

/// The first words of Redis' error replies; the empty one is for all others, which modules and scripts can make.
/// Source: the replies of Redis 7.0 to 8.0 (src/server.c, cluster.c, replication.c, acl.c, t_stream.c, script.c, eval.c).
const REDIS_WORDS: [&str; 31] = [
    "",
    "ERR",
    "WRONGTYPE",
    "MOVED",
    "ASK",
    "TRYAGAIN",
    "CROSSSLOT",
    "CLUSTERDOWN",
    "LOADING",
    "BUSY",
    "MASTERDOWN",
    "READONLY",
    "NOREPLICAS",
    "MISCONF",
    "OOM",
    "EXECABORT",
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "NOPROTO",
    "DENIED",
    "NOSCRIPT",
    "BUSYKEY",
    "BUSYGROUP",
    "NOGROUP",
    "UNKILLABLE",
    "NOTBUSY",
    "UNBLOCKED",
    "NOMASTERLINK",
    "INPROG",
    "IOERR",
];

/// Returns the result of an operation whose reply is an error with this first word (`WRONGTYPE`).
#[must_use]
pub fn redis_error(word: &[u8]) -> i32 {
    let known = REDIS_WORDS
        .iter()
        .position(|known| known.as_bytes() == word);
    // Fewer than a hundred.
    -(REDIS + known.unwrap_or_default() as i32)
}

/// Names by number. An empty one is unused.
const NAMES: [&str; 134] = [
    "",
    "EPERM",
    "ENOENT",
    "ESRCH",
    "EINTR",
    "EIO",
    "ENXIO",
    "E2BIG",
    "ENOEXEC",
    "EBADF",
    "ECHILD",
    "EAGAIN",
    "ENOMEM",
    "EACCES",
    "EFAULT",
    "ENOTBLK",
    "EBUSY",
    "EEXIST",
    "EXDEV",
    "ENODEV",
    "ENOTDIR",
    "EISDIR",
    "EINVAL",
    "ENFILE",
    "EMFILE",
    "ENOTTY",
    "ETXTBSY",
    "EFBIG",
    "ENOSPC",
    "ESPIPE",
    "EROFS",
    "EMLINK",
    "EPIPE",
    "EDOM",
    "ERANGE",
    "EDEADLK",
    "ENAMETOOLONG",
    "ENOLCK",
    "ENOSYS",
    "ENOTEMPTY",
    "ELOOP",
    "",
    "ENOMSG",
    "EIDRM",
    "ECHRNG",
    "EL2NSYNC",
    "EL3HLT",
    "EL3RST",
    "ELNRNG",
    "EUNATCH",
    "ENOCSI",
    "EL2HLT",
    "EBADE",
    "EBADR",
    "EXFULL",
    "ENOANO",
    "EBADRQC",
    "EBADSLT",
    "",
    "EBFONT",
    "ENOSTR",
    "ENODATA",
    "ETIME",
    "ENOSR",
    "ENONET",
    "ENOPKG",
    "EREMOTE",
    "ENOLINK",
    "EADV",
    "ESRMNT",
    "ECOMM",
    "EPROTO",
    "EMULTIHOP",
    "EDOTDOT",
    "EBADMSG",
    "EOVERFLOW",
    "ENOTUNIQ",
    "EBADFD",
    "EREMCHG",
    "ELIBACC",
    "ELIBBAD",
    "ELIBSCN",
    "ELIBMAX",
    "ELIBEXEC",
    "EILSEQ",
    "ERESTART",
    "ESTRPIPE",
    "EUSERS",
    "ENOTSOCK",
    "EDESTADDRREQ",
    "EMSGSIZE",
    "EPROTOTYPE",
    "ENOPROTOOPT",
    "EPROTONOSUPPORT",
    "ESOCKTNOSUPPORT",
    "EOPNOTSUPP",
    "EPFNOSUPPORT",
    "EAFNOSUPPORT",
    "EADDRINUSE",
    "EADDRNOTAVAIL",
    "ENETDOWN",
    "ENETUNREACH",
    "ENETRESET",
    "ECONNABORTED",
    "ECONNRESET",
    "ENOBUFS",
    "EISCONN",
    "ENOTCONN",
    "ESHUTDOWN",
    "ETOOMANYREFS",
    "ETIMEDOUT",
    "ECONNREFUSED",
    "EHOSTDOWN",
    "EHOSTUNREACH",
    "EALREADY",
    "EINPROGRESS",
    "ESTALE",
    "EUCLEAN",
    "ENOTNAM",
    "ENAVAIL",
    "EISNAM",
    "EREMOTEIO",
    "EDQUOT",
    "ENOMEDIUM",
    "EMEDIUMTYPE",
    "ECANCELED",
    "ENOKEY",
    "EKEYEXPIRED",
    "EKEYREVOKED",
    "EKEYREJECTED",
    "EOWNERDEAD",
    "ENOTRECOVERABLE",
    "ERFKILL",
    "EHWPOISON",
];
const STATUSES: usize = 1000;
const REDIS_PLACES: usize = NAMES.len() + STATUSES;
const OTHER: usize = REDIS_PLACES + REDIS_WORDS.len();
const CHECK: usize = OTHER + 1;
const OWN_PLACES: usize = CHECK + 1;
const GRPC_PLACES: usize = OWN_PLACES + OWN_NAMES.len();
const PLACES: usize = GRPC_PLACES + GRPC_NAMES.len();

/// How many different SQLSTATEs and codes of WebSocket are counted, each under its name: more than the errors that a load
/// meets. Further ones are "other".
const SQLSTATES: usize = 64;

/// How often each error happened: fixed arrays, so that counting never allocates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorCounts {
    counts: Box<[u64]>,
    /// Results that are SQLSTATEs or codes of WebSocket, in the order of their first occurrence, and their counts; an unused entry has 0.
    sqlstates: Box<[(i32, u64)]>,
}

impl Default for ErrorCounts {
    fn default() -> Self {
        Self {
            counts: vec![0; PLACES].into_boxed_slice(),
            sqlstates: vec![(0, 0); SQLSTATES].into_boxed_slice(),
        }
    }
}

impl ErrorCounts {
    /// Counts the error of `result`, which is negative. Unknown numbers
    /// are counted together, as "other".
    pub(crate) fn count(&mut self, result: i32) {
        self.add(result, 1);
    }

    fn add(&mut self, result: i32, times: u64) {
        if is_sqlstate(result) || websocket_code(result).is_some() {
            let mut entries = self.sqlstates.iter_mut();
            if let Some(entry) = entries.find(|entry| entry.1 == 0 || entry.0 == result) {
                *entry = (result, entry.1 + times);
                return;
            }
        }
        self.counts[place(result)] += times;
    }

    /// Adds what `other` counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        for (result, times) in other.sqlstates.iter().take_while(|entry| entry.1 > 0) {
            self.add(*result, *times);
        }
    }

    /// Returns each error that happened, with its count.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (String, u64)> {
        let happened = self.counts.iter().enumerate();
        let happened = happened.map(|(place, times)| (word(place), *times));
        let states = self.sqlstates.iter();
        let states = states.map(|(result, times)| (name(*result), *times));
        happened.chain(states).filter(|(_, times)| *times > 0)
    }
}

fn is_sqlstate(result: i32) -> bool {
    let last = SQLSTATE + BASE.pow(SQLSTATE_CHARACTERS as u32) as i32;
    (-last + 1..=-SQLSTATE).contains(&result)
}

/// Returns the name of the error of `result`: "EIO", "HTTP 503", "NFS3ERR_JUKEBOX", "Redis WRONGTYPE", "grpc UNAVAILABLE",
/// "SQLSTATE 23505", "check-failed", "stream cut", "errno 4095", "other".
#[must_use]
pub fn name(result: i32) -> String {
    if let Some(code) = sqlstate_of(result) {
        return format!("SQLSTATE {code}");
    }
    if let Some((what, code)) = websocket_code(result) {
        return format!("{what} {code}");
    }
    let place = place(result);
    if place == OTHER && (-4095..0).contains(&result) {
        return format!("errno {}", -result);
    }
    word(place)
}

fn place(result: i32) -> usize {
    let number = result.unsigned_abs() as usize;
    let status = number.wrapping_sub(HTTP_STATUS as usize);
    let redis = number.wrapping_sub(REDIS as usize);
    let grpc = number.wrapping_sub(GRPC as usize);
    match number {
        _ if result == CHECK_FAILED => CHECK,
        _ if (WEBSOCKET_ERROR..=STREAM_CUT).contains(&result) => {
            OWN_PLACES + number - STREAM_CUT.unsigned_abs() as usize
        }
        _ if result < 0 && NAMES.get(number).is_some_and(|name| !name.is_empty()) => number,
        _ if result < 0 && status < STATUSES => NAMES.len() + status,
        _ if result < 0 && redis < REDIS_WORDS.len() => REDIS_PLACES + redis,
        _ if result < 0 && grpc < GRPC_NAMES.len() => GRPC_PLACES + grpc,
        _ => OTHER,
    }
}

fn word(place: usize) -> String {
    match place {
        OTHER => "other".to_owned(),
        CHECK => "check-failed".to_owned(),
        _ if place >= GRPC_PLACES => format!("grpc {}", GRPC_NAMES[place - GRPC_PLACES]),
        _ if place >= OWN_PLACES => OWN_NAMES[place - OWN_PLACES].to_owned(),
        REDIS_PLACES => "Redis error".to_owned(),
        _ if place > REDIS_PLACES => format!("Redis {}", REDIS_WORDS[place - REDIS_PLACES]),
        _ if place >= NAMES.len() => match NFS_NAMES.get(place - NAMES.len()) {
            Some(name) if !name.is_empty() => (*name).to_owned(),
            _ => format!("HTTP {}", place - NAMES.len()),
        },
        _ => NAMES[place].to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_words_of_linux() {
        let cases = [
            (-5, "EIO"),
            (-28, "ENOSPC"),
            (-71, "EPROTO"),
            (-104, "ECONNRESET"),
        ];
        let more = [
            (-111, "ECONNREFUSED"),
            (-125, "ECANCELED"),
            (-133, "EHWPOISON"),
        ];
        for (result, word) in cases.into_iter().chain(more) {
            assert_eq!(name(result), word);
        }
        assert_eq!(name(-10_503), "HTTP 503");
        assert_eq!(name(-10_001), "NFS3ERR_BADHANDLE");
        assert_eq!(name(-10_008), "NFS3ERR_JUKEBOX");
        assert_eq!(name(CHECK_FAILED), "check-failed");
        assert_eq!(name(-CHECK_FAILED), "other");
        assert_eq!(name(STREAM_CUT), "stream cut");
        assert_eq!(name(STREAM_ERROR), "stream error");
        assert_eq!(name(STREAM_STALLED), "stream stalled");
        assert_eq!(name(RESPONSE_CUT), "response cut");
        assert_eq!(name(STREAM_ENCODED), "stream encoded");
        assert_eq!(name(WEBSOCKET_ERROR), "websocket protocol error");
        assert_eq!(name(WEBSOCKET_ERROR - 1), "other");
        assert_eq!(name(websocket_closed(1001)), "websocket closed 1001");
        assert_eq!(name(websocket_refused(403)), "upgrade refused 403");
        assert_eq!(name(-61_000), "other");
        assert_eq!(name(-10_302), "HTTP 302");
        for word in ["ERR", "WRONGTYPE", "MOVED", "LOADING", "IOERR"] {
            let result = redis_error(word.as_bytes());
            assert_eq!(name(result), format!("Redis {word}"));
        }
        for word in [&b"MYMODULE"[..], b"", b"err", b"ERRX"] {
            assert_eq!(name(redis_error(word)), "Redis error");
        }
        assert_eq!(name(grpc_error(14)), "grpc UNAVAILABLE");
        assert_eq!(name(grpc_error(16)), "grpc UNAUTHENTICATED");
        assert_eq!(name(grpc_error(17)), "grpc UNKNOWN");
        assert_eq!(name(grpc_error(u32::MAX)), "grpc UNKNOWN");
        assert_eq!(name(-30_999), "other");
        assert_eq!(name(-40_017), "other");
        assert_eq!(name(40_014), "other");
        assert_eq!(name(-41), "errno 41");
        assert_eq!(name(i32::MIN), "other");
    }

    #[test]
    fn every_error_is_counted_once() {
        let mut errors = ErrorCounts::default();
        let redis = [redis_error(b"ERR"), redis_error(b"OTHER")];
        for result in [
            -5,
            CHECK_FAILED,
            -5,
            -10_404,
            -9999,
            i32::MIN,
            websocket_closed(1001),
        ]
        .into_iter()
        .chain(redis)
        {
            errors.count(result);
        }
        let all: Vec<_> = errors.iter().collect();
        let expected = [
            ("EIO", 2),
            ("HTTP 404", 1),
            ("Redis error", 1),
            ("Redis ERR", 1),
            ("other", 2),
            ("check-failed", 1),
            ("websocket closed 1001", 1),
        ];
        assert_eq!(all, expected.map(|(word, n)| (word.to_owned(), n)));
    }

    #[test]
    fn sqlstates_are_numbers_of_base_36() {
        for code in ["00000", "23505", "42P01", "57P01", "ZZZZZ"] {
            let result = of_sqlstate(code.as_bytes()).unwrap();
            assert_eq!(sqlstate_of(result).as_deref(), Some(code));
            assert_eq!(name(result), format!("SQLSTATE {code}"));
        }
        for none in ["", "2350", "235055", "42p01", "4+P01"] {
            assert_eq!(of_sqlstate(none.as_bytes()), None);
        }
        let last = of_sqlstate(b"ZZZZZ").unwrap();
        for result in [0, -5, -10_503, -999_999, last - 1, i32::MIN, i32::MIN + 1] {
            assert_eq!(sqlstate_of(result), None);
            assert!(!is_sqlstate(result));
        }
    }

    #[test]
    fn sqlstates_are_counted_each_and_beyond_the_table_together() {
        let code = |number: usize| of_sqlstate(format!("9{number:04}").as_bytes()).unwrap();
        let mut errors = ErrorCounts::default();
        for number in 0..SQLSTATES + 3 {
            errors.count(code(number));
        }
        errors.count(code(1));
        let mut twice = ErrorCounts::default();
        twice.count(code(1));
        twice.count(code(SQLSTATES));
        twice.merge(&errors);
        let all: Vec<_> = twice.iter().collect();
        let times = |name: &str| all.iter().find(|one| one.0 == name).map(|one| one.1);
        assert_eq!(times("SQLSTATE 90000"), Some(1));
        assert_eq!(times("SQLSTATE 90001"), Some(3));
        assert_eq!(times("SQLSTATE 90064"), Some(1));
        assert_eq!(times("other"), Some(3 + 1));
        assert_eq!(all.iter().map(|one| one.1).sum::<u64>(), 64 + 3 + 1 + 2);
    }
}
