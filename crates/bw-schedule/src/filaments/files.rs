//! Chains of operations on the files of a file set, as Fstress and Filebench have them.
//!
//! A chain is one of several sequences of steps, drawn by weight: look a file up; read the whole of one; create one,
//! write it, make it durable and close it. Its operations follow one another: each is intended at the completion of the
//! one before, so a slow server delays a chain and not the arrivals of others. A transfer larger than `piece_bytes` is
//! several operations.
//!
//! Decision: an open loop of chains is a pattern of [`Sessions`](super::sessions::Sessions), and a user of a closed loop
//! plays the same pattern with numbers of its own. What chain a number has, and its sizes, depend on the number alone,
//! and come from another stream than the objects: that an object had to be drawn again changes nothing else. Which
//! object is chosen may depend on the others, since a chain that creates, removes or renames a file has it for itself.

use crate::distribution::{Distribution, Weights};
use crate::filaments::sessions::SessionPattern;
use crate::filaments::{Completion, Emissions, Event, Filament, SequenceEnd, SequenceOutcome};
use crate::file_counts::{ChainPlace, FileCounts};
use crate::file_set::{FileSet, Object};
use crate::random::Stream;
use crate::roster::{Roster, State, States, Use};
use crate::workload::{ChainSpec, FilesSpec, StepLocation, StepObject, StepSpec};
use bw_model::{FileAddress, Kind, Nanos, Operation};
use std::cell::Cell;
use std::sync::Arc;

/// Maximum size of one operation: MAX_RW_COUNT of the kernel (read(2)).
const GREATEST_PIECE: u32 = 0x7fff_f000;

/// The chains of a filament, on one worker.
#[derive(Debug)]
pub(crate) struct Chains {
    roster: Arc<Roster>,
    counts: Arc<FileCounts>,
    weights: Weights,
    chains: Vec<Chain>,
    piece: u64,
    seed: u64,
}

#[derive(Debug)]
struct Chain {
    /// Its index among the chains of the workload.
    index: u16,
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    kind: Kind,
    pick: Pick,
    transfer: Option<Transfer>,
}

/// Which object a step uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pick {
    /// That of the step before.
    Same,
    /// A file, by popularity.
    PopularFile(Use),
    /// A file, all with the same probability.
    AnyFile(Use),
    /// A directory, by popularity.
    Directory,
    /// The root of the set.
    Root,
    /// A symbolic link.
    Symlink,
    /// An empty directory.
    EmptyDirectory(Use),
}

/// The bytes of a step.
#[derive(Debug)]
struct Transfer {
    /// The distribution of the sizes and its index among those of the workload; None: the whole file.
    size: Option<(Distribution, usize)>,
    location: StepLocation,
}

/// The sort of object that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    File,
    Directory,
    Root,
    Symlink,
    EmptyDirectory,
}

impl Sort {
    /// Returns the sort that this kind needs; None if the kind is not of file sets.
    fn of(kind: Kind) -> Option<Self> {
        Some(match kind {
            Kind::Discard | Kind::Exchange => return None,
            Kind::Readlink => Self::Symlink,
            Kind::Readdir | Kind::Readdirplus => Self::Directory,
            Kind::Fsstat => Self::Root,
            Kind::Mkdir | Kind::Rmdir => Self::EmptyDirectory,
            _ => Self::File,
        })
    }
}

impl Chains {
    /// Returns the chains of a filament, of which `first` says where they are among all.
    ///
    /// # Errors
    /// What is wrong with the description, and what to do.
    pub(crate) fn new(
        spec: &FilesSpec,
        roster: Arc<Roster>,
        counts: Arc<FileCounts>,
        first: ChainPlace,
        seed: u64,
    ) -> Result<Self, String> {
        let ChainPlace {
            chain: mut index,
            mut sizes,
        } = first;
        let weights = Weights::new("chains", spec.chains.iter().map(|chain| chain.weight))?;
        if !(1..=GREATEST_PIECE).contains(&spec.piece_bytes) {
            return Err(format!(
                "piece_bytes is {}: give 1 to {GREATEST_PIECE}",
                spec.piece_bytes
            ));
        }
        let mut chains = Vec::with_capacity(spec.chains.len());
        for chain in &spec.chains {
            let named = |error| format!("chain {:?}: {error}", chain.name);
            let steps = steps(chain, roster.set(), &mut sizes).map_err(named)?;
            chains.push(Chain { index, steps });
            index += 1;
        }
        Ok(Self {
            roster,
            counts,
            weights,
            chains,
            piece: spec.piece_bytes.into(),
            seed,
        })
    }
}

/// Returns the steps of a chain; adds the number of its distributions of sizes to `sizes`.
fn steps(chain: &ChainSpec, set: &FileSet, sizes: &mut usize) -> Result<Vec<Step>, String> {
    if chain.steps.is_empty() {
        return Err("it has no steps: give at least one".into());
    }
    let mut steps = Vec::with_capacity(chain.steps.len());
    let mut before = None;
    for (place, step) in chain.steps.iter().enumerate() {
        let kind = step.kind.name();
        let named = |error: String| format!("step {} ({kind}): {error}", place + 1);
        let Some(sort) = Sort::of(step.kind) else {
            return Err(named("file sets have no such operation".into()));
        };
        let pick = if step.object == StepObject::Same {
            match before {
                None => Err("object: there is no step before it: use choose".into()),
                Some(other) if other != sort => Err(
                    "object: the step before it is of another sort of object: use choose".into(),
                ),
                Some(_) => Ok(Pick::Same),
            }
        } else {
            pick(sort, &chain.steps[place..], set)
        };
        steps.push(Step {
            kind: step.kind,
            pick: pick.map_err(named)?,
            transfer: transfer(step, sizes).map_err(named)?,
        });
        before = Some(sort);
    }
    Ok(steps)
}

/// Returns how the object of the first of these steps is chosen: all steps until the next choice use it.
fn pick(sort: Sort, steps: &[StepSpec], set: &FileSet) -> Result<Pick, String> {
    let used_by = 1 + steps[1..]
        .iter()
        .take_while(|step| step.object == StepObject::Same)
        .count();
    let how = match steps[0].kind {
        Kind::Create | Kind::Mkdir => Use::Absent,
        _ => {
            let alone = |step: &StepSpec| {
                use Kind::{Create, Mkdir, Remove, Rename, Rmdir};
                matches!(step.kind, Create | Remove | Rename | Mkdir | Rmdir)
            };
            if steps[..used_by].iter().any(alone) {
                Use::Alone
            } else {
                Use::Shared
            }
        }
    };
    let any = matches!(steps[0].kind, Kind::Create | Kind::Remove);
    let missing = |what: &str| Err(format!("the file set has no {what}: give it some"));
    Ok(match sort {
        Sort::File if set.files().is_empty() => return missing("files"),
        Sort::File if any => Pick::AnyFile(how),
        Sort::File if set.file_popularity().is_none() => {
            return missing("files with a weight above 0 (file_popularity)");
        }
        Sort::File => Pick::PopularFile(how),
        Sort::Directory if set.directory_popularity().is_none() => {
            return missing("directories with a weight above 0 (directory_popularity)");
        }
        Sort::Directory => Pick::Directory,
        Sort::Root => Pick::Root,
        Sort::Symlink if set.symlinks().is_empty() => return missing("symlinks"),
        Sort::Symlink => Pick::Symlink,
        Sort::EmptyDirectory if set.empty_directories().is_empty() => {
            return missing("empty_directories");
        }
        Sort::EmptyDirectory => Pick::EmptyDirectory(how),
    })
}

fn transfer(step: &StepSpec, sizes: &mut usize) -> Result<Option<Transfer>, String> {
    let whole = step.size.is_none();
    if !matches!(step.kind, Kind::Read | Kind::Write | Kind::Append) {
        if whole && step.location == StepLocation::Start {
            return Ok(None);
        }
        return Err("it transfers nothing: leave size and location out".into());
    }
    if step.kind == Kind::Append && step.location == StepLocation::Random {
        return Err("location: an append starts at the end".into());
    }
    if whole && step.location != StepLocation::Start {
        return Err("location: the whole file is transferred from its start: give a size".into());
    }
    let size = match &step.size {
        None => None,
        Some(spec) => {
            let size = Distribution::new(spec).map_err(|error| format!("size: {error}"))?;
            if size.range().0 >= FileAddress::BYTES {
                return Err(format!(
                    "size: {} bytes: a file has less than {} (64 GiB); make it smaller",
                    size.range().0,
                    FileAddress::BYTES
                ));
            }
            *sizes += 1;
            Some((size, *sizes - 1))
        }
    };
    let location = if step.kind == Kind::Append {
        StepLocation::End
    } else {
        step.location
    };
    Ok(Some(Transfer { size, location }))
}

/// A chain in progress.
#[derive(Debug)]
pub(crate) struct ChainRun {
    intended: Nanos,
    ended: Option<Nanos>,
    operations: u32,
    /// Its index among the chains of the filament.
    chain: u16,
    step: u16,
    failed: bool,
    opened: bool,
    held: Option<Held>,
    /// The object number.
    object: u32,
    renamed: bool,
    /// What is left of the transfer of the current step.
    offset: u64,
    left: u64,
    objects: Stream,
    sizes: Stream,
}

/// A file or an empty directory that a chain has acquired.
#[derive(Clone, Copy, Debug)]
struct Held {
    sort: Sort,
    index: u32,
    how: Use,
}

impl Chains {
    fn states(&self, sort: Sort) -> &States {
        if sort == Sort::EmptyDirectory {
            self.roster.empty_directories()
        } else {
            self.roster.files()
        }
    }

    /// Returns chain `number` at its first operation, to start at `at`.
    fn begin(&self, number: u64, at: Nanos) -> (ChainRun, Operation) {
        let mut sizes = Stream::new(self.seed, number);
        let objects = Stream::new(sizes.next_u64(), number);
        let chain = self.weights.draw(&mut sizes);
        self.counts.chain(self.chains[chain].index);
        let mut run = ChainRun {
            intended: at,
            ended: None,
            operations: 0,
            chain: chain as u16,
            step: 0,
            failed: false,
            opened: false,
            held: None,
            object: 0,
            renamed: false,
            offset: 0,
            left: 0,
            objects,
            sizes,
        };
        self.enter(&mut run);
        let first = self.operation(&run, at);
        (run, first)
    }

    fn step(&self, run: &ChainRun) -> &Step {
        &self.chains[usize::from(run.chain)].steps[usize::from(run.step)]
    }

    /// Prepares the current step: its object and its transfer.
    fn enter(&self, run: &mut ChainRun) {
        let step = self.step(run);
        if step.pick != Pick::Same {
            self.release(run);
            self.choose(run, step.pick);
        }
        if let Some(transfer) = &step.transfer {
            self.prepare(run, step.kind, transfer);
        }
    }

    fn release(&self, run: &mut ChainRun) {
        if let Some(held) = run.held.take() {
            self.states(held.sort).release(held.index, held.how);
        }
        (run.renamed, run.opened) = (false, false);
    }

    fn choose(&self, run: &mut ChainRun, pick: Pick) {
        let set = self.roster.set();
        let object = match pick {
            Pick::Same => return,
            Pick::PopularFile(how) => return self.choose_popular(run, how),
            Pick::AnyFile(how) => return self.choose_any(run, Sort::File, how),
            Pick::EmptyDirectory(how) => return self.choose_any(run, Sort::EmptyDirectory, how),
            Pick::Root => Object::Directory(0),
            Pick::Symlink => {
                let index = run.objects.below(set.symlinks().len() as u64);
                Object::Symlink(index as usize)
            }
            Pick::Directory => match set.directory_popularity() {
                Some(popularity) => {
                    let (class, index) = popularity.draw(&mut run.objects);
                    self.counts.directory(class);
                    Object::Directory(index as usize)
                }
                None => Object::Directory(0),
            },
        };
        run.object = set.number(object);
    }

    fn choose_popular(&self, run: &mut ChainRun, how: Use) {
        let set = self.roster.set();
        let Some(popularity) = set.file_popularity() else {
            return; // refused when the chain was made
        };
        let last = Cell::new((0, 0));
        let draw = || {
            last.set(popularity.draw(&mut run.objects));
            let (class, index) = last.get();
            let size = set.files()[index as usize].size;
            self.counts.file_drawn(class, size);
            index
        };
        let chosen = (self.roster.files()).choose(how, draw, || self.counts.repeated_draw());
        let (class, index) = last.get();
        match chosen {
            Some((chosen, _)) if chosen == index => self.counts.file_chosen(class),
            Some(_) => self.counts.searched(),
            None => {}
        }
        let sort = Sort::File;
        self.hold(run, Held { sort, index, how }, chosen);
    }

    fn choose_any(&self, run: &mut ChainRun, sort: Sort, how: Use) {
        let states = self.states(sort);
        let chosen = states.choose_any(how, &mut run.objects);
        let index = run.objects.below(states.len() as u64) as u32;
        self.hold(run, Held { sort, index, how }, chosen);
    }

    /// Makes the chosen object the chain's. If there is none, the one `wanted` is used without being acquired: the
    /// server reports what is wrong with it.
    fn hold(&self, run: &mut ChainRun, wanted: Held, chosen: Option<(u32, State)>) {
        let (index, state) = chosen.unwrap_or_else(|| {
            self.counts.unavailable();
            (wanted.index, self.states(wanted.sort).state(wanted.index))
        });
        run.held = chosen.map(|_| Held { index, ..wanted });
        run.renamed = state.renamed && state.present;
        let object = match wanted.sort {
            Sort::EmptyDirectory => Object::EmptyDirectory(index as usize),
            _ => Object::File(index as usize),
        };
        run.object = self.roster.set().number(object);
    }

    /// Sets offset and length of the transfer of a step.
    fn prepare(&self, run: &mut ChainRun, kind: Kind, transfer: &Transfer) {
        let Object::File(file) = self.roster.set().object(run.object) else {
            return; // transfers are of files
        };
        let states = self.roster.files();
        let size = states.state(file as u32).size;
        let bytes = match &transfer.size {
            Some((sizes, place)) => {
                let bytes = sizes.draw(&mut run.sizes);
                self.counts.transfer(*place, bytes);
                bytes
            }
            // An empty file takes one read to be known as empty.
            None if kind == Kind::Read && size == 0 => self.piece,
            None if kind == Kind::Read => size,
            None => self.roster.set().files()[file].size,
        };
        run.left = bytes.clamp(1, FileAddress::BYTES - 1);
        run.offset = match transfer.location {
            StepLocation::Start => 0,
            StepLocation::Random => {
                let places = size.saturating_sub(run.left) / self.piece + 1;
                run.sizes.below(places) * self.piece
            }
            StepLocation::End if kind == Kind::Read => size.saturating_sub(run.left),
            StepLocation::End if run.held.is_some() => states.append(file as u32, run.left),
            StepLocation::End => size.min(FileAddress::BYTES - 1 - run.left),
        };
        if kind != Kind::Read && run.held.is_some() {
            states.grow(file as u32, run.offset + run.left);
        }
    }

    /// Returns the operation of the current step, or the next piece of its transfer.
    fn operation(&self, run: &ChainRun, at: Nanos) -> Operation {
        let step = self.step(run);
        let (offset, size) = match step.transfer {
            Some(_) => (run.offset, run.left.min(self.piece)),
            None => (0, 0),
        };
        let address = FileAddress {
            object: run.object,
            renamed: run.renamed,
            offset,
        };
        Operation {
            at,
            offset: address.pack(),
            size: size as u32,
            kind: step.kind,
            notify: true,
            tag: 0,
        }
    }

    /// Returns the next operation of a chain after the end of the previous one; None if the chain is over.
    fn go_on(&self, run: &mut ChainRun, ended: &Completion) -> Option<Operation> {
        let step = self.step(run);
        run.operations += 1;
        if step.kind == Kind::Close {
            run.opened = false;
        }
        if ended.result < 0 {
            run.failed = true;
        } else {
            self.succeeded(run, step.kind);
            if step.transfer.is_some() {
                let piece = run.left.min(self.piece);
                run.offset += piece;
                run.left -= piece;
                if run.left > 0 {
                    self.wrap(run, step.kind);
                    return Some(self.operation(run, ended.at));
                }
            }
        }
        let rest = &self.chains[usize::from(run.chain)].steps[usize::from(run.step) + 1..];
        let skipped = if !run.failed {
            (!rest.is_empty()).then_some(0)
        } else if run.opened {
            // What was opened is closed.
            let same = rest.iter().take_while(|step| step.pick == Pick::Same);
            same.map(|step| step.kind)
                .position(|kind| kind == Kind::Close)
        } else {
            None
        };
        if let Some(skipped) = skipped {
            run.step += 1 + skipped as u16;
            self.enter(run);
            return Some(self.operation(run, ended.at));
        }
        self.release(run);
        run.ended = Some(ended.at);
        None
    }

    /// Lets a read of more bytes than the file has begin again at its start: the number of operations follows from the
    /// table of sizes, not from the files.
    fn wrap(&self, run: &mut ChainRun, kind: Kind) {
        if kind != Kind::Read {
            return;
        }
        if let Object::File(file) = self.roster.set().object(run.object)
            && run.offset >= self.roster.files().state(file as u32).size
        {
            run.offset = 0;
        }
    }

    /// Stores the effect of an operation that succeeded.
    fn succeeded(&self, run: &mut ChainRun, kind: Kind) {
        if kind == Kind::Open {
            run.opened = true;
        }
        let Some(held) = run.held.filter(|held| held.how != Use::Shared) else {
            return;
        };
        let states = self.states(held.sort);
        let mut state = states.state(held.index);
        match kind {
            Kind::Create | Kind::Mkdir => (state.present, state.size) = (true, 0),
            Kind::Remove | Kind::Rmdir => {
                (state.present, state.size, state.renamed) = (false, 0, false);
            }
            Kind::Rename => state.renamed = !state.renamed,
            _ => return,
        }
        run.renamed = state.renamed;
        states.set(held.index, state);
    }

    fn sequence_of(&self, run: &ChainRun) -> SequenceEnd {
        SequenceEnd {
            chain: self.chains[usize::from(run.chain)].index,
            outcome: match (run.ended, run.failed) {
                (None, _) => SequenceOutcome::Unfinished,
                (Some(_), true) => SequenceOutcome::Failed,
                (Some(_), false) => SequenceOutcome::Completed,
            },
            operations: run.operations,
            intended: run.intended,
            ended: run.ended.unwrap_or(Nanos::NEVER),
        }
    }
}

impl SessionPattern for Chains {
    type Session = ChainRun;

    fn begin(&mut self, number: u64, at: Nanos) -> (ChainRun, Operation) {
        Self::begin(self, number, at)
    }

    fn go_on(&mut self, run: &mut ChainRun, ended: &Completion) -> Option<Operation> {
        Self::go_on(self, run, ended)
    }

    fn sequence(&self, run: &ChainRun) -> Option<SequenceEnd> {
        Some(self.sequence_of(run))
    }
}

/// The numbers of a user's chains.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    /// The number of its next chain.
    pub next: u64,
    /// How many users there are: as if they took turns.
    pub users: u64,
}

/// A user of a closed loop: the next chain starts some time after the end of one.
#[derive(Debug)]
pub(crate) struct FileUser {
    chains: Arc<Chains>,
    think: Option<Arc<Distribution>>,
    pause: Stream,
    turns: Turns,
    run: Option<ChainRun>,
}

impl FileUser {
    /// Returns a user who thinks for a time drawn from `think` [ns] with `pause` after each chain.
    #[must_use]
    pub(crate) fn new(
        chains: Arc<Chains>,
        think: Option<Arc<Distribution>>,
        pause: Stream,
        turns: Turns,
    ) -> Self {
        Self {
            chains,
            think,
            pause,
            turns,
            run: None,
        }
    }

    fn begin(&mut self, at: Nanos, emit: &mut Emissions) {
        let (run, first) = self.chains.begin(self.turns.next, at);
        self.turns.next += self.turns.users;
        self.run = Some(run);
        emit.operations.push(first);
    }
}

impl Filament for FileUser {
    fn wake(&mut self, event: Event, emit: &mut Emissions) {
        match event {
            Event::Start => self.begin(Nanos::ZERO, emit),
            Event::Completed(ended) => {
                let Some(run) = &mut self.run else { return };
                if let Some(operation) = self.chains.go_on(run, &ended) {
                    emit.operations.push(operation);
                    return;
                }
                emit.sequences.push(self.chains.sequence_of(run));
                let think = (self.think.as_ref()).map_or(0, |think| think.draw(&mut self.pause));
                self.begin(ended.at + Nanos(think), emit);
            }
            Event::Timer { .. } | Event::Message { .. } => {}
        }
    }

    fn unfinished(&self, end: Nanos, sequences: &mut Vec<SequenceEnd>) {
        let run = self.run.as_ref().map(|run| self.chains.sequence_of(run));
        sequences.extend(run.and_then(|run| run.cut_short(end)));
    }
}
