//! Computes which operation should start when. Pure: no clock, thread or file; all randomness
//! comes from seeds, through arithmetic that gives the same bits on every machine (`libm`, not the
//! system's logarithm).

pub mod access;
pub mod arrival;
pub mod distribution;
pub mod filaments;
pub mod file_counts;
pub mod file_set;
pub mod location;
pub mod random;
pub mod rate;
pub mod replay;
pub mod roster;
pub mod workload;
