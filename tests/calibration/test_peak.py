"""How often the queue-guided search is right: coverage of its claim by simulation.

Small here; `BW_CALIBRATION=full` plays a thousand searches a server, as docs/peak.md tells.
"""

from __future__ import annotations

import os

import pytest

from benchwright.control.peak.qgs import QGS
from benchwright.model.peak import PeakStatus
from servers import A, B, SimServer
from world import search_of

FULL = os.environ.get("BW_CALIBRATION") == "full"
SEARCHES = 1000 if FULL else 20
WANTED = 0.95 if FULL else 0.80
"""Of 20 searches at 95 %, fewer than 16 are right with probability 0.3 %."""


@pytest.mark.parametrize(
    ("server", "most_s"),
    [(A, 711.0), (B, 960.0)],
    ids=lambda one: getattr(one, "name", ""),
)
def test_the_region_holds_as_often_as_claimed(server: SimServer, most_s: float) -> None:
    right, seconds = 0, 0.0
    for seed in range(SEARCHES):
        search = search_of(QGS(), server, 5000 + seed)
        assert search.result is not None
        found = search.result.status is PeakStatus.FOUND
        rate = search.result.peak_rate
        assert rate is not None
        near = abs(server.response(rate) / server.binding.limit - 1) <= 0.10
        right += found and near
        seconds += search.load_s
    assert right / SEARCHES >= WANTED
    assert seconds / SEARCHES <= most_s
