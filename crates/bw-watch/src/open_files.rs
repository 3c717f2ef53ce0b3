//! Open files of processes, and their limits.
//!
//! From Linux 6.2 the size of /proc/PID/fd is the number of its entries; whether that holds
//! is tried on the sampler itself, else the entries are counted.

use std::fs;
use std::path::{Path, PathBuf};

use crate::json;
use crate::kept::{Kept, Text};
use crate::process_text::open_files_limit;
use crate::processes::Process;
use crate::roots::Roots;

/// Counts them.
#[derive(Debug)]
pub struct OpenFiles {
    proc: PathBuf,
    size_counts: bool,
    text: Text,
}

impl OpenFiles {
    /// Finds out how to count.
    pub fn new(roots: &Roots) -> Self {
        let own = roots.proc.join("self/fd");
        // The listing of a directory of descriptors has the one that lists it.
        let size = size(&own).map(|size| size + 1);
        Self {
            size_counts: size.is_some() && size == entries(&own),
            proc: roots.proc.clone(),
            text: Text::default(),
        }
    }

    /// Writes the line `files_open`, if there is anything to tell.
    pub fn write<'a>(
        &mut self,
        processes: impl Iterator<Item = &'a Process>,
        t: i64,
        out: &mut Vec<u8>,
    ) {
        let counted = processes.filter_map(|process| {
            let directory = self.proc.join(process.pid.to_string());
            let fd = directory.join("fd");
            let open = if self.size_counts {
                size(&fd)
            } else {
                entries(&fd)
            }?;
            let limits = Kept::open(directory.join("limits"));
            let read = limits.and_then(|file| file.read(&mut self.text)).ok();
            let limit = read.and_then(|()| open_files_limit(self.text.bytes()));
            Some((process, open, limit))
        });
        let counted: Vec<_> = counted.collect();
        if counted.is_empty() {
            return;
        }
        json::begin(out, "files_open", t);
        out.extend_from_slice(b",\"rows\":");
        json::array(out, counted, |out, (process, open, limit)| {
            out.push(b'[');
            json::integer(out, i64::from(process.pid));
            out.push(b',');
            json::string(out, &process.name);
            out.push(b',');
            json::integer(out, open);
            out.push(b',');
            json::value(out, limit.unwrap_or(crate::columns::ABSENT));
            out.push(b']');
        });
        out.extend_from_slice(b"}\n");
    }
}

/// Asking for the size needs no permission, but without one the answer is 0.
fn size(fd: &Path) -> Option<i64> {
    let size = i64::try_from(fs::metadata(fd).ok()?.len()).ok()?;
    if size > 0 { Some(size) } else { entries(fd) }
}

fn entries(fd: &Path) -> Option<i64> {
    i64::try_from(fs::read_dir(fd).ok()?.count()).ok()
}
