"""The sample that a search is made at: one level of each factor, chosen by `-P`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchwright.model.plan import Pairs
from benchwright.suite.option_reading import OptionReading
from benchwright.workbench.spec import Spec


class SampleReading(OptionReading):
    """Options being read, the sample's among them."""

    def _sample(self, words: Sequence[str], spec: Spec | None) -> Pairs:
        """Return one level of each factor: that of -P, else the spec's first."""
        factors = dict(spec.factors) if spec is not None else {}
        chosen: dict[str, str] = {}
        for word in words:
            name, equals, level = word.partition("=")
            fault = _fault_of_level(name, level if equals else None, factors, spec)
            if name in chosen:
                fault = (f"factor {name} is given twice", "leave one out")
            if fault is not None:
                self._wrong("-P", word, *fault)
            chosen[name] = level
        own = {name: levels[0] for name, levels in factors.items()}
        return tuple({**own, **chosen}.items())


def _fault_of_level(
    name: str,
    level: str | None,
    factors: Mapping[str, tuple[str, ...]],
    spec: Spec | None,
) -> tuple[str, str] | None:
    """Return what is wrong with one -P, and what to do; None where nothing is."""
    if level is None or not name or not level:
        return "it does not choose a level", "write -P FACTOR=LEVEL"
    if spec is None:
        return None
    if name not in factors:
        known = ", ".join(factors) or "none"
        return f"{spec.file} has no factor {name!r}", f"its factors are: {known}"
    if level not in factors[name]:
        known = ", ".join(factors[name])
        return f"factor {name} has no level {level!r}", f"its levels are: {known}"
    return None
