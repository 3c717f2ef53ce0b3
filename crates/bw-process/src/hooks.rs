//! Measurement hooks: executables that are called before and after a measurement; and the measurement block.
//!
//! `HOOK premeasure | start | end | final`. What a hook prints is stored, as `name = value` lines
//! or whole blocks; a failure is noted in its text and stops nothing. Each hook has a private
//! directory, BW_HOOK_STATE, to pass data from `start` to `end`.
//! Decision: its output goes to a file in memory instead of a pipe: nothing needs to be read meanwhile.
//! Source: Auto-pilot paper, section 3.2 (measurement hooks).
//!
//! The `[measurement]` block: the values of one measured command, as text.
//!
//! Source: Auto-pilot paper, section 3.2; docs/launcher-protocol.md.

use crate::slots::Environment;
use crate::spawn::Program;
use bw_sys::memory::memory_file;
use bw_sys::process::ResourceUsage;
use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt::Write;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::io::Seek as _;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Output of one call beyond this size is cut [bytes].
const MOST_BYTES: usize = 64 * 1024;

/// The moment at which a hook is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HookEvent {
    /// Before everything: to prepare.
    Premeasure,
    /// Directly before the start.
    Start,
    /// Directly after the end.
    End,
    /// After everything: may print whole blocks.
    Final,
}

impl HookEvent {
    const ALL: [Self; 4] = [Self::Premeasure, Self::Start, Self::End, Self::Final];

    /// Returns the hook's argument.
    pub(crate) fn name(self) -> &'static str {
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
pub(crate) struct HookOutput {
    /// File name of the hook.
    pub name: String,
    pub event: HookEvent,
    /// Its stdout, and a line `# error: ...` if it failed.
    pub text: String,
}

/// One call of a hook.
#[derive(Debug)]
pub(crate) struct HookCall<'a> {
    /// The hook with its event as the argument.
    pub program: &'a Program,
    pub environment: &'a Environment,
    /// The descriptor of its stdout.
    pub output: i32,
}

#[derive(Debug)]
struct Hook {
    name: String,
    programs: [Program; 4],
    environment: Environment,
}

/// The prepared hooks of a run.
#[derive(Debug)]
pub(crate) struct Hooks {
    hooks: Vec<Hook>,
    output: File,
    state: PathBuf,
}

impl Hooks {
    /// Prepares the hooks at `paths` (executables, or directories of them); `environment`
    /// returns a hook's environment for its state directory. Errors: no state directory.
    pub(crate) fn new(
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

    /// Returns the directory that holds the state of all hooks.
    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    /// Calls every hook and returns the outputs that are not empty. `run` runs one hook to its
    /// end and returns its status, or why it could not be started.
    pub(crate) fn call(
        &self,
        event: HookEvent,
        mut run: impl FnMut(&HookCall<'_>) -> Result<i32, String>,
    ) -> Vec<HookOutput> {
        let said = self.hooks.iter().map(|hook| {
            self.empty_output();
            let result = run(&HookCall {
                program: &hook.programs[event as usize],
                environment: &hook.environment,
                output: self.output.as_raw_fd(),
            });
            HookOutput {
                name: hook.name.clone(),
                event,
                text: with_trouble(self.output_text(), result),
            }
        });
        said.filter(|said| !said.text.is_empty()).collect()
    }

    fn empty_output(&self) {
        // On a file in memory both calls succeed.
        let _ = self.output.set_len(0);
        let _ = (&self.output).rewind();
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
        // What cannot be removed stays in /tmp, and is not reported.
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
    let of = |event: HookEvent| {
        let argv = [path.to_string_lossy().into_owned(), event.name().to_owned()];
        Program::new(&argv, "")
    };
    let [a, b, c, d] = HookEvent::ALL;
    Ok([of(a)?, of(b)?, of(c)?, of(d)?])
}

/// Replaces each directory by the executables in it, in order of name.
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
    loop {
        let mut bytes = [0; 6];
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = std::env::temp_dir().join(format!("bw-hooks-{name}"));
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|()| path),
        }
    }
}

/// The content of one block.
#[derive(Debug)]
pub(crate) struct MeasurementBlock {
    /// Thread, 1..N.
    pub thread: u64,
    /// Epoch, from 1.
    pub epoch: u64,
    /// The command, on one line.
    pub command: String,
    /// Exit status, or 128 + signal.
    pub status: i32,
    /// CLOCK_MONOTONIC at the start [ns]; None: not in the block.
    pub start_ns: Option<u64>,
    /// Elapsed time [ns].
    pub elapsed_ns: u64,
    /// None if the process could not be waited for.
    pub usage: Option<ResourceUsage>,
    /// Values from hooks.
    pub values: Vec<(String, String)>,
}

impl MeasurementBlock {
    /// Returns the block as text, with the empty line that ends it.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "[measurement]\nthread = {}\nepoch = {}\ncommand = {}\n",
            self.thread, self.epoch, self.command
        );
        // Writing to a string cannot fail.
        let _ = self.write_measured(&mut text);
        text.push('\n');
        text
    }

    fn write_measured(&self, text: &mut String) -> std::fmt::Result {
        if let Some(start_ns) = self.start_ns {
            writeln!(text, "start_ns = {start_ns}")?;
        }
        if let Some(usage) = &self.usage {
            writeln!(text, "user = {}", seconds(usage.user_us))?;
            writeln!(text, "sys = {}", seconds(usage.system_us))?;
        }
        writeln!(text, "elapsed = {:.6}", self.elapsed_ns as f64 / 1e9)?;
        writeln!(text, "status = {}", self.status)?;
        if let Some(usage) = &self.usage {
            writeln!(text, "rss_bytes = {}", usage.rss_bytes)?;
            writeln!(text, "minor_faults = {}", usage.minor_faults)?;
            writeln!(text, "major_faults = {}", usage.major_faults)?;
            writeln!(text, "in_blocks = {}", usage.in_blocks)?;
            writeln!(text, "out_blocks = {}", usage.out_blocks)?;
            writeln!(text, "voluntary_switches = {}", usage.voluntary_switches)?;
            writeln!(
                text,
                "involuntary_switches = {}",
                usage.involuntary_switches
            )?;
        }
        for (name, value) in &self.values {
            writeln!(text, "{name} = {value}")?;
        }
        Ok(())
    }
}

fn seconds(microseconds: u64) -> String {
    format!(
        "{}.{:06}",
        microseconds / 1_000_000,
        microseconds % 1_000_000
    )
}

/// Returns the `name = value` lines before the first block.
pub(crate) fn values_of(text: &str) -> Vec<(String, String)> {
    text.lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .filter(|(name, _)| !name.is_empty())
        .collect()
}

/// Returns the whole blocks of a text, with the empty line that ends the last; or an empty text.
pub(crate) fn blocks_of(text: &str) -> String {
    let mut blocks: String = text
        .lines()
        .skip_while(|line| !line.trim_start().starts_with('['))
        .filter(|line| !line.starts_with("# error: "))
        .flat_map(|line| [line, "\n"])
        .collect();
    if !blocks.is_empty() && !blocks.ends_with("\n\n") {
        blocks.push('\n');
    }
    blocks
}

#[cfg(test)]
mod hooks_tests {
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
        for (place, event) in HookEvent::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, place);
        }
    }
}

#[cfg(test)]
mod block_tests {
    use super::*;

    #[test]
    fn a_block_reads_as_in_the_paper() {
        let block = MeasurementBlock {
            thread: 2,
            epoch: 3,
            command: "postmark /tmp/x".into(),
            status: 0,
            start_ns: Some(12),
            elapsed_ns: 5_470_682_999,
            usage: None,
            values: vec![("free_bytes".into(), "7".into())],
        };
        assert_eq!(
            block.text(),
            "[measurement]\nthread = 2\nepoch = 3\ncommand = postmark /tmp/x\n\
             start_ns = 12\nelapsed = 5.470683\nstatus = 0\nfree_bytes = 7\n\n"
        );
    }

    #[test]
    fn values_end_where_blocks_begin() {
        let text = "a = 1\n# error: x = 2\nnoise\n b=2 = 3 \n[block]\nc = 3\n";
        let values = values_of(text);
        let expected = [("a", "1"), ("b", "2 = 3")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(values, expected);
        assert_eq!(blocks_of(text), "[block]\nc = 3\n\n");
        assert_eq!(blocks_of("a = 1\n"), "");
    }
}
