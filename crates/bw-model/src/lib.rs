//! The types that all other crates share: times and rates, operations and rows, the engine's error. Pure.

mod civil;
mod error;
mod operation;
mod quantity;

pub use crate::civil::Date;
pub use crate::error::{EngineError, ErrorLocation, FieldProblem};
pub use crate::operation::{DROPPED, ExchangeAddress, FileAddress, Kind, Operation, Row};
pub use crate::quantity::{Nanos, Rate};
