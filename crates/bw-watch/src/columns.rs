//! The columns of a series and their sources, most of which are kernel files that stay open.
//!
//! Opening a file of /proc costs several times as much as reading it, so a file stays open and is read again from its
//! start. If descriptors are scarce a file is opened for each reading instead, which is slower but equally correct.

use bw_sys::reason;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The value of a column that could not be read; `null` in the file.
pub const ABSENT: i64 = i64::MIN;

/// The meaning of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Only grows; only differences have a meaning.
    Counter,
    /// Each value has a meaning.
    Gauge,
}

/// The columns in order, and the unavailable ones.
#[derive(Debug, Default)]
pub struct Columns {
    /// Name and kind of each column.
    pub named: Vec<(String, ColumnKind)>,
    /// Unavailable data, each with the reason.
    pub absent: Vec<(String, String)>,
}

impl Columns {
    /// Adds one column.
    pub fn add(&mut self, name: impl Into<String>, kind: ColumnKind) {
        self.named.push((name.into(), kind));
    }

    /// Adds counters with a prefix: `vm/` and `faults` make `vm/faults`.
    pub fn counters(&mut self, prefix: &str, names: &[&str]) {
        for name in names {
            self.add(format!("{prefix}{name}"), ColumnKind::Counter);
        }
    }

    /// Notes that `what` is unavailable.
    pub fn absent(&mut self, what: &str, path: &Path, error: &io::Error) {
        let why = format!("{}: {}", path.display(), reason(error));
        self.absent.push((what.to_owned(), why));
    }
}

/// A source of columns.
pub(crate) trait ColumnSource {
    /// Examines what exists now and adds its columns.
    fn learn(&mut self, columns: &mut Columns);

    /// Reads the values of its columns. False: what exists has changed, or cannot be
    /// read any more; `learn` must be called before the values are valid again.
    fn read(&mut self, values: &mut [i64]) -> bool;
}

/// A parser of one kind of kernel text: pure, so that it can be tested with texts of other machines.
pub trait Parser {
    /// The name of the data in `absent`, if the file cannot be read.
    const WHAT: &'static str;
    /// Whether the kernel returns the whole text in one call, whatever its length.
    const ONE_RECORD: bool = true;

    /// Examines a text and adds its columns.
    fn learn(&mut self, text: &[u8], columns: &mut Columns);

    /// Writes the values of the columns, `ABSENT` if a field is missing. False: the text
    /// no longer matches the columns.
    fn parse(&self, text: &[u8], values: &mut [i64]) -> bool;
}

/// A source that reads one file with one parser.
#[derive(Debug)]
pub(crate) struct FileSource<P> {
    path: PathBuf,
    file: Option<KernelFile>,
    text: Text,
    parser: P,
}

impl<P: Parser> FileSource<P> {
    /// Returns a source; `learn` opens the file.
    pub(crate) fn new(path: impl Into<PathBuf>, parser: P) -> Self {
        Self {
            path: path.into(),
            file: None,
            text: Text::default(),
            parser,
        }
    }

    fn open(&mut self) -> io::Result<()> {
        let file = KernelFile::open(&self.path)?;
        file.read(&mut self.text)?;
        self.file = Some(file);
        Ok(())
    }
}

impl<P: Parser> ColumnSource for FileSource<P> {
    fn learn(&mut self, columns: &mut Columns) {
        self.file = None;
        match self.open() {
            Ok(()) => self.parser.learn(self.text.bytes(), columns),
            Err(error) => columns.absent(P::WHAT, &self.path, &error),
        }
    }

    fn read(&mut self, values: &mut [i64]) -> bool {
        let Some(file) = &self.file else { return true };
        let read = if P::ONE_RECORD {
            file.read_record(&mut self.text)
        } else {
            file.read(&mut self.text)
        };
        match read {
            Ok(()) => self.parser.parse(self.text.bytes(), values),
            Err(_) => false,
        }
    }
}

/// Number of descriptors that may still stay open; set by `set_room`.
static ROOM: AtomicUsize = AtomicUsize::new(512);

/// Maximum length of a text that is read [bytes].
const LARGEST: usize = 16 << 20;
/// A page minus the longest line of the files that are read in pieces [bytes].
const SHORT: usize = 3072;

/// Sets the number of files that may stay open.
pub(crate) fn set_room(files: usize) {
    ROOM.store(files, Ordering::Relaxed);
}

/// The bytes of a text, in a reused buffer.
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

/// A kernel file, open as long as descriptors are available.
#[derive(Debug)]
pub(crate) struct KernelFile {
    path: PathBuf,
    file: Option<File>,
}

impl KernelFile {
    /// Opens the file. Errors: as open(2).
    pub(crate) fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let file = File::open(&path)?;
        let take = |room: usize| room.checked_sub(1);
        let kept = ROOM.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let file = kept.is_ok().then_some(file);
        Ok(Self { path, file })
    }

    /// Reads all of it into `text`. Errors: as pread(2).
    pub(crate) fn read(&self, text: &mut Text) -> io::Result<()> {
        self.with(|file| read_whole(file, text))
    }

    /// Reads one record, which a file such as /proc/PID/stat returns in one call, so
    /// no second call is needed to find the end.
    pub(crate) fn read_record(&self, text: &mut Text) -> io::Result<()> {
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

impl Drop for KernelFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            ROOM.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Reads the whole file. The kernel's iterators return as many lines as fit into a page: a shorter text is
/// complete; otherwise the end is reached when a read returns nothing.
fn read_whole(file: &File, text: &mut Text) -> io::Result<()> {
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
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![b'a'; 30_000]).unwrap();
        let kept = KernelFile::open(&path).unwrap();
        let mut text = Text::default();
        kept.read(&mut text).unwrap();
        assert_eq!(text.bytes().len(), 30_000);
        std::fs::write(&path, b"12\n").unwrap();
        kept.read(&mut text).unwrap();
        assert_eq!(text.bytes(), b"12\n");
        kept.read_record(&mut text).unwrap();
        assert_eq!(text.bytes(), b"12\n");
    }
}
