//! `bw-sampler serve`: requests in, one watch at a time, until the end of input.

use crate::arguments::Roots;
use crate::columns;
use crate::series::{PROTOCOL, SamplerReply, SamplerRequest};
use crate::system::{monotonic_ns, must_end, prepare_to_end, wait};
use crate::watch::Watch;
use bw_sys::cpus::{ask_for_short_slices, set_timer_slack};
use bw_sys::process::raise_open_files;
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;

/// Maximum length of a request [bytes].
const LARGEST: usize = 1 << 20;
/// The kernel may combine our wake-ups with others within a hundredth of the interval, at most this long.
const MOST_SLACK_NS: i64 = 1_000_000;
/// The shortest time slice that the kernel grants.
const SLICE_NS: u64 = 100_000;

/// Serves until the end of input or a signal. Errors: standard input or output is broken.
pub fn serve(roots: &Roots) -> io::Result<()> {
    if !prepare_to_end() {
        return Ok(());
    }
    ask_for_short_slices(SLICE_NS);
    columns::set_room(raise_open_files() / 2);
    let mut server = SamplerService {
        roots,
        watch: None,
        input: Vec::new(),
    };
    server.say(&SamplerReply::Hello {
        protocol: PROTOCOL,
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION"),
    })?;
    let served = server.run();
    // Nothing reads replies any more, but the file is completed.
    if let Some(watch) = server.watch.take() {
        watch.end();
    }
    served
}

struct SamplerService<'a> {
    roots: &'a Roots,
    watch: Option<Watch>,
    input: Vec<u8>,
}

impl SamplerService<'_> {
    fn run(&mut self) -> io::Result<()> {
        loop {
            let readable = wait(self.watch.as_ref().map(|watch| watch.next_ns))?;
            if must_end() {
                return Ok(());
            }
            if let Some(watch) = &mut self.watch
                && monotonic_ns() >= watch.next_ns
            {
                watch.sample();
            }
            if readable && !self.take_input()? {
                return Ok(());
            }
        }
    }

    /// Reads the requests that have arrived and executes them. False: the end of input.
    fn take_input(&mut self) -> io::Result<bool> {
        let mut piece = [0; 4096];
        let length = standard(0).read(&mut piece)?;
        self.input.extend_from_slice(&piece[..length]);
        while let Some(end) = self.input.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            self.answer(line.trim_ascii())?;
        }
        if self.input.len() > LARGEST {
            return Err(io::Error::other("a request is longer than 1 MiB"));
        }
        Ok(length > 0)
    }

    fn answer(&mut self, line: &[u8]) -> io::Result<()> {
        if line.is_empty() {
            return Ok(());
        }
        match serde_json::from_slice(line) {
            Ok(request) => self.act(request),
            Err(error) => {
                let message = format!("the request is not understood: {error}");
                self.refuse(id_of(line), &message)
            }
        }
    }

    fn act(&mut self, request: SamplerRequest) -> io::Result<()> {
        match request {
            SamplerRequest::Watch(begin) if self.watch.is_some() => {
                self.refuse(begin.id, "a watch is running: end it first")
            }
            SamplerRequest::Watch(begin) => {
                let id = begin.id;
                // With less slack the kernel wakes the sampler more often than necessary.
                let slack_ns = (begin.interval_ns / 100).clamp(1, MOST_SLACK_NS);
                let _ = set_timer_slack(slack_ns.cast_unsigned());
                match Watch::begin(begin, self.roots) {
                    Ok(watch) => {
                        let begin_ns = watch.begin_ns();
                        self.watch = Some(watch);
                        self.say(&SamplerReply::Watching { id, begin_ns })
                    }
                    Err(message) => self.refuse(id, &message),
                }
            }
            SamplerRequest::End { id } => match self.watch.take_if(|watch| watch.id == id) {
                Some(watch) => {
                    let done = watch.end();
                    self.say(&SamplerReply::Watched { id, done: &done })
                }
                None => self.refuse(id, "there is no such watch"),
            },
        }
    }

    fn refuse(&self, id: i64, message: &str) -> io::Result<()> {
        self.say(&SamplerReply::Error { id, message })
    }

    fn say(&self, reply: &SamplerReply<'_>) -> io::Result<()> {
        let mut line = serde_json::to_vec(reply)?;
        line.push(b'\n');
        standard(1).write_all(&line)
    }
}

fn id_of(line: &[u8]) -> i64 {
    let value: Option<serde_json::Value> = serde_json::from_slice(line).ok();
    value
        .and_then(|value| value.get("id")?.as_i64())
        .unwrap_or(0)
}

/// Returns standard input or output without Rust's buffers, which poll does not see.
fn standard(fd: i32) -> ManuallyDrop<File> {
    // SAFETY: the descriptor is open for as long as the process lives, and is not closed here.
    ManuallyDrop::new(unsafe { File::from_raw_fd(fd) })
}
