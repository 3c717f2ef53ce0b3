//! A file that stays open and is read again from its beginning.
//!
//! Opening a file of /proc costs several times what reading it does. Where descriptors are
//! scarce a file is opened for each reading instead: slower, never wrong.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Descriptors that may still be kept; `set_room` says how many.
static ROOM: AtomicUsize = AtomicUsize::new(512);

/// No file of the kernel is read beyond this [bytes].
const LARGEST: usize = 16 << 20;
/// A page less the longest line of the files that are read by pieces [bytes].
const SHORT: usize = 3072;

/// Says how many files may be kept open.
pub fn set_room(files: usize) {
    ROOM.store(files, Ordering::Relaxed);
}

/// Bytes of a text, in a buffer that is used again.
#[derive(Debug, Default)]
pub struct Text {
    bytes: Vec<u8>,
    length: usize,
}

impl Text {
    /// Returns the bytes that were read last.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A file, open if there is room for it.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    file: Option<File>,
}

impl Kept {
    /// Opens the file. Errors: as open(2).
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let file = File::open(&path)?;
        let take = |room: usize| room.checked_sub(1);
        let kept = ROOM.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let file = kept.is_ok().then_some(file);
        Ok(Self { path, file })
    }

    /// Reads all of it into `text`. Errors: as pread(2).
    pub fn read(&self, text: &mut Text) -> io::Result<()> {
        self.with(|file| read_all(file, text))
    }

    /// Reads one record, which a file such as /proc/PID/stat gives in one call. It has no
    /// end that would have to be looked for.
    pub fn read_record(&self, text: &mut Text) -> io::Result<()> {
        if text.bytes.len() < 4096 {
            text.bytes.resize(4096, 0);
        }
        text.length = 0;
        text.length = self.with(|file| file.read_at(&mut text.bytes, 0))?;
        if text.length < text.bytes.len() {
            return Ok(());
        }
        self.read(text)
    }

    fn with<T>(&self, read: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        match &self.file {
            Some(file) => read(file),
            None => read(&File::open(&self.path)?),
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.file.is_some() {
            ROOM.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The kernel's iterators return lines as long as they fit into a page: what ends before is
/// the whole, else the end is where nothing comes.
fn read_all(file: &File, text: &mut Text) -> io::Result<()> {
    text.length = 0;
    loop {
        if text.bytes.len() - text.length < 2048 && text.bytes.len() < LARGEST {
            let larger = (text.bytes.len() * 2).max(8192);
            text.bytes.resize(larger, 0);
        }
        let offset = text.length as u64;
        let count = file.read_at(&mut text.bytes[text.length..], offset)?;
        text.length += count;
        if count == 0 || text.length < SHORT {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_as_it_is_now() {
        let path = std::env::temp_dir().join(format!("bw-kept-{}", std::process::id()));
        std::fs::write(&path, vec![b'a'; 30_000]).unwrap();
        let kept = Kept::open(&path).unwrap();
        let mut text = Text::default();
        kept.read(&mut text).unwrap();
        assert_eq!(text.bytes().len(), 30_000);
        std::fs::write(&path, b"12\n").unwrap();
        kept.read(&mut text).unwrap();
        assert_eq!(text.bytes(), b"12\n");
        kept.read_record(&mut text).unwrap();
        assert_eq!(text.bytes(), b"12\n");
        std::fs::remove_file(&path).unwrap();
    }
}
