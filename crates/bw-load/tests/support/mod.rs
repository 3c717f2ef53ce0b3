//! Runs the worker's own loop in virtual time, and stores every row.

#![allow(dead_code)]

use bw_load::channels::{BlockReceiver, exchange, mesh};
use bw_load::clock::{Clock, VirtualClock};
use bw_load::null::{Null, NullSpec, Stall};
use bw_load::policy::{Full, Late, SpinMargin};
use bw_load::record::{BLOCK, FlowCounts, OperationCounts, WorkerRecord};
use bw_load::target::Target;
use bw_load::worker::{Finished, Stop, Worker, WorkerFilament, WorkerInputs, WorkerPlan};
use bw_model::{Kind, Nanos, Operation, Rate, Row};
use bw_schedule::filaments::{Emissions, Event, Filament};

pub(crate) const MS: u64 = 1_000_000;

/// Constant arrivals, in blocks of ten, known ahead of time.
pub(crate) struct Every {
    pub rate: Rate,
    pub next: u64,
}

impl Every {
    pub(crate) fn second(times: u64) -> Box<Self> {
        let rate = Rate::from_micro_per_s(times * 1_000_000).unwrap();
        Box::new(Self { rate, next: 0 })
    }
}

impl Filament for Every {
    fn wake(&mut self, event: Event, emit: &mut Emissions) {
        if let Event::Start | Event::Timer { .. } = event {
            for index in self.next..self.next + 10 {
                emit.operations.push(read_at(self.rate.arrival(index)));
            }
            self.next += 10;
            emit.timers.push((self.rate.arrival(self.next - 5), 0));
        }
    }
}

pub(crate) fn read_at(at: Nanos) -> Operation {
    Operation {
        at,
        ..Operation::new(Kind::Read, 0, 512)
    }
}

pub(crate) fn entry(filaments: Vec<Box<dyn Filament>>) -> Vec<WorkerFilament> {
    let pairs = (0..).zip(filaments);
    pairs
        .map(|(id, filament)| WorkerFilament { id, filament })
        .collect()
}

/// Returns a plan: catch up, queue, a large depth and backlog.
pub(crate) fn plan(end_ms: u64) -> WorkerPlan {
    WorkerPlan {
        depth: 100_000,
        backlog: 1_000_000,
        full: Full::Queue,
        late: Late::CatchUp,
        end: Nanos(end_ms * MS),
        drain: Nanos::SECOND,
        spin_margin: SpinMargin::NONE,
        near: Nanos::ZERO,
        interval: Nanos(100 * MS),
    }
}

pub(crate) fn stalled(service_ns: u64, at_ms: u64, for_ms: u64) -> NullSpec {
    NullSpec {
        service_ns: Nanos(service_ns),
        stalls: vec![Stall {
            at_ns: Nanos(at_ms * MS),
            for_ns: Nanos(for_ms * MS),
        }],
    }
}

pub(crate) struct Simulated {
    pub counts: OperationCounts,
    pub flow: FlowCounts,
    pub rows: Vec<Row>,
    pub record: WorkerRecord,
}

impl Simulated {
    /// Returns the response times of all operations that ended.
    pub(crate) fn responses(&self) -> Vec<u64> {
        let ended = self.rows.iter().filter(|row| row.completed != Nanos::NEVER);
        ended
            .map(|row| row.completed.since(row.intended).0)
            .collect()
    }
}

/// Runs filaments on a null target.
pub(crate) fn simulate(
    plan: WorkerPlan,
    spec: NullSpec,
    filaments: Vec<WorkerFilament>,
) -> Simulated {
    let clock = VirtualClock::default();
    let target = Null::new(spec, clock.clone(), plan.depth);
    simulate_on(plan, target, clock, filaments)
}

pub(crate) fn simulate_on<T: Target>(
    plan: WorkerPlan,
    target: T,
    clock: VirtualClock,
    filaments: Vec<WorkerFilament>,
) -> Simulated {
    simulate_from(Nanos::ZERO, plan, target, clock, filaments, Stop::default())
}

/// Runs filaments; the measured part begins at `measured_from`.
pub(crate) fn simulate_from<T: Target>(
    measured_from: Nanos,
    plan: WorkerPlan,
    target: T,
    clock: VirtualClock,
    filaments: Vec<WorkerFilament>,
    stop: Stop,
) -> Simulated {
    let (finished, mut rows) = finish_from(measured_from, plan, target, clock, filaments, stop);
    let rows = std::iter::from_fn(|| rows.take()).flatten().collect();
    Simulated {
        counts: finished.record.counts(),
        flow: finished.record.flow(),
        record: finished.record,
        rows,
    }
}

pub(crate) fn finish<T: Target, C: Clock>(
    plan: WorkerPlan,
    target: T,
    clock: C,
    filaments: Vec<WorkerFilament>,
    stop: Stop,
) -> (Finished<T>, BlockReceiver<Vec<Row>>) {
    finish_from(Nanos::ZERO, plan, target, clock, filaments, stop)
}

fn finish_from<T: Target, C: Clock>(
    measured_from: Nanos,
    plan: WorkerPlan,
    target: T,
    clock: C,
    filaments: Vec<WorkerFilament>,
    stop: Stop,
) -> (Finished<T>, BlockReceiver<Vec<Row>>) {
    let (intervals, stream) = exchange(8, Vec::new());
    drop(stream);
    let blocks = (0..128).map(|_| Vec::with_capacity(BLOCK)).collect();
    let (blocks, rows) = exchange(129, blocks);
    let inputs = WorkerInputs {
        filaments,
        links: mesh(1).pop().unwrap(),
        stop,
        record: WorkerRecord::new(0, measured_from, intervals, Some(blocks)),
    };
    let worker = Worker::new(plan, target, clock, inputs);
    (worker.run().unwrap(), rows)
}
