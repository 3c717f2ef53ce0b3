//! How often each error happened.

use std::collections::BTreeMap;

/// Results of HTTP exchanges are -(10000 + status).
const HTTP_BASE: i32 = 10_000;
const HTTP_STATUSES: std::ops::Range<i32> = 100..600;
const ERRNOS: usize = 134;
const PLACES: usize = ERRNOS + 500 + 1;

/// Counts by error; the memory is fixed, so that counting allocates nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors(Box<[u64; PLACES]>);

impl Default for Errors {
    fn default() -> Self {
        Self(Box::new([0; PLACES]))
    }
}

impl Errors {
    /// Counts a negative result: a negative errno, or an HTTP status.
    pub fn count(&mut self, result: i32) {
        self.0[place(result)] += 1;
    }

    /// Takes in what another one counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0.iter()) {
            *mine += theirs;
        }
    }

    /// Returns how many errors there were.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the counts by name: `EIO`, `HTTP 503`, `errno 77`, `other`.
    #[must_use]
    pub fn named(&self) -> BTreeMap<String, u64> {
        let counted = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        counted
            .map(|(place, count)| (name(place), *count))
            .collect()
    }
}

#[allow(clippy::cast_sign_loss)]
fn place(result: i32) -> usize {
    let number = result.saturating_neg();
    let status = number.saturating_sub(HTTP_BASE);
    if (0..ERRNOS as i32).contains(&number) {
        number as usize
    } else if HTTP_STATUSES.contains(&status) {
        ERRNOS + (status - HTTP_STATUSES.start) as usize
    } else {
        PLACES - 1
    }
}

fn name(place: usize) -> String {
    if place == PLACES - 1 {
        return "other".to_owned();
    }
    if place >= ERRNOS {
        return format!("HTTP {}", place - ERRNOS + 100);
    }
    let known = NAMES.iter().find(|(number, _)| *number == place);
    known.map_or_else(|| format!("errno {place}"), |(_, name)| (*name).to_owned())
}

/// Those that reads, writes and sockets give; Linux's generic numbers (asm-generic/errno.h).
const NAMES: [(usize, &str); 38] = [
    (1, "EPERM"),
    (2, "ENOENT"),
    (4, "EINTR"),
    (5, "EIO"),
    (6, "ENXIO"),
    (9, "EBADF"),
    (11, "EAGAIN"),
    (12, "ENOMEM"),
    (13, "EACCES"),
    (14, "EFAULT"),
    (16, "EBUSY"),
    (19, "ENODEV"),
    (21, "EISDIR"),
    (22, "EINVAL"),
    (24, "EMFILE"),
    (27, "EFBIG"),
    (28, "ENOSPC"),
    (30, "EROFS"),
    (32, "EPIPE"),
    (52, "EBADE"),
    (61, "ENODATA"),
    (67, "ENOLINK"),
    (71, "EPROTO"),
    (75, "EOVERFLOW"),
    (95, "EOPNOTSUPP"),
    (98, "EADDRINUSE"),
    (99, "EADDRNOTAVAIL"),
    (100, "ENETDOWN"),
    (101, "ENETUNREACH"),
    (103, "ECONNABORTED"),
    (104, "ECONNRESET"),
    (107, "ENOTCONN"),
    (110, "ETIMEDOUT"),
    (111, "ECONNREFUSED"),
    (113, "EHOSTUNREACH"),
    (116, "ESTALE"),
    (122, "EDQUOT"),
    (125, "ECANCELED"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_their_names() {
        let mut errors = Errors::default();
        for result in [-5, -5, -10_503, -77, i32::MIN + 1, -9_999_999] {
            errors.count(result);
        }
        let expected = [("EIO", 2), ("HTTP 503", 1), ("errno 77", 1), ("other", 2)];
        let expected: BTreeMap<_, _> = expected.map(|(n, c)| (n.to_owned(), c)).into();
        assert_eq!(errors.named(), expected);
        let mut twice = errors.clone();
        twice.merge(&errors);
        assert_eq!(twice.total(), 2 * errors.total());
    }
}
