"""What a history file answers after each run is what all its points answer, whatever was stored
before."""

from __future__ import annotations

import hashlib
import math
import random
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from benchwright.core.machine import Fact
from benchwright.features.history.answer import HistoryQuestion, history_answer
from benchwright.features.history.levels import METHOD, newest_runs, stored_starts
from benchwright.features.history.store import HistoryFile, history_of
from benchwright.features.history.types import Acceptance, Environment, HistoryPoint, Run, SeriesKey
from benchwright.stats.steps import TAIL

ENVIRONMENTS = tuple(
    Environment(name, (Fact("kernel.release", name), Fact("env.LANG", language)))
    for name, language in (("e1", "C"), ("e2", "C"), ("e3", "en"))
)
SHOWN = ("id", "key", "name", "newest", "newest_point", "since_point", "runs_since")


class Source:
    """Runs of several series with steps, spikes, gaps, other environments and other units."""

    def __init__(self, seed: int, series: int) -> None:
        self.rng = random.Random(seed)
        self.keys = [
            SeriesKey(f"t{at}", metric, "0123abcd")
            for at in range(series)
            for metric in ("elapsed", "user")
        ]
        self.level = {key: self.rng.uniform(-1, 1) for key in self.keys}
        self.environment: Environment | None = ENVIRONMENTS[0]
        self.command = "sort"
        self.asks_user = False

    def run(self, number: int) -> Run:
        rng = self.rng
        if rng.random() < 0.02:
            self.environment = rng.choice((*ENVIRONMENTS, None))
        if rng.random() < 0.02:
            self.command = rng.choice(("sort", "sort -u", ""))
        if rng.random() < 0.04:
            self.asks_user = not self.asks_user
        if rng.random() < 0.03:
            for key in self.keys:
                self.level[key] += rng.gauss(0, 0.2)
        chosen = [key for key in self.keys if rng.random() < 0.9] or self.keys
        return Run(
            points=tuple((key, self.point(key, number)) for key in chosen),
            environment=self.environment,
            machine="AMD, 2 CPUs",
        )

    def point(self, key: SeriesKey, number: int) -> HistoryPoint:
        rng = self.rng
        if rng.random() < 0.005:
            self.level[key] += rng.choice((-0.3, 0.15, 0.3))
        value = math.exp(self.level[key] + rng.gauss(0, 0.03))
        if rng.random() < 0.01:
            value *= 2
        if rng.random() < 0.002:
            value = 0.0
        bounded = rng.random() < 0.7 and value > 0
        return HistoryPoint(
            run=f"run-{number}",
            study="bw-study",
            session=number,
            started_ns=number * 1000,
            estimate=value,
            low=value * 0.98 if bounded else None,
            high=value * rng.choice((1.02, 1.3)) if bounded else None,
            confidence=rng.choice((0.95, 0.99)) if bounded else None,
            trials=rng.choice((5, 10)),
            unit="s" if rng.random() < 0.999 else "B",
            better="lower",
            commit=f"{number:040x}",
            environment="" if self.environment is None else self.environment.id,
            command=self.command,
            codes=("bimodal",) if rng.random() < 0.1 else (),
            asked=key.metric == "elapsed" or self.asks_user,
        )


def whole(path: Path, ignored: tuple[str, ...]) -> list[dict[str, object]]:
    """Return the answers from all points."""
    with HistoryFile.open_to_read(path) as file:
        history = history_of(file.runs(), file.acceptances())
    answer = history_answer(history, HistoryQuestion(ignored=ignored))
    return [{name: getattr(one, name) for name in SHOWN} for one in answer.series]


def with_stored_starts(path: Path, ignored: tuple[str, ...]) -> list[dict[str, object]]:
    """Return the answers from all points, with the looks that are stored."""
    with HistoryFile.open_to_read(path) as file:
        starts = stored_starts(file, ignored)
        history = history_of(file.runs(), file.acceptances())
    answer = history_answer(history, HistoryQuestion(ignored=ignored), starts)
    return [{name: getattr(one, name) for name in SHOWN} for one in answer.series]


def stored(path: Path, ignored: tuple[str, ...]) -> list[dict[str, object]]:
    """Return the answers from what is stored, which is replaced."""
    with HistoryFile.open_to_write(path) as file:
        found = newest_runs(file, ignored=ignored, store=True)
    return [{name: getattr(one, name) for name in SHOWN} for one in found.series]


def changed(path: Path, rng: random.Random, source: Source, number: int) -> None:
    """Do what a person may do to a history file between two runs."""
    with HistoryFile.open_to_write(path) as file:
        runs = file.runs()
        chance = rng.random()
        if chance < 0.04:
            run = rng.choice(runs)
            key, point = rng.choice(run.points)
            file.accept(Acceptance(key=key, run=point.run, reason="x", accepted_ns=number))
        elif chance < 0.06:
            # A run of an earlier moment.
            late = source.run(number + 100_000)
            moment = rng.randrange(number) * 1000 + 1
            points = tuple(
                (key, msgspec.structs.replace(point, started_ns=moment))
                for key, point in late.points
            )
            file.add([msgspec.structs.replace(late, points=points)])
        elif chance < 0.08:
            run = rng.choice(runs)
            points = tuple(
                (key, msgspec.structs.replace(point, estimate=point.estimate * 1.5))
                for key, point in run.points
                if not point.low
            )
            if points:
                file.add([msgspec.structs.replace(run, points=points)])
        elif chance < 0.09:
            file.drop_oldest(path.stat().st_size * 9 // 10)
    if chance > 0.99:
        with sqlite3.connect(path) as database:
            database.execute("DELETE FROM tail_cache WHERE run % 3 = 0")
    elif chance > 0.98:
        with sqlite3.connect(path) as database:
            database.execute("UPDATE point SET estimate = estimate * 2 WHERE run = 2")
        database.close()


@pytest.mark.parametrize("seed", range(6))
def test_the_answers_after_each_run_are_those_of_all_points(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "h.db"
    rng, source = random.Random(f"changes {seed}"), Source(seed, series=3)
    ignored = ("kernel.*",) if seed % 2 else ()
    number = 0
    verdicts: Counter[str] = Counter()
    while number < 60:
        count = rng.choice((1, 1, 1, 1, 2, 5))
        with HistoryFile.open_to_write(path) as file:
            file.add([source.run(number + at) for at in range(count)])
        number += count
        changed(path, rng, source, number)
        expected = whole(path, ignored)
        found = stored(path, ignored)
        assert repr(with_stored_starts(path, ignored)) == repr(expected), number
        with HistoryFile.open_to_read(path) as file:
            assert {one["key"] for one in found} == set(stored_starts(file, ignored))
        assert repr(found) == repr(expected), number
        verdicts.update(one["newest"].verdict for one in found)  # type: ignore[attr-defined]
    assert min(verdicts["no difference"], verdicts["undecided"]) > 10, verdicts


def test_the_answers_of_series_longer_than_what_is_stored_of_their_values(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    source = Source(7, series=1)
    rng = random.Random(7)
    number = 0
    verdicts: Counter[str] = Counter()
    while number < 500:
        count = rng.choice((1, 1, 1, 1, 100, 330))
        with HistoryFile.open_to_write(path) as file:
            file.add([quiet(source, number + at) for at in range(count)])
        number += count
        found = stored(path, ())
        verdicts.update(one["newest"].verdict for one in found)  # type: ignore[attr-defined]
        if rng.random() < 0.1 or count > 1:
            assert repr(found) == repr(whole(path, ())), number
    with sqlite3.connect(path) as database:
        (tails,) = database.execute("SELECT count(*) FROM tail_cache").fetchone()
    database.close()
    # Nine of ten runs have a value of a series.
    assert TAIL < tails < 1.2 * TAIL < number
    assert verdicts["slower"] + verdicts["faster"], verdicts


def quiet(source: Source, number: int) -> Run:
    """Return a run of one environment and command whose metrics are all asked for."""
    source.environment, source.command, source.asks_user = None, "sort", True
    if number in (330, 440, 480):
        for key in source.keys:
            source.level[key] += 0.1
    run = source.run(number)
    points = tuple(
        (
            key,
            msgspec.structs.replace(
                point,
                environment="",
                command="sort",
                asked=True,
                unit="s",
                estimate=point.estimate or 1.0,
            ),
        )
        for key, point in run.points
    )
    return msgspec.structs.replace(run, points=points, environment=None)


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE point SET estimate = estimate * 1.2 WHERE run = 20",
        "DELETE FROM point WHERE run = 20",
        "UPDATE run SET started_ns = 100000 WHERE id = 20",
        "UPDATE run SET environment = 'e2' WHERE id = 30",
        "DELETE FROM tail_cache",
        "UPDATE level_cache SET method = 'another', levels = x''",
    ],
)
def test_what_was_computed_from_something_else_is_not_used(tmp_path: Path, edit: str) -> None:
    path = tmp_path / "h.db"
    source = Source(3, series=2)
    runs = [
        msgspec.structs.replace(quiet(source, at), environment=ENVIRONMENTS[at == 0])
        for at in range(40)
    ]
    with HistoryFile.open_to_write(path) as file:
        file.add(
            msgspec.structs.replace(
                run,
                points=tuple(
                    (key, msgspec.structs.replace(point, environment=environment.id))
                    for key, point in run.points
                ),
            )
            for run in runs
            if (environment := run.environment) is not None
        )
    before = stored(path, ())
    with closing(sqlite3.connect(path)) as database, database:
        assert database.execute(edit).rowcount
    expected = whole(path, ())
    assert (repr(before) == repr(expected)) == ("cache" in edit)
    assert repr(with_stored_starts(path, ())) == repr(expected)
    assert repr(stored(path, ())) == repr(expected)


@pytest.mark.parametrize("seed", range(12))
def test_values_of_zero_have_the_same_answer_from_what_is_stored(seed: int, tmp_path: Path) -> None:
    path, rng, source = tmp_path / "h.db", random.Random(seed), Source(seed, series=1)
    source.environment = None
    value, verdicts = 0.0, set()
    for number in range(60):
        if number > 12 and rng.random() < 0.05:
            value = 0.0 if value else 1.0
            if rng.random() < 0.8:
                source.command = f"sort {number}"
        key = source.keys[0]
        point = msgspec.structs.replace(
            source.point(key, number),
            estimate=value,
            low=None,
            high=None,
            confidence=None,
            unit="",
            asked=True,
        )
        run = Run(points=((key, point),), environment=None, machine="m")
        with HistoryFile.open_to_write(path) as file:
            file.add([run])
        expected = whole(path, ())
        assert repr(stored(path, ())) == repr(expected)
        assert repr(with_stored_starts(path, ())) == repr(expected)
        verdicts |= {one["newest"].verdict for one in expected}  # type: ignore[attr-defined]
    assert "no difference" in verdicts


def test_what_is_stored_is_that_of_this_version_of_the_method(tmp_path: Path) -> None:
    """If this fails, files hold levels that another method computed: increase `METHOD`."""
    path = tmp_path / "h.db"
    source = Source(11, series=3)
    with HistoryFile.open_to_write(path) as file:
        file.add([source.run(at) for at in range(120)])
        newest_runs(file, store=True)
        cache = file.level_cache()
    assert cache is not None
    found = hashlib.sha256(cache.levels).hexdigest()[:16]
    assert (METHOD, found) == (3, "e2d8ea6832547275")


def test_a_metric_that_is_asked_for_again_has_the_answers_of_all_its_points(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    source = Source(5, series=1)
    for number in range(40):
        run = quiet(source, number)
        points = tuple(
            (key, msgspec.structs.replace(point, asked=number // 10 != 1))
            for key, point in run.points
        )
        with HistoryFile.open_to_write(path) as file:
            file.add([msgspec.structs.replace(run, points=points)])
        assert repr(stored(path, ())) == repr(whole(path, ())), number
