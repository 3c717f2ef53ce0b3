"""The answers about the newest runs of a history file, from what was stored after the runs before.

Purpose: after one more run, the answers of 10,000 series of 500 points in less than a second, and
the same answers as from all points. Decision: of each series the file stores where its last two
levels begin, with the environment, command and unit that the next point must have (`level_cache`),
and of the runs that hold the last values of a series their logarithms (`tail_cache`). Both are
caches: they hold for the runs, in their order, from whose digests they were computed, for the
acceptances, for the ignored facts and for this version of the method; where they do not, everything
is computed anew by the same functions. An acceptance, and a metric that is asked for again, are
computed anew for their series alone.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from benchwright.core.numeric import np, npt
from benchwright.features.history.findings import segments_of
from benchwright.features.history.newest import (
    NO_RATIO,
    LevelStart,
    NewestLook,
    NewestSeries,
    gone_text,
    log_and_error,
    matches,
    newest_answers,
    series_names,
)
from benchwright.features.history.store import (
    HistoryFile,
    LevelCache,
    StoredPoint,
    StoredRun,
    history_point,
)
from benchwright.features.history.types import (
    HistoryPoint,
    NoValue,
    SeriesKey,
    gone_series,
    lost_values,
    unresolved,
    value_times,
    with_lost,
)
from benchwright.stats.arrays import FloatArray
from benchwright.stats.steps import FALSE_ALARMS, TAIL, LevelVerdict, newest_verdicts

METHOD = 3
"""Version of what is stored and of how it is computed; a golden test shows when it must change."""

Ints = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


class NewestRuns(msgspec.Struct, frozen=True):
    """The answers about the newest run of each series."""

    series: tuple[NewestSeries, ...]
    without: tuple[NoValue, ...] = ()
    """What has no value since its last one."""


def newest_runs(
    file: HistoryFile,
    *,
    ignored: Sequence[str] = (),
    false_alarms: float = FALSE_ALARMS,
    store: bool = False,
    max_bytes: int | None = None,
) -> NewestRuns:
    """Return the answers of a history file for the metrics that its runs asked for.

    `ignored` are names, or patterns of names, of facts whose changes start no segment. With
    `store`, the file is open to write and what was computed is stored, unless the file would be
    larger than `max_bytes`.
    """
    levels = _Levels(file, ignored)
    levels.advance()
    without = levels.without()
    series = levels.answers(false_alarms, without)
    if store:
        levels.store(max_bytes)
    return NewestRuns(series, without)


def stored_starts(file: HistoryFile, ignored: Sequence[str] = ()) -> dict[SeriesKey, LevelStart]:
    """Return where the levels of the series begin, as stored; empty if what is stored is not about
    all runs and acceptances of the file, these ignored facts and this version of the method."""
    levels = _Levels(file, ignored)
    if not levels.is_complete:
        return {}
    at, keys = levels.at, file.keys()
    return {
        keys[one]: LevelStart(
            int(at.count[one]),
            int(at.start[one]),
            int(at.old_level_start[one]),
            int(at.old_before[one]),
        )
        for one in np.flatnonzero(at.count).tolist()
    }


# -- What is stored of each series ---------------------------------------------------------


class _PerSeries(msgspec.Struct):
    """Arrays with an element for each series id, shape `(ids,)`. All places are those in the
    series. All are 0 but `is_seen` where the newest point is of a metric that its run did not ask
    for."""

    is_seen: Ints
    """Whether there is any point."""
    count: Ints
    """The number of points."""
    newest_run: Ints
    """The id of the run of the newest point."""
    start: Ints
    """The first point with which the newest one is compared: of its segment, or of the level that
    was accepted last."""
    is_bad: Ints
    """Whether values since then have no ratio: 0 if all are positive, 2 if all are 0, which have no
    difference, else 1."""
    level_start: Ints
    """Of the verdict about the newest point."""
    before: Ints
    old_level_start: Ints
    """Of the verdict about the point before it, from which the look at the newest point begins."""
    old_before: Ints
    environment: Ints
    """The last one that is known, as its place in a list of them; 0 if none is."""
    command: Ints
    """The smallest id of what was measured with the last command that is known; 0 if none is."""
    unit: Ints
    """The smallest id of what was measured in that unit."""

    @classmethod
    def empty(cls, ids: int) -> _PerSeries:
        """Return the arrays for series without points."""
        return cls(*(np.zeros(ids, dtype=np.int32) for _ in cls.__struct_fields__))

    def clear(self, which: Flags) -> None:
        """Forget the points of some series, shape `(ids,)`."""
        for name in self.__struct_fields__:
            if name != "is_seen":
                getattr(self, name)[which] = 0


class _Header(msgspec.Struct, frozen=True):
    ids: int
    environments: tuple[str, ...]


def _encoded(at: _PerSeries, environments: Sequence[str]) -> bytes:
    header = _Header(at.count.size, tuple(environments))
    table = np.stack(msgspec.structs.astuple(at))
    return msgspec.json.encode(header) + b"\n" + table.tobytes()


def _decoded(text: bytes) -> tuple[_PerSeries, list[str]]:
    head, _, rest = text.partition(b"\n")
    header = msgspec.json.decode(head, type=_Header)
    table = np.frombuffer(rest, dtype=np.int32).reshape(-1, header.ids)
    return _PerSeries(*table.copy()), list(header.environments)


def _method(ignored: Sequence[str]) -> str:
    from benchwright import __version__

    return f"{__version__} {METHOD} {sys.byteorder} {json.dumps(sorted(ignored))}"


def _identity(run: StoredRun) -> bytes:
    return run.id.to_bytes(8, "little") + run.digest


# -- The points of a run as arrays -----------------------------------------------------------


class _Points(msgspec.Struct, frozen=True):
    """Points of one run, shapes `(n,)`, in the order of the series' ids."""

    series: Ints
    logs: FloatArray
    errors: FloatArray
    measured: Ints
    asked: Flags

    def of(self, wanted: Flags) -> _Points:
        """Return those of the series that are wanted, shape `(ids,)`."""
        is_wanted = wanted[self.series]
        if is_wanted.all():
            return self
        return _Points(*(one[is_wanted] for one in msgspec.structs.astuple(self)))

    def encoded(self) -> bytes:
        """Return what the look at a later run needs of the points: their number, the series,
        logarithms, and standard errors if any is known."""
        n = self.series.size
        some = np.isfinite(self.errors).any()
        return b"".join(
            (
                n.to_bytes(8, "little"),
                self.logs.tobytes(),
                self.errors.tobytes() if some else b"",
                self.series.tobytes(),
            )
        )


class _Tail(msgspec.Struct, frozen=True):
    """Encoded points of a run."""

    series: bytes
    n: int
    logs: FloatArray
    errors: FloatArray | None

    @classmethod
    def decoded(cls, text: bytes) -> _Tail:
        """Return the points of a text of `encoded`."""
        n = int.from_bytes(text[:8], "little")
        errors = None
        if len(text) > 8 + n * (8 + 4):
            errors = np.frombuffer(text, np.float64, n, 8 + 8 * n)
        return cls(text[len(text) - 4 * n :], n, np.frombuffer(text, np.float64, n, 8), errors)


def _points_of(rows: Sequence[StoredPoint]) -> _Points:
    pairs = [
        log_and_error(row.estimate, row.low, row.high, row.confidence, row.trials) for row in rows
    ]
    logs = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return _Points(
        np.array([row.series for row in rows], dtype=np.int32),
        np.ascontiguousarray(logs[:, 0]),
        np.ascontiguousarray(logs[:, 1]),
        np.array([row.measured for row in rows], dtype=np.int32),
        np.array([row.asked for row in rows], dtype=np.bool_),
    )


_BLOCK = 20
"""Runs of the same series that are copied together."""


class _Tails:
    """The last values of each series and their standard errors: rows whose used part ends at `end`."""

    def __init__(self, ids: int, width: int) -> None:
        self.end = np.zeros(ids, dtype=np.int64)
        self.logs = np.empty((ids, width))
        self.errors: FloatArray | None = None
        """None as long as all are unknown."""

    def append(self, points: _Points) -> None:
        """Add the next value of some series."""
        series = points.series
        self._need_errors(bool(np.isfinite(points.errors).any()))
        full = series[self.end[series] == self.logs.shape[1]]
        if full.size:
            for table in (self.logs, self.errors):
                if table is not None:
                    table[full, :TAIL] = table[full, -TAIL:]
            self.end[full] = TAIL
        place = self.end[series]
        self.logs[series, place] = points.logs
        if self.errors is not None:
            self.errors[series, place] = points.errors
        self.end[series] = place + 1

    def _need_errors(self, is_needed: bool) -> None:
        if is_needed and self.errors is None:
            self.errors = np.full_like(self.logs, math.nan)

    def load(self, texts: Iterable[bytes], needed: Ints) -> None:
        """Read the last `needed` values of each series from the encoded points of runs, the newest
        run first, until all are read."""
        self.end[needed > 0] = TAIL
        missing = needed.copy()
        place = np.full_like(needed, TAIL)
        block: list[_Tail] = []
        wanted = 0
        for text in texts:
            tail = _Tail.decoded(text)
            if block and block[0].series != tail.series:
                self._place(block, missing, place)
                block = []
            block.append(tail)
            if len(block) == 1:
                series = np.frombuffer(tail.series, np.int32)
                wanted = min(int(missing[series].max(initial=0)), _BLOCK)
            if len(block) >= wanted:
                self._place(block, missing, place)
                block = []
                if not missing.any():
                    return
        if block:
            self._place(block, missing, place)
        assert not missing.any(), "a run of a series is missing"

    def _place(self, block: Sequence[_Tail], missing: Ints, place: Ints) -> None:
        """Write the points of runs of the same series, the newest run first, before those that were
        written."""
        every = np.frombuffer(block[0].series, np.int32)
        self._need_errors(any(one.errors is not None for one in block))
        n = len(block)
        ends = place[every]
        if every.size and missing[every].min() >= n and (ends == ends[0]).all():
            rows: slice | Ints = every
            if every[-1] - every[0] + 1 == every.size:
                rows = slice(int(every[0]), int(every[-1]) + 1)
            last = int(ends[0])
            columns = slice(last - n, last)
            logs = [one.logs for one in reversed(block)]
            self.logs[rows, columns] = np.array(logs).T
            if self.errors is not None:
                unknown = np.full(every.size, math.nan)
                errors = [unknown if one.errors is None else one.errors for one in reversed(block)]
                self.errors[rows, columns] = np.array(errors).T
            missing[every] -= n
            place[every] -= n
            return
        for tail in block:
            used = missing[every] > 0
            series = every[used]
            missing[series] -= 1
            place[series] -= 1
            self.logs[series, place[series]] = tail.logs[used]
            if self.errors is not None:
                values = math.nan if tail.errors is None else tail.errors[used]
                self.errors[series, place[series]] = values


_IDENTITY_BYTES = 8 + 16


class _Levels:
    """The levels of a history file, as stored and then advanced to its newest run."""

    def __init__(self, file: HistoryFile, ignored: Sequence[str]) -> None:
        self._file = file
        self._ignored = ignored
        self._method = _method(ignored)
        self._runs = file.stored_runs()
        self._identities = b"".join(map(_identity, self._runs))
        self._measured = file.measured()
        self._known_environments = file.environments()
        self._acceptances = file.named_acceptances()
        self._keys = file.keys()
        ids = max(self._keys, default=0) + 1
        self.at = _PerSeries.empty(ids)
        self._environments = [""]
        self._done = 0
        """Number of runs whose points the levels have."""
        self._has_tails = False
        self._new_tails: list[tuple[StoredRun, bytes]] = []
        self._rows: dict[int, StoredPoint] = {}
        """Of the newest run, by series; empty if it was not read."""
        self._oldest_ns = 0
        """Start of the oldest run whose points were needed."""
        self._accepted_later = np.zeros(ids, dtype=np.bool_)
        self._read_cache()
        of_key = {key: number for number, key in self._keys.items()}
        self._accepted: dict[str, list[int]] = {}
        for acceptance in self._acceptances.values():
            if acceptance.key in of_key:
                self._accepted.setdefault(acceptance.run, []).append(of_key[acceptance.key])
        self._decided: dict[tuple[int, ...], bool] = {}
        first_command = {"": 0}
        first_unit: dict[str, int] = {}
        size = max(self._measured, default=0) + 1
        self._commands = np.zeros(size, dtype=np.int32)
        self._units = np.zeros(size, dtype=np.int32)
        for number, measured in self._measured.items():
            self._commands[number] = first_command.setdefault(measured.command, number)
            self._units[number] = first_unit.setdefault(measured.unit, number)

    def _read_cache(self) -> None:
        """Take over what is stored, if it is about the first runs of the file."""
        cache = self._file.level_cache()
        if (
            cache is None
            or cache.method != self._method
            or not self._identities.startswith(cache.runs)
            or not set(cache.acceptances) <= set(self._acceptances)
        ):
            return
        stored, self._environments = _decoded(cache.levels)
        for name in _PerSeries.__struct_fields__:
            getattr(self.at, name)[: stored.count.size] = getattr(stored, name)
        self._done = len(cache.runs) // _IDENTITY_BYTES
        self._has_tails = True
        later = {
            acceptance.key
            for name, acceptance in self._acceptances.items()
            if name not in cache.acceptances
        }
        for number, key in self._keys.items():
            self._accepted_later[number] = key in later

    @property
    def is_complete(self) -> bool:
        """Whether the levels are those of all runs and acceptances."""
        return self._done == len(self._runs) and not self._accepted_later.any()

    # -- advancing ----------------------------------------------------------------------

    def advance(self) -> None:
        """Bring the levels to the newest run; only the last look at each series is left."""
        at = self.at
        old, new = self._runs[: self._done], self._runs[self._done :]
        points = []
        for run in new:
            rows = list(self._file.points(run.id))
            points.append(_points_of(rows))
            self._rows = {row.series: row for row in rows}
        is_asked, was_seen = at.count > 0, at.is_seen > 0
        for one in points:
            is_asked[one.series] = one.asked
            at.is_seen[one.series] = 1
        again = is_asked & was_seen & (at.count == 0)
        if again.any():
            # What is stored of the runs does not have the points of these series.
            self._has_tails = False
        anew = again | (is_asked & (at.count > 0) & self._accepted_later)
        at.clear(anew | ~is_asked)
        self._tails = _Tails(at.count.size, TAIL + min(len(new), TAIL))
        if anew.any():
            self._tails = _Tails(at.count.size, 2 * TAIL)
            some = np.flatnonzero(anew).tolist()
            for run in old:
                self._add(run, _points_of(list(self._file.points(run.id, some))))
        self._load_tails(old, ~anew)
        for run, every in zip(new, points, strict=True):
            one = every.of(is_asked)
            self._new_tails.append((run, one.encoded()))
            self._add(run, one, is_last=run is new[-1])
        self._forget_unneeded(new, points)

    def _add(self, run: StoredRun, points: _Points, *, is_last: bool = False) -> None:
        """Add the points of the next run, and look at them unless they are the last ones."""
        at, series = self.at, points.series
        if not series.size:
            return
        place = at.count[series]
        starts = (place == 0) | self._begins_segment(run, points)
        starts |= np.isin(series, self._accepted.get(run.name, []))
        begun = series[starts]
        at.count[series] = place + 1
        at.newest_run[series] = run.id
        for one in (at.start, at.level_start, at.before):
            one[begun] = place[starts]
        kind = np.isnan(points.logs) + 2 * np.isneginf(points.logs)
        is_same = starts | (at.is_bad[series] == kind)
        at.is_bad[series] = np.where(is_same, kind, 1)
        at.old_level_start[series] = at.level_start[series]
        at.old_before[series] = at.before[series]
        self._tails.append(points)
        if not is_last:
            self._look(series[at.is_bad[series] != 1].tolist())

    def _begins_segment(self, run: StoredRun, points: _Points) -> Flags:
        """Return at which points another environment, command or unit begins; shape as `points`."""
        at, series = self.at, points.series
        if run.environment not in self._environments:
            self._environments.append(run.environment)
        now = np.stack(
            [
                np.full_like(series, self._environments.index(run.environment)),
                self._commands[points.measured],
                self._units[points.measured],
            ]
        )
        known = np.stack([at.environment[series], at.command[series], at.unit[series]])
        is_known = (now != 0) & (known != 0)
        doubtful = np.flatnonzero(((now != known) & is_known).any(axis=0))
        begins = np.zeros(series.size, dtype=np.bool_)
        for place in doubtful.tolist():
            begins[place] = self._is_change(*known[:, place].tolist(), *now[:, place].tolist())
        at.environment[series], at.command[series], at.unit[series] = np.where(now != 0, now, known)
        return begins

    def _is_change(self, *ids: int) -> bool:
        """Return whether points of two environments, commands and units are in two segments."""
        if ids not in self._decided:
            first, second = (
                HistoryPoint(
                    run="",
                    study="",
                    session=0,
                    started_ns=0,
                    estimate=1.0,
                    trials=1,
                    environment=self._environments[environment],
                    command=self._measured[command].command if command else "",
                    unit=self._measured[unit].unit,
                )
                for environment, command, unit in (ids[:3], ids[3:])
            )
            segments = segments_of(
                (first, second), self._known_environments, lambda fact: matches(fact, self._ignored)
            )
            self._decided[ids] = len(segments) > 1
        return self._decided[ids]

    def _load_tails(self, runs: Sequence[StoredRun], wanted: Flags) -> None:
        """Read the last values of the wanted series."""
        at = self.at
        is_used = at.count > 0

        def texts() -> Iterator[bytes]:
            for run in reversed(runs):
                text = self._file.tail_cache(run) if self._has_tails else None
                if text is None:
                    points = _points_of(list(self._file.points(run.id)))
                    text = points.of(is_used).encoded()
                    self._new_tails.append((run, text))
                self._oldest_ns = run.started_ns
                yield text

        needed = np.where(wanted, np.minimum(at.count - at.start, TAIL), 0)
        if needed.any():
            self._tails.load(texts(), needed)

    def _forget_unneeded(self, runs: Sequence[StoredRun], points: Sequence[_Points]) -> None:
        """Keep the points of those runs alone that the next look needs, of runs with these points."""
        needed = np.minimum(self.at.count - self.at.start, TAIL)
        for run, one in zip(reversed(runs), reversed(points), strict=True):
            needed[one.series] -= 1
            if (needed <= 0).all():
                self._oldest_ns = run.started_ns
                break
        else:
            # Those that were read before are needed too.
            if not self._oldest_ns and runs:
                self._oldest_ns = self._runs[0].started_ns
        self._new_tails = [
            pair for pair in self._new_tails if pair[0].started_ns >= self._oldest_ns
        ]

    # -- looking ------------------------------------------------------------------------

    def _look(self, series: Sequence[int]) -> _Look:
        """Look at the newest points of series whose values have ratios, and move their levels."""
        at, tails = self.at, self._tails
        count, end, start = at.count[series], tails.end[series], at.start[series]
        size = np.minimum(count - start, TAIL)
        offset = count - size
        spans = list(zip(series, (end - size).tolist(), end.tolist(), strict=True))
        logs = [
            np.zeros(last - first) if at.is_bad[one] else tails.logs[one, first:last]
            for one, first, last in spans
        ]
        errors = [
            None if tails.errors is None else tails.errors[one, first:last]
            for one, first, last in spans
        ]
        verdicts = newest_verdicts(
            logs,
            standard_errors=errors,
            level_starts=(at.old_level_start[series] - offset).tolist(),
            befores=(at.old_before[series] - offset).tolist(),
            logarithms=True,
        )
        at.level_start[series] = offset + [verdict.level_start for verdict in verdicts]
        at.before[series] = offset + [verdict.before for verdict in verdicts]
        return _Look(logs, errors, verdicts, offset.tolist())

    # -- what is asked --------------------------------------------------------------------

    @functools.cached_property
    def _chosen(self) -> list[int]:
        """The series that are asked for, in the order of the keys."""
        every: list[int] = np.flatnonzero(self.at.count).tolist()
        return sorted(every, key=self._keys.__getitem__)

    def without(self) -> tuple[NoValue, ...]:
        """Return what has no value since its last one."""
        points = self._newest_points
        newest = [(self._keys[one], points[one]) for one in self._chosen]
        lost = lost_values(newest, self._file.later_runs)
        return with_lost(
            *(
                unresolved(no_values, value_times(newest))
                for no_values in (self._file.without(), lost)
            )
        )

    def answers(self, false_alarms: float, without: Sequence[NoValue]) -> tuple[NewestSeries, ...]:
        """Look at the newest point of each series; return the answers in the order of the keys.
        `without` is what has no value."""
        at, keys, chosen = self.at, self._keys, self._chosen
        points = self._newest_points
        gone = gone_series(without, (keys[one] for one in chosen))
        good = [one for one in chosen if at.is_bad[one] != 1]
        runs = (at.count - at.start).tolist()
        seen = self._look(good)
        looks = {
            one: NewestLook(
                newest=points[one],
                values=logs,
                errors=np.full_like(logs, math.nan) if errors is None else errors,
                verdict=verdict,
                runs=runs[one],
                offset=offset,
            )
            for one, logs, errors, verdict, offset in zip(
                *(good, seen.logs, seen.errors, seen.verdicts, seen.offsets), strict=True
            )
        }
        names = series_names([keys[one] for one in chosen])
        final = newest_answers(
            [
                gone_text(points[one]) if keys[one] in gone else looks.get(one, NO_RATIO)
                for one in chosen
            ],
            false_alarms,
        )
        series = []
        for one, name, answer in zip(chosen, names, final, strict=True):
            since = 1 if answer.since is None else int(at.count[one]) - answer.since
            series.append(
                NewestSeries(
                    key=keys[one],
                    name=name,
                    newest=answer,
                    newest_point=points[one],
                    since_point=points[one] if since == 1 else self._earlier_point(one, since),
                    runs_since=since,
                )
            )
        return tuple(series)

    @functools.cached_property
    def _newest_points(self) -> dict[int, HistoryPoint]:
        """The newest point of each series that is asked for."""
        series = self._chosen
        by_run: dict[int, list[int]] = {}
        for one, run in zip(series, self.at.newest_run[series].tolist(), strict=True):
            by_run.setdefault(run, []).append(one)
        found = {}
        for run in self._runs:
            if some := by_run.get(run.id):
                is_read = run is self._runs[-1] and self._rows
                for row in (
                    [self._rows[one] for one in some]
                    if is_read
                    else self._file.points(run.id, some)
                ):
                    measured = self._measured[row.measured]
                    found[row.series] = history_point(run, row, measured)
        return found

    def _earlier_point(self, series: int, back: int) -> HistoryPoint:
        """Return the point of a series that has `back` points from there on."""
        rows = (
            (run, row)
            for run in reversed(self._runs)
            for row in self._file.points(run.id, [series])
        )
        run, row = next(itertools.islice(rows, back - 1, None))
        return history_point(run, row, self._measured[row.measured])

    def store(self, max_bytes: int | None) -> None:
        """Store what was computed in the file, unless it would be larger than `max_bytes`."""
        self._file.store_cache(
            LevelCache(
                self._method,
                self._identities,
                tuple(self._acceptances),
                _encoded(self.at, self._environments),
            ),
            self._new_tails,
            # What is stored of the runs is replaced where it was not used.
            since_ns=self._oldest_ns if self._has_tails else None,
            max_bytes=max_bytes,
        )


class _Look(msgspec.Struct, frozen=True):
    """Looks at series, and at which of their values."""

    logs: list[FloatArray]
    errors: list[FloatArray | None]
    verdicts: list[LevelVerdict]
    offsets: list[int]
    """The places of the first of the values."""
