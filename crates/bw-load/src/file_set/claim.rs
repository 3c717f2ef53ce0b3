//! The claim of one run on the folder of a file set, so that two runs never change one set at a time.
//!
//! The claim is the file `lock.json` in the folder. It is made exclusively (O_EXCL, CREATE of NFS with GUARDED), names
//! its holder (host, boot, process, when), and is renewed every ten seconds by a thread of the engine. Another run that
//! finds it decides so:
//!
//! - The holder ran on this host, in this boot and namespace of process ids: it is dead if its process is.
//! - Otherwise the file is watched for thirty seconds. If it changes, its holder lives. No clocks are compared, and a
//!   server that does not answer meanwhile begins the thirty seconds anew.
//!
//! A live holder is named in the error. The claim of a dead one is removed by the run that first makes the file
//! `lock.takeover`, which reads the claim again before. A holder that finds another claim in place of its own (it was
//! stopped for longer) ends its run with an error.
//!
//! Decision: a file and renewals, because flock(2) and the locks of NFS (NLM) are not available everywhere, and do not
//! say who holds them. Rejected: times of the file or of clocks, which differ between hosts.

use crate::file_set::store::{EntryKind, Store};
use bw_model::Date;
use bw_sys::procfs;
use rand_core::Rng;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

/// The file that names the holder.
pub(crate) const LOCK: &str = "lock.json";
/// The file of the run that removes the claim of a dead one.
pub(crate) const TAKEOVER: &str = "lock.takeover";
const SCHEMA: &str = "benchwright-file-set-lock/1";
/// Length of the file [bytes], so that a renewal replaces all of it.
const LOCK_BYTES: usize = 512;
/// How often a claim is attempted, after others came or went meanwhile.
const ATTEMPTS: usize = 3;
/// How long a call for a renewal or the release may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The keys of the claims that this process holds.
static HELD: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Whether another run has taken over a claim of this process.
static LOST: AtomicBool = AtomicBool::new(false);

/// Returns whether another run has taken over a claim of this process.
pub(crate) fn is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// How often a claim is renewed, and how long one is watched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    renewal: Duration,
    watch: Duration,
    look: Duration,
}

impl Pace {
    /// Three renewals fit into a watch.
    pub(crate) const REAL: Self = Self {
        renewal: Duration::from_secs(10),
        watch: Duration::from_secs(30),
        look: Duration::from_secs(1),
    };
}

/// Who holds a claim: the contents of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    schema: String,
    host: String,
    boot: String,
    /// The namespace of process ids.
    namespace: String,
    pid: u32,
    /// When the process started [clock ticks since the boot].
    started: u64,
    /// When the claim was made [s since 1970].
    since: u64,
    key: String,
    renewals: u64,
}

impl Holder {
    fn own() -> Self {
        let pid = std::process::id();
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let mut random = SplitMix64::seed_from_u64(
            bw_sys::clock::realtime_ns() ^ u64::from(pid).rotate_left(32) ^ {
                bw_sys::clock::monotonic_ns().rotate_left(17)
            },
        );
        let of_kernel = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Self {
            schema: SCHEMA.to_owned(),
            host: of_kernel("/proc/sys/kernel/hostname").trim().to_owned(),
            boot: of_kernel("/proc/sys/kernel/random/boot_id")
                .trim()
                .to_owned(),
            namespace: namespace.to_string_lossy().into_owned(),
            pid,
            started: started(pid).unwrap_or_default(),
            since: since.as_secs(),
            key: format!("{:016x}", random.next_u64()),
            renewals: 0,
        }
    }

    fn read(text: &[u8]) -> Option<Self> {
        let holder: Self = serde_json::from_slice(text.trim_ascii()).ok()?;
        (holder.schema == SCHEMA).then_some(holder)
    }

    /// Returns whether the holder lives; None if that cannot be known here.
    fn lives(&self) -> Option<bool> {
        let here = Self::own();
        if (&self.boot, &self.namespace) != (&here.boot, &here.namespace) || self.boot.is_empty() {
            return None;
        }
        if (self.pid, self.started) == (here.pid, here.started) {
            return Some(held().contains(&self.key));
        }
        Some(started(self.pid) == Some(self.started))
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pid, host) = (self.pid, &self.host);
        write!(formatter, "process {pid} on {host}, since ")?;
        write!(formatter, "{}", utc(self.since))
    }
}

fn held() -> std::sync::MutexGuard<'static, Vec<String>> {
    // A panic ends the process, so no lock is ever poisoned.
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns when a process started [clock ticks since the boot]; None if there is none.
fn started(pid: u32) -> Option<u64> {
    let found = procfs::identify(pid.cast_signed())?;
    (!found.gone).then_some(found.started)
}

/// Returns a time in seconds since 1970 as a date and time.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let Date { year, month, day } = Date::after_1970(days);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!(
        "{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02} UTC",
        second % 60
    )
}

/// Why there is no claim.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// A run holds it; which one, if that is known.
    InUse(Option<Box<Holder>>),
    Failed(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// A claim. It ends with this value.
#[derive(Debug)]
pub struct Claim {
    /// The keeper ends when this is closed; None: a run that only reads, where it may not write.
    keeper: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.keeper.take() {
            drop(stop);
            // A panic ends the process.
            let _ = thread.join();
        }
    }
}

/// Claims the folder for a run that changes the set, or only reads it.
///
/// # Errors
/// Another run holds it; the file cannot be made.
pub(crate) fn take<S: Store>(
    mut store: S,
    folder: &S::Open,
    changes: bool,
    pace: Pace,
) -> Result<Claim, Refusal> {
    for _ in 0..ATTEMPTS {
        let denied = match store.create(folder, LOCK) {
            Ok(file) => {
                let holder = Holder::own();
                held().push(holder.key.clone());
                let mut keeper = Keeper {
                    store,
                    folder: folder.clone(),
                    file,
                    holder,
                };
                match keeper.write() {
                    // The repair of the set makes room, and a renewal then writes it.
                    Err(error)
                        if matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT)) => {}
                    Err(error) => {
                        keeper.release();
                        return Err(error.into());
                    }
                    Ok(()) => {}
                }
                let (stop, stopped) = channel();
                let thread = thread::spawn(move || keeper.keep(&stopped, pace));
                return Ok(Claim {
                    keeper: Some((stop, thread)),
                });
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) if !changes && is_denied(&error) => true,
            Err(error) => return Err(error.into()),
        };
        let standing = match read(&mut store, folder)? {
            Some(text) => standing(&mut store, folder, text, pace)?,
            None => Standing::Gone,
        };
        match standing {
            Standing::Alive(holder) => return Err(Refusal::InUse(holder)),
            _ if denied => return Ok(Claim { keeper: None }),
            Standing::Dead(text) => remove_dead(&mut store, folder, &text, pace)?,
            Standing::Gone => {}
        }
    }
    Err(Refusal::InUse(None))
}

fn is_denied(error: &io::Error) -> bool {
    let denied = [libc::EACCES, libc::EPERM, libc::EROFS];
    error
        .raw_os_error()
        .is_some_and(|errno| denied.contains(&errno))
}

/// Returns the contents of the lock; None if there is none.
fn read<S: Store>(store: &mut S, folder: &S::Open) -> io::Result<Option<Vec<u8>>> {
    let is_gone =
        |error: &io::Error| matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESTALE));
    let Some(entry) = store.entry(folder, LOCK)? else {
        return Ok(None);
    };
    let mut text = vec![0; LOCK_BYTES];
    let length = (store.open(folder, &entry)).and_then(|file| store.read(&file, 0, &mut text));
    match length {
        Ok(length) => {
            text.truncate(length);
            Ok(Some(text))
        }
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns who holds the claim on a folder, if that can be read.
pub(crate) fn holder<S: Store>(store: &mut S, folder: &S::Open) -> Option<Holder> {
    let text = read(store, folder).ok().flatten()?;
    Holder::read(&text)
}

/// What another run's claim is worth.
#[derive(Debug)]
enum Standing {
    Alive(Option<Box<Holder>>),
    /// With the contents that were judged.
    Dead(Vec<u8>),
    Gone,
}

/// Judges a claim by its contents, or watches it.
fn standing<S: Store>(
    store: &mut S,
    folder: &S::Open,
    text: Vec<u8>,
    pace: Pace,
) -> io::Result<Standing> {
    let holder = Holder::read(&text).map(Box::new);
    match holder.as_ref().and_then(|holder| holder.lives()) {
        Some(true) => return Ok(Standing::Alive(holder)),
        Some(false) => return Ok(Standing::Dead(text)),
        None => {}
    }
    let mut begun = Instant::now();
    while begun.elapsed() < pace.watch {
        let before = Instant::now();
        pause(pace.look)?;
        match read(store, folder)? {
            None => return Ok(Standing::Gone),
            Some(now) if now != text => {
                return Ok(Standing::Alive(Holder::read(&now).map(Box::new)));
            }
            Some(_) => {}
        }
        if before.elapsed() > pace.look * 5 {
            begun = Instant::now(); // the server did not answer, so the holder could not renew
        }
    }
    Ok(Standing::Dead(text))
}

fn pause(length: Duration) -> io::Result<()> {
    thread::sleep(length);
    match bw_sys::signals::caught() {
        0 => Ok(()),
        _ => Err(io::ErrorKind::Interrupted.into()),
    }
}

/// Removes a dead run's claim, unless another run does it or has done it.
fn remove_dead<S: Store>(
    store: &mut S,
    folder: &S::Open,
    dead: &[u8],
    pace: Pace,
) -> io::Result<()> {
    match store.create(folder, TAKEOVER) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // It takes moments; what stays was left by a run that died in them.
            let begun = Instant::now();
            while store.entry(folder, TAKEOVER)?.is_some() {
                if begun.elapsed() > pace.watch {
                    return removed(store, folder, TAKEOVER);
                }
                pause(pace.look)?;
            }
            return Ok(());
        }
        made => drop(made?),
    }
    let done = match read(store, folder) {
        Ok(Some(text)) if text == dead => removed(store, folder, LOCK),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    removed(store, folder, TAKEOVER)?;
    done
}

/// Removes a file, which may be gone.
fn removed<S: Store>(store: &mut S, folder: &S::Open, name: &str) -> io::Result<()> {
    match store.remove(folder, name, EntryKind::File) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// What renews a claim and releases it.
struct Keeper<S: Store> {
    store: S,
    folder: S::Open,
    file: S::Open,
    holder: Holder,
}

impl<S: Store> Keeper<S> {
    fn write(&mut self) -> io::Result<()> {
        let mut text = serde_json::to_vec(&self.holder)?;
        text.resize(LOCK_BYTES.max(text.len()), b' ');
        self.store.write(&self.file, 0, &text)
    }

    /// Returns whether the claim is still this one.
    fn is_own(&mut self) -> io::Result<bool> {
        let text = read(&mut self.store, &self.folder)?;
        Ok(text.is_some_and(|text| match Holder::read(&text) {
            Some(holder) => holder.key == self.holder.key,
            // There was no room for the contents.
            None => text.is_empty(),
        }))
    }

    /// Renews the claim until `stopped` is closed; then releases it.
    fn keep(mut self, stopped: &Receiver<()>, pace: Pace) {
        // A call of the run waits longer for its server than the end of a run should.
        let mut reached = self.store.renew(PATIENCE).is_ok();
        while stopped.recv_timeout(pace.renewal) == Err(RecvTimeoutError::Timeout) {
            self.holder.renewals += 1;
            let renewed = match reached || self.store.renew(PATIENCE).is_ok() {
                false => Err(io::ErrorKind::NotConnected.into()),
                true => self.is_own().and_then(|own| {
                    if own {
                        self.write()?;
                    }
                    Ok(own)
                }),
            };
            reached = renewed.is_ok();
            if let Ok(false) = renewed {
                LOST.store(true, Ordering::Relaxed);
                break;
            }
        }
        if reached {
            self.release();
        }
        held().retain(|key| *key != self.holder.key);
    }

    /// Removes the claim if it is this one. Where that fails, the next run removes it.
    fn release(&mut self) {
        if let Ok(true) = self.is_own() {
            let _ = removed(&mut self.store, &self.folder, LOCK);
        }
        held().retain(|key| *key != self.holder.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_set::directory::DirectoryStore;
    use std::path::Path;
    use std::sync::Barrier;
    use tempfile::TempDir;

    const FAST: Pace = Pace {
        renewal: Duration::from_millis(20),
        watch: Duration::from_millis(400),
        look: Duration::from_millis(20),
    };

    struct Place(TempDir);

    impl Place {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn take(&self) -> Result<Claim, Refusal> {
            take_at(self.0.path())
        }

        fn write(&self, holder: &Holder) {
            fs::write(
                self.0.path().join(LOCK),
                serde_json::to_vec(holder).unwrap(),
            )
            .unwrap();
        }

        fn names(&self) -> usize {
            fs::read_dir(self.0.path()).unwrap().count()
        }
    }

    fn take_at(path: &Path) -> Result<Claim, Refusal> {
        let mut store = DirectoryStore::new(path);
        let folder = store.top().unwrap();
        take(store, &folder, true, FAST)
    }

    fn foreign() -> Holder {
        Holder {
            host: "elsewhere".into(),
            boot: "another".into(),
            ..Holder::own()
        }
    }

    #[test]
    fn a_second_run_is_refused_with_the_holder_s_name_until_the_first_ends() {
        let place = Place::new();
        let first = place.take().unwrap();
        let Err(Refusal::InUse(Some(holder))) = place.take() else {
            panic!("the second run was not refused");
        };
        let said = holder.to_string();
        assert!(said.starts_with(&format!("process {} on ", std::process::id())));
        drop(first);
        assert_eq!(place.names(), 0);
        drop(place.take().unwrap());
    }

    #[test]
    fn the_claim_of_a_dead_process_of_this_host_is_taken_over() {
        let place = Place::new();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let gone = Holder {
            pid: child.id(),
            started: 1,
            ..Holder::own()
        };
        // A process of the same number that started at another time is another one.
        let reused = Holder {
            started: 1,
            ..Holder::own()
        };
        for dead in [gone, reused] {
            place.write(&dead);
            drop(place.take().unwrap());
            assert_eq!(place.names(), 0);
        }
    }

    #[test]
    fn a_claim_of_another_host_is_watched() {
        let place = Place::new();
        let mut holder = foreign();
        place.write(&holder);
        let path = place.0.path().to_owned();
        let renewing = thread::spawn(move || {
            thread::sleep(FAST.watch / 2);
            holder.renewals += 1;
            fs::write(path.join(LOCK), serde_json::to_vec(&holder).unwrap()).unwrap();
        });
        let Err(Refusal::InUse(Some(found))) = place.take() else {
            panic!("a claim that is renewed was taken over");
        };
        renewing.join().unwrap();
        assert_eq!((found.host.as_str(), found.renewals), ("elsewhere", 1));
        // Nobody renews it any more.
        drop(place.take().unwrap());
        // The file of a holder that died before it wrote its name, and of one that died in a takeover.
        fs::write(place.0.path().join(LOCK), "").unwrap();
        fs::write(place.0.path().join(TAKEOVER), "").unwrap();
        drop(place.take().unwrap());
        assert_eq!(place.names(), 0);
    }

    #[test]
    fn one_of_many_takes_a_dead_claim_over() {
        let place = Place::new();
        for _ in 0..50 {
            place.write(&Holder {
                started: 1,
                ..Holder::own()
            });
            let barrier = Barrier::new(6);
            let winners: usize = thread::scope(|scope| {
                let one = || {
                    barrier.wait();
                    let taken = place.take();
                    barrier.wait();
                    usize::from(taken.is_ok())
                };
                let threads: Vec<_> = (0..6).map(|_| scope.spawn(one)).collect();
                threads.into_iter().map(|one| one.join().unwrap()).sum()
            });
            assert_eq!((winners, place.names()), (1, 0));
        }
    }

    #[test]
    fn a_holder_notices_that_its_claim_is_another_s() {
        let place = Place::new();
        let claim = place.take().unwrap();
        place.write(&foreign());
        let patience = Instant::now() + Duration::from_secs(60);
        while !is_lost() {
            assert!(Instant::now() < patience);
            thread::sleep(FAST.look);
        }
        drop(claim);
        assert_eq!(place.names(), 1, "the other's claim stays");
    }

    #[test]
    fn dates() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_795_424_268, "2026-11-23 08:57:48 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }
}
