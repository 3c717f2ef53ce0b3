//! How the targets of a request are made by the workers.

use crate::crew::Maker;
use crate::null::{Null, NullSpec};
use crate::timekeeper::AnyClock;
use crate::trouble::Trouble;
use serde_json::{Value, json};

/// Makes null targets.
pub struct NullMaker<'a> {
    spec: &'a NullSpec,
    depth: u32,
}

impl<'a> NullMaker<'a> {
    /// Returns a maker of null targets for `depth` operations in flight.
    #[must_use]
    pub fn new(spec: &'a NullSpec, depth: u32) -> Self {
        Self { spec, depth }
    }
}

impl Maker for NullMaker<'_> {
    type Target = Null<AnyClock>;

    fn make(&self, _worker: usize, clock: AnyClock) -> Result<Self::Target, Trouble> {
        Ok(Null::new(self.spec.clone(), clock, self.depth))
    }

    fn begin(&self, target: &mut Self::Target, clock: AnyClock) {
        target.set_clock(clock);
    }

    fn describe(&self, _target: &Self::Target) -> Value {
        json!({"kind": "null", "engine": null, "size_bytes": NullSpec::SIZE_BYTES, "features": [], "absent": []})
    }
}
