//! Builds the filaments of one worker from the description of a workload, and resolves which filament follows which.

use crate::access::{Access, AccessSpec, Numbers};
use crate::arrival::{ArrivalSpec, Arrivals};
use crate::distribution::{Distribution, DistributionSpec};
use crate::filaments::altered::{Alteration, Altered};
use crate::filaments::closed::{Follow, Follower, Leader, User};
use crate::filaments::files::{Chains, FileUser, Turns};
use crate::filaments::open::{Open, OperationSource, Operations, Stride};
use crate::filaments::process::{Companions, Process};
use crate::filaments::sessions::{PartlyOpen, SessionPattern, Sessions};
use crate::filaments::spc1::{self, Bsu};
use crate::filaments::tpcb::{self, Client, OpenBank};
use crate::filaments::{Filament, FilamentId};
use crate::file_counts::{FileCounts, RunFiles};
use crate::random::Stream;
use crate::rate::RateSpec;
use crate::replay::Placed;
use crate::workload::{
    ClosedSpec, FilamentSpec, FilesSpec, FollowSpec, OpenSpec, PartlyOpenSpec, Placement, Problem,
    Spc1Spec, TpcbSpec, TraceSpec, WorkloadError, WorkloadSpec, whole,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The filaments of one worker.
pub struct Built {
    /// The filaments with their ids, in ascending order.
    pub filaments: Vec<Placed>,
    /// How often a source had nothing ready although everything before was due. Read it at the end.
    pub starved: Arc<AtomicU64>,
}

/// Opens a trace: returns the whole sequence of its operations, for this worker alone.
type Sources<'a, T> = &'a mut dyn FnMut(&T) -> Result<Box<dyn OperationSource>, String>;

/// The purpose of a filament's random stream.
#[derive(Clone, Copy)]
enum StreamPurpose {
    Arrival,
    Access,
    Pause,
    Own,
}

/// An entry of the list: its ids and its followers.
#[derive(Clone, Copy)]
struct Site<'a> {
    /// The entry's index in the list.
    place: usize,
    first: FilamentId,
    count: u32,
    followers: &'a [Follower],
}

impl<T> WorkloadSpec<T> {
    /// Returns the filaments of one worker for a target of this extent. `sources` is called for each trace that has a
    /// part here.
    ///
    /// # Errors
    /// All errors in the workload, each with its filament.
    pub fn build<'a>(
        &self,
        placement: Placement,
        extent: impl Into<Extent<'a>>,
        sources: Sources<'_, T>,
    ) -> Result<Built, WorkloadError> {
        if self.filaments.is_empty() {
            return Err(whole("no filament: give at least one".into()));
        }
        let ids = self.ids()?;
        let followers = self.followers()?;
        let extent = extent.into();
        let mut builder = Builder {
            seed: self.seed,
            filaments: ids.last().map_or(0, |ids| ids.end.into()),
            placement,
            target_bytes: extent.bytes,
            files: extent.files.map(|files| (files, files.counts())),
            processes: extent.processes,
            built: Built {
                filaments: Vec::new(),
                starved: Arc::default(),
            },
        };
        let mut problems = Vec::new();
        for (place, filament) in self.filaments.iter().enumerate() {
            let site = Site {
                place,
                first: ids[place].start,
                count: ids[place].end - ids[place].start,
                followers: &followers[place],
            };
            let own = extent.each.and_then(|each| each.get(place));
            builder.target_bytes = own.unwrap_or(&extent).bytes;
            if let Err(message) = builder.add(filament, site, sources) {
                problems.push(self.problem(place, message));
            }
        }
        if problems.is_empty() {
            Ok(builder.built)
        } else {
            Err(WorkloadError(problems))
        }
    }

    pub(super) fn problem(&self, place: usize, message: String) -> Problem {
        Problem {
            place: Some(place),
            name: self.filaments[place].name().map(str::to_owned),
            message,
        }
    }
}

/// What filaments find on their target.
#[derive(Clone, Copy, Debug)]
pub struct Extent<'a> {
    /// Its size [bytes]; of a network target: number of paths.
    pub bytes: u64,
    /// Its file set.
    pub files: Option<&'a RunFiles>,
    /// Of several targets: what each filament of the list finds instead.
    pub each: Option<&'a [Extent<'a>]>,
    /// The processes of filaments of type `process`.
    pub processes: Option<&'a dyn Companions>,
}

impl From<u64> for Extent<'_> {
    fn from(bytes: u64) -> Self {
        Self {
            bytes,
            files: None,
            each: None,
            processes: None,
        }
    }
}

/// Builds the filaments of one worker.
struct Builder<'a> {
    seed: u64,
    /// Number of filaments of the workload.
    filaments: u64,
    placement: Placement,
    target_bytes: u64,
    files: Option<(&'a RunFiles, Arc<FileCounts>)>,
    processes: Option<&'a dyn Companions>,
    built: Built,
}

impl Builder<'_> {
    fn add<T>(
        &mut self,
        filament: &FilamentSpec<T>,
        site: Site<'_>,
        sources: Sources<'_, T>,
    ) -> Result<(), String> {
        match filament {
            FilamentSpec::Open(spec) => self.open(spec, site),
            FilamentSpec::Closed(spec) => self.users(spec, site),
            FilamentSpec::PartlyOpen(spec) => self.partly_open(spec, site),
            FilamentSpec::Follow(spec) => self.follow(spec, site),
            FilamentSpec::Tpcb(spec) => self.bank(spec, site),
            FilamentSpec::Spc1(spec) => self.bsus(spec, site),
            FilamentSpec::Files(spec) => self.files(spec, site),
            FilamentSpec::Trace(spec) => self.trace(spec, site, sources),
            FilamentSpec::Process(_) => self.process(site),
        }
    }

    fn open(&mut self, spec: &OpenSpec, site: Site<'_>) -> Result<(), String> {
        let arrivals = self.arrivals(&spec.arrival, &spec.rate, site.first)?;
        let access = self.access(&spec.access, site.first)?;
        let source = Open::new(arrivals, access, spec.count);
        if let Some(stride) = self.part(site) {
            self.play(source, stride, site, None);
        }
        Ok(())
    }

    fn users(&mut self, spec: &ClosedSpec, site: Site<'_>) -> Result<(), String> {
        at_least_one("users", u64::from(spec.users))?;
        let think = Arc::new(distribution("think", &spec.think)?);
        let access = self.access(&spec.access, site.first)?;
        for id in self.homed(site) {
            let access = access
                .with_stream(self.stream(id, StreamPurpose::Access))
                .numbered(self.numbers(id));
            let pause = self.stream(id, StreamPurpose::Pause);
            self.place(id, site, User::new(Arc::clone(&think), access, pause));
        }
        Ok(())
    }

    fn partly_open(&mut self, spec: &PartlyOpenSpec, site: Site<'_>) -> Result<(), String> {
        let arrivals = self.arrivals(&spec.arrival, &spec.rate, site.first)?;
        let pattern = PartlyOpen {
            requests: distribution("requests", &spec.requests)?,
            think: distribution("think", &spec.think)?,
            access: self.access(&spec.access, site.first)?,
            seed: self.own_seed(site.first),
        };
        self.begin(arrivals, None, pattern, site);
        Ok(())
    }

    fn follow(&mut self, spec: &FollowSpec, site: Site<'_>) -> Result<(), String> {
        at_least_one("every", spec.every)?;
        let delay = distribution("delay", &spec.delay)?;
        let access = self.access(&spec.access, site.first)?;
        let pause = self.stream(site.first, StreamPurpose::Pause);
        if self.placement.is_home(site.first) {
            self.place(site.first, site, Follow::new(delay, access, pause));
        }
        Ok(())
    }

    fn bank(&mut self, spec: &TpcbSpec, site: Site<'_>) -> Result<(), String> {
        let layout = tpcb::TpcbLayout::new(spec.scale, spec.region, self.target_bytes)?;
        if let Some(rate) = &spec.rate {
            let arrivals = self.arrivals(&ArrivalSpec::Poisson {}, rate, site.first)?;
            let seed = self.own_seed(site.first);
            self.begin(arrivals, None, OpenBank { layout, seed }, site);
            return Ok(());
        }
        let clients = u64::from(spec.clients);
        at_least_one("clients", clients)?;
        for id in self.homed(site) {
            let client = u64::from(id - site.first);
            let stream = self.stream(id, StreamPurpose::Access);
            self.place(id, site, Client::new(layout, client, clients, stream));
        }
        Ok(())
    }

    fn bsus(&mut self, spec: &Spc1Spec, site: Site<'_>) -> Result<(), String> {
        at_least_one("bsus", u64::from(spec.bsus))?;
        let layout = spc1::Spc1Layout::new(spec.region, self.target_bytes)?;
        for id in self.homed(site) {
            let bsu = Bsu::new(&layout, self.own_seed(id))?;
            self.play(bsu, Stride::WHOLE, Site { first: id, ..site }, None);
        }
        Ok(())
    }

    fn files(&mut self, spec: &FilesSpec, site: Site<'_>) -> Result<(), String> {
        let Some((files, counts)) = &self.files else {
            return Err("files: the workload has no file_set: describe one".into());
        };
        let seed = self.own_seed(site.first);
        let roster = Arc::clone(files.roster());
        let chains = Chains::new(
            spec,
            roster,
            Arc::clone(counts),
            files.chain_place(site.place),
            seed,
        )?;
        match (&spec.arrival, &spec.rate, spec.users) {
            (Some(arrival), Some(rate), None) if spec.think.is_none() => {
                let arrivals = self.arrivals(arrival, rate, site.first)?;
                self.begin(arrivals, spec.count, chains, site);
            }
            (None, None, Some(users)) if spec.count.is_none() => {
                at_least_one("users", users.into())?;
                let think = (spec.think.as_ref()).map(|think| distribution("think", think));
                let think = think.transpose()?.map(Arc::new);
                let chains = Arc::new(chains);
                for id in self.homed(site) {
                    let pause = self.stream(id, StreamPurpose::Pause);
                    let turns = Turns {
                        next: u64::from(id - site.first),
                        users: u64::from(users),
                    };
                    let user = FileUser::new(Arc::clone(&chains), think.clone(), pause, turns);
                    self.place(id, site, user);
                }
            }
            _ => {
                return Err(
                    "files: give arrival and rate (open, with count if wanted) or users (closed, with think if wanted)"
                        .into(),
                );
            }
        }
        Ok(())
    }

    fn trace<T>(
        &mut self,
        spec: &TraceSpec<T>,
        site: Site<'_>,
        sources: Sources<'_, T>,
    ) -> Result<(), String> {
        let alteration = self.alteration(spec, site.first)?;
        if let Some(stride) = self.part(site) {
            let source = sources(&spec.input)?;
            let numbers = Some(self.numbers(site.first));
            match alteration {
                None => self.play(source, stride, site, numbers),
                Some(alteration) => {
                    self.play(Altered::new(source, alteration), stride, site, numbers);
                }
            }
        }
        Ok(())
    }

    fn process(&mut self, site: Site<'_>) -> Result<(), String> {
        if self.placement.is_home(site.first) {
            let companion = self.processes.and_then(|all| all.take(site.first));
            let companion = companion.ok_or("its process was not started before the run")?;
            self.place(site.first, site, Process::new(companion));
        }
        Ok(())
    }

    /// Returns how the times of a trace are altered; None if they are not.
    fn alteration<T>(
        &self,
        spec: &TraceSpec<T>,
        id: FilamentId,
    ) -> Result<Option<Alteration>, String> {
        if spec.delay.is_none() && spec.quantize_ns.is_none() {
            return Ok(None);
        }
        let quantum = spec.quantize_ns.unwrap_or(1);
        at_least_one("quantize_ns", quantum)?;
        let delay = (spec.delay.as_ref()).map(|delay| distribution("delay", delay));
        let stream = self.stream(id, StreamPurpose::Pause);
        Ok(Some(Alteration {
            delay: delay.transpose()?.map(|delay| (delay, stream)),
            quantum,
        }))
    }

    /// Returns the part of a divisible filament that lives here. A filament with followers is not
    /// split, since each part would count its own N-th operation.
    fn part(&self, site: Site<'_>) -> Option<Stride> {
        if site.followers.is_empty() {
            return Some(self.placement.stride());
        }
        (self.placement.is_home(site.first)).then_some(Stride::WHOLE)
    }

    /// Returns the ids of an entry that live here.
    fn homed(&self, site: Site<'_>) -> impl Iterator<Item = FilamentId> + use<> {
        let placement = self.placement;
        (site.first..site.first + site.count).filter(move |&id| placement.is_home(id))
    }

    fn play(
        &mut self,
        source: impl OperationSource + 'static,
        stride: Stride,
        site: Site<'_>,
        numbers: Option<Numbers>,
    ) {
        let starved = Arc::clone(&self.built.starved);
        let filament = Operations::new(source, stride, starved).numbered(numbers);
        self.place(site.first, site, filament);
    }

    fn begin(
        &mut self,
        arrivals: Arrivals,
        count: Option<u64>,
        pattern: impl SessionPattern + 'static,
        site: Site<'_>,
    ) {
        if let Some(stride) = self.part(site) {
            let filament = Sessions::new(arrivals, pattern, stride, count);
            self.place(site.first, site, filament);
        }
    }

    fn place(&mut self, id: FilamentId, site: Site<'_>, filament: impl Filament + 'static) {
        let filament: Box<dyn Filament> = Box::new(filament);
        let filament = if site.followers.is_empty() {
            filament
        } else {
            Box::new(Leader::new(filament, site.followers.to_vec()))
        };
        self.built.filaments.push((id, filament));
    }

    fn stream(&self, id: FilamentId, purpose: StreamPurpose) -> Stream {
        Stream::new(self.seed, u64::from(id) << 8 | purpose as u64)
    }

    /// Returns the numbers of the exchanges of a filament.
    fn numbers(&self, id: FilamentId) -> Numbers {
        Numbers {
            next: id.into(),
            step: self.filaments,
        }
    }

    /// Returns a seed for the sessions, transactions or BSU streams of a filament.
    fn own_seed(&self, id: FilamentId) -> u64 {
        self.stream(id, StreamPurpose::Own).next_u64()
    }

    fn arrivals(
        &self,
        arrival: &ArrivalSpec,
        rate: &RateSpec,
        id: FilamentId,
    ) -> Result<Arrivals, String> {
        Arrivals::new(arrival, rate, self.stream(id, StreamPurpose::Arrival))
    }

    fn access(&self, access: &AccessSpec, id: FilamentId) -> Result<Access, String> {
        let stream = self.stream(id, StreamPurpose::Access);
        let access = Access::new(access, self.target_bytes, stream)?;
        Ok(access.numbered(self.numbers(id)))
    }
}

fn distribution(field: &str, spec: &DistributionSpec) -> Result<Distribution, String> {
    Distribution::new(spec).map_err(|message| format!("{field}: {message}"))
}

fn at_least_one(field: &str, value: u64) -> Result<(), String> {
    if value == 0 {
        return Err(format!("{field} is 0: give at least 1"));
    }
    Ok(())
}

impl<T> WorkloadSpec<T> {
    /// Returns the index of each name.
    fn names(&self) -> Result<HashMap<&str, usize>, Problem> {
        let mut names = HashMap::new();
        for (place, filament) in self.filaments.iter().enumerate() {
            let Some(name) = filament.name() else {
                continue;
            };
            if let Some(other) = names.insert(name, place) {
                let message = format!("filaments[{other}] has the same name: names must differ");
                return Err(self.problem(place, message));
            }
        }
        Ok(names)
    }

    /// Returns the followers of each filament.
    pub(super) fn followers(&self) -> Result<Vec<Vec<Follower>>, WorkloadError> {
        let names = self
            .names()
            .map_err(|problem| WorkloadError(vec![problem]))?;
        let ids = self.ids()?;
        let mut followers = vec![Vec::new(); self.filaments.len()];
        let mut leaders = vec![None; self.filaments.len()];
        let mut problems = Vec::new();
        for (place, filament) in self.filaments.iter().enumerate() {
            let FilamentSpec::Follow(FollowSpec { leader, every, .. }) = filament else {
                continue;
            };
            let Some(&at) = names.get(leader.as_str()) else {
                let message = format!("leader {leader:?} is not the name of a filament: name one");
                problems.push(self.problem(place, message));
                continue;
            };
            leaders[place] = Some(at);
            let id = ids[place].start;
            // Zero is refused when the follower itself is built.
            let every = (*every).max(1);
            followers[at].push(Follower { id, every });
        }
        problems.extend(self.circles(&leaders));
        if problems.is_empty() {
            Ok(followers)
        } else {
            Err(WorkloadError(problems))
        }
    }

    /// Returns the errors of filaments that wait for themselves: they would never start.
    fn circles(&self, leaders: &[Option<usize>]) -> Vec<Problem> {
        let in_circle = |&place: &usize| {
            let mut ahead = leaders[place];
            for _ in 0..leaders.len() {
                match ahead {
                    Some(next) if next != place => ahead = leaders[next],
                    other => return other == Some(place),
                }
            }
            false
        };
        (0..leaders.len())
            .filter(in_circle)
            .map(|place| {
                let message = "it waits for itself, through its leaders: nothing would ever start";
                self.problem(place, message.into())
            })
            .collect()
    }
}
