"""The facts that are one file each: name, path, and what a difference in it means.

Purpose: a table, so that a fact more is a line more. Facts that need any thought are in
the capture_*.py beside it. Sources: the kernel's admin-guide (sysctl/*, cputopology,
hw-vuln, pm/cpufreq), proc(5), sysfs ABI documents.
"""

from __future__ import annotations

from benchwright.model.machine import Weight

Row = tuple[str, str, Weight]
FATAL, SUSPICIOUS, EXPECTED = Weight.FATAL, Weight.SUSPICIOUS, Weight.EXPECTED
_CPU = "/sys/devices/system/cpu"
_MM = "/sys/kernel/mm"
_CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0"


def _sysctls(names: str, weight: Weight = SUSPICIOUS) -> tuple[Row, ...]:
    """Return rows for sysctls by their dotted names."""
    return tuple(
        (f"sysctl.{name}", "/proc/sys/" + name.replace(".", "/"), weight)
        for name in names.split()
    )


HOST: tuple[Row, ...] = (
    ("host.name", "/proc/sys/kernel/hostname", EXPECTED),
    ("host.boot_id", "/proc/sys/kernel/random/boot_id", EXPECTED),
    ("kernel.release", "/proc/sys/kernel/osrelease", SUSPICIOUS),
    ("kernel.version", "/proc/sys/kernel/version", SUSPICIOUS),
    ("kernel.tainted", "/proc/sys/kernel/tainted", SUSPICIOUS),
    ("kernel.lsm", "/sys/kernel/security/lsm", SUSPICIOUS),
    ("clock.source", f"{_CLOCKSOURCE}/current_clocksource", SUSPICIOUS),
    ("clock.sources", f"{_CLOCKSOURCE}/available_clocksource", SUSPICIOUS),
)
FIRMWARE: tuple[Row, ...] = tuple(
    (f"firmware.{name}", f"/sys/class/dmi/id/{name}", weight)
    for name, weight in (
        ("sys_vendor", FATAL),
        ("product_name", FATAL),
        ("board_name", SUSPICIOUS),
        ("bios_vendor", SUSPICIOUS),
        ("bios_version", SUSPICIOUS),
        ("bios_date", SUSPICIOUS),
    )
)
PROCESSOR: tuple[Row, ...] = (
    ("cpu.online", f"{_CPU}/online", FATAL),
    ("cpu.offline", f"{_CPU}/offline", FATAL),
    ("cpu.smt", f"{_CPU}/smt/control", FATAL),
    ("cpu.smt_active", f"{_CPU}/smt/active", FATAL),
    ("cpu.isolated", f"{_CPU}/isolated", SUSPICIOUS),
    ("cpu.nohz_full", f"{_CPU}/nohz_full", SUSPICIOUS),
    ("cpu.idle_driver", f"{_CPU}/cpuidle/current_driver", SUSPICIOUS),
    ("cpu.idle_governor", f"{_CPU}/cpuidle/current_governor", SUSPICIOUS),
    ("cpu.no_turbo", f"{_CPU}/intel_pstate/no_turbo", FATAL),
    ("cpu.pstate_status", f"{_CPU}/intel_pstate/status", SUSPICIOUS),
    ("cpu.amd_pstate_status", f"{_CPU}/amd_pstate/status", SUSPICIOUS),
    ("cpu.boost", f"{_CPU}/cpufreq/boost", FATAL),
    ("cpu.interrupts_on", "/proc/irq/default_smp_affinity", SUSPICIOUS),
)
MEMORY: tuple[Row, ...] = (
    *(
        (f"memory.thp_{name}", f"{_MM}/transparent_hugepage/{name}", SUSPICIOUS)
        for name in ("enabled", "defrag", "shmem_enabled")
    ),
    ("memory.ksm_run", f"{_MM}/ksm/run", SUSPICIOUS),
    ("memory.ksm_pages_sharing", f"{_MM}/ksm/pages_sharing", EXPECTED),
    ("memory.lru_gen", f"{_MM}/lru_gen/enabled", SUSPICIOUS),
    ("memory.zswap", "/sys/module/zswap/parameters/enabled", SUSPICIOUS),
)
SYSCTLS: tuple[Row, ...] = (
    *_sysctls(
        "kernel.randomize_va_space kernel.numa_balancing kernel.timer_migration "
        "kernel.sched_autogroup_enabled kernel.sched_cfs_bandwidth_slice_us "
        "kernel.sched_rt_period_us kernel.sched_rt_runtime_us kernel.sched_schedstats "
        "kernel.sched_rr_timeslice_ms kernel.sched_energy_aware "
        "kernel.sched_util_clamp_min kernel.sched_util_clamp_max "
        "kernel.nmi_watchdog kernel.watchdog kernel.task_delayacct "
        "kernel.perf_event_paranoid kernel.perf_cpu_time_max_percent "
        "kernel.kptr_restrict kernel.unprivileged_bpf_disabled kernel.io_uring_disabled "
        "kernel.pid_max kernel.threads-max net.core.bpf_jit_enable"
    ),
    *_sysctls(
        "vm.swappiness vm.dirty_ratio vm.dirty_bytes vm.dirty_background_ratio "
        "vm.dirty_background_bytes vm.dirty_expire_centisecs "
        "vm.dirty_writeback_centisecs vm.overcommit_memory vm.overcommit_ratio "
        "vm.nr_hugepages vm.nr_overcommit_hugepages vm.zone_reclaim_mode "
        "vm.vfs_cache_pressure vm.min_free_kbytes vm.watermark_scale_factor "
        "vm.page-cluster vm.max_map_count vm.compaction_proactiveness vm.stat_interval"
    ),
    *_sysctls("fs.file-max fs.nr_open fs.aio-max-nr fs.pipe-max-size"),
    *_sysctls(
        "net.core.rmem_max net.core.wmem_max net.core.rmem_default "
        "net.core.wmem_default net.core.somaxconn net.core.netdev_max_backlog "
        "net.core.default_qdisc net.core.busy_poll net.core.busy_read "
        "net.ipv4.tcp_congestion_control net.ipv4.tcp_rmem net.ipv4.tcp_wmem "
        "net.ipv4.tcp_mem net.ipv4.ip_local_port_range net.ipv4.tcp_tw_reuse "
        "net.ipv4.tcp_max_syn_backlog net.ipv4.tcp_slow_start_after_idle "
        "net.ipv4.tcp_syncookies"
    ),
)
BLOCK_QUEUE = (
    *("scheduler", "nr_requests", "rotational", "write_cache", "read_ahead_kb"),
    *("logical_block_size", "physical_block_size", "max_sectors_kb", "nomerges"),
    *("rq_affinity", "wbt_lat_usec", "io_poll", "fua", "zoned", "discard_max_bytes"),
)
"""Files of `/sys/block/X/queue`."""
