//! What the other crates have in common: times and rates, operations and rows, the error of the engine. Pure.

mod operation;
mod quantity;

pub use operation::{DROPPED, Kind, Operation, Row};
pub use quantity::{Nanos, Rate};
