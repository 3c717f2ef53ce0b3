"""A bench that needs an idle machine refuses a busy one (benches/parts/busy_machine.py)."""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
from parts.busy_machine import IDLE_LOAD, add_busy_option, refuse_busy

sys.path.pop(0)

ROOT = Path(__file__).parents[2]


class Machine:
    """A machine whose load average goes towards what computes on it, in virtual time."""

    def __init__(self, load: float, computing: float) -> None:
        self.load, self.computing, self.slept_s = load, computing, 0.0

    def load_average(self) -> float:
        return self.load

    def sleep(self, seconds: float) -> None:
        """Let time pass, by the kernel's formula: an average over a minute."""
        self.slept_s += seconds
        self.load = self.computing + (self.load - self.computing) * math.exp(-seconds / 60)

    def asked(self, *words: str) -> float:
        parser = argparse.ArgumentParser()
        add_busy_option(parser)
        busy = parser.parse_args(words).busy
        return refuse_busy(busy, self.load_average, self.sleep)


def test_an_idle_machine_is_measured_at_once_and_its_load_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    machine = Machine(0.31, 0.0)
    assert machine.asked() == 0.31
    assert machine.slept_s == 0
    assert capsys.readouterr().out == "load average before: 0.31\n"


@pytest.mark.parametrize("load", [0.6, 2.0, 130.0])
def test_what_ended_before_is_waited_for_no_longer_than_its_load_takes_to_fall(load: float) -> None:
    machine = Machine(load, 0.0)
    assert machine.asked() <= IDLE_LOAD
    assert machine.slept_s <= 60 * math.log(load / IDLE_LOAD) + 5


@pytest.mark.parametrize("computing", [1.0, 2.0, 36.0])
def test_a_machine_on_which_something_computes_is_refused(computing: float) -> None:
    machine = Machine(computing, computing)
    with pytest.raises(SystemExit, match=rf"load average {computing:.2f}: .*--busy"):
        machine.asked()


def test_a_busy_machine_is_measured_when_that_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    machine = Machine(36.0, 36.0)
    assert machine.asked("--busy") == 36.0
    assert machine.slept_s == 0
    assert capsys.readouterr().out == "load average before: 36.00\n"


def test_what_was_measured_is_printed_on_any_machine() -> None:
    """Tables of stored data need no idle machine."""
    words = ["benches/workload_fidelity.py", "--tables", "docs/images/data/pacers.csv"]
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "load average before" not in done.stdout
    assert "spin" in done.stdout
