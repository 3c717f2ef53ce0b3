"""What the policies cost with the peaks of a measured map (benches/parts/measured_maps.py)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benches" / "parts"))
from measured_maps import map_errors, peaks_of, policy_costs, published_step, results_of
from paper_searches import STRAWMAN, mapped

sys.path.pop(0)

PEAKS = {("1", "2"): 65.0, ("1", "8"): 74.0, ("2", "2"): 105.0, ("2", "8"): 96.0}


def document(peaks: dict[tuple[str, str], float | None]) -> dict[str, Any]:
    """Return the members of `bw surface --json` that are read."""
    levels = {"disks": ["1", "2"], "memory": ["128M"], "threads": ["2", "8"]}
    searched = {"status": "found", "detail": "", "seconds": 1.0, "load_s": 1.0}
    return {
        "factors": [{"name": name, "levels": of} for name, of in levels.items()],
        "samples": [
            {
                **searched,
                "sample": {"disks": disks, "memory": "128M", "threads": threads},
                "peak_rate": peak,
                "interval": None if peak is None else [0.9 * peak, 1.1 * peak],
                "trials": 3,
            }
            for (disks, threads), peak in peaks.items()
        ],
    }


def test_samples_keep_the_factors_that_vary_and_those_without_a_peak_are_left_out() -> None:
    lacking = document({**PEAKS, ("2", "8"): None})
    results = results_of(lacking)
    assert [dict(one.sample) for one in results] == [
        {"disks": "1", "threads": "2"},
        {"disks": "1", "threads": "8"},
        {"disks": "2", "threads": "2"},
    ]
    assert results[0].found.interval is not None
    assert results[0].found.interval.low == pytest.approx(58.5)
    assert list(peaks_of("x", results, lacking).rates.values()) == [65.0, 74.0, 105.0]


def test_the_strawmans_computed_cost_is_that_of_its_searches() -> None:
    measured = document(dict(PEAKS))
    peaks = peaks_of("small", results_of(measured), measured)
    computed = next(iter(policy_costs(peaks)))
    played = mapped(peaks, STRAWMAN, step=published_step(peaks))
    assert computed.trials == played.trials
    assert computed.hours == pytest.approx(played.seconds / 3600)
    assert (computed.found, played.not_found) == (4, 0)


def test_errors_of_maps_are_those_of_the_best_answers_whatever_their_claims() -> None:
    disks, threads = ("1", "2", "3", "4"), ("2", "8", "32")
    rates = {(d, t): 60.0 * int(d) * int(t) ** 0.2 for d in disks for t in threads}
    measured = document(dict(rates))
    measured["factors"][0]["levels"] = [*disks]
    measured["factors"][2]["levels"] = [*threads]
    results = results_of(measured)
    errors = map_errors(peaks_of("x", results, measured), results)
    for one in measured["samples"]:
        one["status"] = "budget"
    unfinished = results_of(measured)
    assert map_errors(peaks_of("x", unfinished, measured), unfinished) == errors
    assert all(value < 25 for values in errors.values() for value in values)
