"""The table of finding codes (stable code, default severity, remedy), and the constructor of
findings.

Severity: serious, the result may be wrong or missing; warning, it may mislead; note, worth a
look. A code is never reused for another meaning; a code that was renamed is in
`core/results.py`, FORMER_CODES. docs/findings.md is generated from this table.

A limiter is a note if a benchmark may intend to reach it (a CPU, a disk), and a warning if the
limit is not what the benchmark measures. Source: Systems Performance, 12.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import msgspec

from benchwright.core.results import Finding, Severity, current_code
from benchwright.feature import features


class Code(msgspec.Struct, frozen=True):
    """Severity and remedy of the findings of one code."""

    severity: Severity
    remedy: str


def merge_tables(*tables: Mapping[str, Code]) -> dict[str, Code]:
    """Return several tables as one, in their order.

    Raises ValueError for a code in two tables: one of the two remedies would never be shown.
    """
    merged: dict[str, Code] = {}
    for table in tables:
        for name, code in table.items():
            if name in merged:
                raise ValueError(f"finding code {name} is defined twice")
            merged[name] = code
    return merged


LIMITER_CODES: dict[str, Code] = {
    "noisy-neighbour": Code(
        Severity.WARNING,
        "Stop the other programs (bw quiet), or measure at another time: they used the CPUs. "
        "If one of them is the server under test, name it: --target-name, --target-port.",
    ),
    "steal": Code(
        Severity.WARNING,
        "Use a dedicated machine, or more trials spread over time: the hypervisor gave "
        "CPU time to other virtual machines.",
    ),
    "throttled-by-cgroup-quota": Code(
        Severity.WARNING,
        "Raise or remove the CPU quota (cpu.max, cpu.cfs_quota_us): the quota was measured.",
    ),
    "io-throttled": Code(
        Severity.WARNING,
        "Remove the I/O limit (io.max, blkio.throttle.*): the limit was measured, not the device.",
    ),
    "swapping": Code(
        Severity.WARNING,
        "Add memory, or turn swap off for the run (bw quiet swap): the disk was used as memory.",
    ),
    "memory-limit": Code(
        Severity.WARNING,
        "Raise the cgroup's memory limit, or report that the result is for this much memory.",
    ),
    "fd-limit": Code(
        Severity.WARNING,
        "Raise the limit on open files (ulimit -n, LimitNOFILE=), or open fewer files.",
    ),
    "pids-limit": Code(Severity.WARNING, "Raise the limit on processes (pids.max, ulimit -u)."),
    "generator-bound": Code(
        Severity.WARNING,
        "Give the load generator more CPUs or its own machine, or use a faster generator: "
        "its speed was measured, not the target's.",
    ),
    "memory-pressure": Code(
        Severity.WARNING, "Add memory or make the working set smaller: tasks waited for memory."
    ),
    "disk-stalled": Code(
        Severity.WARNING,
        "Find what paused the device (a snapshot, a freeze, internal garbage collection): "
        "requests were in flight and none completed.",
    ),
    "disk-saturated": Code(
        Severity.NOTE,
        "The disk was the limit. Use a faster disk, fewer requests or larger requests, unless "
        "the disk is what you measure.",
    ),
    "network-limit": Code(
        Severity.NOTE, "The link was the limit. Use a faster link, or less data per operation."
    ),
    "cpu-saturated": Code(
        Severity.NOTE,
        "The benchmark used all CPUs: profile it (--profile) to see where the time goes.",
    ),
    "single-threaded-cpu-bound": Code(
        Severity.NOTE,
        "One thread at a time used a whole CPU, so more CPUs will not help: profile it (--profile), or "
        "run more threads (--threads) that do not wait for each other.",
    ),
    "too-few-threads": Code(
        Severity.NOTE,
        "Run more threads (--threads, workers): each thread used a whole CPU, and "
        "other CPUs were idle.",
    ),
    "waits-for-disk": Code(
        Severity.NOTE,
        "The time of a request to the disk was the limit. Use a faster disk, more requests at a time (threads, "
        "asynchronous I/O), or fewer flushes, unless the disk is what you measure.",
    ),
    "waits-for-network": Code(
        Severity.NOTE,
        "The peer, or the way to it, was the limit. Measure the peer (name it if it runs here: --target-port), or "
        "send more requests at a time.",
    ),
    "waits-for-locks": Code(
        Severity.NOTE,
        "Threads waited for each other, for a lock or for work. Hold locks for a shorter time, or find who "
        "holds them (--profile shows what runs; perf lock or offcputime of BCC show the locks).",
    ),
    "waits-for-pipe": Code(
        Severity.NOTE,
        "The other end of the pipe was the limit: it wrote or read too slowly. Measure that program.",
    ),
    "sleeps": Code(
        Severity.NOTE,
        "The program slept, or waited with a time limit for nobody but itself; a faster machine changes nothing.",
    ),
}
"""The limiters, in the order in which causes explain each other: the cost of others affects every
other figure, so it comes first; a quota explains a waiting thread, swapping a busy disk, and a disk
that stalls is also busy. Waits come last, because every other limit causes some; those for
something outside the trial explain its locks and pipes."""

MACHINE_FINDING_CODES: dict[str, Code] = {
    "answered-from-cache": Code(
        Severity.WARNING,
        "To measure the device, make the data larger than memory, bypass the cache "
        "(--direct), or empty the cache before each trial (bw chill).",
    ),
    "exceeds-known-limit": Code(
        Severity.SERIOUS,
        "The value cannot be right: find out what answered (a cache, another unit, a wrong count).",
    ),
    "io-size-not-as-claimed": Code(
        Severity.WARNING,
        "Report the size that was really used, or find what splits, merges or buffers the I/O.",
    ),
    "errors-in-kernel-log": Code(
        Severity.SERIOUS, "Read the message: the kernel had an error during the trial."
    ),
    "frequency-changed": Code(
        Severity.WARNING,
        "Fix the frequency (bw quiet governor turbo), or let the machine warm up first.",
    ),
    "thermal": Code(
        Severity.WARNING,
        "Cool the machine, or run shorter trials with rests: the CPU slowed down because of heat.",
    ),
    "network-errors": Code(
        Severity.WARNING,
        "Find what loses packets (a full queue, a bad link): they were lost or sent again.",
    ),
    "environment-changed-between-trials": Code(
        Severity.SERIOUS,
        "Do not combine these trials: run again in one environment "
        "(bw env --diff shows what changed).",
    ),
    "environments-differ": Code(
        Severity.SERIOUS,
        "Compare results from one environment, unless the environments are what you compare "
        "(bw env --diff shows all differences).",
    ),
    "work-too-short-for-the-clock": Code(
        Severity.WARNING,
        "Do more work in a trial (a loop, a larger input): process start, or the resolution of "
        "the clock, is a large part of the value.",
    ),
    "not-watched": Code(
        Severity.NOTE,
        "What limited these trials is unknown. If they are shorter than half a second, repeat "
        "the command within a trial (sh -c 'COMMAND; COMMAND'); if --no-watch was given, run "
        "them without it.",
    ),
    "server-not-found": Code(
        Severity.WARNING,
        "Start the server before the trials; name it in a way that survives a restart: "
        "--target-port, --target-unit, --target-name.",
    ),
    "quiet-incomplete": Code(
        Severity.NOTE, "Run as root, or accept that this setting was left unchanged."
    ),
    "quiet-undone-late": Code(
        Severity.NOTE, "Nothing: an earlier run was killed, and its changes are now undone."
    ),
    "quiet-not-restored": Code(
        Severity.WARNING,
        "Restore it by hand, or try again: bw quiet --restore; bw quiet --status shows it.",
    ),
    "quiet-reverted": Code(
        Severity.WARNING,
        "Find what reverted the setting (systemd, tuned, a script), stop it, and run again: "
        "part of this run did not have the requested setting.",
    ),
    "quiet-log-broken": Code(
        Severity.WARNING,
        "Find what changed the log of bw quiet, or whether its disk failed: had this run been "
        "killed, there might be no record of what to restore.",
    ),
    "profiled": Code(
        Severity.NOTE,
        "Take results from a run without --profile: profiling itself costs some time.",
    ),
    "profile-unavailable": Code(
        Severity.NOTE, "Install perf (linux-perf), or allow it (kernel.perf_event_paranoid)."
    ),
    "profile-empty": Code(
        Severity.NOTE, "A profile shows only what runs. bw why shows what the program waited for."
    ),
    "characterize-unavailable": Code(
        Severity.NOTE,
        "Run as root with tracefs; with bpftrace it costs less. As an ordinary user: "
        "strace -f -c COMMAND.",
    ),
    "characterize-lost-events": Code(
        Severity.WARNING,
        "Install bpftrace (it counts in the kernel), or characterize a shorter run.",
    ),
    "remote-incomplete": Code(
        Severity.WARNING,
        "Fix what the hook `remote` reports about its server (docs/remote.md): these values of "
        "the server are missing.",
    ),
    "chill-incomplete": Code(
        Severity.WARNING,
        "Use another method (bw chill --method): some of the data were still in memory.",
    ),
}

UNSTEADY_CODES = (
    "noisy-neighbour",
    "steal",
    "throttled-by-cgroup-quota",
    "io-throttled",
    "swapping",
    "memory-pressure",
    "disk-stalled",
    "frequency-changed",
    "thermal",
)
"""Of a machine whose speed changes between trials, which makes intervals wide."""

MACHINE_CODES: dict[str, Code] = merge_tables(LIMITER_CODES, MACHINE_FINDING_CODES)

_CODES: dict[str, Code] = {
    "command-failed": Code(
        Severity.SERIOUS,
        "Read the command's output in the study's logs; failed trials are not in the results. If the "
        "status is expected (grep, diff), accept it: --ok-status 0,1.",
    ),
    "load-failed": Code(
        Severity.SERIOUS,
        "Read the load's output in the study's logs; failed trials are not in the results. If more operations may "
        "fail, accept it: --max-errors 5%.",
    ),
    "result-failed": Code(
        Severity.SERIOUS,
        "The tool that wrote the file states that it failed: correct the benchmark and run it again; failed "
        "trials are not in the results.",
    ),
    "status-accepted": Code(
        Severity.NOTE,
        "If trials ended with several statuses, check that all of them did the same work; "
        "if one of these statuses is a failure, leave it out of --ok-status.",
    ),
    "results-not-read": Code(
        Severity.WARNING,
        "Correct the named places, or let the tool write the file again: everything else in it was read.",
    ),
    "exact-value-differs": Code(
        Severity.WARNING,
        "The tool states the quantity as exact, so it has no noise: the difference is real, however small.",
    ),
    "estimate-of-failures": Code(
        Severity.NOTE,
        "Repair what fails, or accept its exit status (--ok-status): the tool has no values of the single "
        "runs that succeeded.",
    ),
    "hook-failed": Code(
        Severity.WARNING,
        "Fix the measurement hook (logs/*/hook-0.err): its values are missing from those trials.",
    ),
    "timeout": Code(
        Severity.SERIOUS,
        "Raise the time limit (--timeout; TIMEOUT in a suite), or find what the command waits for; the trial is "
        "not in the results.",
    ),
    "missing-metric": Code(
        Severity.SERIOUS,
        "Check the metric's pointer or pattern against the logged output; a missing value is not zero.",
    ),
    "too-few-trials": Code(
        Severity.SERIOUS, "Run at least 2 trials for an interval, and 20 for a reliable one."
    ),
    "processes-left-running": Code(
        Severity.WARNING,
        "Make the command, or that of --cleanup (CLEANUP in a suite), wait for the processes that it starts: "
        "these ran during the measurement.",
    ),
    "processes-not-ended": Code(
        Severity.SERIOUS,
        "Make the command, or that of --cleanup (CLEANUP in a suite), stop what sudo and set-user-ID programs "
        "start, or run bw as root: "
        "it may not signal processes of another user.",
    ),
    "output-cost": Code(
        Severity.WARNING,
        "Use --output null if you do not need stdout, which is then written to /dev/null. stderr is "
        "stored with every setting: redirect it (2>/dev/null), or make the command write less.",
    ),
    "dependent-trials": Code(
        Severity.WARNING,
        "Make trials independent: rest between them (--rest 500ms), or compare in randomised "
        "blocks (bw compare). --precision widens its interval by the dependence that it finds.",
    ),
    "drift": Code(
        Severity.WARNING,
        "Find what grows or fills up. Compare only in randomised blocks (bw compare): "
        "drift does not bias them. Repeat a search on a quieter machine.",
    ),
    "memory-leak": Code(
        Severity.WARNING,
        "Find what keeps the memory: use grows, or free memory shrinks, from trial to trial.",
    ),
    "multimodal": Code(
        Severity.WARNING,
        "Find what switches (cache, placement, frequency, another process). Until then "
        "report the median (--of median) or both modes, not only the mean.",
    ),
    "warm-up": Code(
        Severity.WARNING,
        "Leave warm-up trials out (--warmup 3; WARMUP in a suite), or report the result as that of a cold "
        "start; the table includes all trials.",
    ),
    "environment-changed-between-runs": Code(
        Severity.WARNING,
        "Runs before and after are not compared. To compare them, measure an old commit again in "
        "the new environment (bw compare). --ignore FACT if the change cannot matter.",
    ),
    "constant": Code(
        Severity.NOTE,
        "Run more trials (59 equal ones exclude another value that 1 of 20 has), or use a finer clock or metric.",
    ),
    "outliers": Code(
        Severity.NOTE,
        "Read the logs of those trials. The table includes them; they do not affect the median "
        "(--of median).",
    ),
    "nominal-confidence": Code(
        Severity.WARNING, "Use --precision where the interval matters: it counts its looks."
    ),
    "sequential-arms": Code(
        Severity.SERIOUS,
        "Use --design blocks: with one arm after the other, drift of the machine looks like "
        "a difference.",
    ),
    "settings-differ": Code(
        Severity.WARNING,
        "Compare results that were measured with the same settings, unless the settings are what you "
        "compare.",
    ),
    "test-missing": Code(
        Severity.WARNING,
        "Find why the test has no result any more; if it was removed, accept the code in the gate.",
    ),
    "not-interleaved": Code(
        Severity.WARNING,
        "Measure both side by side (bw compare -- 'A' 'B'): the difference includes everything that "
        "changed in between.",
    ),
    "gang-confounded": Code(
        Severity.WARNING,
        "Measure both on the same gang (the arms of one bw compare always are), or let every gang "
        "measure an anchor: hosts of one type differ by some per cent.",
    ),
    "difference-not-in-user-time": Code(
        Severity.NOTE,
        "Judge user time too (--metric user), or measure side by side: other processes "
        "lengthen elapsed time, but hardly the CPU time of a program.",
    ),
    "biased-null": Code(
        Severity.SERIOUS,
        "Quiet the machine, or rest between trials (--rest), until a command does not "
        "differ from itself: the machine causes differences of this size.",
    ),
    "generator-late": Code(
        Severity.WARNING,
        "Give the generator its own CPU (--cpu, or cpus in [load] of a spec), "
        "more workers or a lower rate; response times include the generator's delay.",
    ),
    "load-not-offered": Code(
        Severity.WARNING,
        "Do not compare it with a run at the intended rate: lower the rate, or allow more "
        "in flight (--depth, --connections) and more workers.",
    ),
    "trial-void": Code(
        Severity.NOTE,
        "Nothing: void trials are stored but not counted, and `bw resume` runs them again.",
    ),
    "generator-behind": Code(
        Severity.WARNING,
        "Give the generator more CPUs, connections or machines, or use another one: the "
        "trials count at the rate that was offered, and higher rates are unknown.",
    ),
}

_OF_THE_CORE: dict[str, Code] = merge_tables(MACHINE_CODES, _CODES)


@cache
def all_codes() -> Mapping[str, Code]:
    """Return every code, with those of the installed features."""
    return merge_tables(_OF_THE_CORE, *(feature.finding_codes() for feature in features()))


BROKEN_CODES = ("command-failed", "load-failed", "result-failed", "timeout")
"""Codes of the findings that report a failed trial."""

WHOLE_CODES = ("results-not-read", "settings-differ")
"""Codes of findings whose evidence is a list that is shown whole: nothing else shows what is
missing."""

CHANGE_CODES = ("environment-changed-between-runs",)
"""Codes of findings whose evidence is what changed, which is neither cut nor merged with what
changed of another test."""

LIMITS_OF_FAILURES = ("memory-limit", "fd-limit", "pids-limit")
"""Limits at which a command fails, so one of them is the cause of a failure."""

_FORMER_MARKS = {"generator-bound": "generator-saturated"}
"""Marks of trials in journals of earlier versions, with their current codes. These marks differ
from findings of the same name."""


def make_finding(
    code: str, subject: str, evidence: str, severity: Severity | None = None
) -> Finding:
    """Return a finding of a known code, with the table's severity unless one is given."""
    known = _OF_THE_CORE.get(code) or all_codes()[code]
    return Finding(code, severity or known.severity, subject, evidence, known.remedy)


def finding_of_mark(mark: str, subject: str, evidence: str) -> Finding:
    """Return the finding of a trial's mark; a warning if the table does not contain the code."""
    code = current_code(_FORMER_MARKS.get(mark, mark))
    if code in all_codes():
        return make_finding(code, subject, evidence)
    return Finding(code, Severity.WARNING, subject, evidence)
