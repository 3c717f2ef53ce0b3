//! Prints the operations per second of the file target beside fio's, on the same file in the
//! same minute: 4 KiB random reads past the page cache, one thread, as fast as possible.
//!
//! `file_beside_fio PATH [DEPTH] [PAIRS] [SECONDS] [threads]`. Pairs alternate in their order; the last line
//! is the median of the pairs' ratios. fio uses registered files and buffers.

use bw_load::file::{Engine, FileSpec, FileTarget, TargetUse, open};
use bw_load::target::{Reaped, Target};
use bw_model::{Kind, Nanos, Operation};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

const BLOCK: u32 = 4096;
type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

struct Plan {
    path: String,
    depth: u32,
    pairs: u32,
    seconds: u64,
    engine: Engine,
}

fn plan() -> Option<Plan> {
    let mut words = std::env::args().skip(1);
    let path = words.next()?;
    let mut number = |otherwise| {
        let word = words.next();
        word.map_or(Some(otherwise), |word| word.parse().ok())
    };
    let (depth, pairs) = (number(32)?, number(5)?);
    let seconds = number(3)?.into();
    let threads = std::env::args().any(|word| word == "threads");
    let engine = if threads {
        Engine::Threads
    } else {
        Engine::IoUring
    };
    Some(Plan {
        path,
        depth,
        pairs,
        seconds,
        engine,
    })
}

fn read_at(block: u64) -> Operation {
    Operation::new(Kind::Read, block * u64::from(BLOCK), BLOCK)
}

/// Keeps `depth` reads in flight for the time; returns how many ended per second.
fn ours(plan: &Plan) -> Outcome<f64> {
    let mut spec = FileSpec::at(&plan.path);
    spec.direct = true;
    spec.engine = plan.engine;
    let file = open(&spec, TargetUse { writes: false })?;
    let blocks = file.size_bytes() / u64::from(BLOCK);
    let mut target = file.worker(plan.depth, BLOCK)?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut next = || read_at(((u128::from(random.next_u64()) * u128::from(blocks)) >> 64) as u64);
    let begun = Instant::now();
    for slot in 0..plan.depth {
        target.submit(slot, &next());
    }
    let mut ended = 0_u64;
    let mut ends = Vec::with_capacity(plan.depth as usize);
    let length = Duration::from_secs(plan.seconds);
    while begun.elapsed() < length {
        turn(&mut target, &mut ends)?;
        for end in ends.drain(..) {
            assert_eq!(end.result, BLOCK as i64, "a read failed");
            target.submit(end.slot, &next());
            ended += 1;
        }
    }
    Ok(ended as f64 / begun.elapsed().as_secs_f64())
}

/// Starts what is prepared and takes what has ended; sleeps if nothing has.
fn turn(target: &mut FileTarget, ends: &mut Vec<Reaped>) -> Outcome<()> {
    target.flush()?;
    target.reap(ends)?;
    if ends.is_empty() {
        target.wait(Nanos(1_000_000_000))?;
        target.reap(ends)?;
    }
    Ok(())
}

fn fio(plan: &Plan) -> Outcome<f64> {
    let output = Command::new("fio")
        .args(["--name=read", "--rw=randread", "--bs=4k", "--direct=1"])
        .args(["--ioengine=io_uring", "--registerfiles=1", "--fixedbufs=1"])
        .args([
            "--thread",
            "--time_based",
            "--norandommap",
            "--randrepeat=1",
        ])
        .args(["--gtod_reduce=1", "--output-format=json"])
        .arg(format!("--filename={}", plan.path))
        .arg(format!("--iodepth={}", plan.depth))
        .arg(format!("--runtime={}", plan.seconds))
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let report: serde_json::Value = serde_json::from_str(&text)?;
    Ok(report["jobs"][0]["read"]["iops"]
        .as_f64()
        .ok_or("fio reported no rate")?)
}

fn main() -> ExitCode {
    let Some(plan) = plan() else {
        eprintln!("file_beside_fio PATH [DEPTH] [PAIRS] [SECONDS] [threads]");
        return ExitCode::from(2);
    };
    match compare(&plan) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(plan: &Plan) -> Outcome<()> {
    let mut ratios = Vec::new();
    for pair in 0..plan.pairs {
        let (our_rate, fio_rate) = if pair % 2 == 0 {
            let our_rate = ours(plan)?;
            (our_rate, fio(plan)?)
        } else {
            let fio_rate = fio(plan)?;
            (ours(plan)?, fio_rate)
        };
        ratios.push(our_rate / fio_rate);
        println!(
            "bw {our_rate:.0}/s  fio {fio_rate:.0}/s  ratio {:.3}",
            our_rate / fio_rate
        );
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    println!(
        "depth {}: median ratio {median:.3} of {} pairs",
        plan.depth,
        ratios.len()
    );
    Ok(())
}
