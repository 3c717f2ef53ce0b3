//! What filaments of type `files` drew, counted against the tables they drew from: the self-check of a run.
//!
//! The counts are exactly what a chi-square test of the mix, of the popularity of files and directories, and of sizes
//! needs: observed counts beside expected shares. Each worker counts for itself; the report adds the counts up. Draws of
//! the whole run count, those of the warm-up and those made ahead of the end of the run included.

use crate::distribution::{Distribution, DistributionSpec};
use crate::file_set::{FileSet, Popularity};
use crate::roster::Roster;
use crate::workload::{FilamentSpec, FilesSpec, Problem, WorkloadError, WorkloadSpec, whole};
use bw_model::FileAddress;
use serde::Serialize;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The file set of a run with its state, and the counts of all workers.
#[derive(Debug)]
pub struct RunFiles {
    roster: Arc<Roster>,
    layout: Arc<Layout>,
    counts: Mutex<Vec<Arc<FileCounts>>>,
}

/// The tables that are counted.
#[derive(Debug)]
struct Layout {
    chains: Vec<LayoutChain>,
    transfers: Vec<LayoutTransfer>,
    file_size: SizeClasses,
    file_classes: usize,
    directory_classes: usize,
}

#[derive(Debug)]
struct LayoutChain {
    /// The filament's index in the list.
    filament: usize,
    name: String,
    weight: u64,
}

#[derive(Debug)]
struct LayoutTransfer {
    /// The chain's index among those of the workload.
    chain: usize,
    /// From 0.
    step: usize,
    sizes: SizeClasses,
}

/// Where the chains of a filament are among those of the workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChainPlace {
    /// The index of the first chain.
    pub chain: u16,
    /// The index of its first distribution of sizes.
    pub sizes: usize,
}

/// A distribution of sizes and its classes.
#[derive(Debug)]
struct SizeClasses {
    distribution: Distribution,
    /// The greatest value of each class.
    ends: Vec<u64>,
}

impl SizeClasses {
    fn new(distribution: Distribution) -> Self {
        Self {
            ends: distribution.classes(FileAddress::BYTES),
            distribution,
        }
    }

    fn class(&self, bytes: u64) -> usize {
        let class = self.ends.partition_point(|&end| end < bytes);
        class.min(self.ends.len() - 1)
    }

    /// Returns the end and the probability of each class.
    fn shares(&self) -> impl Iterator<Item = (u64, f64)> {
        let mut below = 0.0;
        self.ends.iter().map(move |&end| {
            let at_most = self.distribution.at_most(end);
            (end, at_most - std::mem::replace(&mut below, at_most))
        })
    }
}

/// A row of counters that one thread increments and another one reads after the run.
#[derive(Debug)]
struct Counters(Box<[AtomicU64]>);

impl Counters {
    fn new(length: usize) -> Self {
        Self((0..length).map(|_| AtomicU64::new(0)).collect())
    }

    /// Increments a counter. Only the worker's own thread does: a locked addition is not needed.
    #[inline]
    fn count(&self, index: usize) {
        let counter = &self.0[index];
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn get(&self, index: usize) -> u64 {
        self.0[index].load(Ordering::Relaxed)
    }
}

/// The counts of one worker.
#[derive(Debug)]
pub(crate) struct FileCounts {
    layout: Arc<Layout>,
    chains: Counters,
    files_drawn: Counters,
    files_chosen: Counters,
    file_sizes: Counters,
    directories: Counters,
    transfers: Vec<Counters>,
    /// Repeated draws, searches, unavailable objects.
    totals: Counters,
}

const REPEATED: usize = 0;
const SEARCHED: usize = 1;
const UNAVAILABLE: usize = 2;

impl FileCounts {
    fn new(layout: Arc<Layout>) -> Self {
        let transfers = layout.transfers.iter();
        Self {
            chains: Counters::new(layout.chains.len()),
            files_drawn: Counters::new(layout.file_classes),
            files_chosen: Counters::new(layout.file_classes),
            file_sizes: Counters::new(layout.file_size.ends.len()),
            directories: Counters::new(layout.directory_classes),
            transfers: transfers
                .map(|transfer| Counters::new(transfer.sizes.ends.len()))
                .collect(),
            totals: Counters::new(3),
            layout,
        }
    }

    /// Counts a chain that was drawn.
    #[inline]
    pub(crate) fn chain(&self, index: u16) {
        self.chains.count(index.into());
    }

    /// Counts a file that was drawn by popularity.
    #[inline]
    pub(crate) fn file_drawn(&self, class: usize, size: u64) {
        self.files_drawn.count(class);
        self.file_sizes.count(self.layout.file_size.class(size));
    }

    /// Counts a file that was drawn and could be used.
    #[inline]
    pub(crate) fn file_chosen(&self, class: usize) {
        self.files_chosen.count(class);
    }

    /// Counts a directory that was drawn by popularity.
    #[inline]
    pub(crate) fn directory(&self, class: usize) {
        self.directories.count(class);
    }

    /// Counts a size that was drawn for a transfer.
    #[inline]
    pub(crate) fn transfer(&self, place: usize, bytes: u64) {
        let class = self.layout.transfers[place].sizes.class(bytes);
        self.transfers[place].count(class);
    }

    /// Counts a file that could not be used and is drawn again.
    pub(crate) fn repeated_draw(&self) {
        self.totals.count(REPEATED);
    }

    /// Counts a file that was found by a search, since no draw succeeded.
    pub(crate) fn searched(&self) {
        self.totals.count(SEARCHED);
    }

    /// Counts an object that is used although it is in the wrong state, since none is in the right one.
    pub(crate) fn unavailable(&self) {
        self.totals.count(UNAVAILABLE);
    }
}

impl RunFiles {
    /// Returns the state of a new `set`, used by the filaments of `workload`.
    ///
    /// # Errors
    /// What is wrong with the filaments of type `files`, all errors at once.
    pub fn new<T>(workload: &WorkloadSpec<T>, set: Arc<FileSet>) -> Result<Self, WorkloadError> {
        let mut layout = Layout {
            chains: Vec::new(),
            transfers: Vec::new(),
            file_size: size_classes(&set.spec().file_size)
                .map_err(|error| whole(format!("file_set: file_size: {error}")))?,
            file_classes: classes(set.file_popularity()),
            directory_classes: classes(set.directory_popularity()),
        };
        let mut problems = Vec::new();
        let mut names = HashSet::new();
        for (place, filament) in workload.filaments.iter().enumerate() {
            let FilamentSpec::Files(spec) = filament else {
                continue;
            };
            if let Err(message) = layout.add(place, spec, &mut names) {
                let name = filament.name().map(str::to_owned);
                problems.push(Problem {
                    place: Some(place),
                    name,
                    message,
                });
            }
        }
        if !problems.is_empty() {
            return Err(WorkloadError(problems));
        }
        Ok(Self {
            roster: Arc::new(Roster::new(set)),
            layout: Arc::new(layout),
            counts: Mutex::default(),
        })
    }

    /// Returns the state of the set.
    #[must_use]
    pub fn roster(&self) -> &Arc<Roster> {
        &self.roster
    }

    /// Returns the names of all chains, in the order of their indices.
    #[must_use]
    pub fn chain_names(&self) -> Vec<String> {
        let chains = self.layout.chains.iter();
        chains.map(|chain| chain.name.clone()).collect()
    }

    /// Returns new counts for a worker, which the report will contain.
    pub(crate) fn counts(&self) -> Arc<FileCounts> {
        let counts = Arc::new(FileCounts::new(Arc::clone(&self.layout)));
        let mut all = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Arc::clone(&counts));
        counts
    }

    /// Returns where the chains of the filament at this place of the list are among all.
    pub(crate) fn chain_place(&self, filament: usize) -> ChainPlace {
        let chains = &self.layout.chains;
        let chain = chains.partition_point(|chain| chain.filament < filament);
        let transfers = &self.layout.transfers;
        ChainPlace {
            chain: chain as u16,
            sizes: transfers.partition_point(|transfer| transfer.chain < chain),
        }
    }

    /// Returns what was drawn, beside what the tables say.
    #[must_use]
    pub fn report(&self) -> FileSetReport {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = |of: &dyn Fn(&FileCounts) -> u64| counts.iter().map(|one| of(one)).sum::<u64>();
        let set = self.roster.set();
        let layout = &self.layout;
        FileSetReport {
            directories: set.directories().len() as u64,
            files: set.files().len() as u64,
            symlinks: set.symlinks().len() as u64,
            empty_directories: set.empty_directories().len() as u64,
            bytes: set.bytes(),
            files_at_end: self.roster.present_files(),
            bytes_at_end: self.roster.bytes(),
            mix: (layout.chains.iter().enumerate())
                .map(|(index, chain)| MixRow {
                    filament: chain.filament as u64,
                    chain: chain.name.clone(),
                    weight: chain.weight,
                    drawn: sum(&|counts| counts.chains.get(index)),
                })
                .collect(),
            file_popularity: popularity_rows(
                set.file_popularity(),
                |index| set.is_present(set.directories().len() as u32 + index),
                |class| sum(&|counts| counts.files_drawn.get(class)),
                |class| sum(&|counts| counts.files_chosen.get(class)),
            ),
            directory_popularity: popularity_rows(
                set.directory_popularity(),
                |_| true,
                |class| sum(&|counts| counts.directories.get(class)),
                |class| sum(&|counts| counts.directories.get(class)),
            ),
            file_sizes: self.file_sizes(&|class| sum(&|counts| counts.file_sizes.get(class))),
            transfer_sizes: (layout.transfers.iter().enumerate())
                .map(|(place, transfer)| TransferTable {
                    chain: layout.chains[transfer.chain].name.clone(),
                    step: transfer.step as u64,
                    sizes: (transfer.sizes.shares().enumerate())
                        .map(|(class, (bytes, share))| TransferRow {
                            bytes,
                            expected_share: share,
                            drawn: sum(&|counts| counts.transfers[place].get(class)),
                        })
                        .collect(),
                })
                .collect(),
            repeated_draws: sum(&|counts| counts.totals.get(REPEATED)),
            searched: sum(&|counts| counts.totals.get(SEARCHED)),
            unavailable: sum(&|counts| counts.totals.get(UNAVAILABLE)),
        }
    }

    /// Returns the size classes: how many files there are, and the total weight by which they are drawn.
    fn file_sizes(&self, drawn: &dyn Fn(usize) -> u64) -> Vec<FileSizeRow> {
        let (set, sizes) = (self.roster.set(), &self.layout.file_size);
        let shares = sizes.shares().enumerate();
        let mut rows: Vec<_> = shares
            .map(|(class, (bytes, expected_share))| FileSizeRow {
                bytes,
                expected_share,
                files: 0,
                weight: 0,
                drawn: drawn(class),
            })
            .collect();
        for file in set.files() {
            rows[sizes.class(file.size)].files += 1;
        }
        if let Some(popularity) = set.file_popularity() {
            for (weight, members) in popularity.classes() {
                for &file in members {
                    let size = set.files()[file as usize].size;
                    rows[sizes.class(size)].weight += weight;
                }
            }
        }
        rows
    }
}

impl Layout {
    /// Adds the chains of a filament.
    fn add(
        &mut self,
        filament: usize,
        spec: &FilesSpec,
        names: &mut HashSet<String>,
    ) -> Result<(), String> {
        if spec.chains.is_empty() {
            return Err("chains is empty: give at least one".into());
        }
        for chain in &spec.chains {
            if !names.insert(chain.name.clone()) {
                return Err(format!(
                    "chain {:?}: another chain has the same name: names must differ",
                    chain.name
                ));
            }
            let index = self.chains.len();
            if index > usize::from(u16::MAX) {
                return Err(format!("more than {} chains: use fewer", u16::MAX));
            }
            self.chains.push(LayoutChain {
                filament,
                name: chain.name.clone(),
                weight: chain.weight,
            });
            for (step, of) in chain.steps.iter().enumerate() {
                let Some(size) = &of.size else { continue };
                let named = |error| format!("chain {:?}: step {}: {error}", chain.name, step + 1);
                self.transfers.push(LayoutTransfer {
                    chain: index,
                    step,
                    sizes: size_classes(size).map_err(|error| named(format!("size: {error}")))?,
                });
            }
        }
        Ok(())
    }
}

fn size_classes(spec: &DistributionSpec) -> Result<SizeClasses, String> {
    Distribution::new(spec).map(SizeClasses::new)
}

fn classes(popularity: Option<&Popularity>) -> usize {
    popularity.map_or(0, |popularity| popularity.classes().count())
}

/// Maximum number of rows of a table of popularity; neighbouring weights share a row beyond it.
const MOST_ROWS: usize = 256;

fn popularity_rows(
    popularity: Option<&Popularity>,
    present: impl Fn(u32) -> bool,
    drawn: impl Fn(usize) -> u64,
    chosen: impl Fn(usize) -> u64,
) -> Vec<PopularityRow> {
    let Some(popularity) = popularity else {
        return Vec::new();
    };
    let each = classes(Some(popularity)).div_ceil(MOST_ROWS);
    let mut rows: Vec<PopularityRow> = Vec::new();
    for (class, (weight, members)) in popularity.classes().enumerate() {
        if class % each == 0 {
            rows.push(PopularityRow::default());
        }
        if let Some(row) = rows.last_mut() {
            let present = members.iter().filter(|&&index| present(index)).count();
            row.weight += weight * members.len() as u64;
            row.objects += members.len() as u64;
            row.present += present as u64;
            row.drawn += drawn(class);
            row.chosen += chosen(class);
        }
    }
    rows
}

/// `file_set` of the protocol.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileSetReport {
    /// Number of directories, with the root of the set.
    pub directories: u64,
    /// Number of files, those that do not exist at the start included.
    pub files: u64,
    /// Number of symbolic links.
    pub symlinks: u64,
    /// Number of empty directories.
    pub empty_directories: u64,
    /// Sum of the sizes of the files that exist at the start.
    pub bytes: u64,
    /// Number of files that exist at the end.
    pub files_at_end: u64,
    /// Sum of their sizes.
    pub bytes_at_end: u64,
    /// The chains.
    pub mix: Vec<MixRow>,
    /// The files by weight.
    pub file_popularity: Vec<PopularityRow>,
    /// The directories by weight.
    pub directory_popularity: Vec<PopularityRow>,
    /// The files by size.
    pub file_sizes: Vec<FileSizeRow>,
    /// The sizes of transfers.
    pub transfer_sizes: Vec<TransferTable>,
    /// Draws of files that were absent or in use, and were repeated.
    pub repeated_draws: u64,
    /// Choices of files in which every draw was repeated: the next file that could be used was taken.
    pub searched: u64,
    /// Operations on objects in the wrong state, since none was in the right one.
    pub unavailable: u64,
}

/// A chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MixRow {
    /// The filament's index in the list; the weights of one filament belong together.
    pub filament: u64,
    /// Its name.
    pub chain: String,
    /// Its weight.
    pub weight: u64,
    /// How often it was drawn.
    pub drawn: u64,
}

/// The objects of one weight, or of neighbouring ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PopularityRow {
    /// The sum of their weights: their expected share of the draws.
    pub weight: u64,
    /// How many there are.
    pub objects: u64,
    /// How many exist at the start.
    pub present: u64,
    /// How often one of them was drawn, repeated draws included.
    pub drawn: u64,
    /// How often one of them was drawn and used.
    pub chosen: u64,
}

/// The files of one class of sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileSizeRow {
    /// The greatest size of the class.
    pub bytes: u64,
    /// The share of files that the table of sizes expects.
    pub expected_share: f64,
    /// How many files there are.
    pub files: u64,
    /// The sum of their weights: their expected share of the draws.
    pub weight: u64,
    /// How often one of them was drawn.
    pub drawn: u64,
}

/// The sizes of one step of a chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TransferTable {
    /// The chain.
    pub chain: String,
    /// The step, from 0.
    pub step: u64,
    /// The classes of sizes.
    pub sizes: Vec<TransferRow>,
}

/// A class of sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TransferRow {
    /// The greatest size of the class.
    pub bytes: u64,
    /// The share of draws that the table of sizes expects.
    pub expected_share: f64,
    /// How often such a size was drawn.
    pub drawn: u64,
}
