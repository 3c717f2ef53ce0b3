//! The columns of a series, and the port to what fills them.

use std::io;
use std::path::{Path, PathBuf};

use crate::kept::{Kept, Text};
use crate::system::reason;

/// The value of what could not be read; `null` in the file.
pub const ABSENT: i64 = i64::MIN;

/// How a column's values are to be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Grows; only differences mean something.
    Counter,
    /// Means something by itself.
    Gauge,
}

/// The columns in order, and what is missing.
#[derive(Debug, Default)]
pub struct Columns {
    /// Name and kind of each.
    pub named: Vec<(String, Kind)>,
    /// What could not be had, and why.
    pub absent: Vec<(String, String)>,
}

impl Columns {
    /// Adds one column.
    pub fn add(&mut self, name: impl Into<String>, kind: Kind) {
        self.named.push((name.into(), kind));
    }

    /// Adds counters below a prefix: `vm/` and `faults` make `vm/faults`.
    pub fn counters(&mut self, prefix: &str, names: &[&str]) {
        for name in names {
            self.add(format!("{prefix}{name}"), Kind::Counter);
        }
    }

    /// Notes that `what` cannot be had.
    pub fn absent(&mut self, what: &str, path: &Path, error: &io::Error) {
        let why = format!("{}: {}", path.display(), reason(error));
        self.absent.push((what.to_owned(), why));
    }
}

/// Something that fills columns.
pub trait Source {
    /// Looks at what is there now and names its columns.
    fn learn(&mut self, columns: &mut Columns);

    /// Reads into the values of its columns. False: what is there has changed, or cannot be
    /// read any more; it must learn again before its values mean anything.
    fn read(&mut self, values: &mut [i64]) -> bool;
}

/// One kind of text of the kernel: pure, so that it is tested on texts of other machines.
pub trait Parser {
    /// What `absent` calls it where the file cannot be read.
    const WHAT: &'static str;
    /// Whether the kernel gives the whole text in one call, however long it is.
    const ONE_RECORD: bool = true;

    /// Looks at a text and names the columns.
    fn learn(&mut self, text: &[u8], columns: &mut Columns);

    /// Writes the values of the columns, `ABSENT` where a field is missing. False: the text
    /// has other things than it had.
    fn parse(&self, text: &[u8], values: &mut [i64]) -> bool;
}

/// A source that is one file, understood by one parser.
#[derive(Debug)]
pub struct FileSource<P> {
    path: PathBuf,
    file: Option<Kept>,
    text: Text,
    parser: P,
}

impl<P: Parser> FileSource<P> {
    /// Makes a source; the file is opened when it is learned.
    pub fn new(path: impl Into<PathBuf>, parser: P) -> Self {
        Self {
            path: path.into(),
            file: None,
            text: Text::default(),
            parser,
        }
    }

    fn open(&mut self) -> io::Result<()> {
        let file = Kept::open(&self.path)?;
        file.read(&mut self.text)?;
        self.file = Some(file);
        Ok(())
    }
}

impl<P: Parser> Source for FileSource<P> {
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
