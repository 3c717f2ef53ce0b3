"""Scores of change points against several annotators, and the peers that are scored beside ours.

F1 with a margin of 5 values and covering are those of TCPDBench (van den Burg and Williams, arXiv
2003.06222): 0 is a change point of every annotator; precision counts a change that any annotator
has, recall is the mean over annotators. BinSeg and PELT are those of `ruptures` with TCPDBench's
defaults: values in standard deviations, squared error, penalty 3 log n, BinSeg at most 5 changes.
Otava 0.8 runs in a Python of its own, as it needs other versions: BW_OTAVA is that Python.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from benchwright.stats.steps import find_steps

Array = npt.NDArray[np.float64]
Detector = Callable[[Sequence[Array]], list[list[int]]]
"""Returns the changes of each series, as indexes from 0."""
MARGIN = 5
_OTAVA = """
import json, sys
from otava.analysis import compute_change_points
for line in sys.stdin:
    found = compute_change_points(json.loads(line), window_len=50, max_pvalue=0.001)
    points = found[0] if isinstance(found, tuple) else found
    print(json.dumps([int(point.index) for point in points]))
"""


class Annotated(msgspec.Struct, frozen=True):
    """A series with the changes that people see in it."""

    values: list[float]
    annotations: list[list[int]]


def own_series() -> dict[str, Annotated]:
    """Return the six series in this repository."""
    path = Path(__file__).parent.parent / "data" / "change-points" / "tcpd.json"
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Annotated])


def all_series() -> dict[str, Annotated]:
    """Return the series of the Turing Change Point Dataset in the folder BW_TCPD: the first
    dimension of each file in `series`, without missing values."""
    folder = Path(os.environ["BW_TCPD"])
    annotations = json.loads((folder / "annotations.json").read_text())
    found = {}
    for path in sorted((folder / "series").glob("*.json")):
        raw = json.loads(path.read_text())["series"][0]["raw"]
        known = [at for at, value in enumerate(raw) if value is not None]
        # An annotation of a missing value moves to the next known one.
        marks = [
            [int(np.searchsorted(known, mark)) for mark in one]
            for one in annotations[path.stem].values()
        ]
        found[path.stem] = Annotated([float(raw[at]) for at in known], marks)
    return found


def f1(annotations: Iterable[Iterable[int]], changes: Iterable[int]) -> float:
    truths = [{0, *one} for one in annotations]
    found = {0, *changes}
    precision = _matched(set().union(*truths), found) / len(found)
    recall = float(np.mean([_matched(one, found) / len(one) for one in truths]))
    return 2 * precision * recall / (precision + recall)


def _matched(truth: set[int], changes: set[int]) -> int:
    """Return how many true changes have a change of their own within the margin."""
    left, matched = set(changes), 0
    for place in truth:
        near = [(abs(place - x), x) for x in left if abs(place - x) <= MARGIN]
        if near:
            left.remove(min(near)[1])
            matched += 1
    return matched


def covering(annotations: Iterable[Iterable[int]], changes: Iterable[int], n: int) -> float:
    ours = _segments(changes, n)

    def cover(truth: Iterable[int]) -> float:
        return sum(
            (b - a) * max(max(min(b, d) - max(a, c), 0) / (max(b, d) - min(a, c)) for c, d in ours)
            for a, b in _segments(truth, n)
        )

    return float(np.mean([cover(one) / n for one in annotations]))


def _segments(changes: Iterable[int], n: int) -> list[tuple[int, int]]:
    return list(pairwise([0, *sorted({x for x in changes if 0 < x < n}), n]))


def scores(series: dict[str, Annotated], detector: Detector) -> tuple[float, float]:
    """Return the mean F1 and the mean covering."""
    found = detector([np.array(one.values) for one in series.values()])
    pairs = list(zip(series.values(), found, strict=True))
    return (
        float(np.mean([f1(one.annotations, at) for one, at in pairs])),
        float(np.mean([covering(one.annotations, at, len(one.values)) for one, at in pairs])),
    )


# -- detectors --------------------------------------------------------------------------------


def ours(series: Sequence[Array]) -> list[list[int]]:
    return [[step.index for step in find_steps(one).steps] for one in series]


def ours_on_logarithms(series: Sequence[Array]) -> list[list[int]]:
    """Ours, on logarithms of the series that are positive."""
    return ours([np.log(one) if (one > 0).all() else one for one in series])


def no_change(series: Sequence[Array]) -> list[list[int]]:
    return [[] for _ in series]


def _standard(values: Array) -> Array:
    deviation = float(values.std(ddof=1))
    return np.asarray((values - values.mean()) / (deviation or 1.0))


def binseg(series: Sequence[Array]) -> list[list[int]]:
    import ruptures

    found = []
    for values in series:
        fitted = ruptures.Binseg(model="l2", min_size=1, jump=1).fit(_standard(values))
        ends = fitted.predict(pen=3 * math.log(values.size))
        found.append((ends if len(ends) <= 6 else fitted.predict(n_bkps=5))[:-1])
    return found


def pelt(series: Sequence[Array]) -> list[list[int]]:
    import ruptures

    return [
        ruptures.Pelt(model="l2", min_size=1, jump=1)
        .fit(_standard(values))
        .predict(pen=3 * math.log(values.size))[:-1]
        for values in series
    ]


def otava(series: Sequence[Array]) -> list[list[int]]:
    lines = "\n".join(json.dumps(values.tolist()) for values in series)
    done = subprocess.run(
        [os.environ["BW_OTAVA"], "-c", _OTAVA],
        input=lines,
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def peers() -> dict[str, Detector]:
    """Return the peers that are installed, after ours."""
    found: dict[str, Detector] = {"ours": ours}
    try:
        import ruptures  # noqa: F401
    except ImportError:
        print("ruptures is not installed: no BinSeg, no PELT")
    else:
        found |= {"BinSeg": binseg, "PELT": pelt}
    if "BW_OTAVA" in os.environ:
        found["Otava"] = otava
    else:
        print("BW_OTAVA is not set: no Otava")
    return found
