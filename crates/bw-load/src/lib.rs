//! The load engine: workers that execute the events of filaments at their time.

pub mod clock;
pub mod target;
