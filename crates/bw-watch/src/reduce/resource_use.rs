//! What a machine did in one window: the members of `ResourceUse` in python/benchwright/core/resource_use.py, which
//! says what each means. Their names and types are the interface: bw decodes the JSON of these types.

use serde::{Deserialize, Serialize};

/// To whom a thread or a cgroup belongs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Owner {
    #[default]
    Own,
    Target,
}

/// To whom a task belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TaskOwner {
    Own,
    Target,
    Other,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct TaskUse {
    pub(super) pid: i64,
    pub(super) tid: i64,
    pub(super) name: String,
    pub(super) share: f64,
    pub(super) of: TaskOwner,
    pub(super) busiest_share: Option<f64>,
    pub(super) seen_s: Option<f64>,
    pub(super) waiting: Option<f64>,
    pub(super) cpus: Option<Vec<u32>>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ProgramUse {
    pub(super) name: String,
    pub(super) processes: usize,
    pub(super) share: f64,
}

/// What a thread waits for; the last two only until other waits of the sample explain them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum WaitKind {
    Disk,
    Network,
    Locks,
    Pipe,
    Sleep,
    Ring,
    Other,
    /// Other processes of the trial.
    Child,
    /// Other threads of the process.
    Thread,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct WaitUse {
    pub(super) kind: WaitKind,
    pub(super) share: f64,
    pub(super) name: String,
    pub(super) call: String,
    pub(super) what: String,
    pub(super) channel: String,
    pub(super) threads: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct OffCpuUse {
    pub(super) share: f64,
    pub(super) samples: usize,
    pub(super) waits: Vec<WaitUse>,
    pub(super) watched: usize,
    pub(super) alone: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct CpuUse {
    pub(super) count: usize,
    pub(super) busy: f64,
    pub(super) user: f64,
    pub(super) system: f64,
    pub(super) interrupts: f64,
    pub(super) iowait: f64,
    pub(super) steal: f64,
    pub(super) each: Vec<f64>,
    pub(super) runnable: Option<f64>,
    pub(super) pressure: Option<f64>,
    pub(super) own: Option<f64>,
    pub(super) target: Option<f64>,
    pub(super) watcher: Option<f64>,
    pub(super) others: Option<f64>,
    pub(super) own_user: Option<f64>,
    pub(super) kernel: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct MemoryUse {
    pub(super) total: i64,
    pub(super) available_min: i64,
    pub(super) dirty_max: i64,
    pub(super) swap_total: i64,
    pub(super) swap_used_max: i64,
    pub(super) swapped_in: i64,
    pub(super) swapped_out: i64,
    pub(super) scanned_direct: i64,
    pub(super) scanned_kswapd: i64,
    pub(super) refaults: i64,
    pub(super) major_faults: i64,
    pub(super) oom_kills: i64,
    pub(super) pressure: Option<f64>,
    pub(super) pressure_full: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct DiskUse {
    pub(super) name: String,
    pub(super) busy: f64,
    pub(super) reads_per_s: f64,
    pub(super) writes_per_s: f64,
    pub(super) read_bytes_per_s: f64,
    pub(super) write_bytes_per_s: f64,
    pub(super) queue: f64,
    pub(super) response_s: Option<f64>,
    pub(super) flushes_per_s: f64,
    pub(super) in_flight_min: i64,
    pub(super) longest_stall_s: f64,
    pub(super) active: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct NetworkUse {
    pub(super) name: String,
    pub(super) receive_bytes_per_s: f64,
    pub(super) send_bytes_per_s: f64,
    pub(super) receive_packets_per_s: f64,
    pub(super) send_packets_per_s: f64,
    pub(super) errors: i64,
    pub(super) dropped: i64,
    pub(super) speed_bits_per_s: Option<f64>,
}

/// A limit of a cgroup on one device, as the series has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct IoLimit {
    pub(super) device: String,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) read_bytes_per_s: Option<f64>,
    #[serde(default)]
    pub(super) write_bytes_per_s: Option<f64>,
    #[serde(default)]
    pub(super) reads_per_s: Option<f64>,
    #[serde(default)]
    pub(super) writes_per_s: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct CgroupUse {
    pub(super) path: String,
    pub(super) version: i64,
    pub(super) controller: String,
    pub(super) of: Owner,
    pub(super) cpu_limit_cores: Option<f64>,
    pub(super) cpu_used_cores: Option<f64>,
    pub(super) periods: i64,
    pub(super) throttled: i64,
    pub(super) throttled_s: f64,
    pub(super) memory_limit: Option<i64>,
    pub(super) memory_max: Option<i64>,
    pub(super) memory_limit_hits: i64,
    pub(super) oom_kills: i64,
    pub(super) pids_limit: Option<i64>,
    pub(super) pids_max: Option<i64>,
    pub(super) io_limits: Vec<IoLimit>,
    pub(super) cpus: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct TreeIo {
    pub(super) read_chars: i64,
    pub(super) written_chars: i64,
    pub(super) read_bytes: i64,
    pub(super) write_bytes: i64,
    pub(super) read_calls: i64,
    pub(super) write_calls: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct FilesOpen {
    pub(super) pid: i64,
    pub(super) name: String,
    pub(super) open: i64,
    pub(super) limit: Option<i64>,
}

/// Levels of the kernel's log; lower is worse. Source: syslog(2).
pub(super) const KERNEL_ERROR: i64 = 3;
/// See `KERNEL_ERROR`.
pub(super) const KERNEL_WARNING: i64 = 4;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct KernelMessage {
    pub(super) at_s: f64,
    pub(super) level: i64,
    pub(super) text: String,
    pub(super) epoch: i64,
    pub(super) in_trial_s: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct MemoryKill {
    pub(super) pid: i64,
    pub(super) name: String,
    pub(super) cgroup: String,
    pub(super) limit: Option<i64>,
    pub(super) epoch: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct SocketUse {
    pub(super) retransmits: i64,
    pub(super) segments_out: i64,
    pub(super) listen_overflows: i64,
    pub(super) listen_drops: i64,
    pub(super) receive_errors: i64,
    pub(super) softnet_dropped: i64,
    pub(super) softnet_squeezed: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct OwnLosses {
    pub(super) retransmits: i64,
    pub(super) segments_out: i64,
    pub(super) listen_drops: i64,
    pub(super) datagram_drops: i64,
    pub(super) absent: String,
    pub(super) major_faults: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct ClockUse {
    pub(super) frequency_min: Option<f64>,
    pub(super) frequency_max: Option<f64>,
    pub(super) frequency_mean: Option<f64>,
    pub(super) temperature_max: Option<f64>,
    pub(super) thermal_throttles: Option<i64>,
}

/// How many threads of each side a use keeps.
pub(super) const MOST_TASKS: usize = 8;
/// How many of the other processes and programs a use keeps.
pub(super) const MOST_OTHERS: usize = 5;
/// CPU time from which on a thread is counted as working [cores].
pub(super) const WORKING_CORES: f64 = 0.05;

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct ResourceUse {
    pub(super) seconds: f64,
    pub(super) samples: usize,
    pub(super) epochs: (i64, i64),
    pub(super) series: String,
    pub(super) begin_ns: i64,
    pub(super) end_ns: i64,
    pub(super) cpu: Option<CpuUse>,
    pub(super) tasks: Vec<TaskUse>,
    pub(super) working: Option<(usize, usize)>,
    pub(super) off_cpu: Option<OffCpuUse>,
    pub(super) others: Vec<TaskUse>,
    pub(super) programs: Vec<ProgramUse>,
    pub(super) memory: Option<MemoryUse>,
    pub(super) disks: Vec<DiskUse>,
    pub(super) io_pressure: Option<f64>,
    pub(super) io_pressure_full: Option<f64>,
    pub(super) networks: Vec<NetworkUse>,
    pub(super) sockets: Option<SocketUse>,
    pub(super) losses: Option<OwnLosses>,
    pub(super) cgroups: Vec<CgroupUse>,
    pub(super) own_io: Option<TreeIo>,
    pub(super) target_io: Option<TreeIo>,
    pub(super) files: Option<FilesOpen>,
    pub(super) devices: Option<Vec<String>>,
    pub(super) files_of_machine: Option<(i64, i64)>,
    pub(super) kernel: Vec<KernelMessage>,
    pub(super) killed: Vec<MemoryKill>,
    pub(super) clock: Option<ClockUse>,
    pub(super) absent: Vec<(String, String)>,
    pub(super) sampler_cost: Option<f64>,
    pub(super) target_rss_max: Option<i64>,
}
