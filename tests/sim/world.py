"""A workbench in virtual time, and a search played on it.

`SimWorkbench` returns the same `LoadTrial`s as a real bench: operations are binned by
intended start, what is looked at while the load runs knows only what has completed, and
what is in flight at the end is waited for up to `DRAIN_S`. A trial's randomness is a
function of the seed and the trial's number, so a search can be resumed at any trial.

Load units are randomised by the rate that a search starts at (`unit_of`): every rate of a
policy follows from it, so this moves each policy's grid over the true peak. Scaling the
rates that a policy is shown lost: counts would have to be scaled too, and their noise with
them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.random import Generator

from benchwright.core.criterion import Criterion
from benchwright.core.plan import Pairs
from benchwright.features.load.plan import LoadEnding, LoadTrial, Probe
from benchwright.features.search.peak.policies.policy import Policy
from benchwright.features.search.peak.policies.search import next_peak_step
from benchwright.features.search.peak.policies.trials import resolve_failures
from benchwright.features.search.types import Claim, ClaimResult, PeakGoal
from closed_loop import closed_loop
from ledger import BIN_S, Ledger, Operations
from machine import CALM, Course, Machine, busy_share
from queues import Times
from servers import SimServer
from speed_profiles import WorkTime
from stations import Growing, Streaming

DRAIN_S = 30.0
UNIT_SPREAD = 0.35
RATE_ROUNDS = 12
"""Of a closed loop of a server whose work depends on its rate."""
SPEED_STREAM = 1
"""The stream of random numbers of the speed profile."""


@dataclass(frozen=True)
class State:
    """What a run depends on beside its rate."""

    seed: int
    number: int
    """Of the trial in its search, from 0."""
    age_s: float = 0.0
    """Of what persists between trials [s]."""


Serve = Callable[[Times], Times]
"""Completions of operations that start at moments; NaN: refused."""


def simulate(
    server: SimServer, rate: float, lasts_s: float, state: State, machine: Machine = CALM
) -> Operations:
    """Return the operations of one run of an open loop from an empty server."""
    random = np.random.default_rng([state.seed, state.number])
    arrivals = server.arrivals.times(random, rate, lasts_s)
    trial = _Trial(server, rate, lasts_s, state, machine, random)
    if isinstance(server.station, Streaming):
        assert machine.calm, "a busy machine changes completions, not what is inside of them"
        assert server.speed.constant, "as the speed profile does"
        first, completions, tokens = server.station.streams(arrivals, random)
        tpot = (completions - first) / (tokens - 1)
        return Operations(arrivals, completions, times={"first": first - arrivals, "tpot": tpot})
    if machine.calm:
        return Operations(arrivals, trial.server_of()(arrivals))
    course = trial.course(lambda serve: Operations(arrivals, serve(arrivals)))
    starts = course.generator.after(arrivals)
    arrived = trial.server_of(course)(starts)
    return Operations(arrivals, course.generator.after(arrived), starts, arrived)


@dataclass(frozen=True)
class _Trial:
    """One run's server, machine and random numbers."""

    server: SimServer
    rate: float
    lasts_s: float
    state: State
    machine: Machine
    random: Generator
    """As it is when the arrivals are drawn."""

    def server_of(self, course: Course | None = None) -> Serve:
        """Return the server, on a machine; each time it has the same random numbers."""
        maps = list(self._work_times(course))
        station = self.server.station

        def serve(starts: Times) -> Times:
            for work_time in maps:
                starts = work_time.to_work(starts)
            done = station.serve(starts, self.rate, copy.deepcopy(self.random))
            for work_time in reversed(maps):
                done = work_time.to_moments(done)
            return done

        return serve

    def _work_times(self, course: Course | None) -> Iterator[WorkTime]:
        """Yield the machine's change of time, and then the server's own."""
        if course is not None and course.server is not None:
            yield course.server
        if not self.server.speed.constant:
            state, lasts_s = self.state, self.lasts_s + DRAIN_S
            speeds = np.random.default_rng([state.seed, state.number, SPEED_STREAM])
            yield self.server.speed.work_time(speeds, lasts_s, state.age_s)

    def course(self, undisturbed: Callable[[Serve], Operations]) -> Course:
        """Return the machine's course; `undisturbed` says how busy a server would be without it."""
        state, lasts_s = self.state, self.lasts_s + DRAIN_S
        busy = None
        if self.machine.shared is not None:
            operations = undisturbed(self.server_of())
            servers = getattr(self.server.station, "servers", 1)
            busy = busy_share(operations.starts, operations.ends, servers, lasts_s)
        trial = state.seed, state.number, state.age_s
        return self.machine.course(trial, lasts_s, busy)


def simulate_users(
    server: SimServer, users: int, lasts_s: float, state: State, machine: Machine = CALM
) -> Operations:
    """Return the operations of one run of a closed loop of so many users.

    A server whose work depends on the rate (`Growing`) gets the rate that it completes.
    """
    rate = float(users)
    for _ in range(RATE_ROUNDS):
        random = np.random.default_rng([state.seed, state.number])
        trial = _Trial(server, rate, lasts_s, state, machine, random)
        course = trial.course(lambda serve: closed_loop(serve, users, lasts_s))
        operations = closed_loop(trial.server_of(course), users, lasts_s, course.generator)
        completed = max(operations.completed_by(lasts_s) / lasts_s, 1 / lasts_s)
        if not isinstance(server.station, Growing) or 0.98 < completed / rate < 1.02:
            break
        rate = math.sqrt(rate * completed)
    return operations


@dataclass
class SimWorkbench:
    """A simulated server under load; implements the port of features/search/server/workbench.py."""

    server: SimServer
    criteria: tuple[Criterion, ...]
    seed: int
    restart_s: float = 0.0
    watched: bool = True
    machine: Machine = CALM
    trials: int = 0
    """Run so far; of a resumed search: in its history."""
    age_s: float = 0.0
    """Virtual time since the search began [s]."""

    def run(self, probe: Probe, sample: Pairs, leaves: Callable[[LoadTrial], bool]) -> LoadTrial:
        """Run one trial in virtual time; `leaves` is asked each second of load."""
        state = State(self.seed, self.trials, self.age_s + self.restart_s)
        operations = self._operations(probe, state)
        ledger = Ledger(operations, self.criteria)
        lasted_s = self._watch(probe, ledger, leaves)
        ledger.take(lasted_s + DRAIN_S, lasted_s)
        trial = self._trial(probe, ledger, lasted_s)
        self.trials += 1
        self.age_s += trial.cost_s
        return trial

    def _operations(self, probe: Probe, state: State) -> Operations:
        """Return what happens in a trial, if it is not left."""
        server, lasts_s = self.server, probe.duration_s
        if probe.users is not None:
            return simulate_users(server, probe.users, lasts_s, state, self.machine)
        return simulate(server, probe.rate, lasts_s, state, self.machine)

    def _watch(self, probe: Probe, ledger: Ledger, leaves: Callable[[LoadTrial], bool]) -> float:
        """Return for how long the load was offered [s]."""
        looks = math.ceil(probe.duration_s / BIN_S) if self.watched else 1
        for look in range(1, looks):
            ledger.take(look * BIN_S, look * BIN_S)
            if leaves(self._trial(probe, ledger, look * BIN_S)):
                return look * BIN_S
        return probe.duration_s

    def _trial(self, probe: Probe, ledger: Ledger, lasted_s: float) -> LoadTrial:
        """Return the trial as it is known after `lasted_s` of load."""
        operations = ledger.operations
        drained_s = max(0.0, ledger.last_end_s - lasted_s)
        whole = lasted_s >= probe.duration_s
        values = ledger.values()
        return LoadTrial(
            rate=probe.rate,
            duration_s=probe.duration_s,
            lasted_s=lasted_s,
            cost_s=self.restart_s + lasted_s + drained_s,
            values=values,
            target_values=ledger.target_values(values),
            late_p99_ms=ledger.late_p99_ms(),
            series=ledger.series(lasted_s),
            offered=int(np.searchsorted(operations.arrivals, lasted_s)),
            completed=operations.completed_by(lasted_s),
            errors=ledger.refused,
            ending=LoadEnding.WHOLE if whole else LoadEnding.LEFT,
            users=probe.users,
        )

    def interrupt(self) -> None:
        """Nothing runs between calls."""

    def close(self) -> None:
        """Nothing was started."""


@dataclass
class Search:
    """A search from its first probe to its answer."""

    goal: PeakGoal
    history: list[LoadTrial] = field(default_factory=list)
    probes: list[Probe] = field(default_factory=list)
    result: ClaimResult | None = None

    @property
    def load_s(self) -> float:
        """Seconds of load."""
        return math.fsum(trial.lasted_s for trial in self.history)

    @property
    def cost_s(self) -> float:
        """Seconds of everything."""
        return math.fsum(trial.cost_s for trial in self.history)


def play(
    policy: Policy,
    goal: PeakGoal,
    server: SimServer,
    seed: int,
    history: Sequence[LoadTrial] = (),
    machine: Machine = CALM,
) -> Search:
    """Return a policy's search of a server in virtual time, to its answer.

    history: of a search that is resumed. The steps are those of a real search
    (features/search/peak/policies/search.py), with its bounds and its budget.
    """
    search = Search(goal, list(history))
    bench = SimWorkbench(
        server, goal.criteria, seed, goal.restart_s, goal.watched, machine, len(history)
    )
    while True:
        step = next_peak_step(policy, goal, search.history)
        if isinstance(step, ClaimResult):
            search.result = step
            return search
        bench.age_s = search.cost_s
        search.probes.append(step)
        search.history.append(bench.run(step, (), _watcher(policy, search, step)))


def play_means(
    policy: Policy, goal: PeakGoal, key: str, response: Callable[[float], float]
) -> Search:
    """Return a policy's search by the mean of each trial alone, to its answer: `response` returns
    the value of the criterion `key` in one trial at a rate [1/s]."""
    search = Search(goal)
    while isinstance(step := next_peak_step(policy, goal, search.history), Probe):
        search.probes.append(step)
        search.history.append(
            LoadTrial(
                rate=step.rate,
                duration_s=step.duration_s,
                lasted_s=step.duration_s,
                cost_s=step.duration_s,
                values={key: response(step.rate)},
            )
        )
    search.result = step
    return search


def _watcher(policy: Policy, search: Search, probe: Probe) -> Callable[[LoadTrial], bool]:
    """Return the question whether a running probe has told enough."""
    before = resolve_failures(search.goal, search.history).trials
    return lambda so_far: policy.leaves(search.goal, before, probe, so_far)


def unit_of(seed: int) -> float:
    """Return a search's random factor on the rate it starts at."""
    random = np.random.default_rng([seed, 2**31])
    return math.exp(random.uniform(-UNIT_SPREAD, UNIT_SPREAD))


def search_of(
    policy: Policy,
    server: SimServer,
    seed: int,
    claim: Claim | None = None,
    budget_s: float | None = None,
    machine: Machine = CALM,
) -> Search:
    """Return one search of a server, with the load unit that belongs to its seed."""
    goal = server.goal(claim, unit_of(seed))
    goal = msgspec.structs.replace(goal, budget_s=budget_s)
    return play(policy, goal, server, seed, machine=machine)
