//! The HTTP target against a real nginx, also one that is stopped for a while.

#![allow(clippy::unwrap_used)]

use bw_load::PlanOptions;
use bw_load::http::HttpTarget;
use bw_load::http::request::HttpSpec;
use bw_load::target::{Reaped, Target};
use bw_model::Nanos;
use network::nginx::Nginx;
use network::{drive, exchange};
use std::io::Write as _;
use std::time::Duration;

mod network;

fn open(nginx: &Nginx, paths: &[&str], connections: u32) -> HttpTarget {
    let url = format!("http://localhost:{}", nginx.port);
    let json = serde_json::json!({"url": url, "paths": paths, "connections": connections});
    let spec: HttpSpec = serde_json::from_value(json).unwrap();
    spec.plan(PlanOptions::default())
        .unwrap()
        .open(connections)
        .unwrap()
}

#[test]
fn twenty_thousand_exchanges_on_64_connections() {
    let Some(nginx) = Nginx::start("many", 1000, 1_000_000) else {
        return;
    };
    let mut target = open(&nginx, &["/", "/none"], 64);
    let operations: Vec<_> = (0..20_000)
        .map(|i| exchange(u64::from(i % 10 == 0), 0))
        .collect();
    for (operation, result) in operations.iter().zip(drive(&mut target, &operations)) {
        assert_eq!(result, [1000, -10_404][operation.offset as usize]);
    }
    assert_eq!(target.describe().reconnects, 0);
}

#[test]
fn connections_that_nginx_ends_cost_no_operation() {
    let Some(nginx) = Nginx::start("ends", 100, 7) else {
        return;
    };
    let mut target = open(&nginx, &["/"], 8);
    assert_eq!(
        drive(&mut target, &vec![exchange(0, 0); 5600]),
        vec![100; 5600]
    );
    let again = target.describe().reconnects;
    assert!((792..=800).contains(&again), "{again}");
}

#[test]
fn a_stopped_nginx_blocks_nobody_and_loses_nothing() {
    let Some(nginx) = Nginx::start("stopped", 100, 1_000_000) else {
        return;
    };
    let mut target = open(&nginx, &["/"], 16);
    assert_eq!(drive(&mut target, &[exchange(0, 0); 160]), [100; 160]);
    nginx.signal(libc::SIGSTOP);
    while !nginx.processes().into_iter().all(is_stopped) {
        std::thread::yield_now();
    }
    let mut ends: Vec<Reaped> = Vec::with_capacity(16);
    for slot in 0..16 {
        target.submit(slot, &exchange(0, 0));
        target.flush().unwrap();
        target.reap(&mut ends).unwrap();
    }
    for _ in 0..10 {
        target
            .wait(Nanos(Duration::from_millis(100).as_nanos() as u64))
            .unwrap();
        target.reap(&mut ends).unwrap();
    }
    assert_eq!(ends, []);
    nginx.signal(libc::SIGCONT);
    while ends.len() < 16 {
        target.wait(Nanos::SECOND).unwrap();
        target.reap(&mut ends).unwrap();
    }
    assert!(ends.iter().all(|end| end.result == 100), "{ends:?}");
    assert_eq!(drive(&mut target, &[exchange(0, 0); 160]), [100; 160]);
    assert_eq!(target.describe().reconnects, 0);
}

/// Returns whether the process is stopped, by /proc.
fn is_stopped(process: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().starts_with('T')
}

/// Prints exchanges per second beside wrk's, alternating:
/// `cargo test --release -p bw-load --test nginx -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, to be read by a person"]
fn throughput_beside_wrk() {
    let Some(nginx) = Nginx::start("throughput", 100, 1_000_000_000) else {
        return;
    };
    let operations = vec![exchange(0, 0); 80_000];
    let mut ratios = Vec::new();
    for pair in 0..15 {
        let mut target = open(&nginx, &["/"], 64);
        let started = std::time::Instant::now();
        let results = drive(&mut target, &operations);
        let ours = operations.len() as f64 / started.elapsed().as_secs_f64();
        assert!(results.iter().all(|&result| result == 100));
        drop(target);
        let Some(wrk) = wrk_rate(nginx.port) else {
            return writeln!(
                std::io::stderr(),
                "{ours:.0}/s; skipped: there is no wrk to compare with"
            )
            .unwrap();
        };
        println!(
            "pair {pair}: {ours:.0}/s, wrk {wrk:.0}/s, ratio {:.3}",
            ours / wrk
        );
        ratios.push(ours / wrk);
    }
    ratios.sort_by(f64::total_cmp);
    println!("median ratio {:.3}", ratios[ratios.len() / 2]);
}

/// Returns the requests per second of `wrk -t1 -c64`; None if wrk is not installed.
fn wrk_rate(port: u16) -> Option<f64> {
    let output = std::process::Command::new("wrk")
        .args(["-t1", "-c64", "-d1s", &format!("http://127.0.0.1:{port}/")])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:"));
    Some(line.unwrap().trim().parse().unwrap())
}
