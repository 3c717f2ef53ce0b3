//! A file set: which directories, files and symbolic links a workload uses, as a function of its description.
//!
//! Decision: each attribute of a file is a function of the seed, its directory and its number alone. So a set with more
//! files per directory contains the smaller one, and a set that grows with the load keeps what exists. Rejected: one
//! stream of random numbers for the whole set, in which one more file changes all files behind it.
//!
//! Names are short and follow from the numbers: directory `d3`, file `f17` (after a rename `r17`), symbolic link `l2`,
//! empty directory `e1`. Source of the tables: Anderson and Chase, Fstress, A flexible network file service benchmark
//! (2002); there a depth of 1 is the root alone.

use crate::distribution::{Distribution, DistributionSpec, Weights};
use crate::random::Stream;
use bw_model::FileAddress;
use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};

/// A file set as the user describes it, in the form of the engine's protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSetSpec {
    /// The seed of all attributes: not the workload's, so that another schedule uses the same files.
    pub seed: u64,
    /// Levels of directories, with the root of the set: 1 is the root alone.
    pub max_depth: u32,
    /// Number of sub-directories of a directory above the last level.
    pub directories: DistributionSpec,
    /// Number of files of a directory, those that do not exist at the start included.
    pub files: DistributionSpec,
    /// Number of symbolic links of a directory.
    #[serde(default = "none")]
    pub symlinks: DistributionSpec,
    /// Number of empty directories of a directory, which `mkdir` and `rmdir` create and remove.
    #[serde(default = "none")]
    pub empty_directories: DistributionSpec,
    /// Size of a file [bytes].
    pub file_size: DistributionSpec,
    /// The weight by which a file is chosen; 0: never.
    #[serde(default = "one")]
    pub file_popularity: DistributionSpec,
    /// The weight by which a directory is chosen; 0: never.
    #[serde(default = "one")]
    pub directory_popularity: DistributionSpec,
    /// Share of the files and empty directories that exist at the start [millionths].
    #[serde(default = "all")]
    pub present_micro: u32,
}

fn none() -> DistributionSpec {
    DistributionSpec::Constant { value: 0 }
}

fn one() -> DistributionSpec {
    DistributionSpec::Constant { value: 1 }
}

fn all() -> u32 {
    WHOLE
}

/// All, in millionths.
const WHOLE: u32 = 1_000_000;

/// A directory. The first one is the root of the set and its own parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Directory {
    /// The object number of the directory that contains it.
    pub parent: u32,
    /// Its number in its parent.
    pub number: u32,
    /// 1 for the root.
    pub depth: u32,
}

/// A file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// The object number of its directory.
    pub directory: u32,
    /// Its number in its directory.
    pub number: u32,
    /// Its size when the set is new [bytes].
    pub size: u64,
}

/// A symbolic link or an empty directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The object number of its directory.
    pub directory: u32,
    /// Its number in its directory.
    pub number: u32,
}

/// What an object number stands for, with the index among its like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// A directory of the set.
    Directory(usize),
    /// A file.
    File(usize),
    /// A symbolic link.
    Symlink(usize),
    /// An empty directory.
    EmptyDirectory(usize),
}

/// A file set. Object numbers: the directories (0 is the root of the set), the files, the symbolic links, the empty
/// directories.
#[derive(Clone, Debug)]
pub struct FileSet {
    spec: FileSetSpec,
    directories: Vec<Directory>,
    files: Vec<File>,
    symlinks: Vec<Entry>,
    empty_directories: Vec<Entry>,
    present_files: Vec<u64>,
    present_empty_directories: Vec<u64>,
    file_popularity: Option<Popularity>,
    directory_popularity: Option<Popularity>,
}

/// The purpose of a random stream.
#[derive(Clone, Copy)]
enum Purpose {
    Directory = 1,
    File = 2,
    EmptyDirectory = 3,
}

/// The distributions of a description.
struct Tables {
    seed: u64,
    present_micro: u64,
    directories: Distribution,
    files: Distribution,
    symlinks: Distribution,
    empty_directories: Distribution,
    file_size: Distribution,
    file_popularity: Distribution,
    directory_popularity: Distribution,
}

impl FileSet {
    /// Returns the set described.
    ///
    /// # Errors
    /// What is wrong with the description, and what to do.
    pub fn new(spec: &FileSetSpec) -> Result<Self, String> {
        let tables = Tables::new(spec)?;
        let mut set = Self {
            spec: spec.clone(),
            directories: tables.directories(spec.max_depth)?,
            files: Vec::new(),
            symlinks: Vec::new(),
            empty_directories: Vec::new(),
            present_files: Vec::new(),
            present_empty_directories: Vec::new(),
            file_popularity: None,
            directory_popularity: None,
        };
        let (mut file_weights, mut directory_weights) = (Vec::new(), Vec::new());
        let mut objects = set.directories.len() as u64;
        for directory in 0..set.directories.len() as u32 {
            let mut own = tables.stream(Purpose::Directory, directory, 0);
            let [_, files, symlinks, empty] = tables.counts(directory);
            objects = [files, symlinks, empty]
                .into_iter()
                .fold(objects, u64::saturating_add);
            refuse_too_many(objects)?;
            directory_weights.push(tables.directory_popularity.draw(&mut own));
            for number in 0..files as u32 {
                let mut stream = tables.stream(Purpose::File, directory, number);
                let present = tables.present(&mut stream);
                push_bit(&mut set.present_files, set.files.len(), present);
                let size = tables.file_size.draw(&mut stream);
                // Last, so that another table of weights moves nothing that is stored.
                file_weights.push(tables.file_popularity.draw(&mut stream));
                set.files.push(File {
                    directory,
                    number,
                    size: size.min(FileAddress::BYTES - 1),
                });
            }
            let entry = |number| Entry { directory, number };
            set.symlinks.extend((0..symlinks as u32).map(entry));
            for number in 0..empty as u32 {
                let mut stream = tables.stream(Purpose::EmptyDirectory, directory, number);
                let index = set.empty_directories.len();
                let present = tables.present(&mut stream);
                push_bit(&mut set.present_empty_directories, index, present);
                set.empty_directories.push(entry(number));
            }
        }
        set.file_popularity = Popularity::new(&file_weights);
        set.directory_popularity = Popularity::new(&directory_weights);
        Ok(set)
    }

    /// Returns its description.
    #[must_use]
    pub fn spec(&self) -> &FileSetSpec {
        &self.spec
    }

    /// Returns the directories, the root of the set first; each comes after its parent.
    #[must_use]
    pub fn directories(&self) -> &[Directory] {
        &self.directories
    }

    /// Returns the files, in the order of their directories.
    #[must_use]
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// Returns the symbolic links, in the order of their directories.
    #[must_use]
    pub fn symlinks(&self) -> &[Entry] {
        &self.symlinks
    }

    /// Returns the empty directories, in the order of their directories.
    #[must_use]
    pub fn empty_directories(&self) -> &[Entry] {
        &self.empty_directories
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn objects(&self) -> u32 {
        let entries = self.symlinks.len() + self.empty_directories.len();
        (self.directories.len() + self.files.len() + entries) as u32
    }

    /// Returns what the object is.
    ///
    /// # Panics
    /// There is no such object.
    #[must_use]
    pub fn object(&self, object: u32) -> Object {
        let mut index = object as usize;
        let lengths = [
            self.directories.len(),
            self.files.len(),
            self.symlinks.len(),
            self.empty_directories.len(),
        ];
        for (length, made) in lengths.into_iter().zip([
            Object::Directory,
            Object::File,
            Object::Symlink,
            Object::EmptyDirectory,
        ]) {
            if index < length {
                return made(index);
            }
            index -= length;
        }
        panic!("object {object} of {}", self.objects())
    }

    /// Returns the object number.
    #[must_use]
    pub fn number(&self, object: Object) -> u32 {
        let files = self.directories.len();
        let symlinks = files + self.files.len();
        let empty = symlinks + self.symlinks.len();
        (match object {
            Object::Directory(index) => index,
            Object::File(index) => files + index,
            Object::Symlink(index) => symlinks + index,
            Object::EmptyDirectory(index) => empty + index,
        }) as u32
    }

    /// Returns whether the object exists when the set is new.
    #[must_use]
    pub fn is_present(&self, object: u32) -> bool {
        match self.object(object) {
            Object::Directory(_) | Object::Symlink(_) => true,
            Object::File(index) => bit(&self.present_files, index),
            Object::EmptyDirectory(index) => bit(&self.present_empty_directories, index),
        }
    }

    /// Returns the object number of the directory that contains the object; the root contains itself.
    #[must_use]
    pub fn parent(&self, object: u32) -> u32 {
        match self.object(object) {
            Object::Directory(index) => self.directories[index].parent,
            Object::File(index) => self.files[index].directory,
            Object::Symlink(index) => self.symlinks[index].directory,
            Object::EmptyDirectory(index) => self.empty_directories[index].directory,
        }
    }

    /// Appends the object's name in its directory to `text`; nothing for the root. `renamed`: the second name of a
    /// file, `r17` for `f17`.
    pub fn write_name(&self, object: u32, renamed: bool, text: &mut String) {
        let (letter, number) = match self.object(object) {
            Object::Directory(0) => return,
            Object::Directory(index) => ('d', self.directories[index].number),
            Object::File(index) => (if renamed { 'r' } else { 'f' }, self.files[index].number),
            Object::Symlink(index) => ('l', self.symlinks[index].number),
            Object::EmptyDirectory(index) => ('e', self.empty_directories[index].number),
        };
        text.push(letter);
        let mut digits = [0; 10];
        let mut rest = number;
        let mut from = digits.len();
        loop {
            from -= 1;
            digits[from] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        text.extend(digits[from..].iter().map(|&digit| char::from(digit)));
    }

    /// Appends the object's path from the root of the set to `text`, such as `d3/d1/f17`; nothing for the root.
    pub fn write_path(&self, object: u32, renamed: bool, text: &mut String) {
        let parent = self.parent(object);
        if parent != 0 {
            self.write_path(parent, false, text);
            text.push('/');
        }
        self.write_name(object, renamed, text);
    }

    /// Returns the object's path from the root of the set, such as `d3/d1/f17`; empty for the root.
    #[must_use]
    pub fn path(&self, object: u32, renamed: bool) -> String {
        let mut text = String::new();
        self.write_path(object, renamed, &mut text);
        text
    }

    /// Returns the text of a symbolic link: the name of the file with the link's number, in the same directory. The
    /// file may not exist.
    #[must_use]
    pub fn symlink_text(&self, index: usize) -> String {
        format!("f{}", self.symlinks[index].number)
    }

    /// Returns the sum of the sizes of the files that exist when the set is new [bytes].
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let files = self.files.iter().enumerate();
        let present = files.filter(|(index, _)| bit(&self.present_files, *index));
        present.map(|(_, file)| file.size).sum()
    }

    /// Returns a hash of what determines the stored objects except the number of files: two sets with the same hash
    /// contain one another.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        let spec = &self.spec;
        (spec.seed, spec.max_depth, spec.present_micro).hash(&mut hash);
        for table in [
            &spec.directories,
            &spec.symlinks,
            &spec.empty_directories,
            &spec.file_size,
        ] {
            table.hash(&mut hash);
        }
        hash.finish()
    }

    /// Returns the choice of a file by popularity; None if every weight is 0, or there is no file.
    #[must_use]
    pub(crate) fn file_popularity(&self) -> Option<&Popularity> {
        self.file_popularity.as_ref()
    }

    /// Returns the choice of a directory by popularity; None if every weight is 0.
    #[must_use]
    pub(crate) fn directory_popularity(&self) -> Option<&Popularity> {
        self.directory_popularity.as_ref()
    }
}

impl Tables {
    fn new(spec: &FileSetSpec) -> Result<Self, String> {
        let table = |name: &str, spec: &DistributionSpec| {
            Distribution::new(spec).map_err(|error| format!("{name}: {error}"))
        };
        let tables = Self {
            seed: spec.seed,
            present_micro: spec.present_micro.into(),
            directories: table("directories", &spec.directories)?,
            files: table("files", &spec.files)?,
            symlinks: table("symlinks", &spec.symlinks)?,
            empty_directories: table("empty_directories", &spec.empty_directories)?,
            file_size: table("file_size", &spec.file_size)?,
            file_popularity: table("file_popularity", &spec.file_popularity)?,
            directory_popularity: table("directory_popularity", &spec.directory_popularity)?,
        };
        if !(1..=MOST_LEVELS).contains(&spec.max_depth) {
            return Err(format!(
                "max_depth is {}: give 1 (the root alone) to {MOST_LEVELS}",
                spec.max_depth
            ));
        }
        if spec.present_micro > WHOLE {
            return Err(format!(
                "present_micro is {}: give 0 to {WHOLE} (all)",
                spec.present_micro
            ));
        }
        let least = tables.file_size.range().0;
        if least >= FileAddress::BYTES {
            return Err(format!(
                "file_size: {least} bytes: a file has less than {} (64 GiB); make it smaller",
                FileAddress::BYTES
            ));
        }
        Ok(tables)
    }

    fn stream(&self, purpose: Purpose, directory: u32, number: u32) -> Stream {
        // Fewer than 2^27 of each: the parts do not overlap.
        let lane = (purpose as u64) << 58 | u64::from(directory) << 29 | u64::from(number);
        Stream::new(self.seed, lane)
    }

    /// Returns how many sub-directories, files, symbolic links and empty directories a directory has, each from a
    /// stream of its own: a table with larger numbers gives larger counts.
    fn counts(&self, directory: u32) -> [u64; 4] {
        let tables = [
            &self.directories,
            &self.files,
            &self.symlinks,
            &self.empty_directories,
        ];
        let mut lane = 0;
        tables.map(|table| {
            lane += 1;
            table.draw(&mut self.stream(Purpose::Directory, directory, lane))
        })
    }

    fn directories(&self, max_depth: u32) -> Result<Vec<Directory>, String> {
        let mut directories = vec![Directory {
            parent: 0,
            number: 0,
            depth: 1,
        }];
        let mut next = 0;
        while next < directories.len() {
            let parent = next as u32;
            let depth = directories[next].depth + 1;
            next += 1;
            if depth > max_depth {
                break; // the rest is on the last level too
            }
            let [more, ..] = self.counts(parent);
            if (directories.len() as u64).saturating_add(more) > MOST_DIRECTORIES {
                return Err(format!(
                    "directories: more than {MOST_DIRECTORIES} with a max_depth of {max_depth}: lower one of them"
                ));
            }
            directories.extend((0..more as u32).map(|number| Directory {
                parent,
                number,
                depth,
            }));
        }
        Ok(directories)
    }

    fn present(&self, stream: &mut Stream) -> bool {
        stream.below(u64::from(WHOLE)) < self.present_micro
    }
}

/// Levels of directories: `/` and the longest name on each keep a path far below the limit of 4096 bytes.
const MOST_LEVELS: u32 = 64;

/// Maximum number of directories: an exponent of the depth reaches any limit quickly.
const MOST_DIRECTORIES: u64 = 1 << 20;

fn refuse_too_many(objects: u64) -> Result<(), String> {
    let most = u64::from(FileAddress::OBJECTS);
    if objects > most {
        return Err(format!(
            "more than {most} directories, files and links: use fewer files per directory, or fewer directories"
        ));
    }
    Ok(())
}

/// A choice among many objects by few different integer weights: among the weights, then among the objects of that
/// weight. Memory of 4 bytes an object.
#[derive(Clone, Debug)]
pub(crate) struct Popularity {
    /// The weight of each class, ascending, without 0.
    each: Vec<u64>,
    /// The choice among the classes, by weight times number of objects.
    classes: Weights,
    /// Where each class starts in `members`, and the end.
    starts: Vec<u32>,
    /// The objects' indices, by class.
    members: Vec<u32>,
}

impl Popularity {
    /// Returns the choice by the weights of the objects; None if all are 0, or add up to more than 2^64.
    fn new(weights: &[u64]) -> Option<Self> {
        let mut members: Vec<u32> = (0..weights.len() as u32).collect();
        members.retain(|&index| weights[index as usize] > 0);
        members.sort_unstable_by_key(|&index| (weights[index as usize], index));
        let (mut each, mut starts) = (Vec::new(), Vec::new());
        for (place, &index) in (0..).zip(&members) {
            let weight = weights[index as usize];
            if each.last() != Some(&weight) {
                each.push(weight);
                starts.push(place);
            }
        }
        starts.push(members.len() as u32);
        let sizes = starts.windows(2).map(|pair| u64::from(pair[1] - pair[0]));
        let totals = each
            .iter()
            .zip(sizes)
            .map(|(weight, n)| weight.saturating_mul(n));
        let classes = Weights::new("popularity", totals).ok()?;
        Some(Self {
            each,
            classes,
            starts,
            members,
        })
    }

    /// Returns the class and the index of the object drawn.
    #[inline]
    pub(crate) fn draw(&self, stream: &mut Stream) -> (usize, u32) {
        let class = self.classes.draw(stream);
        let (from, to) = (self.starts[class], self.starts[class + 1]);
        let place = u64::from(from) + stream.below(u64::from(to - from));
        (class, self.members[place as usize])
    }

    /// Returns the classes, by ascending weight: the weight, and the indices of its objects.
    pub(crate) fn classes(&self) -> impl Iterator<Item = (u64, &[u32])> {
        let spans = self.starts.windows(2);
        let members = spans.map(|pair| &self.members[pair[0] as usize..pair[1] as usize]);
        self.each.iter().copied().zip(members)
    }
}

/// Returns the bit of this index.
fn bit(words: &[u64], index: usize) -> bool {
    words[index / 64] >> (index % 64) & 1 == 1
}

/// Appends the bit of this index, the next one.
fn push_bit(words: &mut Vec<u64>, index: usize, value: bool) {
    if index.is_multiple_of(64) {
        words.push(0);
    }
    if let Some(last) = words.last_mut() {
        *last |= u64::from(value) << (index % 64);
    }
}

/// FNV-1a over 64 bits: the same value in every build, unlike the standard library's hashers.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
