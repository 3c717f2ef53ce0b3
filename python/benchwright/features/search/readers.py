"""Reads the options of a search as values: its sample, and the question of a peak search.

Decision: `[peak]` of a spec has the same texts as the options of `bw peak`, and the same reader.
Read alone, its mistakes are at its keys; with options above it, each is where its text is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from benchwright.core.criterion import Criterion
from benchwright.core.plan import Pairs
from benchwright.features.load.criteria import parse_criterion
from benchwright.features.search.options import PeakRequest
from benchwright.features.search.spec import Spec
from benchwright.features.search.types import Claim, ClaimKind, PeakGoal, parse_claim
from benchwright.inputs.option_reader import OptionReader, R

# -- The sample of a search: one level of each factor, chosen by `-P` ------------------


class SampleReader(OptionReader[R]):
    """Reads options, including those of the sample."""

    def sample(self, words: Sequence[str], spec: Spec | None) -> Pairs:
        """Return one level of each factor: the one that -P gives, else the spec's first."""
        factors = dict(spec.factors) if spec is not None else {}
        chosen: dict[str, str] = {}
        for word in words:
            name, equals, level = word.partition("=")
            fault = _level_problem(name, level if equals else None, factors, spec)
            if name in chosen:
                fault = (f"factor {name} is given twice", "leave one out")
            if fault is not None:
                self.wrong("-P", word, *fault)
            chosen[name] = level
        own = {name: levels[0] for name, levels in factors.items()}
        return tuple({**own, **chosen}.items())


def _level_problem(
    name: str, level: str | None, factors: Mapping[str, tuple[str, ...]], spec: Spec | None
) -> tuple[str, str] | None:
    """Return what is wrong with one -P, and what to do; None if it is valid."""
    if level is None or not name or not level:
        return "it does not name a level", "write -P FACTOR=LEVEL"
    if spec is None:
        return None
    if name not in factors:
        known = ", ".join(factors) or "none"
        return f"{spec.file} has no factor {name!r}", f"its factors are: {known}"
    if level not in factors[name]:
        known = ", ".join(factors[name])
        return f"factor {name} has no level {level!r}", f"its levels are: {known}"
    return None


# -- The question of a peak search -----------------------------------------------------


class PeakReader(SampleReader[PeakRequest]):
    """Reads what is asked of a peak search; collects mistakes in `found`."""

    def goal(self) -> PeakGoal | None:
        """Return the goal; None without a criterion."""
        criteria, claims, fields = self.criteria(), self.claims(), self.fields()
        self.value("policy")
        bounds = (fields.get(f"{name}_rate") for name in ("lowest", "start", "highest"))
        self.check_rates(*bounds)
        return PeakGoal(criteria=criteria, claim=claims[0], **fields) if criteria else None

    def criteria(self) -> tuple[Criterion, ...]:
        """Return the limits; none after a mistake in them."""
        found: dict[str, Criterion] = {}
        for text in self.request.limits:
            criterion = self.parsed("--limit", text, parse_criterion)
            if criterion is not None and criterion.key in found:
                hint = "the stricter one is enough"
                self.wrong("--limit", text, f"{criterion.key} has two limits", hint)
            elif criterion is not None:
                found[criterion.key] = criterion
        return tuple(found.values()) if len(found) == len(self.request.limits) else ()

    def claims(self) -> tuple[Claim, ...]:
        """Return the claims to answer, or the default; at least one."""
        text, found = self.request.claim or "", []
        for part in [] if self.request.claim is None else text.split(","):
            try:
                found.append(parse_claim(part))
            except ValueError as error:
                hint = "separate several with commas: region:10%,rate:5%"
                offset = max(text.find(part.strip()), 0)
                self.wrong("--claim", text, str(error), hint, offset)
        if len(set(found)) < len(found):
            self.wrong("--claim", text, "a claim is given twice", "leave one out")
        confidence = self.value("confidence")
        return tuple(
            claim
            # `slo` has its own confidence.
            if confidence is None or claim.kind is ClaimKind.SLO
            else msgspec.structs.replace(claim, confidence=confidence)
            for claim in found or (Claim(),)
        )

    def check_rates(self, low: float | None, start: float | None, high: float | None) -> None:
        """Report rates that are not in order."""
        hint = "set the first rate too"
        lowest, highest = self.request.lowest or "", self.request.highest or ""
        if low is not None and start is not None and low > start:
            message = f"the lowest rate is above the first one, {start:g}/s"
            self.wrong("--lowest", lowest, message, hint)
        if high is not None and start is not None and high < start:
            message = f"the highest rate is below the first one, {start:g}/s"
            self.wrong("--highest", highest, message, hint)
        elif start is None and low is not None and high is not None and low >= high:
            message = f"highest ({high:g}/s) is below lowest ({low:g}/s)"
            self.wrong("--highest", highest, message)
