"""What every test may rely on, wherever the suite was started from."""

from __future__ import annotations

import signal

import pytest

# A shell without job control starts its background jobs with SIGINT and SIGQUIT ignored, and programs
# inherit that: then no test could interrupt what it started.
for _number in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(
            _number,
            signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL,
        )

# Tests of these files need the machine to themselves: they measure, or they look at or change what
# all programs of the machine share. `make test` runs them one after the other, the rest in parallel.
ALONE = {
    "e2e": (
        "compare generators limiters load load_http load_split load_stall observers ordinary_user "
        "peak_servers program_start quiet run search_observers why why_servers workbench_peak"
    ),
    "kernel": (
        "characterize characterize_tree chill engine_abilities machine_real profile quiet_real "
        "resource_use sampler"
    ),
}
_ALONE = {
    f"{folder}/test_{name}.py"
    for folder, names in ALONE.items()
    for name in names.split()
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that run alone."""
    for item in items:
        if f"{item.path.parent.name}/{item.path.name}" in _ALONE:
            item.add_marker(pytest.mark.alone)
