"""Points of histories: machines, environments, segments, and studies read as series."""

from __future__ import annotations

import contextlib
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import pytest

from benchwright.cli.main import main
from benchwright.core.machine import Fact, FactWeight, MachineCapture
from benchwright.features.history.answer import HistoryAnswer, HistoryQuestion, history_answer
from benchwright.features.history.findings import (
    environment_of,
    installed_memory,
    machine_fingerprint,
    machine_text,
    segments_of,
)
from benchwright.features.history.inputs import read_run
from benchwright.features.history.newest import direction
from benchwright.features.history.store import HistoryFile, history_of, studies_below
from benchwright.features.history.types import Environment, HistoryPoint, Run, SeriesKey
from benchwright.features.search.reports import measured_digest, search_name
from benchwright.inputs.mistakes import SourceFile
from benchwright.study.journal import Study

FACTS = {
    "cpu.model": "AMD EPYC",
    "cpu.threads": "2",
    "cpu.governor": "performance",
    "kernel.release": "6.18.44",
    "memory.total_kib": "24684100",
    "workdir.device": "/dev/vda1",
    "block.vda.scheduler": "[none]",
    "block.vdb.scheduler": "[none]",
    "program.sort.package": "coreutils 9.1-1",
    "program.sort.sha256": "aa",
    "program.bench.sha256": "bb",
    "git.commit": "c0ffee",
    "mount./data.type": "ext4",
}


def capture(absent: tuple[str, ...] = (), **changed: str) -> MachineCapture:
    named = FACTS | {name.replace("__", "."): value for name, value in changed.items()}
    facts = (
        Fact(name, None, absent="permission denied") if name in absent else Fact(name, value)
        for name, value in sorted(named.items())
    )
    return MachineCapture(1, (*facts, Fact("load.1min", "3", weight=FactWeight.EXPECTED)))


def point(place: int, environment: Environment | None, command: str = "sort a") -> HistoryPoint:
    return HistoryPoint(
        run=f"r{place}",
        study="s",
        session=place + 1,
        started_ns=place,
        estimate=1.0,
        trials=10,
        environment="" if environment is None else environment.id,
        command=command,
    )


@pytest.mark.parametrize(
    ("unit", "better", "words"),
    [
        ("s", "lower", ("slower", "faster")),
        ("s", "higher", ("better", "worse")),
        ("B", "lower", ("worse", "better")),
        ("1/s", "higher", ("better", "worse")),
    ],
)
def test_the_words_of_a_step_are_those_of_its_metric(
    unit: str, better: Literal["lower", "higher"], words: tuple[str, str]
) -> None:
    one = msgspec.structs.replace(point(1, None), unit=unit, better=better)
    assert (direction(one, rises=True), direction(one, rises=False)) == words


def test_installed_memory_is_the_same_with_each_kernel() -> None:
    assert {installed_memory(kib) for kib in (24684100, 24584100, 24984100)} == {24 << 30}
    assert installed_memory(16 << 20) == 16 << 30


@pytest.mark.parametrize(
    ("name", "value", "same"),
    [
        ("cpu__model", "Intel", False),
        ("cpu__threads", "4", False),
        ("memory__total_kib", "12000000", False),
        ("memory__total_kib", "24600000", True),
        ("kernel__release", "6.19", True),
        ("cpu__governor", "powersave", True),
    ],
)
def test_hardware_makes_another_machine(name: str, value: str, same: bool) -> None:
    one, other = capture(), capture(**{name: value})
    assert (machine_fingerprint(one) == machine_fingerprint(other)) == same


def test_a_machine_without_a_capture_is_unknown() -> None:
    assert machine_fingerprint(None) == "unknown"


def test_environment_has_what_divides_a_series() -> None:
    found = environment_of(capture())
    assert found is not None
    assert [fact.name for fact in found.facts] == [
        "block.vda.scheduler",
        "cpu.governor",
        "kernel.release",
        "program.sort.package",
    ]


def test_a_changed_fact_or_command_starts_a_segment() -> None:
    old, new = (environment_of(capture()), environment_of(capture(kernel__release="6.19")))
    assert old is not None
    assert new is not None
    points = [
        point(0, old),
        point(1, None),
        point(2, new),
        point(3, new, "sort b"),
        point(4, new, "sort b"),
    ]
    found = segments_of(points, {old.id: old, new.id: new})
    assert [(one.first, one.last) for one in found] == [(0, 1), (2, 2), (3, 4)]
    assert [one.changes for one in found] == [
        (),
        ("kernel.release: 6.18.44, then 6.19",),
        ("command: sort a, then sort b",),
    ]
    ignoring = segments_of(
        points, {old.id: old, new.id: new}, {"kernel.release", "command"}.__contains__
    )
    assert [(one.first, one.last) for one in ignoring] == [(0, 4)]


def answered(runs: Sequence[tuple[MachineCapture, float]]) -> HistoryAnswer:
    """Return the answer about runs, each a capture of its machine and a value."""
    found = []
    for place, (machine, value) in enumerate(runs):
        environment = environment_of(machine)
        one = msgspec.structs.replace(point(place, environment), estimate=value)
        key = SeriesKey("sort", "elapsed", machine_fingerprint(machine))
        found.append(
            Run(points=((key, one),), environment=environment, machine=machine_text(machine))
        )
    return history_answer(history_of(found, ()), HistoryQuestion())


@pytest.mark.parametrize("at", [20, 37, 55])
def test_a_level_of_another_environment_is_no_step(at: int) -> None:
    """20 % slower with another kernel, noise 1 %: a step within one environment, and none between
    two."""
    rng = np.random.default_rng(at)
    values = np.exp(0.01 * rng.standard_normal(60) + 0.2 * (np.arange(60) >= at))
    old, new = capture(), capture(kernel__release="6.19")
    (one,) = answered([(old, value) for value in values]).series
    assert [step.index for step in one.steps] == [at]
    both = [old] * at + [new] * (60 - at)
    (two,) = answered(list(zip(both, values, strict=True))).series
    assert two.steps == ()
    assert [(part.first, part.last) for part in two.segments] == [(0, at - 1), (at, 59)]
    assert two.segments[1].changes == ("kernel.release: 6.18.44, then 6.19",)
    for first, last, _ in two.levels:
        assert last < at or first >= at
    assert two.newest.verdict in ("no difference", "undecided")


def test_two_machines_are_two_series() -> None:
    """Runs on two machines by turns, one 20 % slower: no point of one is in the series of the
    other."""
    rng = np.random.default_rng(3)
    machines = capture(), capture(cpu__model="Intel", cpu__threads="4")
    runs = [
        (machines[at % 2], float(np.exp(0.01 * rng.standard_normal() + 0.2 * (at % 2))))
        for at in range(80)
    ]
    found = answered(runs).series
    assert [one.key.machine for one in found] == sorted(map(machine_fingerprint, machines))
    for one in found:
        assert len(one.series.points) == 40
        assert len({point.session % 2 for point in one.series.points}) == 1
        assert (len(one.segments), one.steps) == (1, ())


def test_a_fact_that_could_not_be_read_starts_no_segment() -> None:
    one, other = environment_of(capture()), environment_of(capture(("kernel.release",)))
    assert one is not None
    assert other is not None
    found = segments_of([point(0, one), point(1, other)], {one.id: one, other.id: other})
    assert len(found) == 1


def test_studies_of_a_folder_are_one_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(2):
        study = str(tmp_path / "runs" / f"day-{number}")
        run = ["run", "--runs", "3", "--study", study, "-P", "n=1,2", "true {n}"]
        assert main(run) == 0
    assert main(["run", "--runs", "2", "--study", study, "true 9"]) == 0
    failing = main(["run", "--runs", "2", "--study", study, "false"])
    assert failing == 1
    capsys.readouterr()
    places = list(studies_below(tmp_path))
    assert [place.name for place in places] == ["day-0", "day-1"]
    runs = []
    for place in places:
        with contextlib.closing(Study.open_to_read(place)) as study_read:
            runs += [read_run(study_read, one) for one in study_read.sessions()]
    history = history_of([*runs, runs[0]])
    asked = [one for one in history.series if one.newest.asked]
    assert [(one.key.test, one.key.metric, len(one.points)) for one in asked] == [
        ("true", "elapsed", 1),
        ("true:n=1", "elapsed", 2),
        ("true:n=2", "elapsed", 2),
    ]
    first = asked[1].points[0]
    assert (first.trials, first.unit, first.command) == (3, "s", "true 1")
    assert first.low is not None
    assert first.low <= first.estimate
    assert {one.key.metric for one in history.series} > {"elapsed", "rss_bytes", "user"}
    assert len({one.key.machine for one in history.series}) == 1
    assert history.environments.keys() == {first.environment}
    text = msgspec.json.encode(history.series)
    assert msgspec.json.decode(text, type=list) != []


STUDIES = Path(__file__).parents[1] / "data" / "studies-0.1"


@pytest.mark.parametrize(
    ("kind", "points"),
    [
        ("peak", {("awk", "peak_rate"): ("undecided", ("search-undecided",))}),
        ("ramp", {("awk", "throughput"): ("answered", ())}),
        (
            "surface",
            {
                (f"map:workers={workers}", "peak_rate"): ("undecided", ("search-undecided",))
                for workers in (1, 2, 4)
            },
        ),
        # It has only a guess.
        ("interrupted-peak", {}),
    ],
)
def test_the_answer_of_a_search_is_a_point(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    points: dict[tuple[str, str], tuple[str, tuple[str, ...]]],
) -> None:
    with tarfile.open(STUDIES / f"{kind}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    place = tmp_path / kind
    with contextlib.closing(Study.open_to_read(place)) as study:
        (session,) = study.sessions()
        run = read_run(study, session)
    found = {(key.test, key.metric): one for key, one in run.points}
    assert {name: (one.state, one.codes) for name, one in found.items()} == points
    main(["export", str(place), "--format", "bencher"])
    exported = capsys.readouterr().out
    for (_, metric), one in found.items():
        assert (one.unit, one.better, one.asked) == ("/s", "higher", True)
        assert str(one.estimate) in exported
        if metric == "peak_rate":
            assert one.low is not None
            assert one.low < one.estimate < (one.high or 0)
            assert one.command.startswith("peak rate with mean response < 40 ms, load")


def test_a_gate_is_undecided_by_a_search_that_did_not_answer(tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    key = SeriesKey("server", "peak_rate", "m")
    rates = [1000 + 7 * (at % 4) for at in range(12)]

    def write(*codes: str) -> list[str]:
        file.unlink(missing_ok=True)
        with HistoryFile.open_to_write(file) as stored:
            stored.add(
                Run(
                    points=(
                        (
                            key,
                            msgspec.structs.replace(
                                point(at, None),
                                estimate=float(rate),
                                better="higher",
                                codes=codes if at == len(rates) - 1 else (),
                            ),
                        ),
                    ),
                    environment=None,
                    machine="",
                )
                for at, rate in enumerate(rates)
            )
        return ["history", str(file), "--gate", "10%"]

    assert main(write()) == 0
    assert main(write("search-undecided")) == 3
    assert main([*write("search-undecided"), "--accept", "search-undecided"]) == 0
    rates[-3:] = [700, 702, 704]
    assert main(write()) == 1

    feed, page = tmp_path / "changes.json", tmp_path / "history.html"
    assert main(["history", "feed", str(file), "--json-feed", str(feed)]) == 0
    (change,) = msgspec.json.decode(feed.read_bytes())["items"]
    assert change["title"] == "server: worse -30 %"
    assert main(["history", str(file), "--html", str(page)]) == 0
    assert "worse -30 %" in page.read_text()


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ('[load]\ntarget = "h"\n[peak]\nbudget = "2m"\n', True),
        ('[load]\ntarget = "h2"\n[peak]\nbudget = "1m"\n', False),
    ],
)
def test_only_load_and_server_are_what_a_search_measures(text: str, same: bool) -> None:
    before = '# A comment.\n[load]\ntarget = "h"\n[peak]\nbudget = "1m"\n'
    digests = {measured_digest(SourceFile("spec.toml", said), {}) for said in (before, text)}
    assert len(digests) == (1 if same else 2)


def test_a_search_is_named_after_what_it_loads() -> None:
    target = 'target = "http://[::1]:80/"'
    names = [
        search_name(SourceFile("specs/server.toml", ""), {}),
        search_name(SourceFile("--target", f"[load]\n{target}"), {}),
        search_name(SourceFile("--target", f'[load]\n{target}\nworkload = "mix.toml"'), {}),
        search_name(None, {"command": "/opt/wrk -R {rate}"}),
    ]
    assert names == ["server", "http://[::1]:80/", "mix", "wrk"]
