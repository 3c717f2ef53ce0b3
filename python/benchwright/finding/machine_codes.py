"""The part of the table of findings that speaks of the machine: limits, doubts, what is absent.

Purpose: as codes.py, which takes these in. Limiters are notes where a benchmark may well
mean to reach them (a processor, a disk), warnings where something else than what is
measured was the limit. Sources: Systems Performance, 12.3.
"""

from __future__ import annotations

from benchwright.finding.code import Code, joined
from benchwright.model.finding import Severity

LIMITER_CODES: dict[str, Code] = {
    "noisy-neighbour": Code(
        Severity.WARNING,
        "Stop what else runs (bw quiet), or measure at another time: others used the processors. "
        "If one of them is the server that is measured, name it: --target-name, --target-port.",
    ),
    "steal": Code(
        Severity.WARNING,
        "Use a machine of its own, or more trials spread over time: the hypervisor gave "
        "processor time to others.",
    ),
    "throttled-by-cgroup-quota": Code(
        Severity.WARNING,
        "Raise or lift the quota (cpu.max, cpu.cfs_quota_us): it is what was measured.",
    ),
    "io-throttled": Code(
        Severity.WARNING,
        "Lift the limit (io.max, blkio.throttle.*): the device was not what was measured.",
    ),
    "swapping": Code(
        Severity.WARNING,
        "Give it more memory, or switch swap off for the run (bw quiet swap): the disk "
        "stood in for memory.",
    ),
    "memory-limit": Code(
        Severity.WARNING,
        "Raise the cgroup's memory limit, or say that the result is for this much memory.",
    ),
    "fd-limit": Code(
        Severity.WARNING,
        "Raise the limit of open files (ulimit -n, LimitNOFILE=), or open fewer.",
    ),
    "pids-limit": Code(
        Severity.WARNING, "Raise the limit of processes (pids.max, ulimit -u)."
    ),
    "generator-bound": Code(
        Severity.WARNING,
        "Give the load generator more processors or a machine of its own, or use a lighter "
        "one: its own speed was measured, not the target's.",
    ),
    "memory-pressure": Code(
        Severity.WARNING,
        "Give it more memory or a smaller working set: tasks waited for memory.",
    ),
    "disk-stalled": Code(
        Severity.WARNING,
        "Find out what paused the device (a snapshot, a freeze, its own housekeeping): "
        "requests were in flight and none completed.",
    ),
    "disk-saturated": Code(
        Severity.NOTE,
        "The disk was the limit: a faster one, fewer or larger requests; else nothing.",
    ),
    "network-limit": Code(
        Severity.NOTE,
        "The link was the limit: a faster one, or less data for each operation.",
    ),
    "cpu-saturated": Code(
        Severity.NOTE,
        "All processors were busy with the benchmark: profile it (--profile) to see with what.",
    ),
    "single-threaded-cpu-bound": Code(
        Severity.NOTE,
        "One thread used a whole processor, so more processors will not help: profile it "
        "(--profile), or run more threads (--threads).",
    ),
    "too-few-threads": Code(
        Severity.NOTE,
        "Run more threads (--threads, workers): each of them used a whole processor, and "
        "processors stood idle.",
    ),
}
"""What can be the limit of a result, in the order in which causes explain each other: what
others cost is in every other figure, so it comes first; a quota explains a waiting thread,
swap space a busy disk, and a disk that stands still is busy."""

DOUBT_CODES: dict[str, Code] = {
    "answered-from-cache": Code(
        Severity.WARNING,
        "If the device is meant, make the data larger than memory, bypass the cache "
        "(--direct), or empty it before each trial (bw chill).",
    ),
    "exceeds-known-limit": Code(
        Severity.SERIOUS,
        "The figure cannot be what it says: find out what answered (a cache, another "
        "unit, a wrong count).",
    ),
    "io-size-not-as-claimed": Code(
        Severity.WARNING,
        "Say the size that was really used, or find what splits, merges or buffers the I/O.",
    ),
    "errors-in-kernel-log": Code(
        Severity.SERIOUS,
        "Read the message: a device or driver was in trouble during the trial.",
    ),
    "frequency-changed": Code(
        Severity.WARNING,
        "Fix the frequency (bw quiet governor turbo), or let the machine warm up first.",
    ),
    "thermal": Code(
        Severity.WARNING,
        "Cool the machine, or run shorter with rests: the processor was slowed down by heat.",
    ),
    "network-errors": Code(
        Severity.WARNING,
        "Find what loses packets (a full queue, a bad link): they were sent again, or lost.",
    ),
    "environment-changed-between-trials": Code(
        Severity.SERIOUS,
        "Do not put these trials into one figure: run again in one environment "
        "(bw env --diff tells what changed).",
    ),
    "environments-differ": Code(
        Severity.SERIOUS,
        "Compare results of one environment, unless it is what is compared (bw env --diff "
        "tells all that differs).",
    ),
    "work-too-short-for-the-clock": Code(
        Severity.WARNING,
        "Do more work in a trial (a loop, a larger input): starting it, or the clock's "
        "grain, is a large part of the figure.",
    ),
    "not-watched": Code(
        Severity.NOTE, "What limited the result is not known for what was not seen."
    ),
    "server-not-found": Code(
        Severity.WARNING,
        "Have the server run while trials do; name it in a way that a restart does not change: "
        "--target-port, --target-unit, --target-name.",
    ),
    "quiet-incomplete": Code(
        Severity.NOTE, "Run as root, or accept that this was left as it was."
    ),
    "quiet-undone-late": Code(
        Severity.NOTE, "An earlier run was killed; what it had changed is as it was."
    ),
    "quiet-not-restored": Code(
        Severity.WARNING,
        "Put it back by hand, or try again: bw quiet --restore; bw quiet --status shows it.",
    ),
    "quiet-not-held": Code(
        Severity.WARNING,
        "Find out who took it back (systemd, tuned, a script), stop that, and run again: a "
        "part of this run was not as it was asked.",
    ),
    "quiet-log-broken": Code(
        Severity.WARNING,
        "Find out who touched bw quiet's log, or whether its disk failed: had this run been "
        "killed, nothing might have told what to put back.",
    ),
    "profiled": Code(
        Severity.NOTE,
        "Take figures from a run without --profile: profiling costs some time itself.",
    ),
    "profile-unavailable": Code(
        Severity.NOTE,
        "Install perf (linux-perf), or allow it (kernel.perf_event_paranoid).",
    ),
    "characterize-unavailable": Code(
        Severity.NOTE,
        "Run as root with tracefs; bpftrace makes it cheap. As an ordinary user: "
        "strace -f -c COMMAND.",
    ),
    "characterize-lost-events": Code(
        Severity.WARNING,
        "Install bpftrace (it counts in the kernel), or characterize a shorter run.",
    ),
    "remote-incomplete": Code(
        Severity.WARNING,
        "Mend what the hook `remote` says of its server (docs/remote.md): these figures of "
        "the server are absent.",
    ),
    "chill-incomplete": Code(
        Severity.WARNING,
        "Use another method (bw chill --method): some of the data were still in memory.",
    ),
}

MACHINE_CODES: dict[str, Code] = joined(LIMITER_CODES, DOUBT_CODES)
