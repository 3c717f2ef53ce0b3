//! Which operation is meant to start when. Pure: no clock, no thread, no file; all randomness
//! comes from seeds, through arithmetic that gives the same bits on every machine (`libm`, not the
//! system's logarithm).

pub mod filament;
pub mod operation;
