"""Which gang runs which task next: the decisions of a pool's controller, without effects.

`PoolPlan` receives what happened (tasks, leases, ends of attempts) and returns actions. It has no
clock: the caller passes the time. The order of the tasks is random, from the seed, and a free gang
takes the first one that it can run, so the tasks are randomised over the gangs; a task that is a
certain gang's turn waits for it. A task with a void attempt runs on another gang if there is one,
up to `retries` times, but a replicate of `host` stays with its gang; a host of two void attempts that blame it is excluded. Decision: a state
machine, because the choice among 10,000 waiting tasks must not look at all of them. Rejected: a
pure function of all tasks and attempts, which takes a hundred times as long for 64 gangs.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

import msgspec

from benchwright.core.numeric import np
from benchwright.features.pool.types import Attempt, Lease, LeaseState, PoolSettings
from benchwright.run.gangs import Task

HOST_VOIDS = 2
"""A host is excluded after this number of void attempts that blame it."""
LEASE_FAILURES = 3
"""A gang is given up after this number of leases in a row that were lost without a recorded
attempt."""
ABSENT_NS = 30 * 10**9
"""Other gangs run the tasks of a gang whose lease has waited for this time [ns]."""


class OpenLease(msgspec.Struct, frozen=True):
    """Open the n-th lease of a gang, on other hosts than the excluded ones."""

    gang: str
    number: int
    excluded: tuple[str, ...]


class AssignTask(msgspec.Struct, frozen=True):
    """Run a task in a lease that is free."""

    task: Task
    lease: Lease


class CloseLease(msgspec.Struct, frozen=True):
    """End a free lease: a host of it is excluded, or its rest is too short for every waiting task."""

    lease: Lease


class GiveUp(msgspec.Struct, frozen=True):
    """Do not try a task again: its attempts are used up, or no gang is left that can run it."""

    task: Task
    last: Attempt | None


Action = OpenLease | AssignTask | CloseLease | GiveUp


class PoolPlan:
    """Decides about one pool: the caller reports each change, then asks for `next_actions`."""

    def __init__(self, settings: PoolSettings, seed: int) -> None:
        self._settings = settings
        self._random = np.random.default_rng(seed)
        self._gangs = settings.names
        self._waiting: deque[Task] = deque()
        """The tasks that any gang can run, in order."""
        self._own: dict[str, deque[Task]] = {gang: deque() for gang in self._gangs}
        """The tasks whose turn is a certain gang's."""
        self._running: dict[str, Task] = {}
        """The tasks that run, by place."""
        self._attempts: Counter[str] = Counter()
        """Void attempts, by place."""
        self._last: dict[str, Attempt] = {}
        """The last void attempt, by place."""
        self._avoided: dict[str, set[str]] = {}
        """Gangs on which an attempt was void, by place."""
        self._leases: dict[str, Lease] = {}
        """The last lease of each gang."""
        self._busy: dict[str, str] = {}
        """The place of the task that a gang runs."""
        self._used: set[str] = set()
        """Gangs whose current lease had an attempt."""
        self._failures: Counter[str] = Counter()
        """Leases in a row that ended without a recorded attempt."""
        self._longest_ns = 0
        """Of the recorded attempts: the expected length of a task whose length is unknown."""
        self._refused: set[str] = set()
        self._absent_ns: dict[str, int] = {}
        """Since when each lease that waits does so, by gang: CLOCK_REALTIME [ns]."""
        self._late: set[str] = set()
        """Gangs whose tasks do not wait for them any longer."""
        self._measured: dict[str, str] = {}
        """The gang of each host that measured a replicate of `host`: no other gang gets that host."""
        self._voids: Counter[str] = Counter()
        """Void attempts that blame a host, by host."""

    # -- what happened ------------------------------------------------------------------

    def add(self, tasks: Iterable[Task]) -> None:
        """Add tasks; several that are added at once are put in random order."""
        added = list(tasks)
        for at in self._random.permutation(len(added)):
            task = added[at]
            is_kept = task.replicate is not None or task.gang not in self._refused
            turn = task.gang if is_kept else ""
            (self._own[turn] if turn else self._waiting).append(task)

    def add_running(self, task: Task, gang: str) -> None:
        """Add a task that an earlier controller gave to a gang, which still runs it."""
        self._assigned(task, gang)

    def add_recorded(self, attempt: Attempt) -> None:
        """Note which hosts measured a replicate, also under an earlier controller."""
        if attempt.replicate is not None:
            self._measured.update(dict.fromkeys(attempt.hosts, attempt.gang))

    def drop(self, place: str) -> None:
        """Forget a waiting task."""
        self._waiting = deque(task for task in self._waiting if task.place != place)
        for gang, own in self._own.items():
            self._own[gang] = deque(task for task in own if task.place != place)

    def lease_changed(self, lease: Lease) -> None:
        """Note the state of a gang's last lease. The end of the attempt that ran in it is reported
        separately."""
        before = self._leases.get(lease.gang)
        known = before if before and before.number == lease.number else None
        if known is None:
            self._used.discard(lease.gang)
        had_ended = known is not None and known.state is LeaseState.ENDED
        is_failure = lease.ended is not None and lease.ended.blames_host
        if lease.state is LeaseState.ENDED and is_failure and not had_ended:
            self._failures[lease.gang] += 1
            if self._failures[lease.gang] >= LEASE_FAILURES:
                self.lease_refused(lease.gang)
        self._leases[lease.gang] = lease

    def lease_refused(self, gang: str) -> None:
        """Note that the engine will not open a lease for this gang: others run its tasks."""
        self._refused.add(gang)
        self._hand_over(gang)

    def _hand_over(self, gang: str) -> None:
        own = self._own[gang]
        self._waiting.extend(task for task in own if task.replicate is None)
        self._own[gang] = deque(task for task in own if task.replicate is not None)

    def attempt_ended(self, attempt: Attempt) -> None:
        """Note the end of an attempt: recorded or void."""
        task = self._running.pop(attempt.place)
        self._busy.pop(attempt.gang, None)
        if attempt.void is None:
            self._failures[attempt.gang] = 0
            self.add_recorded(attempt)
            length_ns = attempt.ended_ns - attempt.began_ns
            self._longest_ns = max(self._longest_ns, length_ns)
            return
        if attempt.counts_against:
            self._voids[attempt.counts_against] += 1
        self._attempts[task.place] += 1
        self._last[task.place] = attempt
        if task.replicate is not None:
            self._own[task.gang].appendleft(task)
            return
        self._avoided.setdefault(task.place, set()).add(attempt.gang)
        self._waiting.appendleft(task)

    # -- what to do ---------------------------------------------------------------------

    @property
    def excluded(self) -> tuple[str, ...]:
        """The hosts that get no task any more."""
        return tuple(sorted(host for host, n in self._voids.items() if n >= HOST_VOIDS))

    @property
    def measures_hosts(self) -> bool:
        """Whether a replicate of `host` was recorded."""
        return bool(self._measured)

    def next_actions(self, now_ns: int) -> list[Action]:
        """Return what to do now; the plan counts it as done. `now_ns`: CLOCK_REALTIME [ns]."""
        actions = self._given_up()
        self._note_absent(now_ns)
        wanted = len(self._waiting)
        for gang in self._gangs:
            lease = self._leases.get(gang)
            excluded = {
                *self.excluded,
                *(h for h, other in self._measured.items() if other != gang),
            }
            if gang in self._busy or gang in self._refused:
                continue
            own = len(self._own[gang])
            if lease is not None and lease.state is LeaseState.RUNNING:
                task = None
                if not excluded.intersection(lease.hosts):
                    task = self._take(lease, now_ns)
                if task is not None:
                    wanted -= len(self._own[gang]) == own
                    self._assigned(task, gang)
                    actions.append(AssignTask(task, lease))
                elif (wanted or own) and self._is_useless(lease, now_ns, excluded):
                    actions.append(CloseLease(lease))
            elif lease is None or lease.state is LeaseState.ENDED:
                if wanted > 0 or own:
                    wanted -= not own
                    number = 1 if lease is None else lease.number + 1
                    actions.append(OpenLease(gang, number, tuple(sorted(excluded))))
            else:
                wanted -= not own
        return actions

    def _note_absent(self, now_ns: int) -> None:
        """Hand over the tasks of gangs whose leases have waited for long, such as that of a lost
        host."""
        self._late = set()
        for gang in self._gangs:
            lease = self._leases.get(gang)
            if lease is None or lease.state is not LeaseState.WAITING:
                self._absent_ns.pop(gang, None)
            elif now_ns - self._absent_ns.setdefault(gang, now_ns) >= ABSENT_NS:
                self._late.add(gang)
                self._hand_over(gang)

    def _assigned(self, task: Task, gang: str) -> None:
        self._running[task.place] = task
        self._busy[gang] = task.place
        self._used.add(gang)

    def _given_up(self) -> list[Action]:
        """Return the waiting tasks that are not tried again, and forget them."""
        is_lost = len(self._refused) == len(self._gangs)
        found: list[Action] = []
        # Tasks with void attempts are at the front.
        for queue in (self._waiting, *self._own.values()):
            while queue and (
                is_lost
                or self._attempts[queue[0].place] > self._settings.retries
                or (queue[0].replicate is not None and queue[0].gang in self._refused)
            ):
                task = queue.popleft()
                found.append(GiveUp(task, self._last.get(task.place)))
        return found

    def _take(self, lease: Lease, now_ns: int) -> Task | None:
        """Return the first task that a lease can run, taken from its queue; None if there is none."""
        for queue in (self._own[lease.gang], self._waiting):
            for at, task in enumerate(queue):
                if self._fits(task, lease, now_ns) and not self._avoids(task, lease):
                    del queue[at]
                    return task
        return None

    def _avoids(self, task: Task, lease: Lease) -> bool:
        """Return whether a task should wait for another gang than this one."""
        avoided = self._avoided.get(task.place)
        if avoided is None or lease.gang not in avoided:
            return False
        others = set(self._gangs) - self._refused - self._late - avoided
        return bool(others)

    def _fits(self, task: Task, lease: Lease, now_ns: int) -> bool:
        """Return whether a task is expected to end within the lease; a fresh lease takes any."""
        if not lease.ends_ns or lease.gang not in self._used:
            return True
        known_s = task.seconds
        length_ns = self._longest_ns if known_s is None else known_s * 1e9
        return now_ns + length_ns <= lease.ends_ns

    def _is_useless(self, lease: Lease, now_ns: int, excluded: set[str]) -> bool:
        """Return whether no waiting task can ever run in this free lease."""
        if excluded.intersection(lease.hosts):
            return True
        waiting = (*self._own[lease.gang], *self._waiting)
        return not any(self._fits(task, lease, now_ns) for task in waiting)
