"""The difference of two arms' profiles as one flame graph, and as a list.

Decision: a frame is as wide as the mean of its shares in both arms, so that what vanished is
seen as well as what is new; red where the candidate spends more of its time, blue where
less, grey where the difference is within what samples alone would give. Shares, not
samples: arms run for different times. The whole time of an arm is not in the picture: its
verdict is. Source: Gregg, Differential Flame Graphs, 2014.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import msgspec

from benchwright.model.profiled import KERNEL, Folded
from benchwright.report.flame import NARROWEST_PX, Frame, Placed, boxed, label, placed
from benchwright.report.flame_page import WIDTH_PX, Box, page

_GREY = "rgb(222,222,222)"
_FULL = 0.10
"""The difference of shares that has the full colour."""
_ERRORS = 3.0
"""Standard errors of the difference within which it is grey."""


class Change(msgspec.Struct, frozen=True):
    """How much of each arm's time a function took itself."""

    name: str
    kernel: bool
    baseline_share: float
    candidate_share: float
    beyond_noise: bool
    """Whether it is more than the samples' own scatter explains."""


def difference_svg(baseline: Folded, candidate: Folded, names: tuple[str, str]) -> str:
    """Return the difference as a whole SVG document; `names`: baseline's, candidate's.

    Raises ValueError where an arm has no samples: there is nothing to compare.
    """
    before, after = _totals(baseline, candidate)
    root = Frame("all")
    for stack in {*baseline.counts, *candidate.counts}:
        # Both arms get the same weight: counts are scaled to the product of the totals.
        old = baseline.counts.get(stack, 0) * after
        new = candidate.counts.get(stack, 0) * before
        root.add(stack, old + new, old)
    narrowest = root.samples * NARROWEST_PX / WIDTH_PX
    boxes = [_box(one, (before, after)) for one in placed(root, narrowest)]
    title = f"{names[1]} (candidate) against {names[0]} (baseline)"
    subtitle = (
        f"red: more of the candidate's time, blue: less, grey: within the noise of "
        f"{before:,} and {after:,} samples; width is the mean of both shares"
    )
    return page(title, subtitle, boxes, root.samples)


def changes(baseline: Folded, candidate: Folded) -> list[Change]:
    """Return each function's own share in both arms, the largest difference first."""
    before, after = _totals(baseline, candidate)
    old, new = _leaves(baseline), _leaves(candidate)
    found = [
        Change(
            label(name),
            name.endswith(KERNEL),
            old[name] / before,
            new[name] / after,
            _is_beyond_noise(old[name], new[name], (before, after)),
        )
        for name in {*old, *new}
    ]
    return sorted(
        found, key=lambda c: (-abs(c.candidate_share - c.baseline_share), c.name)
    )


def change_lines(found: list[Change], most: int = 5) -> Iterator[str]:
    """Yield the changes beyond noise for the terminal, at most `most`."""
    for change in [c for c in found if c.beyond_noise][:most]:
        moved = 100 * (change.candidate_share - change.baseline_share)
        kernel = " (kernel)" if change.kernel else ""
        yield (
            f"{change.name}{kernel}: {100 * change.baseline_share:.1f} % -> "
            f"{100 * change.candidate_share:.1f} % of the time ({moved:+.1f} points)"
        )


def _box(one: Placed, totals: tuple[int, int]) -> Box:
    frame, (before, after) = one.frame, totals
    old, new = (
        round(frame.before / after),
        round((frame.samples - frame.before) / before),
    )
    moved = new / after - old / before
    words = (
        f"{label(frame.name)}: {100 * old / before:.2f} % of baseline, "
        f"{100 * new / after:.2f} % of candidate ({100 * moved:+.2f} points)"
    )
    beyond = _is_beyond_noise(old, new, totals)
    return boxed(one, words, _colour(moved) if beyond else _GREY)


def _colour(moved: float) -> str:
    """Return red for more, blue for less, paler for little; `moved` is a share."""
    other = round(215 - 160 * min(abs(moved) / _FULL, 1.0))
    return f"rgb(235,{other},{other})" if moved > 0 else f"rgb({other},{other},235)"


def _totals(baseline: Folded, candidate: Folded) -> tuple[int, int]:
    totals = baseline.samples, candidate.samples
    if not all(totals):
        raise ValueError("an arm has no samples: there is no difference to show")
    return totals


def _leaves(folded: Folded) -> Counter[str]:
    leaves: Counter[str] = Counter()
    for stack, count in folded.counts.items():
        leaves[stack[-1]] += count
    return leaves


def _is_beyond_noise(old: int, new: int, totals: tuple[int, int]) -> bool:
    """Return whether two shares differ by more than _ERRORS standard errors of samples."""
    before, after = totals
    pooled = (old + new) / (before + after)
    error = math.sqrt(pooled * (1 - pooled) * (1 / before + 1 / after))
    return abs(new / after - old / before) > _ERRORS * error
