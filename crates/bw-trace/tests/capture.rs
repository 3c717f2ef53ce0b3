//! A capture of a real device: the trace contains exactly what `dd` does to a loop device.
//! Needs root, loop devices and tracefs; prints what is missing if it cannot run.

#![allow(clippy::unwrap_used)] // a panic is the report of a test

use bw_model::Kind;
use bw_model::Nanos;
use bw_model::Row;
use bw_record::segment::reader::SegmentReader;
use bw_trace::capture::{CaptureRequest, CaptureResult, capture};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// A loop device on a file of its own; both are removed at the end.
struct Loop {
    directory: TempDir,
    device: String,
}

impl Loop {
    fn new() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("image");
        File::create(&image).unwrap().set_len(16 << 20).unwrap();
        let made = Command::new("losetup")
            .args(["-f", "--show"])
            .arg(&image)
            .output();
        let device = match made {
            Ok(output) if output.status.success() => {
                String::from_utf8(output.stdout).unwrap().trim().to_owned()
            }
            _ => {
                writeln!(
                    std::io::stderr(),
                    "SKIPPED: no loop device can be made here (that takes root)"
                )
                .unwrap();
                return None;
            }
        };
        Some(Self { directory, device })
    }

    fn path(&self, name: &str) -> String {
        self.directory
            .path()
            .join(name)
            .to_str()
            .unwrap()
            .to_owned()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
    }
}

fn rows(path: &str) -> Vec<Row> {
    let mut reader = SegmentReader::new(File::open(path).unwrap(), false).unwrap();
    let (mut rows, mut block) = (Vec::new(), Vec::new());
    while reader.next_block(&mut block).unwrap() {
        rows.append(&mut block);
    }
    rows
}

/// Runs `work` while a capture runs, and returns what was captured.
fn captured(
    request: &CaptureRequest,
    work: impl FnOnce() + Send,
) -> Option<(CaptureResult, Vec<Row>)> {
    let (stop, ready) = (AtomicBool::new(false), AtomicBool::new(false));
    let result = std::thread::scope(|scope| {
        let recording = scope.spawn(|| {
            capture(
                request,
                || stop.load(Ordering::SeqCst),
                || ready.store(true, Ordering::SeqCst),
            )
        });
        while !ready.load(Ordering::SeqCst) && !recording.is_finished() {
            std::thread::yield_now();
        }
        if ready.load(Ordering::SeqCst) {
            work();
        }
        stop.store(true, Ordering::SeqCst);
        recording.join().unwrap()
    });
    match result {
        Ok(result) => Some((result, rows(&request.output))),
        Err(error) if error.code == "trace-capture" => {
            writeln!(std::io::stderr(), "SKIPPED: {error}").unwrap();
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn dd(arguments: &[&str]) -> u32 {
    let mut child = Command::new("dd")
        .args(arguments)
        .arg("status=none")
        .spawn()
        .unwrap();
    assert!(child.wait().unwrap().success());
    child.id()
}

fn request(device: Option<&str>, pid: Option<u32>, output: &str) -> CaptureRequest {
    let (device, output) = (device.map(str::to_owned), output.to_owned());
    CaptureRequest {
        device,
        pid,
        for_ns: None,
        output,
        buffer_kib: 4096,
    }
}

#[test]

fn direct_reads_and_writes_of_a_device_are_in_its_trace() {
    let Some(disk) = Loop::new() else {
        return;
    };
    let request = request(Some(&disk.device), None, &disk.path("trace"));
    let (to, from) = (format!("of={}", disk.device), format!("if={}", disk.device));
    let work = || {
        dd(&[
            "if=/dev/zero",
            &to,
            "bs=64k",
            "count=3",
            "seek=2",
            "oflag=direct",
            "conv=notrunc",
        ]);
        dd(&[
            "of=/dev/null",
            &from,
            "bs=4k",
            "count=5",
            "skip=100",
            "iflag=direct",
        ]);
    };
    let Some((result, rows)) = captured(&request, work) else {
        return;
    };
    assert_eq!(
        (result.lost_events, result.unread_records, result.unfinished),
        (0, 0, 0)
    );
    assert_eq!(result.operations, rows.len() as u64);
    let writes: Vec<_> = rows.iter().filter(|row| row.kind == Kind::Write).collect();
    let places: Vec<_> = writes.iter().map(|row| (row.offset, row.size)).collect();
    assert_eq!(
        places,
        [(2 << 16, 1 << 16), (3 << 16, 1 << 16), (4 << 16, 1 << 16)]
    );
    // udev or the kernel may read a device that was just written to, at other places.
    for block in 100..105 {
        let place = (block * 4096, 4096);
        let found: Vec<_> = rows
            .iter()
            .filter(|row| (row.offset, row.size) == place)
            .collect();
        assert!(!found.is_empty(), "block {block}");
        assert!(
            found
                .iter()
                .all(|row| row.completed != Nanos::NEVER && row.completed >= row.issued)
        );
    }
    let name = Path::new(&disk.device)
        .file_name()
        .unwrap()
        .to_str()
        .unwrap();
    assert!(
        writes
            .iter()
            .all(|row| result.devices[usize::from(row.device)] == name)
    );
    assert!(rows.is_sorted_by_key(|row| row.intended));
    assert_eq!(rows[0].intended, Nanos::ZERO);
}

#[test]
fn a_process_tree_is_distinguished_from_its_neighbours() {
    let Some(disk) = Loop::new() else {
        return;
    };
    let from = format!("if={}", disk.device);
    let neighbour = AtomicBool::new(false);
    // A tree of one shell, which waits for the capture and then starts a child.
    let gate = disk.path("gate");
    let script = format!(
        "until [ -e '{gate}' ]; do sleep 0.01; done; dd {from} of=/dev/null bs=4k count=4 skip=7 iflag=direct status=none"
    );
    let mut shell = Command::new("sh").args(["-c", &script]).spawn().unwrap();
    let request = request(Some(&disk.device), Some(shell.id()), &disk.path("trace"));
    let work = || {
        dd(&[
            "of=/dev/null",
            &from,
            "bs=4k",
            "count=4",
            "skip=900",
            "iflag=direct",
        ]);
        neighbour.store(true, Ordering::SeqCst);
        File::create(&gate).unwrap();
        assert!(shell.wait().unwrap().success());
    };
    let traced = captured(&request, work);
    if !neighbour.load(Ordering::SeqCst) {
        File::create(&gate).unwrap();
        let _ = shell.wait();
    }
    let Some((_, rows)) = traced else { return };
    let blocks: Vec<u64> = rows.iter().map(|row| row.offset / 4096).collect();
    assert_eq!(blocks, [7, 8, 9, 10]);
}

#[test]
fn an_existing_output_is_refused_and_kept() {
    let Some(disk) = Loop::new() else {
        return;
    };
    let output = disk.path("trace");
    fs::write(&output, "mine").unwrap();
    let request = request(Some(&disk.device), None, &output);
    let error = capture(&request, || true, || ()).unwrap_err();
    assert!(error.message.contains("already"), "{error}");
    assert_eq!(fs::read_to_string(&output).unwrap(), "mine");
}

#[test]
fn a_process_that_is_not_there_is_refused_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("trace");
    let request = CaptureRequest {
        device: None,
        pid: Some(4_194_305), // one above the greatest that Linux gives
        for_ns: Some(1),
        output: output.to_str().unwrap().to_owned(),
        buffer_kib: 64,
    };
    let error = capture(&request, || true, || ()).unwrap_err();
    assert!(error.message.contains("no process 4194305"), "{error:?}");
    assert!(!output.exists());
}
