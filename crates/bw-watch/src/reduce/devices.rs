//! Memory, open files, cgroups, disks and networks in a window.

use super::columns::{Columns, SWAP_USED, Sample};
use super::cpu::pressure;
use super::file::{Cgroup, FilesOpenTable, FilesRow};
use super::resource_use::{
    CgroupUse, DiskUse, FilesOpen, MemoryUse, NetworkUse, OwnLosses, SocketUse, TreeIo,
};
use super::window::{Figures, TablesAround, rounded};
use crate::text::cpu_list;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

// Memory and open files.

/// Returns the use of memory; None if /proc/meminfo was not reported.
pub(super) fn memory_use(figures: &Figures<'_>) -> Option<MemoryUse> {
    let bytes = |kib: f64| rounded(kib).saturating_mul(1024);
    let most = |name| bytes(figures.most(name).unwrap_or(0.0));
    let whole = |name| figures.whole([name]);
    let page = figures.header.page_size;
    Some(MemoryUse {
        total: bytes(figures.most("memory/total")?),
        available_min: bytes(figures.least("memory/available")?),
        dirty_max: most("memory/dirty"),
        swap_total: most("memory/swap_total"),
        swap_used_max: most(SWAP_USED),
        swapped_in: whole("vm/swap_in").saturating_mul(page),
        swapped_out: whole("vm/swap_out").saturating_mul(page),
        scanned_direct: whole("vm/scanned_direct"),
        scanned_kswapd: whole("vm/scanned_kswapd"),
        refaults: figures.whole(["vm/refault_file", "vm/refault_anon"]),
        major_faults: whole("vm/major_faults"),
        oom_kills: figures.count(["vm/oom_kill"]),
        pressure: pressure(figures, "memory", "some"),
        pressure_full: pressure(figures, "memory", "full"),
    })
}

/// Returns the highest number of open files of the whole machine, and its limit.
pub(super) fn files_of_machine(figures: &Figures<'_>) -> Option<(i64, i64)> {
    let (most, limit) = (figures.most("files/open")?, figures.most("files/limit")?);
    Some((rounded(most), rounded(limit)))
}

/// Returns what a tree of processes read and wrote.
pub(super) fn tree_io(figures: &Figures<'_>, of: &str) -> Option<TreeIo> {
    let whole = |kind| figures.whole([format!("{of}/{kind}")]);
    figures.growth(&format!("{of}/read_chars"))?;
    Some(TreeIo {
        read_chars: whole("read_chars"),
        written_chars: whole("written_chars"),
        read_bytes: whole("read_bytes"),
        write_bytes: whole("write_bytes"),
        read_calls: whole("read_calls"),
        write_calls: whole("write_calls"),
    })
}

/// The process nearest to its limit of open files, from one moment to another.
///
/// Uses the tables in between; if there are none, those on both sides.
#[derive(Debug)]
pub(super) struct WindowFiles {
    begin_ns: i64,
    end_ns: i64,
    around: TablesAround<FilesOpenTable>,
    inside: Option<FilesRow>,
    beside: Option<FilesRow>,
    any_inside: bool,
    devices: Option<BTreeSet<String>>,
}

impl WindowFiles {
    pub(super) fn new(begin_ns: i64, end_ns: i64) -> Self {
        Self {
            begin_ns,
            end_ns,
            around: TablesAround::new(begin_ns, end_ns),
            inside: None,
            beside: None,
            any_inside: false,
            devices: None,
        }
    }

    /// Adds a table.
    pub(super) fn take(&mut self, table: &Rc<FilesOpenTable>) {
        for one in self.around.taken(table.t.0, table) {
            self.look_at(&one);
        }
    }

    /// Ends the series.
    pub(super) fn finish(&mut self) {
        if let Some(one) = self.around.rest() {
            self.look_at(&one);
        }
    }

    /// Returns the process, after `finish`; None if none is reported.
    pub(super) fn nearest(&self) -> Option<FilesOpen> {
        let row = if self.any_inside {
            self.inside.as_ref()?
        } else {
            self.beside.as_ref()?
        };
        Some(FilesOpen {
            pid: row.pid,
            name: row.name.clone(),
            open: row.open,
            limit: row.limit,
        })
    }

    /// Returns the disks that the processes use, after `finish`; None if they are not reported.
    pub(super) fn devices(&self) -> Option<Vec<String>> {
        Some(self.devices.as_ref()?.iter().cloned().collect())
    }

    fn look_at(&mut self, table: &FilesOpenTable) {
        for devices in table.rows.iter().filter_map(|row| row.devices.as_ref()) {
            let known = self.devices.get_or_insert_default();
            known.extend(devices.iter().cloned());
        }
        let is_inside = (self.begin_ns..=self.end_ns).contains(&table.t.0);
        self.any_inside |= is_inside;
        let nearest = if is_inside {
            &mut self.inside
        } else {
            &mut self.beside
        };
        for row in &table.rows {
            if nearest
                .as_ref()
                .is_none_or(|known| nearness(row) > nearness(known))
            {
                *nearest = Some(row.clone());
            }
        }
    }
}

fn nearness(row: &FilesRow) -> (f64, i64) {
    let share = match row.limit {
        None | Some(0) => 0.0,
        Some(limit) => row.open as f64 / limit as f64,
    };
    (share, row.open)
}

// Cgroups: their limits, and the use of their tasks.

/// Returns the use of each cgroup seen before the window's end, in order of number.
pub(super) fn cgroups_use(figures: &Figures<'_>, reported: &[Cgroup]) -> Vec<CgroupUse> {
    let seen: BTreeMap<i64, &Cgroup> = reported
        .iter()
        .filter(|one| one.t.0 <= figures.end_ns)
        .map(|one| (one.number, one))
        .collect();
    seen.values()
        .map(|one| cgroup_use(figures, one, &seen))
        .collect()
}

fn cgroup_use(figures: &Figures<'_>, cgroup: &Cgroup, seen: &BTreeMap<i64, &Cgroup>) -> CgroupUse {
    let column = |name| format!("cgroup/{}/{name}", cgroup.number);
    let limits = &cgroup.limits;
    CgroupUse {
        path: cgroup.path.clone(),
        version: cgroup.version,
        controller: cgroup.controller.clone(),
        of: cgroup.of,
        cpu_limit_cores: limits.cpu_cores,
        cpu_used_cores: cpu_used(figures, cgroup, seen),
        periods: figures.whole([column("periods")]),
        throttled: figures.whole([column("throttled")]),
        throttled_s: figures.growth(&column("throttled_us")).unwrap_or(0.0) / 1e6,
        memory_limit: limits.memory_bytes,
        memory_max: figures.most(&column("memory")).map(rounded),
        memory_limit_hits: figures.count([column("memory_limit_hits")]),
        oom_kills: figures.count([column("oom_kill")]),
        pids_limit: limits.pids,
        pids_max: figures.most(&column("pids")).map(rounded),
        io_limits: limits.io.clone(),
        cpus: cpu_list(limits.cpus.as_deref().unwrap_or_default()).unwrap_or_default(),
    }
}

/// Returns the CPU time used [cores]; version 1 counts it in another hierarchy.
fn cpu_used(figures: &Figures<'_>, cgroup: &Cgroup, seen: &BTreeMap<i64, &Cgroup>) -> Option<f64> {
    let rate = |number| figures.rate([format!("cgroup/{number}/usage_us")]);
    let has_other = cgroup.version == 1 && cgroup.controller == "cpu";
    let others = seen
        .values()
        .filter(|other| has_other && other.controller == "cpuacct" && other.path == cgroup.path);
    let rate = rate(cgroup.number).or_else(|| others.map(|one| one.number).find_map(rate))?;
    Some(rate / 1e6)
}

// Disks: their requests, and whether they stalled. `queue_ms` counts a request when it completes, so stalls are
// detected by the requests in flight. Source: the kernel's Documentation/admin-guide/iostats.rst.

const SECTOR: f64 = 512.0;
const COMPLETED: [&str; 4] = ["reads", "writes", "discards", "flushes"];

/// A disk that reports requests in flight, between the last two samples.
#[derive(Debug)]
struct DiskStep {
    gauge: usize,
    completed: Vec<usize>,
    /// Time of its previous sample.
    from_ns: Option<i64>,
    /// Whether nothing was in flight at either sample, and nothing completed.
    is_idle: bool,
    /// Whether requests were in flight at both samples, and none completed.
    is_stalled: bool,
    /// Whether the disk has this sample and one before it.
    is_there: bool,
    when_ns: Option<i64>,
    in_flight: f64,
    done: f64,
}

impl DiskStep {
    fn take(&mut self, columns: &Columns, sample: &Sample) {
        let (before, after) = (self.in_flight, sample.gauges[self.gauge]);
        let there = sample.has_column[self.gauge];
        let totals = self.completed.iter();
        let done = totals.fold(0.0, |sum, place| sum + columns.counters.total(*place));
        let stood = done == self.done;
        self.from_ns = self.when_ns;
        self.is_there = there && self.from_ns.is_some();
        // Comparisons with NaN are false.
        self.is_stalled = before > 0.0 && after > 0.0 && stood;
        self.is_idle = !(before > 0.0 || after > 0.0 || !stood);
        if there {
            self.when_ns = Some(sample.when_ns);
            self.in_flight = after;
            self.done = done;
        }
    }
}

/// All disks between the last two samples.
#[derive(Debug, Default)]
pub(super) struct DiskSteps {
    names: super::counters::Names,
    each: Vec<DiskStep>,
    known: (usize, usize),
}

impl DiskSteps {
    /// Adds a sample, which ends a step; the columns have its totals.
    pub(super) fn take(&mut self, columns: &Columns, sample: &Sample) {
        self.fit(columns);
        for disk in &mut self.each {
            disk.take(columns, sample);
        }
    }

    /// Adds new disks.
    fn fit(&mut self, columns: &Columns) {
        let (counters, gauges) = (&columns.counters.names, &columns.gauges.names);
        let known = (counters.list.len(), gauges.list.len());
        if self.known == known {
            return;
        }
        self.known = known;
        for (gauge, column) in gauges.list.iter().enumerate() {
            let disk = column.strip_prefix("disk/");
            let Some(name) = disk.and_then(|rest| rest.strip_suffix("/in_flight")) else {
                continue;
            };
            let completed = COMPLETED
                .iter()
                .filter_map(|kind| counters.place(&format!("disk/{name}/{kind}")))
                .collect();
            let place = self.names.add(name);
            if let Some(disk) = self.each.get_mut(place) {
                disk.completed = completed;
                continue;
            }
            self.each.push(DiskStep {
                gauge,
                completed,
                from_ns: None,
                is_idle: false,
                is_stalled: false,
                is_there: false,
                when_ns: None,
                in_flight: f64::NAN,
                done: 0.0,
            });
        }
    }
}

/// One disk in a window.
#[derive(Debug, Clone, Default)]
struct WindowDisk {
    /// Length of its current stall [s].
    stall_s: f64,
    longest_s: f64,
    used_ns: i64,
    is_reported: bool,
}

/// How long disks stalled, and how long they were used, from one moment to another.
#[derive(Debug)]
pub(super) struct WindowDisks {
    begin_ns: i64,
    end_ns: i64,
    each: Vec<WindowDisk>,
}

impl WindowDisks {
    pub(super) fn new(begin_ns: i64, end_ns: i64) -> Self {
        Self {
            begin_ns,
            end_ns,
            each: Vec::new(),
        }
    }

    /// Adds the steps that end at a moment.
    pub(super) fn take(&mut self, when_ns: i64, steps: &DiskSteps) {
        if when_ns <= self.begin_ns {
            return;
        }
        self.each.resize(steps.each.len(), WindowDisk::default());
        for (disk, step) in self.each.iter_mut().zip(&steps.each) {
            let Some(from_ns) = step.from_ns.filter(|from_ns| *from_ns < self.end_ns) else {
                continue;
            };
            if !step.is_there {
                continue;
            }
            let length_ns = when_ns.min(self.end_ns) - from_ns.max(self.begin_ns);
            disk.stall_s = if step.is_stalled {
                disk.stall_s + length_ns as f64 / 1e9
            } else {
                0.0
            };
            disk.longest_s = disk.longest_s.max(disk.stall_s);
            disk.used_ns += if step.is_idle { 0 } else { length_ns };
            disk.is_reported = true;
        }
    }
}

/// Returns the use of each disk that had a request in the window.
pub(super) fn disks_use(
    figures: &Figures<'_>,
    disks: &WindowDisks,
    steps: &DiskSteps,
) -> Vec<DiskUse> {
    let names = figures.between("disk", "reads");
    let found = names.into_iter().filter_map(|name| {
        let place = steps.names.place(name);
        disk_use(figures, name, place.and_then(|place| disks.each.get(place)))
    });
    found.collect()
}

fn disk_use(figures: &Figures<'_>, name: &str, disk: Option<&WindowDisk>) -> Option<DiskUse> {
    let rate = |kinds: &[&str]| {
        let columns = kinds.iter().map(|kind| format!("disk/{name}/{kind}"));
        figures.rate(columns).unwrap_or(0.0)
    };
    let in_flight = format!("disk/{name}/in_flight");
    let completed = rate(&COMPLETED);
    let [most, least] = [figures.most(&in_flight), figures.least(&in_flight)];
    if completed == 0.0 && [most, least].iter().all(|one| one.unwrap_or(0.0) == 0.0) {
        return None;
    }
    let transfers = rate(&["reads", "writes"]);
    let used_s = disk
        .filter(|disk| disk.is_reported)
        .map(|disk| disk.used_ns as f64 / 1e9);
    Some(DiskUse {
        name: name.to_owned(),
        busy: (rate(&["busy_ms"]) / 1000.0).min(1.0),
        reads_per_s: rate(&["reads"]),
        writes_per_s: rate(&["writes"]),
        read_bytes_per_s: rate(&["read_sectors"]) * SECTOR,
        write_bytes_per_s: rate(&["written_sectors"]) * SECTOR,
        queue: if completed == 0.0 {
            figures.mean(&in_flight).unwrap_or(0.0)
        } else {
            rate(&["queue_ms"]) / 1000.0
        },
        response_s: (transfers != 0.0).then(|| rate(&["read_ms", "write_ms"]) / 1000.0 / transfers),
        flushes_per_s: rate(&["flushes"]),
        in_flight_min: rounded(least.unwrap_or(0.0)),
        longest_stall_s: disk.map_or(0.0, |disk| disk.longest_s),
        active: used_s.map(|used_s| (used_s / figures.seconds).min(1.0)),
    })
}

// Network interfaces, and losses in the network stack.

/// Returns the use of each interface that had a packet in the window.
pub(super) fn networks_use(figures: &Figures<'_>) -> Vec<NetworkUse> {
    let names = figures.between("net", "rx_packets");
    let found = names
        .into_iter()
        .filter_map(|name| network_use(figures, name));
    found.collect()
}

fn network_use(figures: &Figures<'_>, name: &str) -> Option<NetworkUse> {
    let column = |kind| format!("net/{name}/{kind}");
    let rate = |kind| figures.rate([column(kind)]).unwrap_or(0.0);
    if rate("rx_packets") == 0.0 && rate("tx_packets") == 0.0 {
        return None;
    }
    // A virtual interface reports no speed, or -1.
    let speed = figures.header.limits.get(&column("speed_mbit"));
    let speed = speed.and_then(serde_json::Value::as_f64);
    Some(NetworkUse {
        name: name.to_owned(),
        receive_bytes_per_s: rate("rx_bytes"),
        send_bytes_per_s: rate("tx_bytes"),
        receive_packets_per_s: rate("rx_packets"),
        send_packets_per_s: rate("tx_packets"),
        errors: figures.count(["rx_errors", "tx_errors"].map(column)),
        dropped: figures.count(["rx_dropped", "tx_dropped"].map(column)),
        speed_bits_per_s: speed.filter(|speed| *speed > 0.0).map(|speed| speed * 1e6),
    })
}

/// Returns counts of losses and retransmissions; None if none of them is reported.
pub(super) fn sockets_use(figures: &Figures<'_>) -> Option<SocketUse> {
    const COLUMNS: [&str; 7] = [
        "tcp/retransmits",
        "tcp/segments_out",
        "tcp/listen_overflows",
        "tcp/listen_drops",
        "udp/receive_errors",
        "softnet/dropped",
        "softnet/squeezed",
    ];
    if !COLUMNS.iter().any(|name| figures.has(name)) {
        return None;
    }
    let counts = COLUMNS.map(|name| figures.count([name]));
    Some(SocketUse {
        retransmits: counts[0],
        segments_out: counts[1],
        listen_overflows: counts[2],
        listen_drops: counts[3],
        receive_errors: counts[4],
        softnet_dropped: counts[5],
        softnet_squeezed: counts[6],
    })
}

/// Returns what the trees of the trial and its targets lost; None for a series without these columns.
pub(super) fn own_losses(figures: &Figures<'_>, absent: &[(String, String)]) -> Option<OwnLosses> {
    if !figures.has("own/retransmits") {
        return None;
    }
    let count = |of, kind| figures.count([format!("{of}/{kind}")]);
    let both = |kind| count("own", kind) + count("target", kind);
    let why = absent.iter().rfind(|(what, _)| what == "own/retransmits");
    Some(OwnLosses {
        retransmits: both("retransmits"),
        segments_out: both("segments_out"),
        listen_drops: both("listen_drops"),
        datagram_drops: both("datagram_drops"),
        absent: why.map(|(_, why)| why.clone()).unwrap_or_default(),
        major_faults: both("major_faults"),
    })
}
