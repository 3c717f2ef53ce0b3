"""The thresholds of all findings in one place, each with its reason.

Decision: thresholds for the machine are fixed numbers, not levels of significance: a window is
one observation of the machine, and a relevant limit is far from a light load. They leave a
margin on both sides: a resource near its threshold is reported neither as free nor as the limit.
Thresholds for the values of a test are levels of significance, because values are many and random.
"""

from __future__ import annotations

# -- the window --------------------------------------------------------------------------

FEWEST_SAMPLES = 3
"""With fewer samples in a window, shares are means over more than the trial."""
SHORTEST_S = 0.25
"""CPU time is counted in ticks of 10 ms: in a shorter window a tick is more than 4 % [s]."""
MAJORITY = 0.5
"""Share of the watched time in which a limit must show to be a test's limit."""

# -- CPUs --------------------------------------------------------------------------

WHOLE_CPU = 0.90
"""A thread with this share of the window on a CPU did hardly anything else."""
WHOLE_WHILE_SEEN = 0.95
"""The same, as a share of the thread's lifetime, without the trial's start and end,"""
SEEN_MOST = 0.70
"""... if it also had this share of the whole window."""
READY_RAN = 0.85
"""A thread that is always ready and runs for this share of its lifetime is limited by itself, not
by others."""
NEVER_RESTS_RAN = 0.60
"""A load generator that always wants to run never waits for what it drives; it may share the
CPUs with that, so this share of its lifetime on a CPU is enough."""
ALL_CPUS = 0.90
"""Mean use from which on all CPUs count as busy: a run that starts and ends with one thread
reaches it, and half-loaded machines are far below."""
IDLE_CORES = 0.5
"""Idle CPU time that is enough for a further thread [cores]."""
ONE_AT_A_TIME = (0.90, 1.08)
"""CPU time of a process tree whose processes run one after the other: range [cores]."""
RUNNABLE_ALONE = 1.35
"""Mean number of runnable tasks if one process runs at a time and others run occasionally."""
TURNS = 0.85
"""Share of the samples in which exactly one thread ran or was ready, where threads take turns: more
run at once for a moment when a lock changes hands. Two threads that each work half of the time
have half of them, more threads fewer."""
TURNS_SAMPLES = 6
"""So few samples of two such threads have that share by chance in 2 % (of 8: in 4 %)."""
SHORT_LIVED = 0.5
"""A task observed for less than this share of the window started or ended within it."""
OTHERS_COST = 0.05
"""Share of the elapsed time that others, or the hypervisor, cost: more than the daemons of a quiet
machine use (1 to 3 % of a CPU)."""
MEASURED = 0.9
"""Share of a window that the stated elapsed times are, from which on it is about them: pauses of up
to a tenth lie between short trials that share a window."""
GROUP_CORES = 0.5
"""CPU time of others from which on their part of the run queue may exceed their CPU time [cores].
"""
NAMED_CORES = 0.02
"""Others that used less are not named [cores]."""
DELAYING_CORES = 0.1
"""Others that used less are not named as those that delayed a generator [cores]."""
WAITED = 0.15
"""Mean share of their lifetimes that threads waited for a CPU, if more than one wanted it at a
time."""
WANTED = 0.50
"""Share of a fair share of the CPUs: short-lived processes that had less did not want more."""
CONFINED = 0.25
"""The waiting, as in WAITED, while CPUs are idle, which a scheduler normally prevents."""
QUEUED = 1.1
"""Runnable tasks per CPU, if the waiting of the tasks is unknown."""
TRIAL_SHARE = 0.70
"""Share of the used CPU time: with less, the trial does not fill the CPUs."""
STEAL_WANTED = 0.10
"""CPU time that a trial must use for CPU steal to affect it [cores]."""
STEAL_CORES = 0.05
"""Least CPU steal [cores]: on an idle machine a share means nothing."""
STEAL_DOUBT = 0.03
"""Share of CPU steal that changes figures by more than a good interval's width,"""
STEAL_DOUBT_CORES = 0.02
"""... and the least CPU steal, of a trial that wants most of a CPU [cores]."""
DRIVEN_CORES = 0.05
"""Least CPU time of a server that a generator drives: an idle one uses a thousandth [cores]."""
DRIVEN_PACKETS_PER_S = 1000.0
"""Packets of a generator for each CPU that it uses, if its server is not observed: a request is two
packets and takes 10 to 500 us; a remote shell sends a hundred [1/s]."""
ONE_PROCESS = 1.10
"""A server process with more has several threads, none of which need use a whole CPU [cores]."""
FEW_THREADS = 2
"""A program with more whole threads than this is not single-threaded,"""
THREADS_SHARE = 0.25
"""... nor is one whose whole threads have less than this share of its CPU time."""
ALL_WHOLE = 0.90
"""Share of a side's CPU time from which on its whole threads do nearly all work."""
QUOTA_PERIODS = 0.25
"""Share of the quota's periods that ended with its tasks stopped,"""
QUOTA_STOPPED = 0.05
"""... and the time for which they were stopped, as a share of the window: short bursts over a
quota cost less."""

# -- waits -------------------------------------------------------------------------------

WAITS_MOST = 0.50
"""Share of the time in which the trial was not ready to run: what it waited for longer explains
more of the elapsed time than all else."""
WAITS_SOME = 0.10
"""Share of the window from which on waiting belongs to the explanation of a result without a limit.
"""

# -- memory ------------------------------------------------------------------------------

MEMORY_FULL = 0.95
"""Share of a cgroup's memory limit. A page cache fills any limit, so one of these must hold too."""
REFAULTS_PER_S = 100.0
"""Pages read again soon after they were evicted, each a wait for a disk [1/s]."""
PRESSURE = 0.10
"""Share of the window in which some task waited for memory (PSI)."""
SWAP_BYTES_PER_S = 1 << 20
"""Bytes to and from swap space: 256 pages a second, each some tens of microseconds or more [1/s].
"""
OWN_FAULTS_PER_S = 32.0
"""Pages that the trial had to wait for: swap space is read in groups of eight pages, so this is 1
MiB/s, as for SWAP_BYTES_PER_S [1/s],"""
OWN_FAULTS = 0.10
"""... and the share of the machine's faults that the trial must have if others swap at the same
time."""
MEMORY_LOW = 0.05
"""Share of the machine's memory: with less available, a task that the kernel kills concerns
everybody."""
DIRECT_SCANS_PER_S = 1000.0
"""Pages that tasks scanned themselves for free memory, if PSI is not reported [1/s]."""

# -- disks -------------------------------------------------------------------------------

ACTIVE = 0.50
"""Share of the window in which a disk was used at all: rates and busy shares refer to that part,
because a benchmark's start and end have no I/O; a disk used less than this is no limit."""
DISK_BUSY = 0.95
"""Share of the window with a request in flight; there must be a queue too, because a parallel
device can be busy and still accept more."""
DISK_QUEUE = 1.7
"""Mean requests in flight or waiting: from here on there was more than one at a time."""
DISK_BUSY_ALONE = 0.90
"""The same at depth one, where the benchmark itself causes the time between two requests,"""
IO_WAIT = 0.60
"""... and the share of the time that its tasks waited for I/O (PSI, or iowait in cores)."""
IO_WAIT_LEAST = 0.10
"""The same with a queue; write-back can keep a device busy while no task waits."""
OWN_IO = 0.05
"""Share of a disk's bytes that must be the trial's own for it to be its limit."""
IO_LIMIT = 0.90
"""Share of a cgroup's limit on I/O; token buckets give no more than the limit."""
IO_LIMIT_WAITING = 0.70
"""The same while tasks waited for I/O half of the time."""
IO_LIMIT_PRESSURE = 0.50
IO_LIMIT_ABOVE = 1.25
"""Above this share, the limit does not apply to the I/O (write-back has no owner)."""
STALL_S = 0.5
"""Time with requests in flight and none completed: no disk is this slow [s]."""
STALL_SHARE = 0.10
"""... and the same as a share of the window."""

# -- network, files, processes -----------------------------------------------------------

LINK = 0.92
"""Share of a link's speed with the overhead of frames; batching hides part of the overhead."""
FRAME_BYTES = 24
"""Preamble, checksum and gap of an Ethernet frame, which interfaces do not count [bytes]."""
FILES_FULL = 0.95
PIDS_FULL = 0.98
"""Share of a limit on open files or processes: sampling misses the very top."""

# -- doubtful figures ------------------------------------------------------------------------------

CACHED_BYTES = 64 << 20
"""Least amount read or written for which a cache matters [bytes]."""
FROM_DEVICE = 0.25
"""Share of it that devices moved: with less, memory answered."""
FREQUENCY_BETWEEN = 0.03
"""Relative difference of mean frequencies between trials: times differ by as much."""
FREQUENCY_WITHIN = 0.20
"""Relative change within a trial; turbo modes always change by a tenth."""
LOST_PACKETS = 0.001
"""Share of packets dropped or sent again; one in a thousand halves a TCP stream's rate on a long
link."""
LOST_FEWEST = 10
EXCEEDS = 1.05
"""Ratio to a known limit that rounding and mixed units (1000, 1024) cannot explain."""
EXCEEDS_RELATED = 0.25
"""Share of a figure that a link must have carried to be its limit."""
EXCEEDS_WAY = 0.10
"""Share of the busier direction: with more, the other direction carries more than
acknowledgements."""
EXCEEDS_PATH = 0.05
"""Share of the bytes of all links: a link with more may have carried a part of the figure."""
IO_SIZE_FACTOR = 1.5
"""Ratio of the mean size of I/O and the stated size, either way."""
IO_SIZE_CALLS = 100
START_SHARE = 0.05
"""Share of a trial that its start may take: 1 ms of 20 ms."""
START_S = 0.001
"""Starting a process: execve to exit of /bin/true takes 0.5 to 1.5 ms [s]."""
LEAST_WORK_CYCLES = 2
"""Cycles of the clock: an operation that takes less is a loop whose work the compiler removed, or a
single instruction; an addition whose result is kept, in a loop, takes one cycle or more."""
LEAST_WORK_S = LEAST_WORK_CYCLES / 5e9
"""Their time at 5 GHz [s]."""
GRAIN = 0.05
"""Step of the values as a share of their size: from here on the clock's resolution matters."""
LONGEST_TICK_S = 0.02
"""Longest tick of a clock of a system: 1/64 s of Windows, 1/60 s, 1/100 s of USER_HZ [s]."""
WHOLE_STEPS = 0.01
"""Largest distance from a whole number of steps: values and rates are written rounded."""
GRAIN_FEWEST = 5
"""Fewest values in which a clock's resolution can be recognised."""

# -- output ------------------------------------------------------------------------------

OUTPUT_NS_PER_BYTE = 0.65
"""System time per byte to a file in memory, beyond that of /dev/null (docs/output.md) [ns]."""
OUTPUT_OF_ELAPSED = 0.02
"""Share of elapsed time; a precision of 2 % is often requested, so less is not noticed."""
OUTPUT_OF_SYSTEM = 0.10
"""Share of system time from which on the cost of output changes conclusions."""

# -- loads and traces -----

SAME_STAMP = 0.5
"""Share of arrivals with the same timestamp as the previous one, from which on the clock was too
coarse to separate bursts."""
UNMATCHED = 0.001
"""One operation in a thousand: above this the pairs may not represent the operations that count."""
LATE_SHARE = 0.1
"""Of the service time: a p99 of lateness below a tenth of what an operation takes changes no result
by more than runs differ."""
LATE_NS = 20_000
"""The paper's engine kept 10 to 100 us; below 20 us the machine's own interrupts dominate [ns]."""
TAIL_SHARE = 0.5
"""Share of a percentile of the response times: from here on the generator causes most of it."""
SKEW_OF_GAP = 0.1
"""Of the mean gap between arrivals: a host that is less late changes the arrivals of all hosts
together by less than their own jitter."""
HOST_DIFFERS_LEVEL = 0.01
"""Level of the rank test on whether a host differs from the others; divided among figures and
hosts."""
HOST_DIFFERS = 0.1
"""Of the others' figure: smaller differences between hosts do not matter, however certain they are.
"""
LEVEL_UNSTEADY = 0.01
"""Level of the test on whether the response times of a load stayed at one level."""
UNSTEADY = 1.25
"""Ratio of levels of the median response within a load: less does not change what it shows,"""
UNSTEADY_NS = 250_000
"""... and neither does a difference in which the waits for a CPU of a busy machine are [ns]."""
NOT_OFFERED = 0.01
"""A rate within 1 % is what a report rounds to."""
DROPPED = 0.001
"""One operation in a thousand: above this, p99.9 does not describe the operations that arrived."""
SKIPPED = 0.001
"""As for dropped operations."""
FAILED_SERIOUS = 0.01
"""Share of operations: one failure in a hundred moves a p99."""
HELD = 0.1
"""A tenth of the operations waited for a slot: more than the bursts of Poisson arrivals cause."""
HELD_LATE = 0.01
"""Share of operations, one in a hundred: from here on pauses of the generator show in a p99."""
HELD_LATE_MOSTLY = 0.5
"""Share of the operations without a slot: if the generator came late to most of them, a backlog is
its own."""
WAITED_TIMES = 3
"""Response time over service time: from here on most of an operation's time is waiting."""
FEW_BEYOND = 10
"""Operations beyond a percentile: with this number its share is known within about a third."""
EMPTY_SHARE = 0.1
"""A closed loop with a tenth of its slots empty is one with a tenth fewer users: from here on more
than runs differ."""
EMPTY_SERIOUS = 0.5
"""One thread that submits operation after operation, and does nothing else, leaves a slot empty for
at most half of the time: in the other half those before it wait for those behind it. More is a
generator that paused, and most of the cycle is its own."""
EDGES = 0.1
"""Operations in flight at an edge of the measured part, of those that ended in it: a loop of which
all operations end together has a rate that is wrong by up to this share."""
EDGES_MANY = 0.5
"""The same of a run of two responses: its rate is not known."""
START_NS = 100_000_000
"""Shorter runs consist mostly of their start: threads that wake, cold caches, one time slice of
another program [ns]."""
LITTLE = 0.005
"""Of the mean number in flight: the same operations give both figures, which then agree to the last
digits; half a percent is less than any conclusion from a load depends on."""
SHARED_EVENTS = 0.1
"""Share of the events of streams that were read with the one before: with a tenth of them a p90 of the
gaps is of others than the server wrote."""
READ_LATE = 0.1
"""Of the median gap, or of the first event without gaps: as lateness of an issue, a tenth changes no
result by more than runs differ."""
ROLE_ONLY = 0.05
"""Of the median of the first event: by so much less it would be, if an event without content counted;
more than servers are compared by."""
CACHED = 0.1
"""Share of the tokens of prompts: a server that has a tenth of them in its cache needs a tenth less
for its first event, where prompts are long."""
SHORT_OUTPUTS = 0.1
"""Of the mean of the most tokens that were asked for: a tenth fewer tokens are nearly a tenth more of
the rate that a server holds."""
OTHER_PROMPTS = 0.1
"""Of the mean length of the prompts of a trace: as much as SHORT_OUTPUTS, for the same reason."""
CLOCK_DRIFT_PPM = 100
"""A quartz is better than 100 ppm; a TSC that is further off is not steady."""

# -- the values of a test: one level of 5 % is divided among the questions (series.py) -----

FEWEST_TRIALS = 10
"""With fewer trials nothing is reported about their values: findings at these levels are unlikely.
"""
LEVEL_OUTLIERS = 0.02
"""Largest of the levels: one value at 8 MAD in 30 trials is the hardest to detect."""
MOVED_MEAN = 0.5
"""Share of its interval's half width by which outliers move a mean that depends on them: one does
at most by 0.49."""
LEVEL_WARM_UP = 0.006
LEVEL_WARM_UP_ORDER = 0.01
"""Level of the permutation test that confirms a warm-up, also where a few trials are slow: 3 of 10,
2 of 20 or 1 of 200 exceptional trials reach it if all of them are first."""
LEVEL_MODES = 0.004
LEVEL_DEPENDENT = 0.011
LEVEL_DRIFT = 0.009
LEVEL_DRIFT_OF_OTHERS = 0.004
"""Level for metrics that are examined only for a drift or a leak."""
SUSPECTED_DEPENDENCE = 0.05
"""Dependence at this level widens the tests of warm-up and drift: a slow wave looks like either,
and caution costs little."""
RELEVANT_CHANGE = 0.005
"""Share of the mean that leaving out a warm-up changes, or of the median that a drift changes
without `--drift`. A smaller change is real, but too small to act on, so it is not reported. The
warm-up is left out of the other questions nevertheless."""
STRONG_DEPENDENCE = 0.5
"""Correlation of neighbouring trials from which on dependence is serious."""
TOO_NARROW = 1.1
"""Factor of an interval from which on it is reported as too narrow."""
STEP_MARGIN = 4.0
"""Margin, in variances, by which a step must fit better than a straight line to be a warm-up and
not a drift: with it the two errors are about equally rare."""

# -- characterized I/O -----

SIZE_AS_STATED = 0.5
"""Share of calls of the stated size, below which the I/O is not as stated."""
FEW_CALLS = 100
"""Calls in a direction below which nothing is reported about sizes."""

# -- comparisons -----

ELAPSED_DIFFERS = 0.05
"""Relative difference in elapsed time that needs an explanation,"""
CPU_EXPLAINS = 0.5
"""... and the part of it by which CPU time must differ if the program's own work is the cause."""
WAIT_EXPLAINS = 0.5
"""Part of the difference that measured waiting for a CPU must be to explain it."""
LEAST_CPU_SHARE = 0.2
"""Share of a CPU that a busy machine leaves to a program: where waiting was not measured, a
difference that would need less is the program's own. Of 84 series of one program beside 8
runnable tasks on 2 CPUs, the one with the least had 0.18, and 0.34 of what was added."""

# -- environments -----

SIZE_AFTER_REBOOT = 0.001
"""Share by which a size may differ after a reboot,"""
SIZE_OF_ANOTHER_KERNEL = 0.02
"""... and under another kernel."""

# -- counts of foreign generators -----

COUNT_DIFFERS = 0.01
"""Difference of a count from the asked one that matters, as a share of the asked one."""
COUNT_DEVIATIONS = 4.0
"""It must also exceed this many standard deviations of a Poisson count."""
COUNT_ROUNDING = 2
"""Operations by which two counts of the same thing may differ: one at each end of the run."""
UNIT_RATE_RATIO = 1.3
"""Rates this far apart at which the same part of the operations is counted show a unit."""
FAR_ABOVE = 10.0
"""A rate this many times the lowest is far above it."""
HARDLY_SLOWER = 2.0
"""A mean response up to this many times that at the lowest rate has hardly grown."""
MUCH_QUICKER = 0.5
"""... and below this many times, refusals are likely."""
