"""The table of finding codes: stable code, default severity, remedy; and how a finding is made of one."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from benchwright.core.results import Finding, Severity

# --------------------------------------------------------------------------------------
# What one code of a finding means by default, and how tables of codes are put
# together.


class Code(msgspec.Struct, frozen=True):
    """How grave a finding of this code is, and what to do about it."""

    severity: Severity
    remedy: str


def merge_tables(*tables: Mapping[str, Code]) -> dict[str, Code]:
    """Return one table of several, in their order.

    Raises ValueError for a code that two of them define: one of the two remedies would
    never be shown.
    """
    found: dict[str, Code] = {}
    for table in tables:
        for name, code in table.items():
            if name in found:
                raise ValueError(f"the code of a finding is defined twice: {name}")
            found[name] = code
    return found


# --------------------------------------------------------------------------------------
# The part of the table of findings that speaks of the machine: limits, doubts, what
# is absent.
#
# Purpose: as codes.py, which takes these in. Limiters are notes where a benchmark may well
# mean to reach them (a processor, a disk), warnings where something else than what is
# measured was the limit. Sources: Systems Performance, 12.3.

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

MACHINE_FINDING_CODES: dict[str, Code] = {
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

MACHINE_CODES: dict[str, Code] = merge_tables(LIMITER_CODES, MACHINE_FINDING_CODES)


# -- The table of findings: stable code, default severity, remedy ----------------------
#
# Severity: serious, the number may be wrong or is not there; warning, it may mislead;
# note, worth a look. A code is never reused for another meaning.

_CODES: dict[str, Code] = {
    "command-failed": Code(
        Severity.SERIOUS,
        "Read the command's output in the study's logs; failed trials are in no figure.",
    ),
    "hook-failed": Code(
        Severity.WARNING,
        "Mend the measurement hook (logs/*/hook-0.err): its values of those trials are absent.",
    ),
    "timeout": Code(
        Severity.SERIOUS,
        "Raise TIMEOUT, or find out what the command waits for; the trial is in no figure.",
    ),
    "missing-metric": Code(
        Severity.SERIOUS,
        "Check the metric's pointer or pattern against the logged output; absent is not zero.",
    ),
    "too-few-trials": Code(
        Severity.SERIOUS,
        "Run at least 2 trials for an interval, and 20 for one to rely on.",
    ),
    "processes-left-running": Code(
        Severity.WARNING,
        "Make EXEC or CLEANUP wait for what they start: it ran beside what was measured.",
    ),
    "processes-not-ended": Code(
        Severity.SERIOUS,
        "Let EXEC or CLEANUP end what sudo and set-user-ID programs start, or run bw as root: it may not "
        "signal processes of another user.",
    ),
    "output-cost": Code(
        Severity.WARNING,
        "Use --output null if the output is not needed: it is then written to /dev/null.",
    ),
    "dependent-trials": Code(
        Severity.WARNING,
        "Make trials independent: rest between them (--rest 500ms), compare in randomised "
        "blocks (bw compare); --precision widens its interval by what it can see.",
    ),
    "drift": Code(
        Severity.WARNING,
        "Find what grows or fills up; compare only in randomised blocks (bw compare), "
        "which a drift does not bias.",
    ),
    "memory-leak": Code(
        Severity.WARNING,
        "Find what keeps the memory: from trial to trial more is used, or less is free.",
    ),
    "multimodal": Code(
        Severity.WARNING,
        "Find what switches (cache, placement, frequency, another process); until then "
        "report the median (--of median) or both modes, not the mean alone.",
    ),
    "warm-up": Code(
        Severity.WARNING,
        "Warm up in PRESETUP, or say that the figure is that of a cold start; all trials "
        "are in the table.",
    ),
    "outliers": Code(
        Severity.NOTE,
        "Look at those epochs' logs; they are in the table, and stay there. The median "
        "(--of median) is not moved by them.",
    ),
    "nominal-confidence": Code(
        Severity.WARNING,
        "Use --precision (Stein's two stages, one look) where the interval matters.",
    ),
    "sequential-arms": Code(
        Severity.SERIOUS,
        "Use --design blocks: with arms one after the other, drift of the machine cannot "
        "be told from a difference.",
    ),
    "not-interleaved": Code(
        Severity.WARNING,
        "Measure both side by side (bw compare -- 'A' 'B'): what changed in between is in "
        "the difference.",
    ),
    "difference-not-in-user-time": Code(
        Severity.NOTE,
        "Judge user time too (--metric user), or measure side by side: others on the "
        "machine lengthen elapsed time, and hardly what a program computes.",
    ),
    "biased-null": Code(
        Severity.SERIOUS,
        "Quiet the machine, or rest between trials (--rest), until a command does not "
        "differ from itself; differences of this size are not the programs'.",
    ),
    "generator-late": Code(
        Severity.WARNING,
        "Give the generator a processor of its own (--cpu, or cpus in [load] of a spec), "
        "more workers or a lower rate; "
        "response times include its delay.",
    ),
    "load-not-offered": Code(
        Severity.WARNING,
        "Do not compare it with a run at the intended rate: lower the rate, or give more room "
        "in flight (--depth, --connections) and more workers.",
    ),
    "target-saturated": Code(
        Severity.WARNING,
        "Lower the rate, or raise --depth if the target can do more at once: response times "
        "of a growing backlog say how long the run was.",
    ),
    "operations-failed": Code(
        Severity.WARNING,
        "Find out why; failed operations are counted, and in no response time.",
    ),
    "backlog-limit": Code(
        Severity.SERIOUS,
        "Offer less, allow more in flight (--depth, --connections), or drop what finds no room (--full drop).",
    ),
    "unrequested-answers": Code(
        Severity.WARNING,
        "See why the server answers more than once, or late: an answer that comes while a request "
        "is under way cannot be told from its own.",
    ),
    "operations-unfinished": Code(
        Severity.WARNING,
        "Raise --drain: what never ended is in no response time, and was slower than all.",
    ),
    "few-samples-for-percentile": Code(
        Severity.NOTE,
        "Run longer, or report a lower percentile.",
    ),
    "clock-unsound": Code(
        Severity.WARNING,
        "Use --clock monotonic; times of a few microseconds are doubtful.",
    ),
    "clock-slow": Code(
        Severity.NOTE,
        "Nothing: the kernel's clock is right, reading it takes a little longer.",
    ),
    "memory-not-locked": Code(
        Severity.NOTE,
        "Raise the limit (ulimit -l unlimited): a page fault can make an operation late.",
    ),
    "closed-loop": Code(
        Severity.NOTE,
        "Use --rate for what users of an open system would see.",
    ),
    "load-interrupted": Code(
        Severity.WARNING,
        "The figures cover that part.",
    ),
    "samples-lost": Code(
        Severity.WARNING,
        "Write samples to a faster disk than the target, with room for 48 bytes an operation; "
        "the figures are of all operations.",
    ),
    "trace-lines-skipped": Code(
        Severity.WARNING,
        "Mend the trace, or say with the result what is missing from it.",
    ),
    "trial-void": Code(
        Severity.NOTE,
        "Nothing: void trials are kept, counted nowhere, and run again by `bw resume`.",
    ),
    "trace-empty": Code(
        Severity.SERIOUS,
        "Ask for a part that the trace has (--from, --for, --devices): bw trace stat tells "
        "how long it is.",
    ),
    "trace-clipped": Code(
        Severity.WARNING,
        "Give a larger target, or wrap the addresses (--offsets wrap).",
    ),
    "trace-stamps-coarse": Code(
        Severity.NOTE,
        "Look at scales above the clock's step only; --duplicates spread parts them evenly.",
    ),
    "trace-ends-missing": Code(
        Severity.NOTE,
        "Nothing, where they are few: they were under way when the trace ended.",
    ),
    "capture-events-lost": Code(
        Severity.WARNING,
        "Capture again with a larger --buffer: the trace has gaps.",
    ),
    "capture-lines-unread": Code(
        Severity.WARNING,
        "Tell us the kernel's version: the trace lacks what those lines said.",
    ),
    "capture-new-devices": Code(
        Severity.WARNING,
        "Attach devices before the capture begins: those operations are not in the trace.",
    ),
    "capture-empty": Code(
        Severity.NOTE,
        "Name the device instead of the command for what the page cache writes later.",
    ),
    "trace-unmatched": Code(
        Severity.WARNING,
        "Where B replayed a part, say which (--from, --for: of A). Check that A is read by "
        "the replay's policies (--offsets, --target-size, --align, --duplicates), and widen "
        "--window; what is unmatched is in no arrival error.",
    ),
    "trace-alignment-estimated": Code(
        Severity.NOTE,
        "Give --speed, and --shift where it is known, for an absolute error.",
    ),
    "server-and-generator-share-cores": Code(
        Severity.WARNING,
        "Use a machine with two processors or more, or another one for the generator: here "
        "they take each other's time, and the peak rate is lower than the server's own.",
    ),
    "server-did-not-recover": Code(
        Severity.WARNING,
        "Read the server's log: after this load it did not answer in time, and the next trial "
        "began with a new one; raise ready_timeout if it only needs longer.",
    ),
    "generator-behind": Code(
        Severity.WARNING,
        "Give the generator more processors, connections or machines, or another one: the "
        "trials count at the rate that was offered, and higher rates are not known.",
    ),
    "probe-failed": Code(
        Severity.WARNING,
        "Read the server's and the generator's output of that trial: it was run again, and "
        "is in no figure but the cost.",
    ),
    "failure-counted-as-overload": Code(
        Severity.WARNING,
        "Find out why the server or the generator fails at this rate; the answer takes it "
        "for more than the server can do.",
    ),
    "surface-sample-failed": Code(
        Severity.WARNING,
        "Mend the server at that sample and `bw resume`; the model knows nothing of it.",
    ),
    "surface-bound-only": Code(
        Severity.WARNING,
        "Move the lowest or highest rate; a bound is no peak and is in no model.",
    ),
    "surface-claim-missed": Code(
        Severity.WARNING,
        "Give each search more time (budget, max_trials); the model takes its interval as "
        "it is.",
    ),
    "surface-few-samples": Code(
        Severity.NOTE,
        "Search more samples, two for each level that is not a number; or be sure that "
        "nothing jumps between the levels searched.",
    ),
    "surface-no-model": Code(
        Severity.SERIOUS,
        "Search more samples, or mend those that failed; nothing is predicted.",
    ),
    "surface-model-reduced": Code(
        Severity.WARNING,
        "Search more samples, or ask for a lower degree.",
    ),
    "surface-lack-of-fit": Code(
        Severity.WARNING,
        'Use a Gaussian process (model = "gaussian-process"): the surface is no '
        "polynomial, and more samples do not make it one; the bands hold the misfit.",
    ),
    "surface-noise-assumed": Code(
        Severity.NOTE,
        "Use a policy that states an interval of its peak.",
    ),
    "closed-loop-generator": Code(
        Severity.WARNING,
        "Use a generator on a schedule (engine, pgbench, wrk2, vegeta, oha): this one waits "
        "for its answers, so an overloaded server is spared the load that would show it.",
    ),
    "hides-lateness": Code(
        Severity.WARNING,
        "Use a generator whose response counts from the intended start (engine, pgbench, "
        "wrk2, vegeta, oha), or give this one room (depth, vus): what waits is in no figure.",
    ),
    "generator-saturated": Code(
        Severity.WARNING,
        "Give the generator more processors or threads: it used nearly all that it could, "
        "so its own limit cannot be told from the server's.",
    ),
    "rate-rounded": Code(
        Severity.NOTE,
        "Use fewer connections, or a generator that takes any rate: this one takes whole "
        "numbers for each of its parts.",
    ),
    "operations-skipped": Code(
        Severity.WARNING,
        "Give the generator more room (vus, clients), or read it as overload: operations "
        "that were due were not sent; they count as slower than all others.",
    ),
    "errors-in-response": Code(
        Severity.WARNING,
        "Use a generator that keeps refusals apart (engine, vegeta, k6): this one's mean and "
        "percentiles are of good and bad answers together, and a refusal is often quick.",
    ),
    "backlog-uncounted": Code(
        Severity.WARNING,
        "Read it as overload, and use a generator that counts every arrival (engine, "
        "vegeta): what was due and had not ended when the time was up is in no figure.",
    ),
    "ramp-not-saturated": Code(
        Severity.WARNING,
        "Raise the highest level: what the server can do at most was not seen.",
    ),
    "throughput-falls": Code(
        Severity.WARNING,
        "Keep the load below that level (a limit on connections, a queue in front): beyond "
        "it the server does less, not more.",
    ),
    "superlinear": Code(
        Severity.WARNING,
        "Find what the first levels lack (warm caches, batching, a woken processor); no law "
        "of scalability describes it.",
    ),
    "usl-misfit": Code(
        Severity.WARNING,
        "Trust the measured points, not the fitted curve: look for a sharp limit (a pool, a "
        "quota, a second bottleneck), and step through it more finely.",
    ),
    "usl-extrapolated": Code(
        Severity.WARNING,
        "Measure up to there, or do not rely on it: the law was seen on one side only.",
    ),
    "kappa-not-told": Code(
        Severity.NOTE,
        "Measure higher levels, or more often (--repeats), to learn whether throughput falls.",
    ),
    "throughput-noise-unknown": Code(
        Severity.WARNING,
        "Use --repeats 3, or give a series: nothing says how far a figure can be trusted.",
    ),
    "single-runs": Code(
        Severity.WARNING,
        "Use --repeats 3: runs differ among each other too (placement, caches, neighbours).",
    ),
    "curve-fits-no-queue": Code(
        Severity.WARNING,
        "Look at the response curve: a kink, refused operations or pauses are not in a "
        "queue's shape; the search assumed only that more load is not quicker.",
    ),
    "sheds-load": Code(
        Severity.WARNING,
        "Keep the limit on errors: the server refuses what it cannot do, so its response says "
        "nothing of its load; the peak is where it begins to refuse.",
    ),
    "retrograde-under-overload": Code(
        Severity.WARNING,
        "Keep the load below the peak (a limit on connections, a queue in front): overloaded, "
        "the server does less than it can.",
    ),
    "response-not-monotonic": Code(
        Severity.WARNING,
        "Find out what gets quicker under more load (batching, caching, frequency); there "
        "may be several rates at which the criterion begins to fail.",
    ),
    "response-jumps": Code(
        Severity.WARNING,
        "Look for what changes at this rate (a cache, a pool, a limit on connections), and "
        "claim the rate (rate:5%): no rate has a response near the limit.",
    ),
    "rate-not-decided": Code(
        Severity.WARNING,
        "Use longer runs (--run-length), claim less (region:20%), or find what differs between "
        "runs (bw why): the limit lies within what one rate's runs differ by.",
    ),
    "server-stalls": Code(
        Severity.WARNING,
        "Find what pauses the server (garbage collection, compaction, checkpoints); limit "
        "a high percentile too: the mean says little of pauses.",
    ),
}

CODES: dict[str, Code] = merge_tables(MACHINE_CODES, _CODES)

_FORMER_MARKS = {"generator-bound": "generator-saturated"}
"""Marks of trials in journals of earlier versions, and their codes of today."""


def make_finding(
    code: str, subject: str, evidence: str, severity: Severity | None = None
) -> Finding:
    """Return a finding of a known code, with the table's severity unless given."""
    known = CODES[code]
    return Finding(code, severity or known.severity, subject, evidence, known.remedy)


def finding_of_mark(mark: str, subject: str, evidence: str) -> Finding:
    """Return the finding of a mark on a trial; a warning where the table has no such code."""
    code = _FORMER_MARKS.get(mark, mark)
    if code in CODES:
        return make_finding(code, subject, evidence)
    return Finding(code, Severity.WARNING, subject, evidence)
