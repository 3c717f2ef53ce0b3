"""Why a notice did not arrive."""

from __future__ import annotations


class Undelivered(Exception):
    """A notice was not taken; `again` when a later try may help."""

    def __init__(self, message: str, *, again: bool = False) -> None:
        super().__init__(message)
        self.again = again
