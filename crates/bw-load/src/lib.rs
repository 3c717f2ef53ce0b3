//! The load engine: workers that execute the events of filaments at their time.

pub mod agenda;
pub mod clock;
pub mod file;
pub mod guard;
pub mod heap;
pub mod http;
pub mod mail;
pub mod net;
pub mod null;
pub mod policy;
pub mod seat;
pub mod slots;
pub mod synchronous;
pub mod target;
pub mod tcp;
pub mod tsc;
pub mod waiting;
