"""What every output shows of a search: its view, and the tables and figures that all kinds share.

Each kind has a view (`peak/view.py`, `ramp/view.py`, `surface/view.py`): its report as texts and as
blocks. Terminal, page and notice show the same tables of it. Decision: a view makes a part when it
is asked for, because a list of sessions needs only the headline.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, Unpack

import msgspec

from benchwright.core.criterion import Criterion, criterion_name
from benchwright.core.plan import Pairs
from benchwright.core.results import Estimate, Finding
from benchwright.core.text import duration_text, plural
from benchwright.core.text_table import Field, field_lines
from benchwright.core.untrusted import one_line, visible
from benchwright.features.load.plan import LoadEnding
from benchwright.features.search.documents import StoredSearch
from benchwright.features.search.explained import SearchReport
from benchwright.features.search.peak.policies.evidence import is_void
from benchwright.features.search.text import peak_rate_text, sample_text
from benchwright.features.search.types import ClaimResult, SearchTrial
from benchwright.report.charts.sheet import Sheet
from benchwright.report.documents import FileEntry, report_text
from benchwright.views.blocks import (
    Cell,
    Column,
    Number,
    Picture,
    Scale,
    TableBlock,
    Tile,
    Words,
    count_column,
    count_number,
    estimate_number,
    keyed,
    number_of,
    scale_of,
    table_of,
)
from benchwright.views.terminal import table_text

ReportT = TypeVar("ReportT", bound=SearchReport)


class SearchView(ABC, Generic[ReportT]):
    """A search as texts and blocks."""

    def __init__(self, report: ReportT, part: str = "", *, verbose: bool = False) -> None:
        """`part` begins the ids of a page; `verbose`: with all that is known, as on a page."""
        self.report = report
        self.part = part
        self.verbose = verbose
        self.trials_id = f"{part}-all-trials"

    @abstractmethod
    def headline(self) -> str:
        """Return the answer in a few words."""

    @abstractmethod
    def sentence(self) -> str:
        """Return the answer in one sentence."""

    def ending(self) -> str:
        """Return how the search ended, in a few words."""
        return self.report.status

    @abstractmethod
    def fields(self) -> Iterator[Field]:
        """Yield what was found, and how, as names and texts."""

    @abstractmethod
    def tiles(self) -> Iterator[Tile]:
        """Yield the figures of the answer, and what it cost."""

    @abstractmethod
    def tables(self) -> Iterator[TableBlock]:
        """Yield the tables of the answer, without that of the trials."""

    @abstractmethod
    def sheet(self) -> Sheet:
        """Return the chart."""

    @abstractmethod
    def picture(self) -> Picture:
        """Return the chart with how to read it."""

    @abstractmethod
    def document(self, plots: Sequence[FileEntry] = (), **stored: Unpack[StoredSearch]) -> str:
        """Return the document that the search's command prints with --json."""

    @abstractmethod
    def answers(self) -> Mapping[Pairs, float | None]:
        """Return the load of the answer for each sample: a rate [1/s] or users; None without an
        answer."""

    def peaks(self) -> Mapping[Pairs, ClaimResult]:
        """Return the result of the peak search at each sample; a ramp has none."""
        return {}

    def named_findings(self) -> tuple[tuple[str, Finding], ...]:
        """Return the findings, each with the sample that it concerns; empty: all of them."""
        return tuple(("", finding) for finding in self.report.findings)

    def text_tables(self) -> Iterable[TableBlock]:
        """Return the tables on a terminal."""
        return self.tables()

    def text(self, width: int | None = None) -> str:
        """Return the report without its findings, ending with a newline; tables lose columns where
        they are wider than `width`."""
        return report_text(
            [one_line(self.sentence()), *map(one_line, self.report.disturbed.lines)],
            field_lines(self.fields()),
            *(_titled(table, width) for table in self.text_tables()),
        )


def _titled(table: TableBlock, width: int | None) -> Iterator[str]:
    """Yield the lines of a table between its title and its note; none without rows."""
    if table.rows:
        yield f"{table.title}:"
        yield from table_text(table, width)
        yield from filter(None, [table.note])


# -- Figures and columns ---------------------------------------------------------------

T = TypeVar("T")
CellColumn = tuple[Column, Callable[[str, T], Cell]]
"""A column of `table_of`."""


def share_scale(shares: Iterable[float | None], digits: int = 3) -> Scale:
    """Return the scale of shares in per cent."""
    scale = scale_of([None if share is None else 100 * share for share in shares], "%", digits)
    return msgspec.structs.replace(scale, size=scale.size / 100)


def criterion_scale(criterion: Criterion, values: Iterable[float | None]) -> Scale:
    """Return the scale of a criterion's values."""
    if criterion.statistic in ("share", "ratio"):
        return share_scale(values, 4)
    unit = "/s" if criterion.unit == "1/s" else criterion.unit
    return scale_of(values, unit)


def _key(row: str, name: str) -> str:
    return f"{row}.{name}" if name else row


def criterion_label(criterion: Criterion) -> str:
    """Return the heading of a criterion's values; a metric of a user has its own name."""
    name = criterion_name(criterion)
    return visible(name if criterion.statistic == "metric" else f"{name[:1].upper()}{name[1:]}")


def figure_column(
    label: str,
    name: str,
    get: Callable[[T], float | None],
    scale: Scale,
    *,
    note: str = "",
    short: str = "",
    link: str = "",
    rank: int = 0,
) -> CellColumn[T]:
    """Return a column of numbers; `name` ends their keys, if it is not empty; `short`: the label on
    a terminal."""
    return (
        Column(label, note, numeric=True, short=short, rank=rank),
        lambda key, one: number_of(_key(key, name), get(one), scale, link=link),
    )


def estimate_column(
    label: str, name: str, get: Callable[[T], Estimate | None], scale: Scale, *, link: str = ""
) -> CellColumn[T]:
    """Return a column of estimates with their intervals."""
    return (
        Column(label, numeric=True),
        lambda key, one: estimate_number(_key(key, name), get(one), scale, link=link),
    )


def word_column(label: str, get: Callable[[T], str], *, code: bool = False) -> CellColumn[T]:
    """Return a column of words."""
    return Column(label), lambda _, one: Words(visible(get(one)), code=code)


def peak_estimate(found: ClaimResult | None) -> Estimate | None:
    """Return a peak rate with its interval, if the search has one."""
    estimate = None if found is None else found.rate_estimate()
    if found is None or estimate is None or found.peak_rate is None:
        return None
    return msgspec.structs.replace(estimate, value=found.peak_rate)


def peak_number(key: str, found: ClaimResult | None, link: str = "") -> Number:
    """Return a peak rate with its interval, or what it is a bound of."""
    peak = peak_estimate(found)
    scale = scale_of([] if peak is None else [peak.value], "/s", 5)
    number = estimate_number(key, peak, scale, link=link)
    if found is None or found.bound_kind is None:
        return number
    return msgspec.structs.replace(number, text=peak_rate_text(found))


def cost_tiles(view: SearchView[Any], load_s: float, cost_s: float, trials: int) -> Iterator[Tile]:
    """Yield what a search cost: its time, and its trials."""
    key, link = f"{view.part}.cost", view.trials_id
    spent = Number(key=key, value=cost_s, text=duration_text(cost_s), link=link)
    yield Tile("Cost", spent, f"{duration_text(load_s)} of it under load")
    yield Tile("Trials", count_number(f"{view.part}.trials", trials, link=link))


# -- The table of trials ---------------------------------------------------------------


def trials_table(
    identifier: str,
    trials: Sequence[SearchTrial],
    criteria: Sequence[Criterion],
    key: str = "",
    most_values: int = 0,
) -> TableBlock:
    """Return a row for each trial, with the values of the criteria, and of others up to
    `most_values` together; `key` begins the keys of its numbers."""
    # A peak search may begin with a closed loop, which is at no rate; a ramp may have only closed
    # loops.
    in_users = all(trial.probe.users is not None for trial in trials)

    def load(one: SearchTrial) -> float | None:
        return one.trial.rate if in_users or one.probe.users is None else None

    def offered(one: SearchTrial) -> float | None:
        return None if in_users or one.trial.offered is None else one.trial.offered_rate

    def sample(one: SearchTrial) -> str:
        return sample_text(one.sample)

    def purpose(one: SearchTrial) -> str:
        users = one.probe.users
        loop = "" if in_users or users is None else f"{users} users, a closed loop"
        return ", ".join(filter(None, (one.probe.purpose, loop)))

    sampled = len({trial.sample for trial in trials}) > 1
    loads = scale_of(map(load, trials), "" if in_users else "/s", 5)
    rates = scale_of(map(offered, trials), "/s", 5)
    times = scale_of(
        [s for trial in trials for s in (trial.trial.lasted_s, trial.trial.cost_s)], "s", 3
    )
    columns: list[CellColumn[SearchTrial]] = [
        count_column("Trial", "number", lambda one: one.number, "of its sample" if sampled else ""),
        *([word_column("Sample", sample)] if len({trial.sample for trial in trials}) > 1 else []),
        figure_column("Users" if in_users else "Rate", "rate", load, loads),
        # No column if the generator does not report the offered rate.
        *(
            [figure_column("Offered", "offered", offered, rates, rank=2)]
            if any(offered(trial) is not None for trial in trials)
            else []
        ),
        figure_column(
            "Lasted", "lasted", lambda search_trial: search_trial.trial.lasted_s, times, rank=3
        ),
        figure_column(
            *("Cost", "cost", lambda one: one.trial.cost_s, times),
            note="with the start and stop of the server",
            rank=4,
        ),
        *_value_columns(trials, criteria, most_values),
        *late_column(lambda one: one.trial.late_p99_ms, trials),
        word_column("Purpose", purpose),
        (Column("Ended"), _ended(trials, criteria)),
    ]
    return table_of(
        identifier, plural(len(trials), "trial"), keyed(f"{key}.trial", trials), columns
    )


def _value_columns(
    trials: Sequence[SearchTrial], criteria: Sequence[Criterion], most_values: int
) -> Iterator[CellColumn[SearchTrial]]:
    def value_of(name: str) -> Callable[[SearchTrial], float | None]:
        return lambda search_trial: search_trial.trial.values.get(name)

    for each in criteria:
        get = value_of(each.key)
        scale = criterion_scale(each, map(get, trials))
        yield figure_column(criterion_label(each), each.key, get, scale)
    known = {criterion.key for criterion in criteria}
    others = dict.fromkeys(name for trial in trials for name in trial.trial.values)
    room = max(0, most_values - len(criteria))
    for name in [other for other in others if other not in known][:room]:
        get = value_of(name)
        yield figure_column(visible(name), name, get, scale_of(map(get, trials), ""))


def late_column(get: Callable[[T], float | None], items: Sequence[T]) -> list[CellColumn[T]]:
    """Return the column of how late the generator was, with the decimals of the largest value; none
    if the generator does not say it."""
    known = [late for item in items if (late := get(item)) is not None]
    if not known:
        return []
    note = "how late the generator came to its operations"
    scale = scale_of([max(known)], "ms", 3)
    return [figure_column("Late p99", "late", get, scale, note=note, rank=1)]


def _ended(
    trials: Sequence[SearchTrial], criteria: Sequence[Criterion]
) -> Callable[[str, SearchTrial], Cell]:
    """Return the cell of how a trial ended, if it was not whole; a repeated failure refers to the
    first trial that had it."""
    first: dict[tuple[Pairs, str], int] = {}
    for search_trial in trials:
        if search_trial.trial.ending is LoadEnding.FAILED:
            first.setdefault((search_trial.sample, search_trial.trial.failure), search_trial.number)

    def cell(_: str, one: SearchTrial) -> Cell:
        trial = one.trial
        if trial.ending is not LoadEnding.FAILED:
            parts = (
                "ended early" if trial.ending is LoadEnding.LEFT else "",
                "void: the generator was late" if is_void(criteria, trial) else "",
            )
            return Words(", ".join(filter(None, parts)))
        number = first[one.sample, trial.failure]
        why = f"failed: {one_line(trial.failure)}" if trial.failure else "failed"
        if number != one.number:
            why = f"failed as trial {number} did"
        return Words(visible(why), tone="bad")

    return cell
