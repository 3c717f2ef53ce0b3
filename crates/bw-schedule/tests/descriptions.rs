//! The descriptions in the engine's protocol are read in the documented form, and in no other.

#![allow(
    clippy::unwrap_used,
    reason = "a test may unwrap, in its own functions too"
)]

use bw_schedule::access::AccessSpec;
use bw_schedule::arrival::ArrivalSpec;
use bw_schedule::distribution::DistributionSpec;
use bw_schedule::location::LocationSpec;
use bw_schedule::rate::RateSpec;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads each text, writes the value and reads it again.
fn round<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(texts: &[&str]) {
    for text in texts {
        let spec: T = serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let again: T = serde_json::from_str(&serde_json::to_string(&spec).unwrap()).unwrap();
        assert_eq!(again, spec);
    }
}

fn refused<T: DeserializeOwned + std::fmt::Debug>(text: &str, why: &str) {
    let error = serde_json::from_str::<T>(text).unwrap_err().to_string();
    assert!(error.contains(why), "{text}: {error}");
}

#[test]
fn the_protocols_examples_are_read() {
    round::<ArrivalSpec>(&[
        r#"{"type":"constant"}"#,
        r#"{"type":"poisson"}"#,
        r#"{"type":"uniform"}"#,
        r#"{"type":"gamma","cv_micro":2000000}"#,
        r#"{"type":"on-off","on":{"type":"constant","value":5},"off":{"type":"exponential","mean":7}}"#,
        r#"{"type":"recorded","gaps_ns":[1,2,3]}"#,
        r#"{"type":"recorded","gaps_ns":[1,2,3],"repeat":false}"#,
    ]);
    round::<RateSpec>(&[
        r#"{"micro_per_s":5}"#,
        r#"{"steps":[{"for_ns":1,"from_micro_per_s":2,"to_micro_per_s":3}]}"#,
        r#"{"recorded":true}"#,
    ]);
    round::<DistributionSpec>(&[
        r#"{"type":"uniform","low":1,"high":2}"#,
        r#"{"type":"lognormal","mean":1,"cv_micro":2}"#,
        r#"{"type":"pareto","minimum":1,"shape_micro":2}"#,
        r#"{"type":"weighted","values":[[1,2],[3,4]]}"#,
    ]);
    round::<LocationSpec>(&[
        r#"{"type":"uniform"}"#,
        r#"{"type":"zipf","exponent_micro":1200000,"objects":9}"#,
        r#"{"type":"hot-cold","hot_space_micro":1,"hot_access_micro":2}"#,
        r#"{"type":"strided","stride_bytes":8192}"#,
        r#"{"type":"mixed","parts":[[{"type":"sequential"},1],[{"type":"uniform"},2]]}"#,
    ]);
    round::<AccessSpec>(&[
        r#"{"kinds":[["read",70],["write",30]],"size":{"type":"constant","value":4096},
            "location":{"type":"uniform"},"region":{"offset_bytes":0,"length_bytes":null},"align_bytes":4096}"#,
    ]);
}

#[test]
fn an_unknown_field_is_an_error() {
    refused::<ArrivalSpec>(
        r#"{"type":"poisson","cv_micro":1}"#,
        "unknown field `cv_micro`",
    );
    refused::<LocationSpec>(r#"{"type":"sequential","x":1}"#, "unknown field `x`");
    refused::<DistributionSpec>(
        r#"{"type":"constant","value":1,"x":1}"#,
        "unknown field `x`",
    );
    refused::<RateSpec>(r#"{"micro_per_s":1,"x":1}"#, "unknown field `x`");
    refused::<ArrivalSpec>(r#"{"type":"sine"}"#, "unknown variant `sine`");
}

#[test]
fn a_rate_is_one_thing() {
    refused::<RateSpec>("{}", "exactly one of");
    refused::<RateSpec>(r#"{"micro_per_s":1,"steps":[]}"#, "exactly one of");
    refused::<RateSpec>(r#"{"micro_per_s":-1}"#, "-1");
}
