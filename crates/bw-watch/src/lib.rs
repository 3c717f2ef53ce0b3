//! The sampler: reads the kernel's counters many times a second, at low cost.
//!
//! Purpose: `bw-sampler serve`, by docs/watch-format.md. The files of /proc, /sys and the
//! cgroups are opened once and read again by pread; parsers take bytes and write into slices,
//! so a sample of an unchanged machine allocates nothing. Decision: our own readers. Rejected: the
//! crate procfs (it allocates a structure per line and opens each file each time) and
//! psutil (five times the time for less data). The sampler starts and changes nothing.
//! Sources: proc(5), cgroups(7), the kernel's admin-guide/iostats, accounting/psi,
//! admin-guide/cgroup-v2, cgroup-v1.

pub mod arguments;
pub mod blocked;
mod cgroup;
pub mod cgroup_limits;
pub mod columns;
pub mod disks;
pub mod kernel_log;
mod machine;
pub mod memory;
pub mod network;
pub mod output;
mod own_ends;
mod processes;
pub mod processors;
pub mod reduce;
pub mod series;
pub mod serve;
mod sockets;
mod system;
pub mod text;
pub mod threads;
mod trees;
pub mod watch;
