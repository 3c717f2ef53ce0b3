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

import msgspec

from benchwright.core.results import Finding, Severity, current_code


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
        Severity.WARNING,
        "Add memory or make the working set smaller: tasks waited for memory.",
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
        Severity.NOTE,
        "The link was the limit. Use a faster link, or less data per operation.",
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
        Severity.SERIOUS,
        "Read the message: the kernel had an error during the trial.",
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
        Severity.NOTE,
        "Nothing: an earlier run was killed, and its changes are now undone.",
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
        Severity.NOTE,
        "Install perf (linux-perf), or allow it (kernel.perf_event_paranoid).",
    ),
    "profile-empty": Code(
        Severity.NOTE,
        "A profile shows only what runs. bw why shows what the program waited for.",
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
    "pool-host-excluded": Code(
        Severity.WARNING,
        "Repair the host, or leave it out: bw pool status prints why each attempt was void.",
    ),
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
        Severity.SERIOUS,
        "Run at least 2 trials for an interval, and 20 for a reliable one.",
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
    "outlier-run": Code(
        Severity.NOTE,
        "Read the findings of each such run (bw why STUDY). It counts for no level: one run alone is "
        "no change.",
    ),
    "level-excursion": Code(
        Severity.NOTE,
        "Read the findings of these runs (bw why STUDY): a burst, or a bad day of the machine. They count for no "
        "level.",
    ),
    "level-drifts": Code(
        Severity.NOTE,
        "Find what grows or ages: data, logs, a disk that fills, a machine that warms up. No single commit made "
        "this change.",
    ),
    "several-levels": Code(
        Severity.NOTE,
        "Find what switches between runs (a machine of a pool, placement, a cache). More trials do not make a "
        "run more certain; the newest run is compared with both levels together.",
    ),
    "spread-changed": Code(
        Severity.NOTE,
        "Find what made the runs vary more or less at that time (machine, load beside, length of the test). "
        "A step is judged by the noise around it.",
    ),
    "steps-and-looks-differ": Code(
        Severity.NOTE,
        "Each is wrong in at most 5 % of steady series, and a look knows only the runs before it. Measure further "
        "runs, or both commits side by side (bw history confirm).",
    ),
    "level-wanders": Code(
        Severity.WARNING,
        "Find what drifts on the machine. The steps are the largest moves and have no P-value: "
        "confirm them side by side (bw compare of the commits).",
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
        Severity.WARNING,
        "Use --precision where the interval matters: it counts its looks.",
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
    "host-lost": Code(
        Severity.SERIOUS,
        "Do not use the result: it is that of the other hosts, up to the moment at which the host was "
        "lost. Find why it was lost, and repeat the load.",
    ),
    "host-differs": Code(
        Severity.WARNING,
        "Find why: another path to the server, or a host that is slow or busy itself. Percentiles of "
        "all hosts together mix two distributions.",
    ),
    "clock-uncertain": Code(
        Severity.NOTE,
        "Response times are not affected: both stamps are of one host. For arrivals of several hosts "
        "in exact order, use hosts on one network (packets on UDP ports must pass), or a lower rate.",
    ),
    "hosts-skewed": Code(
        Severity.WARNING,
        "Synchronise the clocks of the hosts (chrony), or run shorter: their arrivals move against "
        "each other. Response times are not affected.",
    ),
    "load-not-offered": Code(
        Severity.WARNING,
        "Do not compare it with a run at the intended rate: lower the rate, or allow more "
        "in flight (--depth, --connections) and more workers.",
    ),
    "target-saturated": Code(
        Severity.WARNING,
        "Lower the rate, or raise --depth if the target can do more at once: while a backlog "
        "grows, response times depend on the length of the run.",
    ),
    "operations-failed": Code(
        Severity.WARNING,
        "Find out why. Failed operations are counted, but not in response times.",
    ),
    "mix-differs": Code(
        Severity.SERIOUS,
        "Do not use the result: it is of another workload than its tables describe. If it is so "
        "in every run, report it as an error of bw; by chance it happens in 1 of 100 runs.",
    ),
    "objects-missing": Code(
        Severity.WARNING,
        "Give the file set more files, or more names that do not exist at the start (spare in "
        "[files]): such operations fail or do less than they should.",
    ),
    "server-restarted": Code(
        Severity.WARNING,
        "Find why the server was restarted. Writes that were not committed may be lost, and response "
        "times include the restart.",
    ),
    "backlog-limit": Code(
        Severity.SERIOUS,
        "Lower the rate, allow more in flight (--depth, --connections), or drop operations that "
        "find no free slot (--full drop).",
    ),
    "certificate-not-verified": Code(
        Severity.NOTE,
        "Name the authority of the server's certificate (--ca), so that the figures are certainly "
        "those of this server.",
    ),
    "unrequested-answers": Code(
        Severity.WARNING,
        "Find why the server answers twice, or late: such an answer may be "
        "taken for that of the next request.",
    ),
    "undelivered-datagrams": Code(
        Severity.SERIOUS,
        "Start the server, or correct its address: the network refused datagrams that count as sent. "
        "Networks report only some of them.",
    ),
    "stray-completions": Code(
        Severity.SERIOUS,
        "Do not use the result, and report it as an error of bw: an end was taken for that of another "
        "operation, or reported twice.",
    ),
    "undeliverable-messages": Code(
        Severity.WARNING,
        "Correct the receiver: a filament sends messages to a number that no filament of the workload has, "
        "so operations that should follow never start.",
    ),
    "little-law": Code(
        Severity.WARNING,
        "Do not compute one of the figures from the other two. Usually operations never ended: raise --drain. "
        "If none was unfinished, report it as an error of bw.",
    ),
    "operations-unfinished": Code(
        Severity.WARNING,
        "Raise --drain: unfinished operations are not in the response times, and were the slowest.",
    ),
    "few-samples-for-percentile": Code(
        Severity.NOTE,
        "Run longer, or report a lower percentile.",
    ),
    "clock-unsound": Code(
        Severity.WARNING,
        "Use --clock monotonic; times of a few microseconds are unreliable.",
    ),
    "clock-slow": Code(
        Severity.NOTE,
        "Nothing: the kernel's clock is correct, but reading it takes a little longer.",
    ),
    "memory-not-locked": Code(
        Severity.NOTE,
        "Raise the limit (ulimit -l unlimited): a page fault can delay an operation.",
    ),
    "closed-loop": Code(
        Severity.NOTE,
        "Use --rate to measure what users of an open system would see.",
    ),
    "load-interrupted": Code(
        Severity.WARNING,
        "The results cover only that part.",
    ),
    "samples-lost": Code(
        Severity.WARNING,
        "Write samples to a faster disk than the target, with space for 48 bytes per operation; "
        "the results include all operations.",
    ),
    "trace-lines-skipped": Code(
        Severity.WARNING,
        "Fix the trace, or report with the result what is missing from it.",
    ),
    "trial-void": Code(
        Severity.NOTE,
        "Nothing: void trials are stored but not counted, and `bw resume` runs them again.",
    ),
    "trace-empty": Code(
        Severity.SERIOUS,
        "Select a part that exists in the trace (--from, --for, --devices): bw trace stat shows "
        "its length.",
    ),
    "trace-clipped": Code(
        Severity.WARNING,
        "Use a larger target, or wrap the addresses (--offsets wrap).",
    ),
    "trace-stamps-coarse": Code(
        Severity.NOTE,
        "Use only time scales above the clock's step; --duplicates spread spaces them evenly.",
    ),
    "trace-requests-skipped": Code(
        Severity.WARNING,
        "--unsafe-methods replays those that may change data; report with the result which were "
        "skipped.",
    ),
    "trace-requests-unsendable": Code(
        Severity.NOTE,
        "Nothing: such records (data: and blob: URLs, WebSockets, CONNECT, lines that are no request) are no "
        "HTTP requests to a server, and no option replays them.",
    ),
    "trace-requests-changed": Code(
        Severity.NOTE,
        "--credentials sends recorded credentials; HAR and JSON lines have bodies, access logs none. Base64 keeps the bytes of a body.",
    ),
    "trace-ends-missing": Code(
        Severity.NOTE,
        "Nothing, if there are few: they were in progress when the trace ended.",
    ),
    "capture-events-lost": Code(
        Severity.WARNING,
        "Capture again with a larger --buffer: the trace has gaps.",
    ),
    "capture-lines-unread": Code(
        Severity.WARNING,
        "Report the kernel version as a bug: what those lines contain is missing from the trace.",
    ),
    "capture-new-devices": Code(
        Severity.WARNING,
        "Attach devices before the capture starts: the trace does not include those operations.",
    ),
    "capture-empty": Code(
        Severity.NOTE,
        "Capture the device instead of the command, to include what the page cache writes later.",
    ),
    "trace-unmatched": Code(
        Severity.WARNING,
        "If B replayed a part of A, select it (--from, --for: of A). Check that A is read with "
        "the policies of the replay (--offsets, --target-size, --align, --duplicates), and raise "
        "--window; arrival errors do not include unmatched operations.",
    ),
    "trace-alignment-estimated": Code(
        Severity.NOTE,
        "Give --speed, and --shift if you know it, to get an absolute error.",
    ),
    "server-and-generator-share-cores": Code(
        Severity.WARNING,
        "Use a machine with two or more CPUs, or another machine for the generator: here both "
        "use the same CPUs, and the peak rate is lower than the server's own.",
    ),
    "server-did-not-recover": Code(
        Severity.WARNING,
        "Read the server's log: after this load it did not answer in time, and the next trial "
        "started a new server. Raise ready_timeout if it only needs more time.",
    ),
    "generator-behind": Code(
        Severity.WARNING,
        "Give the generator more CPUs, connections or machines, or use another one: the "
        "trials count at the rate that was offered, and higher rates are unknown.",
    ),
    "probe-failed": Code(
        Severity.WARNING,
        "Read the output of the server and the generator in that trial: the trial was repeated, "
        "and counts only in the cost.",
    ),
    "failure-counted-as-overload": Code(
        Severity.WARNING,
        "Find why the server or the generator fails at this rate; the search treats the rate "
        "as more than the server can do.",
    ),
    "responses-not-normal": Code(
        Severity.NOTE,
        "Look at `bw plot --mode normal`; make trials longer, or use a policy that does not assume "
        "normal responses (monotone): Student's intervals of these loads are approximate.",
    ),
    "search-undecided": Code(
        Severity.SERIOUS,
        "Give the search more time or trials (--budget, --max-trials), or claim less (region:20%): it "
        "ended before its claim held.",
    ),
    "surface-sample-failed": Code(
        Severity.WARNING,
        "Fix the server at that sample and run `bw resume`; the model does not include the sample.",
    ),
    "surface-deadline": Code(
        Severity.WARNING,
        "Give a longer deadline, or run `bw resume`: it searches the missing samples for as long again.",
    ),
    "surface-bound-only": Code(
        Severity.WARNING,
        "Change the lowest or highest rate; a bound is not a peak and is not in any model.",
    ),
    "surface-bound-excluded": Code(
        Severity.SERIOUS,
        "Do not use the map near these samples: it is not fitted to bounds. Change the lowest or "
        "highest rate, or give each search more time, so that they find their peaks.",
    ),
    "surface-claim-missed": Code(
        Severity.WARNING,
        "Give each search more time (budget, max_trials), or claim less. A Gaussian process counts such a sample by the "
        "width of its interval; a polynomial leaves it out.",
    ),
    "surface-few-samples": Code(
        Severity.NOTE,
        "Search more samples, two for each level that is not a number; or make sure that "
        "nothing jumps between the levels.",
    ),
    "surface-no-model": Code(
        Severity.SERIOUS,
        "Search more samples, or fix those that failed; there is no prediction.",
    ),
    "surface-model-reduced": Code(
        Severity.WARNING,
        "Search more samples, or use a lower degree.",
    ),
    "surface-fit-unjudged": Code(
        Severity.WARNING,
        "Search more samples than the polynomial has terms: two more show an error.",
    ),
    "surface-lack-of-fit": Code(
        Severity.WARNING,
        'Use a Gaussian process (model = "gaussian-process"): the surface is not a '
        "polynomial, and more samples will not change that; the bands include the misfit.",
    ),
    "gangs-differ": Code(
        Severity.NOTE,
        "Use hosts of one type, and run `bw env` on them to see what differs. The map is that of the "
        "mean gang: the differences are removed from the peaks.",
    ),
    "surface-noise-assumed": Code(
        Severity.NOTE,
        "Use a policy that gives an interval for its peak.",
    ),
    "closed-loop-generator": Code(
        Severity.WARNING,
        "Use a generator with a schedule (engine, pgbench, wrk2, vegeta, oha): this one waits "
        "for its answers, so it reduces the load on an overloaded server.",
    ),
    "hides-lateness": Code(
        Severity.WARNING,
        "Use a generator that measures response time from the intended start (engine, pgbench, "
        "wrk2, vegeta, oha), or give this one more slots (depth, vus): the results do not "
        "include the time spent waiting for one.",
    ),
    "generator-saturated": Code(
        Severity.WARNING,
        "Give the generator more CPUs or threads: it used nearly all of its CPU time, "
        "so the limit may be its own and not the server's.",
    ),
    "rate-rounded": Code(
        Severity.NOTE,
        "Use fewer connections, or a generator that takes any rate: this one takes whole "
        "numbers for each of its parts.",
    ),
    "operations-skipped": Code(
        Severity.WARNING,
        "Give the generator more slots (vus, clients), or treat it as overload: operations "
        "that were due were not sent; they count as slower than all others.",
    ),
    "errors-in-response": Code(
        Severity.WARNING,
        "Use a generator that separates errors (engine, vegeta, k6): the mean and the "
        "percentiles of this one mix successes and errors, and an error is often fast.",
    ),
    "backlog-not-counted": Code(
        Severity.WARNING,
        "Treat it as overload, and use a generator that counts every arrival (engine, "
        "vegeta): requests that were due but unfinished at the end are not included.",
    ),
    "offered-differs": Code(
        Severity.WARNING,
        "Check how the generator is called ({rate} is per second, of all its connections together) and what its "
        "figures count: the server got another load than the one asked for.",
    ),
    "operations-missing": Code(
        Severity.WARNING,
        "Let the generator report what it sent and what failed (--offered and --errors, or counts of [load]). Then "
        "a server that refuses can be told from a generator that is too slow.",
    ),
    "counts-contradict": Code(
        Severity.SERIOUS,
        "Check which operations each figure of the generator counts, and the pointers to them: one of them is not "
        "what it was taken for.",
    ),
    "lateness-unknown": Code(
        Severity.NOTE,
        "Let the generator report its lateness (--late, or late of [load]), or use one that does (engine, pgbench, "
        "vegeta). Give it CPUs of its own.",
    ),
    "refusals-unseen": Code(
        Severity.NOTE,
        "Let the generator report the share of operations that failed (--errors, or error_ratio in values of "
        "[load]), and limit it: --limit 'errors < 1%'.",
    ),
    "ramp-not-saturated": Code(
        Severity.WARNING,
        "Raise the highest level: the maximum of the server was not reached.",
    ),
    "throughput-falls": Code(
        Severity.WARNING,
        "Keep the load below that level (a limit on connections, a queue in front): above "
        "it the server does less, not more.",
    ),
    "superlinear": Code(
        Severity.WARNING,
        "Find what slows down the first levels (cold caches, no batching, sleeping CPUs); no "
        "scalability law describes this.",
    ),
    "usl-misfit": Code(
        Severity.WARNING,
        "Trust the measured points, not the fitted curve: look for a hard limit (a pool, a "
        "quota, a second bottleneck), and use smaller steps near it.",
    ),
    "usl-extrapolated": Code(
        Severity.WARNING,
        "Measure up to that load, or do not rely on it: the data cover only one side of it.",
    ),
    "kappa-not-identified": Code(
        Severity.NOTE,
        "Measure higher levels, or more often (--repeats), to learn whether throughput falls.",
    ),
    "throughput-noise-unknown": Code(
        Severity.WARNING,
        "Use --repeats 3, or give a series: without them the error of a value is unknown.",
    ),
    "single-runs": Code(
        Severity.WARNING,
        "Use --repeats 3: runs also differ from each other (placement, caches, neighbours).",
    ),
    "answer-rough": Code(
        Severity.SERIOUS,
        "Do not use the rate as the server's peak: give the search more time (--budget), a first rate "
        "near the peak (--start) or a wider claim.",
    ),
    "check-contradicts": Code(
        Severity.SERIOUS,
        "Trials just below and above the answer did not agree with it: the server or the machine changes "
        "from trial to trial. Repeat the search on a quieter machine, or claim less (--claim rate:10%).",
    ),
    "warm-up-not-over": Code(
        Severity.SERIOUS,
        "Give the search a larger budget or none, so that trials become longer (with --run-length they are "
        'not tested for this), or let one server run for all trials (restart = "sample" in a spec).',
    ),
    "sheds-load": Code(
        Severity.WARNING,
        "Keep the limit on errors: the server refuses excess requests, so its response time does "
        "not show its load; the peak is where it starts to refuse.",
    ),
    "throughput-drops-under-overload": Code(
        Severity.WARNING,
        "Keep the load below the peak (a limit on connections, a queue in front): under overload "
        "the server does less than it can.",
    ),
    "response-not-monotonic": Code(
        Severity.WARNING,
        "Find what gets faster under more load (batching, caching, frequency); its limit may "
        "be exceeded in several ranges of rates.",
    ),
    "response-jumps": Code(
        Severity.WARNING,
        "Look for what changes at this rate (a cache, a pool, a limit on connections), and "
        "claim the rate (rate:5%): no rate has a response near the limit.",
    ),
    "answer-against-curve": Code(
        Severity.WARNING,
        "Look at the trials near that rate: one of them differs from the others (a cold start, "
        "another program), or the response falls with the rate. Repeat the search.",
    ),
    "rate-not-decided": Code(
        Severity.WARNING,
        "Use longer trials (--run-length), claim less (region:20%), or find what differs between "
        "trials (bw why): the limit lies within the differences between trials at one rate.",
    ),
    "server-stalls": Code(
        Severity.WARNING,
        "Find what pauses the server (garbage collection, compaction, checkpoints). Limit "
        "a high percentile too: the mean hides pauses.",
    ),
    "short-runs-contradict": Code(
        Severity.NOTE,
        "Find what makes short trials differ (checkpoints, garbage collection, rare slow requests). "
        "Trials shorter than its period show too little or too much of it.",
    ),
}

CODES: dict[str, Code] = merge_tables(MACHINE_CODES, _CODES)

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
    known = CODES[code]
    return Finding(code, severity or known.severity, subject, evidence, known.remedy)


def finding_of_mark(mark: str, subject: str, evidence: str) -> Finding:
    """Return the finding of a trial's mark; a warning if the table does not contain the code."""
    code = current_code(_FORMER_MARKS.get(mark, mark))
    if code in CODES:
        return make_finding(code, subject, evidence)
    return Finding(code, Severity.WARNING, subject, evidence)
