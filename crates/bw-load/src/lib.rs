//! The load engine: workers that execute the events of filaments at their time.

pub mod channels;
pub mod clock;
pub mod clock_offset;
pub mod environment;
pub mod file;
pub mod file_set;
pub mod floor;
pub mod http;
pub mod kernel_probe;
mod labels;
pub mod merge;
#[cfg(feature = "naive-pacers")]
pub mod naive;
mod net;
pub mod nfs;
pub mod null;
pub mod policy;
mod pool;
pub mod postgres;
mod processes;
mod queue;
mod read_ahead;
pub mod record;
mod recorded;
pub mod redis;
mod reporter;
pub mod request;
mod result;
pub mod routes;
pub mod run;
mod sequence_lock;
pub mod several;
mod stamp;
mod sync;
pub mod target;
mod targets;
pub mod tcp;
pub mod udp;
pub mod worker;

pub use net::plan::PlanOptions;
