"""What the journal keeps of a search: its trials, a peak search's answer; how it is written.

Decision: figures that are not finite are kept as words (`"inf"`), because JSON has none
and a percentile over every limit is one; a null lost, it would come back as a mistake.
What a policy sees is always what was read back, so a live search and a resumed one see
the same bits.
"""

from __future__ import annotations

import math
from typing import TypeVar

import msgspec

from benchwright.model.peak import LoadTrial, PeakResult, PeakStatus, Probe
from benchwright.model.plan import Pairs

Kept = TypeVar("Kept")


class SearchTrial(msgspec.Struct, frozen=True):
    """A probe and what it came to, at one sample."""

    number: int
    """1 is the search's first; those that were forgotten are counted too."""
    probe: Probe
    trial: LoadTrial
    sample: Pairs = ()


class PeakAnswer(msgspec.Struct, frozen=True):
    """What a peak search came to, claim by claim, in the order asked for."""

    claims: tuple[PeakResult, ...]
    """All from the same trials; one where a single thing was claimed."""

    def __post_init__(self) -> None:
        assert self.claims

    @property
    def first(self) -> PeakResult:
        """The result that the answer is named by."""
        return self.claims[0]

    @property
    def deciding(self) -> PeakResult:
        """The first that was not found, else the first of all: why the search ended."""
        missed = (one for one in self.claims if one.status is not PeakStatus.FOUND)
        return next(missed, self.first)


def kept(value: object) -> msgspec.Raw:
    """Return a value of the model as JSON that loses no figure."""
    return msgspec.Raw(msgspec.json.encode(_finite(msgspec.to_builtins(value))))


def read_kept(text: msgspec.Raw | bytes, kind: type[Kept]) -> Kept:
    """Return the value that `kept` wrote. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(text, type=kind, strict=False)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value
