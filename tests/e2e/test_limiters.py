"""What limits a benchmark is made to happen for real, and `bw why` names it first.

Small form: each case once, and again where it was named wrongly; of two limits at once the
first strength. Where strangers use the machine meanwhile, as /proc says, what others cost
is true too, and the limit is first of the rest. `make limiters` is the full form.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Set
from pathlib import Path

import pytest

from benchwright.findings.codes import LIMITER_CODES
from limiter_cases import CASES, CLEAN, Case
from limiter_means import Lacking
from limiter_mixed import MIXED, Mixed
from limiter_named import OF_OTHERS, Named, causes_of, named

TRIES = 3
"""A limit that is named in none of three tries is not named."""
CROWDED = 0.5
"""Processors that strangers used, from which on they may be all that can be shown."""
SMALL = tuple({mixed.name: mixed for mixed in reversed(MIXED)}.values())


@pytest.mark.root
@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_a_limit_is_named_first(case: Case) -> None:
    _tried(case.code, lambda: named(case))


@pytest.mark.root
@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CLEAN, ids=lambda case: case.name.replace(" ", "-"))
def test_a_clean_run_has_no_limit(case: Case) -> None:
    _tried("", lambda: named(case))


@pytest.mark.root
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mixed", SMALL, ids=lambda one: one.name.replace(" ", "-"))
def test_of_two_limits_the_right_one_is_first(mixed: Mixed) -> None:
    _tried(mixed.code, lambda: _named_of(mixed), {mixed.code, mixed.beside})


def _named_of(mixed: Mixed) -> Named:
    place = Path(tempfile.mkdtemp(prefix="bw-limiters-"))
    try:
        with mixed.make(place) as situation:
            return causes_of(situation.command, place / "study")
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _tried(wanted: str, once: Callable[[], Named], true: Set[str] = frozenset()) -> None:
    """Try until `wanted` is named first; on a crowded machine `true` limits may come first."""
    seen: list[Named] = []
    for _ in range(TRIES):
        try:
            seen.append(once())
        except Lacking as why:
            pytest.skip(str(why))
        if seen[-1].first(wanted) == wanted:
            return
    text = f"{wanted or 'nothing'} was wanted first; " + "; ".join(
        f"{one.causes} beside {one.strangers.cores:.2f} processors of strangers" for one in seen
    )
    if all(
        one.strangers.cores >= CROWDED
        and (LIMITER_CODES.keys() & set(one.causes)) <= (OF_OTHERS | true)
        for one in seen
    ):
        pytest.skip(f"others use this machine: {text}")
    pytest.fail(text)
