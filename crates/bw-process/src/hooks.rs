//! Measurement hooks: executables that are asked before and after a measurement.
//!
//! `HOOK premeasure | start | end | final`. What one prints is kept, as `name = value` lines
//! or whole blocks; one that fails says so in its text and stops nothing. Each has a private
//! directory, BW_HOOK_STATE, to carry what it saw at `start` over to `end`.
//! Decision: its output goes to a file in memory, not a pipe: nothing to read meanwhile.
//! Source: Auto-pilot paper, section 3.2 (measurement hooks).

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::program::Program;
use crate::seat::Environment;
use crate::shared::memory_file;

/// More than this of one call is cut [bytes].
const MOST_BYTES: usize = 64 * 1024;

/// When a hook is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Before everything: to prepare.
    Premeasure,
    /// Directly before the start.
    Start,
    /// Directly after the end.
    End,
    /// At last: may print blocks of its own.
    Final,
}

impl Event {
    const ALL: [Self; 4] = [Self::Premeasure, Self::Start, Self::End, Self::Final];

    /// The hook's argument.
    pub fn name(self) -> &'static str {
        match self {
            Self::Premeasure => "premeasure",
            Self::Start => "start",
            Self::End => "end",
            Self::Final => "final",
        }
    }
}

/// What one hook printed at one event.
#[derive(Debug)]
pub struct Said {
    /// File name of the hook.
    pub name: String,
    /// When.
    pub event: Event,
    /// Its stdout, and a line `# error: ...` if it failed.
    pub text: String,
}

/// One call, for whoever runs it.
#[derive(Debug)]
pub struct Call<'a> {
    /// The hook with its event.
    pub program: &'a Program,
    /// Its environment.
    pub environment: &'a Environment,
    /// Its stdout.
    pub output: i32,
}

#[derive(Debug)]
struct Hook {
    name: String,
    programs: [Program; 4],
    environment: Environment,
}

/// All hooks of a run, ready to be called.
#[derive(Debug)]
pub struct Hooks {
    hooks: Vec<Hook>,
    output: File,
    state: PathBuf,
}

impl Hooks {
    /// Prepares the hooks at `paths` (executables, or directories of them); `environment`
    /// makes each one's from its state directory. Errors: no state directory.
    pub fn new(
        paths: &[String],
        environment: impl Fn(&Path) -> io::Result<Environment>,
    ) -> io::Result<Self> {
        let state = private_directory()?;
        let mut hooks = Self {
            hooks: Vec::new(),
            output: memory_file(c"bw-hook", 0)?.into(),
            state,
        };
        for (number, path) in expanded(paths).into_iter().enumerate() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let own = hooks.state.join(format!("{number}-{name}"));
            DirBuilder::new().mode(0o700).create(&own)?;
            hooks.hooks.push(Hook {
                name: name.into_owned(),
                programs: programs(&path)?,
                environment: environment(&own)?,
            });
        }
        Ok(hooks)
    }

    /// The directory that holds all state.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Calls every hook and returns what those said that said anything. `run` runs one to its
    /// end and returns its status, or why it could not be started.
    pub fn call(
        &self,
        event: Event,
        mut run: impl FnMut(&Call<'_>) -> Result<i32, String>,
    ) -> Vec<Said> {
        let said = self.hooks.iter().map(|hook| {
            self.empty_output();
            let result = run(&Call {
                program: &hook.programs[event as usize],
                environment: &hook.environment,
                output: self.output.as_raw_fd(),
            });
            Said {
                name: hook.name.clone(),
                event,
                text: with_trouble(self.output_text(), result),
            }
        });
        said.filter(|said| !said.text.is_empty()).collect()
    }

    fn empty_output(&self) {
        // SAFETY: plain system calls on an open descriptor of a memory file: they succeed.
        unsafe {
            libc::ftruncate(self.output.as_raw_fd(), 0);
            libc::lseek(self.output.as_raw_fd(), 0, libc::SEEK_SET);
        }
    }

    fn output_text(&self) -> String {
        let size = self.output.metadata().map_or(0, |data| data.len());
        let mut bytes = vec![0; (size as usize).min(MOST_BYTES)];
        let length = self.output.read_at(&mut bytes, 0).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }
}

impl Drop for Hooks {
    fn drop(&mut self) {
        // What cannot be removed stays in /tmp; there is nobody to tell.
        let _ = fs::remove_dir_all(&self.state);
    }
}

fn with_trouble(mut text: String, result: Result<i32, String>) -> String {
    let trouble = match result {
        Ok(0) => return text,
        Ok(status) => format!("exit status {status}"),
        Err(message) => message,
    };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text + "# error: " + &trouble + "\n"
}

fn programs(path: &Path) -> io::Result<[Program; 4]> {
    let of = |event: Event| {
        let argv = [path.to_string_lossy().into_owned(), event.name().to_owned()];
        Program::new(&argv, "")
    };
    let [a, b, c, d] = Event::ALL;
    Ok([of(a)?, of(b)?, of(c)?, of(d)?])
}

/// Directories stand for the executables in them, in order of name.
fn expanded(paths: &[String]) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for path in paths.iter().filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        let Ok(entries) = fs::read_dir(&path) else {
            all.push(path);
            continue;
        };
        let first = all.len();
        all.extend(
            entries
                .flatten()
                .map(|e| e.path())
                .filter(|p| is_executable(p)),
        );
        all[first..].sort();
    }
    all
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

fn private_directory() -> io::Result<PathBuf> {
    let pattern = std::env::temp_dir().join("bw-hooks-XXXXXX");
    let pattern = std::ffi::CString::new(pattern.into_os_string().into_encoded_bytes())?;
    let mut bytes = pattern.into_bytes_with_nul();
    // SAFETY: a writable NUL-terminated string that ends in XXXXXX.
    if unsafe { libc::mkdtemp(bytes.as_mut_ptr().cast()) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    bytes.pop();
    Ok(PathBuf::from(String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_a_line_of_its_own() {
        assert_eq!(with_trouble("a = 1".into(), Ok(0)), "a = 1");
        assert_eq!(
            with_trouble("a = 1".into(), Ok(3)),
            "a = 1\n# error: exit status 3\n"
        );
    }

    #[test]
    fn events_index_their_programs() {
        for (place, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, place);
        }
    }
}
