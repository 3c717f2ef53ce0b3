//! What a workload asks of its target, as far as that is known before it runs.

use bw_schedule::access::AccessSpec;
use bw_schedule::distribution::{Distribution, DistributionSpec};
use bw_model::Kind;
use bw_schedule::workload::{FilamentSpec, WorkloadSpec};

/// Buffers are made this large at first where sizes have no bound, or are not known: a trace's.
const UNKNOWN_BYTES: u64 = 256 << 10;

fn access<T>(filament: &FilamentSpec<T>) -> Option<&AccessSpec> {
    match filament {
        FilamentSpec::Open(spec) => Some(&spec.access),
        FilamentSpec::Closed(spec) => Some(&spec.access),
        FilamentSpec::PartlyOpen(spec) => Some(&spec.access),
        FilamentSpec::Follow(spec) => Some(&spec.access),
        FilamentSpec::Tpcb(_) | FilamentSpec::Spc1(_) | FilamentSpec::Trace(_) => None,
    }
}

/// Returns whether the workload may change data. A trace may: it is not read twice to find out.
#[must_use]
pub fn writes<T>(workload: &WorkloadSpec<T>) -> bool {
    let changes = |kind: &Kind| matches!(kind, Kind::Write | Kind::Discard);
    workload.filaments.iter().any(|filament| {
        access(filament).is_none_or(|access| access.kinds.iter().any(|(kind, _)| changes(kind)))
    })
}

/// Returns how large the buffers of operations should be made [bytes]; larger ones may come.
#[must_use]
pub fn largest_bytes<T>(workload: &WorkloadSpec<T>) -> u32 {
    let largest = |filament| {
        let size = access(filament).and_then(|access| Distribution::new(&access.size).ok());
        size.map_or(UNKNOWN_BYTES, |size| size.range().1)
    };
    let most = workload.filaments.iter().map(largest).max();
    // A quarter of a megabyte fits; so does the greatest named size that anybody asks for.
    let bounded = most.unwrap_or_default().min(UNKNOWN_BYTES);
    u32::try_from(bounded).unwrap_or(u32::MAX)
}

/// Returns what must be multiples of the target's block: a name for messages, and the bytes.
pub fn multiples<T>(workload: &WorkloadSpec<T>) -> impl Iterator<Item = (String, u64)> {
    let each = workload.filaments.iter().enumerate();
    each.filter_map(|(place, filament)| access(filament).map(|access| (place, access)))
        .flat_map(|(place, access)| {
            let named = |what| format!("filaments[{place}].access.{what}");
            let align = Some((named("align_bytes"), access.align_bytes));
            let size = match access.size {
                DistributionSpec::Constant { value } => Some((named("size"), value)),
                _ => None,
            };
            // What is asked for comes before what may only follow from it.
            size.into_iter().chain(align)
        })
}

/// Returns what the readers of the workload's traces need to know, in order.
pub fn traces<T>(workload: &WorkloadSpec<T>) -> impl Iterator<Item = &T> {
    workload
        .filaments
        .iter()
        .filter_map(|filament| match filament {
            FilamentSpec::Trace(trace) => Some(&trace.input),
            _ => None,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn workload(kinds: serde_json::Value, size: serde_json::Value) -> WorkloadSpec {
        let access = json!({"kinds": kinds, "size": size, "location": {"type": "uniform"}, "align_bytes": 512});
        let think = json!({"type": "constant", "value": 0});
        let user = json!({"type": "closed", "users": 1, "think": think, "access": access});
        serde_json::from_value(json!({"seed": 1, "filaments": [user]})).unwrap()
    }

    #[test]
    fn reads_and_flushes_change_nothing() {
        let size = json!({"type": "constant", "value": 4096});
        assert!(!writes(&workload(
            json!([["read", 1], ["flush", 1]]),
            size.clone()
        )));
        assert!(writes(&workload(
            json!([["read", 1], ["discard", 1]]),
            size.clone()
        )));
        let told: Vec<_> = multiples(&workload(json!([["read", 1]]), size)).collect();
        assert_eq!(told[0], ("filaments[0].access.size".to_owned(), 4096));
    }

    #[test]
    fn buffers_are_as_large_as_the_largest_size_up_to_a_bound() {
        let uniform = json!({"type": "uniform", "low": 512, "high": 8192});
        let endless = json!({"type": "exponential", "mean": 4096});
        assert_eq!(
            largest_bytes(&workload(json!([["read", 1]]), uniform)),
            8192
        );
        assert_eq!(
            largest_bytes(&workload(json!([["read", 1]]), endless)),
            256 << 10
        );
    }
}
