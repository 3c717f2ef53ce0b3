"""What findings about marked trials say: how late the generator was, and who else used the CPUs."""

from __future__ import annotations

from typing import Any

import pytest

from benchwright.core.resource_use import ResourceUse, TaskUse
from benchwright.features.generators.findings import LATE_MARK, mark_findings, neighbours_text
from benchwright.features.load.plan import LoadTrial
from benchwright.features.search.ramp.policy import best_so_far
from benchwright.features.search.ramp.types import RampAxis, RampGoal


def trial(**fields: Any) -> LoadTrial:
    """Return a trial of ten seconds at one user."""
    given = {"rate": 1.0, "duration_s": 10.0, "lasted_s": 10.0, "cost_s": 10.0}
    return LoadTrial(**given | {"completed": 100} | fields)


def late(ms: float | None, **fields: Any) -> LoadTrial:
    """Return a trial whose generator was late."""
    return trial(late_p99_ms=ms, marks=(LATE_MARK,), **fields)


@pytest.mark.parametrize(
    ("trials", "limit_ms", "text"),
    [
        (
            [late(258.0), late(31.4), trial(late_p99_ms=0.02)],
            50.0,
            "generator late in 2 of 3 trials, p99 up to 258 ms (limit 50 ms)",
        ),
        ([late(3.0)], None, "generator late in 1 of 1 trial, p99 up to 3 ms"),
        ([late(None), trial()], 50.0, "generator late in 1 of 2 trials"),
    ],
)
def test_a_late_generator_is_reported_with_amounts_where_they_are_known(
    trials: list[LoadTrial], limit_ms: float | None, text: str
) -> None:
    assert [one.evidence for one in mark_findings(trials, "s", limit_ms)] == [text]


def test_other_marks_have_no_amount_of_lateness() -> None:
    marked = trial(marks=("server-restarted",), late_p99_ms=258.0)
    (found,) = mark_findings([marked], "s", 50.0)
    assert found.evidence == "server restarted in 1 of 1 trial"


def used(*others: tuple[int, str, float], seconds: float = 10.0) -> ResourceUse:
    """Return a use of the machine with these other processes: pid, name, cores."""
    tasks = tuple(TaskUse(pid, 0, name, share, of="other") for pid, name, share in others)
    engine = TaskUse(1, 2, "bw-worker-0", 0.9)
    return ResourceUse(seconds, 10, (1, 1), tasks=(engine,), others=tasks)


def test_the_busiest_neighbours_are_named_with_their_mean_over_all_trials() -> None:
    first = used((4711, "stress-ng", 0.9), (8, "ld", 0.2), (9, "idle", 0.01))
    second = used((4711, "stress-ng", 1.0), seconds=30.0)
    assert neighbours_text([trial(use=first)]) == (
        "stress-ng (pid 4711) used 0.9 CPUs, ld (pid 8) used 0.2 CPUs"
    )
    both = [trial(use=first), trial(use=second), trial()]
    # `ld` used 2 s of CPU time in 40 s: too little to delay anybody.
    assert neighbours_text(both) == "stress-ng (pid 4711) used 0.975 CPUs"


def test_processes_of_one_program_are_named_together() -> None:
    busy = used((7, "python3", 0.6), (8, "python3", 0.5), (9, "cc1", 0.7))
    text = neighbours_text([trial(use=busy)])
    assert text == "2 x python3 used 1.1 CPUs, cc1 (pid 9) used 0.7 CPUs"


def test_the_server_the_kernel_and_bw_itself_are_no_neighbours() -> None:
    own = used((7, "nginx", 0.9), (8, "[kworker/u8:2]", 0.8), (9, "bw-sampler", 0.5))
    assert neighbours_text([trial(use=own)]) == ""
    assert neighbours_text([trial()]) == ""
    assert neighbours_text([]) == ""


def test_a_ramp_reports_how_late_its_generator_was_and_who_was_beside_it() -> None:
    busy = used((4711, "stress-ng", 0.98))
    history = [late(20.5, use=busy), trial(rate=2.0), late(80.0, rate=4.0, use=busy)]
    result = best_so_far(RampGoal(axis=RampAxis.USERS), history)
    (found,) = [one for one in result.findings if one.code == LATE_MARK]
    assert found.evidence == (
        "generator late in 2 of 3 trials, p99 up to 80 ms; stress-ng (pid 4711) used 0.98 CPUs"
    )
    lateness = {point.level: point.late_p99_ms for point in result.points}
    assert lateness == {1.0: 20.5, 2.0: None, 4.0: 80.0}
