"""A controller that continues after another one, with an engine and an agent that a test makes up."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from benchwright import __version__
from benchwright.core.errors import BenchError
from benchwright.features.pool import controller as module
from benchwright.features.pool import protocol as p
from benchwright.features.pool.controller import GangController
from benchwright.features.pool.keys import attempt_key, lease_key
from benchwright.features.pool.stored import pool_record
from benchwright.features.pool.types import (
    Attempt,
    Lease,
    LeaseState,
    PoolKind,
    PoolSettings,
    VoidReason,
)
from benchwright.run.gangs import Task
from benchwright.run.ledger import Ledger
from benchwright.study.journal import Study
from session_infos import session_info

SETTINGS = PoolSettings(engine=PoolKind.SLURM, gangs=1, retries=0)
LEASE = Lease(gang="g1", number=1, job="7", hosts=("h1",), state=LeaseState.RUNNING, ends_ns=0)
ATTEMPT = Attempt(
    place="1", name="search 1", number=1, gang="g1", lease="g1.1", hosts=("h1",), began_ns=1
)
TASK = Task(place="1", name="search 1", prefixes=("search/1/",))


class Agent:
    """A channel to an agent that answers at once."""

    def __init__(self, hello: p.AgentHello) -> None:
        self._hello = hello
        self._here, self._there = socket.socketpair()

    def fileno(self) -> int:
        return self._here.fileno()

    def send(self, data: bytes) -> None:
        question = msgspec.json.decode(data, type=p.Question)
        if isinstance(question, p.AskHello):
            self._there.sendall(p.line_of(self._hello))

    def receive(self) -> bytes:
        return self._here.recv(1 << 16)

    def close(self) -> None:
        self._here.close()
        self._there.close()


class Engine:
    """One gang, whose agent can be reached after some attempts."""

    def __init__(self, now: Lease, hello: p.AgentHello | None = None, unreachable: int = 0) -> None:
        self._now = now
        self._hello = hello
        self._unreachable = unreachable
        self.closed: list[str] = []

    def existing(self) -> Sequence[Lease]:
        return () if self._now.state is LeaseState.ENDED else (self._now,)

    def open(self, gang: str, number: int, excluded: Sequence[str]) -> Lease:
        raise BenchError("slurm-refused", "no other lease here")

    def state(self, lease: Lease) -> Lease:
        return self._now

    def channel(self, lease: Lease) -> Agent:
        self._unreachable -= 1
        if self._unreachable >= 0 or self._hello is None:
            raise ConnectionError("srun: error: Unable to create step")
        return Agent(self._hello)

    def clients(self, lease: Lease) -> None:
        """Return None: the gang is one host."""

    def close(self, lease: Lease) -> None:
        self.closed.append(lease.job)


class Silent:
    """Shows nothing."""

    def note(self, text: str) -> None:
        """Show nothing."""

    def status(self, text: str, fraction: float | None, elapsed_s: float) -> None:
        """Show nothing."""


def hello(**members: object) -> p.AgentHello:
    known: dict[str, object] = {
        "protocol": p.PROTOCOL,
        "version": __version__,
        "pid": 1,
        "hosts": ("h1",),
        "running": "",
        "verdicts": (),
    }
    return msgspec.convert(known | members, p.AgentHello)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Return the journal of a session whose controller was killed while an attempt ran."""
    info = session_info(options={"token": "0" * 16}, kind="surface")
    with contextlib.closing(Study.create_or_open(tmp_path / "st")) as study:
        made = Ledger(study, study.begin_session(info))
        made.note(lease_key("g1.1", ended=False), LEASE)
        made.note(attempt_key("1.1", "begun"), ATTEMPT)
        yield made


def continued(ledger: Ledger, engine: Engine) -> GangController:
    """Return a controller that has found what the one before left."""
    info = next(iter(ledger.study.sessions())).info
    made = GangController(engine, SETTINGS, info, ledger, Silent())
    made.start()
    return made


def attempt_of(ledger: Ledger) -> Attempt:
    return pool_record(ledger.study, ledger.session).attempts["1.1"]


def test_an_agent_that_cannot_be_reached_at_once_is_waited_for(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_POLL_S", 0.001)
    verdict = p.TaskVerdict(id="1.1", void=VoidReason.SUSPENDED, detail="for 2 s")
    engine = Engine(LEASE, hello(verdicts=(verdict,)), unreachable=3)
    controller = continued(ledger, engine)
    assert not attempt_of(ledger).ended_ns
    controller.submit(TASK)
    end, attempt = controller.next_end(), attempt_of(ledger)
    assert end.gave_up is not None
    assert end.failure is None
    assert (attempt.void, attempt.detail) == (VoidReason.SUSPENDED, "for 2 s")
    controller.close()


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        ({"state": LeaseState.ENDED, "ended": VoidReason.PREEMPTED}, "preempted"),
        ({"state": LeaseState.ENDED, "ended": VoidReason.HOST_LOST}, "host-lost"),
        ({"state": LeaseState.ENDED}, "agent-lost"),
        ({"state": LeaseState.WAITING}, "cancelled"),
    ],
)
def test_a_lease_that_ended_without_a_controller_gives_its_reason(
    ledger: Ledger, now: dict[str, object], reason: str
) -> None:
    controller = continued(ledger, Engine(msgspec.structs.replace(LEASE, **now)))
    assert attempt_of(ledger).void == reason
    assert pool_record(ledger.study, ledger.session).leases["g1"].state == "ended"
    controller.close()


def test_an_agent_of_another_version_is_not_used(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_POLL_S", 0.001)
    controller = continued(ledger, Engine(LEASE, hello(version="0.0", running="1.1")))
    controller.submit(TASK)
    assert controller.next_end().gave_up is not None
    attempt = attempt_of(ledger)
    assert attempt.void is VoidReason.AGENT_LOST
    assert "Benchwright 0.0" in attempt.detail
    controller.close()


def test_an_agent_that_runs_a_void_attempt_gets_no_task(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller before could not end the job, because Slurm did not answer."""
    monkeypatch.setattr(module, "_POLL_S", 0.001)
    void = {"ended_ns": 2, "void": VoidReason.CANCELLED}
    ended = msgspec.structs.replace(ATTEMPT, **void)
    ledger.note(attempt_key("1.1", "ended"), ended)
    engine = Engine(LEASE, hello(running="1.1"))
    controller = continued(ledger, engine)
    controller.submit(TASK)
    with pytest.raises(BenchError, match="no other lease here"):
        controller.next_end()
    assert engine.closed == ["7"]
    controller.close()


@pytest.mark.parametrize(
    ("void", "ends_session"), [(VoidReason.DISK_FULL, False), (VoidReason.SERVER_FAILED, True)]
)
def test_bad_input_ends_the_session_and_a_full_disk_does_not(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, void: VoidReason, ends_session: bool
) -> None:
    """A host's study that cannot be written ends its session with the exit status of bad input."""
    monkeypatch.setattr(module, "_POLL_S", 0.001)
    verdict = p.TaskVerdict(id="1.1", void=void, detail="it is full", status=2)
    controller = continued(ledger, Engine(LEASE, hello(verdicts=(verdict,))))
    controller.submit(TASK)
    if ends_session:
        with pytest.raises(BenchError, match="it is full"):
            controller.next_end()
    else:
        assert controller.next_end().gave_up is not None
        assert attempt_of(ledger).void is void
    controller.close()
