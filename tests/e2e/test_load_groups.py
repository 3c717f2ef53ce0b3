"""Figures of each filament and each target of a real load, beside the records of its operations, and
their limits; those of two hosts: test_load_hosts.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bw_command import bw

WORKLOAD = """
[run]
duration = "500ms"
warm_up = "100ms"

[[target]]
name = "fast"
to = "null"
service = "100us"

[[target]]
name = "slow"
to = "null"
service = "20ms"

[[filament]]
name = "pages"
type = "open"
rate = "2k"
read = "70%"
target = "fast"

[[filament]]
name = "scan"
type = "open"
rate = "500"
target = "fast"

[[filament]]
type = "closed"
users = 4
read = "0%"
target = "slow"
"""
FILAMENTS = ("pages", "scan", "3")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "w.toml").write_text(WORKLOAD)
    return tmp_path


def test_groups_are_those_of_the_recorded_operations(folder: Path) -> None:
    import numpy as np

    from benchwright.load import read_samples

    done = bw(folder, "load", "w.toml", "--samples", "s.bw", "--json", "--workers", "2")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)["result"]
    rows = read_samples(folder / "s.bw")
    rows = rows[rows["intended"] >= 100_000_000]
    # The users of the third filament have a number each.
    filament = np.minimum(rows["stream"], 2)
    target = (filament == 2).astype(int)

    def same(group: dict[str, Any], own: Any) -> None:
        if "operation" in group:
            own = own & (rows["kind"] == ["read", "write"].index(group["operation"]))
        ended = rows[own & (rows["completed"] != 2**64 - 1)]
        assert group["operations"] == len(ended) > 0
        response = np.sort((ended["completed"] - ended["intended"]).astype(np.int64))
        assert group["response_ns"]["max"] == int(response[-1])
        assert group["response_ns"]["mean"] == pytest.approx(float(response.mean()))
        middle = response[int(np.ceil(0.5 * len(response))) - 1]
        assert group["response_ns"]["p50"] == pytest.approx(int(middle), rel=0.002)

    for group in result["groups"]:
        if "filament" in group:
            same(group, filament == FILAMENTS.index(group["filament"]))
        else:
            same(group, target == ["fast", "slow"].index(group["target"]))
    keys = ("filament", "target", "operation")
    assert [tuple(group.get(key) for key in keys) for group in result["groups"]] == [
        ("pages", "fast", None),
        ("pages", "fast", "read"),
        ("pages", "fast", "write"),
        ("scan", "fast", "read"),
        ("3", "slow", "write"),
        (None, "fast", None),
        (None, "fast", "read"),
        (None, "fast", "write"),
    ]
    of_filaments = [one for one in result["groups"] if one.get("filament") in FILAMENTS[:2]]
    whole = [one["operations"] for one in of_filaments if one.get("operation") != "write"]
    assert result["groups"][5]["operations"] == whole[0] + whole[2]


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        (("errors < 1% of read@fast", "filament 3 p50 < 1h"), 0),
        (("errors < 1% of read@fast", "write@slow p50 < 10ms"), 1),
        (("@fast p99.99 < 1h",), 3),
    ],
)
def test_a_limit_of_a_group_decides_the_exit_status(
    folder: Path, limits: tuple[str, ...], status: int
) -> None:
    words = [word for limit in limits for word in ("--limit", limit)]
    done = bw(folder, "load", "w.toml", "--json", *words)
    assert done.returncode == status, done.stderr
    assert [one["limit"] for one in json.loads(done.stdout)["limits"]] == list(limits)


def test_an_unknown_group_is_refused_with_the_names_there_are(folder: Path) -> None:
    done = bw(folder, "load", "w.toml", "--limit", "read@fats p99 < 5ms")
    assert done.returncode == 2
    assert "this load has no operations 'read@fats'" in done.stderr
    for name in ("read@fast", "@slow", "filament pages", "write@filament 3"):
        assert name in done.stderr


def test_a_load_of_one_filament_has_no_groups(tmp_path: Path) -> None:
    words = ("--rate", "1k", "--duration", "100ms", "--target", "null", "--json")
    done = bw(tmp_path, "load", *words)
    assert "groups" not in json.loads(done.stdout)["result"]
