//! Results of failed operations, and their names.
//!
//! A negative result is a negative errno, `-(10000 + status)` for an HTTP response with an error status, `-10001` to
//! `-10008` for a code of NFS that no errno expresses (statuses of HTTP begin at 100), `-(30000 + place)` for an error
//! reply of Redis, where `place` is that of the reply's first word in a table, or [`CHECK_FAILED`]. Decision: the numbers of Linux on x86-64 and AArch64, as a table; asking
//! the C library would make this crate impure, and a record from another machine
//! must read the same. Source: include/uapi/asm-generic/errno-base.h and errno.h.

/// Added to an HTTP status, and negated, to give the `result` of an operation.
pub const HTTP_STATUS: i32 = 10_000;

/// The `result` of an operation whose response was not what the user expects of it.
pub const CHECK_FAILED: i32 = -20_000;

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

/// How often each error happened: a fixed array, so that counting never allocates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorCounts(Box<[u64]>);

impl Default for ErrorCounts {
    fn default() -> Self {
        Self(vec![0; CHECK + 1].into_boxed_slice())
    }
}

impl ErrorCounts {
    /// Counts the error of `result`, which is negative. Unknown numbers
    /// are counted together, as "other".
    pub(crate) fn count(&mut self, result: i32) {
        self.0[place(result)] += 1;
    }

    /// Adds what `other` counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }

    /// Returns each error that happened, with its count.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (String, u64)> {
        let happened = self.0.iter().enumerate().filter(|(_, times)| **times > 0);
        happened.map(|(place, times)| (word(place), *times))
    }
}

/// Returns the name of the error of `result`: "EIO", "HTTP 503", "NFS3ERR_JUKEBOX", "Redis WRONGTYPE", "check-failed",
/// "errno 4095", "other".
#[must_use]
pub fn name(result: i32) -> String {
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
    match number {
        _ if result == CHECK_FAILED => CHECK,
        _ if result < 0 && NAMES.get(number).is_some_and(|name| !name.is_empty()) => number,
        _ if result < 0 && status < STATUSES => NAMES.len() + status,
        _ if result < 0 && redis < REDIS_WORDS.len() => REDIS_PLACES + redis,
        _ => OTHER,
    }
}

fn word(place: usize) -> String {
    match place {
        OTHER => "other".to_owned(),
        CHECK => "check-failed".to_owned(),
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
        for word in ["ERR", "WRONGTYPE", "MOVED", "LOADING", "IOERR"] {
            let result = redis_error(word.as_bytes());
            assert_eq!(name(result), format!("Redis {word}"));
        }
        for word in [&b"MYMODULE"[..], b"", b"err", b"ERRX"] {
            assert_eq!(name(redis_error(word)), "Redis error");
        }
        assert_eq!(name(-30_999), "other");
        assert_eq!(name(-41), "errno 41");
        assert_eq!(name(i32::MIN), "other");
    }

    #[test]
    fn every_error_is_counted_once() {
        let mut errors = ErrorCounts::default();
        let redis = [redis_error(b"ERR"), redis_error(b"OTHER")];
        for result in [-5, CHECK_FAILED, -5, -10_404, -9999, i32::MIN]
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
        ];
        assert_eq!(all, expected.map(|(word, n)| (word.to_owned(), n)));
    }
}
