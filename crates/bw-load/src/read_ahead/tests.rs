use super::*;
use bw_model::{Kind, Nanos, Row};
use bw_record::segment::{Content, Header, Order, SegmentWriter};
use std::fmt::Write;
use std::path::PathBuf;

/// A file that is removed.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("bw-ahead-{name}-{}", std::process::id()));
        drop(std::fs::remove_file(&path));
        if !text.is_empty() {
            std::fs::write(&path, text).unwrap();
        }
        Self(path)
    }

    fn input(&self) -> TraceInput {
        TraceInput::new(&self.0.to_string_lossy())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// Returns an SPC trace of so many reads, a microsecond apart.
fn text(operations: u64) -> String {
    let mut text = String::new();
    for number in 0..operations {
        let (seconds, part) = (number / 1_000_000, number % 1_000_000);
        writeln!(text, "0,{number},512,r,{seconds}.{part:06}").unwrap();
    }
    text
}

/// Takes everything, as a worker does; returns the arrivals.
fn drain(mut source: Box<dyn OperationSource>) -> Vec<u64> {
    let (mut block, mut starts) = (Vec::new(), Vec::new());
    loop {
        block.clear();
        let state = source.next_block(&mut block);
        assert_eq!(state == SourceState::Ready, !block.is_empty());
        starts.extend(block.iter().map(|operation| operation.at.0));
        match state {
            SourceState::Ended => return starts,
            SourceState::NotYet => thread::yield_now(),
            SourceState::Ready => {}
        }
    }
}

#[test]
fn every_worker_gets_the_whole_sequence_more_than_the_rings_hold() {
    let count = (BLOCK * BLOCKS * 2) as u64;
    let file = Scratch::new("whole", &text(count));
    let input = file.input();
    let readers = Readers::open(&[&input], 2, Fit::default()).unwrap();
    let drains: Vec<Vec<u64>> = thread::scope(|scope| {
        let readers = &readers;
        let input = &input;
        let one = |worker| scope.spawn(move || drain(readers.source(worker, input).unwrap()));
        let handles: Vec<_> = (0..2).map(one).collect();
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap())
            .collect()
    });
    let expected: Vec<u64> = (0..count).map(|number| number * 1000).collect();
    assert!(drains.iter().all(|starts| *starts == expected));
    let outcome = readers.finish().remove(0);
    assert_eq!((outcome.report.operations, outcome.error), (count, None));
}

#[test]
fn a_worker_without_a_part_is_not_waited_for() {
    let count = (BLOCK * (BLOCKS + 10)) as u64;
    let file = Scratch::new("part", &text(count));
    let input = file.input();
    let readers = Readers::open(&[&input], 2, Fit::default()).unwrap();
    let source = readers.source(0, &input).unwrap();
    (0..2).for_each(|worker| readers.release(worker));
    assert_eq!(drain(source).len() as u64, count);
    assert!(readers.source(1, &input).is_err());
}

#[test]
fn what_is_wrong_at_the_start_is_told_before_the_run_and_later_after_it() {
    let early = Scratch::new("early", &(text(10) + "0,1,512,r\n"));
    let error = Readers::open(&[&early.input()], 1, Fit::default())
        .err()
        .unwrap();
    assert_eq!(error.line(), Some(11));
    let count = (BLOCK * (BLOCKS + 300)) as u64;
    let late = Scratch::new("late", &(text(count) + "0,1,512,r\n"));
    let input = late.input();
    let readers = Readers::open(&[&input], 1, Fit::default()).unwrap();
    let played = drain(readers.source(0, &input).unwrap()).len() as u64;
    assert_eq!(played, count, "everything before the wrong line");
    let outcome = readers.finish().remove(0);
    assert_eq!(
        outcome.error.and_then(|error| error.line()),
        Some(count + 1)
    );
}

#[test]
fn traces_fit_the_target() {
    let file = Scratch::new("fit", &text(100));
    let fit = Fit {
        target_bytes: Some(8192),
        align_bytes: None,
    };
    let error = Readers::open(&[&file.input()], 1, fit).err().unwrap();
    assert_eq!(
        (error.code, error.line()),
        (TraceCode::TraceOption.name(), Some(17))
    );
}

#[test]
fn rows_written_into_a_fifo_are_ready_before_the_next_are_written() {
    let fifo = Scratch::new("fifo", "");
    let made = std::process::Command::new("mkfifo").arg(&fifo.0).status();
    assert!(made.unwrap().success());
    let (go, wait) = channel::<()>();
    let path = fifo.0.clone();
    let writer = thread::spawn(move || {
        let header = Header::new(Content::Trace, Order::Intended);
        let mut writer = SegmentWriter::new(std::fs::File::create(path).unwrap(), &header).unwrap();
        for at in [10, 20, 30] {
            writer.write(&row(at)).unwrap();
            writer.flush().unwrap();
            wait.recv().unwrap();
        }
        writer.finish().unwrap();
    });
    let input = fifo.input();
    let readers = Readers::open(&[&input], 1, Fit::default()).unwrap();
    let mut source = readers.source(0, &input).unwrap();
    for at in [10, 20, 30] {
        let mut block = Vec::new();
        while source.next_block(&mut block) == SourceState::NotYet {
            thread::yield_now();
        }
        assert_eq!(
            block
                .iter()
                .map(|operation| operation.at.0)
                .collect::<Vec<_>>(),
            [at]
        );
        go.send(()).unwrap();
    }
    writer.join().unwrap();
    assert!(drain(source).is_empty());
}

fn row(at: u64) -> Row {
    Row {
        intended: Nanos(at),
        issued: Nanos::NEVER,
        completed: Nanos::NEVER,
        offset: 0,
        size: 512,
        result: 0,
        stream: 0,
        device: 0,
        kind: Kind::Read,
    }
}

#[test]
fn a_trace_filament_of_the_protocol_is_an_input() {
    use bw_schedule::workload::FilamentSpec;
    let text =
        r#"{"type":"trace","name":"a","path":"x","window_ns":5,"offsets":"wrap","for_ns":null}"#;
    let FilamentSpec::Trace(spec) = serde_json::from_str::<FilamentSpec<TraceInput>>(text).unwrap()
    else {
        unreachable!("the type says so");
    };
    assert_eq!(spec.input.window_ns, Some(5));
    assert_eq!(spec.input.path.list(), ["x"]);
    let unknown = r#"{"type":"trace","path":"x","ofsets":"wrap"}"#;
    assert!(serde_json::from_str::<FilamentSpec<TraceInput>>(unknown).is_err());
}

#[test]
fn a_reader_that_is_gone_without_a_word_is_at_its_end() {
    let (sender, source) = ring(&Arc::default());
    let (mut sender, mut source) = (sender.unwrap(), source.unwrap());
    let mut block = sender.take().unwrap();
    block.push(Operation {
        at: Nanos(5),
        offset: 0,
        size: 1,
        kind: Kind::Read,
        notify: false,
        tag: 0,
    });
    sender.give(block).unwrap();
    let mut taken = Vec::new();
    drop(sender);
    assert_eq!(source.next_block(&mut taken), SourceState::Ready);
    assert_eq!(taken.len(), 1);
    assert_eq!(source.next_block(&mut taken), SourceState::Ended);
}
