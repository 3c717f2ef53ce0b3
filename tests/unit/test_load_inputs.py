"""The list of paths of a load: which of them have times of their own, and what the mean is about."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from benchwright.features.load.engine import encoded
from benchwright.features.load.findings import load_findings
from benchwright.features.load.inputs import inputs_of
from benchwright.features.load.parse import labels_of, path_requests
from benchwright.features.load.request import (
    HttpRequest,
    HttpTarget,
    LoadRequest,
    LoadTarget,
    NamedTarget,
    NullTarget,
    SeveralTarget,
)
from benchwright.features.load.types import EngineResult, LoopModel
from benchwright.features.load.view import labels_table
from benchwright.features.load.workload import (
    Access,
    Closed,
    ConstantValue,
    Location,
    SequentialLocation,
    UniformLocation,
    Workload,
)

RESULT = Path(__file__).parents[1] / "golden" / "load" / "result.json"
URL = "http://h:80/"
UNIFORM = UniformLocation()
PATHS = tuple(f"/{at}" for at in range(12))


def request_of(target: LoadTarget, location: Location = UNIFORM) -> LoadRequest:
    access = Access((("read", 1),), ConstantValue(64), location)
    closed = Closed(users=2, think=ConstantValue(0), access=access)
    return LoadRequest(target=target, workload=Workload(seed=1, filaments=(closed,)))


def test_each_path_of_a_list_has_a_label() -> None:
    target = HttpTarget(url=URL, method="HEAD", paths=("/a", "/b?x=${y}", "/a"))
    requests = path_requests(target)
    assert requests == (
        HttpRequest(label="HEAD /a", method="HEAD", path="/a"),
        # Not a place for a value.
        HttpRequest(label="HEAD /b?x=${y}", method="HEAD", path="/b?x=$${y}"),
        HttpRequest(label="HEAD /a", method="HEAD", path="/a"),
    )
    assert labels_of(target) == ("HEAD /a", "HEAD /b?x=${y}")
    sent = msgspec.json.decode(encoded(request_of(target)))["target"]
    assert sent["paths"] == []
    assert [one["label"] for one in sent["requests"]] == [one.label for one in requests]


def test_each_path_of_one_of_several_targets_has_a_label() -> None:
    web = HttpTarget(url=URL, paths=("/a", "/b"))
    target = SeveralTarget((NamedTarget("disk", (), NullTarget()), NamedTarget("web", (0,), web)))
    assert labels_of(target) == ("GET /a", "GET /b")
    sent = msgspec.json.decode(encoded(request_of(target)))["target"]["targets"][1]["target"]
    assert sent["paths"] == []
    assert [one["label"] for one in sent["requests"]] == ["GET /a", "GET /b"]


@pytest.mark.parametrize(
    "target",
    [
        HttpTarget(url=URL),
        HttpTarget(url=URL, paths=tuple(f"/{at}" for at in range(101))),
        HttpTarget(url=URL, paths=PATHS, method="POST", body_bytes=9),
        # The engine reports it as a path.
        HttpTarget(url=URL, paths=("/a", "b c")),
        HttpTarget(url=URL, requests=(HttpRequest(label="a", path="/"),)),
    ],
)
def test_other_targets_are_sent_as_they_are(target: HttpTarget) -> None:
    assert path_requests(target) == ()
    assert inputs_of(request_of(target)) == ()


def test_inputs_are_drawn_each_as_likely() -> None:
    target = HttpTarget(url=URL, paths=PATHS)
    assert inputs_of(request_of(target)) == tuple(f"GET {path}" for path in PATHS)
    assert inputs_of(request_of(target, SequentialLocation())) == ()
    assert inputs_of(request_of(HttpTarget(url=URL, paths=(*PATHS, "/1")))) == ()


def result_with(means_ns: np.ndarray) -> EngineResult:
    """Return a result in which each path has 100 responses, that differ by 10 us."""
    result = msgspec.json.decode(RESULT.read_bytes(), type=EngineResult)
    kind = result.all
    labels = {
        f"GET {path}": msgspec.structs.replace(
            kind,
            operations=100,
            response_ns=msgspec.structs.replace(
                kind.response_ns, count=100, mean=float(mean), sd=1e4
            ),
        )
        for path, mean in zip(PATHS, means_ns, strict=True)
    }
    return msgspec.structs.replace(result, labels=labels)


def test_a_load_says_which_population_its_mean_is_about() -> None:
    rng = np.random.default_rng(39)
    inputs = tuple(f"GET {path}" for path in PATHS)
    loop = LoopModel(open=True, closed=False)
    same = result_with(1e6 + 1e3 * rng.standard_normal(12))
    differ = result_with(1e6 + 1e5 * np.arange(12))

    def codes(result: EngineResult, inputs: tuple[str, ...]) -> list[str]:
        return [one.code for one in load_findings(result, loop, "t", inputs=inputs)]

    assert "depends-on-input" not in codes(same, inputs)
    assert "depends-on-input" not in codes(differ, ())
    (found,) = (
        one
        for one in load_findings(differ, loop, "t", inputs=inputs)
        if one.code == "depends-on-input"
    )
    assert "the means of 12 requests differ by" in found.evidence
    assert "the slowest are GET /11 (2.1 ms), GET /10 (2 ms), GET /9 (1.9 ms)" in found.evidence
    # Student's over twelve means: 1.55 ms, of which 2.2 times 0.36 ms / 12 ** 0.5 on either side.
    assert "of all requests like these it is 1.32 ms to 1.78 ms" in found.evidence


def test_of_many_labels_the_slowest_are_shown() -> None:
    result = result_with(1e6 + 1e5 * np.arange(12))
    one = result.labels["GET /0"]
    many = msgspec.structs.replace(
        result, labels={**result.labels, **{f"x{n}": one for n in range(20)}}
    )
    table = labels_table(many)
    assert len(table.rows) == 20
    assert "12 faster labels" in table.note
    assert len(labels_table(result).rows) == 12
