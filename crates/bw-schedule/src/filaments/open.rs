//! The open loop: operations start when the arrival process says so, whatever the target does.
//!
//! Decision: a source of operations, so that [`Operations`](super::operations::Operations) plays it
//! ahead of time and splits it over workers. Nothing here ever sees a completion.

use super::operations::{OperationSource, SourceState, fill};
use crate::access::Access;
use crate::arrival::Arrivals;
use bw_model::Operation;

/// The operations of an open loop, in the order of their intended starts.
#[derive(Debug)]
pub struct Open {
    arrivals: Arrivals,
    access: Access,
    left: u64,
}

impl Open {
    /// Returns the open loop with these arrivals; at most `count` of them, all for None.
    #[must_use]
    pub fn new(arrivals: Arrivals, access: Access, count: Option<u64>) -> Self {
        Self {
            arrivals,
            access,
            left: count.unwrap_or(u64::MAX),
        }
    }
}

impl Iterator for Open {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        self.left = self.left.checked_sub(1)?;
        let at = self.arrivals.next()?;
        Some(self.access.next(at))
    }
}

impl OperationSource for Open {
    fn next_block(&mut self, block: &mut Vec<Operation>) -> SourceState {
        fill(block, self)
    }
}
