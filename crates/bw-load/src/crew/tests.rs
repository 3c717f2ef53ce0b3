use super::*;
use crate::guard::Guard;
use crate::null::{Null, NullSpec};
use crate::policy::{Full, Late};
use crate::reporter::Desk;
use crate::request::ClockChoice;
use bw_record::interval::Interval;
use bw_schedule::filament::{Emissions, Event, Filament};

struct Nothing;

impl Maker for Nothing {
    type Target = Null<AnyClock>;

    fn make(&self, _worker: usize, clock: AnyClock) -> Result<Self::Target, Trouble> {
        Ok(Null::new(NullSpec::default(), clock, 1))
    }

    fn describe(&self, _target: &Self::Target) -> serde_json::Value {
        serde_json::Value::Null
    }
}

/// Ticks for ever; panics at its time.
struct Ticking(Nanos);

impl Filament for Ticking {
    fn wake(&mut self, event: Event, emit: &mut Emissions) {
        let at = match event {
            Event::Timer { at, .. } => at,
            _ => Nanos::ZERO,
        };
        assert!(at < self.0, "a panic on purpose");
        emit.timers.push((at + Nanos(1_000_000), 0));
    }
}

fn paper(worker: u16) -> (Ledger, Desk) {
    let spare = vec![Box::new(Interval::new(0))];
    let (filler, intervals) = crate::exchange::exchange(64, spare);
    let rows = None;
    (
        Ledger::new(worker, Nanos::ZERO, filler, None),
        Desk { intervals, rows },
    )
}

/// Runs two workers without an end, of which the second panics at `when`.
fn run(when: Nanos) -> Trouble {
    let plan = Plan {
        depth: 1,
        full: Full::Queue,
        late: Late::CatchUp,
        end: Nanos::NEVER,
        drain: Nanos::ZERO,
        guard: Guard::REAL,
        near: Nanos(1000),
        interval: Nanos::SECOND,
    };
    let ticking = |worker| {
        let filament = Box::new(Ticking(if worker == 1 { when } else { Nanos::NEVER }));
        Ok(vec![Hosted {
            id: worker as u32,
            filament,
        }])
    };
    let crew = Crew {
        plan,
        workers: 2,
        cpus: None,
        fifo: None,
        timekeeper: &Timekeeper::choose(ClockChoice::Monotonic).unwrap(),
        stop: &Stop::default(),
        build: &ticking,
    };
    let (ledgers, desks) = (0..2).map(paper).unzip();
    let mut silent = |_: &crate::result::Progress| {};
    let mut reporter = Reporter::new(desks, Nanos::SECOND, None, &mut silent);
    crew.run(&Nothing, ledgers, &mut reporter)
        .map(drop)
        .unwrap_err()
}

#[test]
fn a_worker_that_panics_ends_the_run_with_an_error() {
    for when in [Nanos::ZERO, Nanos(20_000_000)] {
        let trouble = run(when);
        assert_eq!((trouble.status, trouble.code), (1, "worker-died"));
        assert!(trouble.message.contains("worker 1"), "{trouble}");
    }
}
