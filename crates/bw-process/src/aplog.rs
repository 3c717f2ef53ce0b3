//! APLOG: the file of each thread that measurement blocks are appended to.
//!
//! Emptied before each epoch (only if something is in it), read after it. The text goes to
//! Python within the record; one that would swell this process (and so the floor of every
//! peak RSS) is cut at the end of a line and says so.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::logs::Log;

/// More than this of one thread and epoch is cut [bytes].
pub const MOST_BYTES: u64 = 256 * 1024;

/// The APLOG of one thread.
#[derive(Debug)]
pub struct Aplog {
    /// 1..N, 0 for commands that run once.
    pub thread: u32,
    log: Log,
}

impl Aplog {
    /// Opens `<logs>/aplog-<thread>`. Errors: as open(2).
    pub fn open(logs: &Path, thread: u32) -> io::Result<Self> {
        let log = Log::open(logs.join(format!("aplog-{thread}")))?;
        Ok(Self { thread, log })
    }

    /// Its path, the value of APLOG.
    pub fn path(&self) -> &Path {
        self.log.path()
    }

    /// Empties it. Errors: as ftruncate(2).
    pub fn clear(&mut self) -> io::Result<()> {
        self.log.refresh()?;
        if self.log.size() > 0 {
            self.log.file().set_len(0)?;
        }
        Ok(())
    }

    /// Returns what was written to it, if anything was.
    pub fn text(&mut self) -> Option<String> {
        self.log.refresh().ok()?;
        let size = self.log.size();
        if size == 0 {
            return None;
        }
        let mut bytes = vec![0; size.min(MOST_BYTES) as usize];
        let length = self.log.file().read_at(&mut bytes, 0).ok()?;
        bytes.truncate(length);
        if size > MOST_BYTES {
            let whole = bytes.iter().rposition(|&byte| byte == b'\n');
            bytes.truncate(whole.map_or(0, |end| end + 1));
            bytes.extend(format!("# cut: APLOG had {size} bytes\n").bytes());
        }
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}
