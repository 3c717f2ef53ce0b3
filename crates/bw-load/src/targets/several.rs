//! Several targets of a request, opened together.

use super::opened::{OpenTarget, RunTarget};
use crate::clock::RunClock;
use crate::pool::TargetFactory;
use crate::recorded::RecordedSource;
use crate::request::{LoadRequest, NamedTarget, SeveralSpec};
use crate::routes::Routes;
use crate::several::Several;
use bw_model::EngineError;
use bw_schedule::workload::{FilamentSpec, WorkloadSpec};
use bw_trace::input::TraceInput;
use serde_json::{Map, Value, json};

/// Opens one of the targets.
type Open<'a> = dyn FnMut(&LoadRequest) -> Result<Box<dyn RunTarget>, EngineError> + 'a;

/// Makes composite targets.
pub(crate) struct SeveralFactory {
    parts: Vec<(String, Box<dyn RunTarget>)>,
    /// The part of each entry of the workload's list.
    entries: Vec<u16>,
    routes: Routes,
    depth: u32,
}

impl SeveralFactory {
    /// Opens the targets of a request, which has been checked; `open` opens one.
    ///
    /// # Errors
    /// Those of each target, with its name.
    pub(super) fn open(
        request: &LoadRequest,
        spec: &SeveralSpec,
        open: &mut Open<'_>,
    ) -> Result<Self, EngineError> {
        let mut parts = Vec::with_capacity(spec.targets.len());
        let mut entries = vec![0; request.workload.filaments.len()];
        for (part, named) in (0_u16..).zip(&spec.targets) {
            let own = LoadRequest {
                target: named.target.clone(),
                workload: only(&request.workload, &named.filaments),
                ..request.clone()
            };
            let opened = open(&own).map_err(|error| of(error, part, named))?;
            parts.push((named.name.clone(), opened));
            named
                .filaments
                .iter()
                .for_each(|place| entries[*place] = part);
        }
        let routes = Routes::new(&request.workload.ids()?, &entries);
        Ok(Self {
            parts,
            entries,
            routes,
            depth: request.depth,
        })
    }

    /// Returns the target of each entry of the workload's list, in order.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &dyn RunTarget> {
        let part = |part: &u16| &*self.parts[usize::from(*part)].1;
        self.entries.iter().map(part)
    }

    /// Returns the index of the target of the entry at this place of the workload's list.
    pub(crate) fn part_of(&self, place: usize) -> u16 {
        self.entries[place]
    }

    /// Returns the names of the targets.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|(name, _)| name.as_str())
    }

    /// Returns which target the operations of each filament go to.
    pub(crate) fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Returns the workload with traces that are fitted to their own targets.
    pub(crate) fn fitted(&self, workload: &WorkloadSpec<TraceInput>) -> WorkloadSpec<TraceInput> {
        let mut fitted = workload.clone();
        for (filament, target) in fitted.filaments.iter_mut().zip(self.targets()) {
            if let FilamentSpec::Trace(trace) = filament {
                let input = &mut trace.input;
                input.target_bytes = input.target_bytes.or(Some(target.extent()));
                input.align_bytes = input.align_bytes.or(target.block_bytes());
            }
        }
        fitted
    }
}

/// Returns the workload with only these entries of its list.
fn only(workload: &WorkloadSpec<TraceInput>, places: &[usize]) -> WorkloadSpec<TraceInput> {
    let chosen = places.iter().map(|place| &workload.filaments[*place]);
    WorkloadSpec {
        seed: workload.seed,
        file_set: None,
        filaments: chosen.cloned().collect(),
    }
}

/// Returns the error of one of several targets: with its name, with its place, and with the places of filaments in the whole list.
fn of(mut error: EngineError, part: u16, named: &NamedTarget) -> EngineError {
    error.message = format!("target {}: {}", named.name, error.message);
    let field = error
        .location
        .as_mut()
        .and_then(|location| location.field.as_mut());
    if let Some(field) = field {
        if field
            .strip_prefix("target")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        {
            *field = format!("target.targets[{part}].{field}");
        }
        let place = field.strip_prefix("workload.filaments[").and_then(|rest| {
            let (number, rest) = rest.split_once(']')?;
            let place = named.filaments.get(number.parse::<usize>().ok()?)?;
            Some(format!("workload.filaments[{place}]{rest}"))
        });
        if let Some(place) = place {
            *field = place;
        }
    }
    error
}

impl TargetFactory for SeveralFactory {
    type Target = Several;

    fn make(&self, worker: usize, clock: RunClock) -> Result<Self::Target, EngineError> {
        let make =
            |(_, target): &(String, Box<dyn RunTarget>)| target.make_part(worker, clock.clone());
        let parts: Result<Vec<_>, EngineError> = self.parts.iter().map(make).collect();
        Ok(Several::new(parts?, self.routes.clone(), self.depth))
    }

    fn begin(&self, target: &mut Self::Target, clock: RunClock) {
        for (part, (_, opened)) in self.parts.iter().enumerate() {
            opened.begin_part(target.part_mut(part), clock.clone());
        }
    }

    fn describe(&self, target: &Self::Target) -> Value {
        let describe = |(part, (name, opened)): (usize, &(String, Box<dyn RunTarget>))| {
            (name.clone(), opened.describe_part(target.part(part)))
        };
        let targets: Map<String, Value> = self.parts.iter().enumerate().map(describe).collect();
        json!({"kind": "several", "engine": null, "size_bytes": null, "features": [], "absent": [],
            "targets": targets})
    }
}

impl OpenTarget for SeveralFactory {
    fn labels(&self) -> Vec<Vec<String>> {
        let labels = |(_, target): &(String, Box<dyn RunTarget>)| target.labels().pop();
        let labels = self.parts.iter().map(labels);
        labels.map(Option::unwrap_or_default).collect()
    }

    fn recorded(&self) -> Option<Vec<RecordedSource>> {
        Some(
            self.targets()
                .filter_map(OpenTarget::recorded)
                .flatten()
                .collect(),
        )
    }

    fn takes_any_request(&self) -> bool {
        // A server that sends recorded requests has read its own traces.
        self.targets()
            .all(|one| one.takes_any_request() || one.recorded().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_target_and_the_filament_of_the_whole_list() {
        let named: NamedTarget = serde_json::from_value(json!({
            "name": "b", "filaments": [1, 4], "target": {"kind": "null"},
        }))
        .unwrap();
        let error = EngineError::request("x", "too large", "y");
        let error = of(error.about("workload.filaments[1].access.size"), 2, &named);
        assert_eq!(error.message, "target b: too large");
        let field = error.location.unwrap().field;
        assert_eq!(field.as_deref(), Some("workload.filaments[4].access.size"));
        let error = EngineError::request("x", "too large", "y").about("target.requests[3]");
        let field = of(error, 2, &named).location.unwrap().field;
        assert_eq!(
            field.as_deref(),
            Some("target.targets[2].target.requests[3]")
        );
    }
}
