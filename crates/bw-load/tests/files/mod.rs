//! Helpers of the file target's tests: directories for files, and a worker without a clock.

use bw_load::file::{Engine, FileSpec, FileTarget, OpenFile, TargetUse, open};
use bw_load::kernel_probe::probe;
use bw_load::target::{Reaped, Target};
use bw_model::{Kind, Nanos, Operation};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir, tempdir_in};

/// A directory that is removed on drop.
pub(crate) struct Place(pub TempDir);

impl Place {
    pub(crate) fn in_directory(parent: &Path) -> Self {
        // The source directory may belong to another user.
        Self(tempdir_in(parent).or_else(|_| tempdir()).unwrap())
    }

    pub(crate) fn new() -> Self {
        Self(tempdir().unwrap())
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Returns the engines that this kernel supports; prints what is skipped.
pub(crate) fn engines() -> Vec<Engine> {
    let rings = probe(&[]).io_uring;
    if rings.available {
        return vec![Engine::IoUring, Engine::Threads];
    }
    writeln!(
        std::io::stderr(),
        "skipped: the io_uring engine: {}",
        rings.absent.join("; ")
    )
    .unwrap();
    vec![Engine::Threads]
}

pub(crate) const WRITES: TargetUse = TargetUse { writes: true };
pub(crate) const READS: TargetUse = TargetUse { writes: false };

/// Returns the spec of a file that is made, or grown, to `size_bytes`.
pub(crate) fn made(path: &Path, engine: Engine, size_bytes: u64) -> FileSpec {
    let mut spec = FileSpec::at(path);
    spec.engine = engine;
    spec.size_bytes = Some(size_bytes);
    spec.threads = 4;
    spec
}

pub(crate) fn target(
    spec: &FileSpec,
    purpose: TargetUse,
    depth: u32,
    largest: u32,
) -> (OpenFile, FileTarget) {
    let file = open(spec, purpose).unwrap();
    let target = file.worker(depth, largest).unwrap();
    (file, target)
}

pub(crate) fn operation(kind: Kind, offset: u64, size: u32) -> Operation {
    let (at, notify, tag) = (Nanos::ZERO, false, 0);
    Operation {
        at,
        offset,
        size,
        kind,
        notify,
        tag,
    }
}

/// Executes `operations`, as many at once as there are slots; returns their results, and
/// for each the bytes that a read returned. Every operation must end exactly once.
pub(crate) fn execute(target: &mut FileTarget, operations: &[Operation]) -> Vec<(i32, Vec<u8>)> {
    let mut free: Vec<u32> = (0..target.capacity()).rev().collect();
    let mut of_slot = vec![usize::MAX; free.len()];
    let mut outcomes = vec![None; operations.len()];
    let mut ends: Vec<Reaped> = Vec::with_capacity(3);
    let mut next = 0;
    while outcomes.iter().any(Option::is_none) {
        while next < operations.len() && !free.is_empty() {
            let slot = free.pop().unwrap();
            of_slot[slot as usize] = next;
            target.submit(slot, &operations[next]);
            next += 1;
        }
        target.flush().unwrap();
        target.reap(&mut ends).unwrap();
        if ends.is_empty() {
            target.wait(Nanos::SECOND).unwrap();
        }
        assert!(ends.len() <= 3, "more ends than there was room for");
        for end in ends.drain(..) {
            let index = std::mem::replace(&mut of_slot[end.slot as usize], usize::MAX);
            let read = operations[index].kind == Kind::Read;
            let size = if read { end.result.max(0) as u32 } else { 0 };
            let data = target.data(end.slot, size).unwrap().to_vec();
            assert!(
                outcomes[index]
                    .replace((i32::try_from(end.result).unwrap(), data))
                    .is_none()
            );
            free.push(end.slot);
        }
    }
    outcomes.into_iter().map(Option::unwrap).collect()
}

/// Returns the result of one operation alone.
pub(crate) fn alone(target: &mut FileTarget, kind: Kind, offset: u64, size: u32) -> i32 {
    execute(target, &[operation(kind, offset, size)])[0].0
}

/// A loop device over a file of zeros, which is removed on drop.
pub(crate) struct LoopDevice(pub String);

impl LoopDevice {
    /// Returns None, and prints the reason, if loop devices are unavailable.
    pub(crate) fn over(image: &Path, bytes: u64) -> Option<Self> {
        std::fs::write(image, vec![0; bytes as usize]).unwrap();
        tool(&["losetup", "--find", "--show", image.to_str().unwrap()]).map(Self)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        tool(&["losetup", "--detach", &self.0]);
    }
}

/// Runs a program of the system; None, and the reason printed, if that is not possible.
pub(crate) fn tool(words: &[&str]) -> Option<String> {
    let output = std::process::Command::new(words[0])
        .args(&words[1..])
        .output();
    match output {
        Ok(output) if output.status.success() => {
            Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Ok(output) => {
            let described = String::from_utf8_lossy(&output.stderr).into_owned();
            writeln!(
                std::io::stderr(),
                "skipped: {}: {}",
                words.join(" "),
                described.trim()
            )
            .unwrap();
            None
        }
        Err(error) => {
            writeln!(std::io::stderr(), "skipped: {}: {error}", words.join(" ")).unwrap();
            None
        }
    }
}
