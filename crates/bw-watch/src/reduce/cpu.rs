//! CPUs in a window: use by owner, waiting tasks, frequency, temperature, throttling.
//!
//! Source: docs/watch-format.md for the columns. /proc/stat counts in ticks (usually 10 ms), so shares of a window of a
//! few ticks, and of one interval, are coarse.

use super::columns::{Columns, Sample};
use super::file::Header;
use super::resource_use::{ClockUse, CpuUse};
use super::window::Figures;
use std::collections::VecDeque;

const BUSY: [&str; 5] = ["user", "nice", "system", "irq", "softirq"];

/// Returns the use of the CPUs; None if /proc/stat was not reported. `of_kernel` is the use by the kernel's own threads.
pub(super) fn cpu_use(figures: &Figures<'_>, of_kernel: Option<f64>) -> Option<CpuUse> {
    let mut numbers = figures.between("cpu", "user");
    numbers.retain(|number| figures.growth(&format!("cpu/{number}/user")).is_some());
    if numbers.is_empty() {
        return None;
    }
    let of_all = |kinds: &[&str]| cores(figures, &numbers, kinds);
    let each: Vec<f64> = numbers
        .iter()
        .map(|number| cores(figures, &[number], &BUSY))
        .collect();
    let busy = each.iter().fold(0.0, |sum, one| sum + one);
    let interrupts = of_all(&["irq", "softirq"]);
    let [own, target, watcher] = ["own", "target", "watcher"].map(|of| tree(figures, of));
    Some(CpuUse {
        count: numbers.len(),
        busy,
        user: of_all(&["user", "nice"]),
        system: of_all(&["system"]),
        interrupts,
        iowait: of_all(&["iowait"]),
        steal: of_all(&["steal"]),
        each: each.iter().map(|one| one.min(1.0)).collect(),
        // The number includes the sampler, which runs while it reads it.
        runnable: figures
            .mean("kernel/running")
            .map(|mean| (mean - 1.0).max(0.0)),
        pressure: pressure(figures, "cpu", "some"),
        own,
        target,
        watcher,
        others: own.map(|own| {
            let known = [target, watcher].map(|cores| cores.unwrap_or(0.0));
            (busy - interrupts - own - known[0] - known[1]).max(0.0)
        }),
        own_user: figures.rate(["own/user_ns"]).map(|rate| rate / 1e9),
        kernel: of_kernel,
    })
}

/// Returns the share of the window in which `some` task waited for a resource, or all did (`full`).
pub(super) fn pressure(figures: &Figures<'_>, resource: &str, of: &str) -> Option<f64> {
    let rate = figures.rate([format!("pressure/{resource}/{of}")])?;
    Some((rate / 1e6).min(1.0))
}

fn cores(figures: &Figures<'_>, numbers: &[&str], kinds: &[&str]) -> f64 {
    let of_number = |number| kinds.iter().map(move |kind| format!("cpu/{number}/{kind}"));
    let rate = figures.rate(numbers.iter().flat_map(of_number));
    rate.unwrap_or(0.0) / figures.header.ticks_per_s as f64
}

fn tree(figures: &Figures<'_>, of: &str) -> Option<f64> {
    let rate = figures.rate(["user_ns", "system_ns"].map(|kind| format!("{of}/{kind}")))?;
    Some(rate / 1e9)
}

/// The least busy share of an interval at which a CPU's frequency counts: that of an idle CPU is unrelated to the trial.
const BUSY_SHARE: f64 = 0.5;
/// Converts the reported kHz to Hz.
const HZ: f64 = 1000.0;

/// Returns frequencies, temperature and throttling; None if nothing is reported.
pub(super) fn clock_use(figures: &Figures<'_>, clocks: &WindowClocks) -> Option<ClockUse> {
    let mut changed: Option<&ClockRange> = None;
    for one in clocks.each.iter().filter(|one| one.count > 0.0) {
        if changed.is_none_or(|most| one.least / one.most < most.least / most.most) {
            changed = Some(one);
        }
    }
    let sum = clocks.each.iter().fold(0.0, |sum, one| sum + one.sum);
    let count = clocks.each.iter().fold(0.0, |sum, one| sum + one.count);
    let temperatures = figures
        .names()
        .filter(|name| name.starts_with("thermal/"))
        .filter_map(|name| figures.most(name));
    let throttles: Vec<&str> = figures
        .names()
        .filter(|name| name.starts_with("throttle/"))
        .collect();
    let clock = ClockUse {
        frequency_min: changed.map(|one| one.least * HZ),
        frequency_max: changed.map(|one| one.most * HZ),
        frequency_mean: (count > 0.0).then(|| sum * HZ / count),
        temperature_max: temperatures.map(|one| one / 1000.0).reduce(f64::max),
        thermal_throttles: (!throttles.is_empty()).then(|| figures.count(&throttles)),
    };
    (clock != ClockUse::default()).then_some(clock)
}

/// A CPU whose frequency is reported.
#[derive(Debug)]
struct Clock {
    gauge: usize,
    /// The counters of its busy time.
    ticks: Vec<usize>,
}

/// How busy each CPU with a reported frequency was in the interval before a sample.
#[derive(Debug, Default)]
pub(super) struct BusyClocks {
    clocks: Vec<Clock>,
    known: (usize, usize),
    /// Time and ticks of the samples needed to interpolate one interval before the last.
    past: VecDeque<(i64, Vec<f64>)>,
}

impl BusyClocks {
    /// Adds a sample, whose totals the columns have.
    pub(super) fn take(&mut self, header: &Header, columns: &Columns, sample: &Sample) {
        self.fit(columns);
        if self.clocks.is_empty() {
            return;
        }
        let ticks = |clock: &Clock| {
            let totals = clock
                .ticks
                .iter()
                .map(|place| columns.counters.total(*place));
            totals.fold(0.0, |sum, total| sum + total)
        };
        let now = self.clocks.iter().map(ticks).collect();
        self.past.push_back((sample.when_ns, now));
        let oldest_ns = sample.when_ns - header.interval_ns.0;
        while self.past.get(1).is_some_and(|one| one.0 <= oldest_ns) {
            self.past.pop_front();
        }
    }

    /// Returns the busy share of a CPU in the interval before the last sample.
    fn share(&self, header: &Header, number: usize) -> f64 {
        let interval_ns = header.interval_ns.0;
        let ticks = header.ticks_per_s as f64 * interval_ns as f64 / 1e9;
        let Some((last_ns, last)) = self.past.back() else {
            return 0.0;
        };
        let now = last[number];
        let (mut after_ns, mut after) = (*last_ns, now);
        let when_ns = last_ns - interval_ns;
        for (before_ns, before) in self.past.iter().rev() {
            let (before_ns, before) = (*before_ns, before[number]);
            if before_ns <= when_ns {
                let slope = (after - before) / (after_ns - before_ns).max(1) as f64;
                return (now - (slope * (when_ns - before_ns) as f64 + before)) / ticks;
            }
            (after_ns, after) = (before_ns, before);
        }
        (now - after) / ticks
    }

    /// Adds new CPUs.
    fn fit(&mut self, columns: &Columns) {
        let (counters, gauges) = (&columns.counters.names, &columns.gauges.names);
        let known = (counters.list.len(), gauges.list.len());
        if self.known == known {
            return;
        }
        self.known = known;
        let numbers = gauges.list.iter().enumerate();
        self.clocks = numbers
            .filter_map(|(gauge, name)| Some((gauge, name.strip_prefix("frequency/")?)))
            .map(|(gauge, number)| Clock {
                gauge,
                ticks: BUSY
                    .iter()
                    .filter_map(|kind| counters.place(&format!("cpu/{number}/{kind}")))
                    .collect(),
            })
            .collect();
        for (_, ticks) in &mut self.past {
            ticks.resize(self.clocks.len(), 0.0);
        }
    }
}

/// The frequencies of one CPU while it was busy [kHz].
#[derive(Debug, Clone)]
struct ClockRange {
    least: f64,
    most: f64,
    sum: f64,
    count: f64,
}

/// The frequencies of busy CPUs from one moment to another.
#[derive(Debug)]
pub(super) struct WindowClocks {
    begin_ns: i64,
    end_ns: i64,
    each: Vec<ClockRange>,
}

impl WindowClocks {
    pub(super) fn new(begin_ns: i64, end_ns: i64) -> Self {
        Self {
            begin_ns,
            end_ns,
            each: Vec::new(),
        }
    }

    /// Adds a sample, after `busy` has it; samples of idle CPUs are ignored.
    pub(super) fn take(&mut self, header: &Header, sample: &Sample, busy: &BusyClocks) {
        if !(self.begin_ns..=self.end_ns).contains(&sample.when_ns) {
            return;
        }
        let nothing = ClockRange {
            least: f64::NAN,
            most: f64::NAN,
            sum: 0.0,
            count: 0.0,
        };
        self.each.resize(busy.clocks.len(), nothing);
        for (number, (one, clock)) in self.each.iter_mut().zip(&busy.clocks).enumerate() {
            let reported = sample.gauges[clock.gauge];
            // 0 means no frequency; comparisons with NaN are false.
            if reported > 0.0 && busy.share(header, number) >= BUSY_SHARE {
                one.least = one.least.min(reported);
                one.most = one.most.max(reported);
                one.sum += reported;
                one.count += 1.0;
            }
        }
    }
}
