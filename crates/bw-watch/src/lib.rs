//! The sampler: reads what the kernel tells of a machine, many times a second, and cheaply.
//!
//! Purpose: `bw-sampler serve`, by docs/watch-format.md. The files of /proc, /sys and the
//! cgroups are opened once and read again by pread; parsers take bytes and write into slices,
//! so a sample of an unchanged machine allocates nothing. Decision: our own readers; the
//! crate procfs lost (it allocates a structure per line and opens each file each time), and so
//! did psutil (five times the time for less data). Nothing here starts or changes anything.
//! Sources: proc(5), cgroups(7), the kernel's admin-guide/iostats, accounting/psi,
//! admin-guide/cgroup-v2, cgroup-v1.

pub mod arguments;
pub mod cgroup;
pub mod cgroup_files;
pub mod cgroup_limits;
pub mod clocks;
pub mod columns;
pub mod copies;
pub mod cpu;
pub mod disks;
pub mod interfaces;
pub mod json;
pub mod kept;
pub mod kernel_log;
pub mod keyed;
pub mod limits;
pub mod machine;
pub mod members;
pub mod open_files;
pub mod pressure;
pub mod process_text;
pub mod processes;
pub mod protocol;
pub mod records;
pub mod roots;
pub mod serve;
pub mod small;
pub mod sockets;
pub mod softirqs;
pub mod system;
pub mod text;
pub mod threads;
pub mod trees;
pub mod watch;
pub mod writer;
