//! Prints what one intended start, and one operation, costs [ns], for each process and location.
//! `cargo run --release -p bw-schedule --example arrival_cost`

use bw_model::{Kind, Nanos};
use bw_schedule::access::{Access, AccessSpec, RegionSpec};
use bw_schedule::arrival::{ArrivalSpec, Arrivals};
use bw_schedule::distribution::DistributionSpec;
use bw_schedule::location::LocationSpec;
use bw_schedule::random::Stream;
use bw_schedule::rate::{RateSpec, RateStep};
use std::hint::black_box;
use std::time::Instant;

const CALLS: u32 = 5_000_000;

fn main() -> Result<(), String> {
    let flat = RateSpec::Constant {
        micro_per_s: 1_000_000_000_000,
    };
    let ramp = RateSpec::Steps(vec![RateStep {
        for_ns: 100_000_000_000,
        from_micro_per_s: 1_000_000_000,
        to_micro_per_s: 1_000_000_000_000,
    }]);
    let period = DistributionSpec::Constant { value: 10_000_000 };
    let on_off = ArrivalSpec::OnOff {
        on: period.clone(),
        off: period,
    };
    arrivals("constant", &ArrivalSpec::Constant {}, &flat)?;
    arrivals("poisson", &ArrivalSpec::Poisson {}, &flat)?;
    arrivals("poisson, ramp", &ArrivalSpec::Poisson {}, &ramp)?;
    arrivals("uniform", &ArrivalSpec::Uniform {}, &flat)?;
    arrivals(
        "gamma, cv 2",
        &ArrivalSpec::Gamma {
            cv_micro: 2_000_000,
        },
        &flat,
    )?;
    arrivals("on-off", &on_off, &flat)?;
    operations("uniform", LocationSpec::Uniform {})?;
    operations("sequential", LocationSpec::Sequential {})?;
    for exponent_micro in [600_000, 1_000_000, 1_200_000] {
        operations(&format!("zipf {exponent_micro}"), zipf(exponent_micro))?;
    }
    Ok(())
}

fn zipf(exponent_micro: u64) -> LocationSpec {
    LocationSpec::Zipf {
        exponent_micro,
        objects: None,
        scattered: true,
        scatter_seed: 0,
    }
}

fn arrivals(name: &str, arrival: &ArrivalSpec, rate: &RateSpec) -> Result<(), String> {
    let mut arrivals = Arrivals::new(arrival, rate, Stream::new(1, 1))?;
    let begin = Instant::now();
    for _ in 0..CALLS {
        black_box(arrivals.next());
    }
    report("arrival", name, begin);
    Ok(())
}

fn operations(name: &str, location: LocationSpec) -> Result<(), String> {
    let spec = AccessSpec {
        kinds: vec![(Kind::Read, 70), (Kind::Write, 30)],
        size: DistributionSpec::Constant { value: 4096 },
        location,
        region: RegionSpec::default(),
        align_bytes: 4096,
    };
    let mut access = Access::new(&spec, 1 << 40, Stream::new(1, 2))?;
    let begin = Instant::now();
    for _ in 0..CALLS {
        black_box(access.next(Nanos::ZERO));
    }
    report("operation", name, begin);
    Ok(())
}

fn report(what: &str, name: &str, begin: Instant) {
    let each = begin.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS);
    println!("{what:9}  {name:14}  {each:6.1} ns");
}
