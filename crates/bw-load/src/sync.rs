//! The atomics and the futex of lock-free code, in one place: `soundness/loom` compiles the same files with those of loom,
//! which tries every order in which threads can see them.

pub(crate) use bw_sys::futex::{self, Scope};
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::thread::yield_now;
