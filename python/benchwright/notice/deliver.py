"""Delivers a notice to each target: tries, pauses between them, and never for long.

Purpose: the one seam to the world is `Senders`; tests put their own in. Decision: each
target has a thread that nobody waits for longer than `Patience.most_s`, because a mail
server that answers a byte at a time passes every time limit of a socket. What is not
delivered is told, and changes nothing else.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from benchwright.core.notice import (
    AppriseTarget,
    CommandTarget,
    MailTarget,
    Notice,
    NoticeDelivery,
    NoticeSettings,
    NoticeTarget,
    WebhookTarget,
)
from benchwright.notice.failure import Undelivered
from benchwright.notice.text import described

Sender = Callable[[Notice, Mapping[str, str], float], None]


class Patience(msgspec.Struct, frozen=True):
    """How long is tried. All in seconds."""

    pauses_s: tuple[float, ...] = (1.0, 3.0)
    """Between tries: one try more than pauses."""
    answer_s: float = 10.0
    """For one answer of a server."""
    command_s: float = 30.0
    most_s: float = 60.0
    """For all of it."""


class World(msgspec.Struct, frozen=True):
    """What delivering touches, to be replaced in tests."""

    sender: Callable[[NoticeTarget], Sender]
    environment: Mapping[str, str]
    sleep: Callable[[float], None] = time.sleep


def real_world() -> World:
    """Return this machine's: its environment, and senders that really send."""
    return World(sender_of, os.environ)


def sender_of(target: NoticeTarget) -> Sender:
    """Return what sends to a target; only what that needs is imported."""
    match target:
        case MailTarget():
            from benchwright.notice import mail

            return lambda *rest: mail.send(target, *rest)
        case WebhookTarget():
            from benchwright.notice import webhook

            return lambda *rest: webhook.send(target, *rest)
        case CommandTarget():
            from benchwright.notice import command

            return lambda *rest: command.send(target, *rest)
        case AppriseTarget():
            from benchwright.notice import by_apprise

            return lambda *rest: by_apprise.send(target, *rest)


def deliver(
    notices: Sequence[NoticeSettings],
    notice: Notice,
    world: World | None = None,
    patience: Patience | None = None,
) -> tuple[NoticeDelivery, ...]:
    """Send a notice to every target that wants its event; return what became of each.

    Raises nothing: a KeyboardInterrupt gives up what is still under way.
    """
    world, patience = world or real_world(), patience or Patience()
    targets = dict.fromkeys(
        target
        for notify in notices
        if notify.wants(notice.event)
        for target in notify.targets
    )
    attempts = [_Attempt(target, notice, world, patience) for target in targets]
    late = "given up: no answer in time"
    try:
        _wait(attempts, patience.most_s)
    except KeyboardInterrupt:
        late = "given up: interrupted"
    return tuple(attempt.outcome(late) for attempt in attempts)


def _wait(attempts: Sequence[_Attempt], most_s: float) -> None:
    for attempt in attempts:
        attempt.start()
    end = time.monotonic() + most_s
    for attempt in attempts:
        attempt.join(max(0.0, end - time.monotonic()))


class _Attempt(threading.Thread):
    """One target being told. A daemon: it does not outlive bw, nor hold it up."""

    def __init__(
        self, target: NoticeTarget, notice: Notice, world: World, patience: Patience
    ) -> None:
        super().__init__(daemon=True)
        self._target = target
        self._notice = notice
        self._world = world
        self._patience = patience
        self._tries = 0
        self._delivery: NoticeDelivery | None = None

    def outcome(self, late: str) -> NoticeDelivery:
        """Return what became of it; `late` if that is not known yet."""
        name = described(self._target)
        return self._delivery or NoticeDelivery(name, self._tries, late)

    def run(self) -> None:
        """Try until it is taken, or no further try would help."""
        error = self._tried()
        for pause_s in self._patience.pauses_s:
            if error is None or not error.again:
                break
            self._world.sleep(pause_s)
            error = self._tried()
        name, why = described(self._target), "" if error is None else str(error)
        self._delivery = NoticeDelivery(name, self._tries, why)

    def _tried(self) -> Undelivered | None:
        self._tries += 1
        patience = self._patience
        command = isinstance(self._target, CommandTarget)
        limit_s = patience.command_s if command else patience.answer_s
        try:
            send = self._world.sender(self._target)
            send(self._notice, self._world.environment, limit_s)
        except Undelivered as error:
            return error
        except Exception as error:
            # A sender's bug is no reason to lose a result; its text may hold a secret.
            return Undelivered(f"it failed inside: {type(error).__name__}")
        return None
