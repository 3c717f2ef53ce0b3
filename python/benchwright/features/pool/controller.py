"""The controller: leases gangs, gives them tasks, and records what they measured, until the session
ends.

It acts on the decisions of `PoolPlan` (features/pool/planning.py) and records each attempt in the
journal before it begins. It may be killed at any moment: agents go on, and the next controller of
the session finds their leases at the engine, connects to each agent as after a broken channel, and
continues. An attempt that its agent does not know is void. Nothing is sent to an agent between the
order and the end of a task.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from benchwright import __version__
from benchwright.core.errors import BenchError, Interrupted, OperatingError, StudyError
from benchwright.core.notice import NOTIFY_OPTION
from benchwright.core.results import Finding
from benchwright.core.text import plural
from benchwright.feature import session_kind
from benchwright.features.pool import protocol as p
from benchwright.features.pool.keys import (
    PLANNED_KEYS,
    POOL_OPTION,
    attempt_key,
    lease_key,
    planned_key,
)
from benchwright.features.pool.local import LocalEngine
from benchwright.features.pool.planning import AssignTask, CloseLease, GiveUp, OpenLease, PoolPlan
from benchwright.features.pool.slurm import SlurmEngine
from benchwright.features.pool.stored import (
    Damaged,
    PoolTally,
    adopt,
    append_files,
    move_files,
    pool_record,
    status_text,
    stored_pool,
    unpack,
)
from benchwright.features.pool.toml import parts_of
from benchwright.features.pool.types import (
    Attempt,
    Channel,
    Lease,
    LeaseState,
    PlannedTasks,
    PoolEngine,
    PoolKind,
    PoolSettings,
    VoidReason,
)
from benchwright.findings.codes import make_finding
from benchwright.run.gangs import DeadlineReached, GangListener, SessionGangs, Task, TaskEnd
from benchwright.run.ledger import Ledger
from benchwright.study.journal import UNWRITABLE, SessionInfo
from benchwright.suite.program import Program

_POLL_S = 0.25
"""How often the engine is asked about leases that wait or whose agent does not answer."""
_SILENT_S = 60.0
"""A lease whose agent cannot be reached for this time is closed."""
_COLLECT_S = 600.0
"""A lease whose agent has not sent a result in this time is closed."""
_BAD_INPUT = 2


def pool_directory(study: Path, session: int) -> Path:
    """Return the directory of a session's pool: what its gangs measured, and the agents of local
    gangs."""
    return study / "pool" / f"s{session}"


def check_engine(settings: PoolSettings) -> None:
    """Raise InputError if the engine of a pool cannot work on this machine. Raises BenchError if it
    does not answer."""
    if settings.engine is PoolKind.SLURM:
        SlurmEngine(settings, "check").check()


def _engine_of(settings: PoolSettings, info: SessionInfo, place: Path) -> PoolEngine:
    if settings.engine is PoolKind.SLURM:
        return SlurmEngine(settings, info.options["token"])
    return LocalEngine(place / "agents", settings)


def gangs_of_session(info: SessionInfo) -> SessionGangs:
    """Return the gangs of a session with a pool."""
    settings = stored_pool(info)
    assert settings is not None, "the session has a pool"

    @contextlib.contextmanager
    def opened(ledger: Ledger, listener: GangListener) -> Iterator[GangController]:
        place = pool_directory(ledger.study.path, ledger.session)
        engine = _engine_of(settings, info, place)
        controller = GangController(engine, settings, info, ledger, listener)
        try:
            controller.start()
            yield controller
        finally:
            controller.close()

    return SessionGangs(settings.names, settings.clients > 0, opened)


class _Agent:
    """The open channel to the agent of a lease."""

    def __init__(self, lease: Lease, channel: Channel) -> None:
        self.lease = lease
        self.channel = channel
        self.buffer = b""
        self.due = 0
        """Number of bytes of a result that have not come yet."""
        self.result: list[bytes] = []
        self.verdict: p.TaskVerdict | None = None
        """Of the attempt whose result is being fetched."""
        self.answers_by_s = math.inf
        """Until when its answer must have come (time.monotonic); infinite while it owes none."""

    def ask(self, question: p.Question, limit_s: float = math.inf) -> None:
        self.answers_by_s = time.monotonic() + limit_s
        self.channel.send(p.line_of(question))

    def messages(self, data: bytes) -> Iterator[p.Answer | bytes]:
        """Yield the answers, and the results after them, that are whole now."""
        self.buffer += data
        while self.buffer:
            if self.due:
                part, self.buffer = self.buffer[: self.due], self.buffer[self.due :]
                self.due -= len(part)
                self.result.append(part)
                if self.due == 0:
                    whole, self.result = b"".join(self.result), []
                    yield whole
                continue
            line, newline, rest = self.buffer.partition(b"\n")
            if not newline:
                return
            self.buffer = rest
            answer = msgspec.json.decode(line, type=p.Answer)
            if isinstance(answer, p.TaskResult):
                self.due = answer.size
            yield answer


class GangController:
    """The pool of one session (`Gangs` in run/gangs.py)."""

    def __init__(
        self,
        engine: PoolEngine,
        settings: PoolSettings,
        info: SessionInfo,
        ledger: Ledger,
        listener: GangListener,
    ) -> None:
        self.names = settings.names
        self._engine = engine
        self._settings = settings
        self._info = info
        self._ledger = ledger
        self._note = listener.note
        self._listener = listener
        self._place = pool_directory(ledger.study.path, ledger.session)
        self._plan = PoolPlan(settings, seed=int(info.options["token"], 16))
        self._tally = PoolTally()
        self._started_s = time.monotonic()
        self._leases: dict[str, Lease] = {}
        """The lease of each gang that waits or runs."""
        self._agents: dict[str, _Agent] = {}
        """The agents that have said hello or will, by gang."""
        self._silent_since_s: dict[str, float] = {}
        """Since when a running lease has no agent, by gang."""
        self._orders: dict[str, tuple[Task, str]] = {}
        """Each submitted task and its sample, by place."""
        self._running: dict[str, Attempt] = {}
        """The attempt that each gang runs."""
        self._surviving: dict[str, p.TaskVerdict | None] = {}
        """Attempts of an earlier controller whose task was not submitted yet, with the verdict, by
        place."""
        self._numbers: dict[str, int] = {}
        """The last attempt's number, by place."""
        self._ends: deque[TaskEnd] = deque()
        self._excluded: tuple[str, ...] = ()
        self._refusal: BenchError | None = None
        """Why a gang got no lease, or lost it without an attempt."""
        self._polled_s = 0.0
        self._until_s = math.inf
        """The deadline of the session (time.monotonic)."""
        self._is_interrupted = False
        self._wake, self._written = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake, selectors.EVENT_READ)

    # -- Gangs ----------------------------------------------------------------------------

    def parts(
        self, program: Program, defines: Mapping[str, str], environment: Mapping[str, str]
    ) -> tuple[Task, ...]:
        """Return the parts of a program. Raises InputError."""
        return parts_of(program, defines, environment)

    def expect(self, tasks: int, limit_s: float | None = None) -> None:
        """Note the number of tasks of the whole session, and the time until its deadline [s]."""
        until_ns = 0
        if limit_s is not None:
            self._until_s = time.monotonic() + limit_s
            until_ns = time.time_ns() + round(limit_s * 1e9)
        planned = self._tally.planned = PlannedTasks(tasks=tasks, until_ns=until_ns)
        starts = self._ledger.count(lambda key: key.startswith(PLANNED_KEYS))
        self._ledger.note(planned_key(starts + 1), planned)

    def submit(self, task: Task, wanted: str = "") -> None:
        """Have a task run by the first free gang."""
        self._orders[task.place] = (task, wanted)
        if task.place not in self._surviving:
            self._plan.add([task])
            return
        verdict = self._surviving.pop(task.place)
        gang = next(g for g, a in self._running.items() if a.place == task.place)
        self._plan.add_running(task, gang)
        if verdict is not None and gang in self._agents:
            self._task_ended(self._agents[gang], verdict)

    def next_end(self) -> TaskEnd:
        """Wait until a task has ended. Raises Interrupted, BenchError, StudyError, DeadlineReached."""
        while not self._ends:
            if time.monotonic() < self._until_s:
                self._act()
            elif all(agent.verdict is None for agent in self._agents.values()):
                names = ", ".join(sorted(attempt.name for attempt in self._running.values()))
                if names:
                    self._note(f"the deadline came; void: {names}")
                self._void_all(VoidReason.DEADLINE, "the deadline came while it ran")
                raise DeadlineReached
            # Otherwise a result is on its way.
            if not self._ends:
                self._wait()
        return self._ends.popleft()

    def _void_all(self, void: VoidReason, detail: str) -> None:
        """Record that the attempts that run do not count, before the session ends."""
        while self._running:
            _, attempt = self._running.popitem()
            self._record_void(attempt, void, detail)

    def interrupt(self) -> None:
        """Make `next_end` raise Interrupted."""
        self._is_interrupted = True
        with contextlib.suppress(OSError):
            os.write(self._written, b"!")

    def findings(self) -> tuple[Finding, ...]:
        """Return a finding for each excluded host, and one for hosts that are no replicates."""
        excluded = tuple(
            make_finding("pool-host-excluded", host, "two attempts of tasks were void on it")
            for host in self._excluded
        )
        if self._settings.engine is not PoolKind.LOCAL or not self._plan.measures_hosts:
            return excluded
        evidence = "the replicates of host ran on one machine, so how hosts differ is not in them"
        return (*excluded, make_finding("pool-hosts-share-machine", "host", evidence))

    # -- start and end --------------------------------------------------------------------

    def start(self) -> None:
        """Find the leases and the attempts that a killed controller left. Raises BenchError."""
        record = pool_record(self._ledger.study, self._ledger.session)
        unfinished: dict[str, Attempt] = {}
        """The attempts that ran when the controller ended, by the names of their leases."""
        for attempt in record.attempts.values():
            self._numbers[attempt.place] = attempt.number
            self._tally.add(attempt)
            if attempt.is_recorded:
                self._plan.add_recorded(attempt)
            if not attempt.ended_ns:
                unfinished[attempt.lease] = attempt
        found = {lease.name: lease for lease in self._engine.existing()}
        for lease in record.leases.values():
            if lease.name in found:
                continue
            if lease.state is not LeaseState.ENDED:
                state = self._engine.state(lease)
                lease = msgspec.structs.replace(state, state=LeaseState.ENDED)
                self._ended_before(lease, unfinished.pop(lease.name, None))
            self._plan.lease_changed(lease)
        for lease in found.values():
            attempt_or_none = unfinished.pop(lease.name, None)
            if lease.state is LeaseState.WAITING and attempt_or_none is not None:
                detail = f"job {lease.job} waits to be started again"
                ended = self._engine_closed(lease, VoidReason.CANCELLED, detail)
                self._ended_before(ended, attempt_or_none)
                self._plan.lease_changed(ended)
                continue
            if attempt_or_none is not None:
                self._continue(attempt_or_none)
            # Until its agent says hello, which may take a while.
            waits = msgspec.structs.replace(lease, state=LeaseState.WAITING)
            self._leases[lease.gang] = waits
            self._plan.lease_changed(waits)
        for attempt in unfinished.values():
            detail = "no gang has it any more"
            self._record_void(attempt, VoidReason.AGENT_LOST, detail)
        if self._surviving:
            names = ", ".join(sorted(one.name for one in self._running.values()))
            self._note(f"continued with what the gangs run: {names}")

    def _continue(self, attempt: Attempt) -> None:
        """Wait for the end of an attempt that an earlier controller began."""
        self._running[attempt.gang] = attempt
        self._surviving[attempt.place] = None
        stub = Task(place=attempt.place, name=attempt.name, prefixes=())
        self._plan.add_running(stub, attempt.gang)

    def _ended_before(self, lease: Lease, attempt: Attempt | None) -> None:
        """Record a lease that ended without a controller, and the attempt that ran in it."""
        if attempt is not None:
            void = lease.ended or VoidReason.AGENT_LOST
            self._record_void(attempt, void, lease.detail, lease.failed_host)
        self._ledger.note(lease_key(lease.name, ended=True), lease)

    def close(self) -> None:
        """End all leases; attempts that run are void."""
        with contextlib.suppress(OperatingError):
            self._void_all(VoidReason.CANCELLED, "the session ended")
        self._running.clear()
        # Every lease is closed, even if the engine does not answer or the journal's disk is full.
        for lease in list(self._leases.values()):
            with contextlib.suppress(OperatingError):
                self._engine_closed(lease)
            with contextlib.suppress(OperatingError):
                ended = msgspec.structs.replace(lease, state=LeaseState.ENDED)
                self._lease_ended(ended)
        self._selector.close()
        wake, written, self._written = self._wake, self._written, -1
        os.close(wake)
        os.close(written)

    def _engine_closed(
        self, lease: Lease, why: VoidReason | None = None, detail: str = ""
    ) -> Lease:
        """Close a lease at the engine, and return it as ended; `why`: if that was not the plan's
        decision."""
        self._disconnect(lease.gang)
        self._engine.close(lease)
        ended = msgspec.structs.replace(lease, state=LeaseState.ENDED)
        if why is None:
            return ended
        return msgspec.structs.replace(ended, ended=why, detail=detail)

    # -- what happens ---------------------------------------------------------------------

    def _wait(self) -> None:
        """Wait for the next event of an agent, or until the engine is to be asked."""
        if self._is_interrupted:
            raise Interrupted
        asks = any(gang not in self._agents for gang in self._leases)
        wait_s = _POLL_S if asks else math.inf
        if (left_s := self._until_s - time.monotonic()) > 0:
            wait_s = min(wait_s, left_s)
        for agent in self._agents.values():
            wait_s = min(wait_s, max(0.0, agent.answers_by_s - time.monotonic()))
        for key, _ in self._selector.select(wait_s if wait_s < math.inf else None):
            if key.data is not None:
                self._hear(key.data)
        if self._is_interrupted:
            raise Interrupted
        for agent in list(self._agents.values()):
            if time.monotonic() > agent.answers_by_s:
                detail = "the agent does not answer"
                self._close(agent.lease, VoidReason.HOST_LOST, detail)
        now_s = time.monotonic()
        if asks and now_s - self._polled_s >= _POLL_S:
            self._polled_s = now_s
            for lease in list(self._leases.values()):
                if lease.gang not in self._agents:
                    self._poll(lease, now_s)

    def _poll(self, lease: Lease, now_s: float) -> None:
        """Ask the engine about a lease without an agent; connect to the agent if it runs."""
        before = lease
        lease = self._leases[lease.gang] = self._engine.state(lease)
        if lease.state is LeaseState.WAITING and lease.detail != before.detail:
            self._note(f"gang {lease.gang} waits: {lease.detail}")
        if lease.state is LeaseState.ENDED:
            self._lease_ended(lease)
        elif lease.state is LeaseState.RUNNING:
            since_s = self._silent_since_s.setdefault(lease.gang, now_s)
            if self._connected(lease) is None and now_s - since_s > _SILENT_S:
                detail = f"the agent could not be reached for {_SILENT_S:g} s"
                self._close(lease, VoidReason.HOST_LOST, detail)

    def _close(self, lease: Lease, why: VoidReason, detail: str) -> None:
        """Close a lease that is of no use any more."""
        self._lease_ended(self._engine_closed(lease, why, detail))

    def _connected(self, lease: Lease) -> _Agent | None:
        """Open the channel to the agent of a lease and ask it hello; None if it does not answer."""
        try:
            agent = _Agent(lease, self._engine.channel(lease))
            agent.ask(p.AskHello(), _SILENT_S)
        except OSError:
            return None
        self._agents[lease.gang] = agent
        self._selector.register(agent.channel, selectors.EVENT_READ, agent)
        return agent

    def _disconnect(self, gang: str) -> None:
        agent = self._agents.pop(gang, None)
        if agent is not None:
            self._selector.unregister(agent.channel)
            agent.channel.close()

    def _hear(self, agent: _Agent) -> None:
        gang = agent.lease.gang
        try:
            data = agent.channel.receive()
            if data:
                for answer in agent.messages(data):
                    self._answered(agent, answer)
                return
        except (OSError, msgspec.MsgspecError):
            pass
        # The end of the channel: the next poll shows whether the agent is gone.
        self._disconnect(gang)
        self._wait_for_lease(agent)
        self._silent_since_s[gang] = time.monotonic()
        self._polled_s = 0.0

    def _wait_for_lease(self, agent: _Agent) -> None:
        """Give the gang no task until its agent says hello again, or its lease has ended."""
        waits = msgspec.structs.replace(agent.lease, state=LeaseState.WAITING)
        self._leases[waits.gang] = waits
        self._plan.lease_changed(waits)

    def _answered(self, agent: _Agent, answer: p.Answer | bytes) -> None:
        match answer:
            case p.AgentHello():
                self._hello(agent, answer)
            case p.TaskEnded(verdict, ends):
                if ends:
                    self._wait_for_lease(agent)
                self._task_ended(agent, verdict)
            case p.TaskResult(_, 0):
                self._collected(agent, b"")
            case bytes():
                self._collected(agent, answer)

    def _hello(self, agent: _Agent, hello: p.AgentHello) -> None:
        """An agent can be reached: for the first time, or again."""
        number = 1 + self._settings.clients
        if len(hello.hosts) != number:
            known = plural(len(hello.hosts), "host")
            detail = f"the agent knows of {known}, not {number}"
            self._close(agent.lease, VoidReason.HOST_LOST, detail)
            return
        gang = agent.lease.gang
        if hello.version != __version__:
            detail = f"its agent is Benchwright {hello.version}, not {__version__}"
            self._close(agent.lease, VoidReason.AGENT_LOST, detail)
            return
        self._silent_since_s.pop(gang, None)
        agent.answers_by_s = math.inf
        attempt = self._running.get(gang)
        if hello.running and (attempt is None or attempt.id != hello.running):
            # The session ended while Slurm did not answer, and could not end the job.
            detail = f"its agent runs attempt {hello.running}, which is void"
            self._close(agent.lease, VoidReason.CANCELLED, detail)
            return
        lease = msgspec.structs.replace(agent.lease, hosts=hello.hosts)
        agent.lease = self._leases[gang] = lease
        self._ledger.note(lease_key(lease.name, ended=False), lease)
        self._plan.lease_changed(lease)
        if attempt is None or attempt.id == hello.running:
            return
        ended = {verdict.id: verdict for verdict in hello.verdicts}.get(attempt.id)
        if ended is None:
            detail = "the agent does not have the task any more"
            ended = p.TaskVerdict(id=attempt.id, void=VoidReason.AGENT_LOST, detail=detail)
        self._task_ended(agent, ended)

    def _lease_ended(self, lease: Lease) -> None:
        gang = lease.gang
        self._disconnect(gang)
        del self._leases[gang]
        attempt = self._running.pop(gang, None)
        if attempt is not None:
            void = lease.ended or VoidReason.AGENT_LOST
            self._void(attempt, void, lease.detail, lease.failed_host)
        elif lease.ended is not None:
            if lease.ended is not VoidReason.LEASE_ENDED:
                self._note(f"gang {gang}: {lease.detail}")
            message = f"no gang is left; the last lease was of {gang}: {lease.detail}"
            self._refusal = BenchError("pool-no-gang", message)
        self._ledger.note(lease_key(lease.name, ended=True), lease)
        self._plan.lease_changed(lease)

    # -- attempts -------------------------------------------------------------------------

    def _task_ended(self, agent: _Agent, verdict: p.TaskVerdict) -> None:
        attempt = self._running.get(agent.lease.gang)
        if attempt is None or attempt.id != verdict.id:
            return
        if attempt.place in self._surviving:
            self._surviving[attempt.place] = verdict
        elif verdict.size and verdict.void in (None, VoidReason.SERVER_FAILED):
            agent.verdict = verdict
            self._send(agent, p.FetchTask(verdict.id), _COLLECT_S)
        else:
            void = verdict.void or VoidReason.DAMAGED
            self._end(agent, attempt, void, verdict)

    def _collected(self, agent: _Agent, result: bytes) -> None:
        """Record the attempt whose result has come."""
        attempt, verdict = self._running.get(agent.lease.gang), agent.verdict
        if attempt is None or verdict is None:
            return
        agent.verdict, agent.answers_by_s = None, math.inf
        try:
            study = unpack(result, verdict, self._place / attempt.id)
            if verdict.void is None:
                ended = msgspec.structs.replace(attempt, ended_ns=time.time_ns())
                task, _ = self._orders[attempt.place]
                path, session = self._ledger.study.path, self._ledger.session
                if task.replicate is not None:
                    # Its files first: the records say where they are.
                    logs = append_files(study, path, session)
                    adopt(self._ledger, ended, task.prefixes, study, logs)
                    self._recorded(agent, ended)
                    return
                adopt(self._ledger, ended, task.prefixes, study)
                if session_kind(self._info.kind) is None:
                    # Names of tests are unique in a session; other parts number their files from 1.
                    with contextlib.suppress(OSError):
                        move_files(study, path, session)
                self._recorded(agent, ended)
                return
            void, detail = verdict.void, verdict.detail
        except Damaged as damage:
            void, detail = VoidReason.DAMAGED, str(damage)
        except OSError as error:
            message = f"cannot collect {attempt.name} into {self._place}: {error.strerror}"
            raise StudyError(UNWRITABLE, message, "make room, then `bw resume`") from None
        self._end(agent, attempt, void, msgspec.structs.replace(verdict, detail=detail))

    def _recorded(self, agent: _Agent, attempt: Attempt) -> None:
        del self._running[attempt.gang]
        self._plan.attempt_ended(attempt)
        task, _ = self._orders[attempt.place]
        self._ends.append(self._task_end(task, attempt))
        self._send(agent, p.ForgetTask(attempt.id))
        self._tally.add(attempt)
        self._progressed()

    def _end(
        self, agent: _Agent, attempt: Attempt, void: VoidReason, verdict: p.TaskVerdict
    ) -> None:
        """End a void attempt whose agent is there."""
        del self._running[attempt.gang]
        self._void(attempt, void, verdict.detail, verdict.failed_host)
        self._send(agent, p.ForgetTask(attempt.id))
        # A study that cannot be written has this status too.
        if verdict.status == _BAD_INPUT and void is VoidReason.SERVER_FAILED:
            message = f"{attempt.name} on gang {attempt.gang}: {verdict.detail}"
            raise BenchError("pool-task", message)

    def _void(self, attempt: Attempt, void: VoidReason, detail: str, failed_host: str = "") -> None:
        self._plan.attempt_ended(self._record_void(attempt, void, detail, failed_host))
        if attempt.place in self._surviving:
            # Its task has not been submitted yet.
            del self._surviving[attempt.place]
            self._plan.drop(attempt.place)
        where = f"{attempt.name} on gang {attempt.gang}"
        self._note(f"{where} is void: {void}" + (f" ({detail})" if detail else ""))
        self._progressed()
        for host in self._plan.excluded:
            if host not in self._excluded:
                self._note(f"host {host} is excluded after two void attempts")
        self._excluded = self._plan.excluded

    def _record_void(
        self, attempt: Attempt, void: VoidReason, detail: str, failed_host: str = ""
    ) -> Attempt:
        ended = msgspec.structs.replace(
            attempt, ended_ns=time.time_ns(), void=void, detail=detail, failed_host=failed_host
        )
        self._ledger.note(attempt_key(attempt.id, "ended"), ended)
        self._tally.add(ended)
        return ended

    def _progressed(self) -> None:
        """Show how far the session is."""
        leases = self._leases.values()
        gangs = sum(lease.state is LeaseState.RUNNING for lease in leases)
        progress = self._tally.progress(gangs or len(self.names), time.time_ns())
        elapsed_s = time.monotonic() - self._started_s
        self._listener.status(status_text(progress, elapsed_s), progress.fraction, elapsed_s)

    def _task_end(self, task: Task, attempt: Attempt) -> TaskEnd:
        is_own = attempt.void is VoidReason.SERVER_FAILED
        return TaskEnd(
            task,
            attempt.gang,
            self._place / attempt.id / "study",
            None if attempt.void is None else _gave_up(attempt),
            attempt.detail if is_own else None,
        )

    # -- what to do -----------------------------------------------------------------------

    def _act(self) -> None:
        """Do what the plan decides, until it decides nothing more. Raises BenchError."""
        while actions := self._plan.next_actions(time.time_ns()):
            for action in actions:
                match action:
                    case OpenLease():
                        self._open(action)
                    case CloseLease(lease):
                        self._lease_ended(self._engine_closed(lease))
                    case AssignTask():
                        self._assign(action)
                    case GiveUp(task, None):
                        raise self._refusal or BenchError(
                            "pool-no-gang", f"no gang is left that can run {task.name}"
                        )
                    case GiveUp(task, last):
                        assert last is not None
                        self._ends.append(self._task_end(task, last))

    def _open(self, action: OpenLease) -> None:
        try:
            lease = self._engine.open(action.gang, action.number, action.excluded)
        except BenchError as error:
            self._refusal = error
            self._note(f"gang {action.gang}: {error.message}")
            self._plan.lease_refused(action.gang)
            return
        self._leases[action.gang] = lease
        self._plan.lease_changed(lease)
        self._polled_s = 0.0

    def _assign(self, action: AssignTask) -> None:
        task, wanted = self._orders[action.task.place]
        lease = action.lease
        number = self._numbers[task.place] = self._numbers.get(task.place, 0) + 1
        attempt = Attempt(
            place=task.place,
            name=task.name,
            number=number,
            gang=lease.gang,
            lease=lease.name,
            hosts=lease.hosts,
            prefixes=task.prefixes,
            replicate=task.replicate,
            began_ns=time.time_ns(),
        )
        self._ledger.note(attempt_key(attempt.id, "begun"), attempt)
        self._running[lease.gang] = attempt
        self._tally.add(attempt)
        left_s = self._until_s - time.monotonic()
        order = p.TaskOrder(
            attempt=attempt,
            info=_info_of_task(self._info),
            prefixes=task.prefixes,
            keys=task.keys,
            replicate=task.replicate,
            testroot=str(self._ledger.study.path / "testroot"),
            wanted=wanted,
            left_s=left_s if left_s < math.inf else None,
            clients=self._engine.clients(lease),
        )
        self._send(self._agents[lease.gang], p.RunTask(order))
        self._progressed()

    def _send(self, agent: _Agent, question: p.Question, limit_s: float = math.inf) -> None:
        """Send a question; if the agent is gone, the end of its channel shows it."""
        with contextlib.suppress(OSError):
            agent.ask(question, limit_s)


def _gave_up(attempt: Attempt) -> BenchError:
    """Return the error for a task whose attempts were all void; this is the last one."""
    return BenchError(
        "pool-gave-up",
        f"{attempt.name} was void in {plural(attempt.number, 'attempt')}, the last one on "
        f"gang {attempt.gang}: {attempt.void} ({attempt.detail})",
        "`bw resume` tries again",
    )


def _info_of_task(info: SessionInfo) -> SessionInfo:
    """Return what the session of a task stores: a token of its own, no notices and no pool."""
    options = {
        key: value for key, value in info.options.items() if key not in (POOL_OPTION, NOTIFY_OPTION)
    }
    options["token"] = os.urandom(8).hex()
    return msgspec.structs.replace(info, options=options)
