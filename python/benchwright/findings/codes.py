"""The table of finding codes (stable code, default severity, remedy, sentence), and the
constructor of findings.

Severity: serious, the result may be wrong or missing; warning, it may mislead; note, worth a
look. A code is never reused for another meaning; a code that was renamed is in
`core/results.py`, FORMER_CODES. docs/findings.md is generated from this table.

A limiter is a note if a benchmark may intend to reach it (a CPU, a disk), and a warning if the
limit is not what the benchmark measures. Source: Systems Performance, 12.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import msgspec
from msgspec import UNSET, UnsetType

from benchwright.core.results import Finding, FindingFigures, Severity, Value, current_code
from benchwright.core.text import trials_text
from benchwright.feature import features
from benchwright.findings.sentence import sentence


class Code(msgspec.Struct, frozen=True):
    """Severity, remedy and sentence of the findings of one code."""

    severity: Severity
    remedy: str
    says: str | Mapping[str, str] = ""
    """The template of its evidence (findings/sentence.py), or one for each form; empty where its
    evidence has no figures."""

    def template(self, form: str) -> str | None:
        """Return the template of a form; None if there is none."""
        if form == MARKED:
            return _MARKED
        if isinstance(self.says, str):
            return self.says or None
        return self.says.get(form)


MARKED = "marked"
"""The form of findings that say how many trials of a search have a mark, whatever its code."""
_MARKED = "{mark} in {marked} of {trials:#trial}[, p99 up to {p99}< (limit {limit})>]<; {beside}>"


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


UNKNOWN = "<; from {unknown} on, response times are unknown>"


def part_of(name: str) -> str:
    """Return the template of `3 of 1,000 operations (0.3 %)`, for the values of `part`."""
    return f"{{{name}}} of {{operations:#operation}}< ({{{name}_share}})>"


IN_TRIALS = "<{trials} ({some} of {total}[{attempts}])|{some} of {total} trials>"
"""The trials of which something is true: only how many they are in a sentence about several tests."""
_FAILED = "{cause} in " + IN_TRIALS + "[, {failed} failed in all]"
_DRIFT = (
    "{metric} {way}: {each} per trial< ({confidence} interval {low} to {high})>, {whole} of the median over trials "
    "{first} to {last}< (Theil-Sen; Mann-Kendall {p})>"
)
_OUTLIERS = (
    "{metric}: {kind} {some:?outlier|outliers} in "
    + IN_TRIALS
    + ", up to {worst:4}, {score:.1f} {side} the median< (threshold {threshold:.1f}); mean {mean:4} with, "
    "{without:4} without, median {median:4}"
)
_CORRELATED = (
    "{metric}: neighbouring trials are correlated by {correlation:.2f}< (rank correlation; {p})>"
)
_THREADS = "[thread {thread} used {share}][threads {threads}] of a CPU"
_IDLE = "<; {idle} of {count} idle>"
_RUNNABLE = "<; {runnable:.1f} tasks were runnable>"
_GROUP = "cgroup {cgroup} used {memory} of {limit} and reached its limit {times:#time}"
WAITED = "waited {share} of the time for {whom}< ({detail}; {samples:#sample})>"
SLEPT = "slept {slept} of the time< ({detail}; {samples:#sample})>"


def _from_cache(whose: str, prefix: str) -> str:
    """Return the parts about reads and writes of the trial, or of its target."""
    return (
        f"[; {whose}{{{prefix}read}}[{{per}}] read by system calls, {{{prefix}from_device}}[{{per}}] of it came "
        f"from a device< ({{{prefix}read_share}})>][; {whose}{{{prefix}written}}[{{per}}] written to files, "
        f"{{{prefix}to_device}}[{{per}}] had reached a device when it ended< ({{{prefix}written_share}})>]"
    )


LIMITER_CODES: dict[str, Code] = {
    "noisy-neighbour": Code(
        Severity.WARNING,
        "Stop the other programs (bw quiet), or measure at another time: they used the CPUs. "
        "If one of them is the server under test, name it: --target-name, --target-port.",
        says="other processes cost about {cost} of the elapsed time: they used {used} of {count}< ({whom})>, and "
        "[its threads spent {waiting} of the time waiting for a CPU][{runnable:.1f} tasks were runnable on {cpus}]",
    ),
    "steal": Code(
        Severity.WARNING,
        "Use a dedicated machine, or more trials spread over time: the hypervisor gave "
        "CPU time to other virtual machines.",
        says="CPU steal: {share}< ({stolen})>[: it cost about {cost} of the elapsed time]",
    ),
    "throttled-by-cgroup-quota": Code(
        Severity.WARNING,
        "Raise or remove the CPU quota (cpu.max, cpu.cfs_quota_us): the quota was measured.",
        says="cgroup {cgroup} was throttled by its CPU quota in {throttled} of {periods:#period}, "
        "{stopped:.2f} thread-seconds in {seconds:.2f} s<; used {used} of {limit:.3g}>",
    ),
    "io-throttled": Code(
        Severity.WARNING,
        "Remove the I/O limit (io.max, blkio.throttle.*): the limit was measured, not the device.",
        says="{disk}: {achieved} {what}[ during the {active} of the time in which it was used], with a "
        "limit of {limit} of cgroup {cgroup}",
    ),
    "swapping": Code(
        Severity.WARNING,
        "Add memory, or turn swap off for the run (bw quiet swap): the disk was used as memory.",
        says="{read} read from swap, {written} written to swap, {rate}<; " + _GROUP + ">",
    ),
    "memory-limit": Code(
        Severity.WARNING,
        "Raise the cgroup's memory limit, or report that the result is for this much memory.",
        says={
            "": _GROUP
            + "<; [the kernel killed {killed:#task} because of it][{pages:#page} read again after "
            "eviction][tasks waited for memory {pressure} of the time (PSI)]>",
            "kills": "cgroup {cgroup} reached its limit[ of {limit}]<; the kernel killed {killed:#task} because "
            "of it ({names})>",
        },
    ),
    "fd-limit": Code(
        Severity.WARNING,
        "Raise the limit on open files (ulimit -n, LimitNOFILE=), or open fewer files.",
        says="{who}< ({pid})> had {open} of {limit} files open",
    ),
    "pids-limit": Code(
        Severity.WARNING,
        "Raise the limit on processes (pids.max, ulimit -u).",
        says="cgroup {cgroup} had {tasks} of {limit} tasks",
    ),
    "generator-bound": Code(
        Severity.WARNING,
        "Give the load generator more CPUs or its own machine, or use a faster generator: "
        "its speed was measured, not the target's.",
        says=_THREADS
        + " of the load generator[, while {server} used {served:.2f}][, while the target used "
        "{target}]",
    ),
    "memory-pressure": Code(
        Severity.WARNING,
        "Add memory or make the working set smaller: tasks waited for memory.",
        says="[the kernel killed {killed:#task} because the machine had no memory left][tasks waited for memory "
        "{pressure} of the time< (PSI)>][tasks scanned {scanned} pages for free memory]<; at least {left} of "
        "{memory} available>",
    ),
    "disk-stalled": Code(
        Severity.WARNING,
        "Find what paused the device (a snapshot, a freeze, internal garbage collection): "
        "requests were in flight and none completed.",
        says="{disk} completed no request for {stall} with requests in flight, in a window of {window}",
    ),
    "device-limit": Code(
        Severity.NOTE,
        "The stated limit of the device was the limit. Use a larger one (a volume with more IOPS, more disks), or "
        "fewer or larger requests, unless that limit is what you measure.",
        says="{disk}: {achieved}[ {what}][ during the {active} of the time in which it was used], {share} of "
        "the {limit} that {disk} is stated to have",
    ),
    "disk-saturated": Code(
        Severity.NOTE,
        "The disk was the limit. Use a faster disk, fewer requests or larger requests, unless "
        "the disk is what you measure.",
        says="{disk} busy {busy} with {queue:.1f} requests in flight[, {response} a request][ during the "
        "{active} of the time in which it was used]<; {reads} reads/s, {writes} writes/s, {rate}>",
    ),
    "network-limit": Code(
        Severity.NOTE,
        "The link was the limit. Use a faster link, or less data per operation.",
        says="{link} {direction} {moved} on the wire, {share} of {speed}",
    ),
    "cpu-saturated": Code(
        Severity.NOTE,
        "The benchmark used all CPUs: profile it (--profile) to see where the time goes.",
        says={
            "": "{busy} of {count} busy[, {trial:.2f} with the trial]" + _RUNNABLE,
            "cpuset": "the trial used {trial} of the {cpus:#CPU} that it may use< (affinity, cpuset)>, while {idle} "
            "of {count} were idle" + _RUNNABLE,
        },
    ),
    "single-threaded-cpu-bound": Code(
        Severity.NOTE,
        "One thread at a time used a whole CPU, so more CPUs will not help: profile it (--profile), or "
        "run more threads (--threads) that do not wait for each other.",
        says={
            "": _THREADS + _IDLE,
            "processes": "one process at a time, in total {used}" + _IDLE,
            "turns": "threads that take turns, one at a time in {alone} of {watched} samples, in total {used}"
            + _IDLE,
        },
    ),
    "too-few-threads": Code(
        Severity.NOTE,
        "Run more threads (--threads, workers): each thread used a whole CPU, and "
        "other CPUs were idle.",
        says="{threads} threads of {side}, each {share} of a CPU" + _IDLE,
    ),
    "waits-for-disk": Code(
        Severity.NOTE,
        "The time of a request to the disk was the limit. Use a faster disk, more requests at a time (threads, "
        "asynchronous I/O), or fewer flushes, unless the disk is what you measure.",
        says=WAITED,
    ),
    "waits-for-network": Code(
        Severity.NOTE,
        "The peer, or the way to it, was the limit. Measure the peer (name it if it runs here: --target-port), or "
        "send more requests at a time.",
        says=WAITED,
    ),
    "waits-for-locks": Code(
        Severity.NOTE,
        "Threads waited for each other, for a lock or for work. Hold locks for a shorter time, or find who "
        "holds them (--profile shows what runs; perf lock or offcputime of BCC show the locks).",
        says=WAITED,
    ),
    "waits-for-pipe": Code(
        Severity.NOTE,
        "The other end of the pipe was the limit: it wrote or read too slowly. Measure that program.",
        says=WAITED,
    ),
    "sleeps": Code(
        Severity.NOTE,
        "The program slept, or waited with a time limit for nobody but itself; a faster machine changes nothing.",
        says=SLEPT,
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
        says=_from_cache("", "") + _from_cache("the target: ", "target_"),
    ),
    "exceeds-known-limit": Code(
        Severity.SERIOUS,
        "The value cannot be right: find out what answered (a cache, another unit, a wrong count).",
        says="{metric} {value:4} [at {each} each ]{how} {rate}, over the {limit} of {what}",
    ),
    "io-size-not-as-claimed": Code(
        Severity.WARNING,
        "Report the size that was really used, or find what splits, merges or buffers the I/O.",
        says={
            "": "stated as {stated} each, but [reads of {reads}][{joined}][writes of {writes}] by system calls[, "
            "requests of {requests} to {disk}]",
            "calls": "stated as {stated}, but {sizes}",
        },
    ),
    "errors-in-kernel-log": Code(
        Severity.SERIOUS,
        "Read the message: the kernel had an error during the trial.",
        says="the kernel logged {message} after {after:.1f}[ of trial {trial}][ and {more:#more message}]",
    ),
    "frequency-changed": Code(
        Severity.WARNING,
        "Fix the frequency (bw quiet governor turbo), or let the machine warm up first.",
        says={
            "": "busy CPUs ran at {frequency:.2f}",
            "between": "the mean frequency of busy CPUs was {low:.2f} in one trial and {high:.2f} in another",
        },
    ),
    "thermal": Code(
        Severity.WARNING,
        "Cool the machine, or run shorter trials with rests: the CPU slowed down because of heat.",
        says="slowed down by heat {times:#time}[, at up to {temperature:.0f} degrees C]",
    ),
    "network-errors": Code(
        Severity.WARNING,
        "Find what loses packets (a full queue, a bad link): they were lost or sent again.",
        says="[; {interfaces}][; {again:#segment} of {sent} sent again][; {connections:#connection} dropped by full "
        "listen queues][; {datagrams:#datagram} lost to full receive buffers][; {early:#packet} dropped before the "
        "network stack]",
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
        says={
            "start": "elapsed {elapsed}: starting a process takes about {start}, {share} of it",
            "hardly": "elapsed {elapsed}: hardly more than the start of a process takes",
            "coarse": "times are written in steps of {step}, and elapsed is {shortest} in a trial: user, system and "
            "what is computed of them are known no better",
            "grain": "{metric} has {values:#different value} in {trials} trials, in steps of {step}: the resolution "
            "of a clock",
            "split": "the kernel divides CPU time into user and system by its ticks of {step}, {share} of {metric}; "
            "elapsed and the sum of both are exact",
        },
    ),
    "work-removed": Code(
        Severity.WARNING,
        "Use the result of the work where the compiler cannot see that nobody does (print it, a "
        "volatile variable, the benchmark library's black box), and look at the machine code.",
        says="{metric} {value}: less than {cycles:#cycle} of a CPU's clock; the compiler may have removed the work",
    ),
    "not-watched": Code(
        Severity.NOTE,
        "What limited these trials is unknown. If they are shorter than half a second, repeat "
        "the command within a trial (sh -c 'COMMAND; COMMAND'); if --no-watch was given, run "
        "them without it.",
        says={"": "{what}", "trials": "not watched: " + IN_TRIALS},
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
        Severity.NOTE,
        "Nothing: an earlier run was killed, and its changes are now undone.",
        says="the changes of {who} were undone: {settings}< (log {log})>",
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
        says={
            "": "{trials:#trial} {trials:?was|were} profiled, {hertz} samples a second of each CPU",
            "answer": "of the profiled trials, trial {number} is {place}",
        },
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
        says="{lost} of the trial's calls were not counted: all counts of its I/O are too low",
    ),
    "remote-incomplete": Code(
        Severity.WARNING,
        "Fix what the hook `remote` reports about its server (docs/remote.md): these values of "
        "the server are missing.",
    ),
    "chill-incomplete": Code(
        Severity.WARNING,
        "Use another method (bw chill --method): some of the data were still in memory.",
        says="{after} of {pages} pages still in memory after {method}< (before: {before})><; they cannot be dropped: "
        "{only_in} has no other copy of its data><; pages locked in memory (mlock) by {locked_by}><; it stopped "
        "because {stopped}><; {unread} files could not be checked>",
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

_LARGEST = "the largest with {name} = {worst}: {value}"
_DEPENDS = {
    "number": "{what} depends on {name}: {factor:3} times ({low:3} to {high:3}) from {name} = {least:g} to "
    "{most:g}; " + _LARGEST,
    "text": "{what} depends on {name}: its {inputs} values differ by {spread} ({ends}); "
    + _LARGEST
    + "; of all inputs like these the mean is {mean_low} to {mean_high}, the interval of the trials is about "
    "these alone",
}
_CODES: dict[str, Code] = {
    "command-failed": Code(
        Severity.SERIOUS,
        "Read the command's output in the study's logs; failed trials are not in the results. If the "
        "status is expected (grep, diff), accept it: --ok-status 0,1.",
        says=_FAILED,
    ),
    "load-failed": Code(
        Severity.SERIOUS,
        "Read the load's output in the study's logs; failed trials are not in the results. If more operations may "
        "fail, accept it: --max-errors 5%.",
        says=_FAILED,
    ),
    "result-failed": Code(
        Severity.SERIOUS,
        "The tool that wrote the file states that it failed: correct the benchmark and run it again; failed "
        "trials are not in the results.",
        says=_FAILED,
    ),
    "status-accepted": Code(
        Severity.NOTE,
        "If trials ended with several statuses, check that all of them did the same work; "
        "if one of these statuses is a failure, leave it out of --ok-status.",
        says="{command} exited with status {statuses} of {runs:#run}< (accepted)>",
    ),
    "results-not-read": Code(
        Severity.WARNING,
        "Correct the named places, or let the tool write the file again: everything else in it was read.",
    ),
    "read-as-setting": Code(
        Severity.NOTE,
        "If a column is a result, let its heading be metric:NAME; its numbers look like those of a setting, "
        "whose levels are tests of their own.",
    ),
    "exact-value-differs": Code(
        Severity.WARNING,
        "The tool states the quantity as exact, so it has no noise: the difference is real, however small.",
    ),
    "estimate-of-failures": Code(
        Severity.NOTE,
        "Repair what fails, or accept its exit status (--ok-status): the tool has no values of the single "
        "runs that succeeded.",
        says="{names} left out: their estimates include {failed} failed of {runs:#run}",
    ),
    "hook-failed": Code(
        Severity.WARNING,
        "Fix the measurement hook (logs/*/hook-0.err): its values are missing from those trials.",
    ),
    "timeout": Code(
        Severity.SERIOUS,
        "Raise the time limit (--timeout; TIMEOUT in a suite), or find what the command waits for; the trial is "
        "not in the results.",
        says=_FAILED,
    ),
    "missing-metric": Code(
        Severity.SERIOUS,
        "Check the metric's pointer or pattern against the logged output; a missing value is not zero.",
        says={
            "": "{metric} is missing or not a number in " + IN_TRIALS + "[: {why}]",
            "rejected": "a value reported for {metric} was rejected[: {why}]",
        },
    ),
    "several-matches": Code(
        Severity.WARNING,
        "Extend the pattern by what stands beside the value that is meant (`total.*rate: (.*)`): the first match is "
        "taken, and programs print reports of periods, or a warm-up, before the result.",
    ),
    "too-few-trials": Code(
        Severity.SERIOUS,
        "Run at least 2 trials for an interval, and 20 for a reliable one.",
        says={
            "": "only {completed:#trial} {completed:?was|were} completed: there is no interval",
            "none": "no trial was completed: there is no interval",
            "selected": "only {completed:#trial} {completed:?was|were} selected< ({excluded} excluded)>: there is no "
            "interval",
            "none-selected": "no trial was selected< ({excluded} excluded)>: there is no interval",
            "load": "only 1 load was run: its figures are those of {operations:,.0f} operations, and the difference "
            "between loads is unknown",
        },
    ),
    "processes-left-running": Code(
        Severity.WARNING,
        "Make the command, or that of --cleanup (CLEANUP in a suite), wait for the processes that it starts: "
        "these ran during the measurement.",
        says="{processes:#process} {processes:?was|were} still running and {processes:?was|were} killed after "
        + IN_TRIALS,
    ),
    "processes-not-ended": Code(
        Severity.SERIOUS,
        "Make the command, or that of --cleanup (CLEANUP in a suite), stop what sudo and set-user-ID programs "
        "start, or run bw as root: "
        "it may not signal processes of another user.",
        says="{most:?1 process|up to # processes} of another user still ran after " + IN_TRIALS,
    ),
    "output-cost": Code(
        Severity.WARNING,
        "Use --output null if you do not need stdout, which is then written to /dev/null. stderr is "
        "stored with every setting: redirect it (2>/dev/null), or make the command write less.",
        says="a trial wrote {written} to {streams}: at the usual cost of {cost:g} ms for each MB about {elapsed} of "
        "its elapsed time, {system} of its system time",
    ),
    "dependent-trials": Code(
        Severity.WARNING,
        "Make trials independent: rest between them (--rest 500ms), or compare in randomised "
        "blocks (bw compare). --precision widens its interval by the dependence that it finds.",
        says={
            "": _CORRELATED + ": trials are not independent",
            "narrow": _CORRELATED
            + ": {trials} trials carry as much information as {effective:.0f} independent "
            "ones, and the interval is too narrow by a factor of about {narrow:.1f}",
        },
    ),
    "drift": Code(
        Severity.WARNING,
        "Find what grows or fills up. Compare only in randomised blocks (bw compare): "
        "drift does not bias them. Repeat a search on a quieter machine.",
        says={
            "": _DRIFT,
            "repeats": "runs of one level differ by when they ran: {change} over the ramp by a straight line, and by "
            "±{scatter} from run to run< (permutation test, {p})>",
            "control": "the control run at the end differs by {change} from the first run of its level; runs are "
            "within ±{scatter} of the fitted law< ({p})>",
        },
    ),
    "memory-leak": Code(
        Severity.WARNING,
        "Find what keeps the memory: use grows, or free memory shrinks, from trial to trial.",
        says=_DRIFT,
    ),
    "multimodal": Code(
        Severity.WARNING,
        "Find what switches (cache, placement, frequency, another process). Until then "
        "report the median (--of median) or both modes, not only the mean.",
        says="{metric} has two modes: {n_low} trials near {low:4} and {n_high} near {high:4}, with a gap of {gap:.1f} "
        "standard deviations between them: [no trial is in the mean's 95 % interval, {interval:4}]"
        "[the mean depends on how often the {rarer} one occurs< ({share})>]",
    ),
    "warm-up": Code(
        Severity.WARNING,
        "Leave warm-up trials out (--warmup 3; WARMUP in a suite), or report the result as that of a cold "
        "start; the table includes all trials.",
        says="{metric}: the first {removed} of {n} trials differ by {change} from the rest< (to trial {last}; MSER "
        "truncation; permutation test {p}); mean {mean:4} with them, {without:4} without>",
    ),
    "environment-changed-between-runs": Code(
        Severity.WARNING,
        "Runs before and after are not compared. To compare them, measure an old commit again in "
        "the new environment (bw compare). --ignore FACT if the change cannot matter.",
        says="{changes}<; since the run of {run}, after {after:#run}>",
    ),
    "constant": Code(
        Severity.NOTE,
        "Run more trials (59 equal ones exclude another value that 1 of 20 has), or use a finer clock or metric.",
        says="{metric} is {value} in all of {trials} trials: equal values have no interval, and what is rarer than "
        "{rarest} may not have been seen",
    ),
    "outliers": Code(
        Severity.NOTE,
        "Read the logs of those trials. The table includes them; they do not affect the median "
        "(--of median).",
        says={
            "": _OUTLIERS + ">",
            "first": _OUTLIERS
            + "; no later trial is like that, so it can be a warm-up, or chance>",
        },
    ),
    "nominal-confidence": Code(
        Severity.WARNING,
        "Use --precision where the interval matters: it counts its looks.",
        says="the stopping rule looked at the data {looks:?once|# times}, so 95 % is nominal: "
        "such intervals cover 94 % at a CV of 8 %, 86 % at 16 %, 64-67 % with trials correlated by 0.6",
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
        says="{baseline} was measured at another time< ({source})>",
    ),
    "gang-confounded": Code(
        Severity.WARNING,
        "Measure both on the same gang (the arms of one bw compare always are), or let every gang "
        "measure an anchor: hosts of one type differ by some per cent.",
    ),
    "difference-not-in-user-time": Code(
        Severity.NOTE,
        "Measure side by side (bw compare -- 'A' 'B'), or judge CPU time (--metric user): other processes "
        "lengthen elapsed time, but hardly the CPU time of a program.",
        says="elapsed differs by {elapsed}, CPU time by {cpu}: the difference may be time that others took; "
        "measure side by side< (bw compare -- 'A' 'B')>",
    ),
    "depends-on-input": Code(
        Severity.NOTE,
        "With --draw the mean is about all inputs that it can give; measure one of them alone for a figure "
        "about that one. The mean of a load is about the requests in its list: take more of them, drawn "
        "from those that your users send, for a narrower interval about such requests.",
        says={
            **_DEPENDS,
            "load": "the mean response depends on the request: the means of {inputs} requests differ by {spread} "
            "({ends}), the slowest are {slowest}; the load's mean, {mean}<, in a longer load {longer}>, is about these "
            "alone; of all requests like these it is {mean_low} to {mean_high}",
        },
    ),
    "ratio-depends-on-input": Code(
        Severity.NOTE,
        "The verdict is about the mean over all inputs that --draw can give: look at the inputs with "
        "the worst ratio.",
        says=_DEPENDS,
    ),
    "one-replicate": Code(
        Severity.WARNING,
        "Compare over that level (--replicate env=10, or build=5:COMMAND): the verdict is about "
        "one replicate of it (docs/replicates.md).",
        says="{candidate}: {metric} differs by {effect} within one {level}; two of them alone differ "
        "by up to {caused}< (the null comparison of {command})>",
    ),
    "biased-null": Code(
        Severity.SERIOUS,
        "Quiet the machine, or rest between trials (--rest), until a command does not "
        "differ from itself: the machine causes differences of this size.",
        says="the same command is {verdict} than itself: {metric} ratio {ratio:4}< ({low:4} to {high:4})>",
    ),
    "generator-late": Code(
        Severity.WARNING,
        "Give the generator its own CPU (--cpu, or cpus in [load] of a spec), "
        "more workers or a lower rate; response times include the generator's delay.",
        says={
            "": "[; the p99 of lateness is {p99}< ({limit} or less is fine)>, over {judged} operations that did not "
            "wait for the target][; an operation started {mean} after it was due, on average: its slot was empty for "
            "{empty} of the time< ({most} or less is fine)>][; "
            + part_of("skipped")
            + " were too late and were skipped][; "
            + part_of("held_late")
            + " found no slot, because operations before them were late and started together][; the trace reader fell "
            "behind {starved} times][; {hosts}]<; {waited} that waited for a slot are not included>"
            + UNKNOWN,
            "search": "the generator came late to its operations in {late} of {trials:#trial}, p99 up to {p99}< (limit "
            "{limit})><; meanwhile {beside}><; {void:#trial} exceeded a limit, perhaps only because of that, and "
            "decided nothing>",
            "tail": "from {tail} on, response times< ({response})> are mostly the generator's lateness< ({late})>",
        },
    ),
    "load-not-offered": Code(
        Severity.WARNING,
        "Do not compare it with a run at the intended rate: lower the rate, or allow more "
        "in flight (--depth, --connections) and more workers.",
        says="[; {offered} offered of {intended} intended< ({less} less)>][; "
        + part_of("dropped")
        + " found no free slot and were dropped][; "
        + part_of("waiting")
        + " never started][; {hosts}]"
        + UNKNOWN,
    ),
    "trial-void": Code(
        Severity.NOTE,
        "Nothing: void trials are stored but not counted, and `bw resume` runs them again.",
        says="interrupted, so void: " + IN_TRIALS,
    ),
    "generator-behind": Code(
        Severity.WARNING,
        "Give the generator more CPUs, connections or machines, or use another one: the "
        "trials count at the rate that was offered, and higher rates are unknown.",
        says="in {trials:#trial} less than {least} of the rate was offered; the worst offered {offered} of {rate}< "
        "({share:2})>",
    ),
}

_OF_THE_CORE: dict[str, Code] = merge_tables(MACHINE_CODES, _CODES)


@cache
def all_codes() -> Mapping[str, Code]:
    """Return every code, with those of the installed features."""
    return merge_tables(_OF_THE_CORE, *(feature.finding_codes() for feature in features()))


WHOLE_CODES = ("results-not-read", "settings-differ")
"""Codes of findings whose evidence is a list that is shown whole: nothing else shows what is
missing."""

LISTED_CODES = ("environment-changed-between-runs",)
"""Codes of findings whose evidence is what changed: it stands beside what changed of other tests."""

LIMITS_OF_FAILURES = ("memory-limit", "fd-limit", "pids-limit")
"""Limits at which a command fails, so one of them is the cause of a failure."""

_FORMER_MARKS = {"generator-bound": "generator-saturated"}
"""Marks of trials in journals of earlier versions, with their current codes. These marks differ
from findings of the same name."""


def make_finding(
    code: str, subject: str, evidence: str | FindingFigures, severity: Severity | None = None
) -> Finding:
    """Return a finding of a known code, with the table's severity unless one is given.

    `evidence`: the sentence, or the figures for the code's template.
    """
    known = _code(code)
    figures: FindingFigures | UnsetType = UNSET
    if isinstance(evidence, FindingFigures):
        figures, evidence = evidence, stated_text(code, evidence)
    return Finding(
        code, severity or known.severity, subject, evidence, known.remedy, figures=figures
    )


def in_trials(epochs: Sequence[int], total: int) -> dict[str, Value]:
    """Return the values of IN_TRIALS. A trial that was repeated is listed once."""
    return {
        "trials": trials_text(epochs),
        "some": len(epochs),
        "total": total,
        "attempts": " attempts" if len(set(epochs)) < len(epochs) else "",
    }


def code_or_none(code: str) -> Code | None:
    """Return what the table has of a code, None if it has none; the features are asked only for a code
    that the core does not have."""
    return _OF_THE_CORE.get(code) or all_codes().get(code)


def _code(code: str) -> Code:
    return _OF_THE_CORE.get(code) or all_codes()[code]


def stated_text(code: str, figures: FindingFigures) -> str:
    """Return the evidence of a finding of a known code with these figures."""
    template = _code(code).template(figures.form)
    assert template is not None, f"{code} has no template {figures.form!r}"
    return sentence(template, figures)


def template_of(finding: Finding) -> str | None:
    """Return the template of a finding's evidence; None if its evidence is only a sentence, or was
    made from another template."""
    code, figures = code_or_none(finding.code), finding.figures
    if code is None or figures is UNSET:
        return None
    template = code.template(figures.form)
    if template is None:
        return None
    try:
        return template if sentence(template, figures) == finding.evidence else None
    except KeyError:
        return None


def finding_of_mark(mark: str, subject: str, evidence: str | FindingFigures) -> Finding:
    """Return the finding of a trial's mark; a warning if the table does not contain the code."""
    code = current_code(_FORMER_MARKS.get(mark, mark))
    if code_or_none(code) is not None:
        return make_finding(code, subject, evidence)
    text = evidence if isinstance(evidence, str) else sentence(_MARKED, evidence)
    return Finding(code, Severity.WARNING, subject, text)
