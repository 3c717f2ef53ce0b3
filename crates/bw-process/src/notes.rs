//! What the worker notes in shared memory for the case that it is killed: the guard then
//! removes from the system what no process's end removes.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::semaphore::remove_noted;
use crate::shared::Mapping;

const BYTES: usize = 4096;
const SEMAPHORE: usize = 0;
const PATH_LENGTH: usize = 1;
/// From here on a byte of the path in each word: simple, and room enough.
const PATH: usize = 2;
const MOST_PATH: usize = BYTES / 4 - PATH;

/// Memory shared by guard and worker.
#[derive(Debug)]
pub struct Notes(Mapping);

impl Notes {
    /// Empty notes. Errors: no memory.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Mapping::anonymous(BYTES)?))
    }

    /// The semaphore set's number plus one; 0: there is none.
    pub fn semaphore(&self) -> &AtomicU32 {
        &self.0.words()[SEMAPHORE]
    }

    /// Notes a directory to remove; an overlong path is not noted.
    pub fn directory(&self, path: &Path) {
        let bytes = path.as_os_str().as_bytes();
        if bytes.len() > MOST_PATH {
            return;
        }
        let words = self.0.words();
        for (word, byte) in words[PATH..].iter().zip(bytes) {
            word.store(u32::from(*byte), Ordering::Relaxed);
        }
        words[PATH_LENGTH].store(bytes.len() as u32, Ordering::SeqCst);
    }

    /// Removes from the system what is noted.
    pub fn clear(&self) {
        remove_noted(self.semaphore());
        self.remove_directory();
    }

    /// Removes the directory that is noted, if one is.
    pub fn remove_directory(&self) {
        let words = self.0.words();
        let length = words[PATH_LENGTH].swap(0, Ordering::SeqCst) as usize;
        if length == 0 {
            return;
        }
        let bytes = words[PATH..][..length].iter();
        let path: Vec<u8> = bytes
            .map(|word| word.load(Ordering::Relaxed) as u8)
            .collect();
        // Nothing can be done about a failure here, and the directory is in /tmp.
        let _ = fs::remove_dir_all(Path::new(std::ffi::OsStr::from_bytes(&path)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noted_directory_is_removed_once() {
        let notes = Notes::new().unwrap();
        let path = std::env::temp_dir().join(format!("bw-notes-{}", std::process::id()));
        fs::create_dir_all(path.join("inner")).unwrap();
        notes.directory(&path);
        notes.clear();
        assert!(!path.exists());
        notes.clear();
    }
}
