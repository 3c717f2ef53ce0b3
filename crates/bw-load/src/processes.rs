//! Processes of the user's that decide what filaments do: started before the run, with a thread for each direction.
//!
//! A process reads events from its stdin and writes replies to its stdout, as lines of words. Before the run it gets the
//! line `start`, writes its first replies and then `ready`; from then on it reacts to events. docs/engine-protocol.md
//! describes the lines.
//!
//! Decisions. A worker and the threads of a process share two rings: the worker neither waits nor makes a system call.
//! The thread that writes events looks at its ring every 20 to 500 us, because waking it would cost the worker a call for
//! each completion. Rejected: the worker writes into the pipe itself, which blocks when the process does not read. Lines of
//! words, because every language splits a line; JSON would cost the process more than its own decision. The processes are
//! started by the thread that opens the target, which is not pinned: a child inherits the CPUs of the thread that starts it.
//!
//! An event for which there is no room is lost, and a reply that cannot be read ends the run: both are errors of the run,
//! because the load was not the one that the process describes.

use crate::worker::Stop;
use bw_model::{EngineError, Kind, Nanos, Operation};
use bw_schedule::filaments::process::{Companion, Companions, OWN_TIMER, Reply};
use bw_schedule::filaments::{Event, FilamentId};
use bw_schedule::workload::{FilamentSpec, ProcessSpec, WorkloadSpec};
use rtrb::{Consumer, Producer, RingBuffer};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Events, and replies, on their way.
const RING: usize = 65_536;
/// How long a process may take until it is ready, and to end after the end of its input.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pauses of the thread that writes events: after an event, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_micros(20), Duration::from_micros(500));
/// The longest line that a process may write [bytes].
const LINE: usize = 4096;

/// What became of a process: one of `processes` of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessReport {
    /// The number of its filament.
    pub filament: FilamentId,
    /// Events that it was sent.
    pub events: u64,
    /// Replies that it sent.
    pub replies: u64,
}

/// The processes of a run.
#[derive(Default)]
pub(crate) struct UserProcesses {
    running: Vec<RunningProcess>,
    companions: Mutex<HashMap<FilamentId, Box<dyn Companion>>>,
}

impl fmt::Debug for UserProcesses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("UserProcesses")
            .field("running", &self.running.len())
            .finish_non_exhaustive()
    }
}

impl Companions for UserProcesses {
    fn take(&self, filament: FilamentId) -> Option<Box<dyn Companion>> {
        let lock = self.companions.lock();
        lock.unwrap_or_else(PoisonError::into_inner)
            .remove(&filament)
    }
}

impl UserProcesses {
    /// Starts the processes of a workload and waits until all are ready. `extent` returns the size of
    /// the target of an entry of the list [bytes]; of a network target, its number of paths.
    ///
    /// # Errors
    /// `filament-process`: one cannot be started, or is not ready in time; or the workload has too many filaments.
    pub(crate) fn start<T>(
        workload: &WorkloadSpec<T>,
        extent: impl Fn(usize) -> u64,
        stop: &Stop,
    ) -> Result<Self, EngineError> {
        let mut started = Self::default();
        let entries = workload.filaments.iter().enumerate();
        let wanted: Vec<_> = entries
            .filter_map(|(place, filament)| match filament {
                FilamentSpec::Process(spec) => Some((place, spec)),
                _ => None,
            })
            .collect();
        if wanted.is_empty() {
            return Ok(started);
        }
        let ids = workload.ids()?;
        let named = workload.filaments.iter().zip(&ids);
        let named = named.filter_map(|(one, ids)| Some((one.name()?.to_owned(), ids.start)));
        let names = Arc::new(Names {
            by_name: named.collect(),
            count: ids.last().map_or(0, |ids| ids.end),
        });
        for (place, spec) in wanted {
            let field = format!("workload.filaments[{place}]");
            let reader = ReplyReader {
                names: Arc::clone(&names),
                extent: extent(place),
            };
            let id = ids[place].start;
            let greeting = format!("start {id} {} {}", workload.seed, reader.extent);
            let (process, companion) = RunningProcess::start(id, spec, reader, &greeting, stop)
                .map_err(|error| error.about(field))?;
            started.running.push(process);
            let companions = started.companions.get_mut();
            let companions = companions.unwrap_or_else(PoisonError::into_inner);
            companions.insert(id, Box::new(companion));
        }
        Ok(started)
    }

    /// Ends the processes, and returns what became of each.
    ///
    /// # Errors
    /// `filament-process`: one failed, or did not read its events.
    pub(crate) fn finish(self) -> Result<Vec<ProcessReport>, EngineError> {
        // Connections that no worker took: without them the writers end.
        drop(self.companions);
        self.running
            .into_iter()
            .map(RunningProcess::finish)
            .collect()
    }
}

/// What the threads of a process and its connection share.
#[derive(Debug, Default)]
struct Shared {
    /// No reply comes any more.
    over: AtomicBool,
    lost_events: AtomicU64,
    events: AtomicU64,
    replies: AtomicU64,
    failure: Mutex<Option<String>>,
}

impl Shared {
    /// Notes why the process failed; the first reason counts.
    fn fail(&self, why: String) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(why);
    }
}

/// The worker's side.
struct Connection {
    events: Producer<Event>,
    replies: Consumer<Reply>,
    shared: Arc<Shared>,
    stop: Stop,
}

impl Companion for Connection {
    fn send(&mut self, event: &Event) {
        if self.events.push(*event).is_err() {
            self.shared.lost_events.fetch_add(1, Ordering::Relaxed);
            self.stop.fetch_max(1, Ordering::Relaxed);
        }
    }

    fn receive(&mut self) -> Option<Reply> {
        self.replies.pop().ok()
    }

    fn is_over(&self) -> bool {
        self.shared.over.load(Ordering::Acquire)
    }
}

/// A process and its threads.
struct RunningProcess {
    id: FilamentId,
    name: String,
    child: Child,
    shared: Arc<Shared>,
    writer: thread::JoinHandle<()>,
    reader: thread::JoinHandle<()>,
    ending: Arc<AtomicBool>,
}

impl RunningProcess {
    fn start(
        id: FilamentId,
        spec: &ProcessSpec,
        reader: ReplyReader,
        greeting: &str,
        stop: &Stop,
    ) -> Result<(Self, Connection), EngineError> {
        let name = spec.command.first().cloned().unwrap_or_default();
        let mut command = Command::new(&name);
        command.args(spec.command.iter().skip(1));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(directory) = &spec.directory {
            command.current_dir(directory);
        }
        let mut child = command
            .spawn()
            .map_err(|error| failed(&name, &format!("cannot be started: {error}")))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (mut input, output) = pipes.ok_or_else(|| failed(&name, "has no pipes"))?;
        let (events, events_out) = RingBuffer::new(RING);
        let (replies_in, replies) = RingBuffer::new(RING);
        let shared = Arc::new(Shared::default());
        let ending = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = channel();
        let reading = Reading {
            parser: reader,
            replies: replies_in,
            shared: Arc::clone(&shared),
            stop: Stop::clone(stop),
            ending: Arc::clone(&ending),
            ready: Some(ready),
        };
        // A process that ends at once is reported below: it is not ready.
        drop(writeln!(input, "{greeting}").and_then(|()| input.flush()));
        let reader = spawn("bw-process-reader", move || reading.run(output))
            .map_err(|error| failed(&name, &error))?;
        let writing = Writing {
            events: events_out,
            shared: Arc::clone(&shared),
        };
        let writer = spawn("bw-process-writer", move || writing.run(input))
            .map_err(|error| failed(&name, &error))?;
        let process = Self {
            id,
            name,
            child,
            shared: Arc::clone(&shared),
            writer,
            reader,
            ending,
        };
        let connection = Connection {
            events,
            replies,
            shared,
            stop: Stop::clone(stop),
        };
        process.wait_until_ready(&is_ready, connection)
    }

    fn wait_until_ready(
        self,
        is_ready: &Receiver<()>,
        connection: Connection,
    ) -> Result<(Self, Connection), EngineError> {
        let until = Instant::now() + PATIENCE;
        loop {
            match is_ready.recv_timeout(Duration::from_millis(20)) {
                Ok(()) => return Ok((self, connection)),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout)
                    if Instant::now() < until && bw_sys::signals::caught() == 0 => {}
                Err(_) => {
                    drop(connection);
                    let name = self.name.clone();
                    let waited = Instant::now() >= until;
                    let why = match self.finish() {
                        Err(error) => return Err(error),
                        Ok(_) if waited => format!("was not ready within {} s", PATIENCE.as_secs()),
                        Ok(_) => "ended before it was ready".to_owned(),
                    };
                    return Err(failed(&name, &why));
                }
            }
        }
    }

    /// Ends the process: its input ends, and it is killed if it does not end by itself.
    fn finish(mut self) -> Result<ProcessReport, EngineError> {
        self.ending.store(true, Ordering::Relaxed);
        let until = Instant::now() + PATIENCE;
        let mut status = None;
        while status.is_none() && Instant::now() < until {
            status = self.child.try_wait().ok().flatten();
            if status.is_none() {
                thread::sleep(Duration::from_millis(1));
            }
        }
        if status.is_none() {
            // It may have ended meanwhile.
            drop(self.child.kill());
            drop(self.child.wait());
            self.shared.fail(format!(
                "did not end within {} s after the end of its input, and was killed",
                PATIENCE.as_secs()
            ));
        }
        // The pipes are closed now, unless a child of the process holds them: then the threads end later.
        if self.reader.is_finished() {
            drop(self.reader.join());
        }
        if self.writer.is_finished() {
            drop(self.writer.join());
        }
        let lost = self.shared.lost_events.load(Ordering::Relaxed);
        if lost > 0 {
            self.shared.fail(format!(
                "did not read its events: {lost} of them found no room, and the run was ended"
            ));
        }
        if let Some(status) = status.filter(|status| !status.success()) {
            self.shared.fail(format!("ended with {status}"));
        }
        let failure = self.shared.failure.lock();
        let failure = failure.unwrap_or_else(PoisonError::into_inner).take();
        match failure {
            Some(why) => Err(failed(&self.name, &why)),
            None => Ok(ProcessReport {
                filament: self.id,
                events: self.shared.events.load(Ordering::Relaxed),
                replies: self.shared.replies.load(Ordering::Relaxed),
            }),
        }
    }
}

fn spawn(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<thread::JoinHandle<()>, String> {
    let builder = thread::Builder::new().name(name.to_owned());
    let spawned = builder.spawn(work);
    spawned.map_err(|error| format!("its thread could not be started: {error}"))
}

fn failed(name: &str, why: &str) -> EngineError {
    EngineError::operating(
        "filament-process",
        format!("the process {name} {why}"),
        "see its own messages above, and docs/engine-protocol.md for its lines",
    )
}

/// The thread that writes events.
struct Writing {
    events: Consumer<Event>,
    shared: Arc<Shared>,
}

impl Writing {
    fn run(mut self, mut input: ChildStdin) {
        // Without it the pauses are 50 us longer.
        drop(bw_sys::cpus::set_timer_slack(1));
        let (mut text, mut pause) = (String::with_capacity(64 * 1024), PAUSES.0);
        loop {
            // Asked before the look: what was sent before the end is then written.
            let over = self.events.is_abandoned();
            while let Ok(event) = self.events.pop() {
                event_line(&event, &mut text);
                self.shared.events.fetch_add(1, Ordering::Relaxed);
                if text.len() > 60 * 1024 {
                    break;
                }
            }
            if text.is_empty() {
                if over {
                    return;
                }
                thread::sleep(pause);
                pause = (pause * 2).min(PAUSES.1);
                continue;
            }
            pause = PAUSES.0;
            if input.write_all(text.as_bytes()).is_err() {
                // It has closed its input or ended: it wants no events. Those that come are read and discarded, so that
                // they are not reported as lost.
                while !self.events.is_abandoned() {
                    while self.events.pop().is_ok() {}
                    thread::sleep(PAUSES.1);
                }
                return;
            }
            text.clear();
        }
    }
}

/// Appends the line of an event.
fn event_line(event: &Event, text: &mut String) {
    // Writing to a String does not fail.
    let _ = match event {
        Event::Start => Ok(()),
        Event::Timer { at, tag } => writeln!(text, "timer {tag} {}", at.0),
        Event::Completed(ended) => writeln!(
            text,
            "end {} {} {} {} {}",
            ended.tag,
            ended.result,
            ended.intended.0,
            ended.at.0,
            ended.kind.name()
        ),
        Event::Message { at, from, payload } => writeln!(text, "message {from} {} {payload}", at.0),
    };
}

/// The thread that reads replies.
struct Reading {
    parser: ReplyReader,
    replies: Producer<Reply>,
    shared: Arc<Shared>,
    stop: Stop,
    ending: Arc<AtomicBool>,
    /// Until the process is ready.
    ready: Option<Sender<()>>,
}

impl Reading {
    fn run(mut self, output: ChildStdout) {
        if let Err(why) = self.read(BufReader::new(output)) {
            self.shared.fail(why);
            self.stop.fetch_max(1, Ordering::Relaxed);
        }
        // After the last reply: a worker that sees it finds the reply in the ring.
        self.shared.over.store(true, Ordering::Release);
    }

    fn read(&mut self, mut output: impl BufRead) -> Result<(), String> {
        let (mut line, mut number, mut done) = (Vec::with_capacity(LINE), 0_u64, false);
        loop {
            line.clear();
            number += 1;
            let mut limited = std::io::Read::take(&mut output, LINE as u64 + 1);
            let read = limited.read_until(b'\n', &mut line);
            let length = read.map_err(|error| format!("cannot be read from: {error}"))?;
            if length == 0 {
                return Ok(());
            }
            // What nobody needs is read to the end too: a process whose output is closed would end with an error.
            if done || self.ending.load(Ordering::Relaxed) {
                continue;
            }
            if length > LINE {
                return Err(format!("line {number} has more than {LINE} bytes"));
            }
            let text = std::str::from_utf8(&line).map_err(|_| "a line is not UTF-8".to_owned());
            let parsed = text.and_then(|text| self.parser.parse(text));
            let shown = || {
                String::from_utf8_lossy(&line)
                    .trim()
                    .escape_debug()
                    .to_string()
            };
            match parsed.map_err(|why| format!("line {number}: {why}: {:.200}", shown()))? {
                Line::Nothing => {}
                Line::Done => {
                    self.shared.over.store(true, Ordering::Release);
                    done = true;
                }
                Line::Ready => {
                    if let Some(ready) = self.ready.take() {
                        // The receiver is gone if the wait is over.
                        let _ = ready.send(());
                    }
                }
                Line::Reply(reply) => self.hand_over(reply)?,
            }
        }
    }

    fn hand_over(&mut self, reply: Reply) -> Result<(), String> {
        self.shared.replies.fetch_add(1, Ordering::Relaxed);
        let mut left = reply;
        while let Err(rtrb::PushError::Full(back)) = self.replies.push(left) {
            if self.ready.is_some() {
                return Err(format!("sent more than {RING} replies before it was ready"));
            }
            if self.replies.is_abandoned() || self.ending.load(Ordering::Relaxed) {
                return Ok(());
            }
            left = back;
            thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }
}

/// What a line of a process says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Nothing,
    Ready,
    Done,
    Reply(Reply),
}

/// The filaments that messages can be sent to.
#[derive(Debug, Default)]
struct Names {
    by_name: HashMap<String, FilamentId>,
    count: FilamentId,
}

/// Reads the lines of a process.
#[derive(Debug)]
struct ReplyReader {
    names: Arc<Names>,
    extent: u64,
}

impl ReplyReader {
    /// Returns what a line says.
    ///
    /// # Errors
    /// What is wrong with it.
    fn parse(&self, line: &str) -> Result<Line, String> {
        let mut words = line.split_ascii_whitespace();
        let Some(word) = words.next() else {
            return Ok(Line::Nothing);
        };
        let found = match word {
            "ready" => Line::Ready,
            "done" => Line::Done,
            "op" => Line::Reply(Reply::Operation(self.operation(&mut words)?)),
            "timer" => {
                let at = number(&mut words, "the time")?;
                let tag = words.next().map_or(Ok(0), tag)?;
                Line::Reply(Reply::Timer(Nanos(at), tag))
            }
            "send" => {
                let at = number(&mut words, "the time")?;
                let to = self.filament(words.next().unwrap_or_default())?;
                let payload = number(&mut words, "the content")?;
                Line::Reply(Reply::Message(Nanos(at), to, payload))
            }
            _ => {
                return Err("the first word must be one of op, timer, send, ready, done".to_owned());
            }
        };
        match words.next() {
            None => Ok(found),
            Some(more) => Err(format!("{more:?} is too much")),
        }
    }

    fn operation<'a>(
        &self,
        words: &mut impl Iterator<Item = &'a str>,
    ) -> Result<Operation, String> {
        let at = number(words, "the time")?;
        let word = words.next().unwrap_or_default();
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == word);
        let Some(kind) = kind.filter(|kind| !kind.needs_files()) else {
            return Err("the kind must be one of read, write, flush, discard, exchange".to_owned());
        };
        let offset = number(words, "the offset")?;
        let size = number(words, "the size")?;
        let size = u32::try_from(size).map_err(|_| "the size is 4 GiB or more".to_owned())?;
        let length = match kind {
            Kind::Flush => 0,
            // The offset is the index of a path, or of a request.
            Kind::Exchange => 1,
            _ => size.into(),
        };
        if offset
            .checked_add(length)
            .is_none_or(|end| end > self.extent)
        {
            return Err(format!(
                "it ends beyond the target, which has {}",
                self.extent
            ));
        }
        let tag = words.next().map_or(Ok(0), tag)?;
        Ok(Operation {
            at: Nanos(at),
            offset,
            size,
            kind,
            notify: true,
            tag,
        })
    }

    fn filament(&self, word: &str) -> Result<FilamentId, String> {
        let by_name = self.names.by_name.get(word).copied();
        let id = by_name.or_else(|| word.parse().ok());
        id.filter(|id| *id < self.names.count)
            .ok_or_else(|| "there is no such filament".to_owned())
    }
}

fn number<'a>(words: &mut impl Iterator<Item = &'a str>, what: &str) -> Result<u64, String> {
    let word = words.next().ok_or_else(|| format!("{what} is missing"))?;
    let number = word.parse::<u64>().ok().filter(|n| *n < u64::MAX);
    number.ok_or_else(|| format!("{what} is not a whole number below 2^64 - 1"))
}

fn tag(word: &str) -> Result<u32, String> {
    let tag = word.parse::<u32>().ok().filter(|tag| *tag < OWN_TIMER);
    tag.ok_or_else(|| format!("the tag is not a whole number below {OWN_TIMER}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reader() -> ReplyReader {
        ReplyReader {
            names: Arc::new(Names {
                by_name: HashMap::from([("log".to_owned(), 3)]),
                count: 5,
            }),
            extent: 1 << 20,
        }
    }

    fn read(at: u64, tag: u32) -> Line {
        Line::Reply(Reply::Operation(Operation {
            at: Nanos(at),
            offset: 4096,
            size: 512,
            kind: Kind::Read,
            notify: true,
            tag,
        }))
    }

    #[test]
    fn lines_are_read() {
        let parse = |line| reader().parse(line);
        assert_eq!(parse("op 7 read 4096 512\n"), Ok(read(7, 0)));
        assert_eq!(parse("op 7 read 4096 512 9"), Ok(read(7, 9)));
        assert_eq!(parse("timer 5"), Ok(Line::Reply(Reply::Timer(Nanos(5), 0))));
        let sent = Ok(Line::Reply(Reply::Message(Nanos(5), 3, 8)));
        assert_eq!(
            (parse("send 5 log 8"), parse("send 5 3 8")),
            (sent.clone(), sent)
        );
        assert_eq!(parse(" \n"), Ok(Line::Nothing));
        assert_eq!(
            (parse("ready\r\n"), parse("done")),
            (Ok(Line::Ready), Ok(Line::Done))
        );
        assert!(matches!(parse("op 1 flush 0 0"), Ok(Line::Reply(_))));
    }

    #[test]
    fn what_is_wrong_is_reported() {
        for (line, why) in [
            ("read 1 2", "the first word"),
            ("op", "the time is missing"),
            ("op 1 append 0 512", "the kind"),
            ("op 1 read 0 5000000000", "4 GiB"),
            ("op 1 read 1048064 513", "beyond the target"),
            ("op 1 exchange 1048576 1", "beyond the target"),
            ("op 1 read 0 512 4294967295", "the tag"),
            ("op 1 read 0 512 1 1", "too much"),
            ("timer -1", "the time"),
            ("send 1 nobody 1", "no such filament"),
            ("send 1 5 1", "no such filament"),
        ] {
            let error = reader().parse(line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }

    #[test]
    fn events_are_lines() {
        let mut text = String::new();
        event_line(
            &Event::Timer {
                at: Nanos(5),
                tag: 6,
            },
            &mut text,
        );
        event_line(
            &Event::Completed(bw_schedule::filaments::Completion {
                at: Nanos(9),
                intended: Nanos(3),
                kind: Kind::Write,
                tag: 1,
                result: -5,
            }),
            &mut text,
        );
        let message = Event::Message {
            at: Nanos(1),
            from: 2,
            payload: 3,
        };
        event_line(&message, &mut text);
        assert_eq!(text, "timer 6 5\nend 1 -5 3 9 write\nmessage 2 1 3\n");
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(line in "\\PC*", words in prop::collection::vec("(op|timer|send|read|log|[0-9]{1,21}|-1)", 0..8)) {
            drop(reader().parse(&line));
            drop(reader().parse(&words.join(" ")));
        }
    }
}
