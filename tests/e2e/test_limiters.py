"""What limits a benchmark is made to happen for real, and `bw why` names it first.

Small form: each case once, and again where it was named wrongly: others use the processors
of a machine where tests run, and that is then rightly named. `make limiters` is the full form.
"""

from __future__ import annotations

import pytest

from limiter_cases import CASES, CLEAN, Case
from limiter_matrix import named_first
from limiter_means import Lacking

TRIES = 3
"""A limit that is named in none of three tries is not named."""
OTHERS = frozenset(("noisy-neighbour", "steal"))
"""Named each time, they are true: the machine is not ours, and nothing else can be shown."""


@pytest.mark.root
@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_a_limit_is_named_first(case: Case) -> None:
    named = []
    for _ in range(TRIES):
        named.append(_named(case))
        if named[-1] == case.code:
            return
    _fail(f"{case.code} was wanted", named)


@pytest.mark.root
@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CLEAN, ids=lambda case: case.name.replace(" ", "-"))
def test_a_clean_run_has_no_limit(case: Case) -> None:
    named = []
    for _ in range(TRIES):
        named.append(_named(case))
        if not named[-1]:
            return
    _fail("nothing was the limit", named)


def _fail(wanted: str, named: list[str]) -> None:
    if OTHERS.issuperset(named):
        pytest.skip(f"others use this machine: {wanted}; named were {named}")
    pytest.fail(f"{wanted}; named were {named}")


def _named(case: Case) -> str:
    try:
        return named_first(case)
    except Lacking as why:
        pytest.skip(str(why))
