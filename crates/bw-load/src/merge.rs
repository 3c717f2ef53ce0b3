//! The result of one load that several engines issued, from their results (`merge`).
//!
//! Counts and buckets are added, so every percentile is that of one engine with all operations. Rates are sums, and
//! intervals are those with the same time since time zero, which is the same moment on all hosts.

use crate::result::{LittleLaw, merged_target};
use bw_model::{EngineError, Nanos};
use bw_record::streams::StreamSummary;
use bw_record::summary::{
    GroupSummary, HistogramSummary, IntervalSummary, KindSummary, SequenceSummary,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MergeRequest {
    /// Results of loads, at least one; their intervals have buckets.
    pub results: Vec<Value>,
    /// Length of the intervals of the merged result, a multiple of that of the parts.
    pub interval_ns: Nanos,
    /// Whether its intervals have buckets.
    #[serde(default)]
    pub interval_histograms: bool,
}

/// Returns the merged result. Members that belong to one host (`started_ns`, `pacer`) are those of the first.
///
/// # Errors
/// `merge`: a result is not one of this engine.
pub fn merge(request: &MergeRequest) -> Result<Value, EngineError> {
    merged(request).map_err(|why| {
        let message = format!("the results cannot be merged: {why}");
        EngineError::request("merge", message, "merge results of engines of this version")
    })
}

fn merged(request: &MergeRequest) -> Result<Value, String> {
    let results = &request.results;
    let mut all = results.first().ok_or("there is none")?.clone();
    let any = |name: &str| results.iter().any(|one| one[name] == true);
    let rate = |name: &str| {
        let rates: Vec<f64> = results
            .iter()
            .filter_map(|one| one[name].as_f64())
            .collect();
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>())
    };
    let members = |name: &str| -> Vec<Value> {
        let lists = results.iter().filter_map(|one| one[name].as_array());
        lists.flatten().cloned().collect()
    };
    let stopped = results.iter().find(|one| !one["stopped"].is_null());
    let elapsed = results.iter().filter_map(|one| one["elapsed_ns"].as_u64());
    let lateness: Vec<HistogramSummary> = each(results, "lateness_ns")?;
    let laws: Vec<Option<LittleLaw>> = each(results, "little_law")?;
    let laws: Vec<LittleLaw> = laws.into_iter().flatten().collect();
    let figures = json!({
        "interrupted": any("interrupted"),
        "stopped": stopped.map(|one| &one["stopped"]),
        "elapsed_ns": elapsed.max(),
        "target": merged_target(results.iter().map(|one| &one["target"])),
        "clock": worst_clock(results),
        "counts": sums(results, "counts"),
        "flow": sums(results, "flow"),
        "measured_ns": results.iter().filter_map(|one| one["measured_ns"].as_u64()).max(),
        "intended_rate_per_s": rate("intended_rate_per_s"),
        "offered_rate_per_s": rate("offered_rate_per_s"),
        "achieved_rate_per_s": rate("achieved_rate_per_s"),
        "little_law": LittleLaw::merged(&laws),
        "lateness_ns": HistogramSummary::merged(lateness.iter())?,
        "kinds": summaries(results, "kinds", KindSummary::merged)?,
        "intervals": intervals(request)?,
        "workers": members("workers"),
        "environment": environment(results),
        "samples": null,
    });
    let (Value::Object(all), Value::Object(figures)) = (&mut all, figures) else {
        return Err("one is not an object".to_owned());
    };
    all.extend(figures);
    if all.contains_key("streams") {
        let streams: Vec<StreamSummary> = each(results, "streams")?;
        let streams = StreamSummary::merged(&streams)?;
        all.insert("streams".to_owned(), json!(streams));
    }
    if all.contains_key("labels") {
        let labels = summaries(results, "labels", KindSummary::merged)?;
        all.insert("labels".to_owned(), json!(labels));
    }
    if all.contains_key("groups") {
        let groups = GroupSummary::merged(each(results, "groups")?)?;
        all.insert("groups".to_owned(), json!(groups));
    }
    if all.get("file_set").is_some_and(Value::is_object) {
        let sequences = summaries(results, "sequences", SequenceSummary::merged)?;
        all.insert("sequences".to_owned(), json!(sequences));
        let mut files = results[0]["file_set"].clone();
        for one in &results[1..] {
            add_file_set(&mut files, &one["file_set"], "")?;
        }
        all["target"]["size_bytes"] = files["bytes"].clone();
        all.insert("file_set".to_owned(), files);
    }
    all.remove("type");
    Ok(Value::Object(std::mem::take(all)))
}

/// Returns this member of every result.
fn each<T: DeserializeOwned>(results: &[Value], name: &str) -> Result<Vec<T>, String> {
    let read = |one: &Value| serde_json::from_value(one[name].clone());
    let read: Result<Vec<T>, _> = results.iter().map(read).collect();
    read.map_err(|error| format!("{name}: {error}"))
}

/// Returns the sum of each count in this member of all results.
fn sums(results: &[Value], member: &str) -> Map<String, Value> {
    let mut all = Map::new();
    let parts = results.iter().filter_map(|one| one[member].as_object());
    for (name, count) in parts.flatten() {
        let before = all.get(name).and_then(Value::as_u64).unwrap_or_default();
        let sum = before + count.as_u64().unwrap_or_default();
        all.insert(name.clone(), sum.into());
    }
    all
}

/// Returns the clock that a reader should know of: one that the kernel left, one that is not the counter, else the one
/// that drifted most.
fn worst_clock(results: &[Value]) -> &Value {
    let clocks = results.iter().map(|one| &one["clock"]);
    let drift = |clock: &&Value| clock["drift_ppm"].as_f64().unwrap_or_default().abs();
    let most = clocks.clone().max_by(|a, b| drift(a).total_cmp(&drift(b)));
    let doubtful = |name: &'static str| clocks.clone().find(|clock| !clock[name].is_null());
    let worst = doubtful("unsound").or_else(|| doubtful("absent"));
    worst.or(most).unwrap_or(&Value::Null)
}

/// Returns the figures of all results by the name of a kind, a label or a chain.
fn summaries<T: DeserializeOwned>(
    results: &[Value],
    member: &str,
    merged: impl Fn(&[T]) -> Result<T, String>,
) -> Result<BTreeMap<String, T>, String> {
    let parts: Vec<BTreeMap<String, T>> = each(results, member)?;
    let mut by_name: BTreeMap<String, Vec<T>> = BTreeMap::new();
    for (name, one) in parts.into_iter().flatten() {
        by_name.entry(name).or_default().push(one);
    }
    let of_name = |(name, parts): (String, Vec<T>)| Ok((name, merged(&parts)?));
    by_name.into_iter().map(of_name).collect()
}

/// Adds what the engines' file sets have, and what was drawn from them. Each engine has a set of its own of the same tables
/// and the same seed, so tables have the same rows. `table`: the name of the table that these values are in.
fn add_file_set(all: &mut Value, more: &Value, table: &str) -> Result<(), String> {
    match (all, more) {
        (Value::Array(rows), Value::Array(others)) if rows.len() == others.len() => {
            let mut rows = rows.iter_mut().zip(others);
            rows.try_for_each(|(row, other)| add_file_set(row, other, table))
        }
        (Value::Array(_), _) => Err(format!("file_set.{table} has other rows")),
        (Value::Object(members), others) => {
            for (name, member) in members {
                let other = &others[name];
                match (member.as_u64(), other.as_u64()) {
                    (Some(one), Some(other)) if name == "making_ns" => {
                        *member = one.max(other).into();
                    }
                    (Some(one), Some(other)) if is_added(table, name) => {
                        *member = (one + other).into();
                    }
                    _ if member.is_array() => add_file_set(member, other, name)?,
                    _ => add_file_set(member, other, table)?,
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Returns whether a number of a table of file sets is a count: others say which row it is.
fn is_added(table: &str, name: &str) -> bool {
    match table {
        "mix" | "sizes" | "transfer_sizes" => name == "drawn",
        "file_sizes" => name != "bytes",
        _ => true,
    }
}

fn intervals(request: &MergeRequest) -> Result<Vec<IntervalSummary>, String> {
    let length = request.interval_ns.0.max(1);
    let parts: Vec<Vec<IntervalSummary>> = each(&request.results, "intervals")?;
    let mut by_start: BTreeMap<u64, Vec<Vec<IntervalSummary>>> = BTreeMap::new();
    for (place, intervals) in parts.into_iter().enumerate() {
        for interval in intervals {
            let start = interval.start_ns / length * length;
            let group = by_start.entry(start).or_default();
            group.resize_with(request.results.len(), Vec::new);
            group[place].push(interval);
        }
    }
    let merged = |(start, parts): (u64, Vec<Vec<IntervalSummary>>)| {
        let mut one = IntervalSummary::merged(start, &parts)?;
        one.response_hdr = one.response_hdr.filter(|_| request.interval_histograms);
        one.first_hdr = one.first_hdr.filter(|_| request.interval_histograms);
        Ok(one)
    };
    by_start.into_iter().map(merged).collect()
}

fn environment(results: &[Value]) -> Value {
    let each = || results.iter().map(|one| &one["environment"]);
    let lists = each().filter_map(|one| one["absent"].as_array());
    let mut absent: Vec<&Value> = Vec::new();
    for text in lists.flatten() {
        if !absent.contains(&text) {
            absent.push(text);
        }
    }
    json!({
        "memory_locked": each().all(|one| one["memory_locked"] == true),
        "fifo": each().find_map(|one| one["fifo"].as_u64()),
        "absent": absent,
    })
}
