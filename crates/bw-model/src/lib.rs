//! What the other crates have in common: times and rates, operations and rows, the error of the engine. Pure.

mod error;
mod operation;
mod quantity;

pub use crate::error::{EngineError, ErrorLocation, FieldProblem};
pub use crate::operation::{DROPPED, Kind, Operation, Row};
pub use crate::quantity::{Nanos, Rate};
