"""How a session ends before its program does."""

from __future__ import annotations


class Failed(Exception):
    """A command failed under FASTFAIL; the message says which."""

    def __init__(self, subject: str, reason: str) -> None:
        self.subject = subject
        self.reason = reason
        super().__init__(f"{subject}: {reason}")
