//! Texts of one process or thread: `stat`, `schedstat`, `io`. Pure.
//! Sources: proc_pid_stat(5), proc_pid_io(5), the kernel's scheduler/sched-stats.

use crate::text::{after, lines, number, signed, words};

/// What is told of a process or thread by `/proc/PID/stat`. Times in ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stat {
    /// `R`, `S`, `D`, `Z`...
    pub state: u8,
    /// Parent.
    pub ppid: i64,
    /// Major faults, its own and those of children that were waited for.
    pub major_faults: i64,
    /// User time.
    pub user: i64,
    /// System time.
    pub system: i64,
    /// User time of children that were waited for.
    pub children_user: i64,
    /// System time of children that were waited for.
    pub children_system: i64,
    /// Threads.
    pub threads: i64,
    /// Start, after boot.
    pub start: i64,
    /// Resident pages.
    pub resident: i64,
}

/// Returns the name and the numbers. The name may hold anything, `)` and blanks too: fields
/// are counted from the last bracket.
pub fn stat(text: &[u8]) -> Option<(&[u8], Stat)> {
    let begin = text.iter().position(|&byte| byte == b'(')?;
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let name = text.get(begin + 1..end)?;
    let mut fields = words(lines(&text[end + 1..]).next()?);
    let state = *fields.next()?.first()?;
    let mut numbers = [0_i64; 22];
    for value in &mut numbers {
        *value = signed(fields.next()?)?;
    }
    let found = Stat {
        state,
        ppid: numbers[0],
        major_faults: numbers[8].saturating_add(numbers[9]),
        user: numbers[10],
        system: numbers[11],
        children_user: numbers[12],
        children_system: numbers[13],
        threads: numbers[16],
        start: numbers[18],
        resident: numbers[20],
    };
    Some((name, found))
}

/// Returns time on a processor and time runnable but not running [ns].
pub fn schedstat(text: &[u8]) -> Option<(i64, i64)> {
    let mut found = words(lines(text).next()?);
    Some((number(found.next()?)?, number(found.next()?)?))
}

/// Keys of `/proc/PID/io`, in the order of our columns.
const IO: [&[u8]; 6] = [
    b"rchar",
    b"wchar",
    b"read_bytes",
    b"write_bytes",
    b"syscr",
    b"syscw",
];

/// Returns chars read and written, bytes read and written, calls to read and to write.
pub fn io(text: &[u8]) -> Option<[i64; 6]> {
    let mut found = [None; 6];
    for line in lines(text) {
        for (value, key) in found.iter_mut().zip(IO) {
            if let Some(rest) = after(line, key) {
                *value = words(rest).next().and_then(number);
            }
        }
    }
    let mut all = [0; 6];
    for (into, value) in all.iter_mut().zip(found) {
        *into = value?;
    }
    Some(all)
}

/// Returns the soft limit of open files in `/proc/PID/limits`; None: unlimited or not told.
pub fn open_files_limit(text: &[u8]) -> Option<i64> {
    let line = lines(text).find_map(|line| line.strip_prefix(b"Max open files"))?;
    words(line).next().and_then(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &[u8] = b"7 (a) Z 1) R 3 7 7 0 -1 4194304 98 5 2 1 10 20 30 40 20 0 6 0 \
        5970732 3133440 358 18446744073709551615 1\n";

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let (name, found) = stat(STAT).unwrap();
        assert_eq!(name, b"a) Z 1");
        assert_eq!((found.state, found.ppid, found.threads), (b'R', 3, 6));
        assert_eq!((found.user, found.children_system), (10, 40));
        assert_eq!(
            (found.major_faults, found.start, found.resident),
            (3, 5_970_732, 358)
        );
    }

    #[test]
    fn a_text_that_was_cut_is_none() {
        assert_eq!(stat(&STAT[..40]), None);
        assert_eq!(stat(b") x ("), None);
        assert_eq!(io(b"rchar: 1\nwchar: 2\n"), None);
    }

    #[test]
    fn small_files_are_read() {
        let text = b"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\n\
            cancelled_write_bytes: 0\n";
        assert_eq!(io(text), Some([1, 2, 5, 6, 3, 4]));
        assert_eq!(schedstat(b"64640 49969 2\n"), Some((64_640, 49_969)));
        let limits = b"Limit  Soft Hard Units\nMax open files            1024  4096   files\n";
        assert_eq!(open_files_limit(limits), Some(1024));
        assert_eq!(
            open_files_limit(b"Max open files  unlimited unlimited\n"),
            None
        );
    }
}
