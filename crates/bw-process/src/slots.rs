//! The slots of processes: the environment and the log files for each mode and thread, made once per run
//! so that an epoch allocates and opens nothing.
//!
//! Source: docs/launcher-protocol.md, "Environment of each process" and "Logs".

use crate::output::{OutputState, Sink, Stream};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Variables that only this program sets; values of an outer trial are not inherited.
const OURS: [&str; 9] = [
    "APMODE",
    "APEPOCH",
    "THREADS",
    "APTHREAD",
    "APLOG",
    "APIPCKEY",
    "BW_BARRIER",
    "BW_HOOKS",
    "BW_HOOK_STATE",
];
const EPOCH_BYTES: usize = 32;

/// `APEPOCH=N`, terminated by null; changes while environments point to it.
type EpochVariable = Rc<[Cell<u8>; EPOCH_BYTES]>;

/// The variables that all processes of a run have in common. `Rc` instead of `CString` and `Box` for the reason that
/// [`Program`](crate::spawn::Program) gives.
#[derive(Debug)]
pub(crate) struct BaseEnvironment {
    common: Vec<Rc<CStr>>,
    path: String,
    epoch: EpochVariable,
}

impl BaseEnvironment {
    /// Returns the launcher's own environment and `added`. Errors: a NUL byte.
    pub(crate) fn new(added: &[(String, String)]) -> io::Result<Self> {
        let mut variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        for (name, value) in added {
            variables.insert(name.into(), value.into());
        }
        for name in OURS {
            variables.remove(std::ffi::OsStr::new(name));
        }
        let path = variables.get(std::ffi::OsStr::new("PATH"));
        let path = path.map_or("/usr/local/bin:/usr/bin:/bin".into(), |p| {
            p.to_string_lossy()
        });
        Ok(Self {
            path: path.into_owned(),
            common: variables
                .into_iter()
                .map(|(name, value)| pair(name.as_bytes(), value.as_bytes()))
                .collect::<io::Result<_>>()?,
            epoch: Rc::new([const { Cell::new(0) }; EPOCH_BYTES]),
        })
    }

    /// Returns PATH as the processes will see it.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Sets APEPOCH in every environment that was made from this one.
    pub(crate) fn set_epoch(&self, epoch: u64) {
        let text = format!("APEPOCH={epoch}\0");
        for (cell, byte) in self.epoch.iter().zip(text.bytes()) {
            cell.set(byte);
        }
    }

    /// Returns the common variables, APEPOCH, and `own`. Errors: a NUL byte.
    pub(crate) fn environment(&self, own: &[(&str, String)]) -> io::Result<Environment> {
        let own: Vec<Rc<CStr>> = own
            .iter()
            .map(|(name, value)| pair(name.as_bytes(), value.as_bytes()))
            .collect::<io::Result<_>>()?;
        let mut pointers: Vec<*const libc::c_char> = Vec::new();
        pointers.reserve_exact(self.common.len() + own.len() + 2);
        pointers.extend(self.common.iter().chain(&own).map(|text| text.as_ptr()));
        pointers.push(self.epoch.as_ptr().cast());
        pointers.push(std::ptr::null());
        Ok(Environment {
            pointers,
            _strings: self.common.iter().cloned().chain(own).collect(),
            _epoch: Some(Rc::clone(&self.epoch)),
        })
    }
}

fn pair(name: &[u8], value: &[u8]) -> io::Result<Rc<CStr>> {
    let mut text = OsString::from_vec(name.to_vec()).into_vec();
    text.push(b'=');
    text.extend_from_slice(value);
    Ok(CString::new(text)?.into())
}

/// A null-terminated environment, which owns the strings that it points to.
#[derive(Debug)]
pub(crate) struct Environment {
    pointers: Vec<*const libc::c_char>,
    _strings: Vec<Rc<CStr>>,
    _epoch: Option<EpochVariable>,
}

impl Environment {
    /// Returns our own environment, with BW_HOOK_STATE for a hook. Errors: a NUL byte.
    pub(crate) fn inherited(state: Option<&Path>) -> io::Result<Self> {
        let state = state.map(|path| ("BW_HOOK_STATE".into(), path.into()));
        let own: Vec<Rc<CStr>> = std::env::vars_os()
            .filter(|(name, _)| state.is_none() || name != "BW_HOOK_STATE")
            .chain(state.clone())
            .map(|(name, value): (OsString, OsString)| pair(name.as_bytes(), value.as_bytes()))
            .collect::<io::Result<_>>()?;
        let ends = [std::ptr::null()];
        Ok(Self {
            pointers: own.iter().map(|text| text.as_ptr()).chain(ends).collect(),
            _strings: own,
            _epoch: None,
        })
    }

    /// Returns the pointer for execve.
    pub(crate) fn as_ptr(&self) -> *const *const libc::c_char {
        self.pointers.as_ptr()
    }
}

/// The resources of one process at a time.
#[derive(Debug)]
pub(crate) struct ProcessSlot {
    /// 1..N; 0 for commands that run once.
    pub thread: u32,
    pub environment: Environment,
    /// The destination of stdout.
    pub out: Sink,
    /// The destination of stderr.
    pub err: Sink,
}

impl ProcessSlot {
    /// Opens the sinks of stdout and stderr by their paths. Errors: those of `open`.
    pub(crate) fn new(
        stem: &Path,
        thread: u32,
        environment: Environment,
        open: impl Fn(Stream, PathBuf) -> io::Result<Sink>,
    ) -> io::Result<Self> {
        Ok(Self {
            thread,
            environment,
            out: open(Stream::Out, stem.with_extension("out"))?,
            err: open(Stream::Err, stem.with_extension("err"))?,
        })
    }

    /// Checks the output of a running process.
    pub(crate) fn check(&self) -> OutputState {
        self.out.check().max(self.err.check())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `make soundness` runs it under miri, which reports a pointer that a move has ended.
    #[test]
    fn pointers_of_an_environment_survive_moves_and_show_the_epoch() {
        let base = BaseEnvironment::new(&[("BW_TEST_ONE".to_owned(), "1".to_owned())]).unwrap();
        let environment = Box::new(base.environment(&[("APMODE", "EXEC".to_owned())]).unwrap());
        let moved = Box::new(base);
        moved.set_epoch(12);
        drop(moved);
        let ended = environment.pointers.iter().position(|p| p.is_null());
        let strings = environment.pointers[..ended.unwrap()]
            .iter()
            .map(|pointer| {
                // SAFETY: the environment lives and owns its strings.
                unsafe { CStr::from_ptr(*pointer) }.to_str().unwrap()
            });
        let strings: Vec<_> = strings.collect();
        for expected in ["BW_TEST_ONE=1", "APMODE=EXEC", "APEPOCH=12"] {
            assert!(strings.contains(&expected), "{expected}");
        }
    }
}
