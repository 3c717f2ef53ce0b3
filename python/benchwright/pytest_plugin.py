"""The fixture `bw_gate` of pytest: a test that fails if a command is slower than its baseline."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from benchwright.api import CompareResult

_UNDECIDED = ("skip", "fail", "pass")
_HELP = "outcome of a test whose gate is undecided: skip (default), fail or pass"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--bw-undecided`, and `bw_undecided` of the configuration."""
    group = parser.getgroup("benchwright")
    group.addoption("--bw-undecided", choices=_UNDECIDED, help=_HELP)
    parser.addini("bw_undecided", _HELP, default="skip")


@pytest.fixture
def bw_gate(request: pytest.FixtureRequest) -> Callable[..., CompareResult]:
    """Return a function that compares a command with its baseline, and ends the test by the gate."""
    config = request.config
    undecided = config.getoption("--bw-undecided") or config.getini("bw_undecided")
    if undecided not in _UNDECIDED:
        raise pytest.UsageError(f"bw_undecided must be one of {', '.join(_UNDECIDED)}")

    def gate(
        command: str,
        *,
        baseline: str | os.PathLike[str],
        fail_if: str = "slower by 3%",
        **options: Any,
    ) -> CompareResult:
        """Compare a command with a baseline: a command line, or the path of a stored study.

        Options: those of `benchwright.compare`. The test fails if the gate, or a command, fails.
        """
        from benchwright.api import compare

        commands = [command]
        if isinstance(baseline, os.PathLike):
            options["baseline"] = baseline
        else:
            commands = [baseline, command]
        result = compare(*commands, fail_if=fail_if, **options)
        gates = [f"{gate.condition}: {gate.outcome}: {gate.detail}" for gate in result.gates]
        text = "\n".join(gates or [result.document.detail])
        if result.exit_status == 1:
            pytest.fail(text, pytrace=False)
        if not result.is_decided and undecided == "fail":
            pytest.fail(f"undecided\n{text}", pytrace=False)
        if not result.is_decided and undecided == "skip":
            pytest.skip(f"undecided: {text}")
        return result

    return gate
