"""The thresholds of all findings, each with its reason, so that it can be argued with in one place.

Decision: those of the machine are fixed numbers, not levels of significance: a window is one
observation of the machine, and a limit that matters is far from a light load. They leave a
margin on both sides: what is near a threshold is reported neither as free nor as the limit for
certain. Those of the values of a test are levels of significance, since they are many and random.
"""

from __future__ import annotations

# -- the window --------------------------------------------------------------------------

FEWEST_SAMPLES = 3
"""Fewer and the shares are means over more than the trial: they show nothing about it."""
SHORTEST_S = 0.25
"""A CPU's time is counted in ticks of 10 ms: below this a tick is 4 % and more."""
MAJORITY = 0.5
"""Of the watched time in which a limit must show, to be a test's limit [share]."""

# -- CPUs --------------------------------------------------------------------------

WHOLE_CPU = 0.90
"""A thread with this share of the window on a CPU did hardly anything else."""
WHOLE_WHILE_SEEN = 0.95
"""As much while it lived: a trial's beginning and end, with other processes, are left out,"""
SEEN_MOST = 0.70
"""... where it still had this share of the whole window."""
READY_RAN = 0.85
"""A thread that is always ready and runs so much of its life has lost too little to others for them to be its limit."""
NEVER_RESTS_RAN = 0.60
"""A load generator that always wants to run never waits for what it drives; it shares the
CPUs with that, so it need not have had one all the time."""
ALL_CPUS = 0.90
"""Mean use of all of them that is full: a run that begins and ends with one thread still
is, and half-loaded machines are far from it."""
IDLE_CORES = 0.5
"""CPUs' time that was free for a further thread [cores]."""
ONE_AT_A_TIME = (0.90, 1.08)
"""CPU time of a tree whose processes run one after the other [cores]."""
RUNNABLE_ALONE = 1.35
"""Mean of runnable tasks on a machine where one at a time runs, others' now and then."""
SHORT_LIVED = 0.5
"""A task seen for less than this share of the window came or went within it."""
OTHERS_COST = 0.05
"""Of the elapsed time that others, or the hypervisor, cost: more than a few percent, which
the daemons of a quiet machine (1 to 3 % of a CPU) cannot."""
GROUP_CORES = 0.5
"""From here on others in the run queue may be more than they use CPUs."""
NAMED_CORES = 0.02
"""Others that used less are not named [CPUs]."""
WAITED = 0.15
"""Share of their lives that threads waited for a CPU, on average, where more than one
of them wanted it at a time."""
WANTED = 0.50
"""Of a fair share of the CPUs: short-lived processes and had less did not want
it."""
CONFINED = 0.25
"""... and where CPUs stand idle, which no scheduler leaves so by chance."""
QUEUED = 1.1
"""Runnable tasks for each CPU, where no waiting of the tasks is known."""
TRIAL_SHARE = 0.70
"""Of the CPU time that was used: with less, it is not the trial that fills them."""
STEAL_WANTED = 0.10
"""CPU time that a trial used before any that was stolen can be its loss [cores]."""
STEAL_CORES = 0.05
"""What was stolen at least [cores]: an idle machine has shares of nothing."""
STEAL_DOUBT = 0.03
"""A thirtieth moves figures by more than a good interval's width,"""
STEAL_DOUBT_CORES = 0.02
"""... of a trial that wants most of a CPU."""
DRIVEN_CORES = 0.05
"""What a server used that is driven: an idle one uses a thousandth [cores]."""
DRIVEN_PACKETS_PER_S = 1000.0
"""Of a generator for each CPU that it uses, where its server is not seen: each
request is two packets and costs it 10 to 500 us; a remote shell sends a hundred."""
ONE_PROCESS = 1.10
"""A server process with more has several threads, none of which need be a whole one."""
FEW_THREADS = 2
"""More whole threads than this are no program of one thread,"""
THREADS_SHARE = 0.25
"""... nor is one whose whole threads have less than this of its CPU time."""
ALL_WHOLE = 0.90
"""Of a side's CPU time that whole threads had, where nearly all of it is theirs."""
QUOTA_PERIODS = 0.25
"""Of the quota's periods that ended with its tasks stopped,"""
QUOTA_STOPPED = 0.05
"""... and the time they were stopped, as a share of the window: short bursts over a
quota cost less than this."""

# -- memory ------------------------------------------------------------------------------

MEMORY_FULL = 0.95
"""Of a cgroup's memory limit. A page cache fills any limit: it needs one of these too."""
REFAULTS_PER_S = 100.0
"""Pages read again soon after they were thrown out, each a wait for a disk [1/s]."""
PRESSURE = 0.10
"""Share of the window in which some task waited for memory (PSI)."""
SWAP_BYTES_PER_S = 1 << 20
"""To and from swap space: 256 pages a second, each some tens of microseconds or more."""
DIRECT_SCANS_PER_S = 1000.0
"""Pages that tasks scanned themselves for free memory, where PSI is not reported."""

# -- disks -------------------------------------------------------------------------------

ACTIVE = 0.50
"""Of the window in which a disk was used at all: rates and busy shares are judged over that
part, since a benchmark's start and end have no I/O; a disk used less than this is no limit."""
DISK_BUSY = 0.95
"""Share of the window with a request in flight; a queue must show too, since a parallel
device can be busy and have room."""
DISK_QUEUE = 1.7
"""Mean requests in flight or waiting: more than one at a time asked for it."""
DISK_BUSY_ALONE = 0.90
"""At depth one, where the time between two requests is the benchmark's own,"""
IO_WAIT = 0.60
"""... and that its tasks waited for I/O (PSI, or iowait in cores)."""
IO_WAIT_LEAST = 0.10
"""With a queue so little will do; write-back can keep a device busy while no task waits."""
OWN_IO = 0.05
"""Share of a disk's bytes that must be the trial's own for it to be its limit."""
IO_LIMIT = 0.90
"""Of a cgroup's limit on I/O that was reached; token buckets give no more than it."""
IO_LIMIT_WAITING = 0.70
"""... or this, while tasks waited for I/O half of the time,"""
IO_LIMIT_PRESSURE = 0.50
IO_LIMIT_ABOVE = 1.25
"""Far above a limit it does not hold for that I/O (write-back has no owner)."""
STALL_S = 0.5
"""Requests in flight and none completed for so long [s]: no disk is that slow."""
STALL_SHARE = 0.10
"""... and of the window."""

# -- network, files, processes -----------------------------------------------------------

LINK = 0.92
"""Of a link's speed, frames' overhead counted: the rest is what batching hides of it."""
FRAME_BYTES = 24
"""Preamble, checksum and gap of a frame of Ethernet, which interfaces do not count."""
FILES_FULL = 0.95
PIDS_FULL = 0.98
"""Of a limit on open files or processes: they are sampled, so the very top is missed."""

# -- doubtful figures ------------------------------------------------------------------------------

CACHED_BYTES = 64 << 20
"""So much must have been read or written for it to matter where it came from [bytes]."""
FROM_DEVICE = 0.25
"""Share of it that devices moved: with less, memory answered for them."""
FREQUENCY_BETWEEN = 0.03
"""Change of a trial's mean frequency to another's: it is in their times in full."""
FREQUENCY_WITHIN = 0.20
"""Lowest against highest within a trial; turbo modes move by a tenth all the time."""
LOST_PACKETS = 0.001
"""Dropped or sent again, of all; one in a thousand halves a TCP stream's rate on a long link."""
LOST_FEWEST = 10
EXCEEDS = 1.05
"""Over a known limit: what rounding and mixed units (1000, 1024) cannot explain."""
EXCEEDS_RELATED = 0.25
"""Share of a figure that must have been seen on a link for the link to be its limit."""
EXCEEDS_WAY = 0.10
"""Of the busier direction: with more the other one is used too, not by acknowledgements."""
EXCEEDS_PATH = 0.05
"""Of what all links moved: one with more may have carried a part of the figure."""
IO_SIZE_FACTOR = 1.5
"""Mean size of I/O against the stated size, in both directions."""
IO_SIZE_CALLS = 100
START_SHARE = 0.05
"""Of a trial that starting it may take: 1 ms of 20 ms."""
START_S = 0.001
"""Starting a process: execve to exit of /bin/true takes 0.5 to 1.5 ms [s]."""
GRAIN = 0.05
"""Step of the values as a share of their size: below it they are a clock's grain, not figures."""
GRAIN_FEWEST = 5
"""Values of which a grain can be recognised."""

# -- output ------------------------------------------------------------------------------

OUTPUT_NS_PER_BYTE = 0.65
"""More system time than /dev/null for each byte to a file in memory (docs/output.md) [ns]."""
OUTPUT_OF_ELAPSED = 0.02
"""A precision of 2 % is often asked for: less than that is not noticed."""
OUTPUT_OF_SYSTEM = 0.10
"""System time is looked at where a program's own work is; a tenth of it changes what is seen."""

# -- loads and traces -----

SAME_STAMP = 0.5
"""Share of arrivals with the time stamp of the one before, from which on the clock was too coarse
to separate bursts."""
UNMATCHED = 0.001
"""One operation in a thousand: above this the pairs may be of other operations than those that count."""
LATE_SHARE = 0.1
"""Of the service time: a p99 of lateness below a tenth of what an operation takes changes no result by
more than runs differ."""
LATE_NS = 20_000
"""The paper's engine kept 10 to 100 us; below 20 us the machine's own interrupts dominate [ns]."""
TAIL_SHARE = 0.5
"""Of a percentile of the response times: from here on it is more the generator's than the target's."""
NOT_OFFERED = 0.01
"""A rate within 1 % is what a report rounds to."""
DROPPED = 0.001
"""One operation in a thousand: above this, p99.9 describes other operations than those that came."""
SKIPPED = 0.001
"""As for dropped operations."""
FAILED_SERIOUS = 0.01
"""Share of operations: one failure in a hundred moves a p99."""
HELD = 0.1
"""A tenth of the operations waited for a slot: more than the bursts of Poisson arrivals cause."""
WAITED_TIMES = 3
"""Response time over service time: from here on most of an operation's time is waiting."""
FEW_BEYOND = 10
"""Operations beyond a percentile: with so many its share is known within about a third."""
EMPTY_SHARE = 0.1
"""A closed loop with a tenth of its slots empty is one with a tenth fewer users: from here on more than
runs differ."""
EMPTY_SERIOUS = 0.5
"""One thread that submits operation after operation, and does nothing else, leaves a slot empty for at
most half of the time: in the other half those before it wait for those behind it. More is a generator
that paused, and most of the cycle is its own."""
START_NS = 100_000_000
"""Runs below 0.1 s are mostly their start: threads that wake, cold caches, one time slice of another
program [ns]."""
CLOCK_DRIFT_PPM = 100
"""A quartz is better than 100 ppm; a TSC that is further off is not steady."""

# -- the values of a test: one level of 5 % is divided among the questions (series.py) -----

FEWEST_TRIALS = 10
"""With fewer trials nothing is reported about their values: a finding at these levels would be luck."""
LEVEL_OUTLIERS = 0.02
"""Largest of the levels: one value at 8 MAD in 30 trials is the hardest thing to see."""
LEVEL_WARM_UP = 0.006
LEVEL_MODES = 0.004
LEVEL_DEPENDENT = 0.011
LEVEL_DRIFT = 0.009
LEVEL_DRIFT_OF_OTHERS = 0.004
"""For metrics about which only a drift or a leak is asked."""
SUSPECTED_DEPENDENCE = 0.05
"""Dependence at this level widens the tests of warm-up and drift: a slow wave looks like either, and
caution costs little."""
RELEVANT_CHANGE = 0.005
"""A smaller share of the mean that leaving a warm-up out changes, or of the median that a drift changes
without `--drift`, is not reported: it is real, but too small to act on. The warm-up is left out of the
other questions all the same."""
STRONG_DEPENDENCE = 0.5
"""Correlation of neighbouring trials from which on dependence is serious."""
TOO_NARROW = 1.1
"""Factor of an interval from which on it is reported as too narrow."""
STEP_MARGIN = 4.0
"""By how much, in variances, a step must fit better than a straight line to be a warm-up and not a drift:
the two wrong answers are then about equally rare."""

# -- characterized I/O -----

SIZE_AS_STATED = 0.5
"""Share of calls of the stated size, below which the I/O is not as stated."""
FEW_CALLS = 100
"""Calls in a direction below which nothing is reported about sizes."""

# -- comparisons -----

ELAPSED_DIFFERS = 0.05
"""Difference in elapsed time that is worth an explanation,"""
USER_DIFFERS = 0.25
"""... and the part of it that user time shows at most where it is not the program's own work,"""
OWN_WORK = 0.5
"""... of a program whose elapsed time is mostly user time [share]."""

# -- environments -----

SIZE_AFTER_REBOOT = 0.001
"""Share by which a size may differ after a reboot,"""
SIZE_OF_ANOTHER_KERNEL = 0.02
"""... and under another kernel."""
