"""The page of a history in a browser: inert, the numbers of its document, readable for everyone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchwright.cli.main import main
from benchwright.core.machine import Fact
from benchwright.features.history.answer import HistoryQuestion, history_answer
from benchwright.features.history.page import history_page
from benchwright.features.history.store import HistoryFile, history_of
from benchwright.features.history.types import Environment, HistoryPoint, Run, SeriesKey
from benchwright.report.documents import encode
from test_report import HOSTILE_NAME, numbers_of, shown_numbers

VALUES = (1.00, 1.02, 0.99, 1.01, 0.98, 1.00, 1.03, 0.97, 1.01, 0.99)
KERNELS = [Environment(name, (Fact("kernel.release", name),)) for name in ("6.1", HOSTILE_NAME)]


def runs() -> list[Run]:
    """Return runs of two tests with hostile names: a step, an outlier, a changed environment."""
    found = []
    for at in range(40):
        kernel = KERNELS[at >= 12]
        points = []
        for test, factor in (
            (HOSTILE_NAME, 1.3 if at >= 30 else 1.0),
            ("sort", 1.6 if at == 20 else 1.0),
        ):
            value = VALUES[at % 10] * factor
            point = HistoryPoint(
                run=f"run-{at}",
                study=f"results/{HOSTILE_NAME}",
                session=at + 1,
                started_ns=(1_790_000_000 + 86_400 * at) * 10**9,
                estimate=value,
                low=value * 0.99,
                high=value * 1.01,
                confidence=0.95,
                trials=10,
                unit="s",
                commit=f"{at:07x}" + "0" * 33,
                tags=("v1",) if at == 3 else (),
                environment=kernel.id,
                command=HOSTILE_NAME,
            )
            points.append((SeriesKey(test, "elapsed", "0123abcd"), point))
        found.append(Run(points=tuple(points), environment=kernel, machine="AMD"))
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a history file and its page."""
    here = tmp_path_factory.mktemp("history")
    with HistoryFile.open_to_write(here / "history.db") as file:
        file.add(runs())
    words = ["history", str(here / "history.db"), "--html", str(here / "history.html")]
    assert main(words) == 0
    return here


def test_the_page_has_the_numbers_of_its_document(visit, place: Path) -> None:
    seen = visit()
    page = seen.open(place / "history.html")
    document = history_page(history_answer(history_of(runs()), HistoryQuestion()))
    numbers = numbers_of(json.loads(encode(document)))
    assert len(numbers) > 200
    assert shown_numbers(page) == numbers
    assert seen.errors == []
    assert len(seen.requests) == 1


def test_charts_of_runs_are_as_wide_as_the_text_and_explained_once(visit, place: Path) -> None:
    page = visit().open(place / "history.html")
    charts = page.locator("figure.wide svg.chart")
    boxes = [charts.nth(at).bounding_box() for at in range(charts.count())]
    assert len(boxes) == 2
    text = page.locator(".reading").first.bounding_box()
    assert text is not None
    assert all(box is not None and box["width"] >= text["width"] for box in boxes)
    assert page.locator(".reading").count() == 1


def test_names_are_text_and_a_point_says_which_commit_it_is(visit, place: Path) -> None:
    page = visit().open(place / "history.html")
    assert page.title() == "History of 40 runs"
    assert page.locator("img").count() == 0
    assert HOSTILE_NAME in (page.locator("main").text_content() or "")
    titles = page.eval_on_selector_all("svg title", "all => all.map(one => one.textContent)")
    assert any("0000003" in title and "v1" in title for title in titles)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_serious_keeps_a_reader_out(visit, place: Path, dark: bool) -> None:
    seen = visit(dark=dark)
    seen.open(place / "history.html")
    seen.page.eval_on_selector_all("details", "all => all.forEach(one => one.open = true)")
    assert seen.serious_violations() == []


def test_a_telephone_does_not_scroll_sideways(visit, place: Path) -> None:
    seen = visit(width=360, height=740)
    page = seen.open(place / "history.html")
    box = page.locator(".verdict p").first.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 740
    assert seen.sideways() == []


def test_two_renderings_are_the_same_bytes(place: Path) -> None:
    words = ["history", str(place / "history.db"), "--html", str(place / "again.html")]
    assert main(words) == 0
    assert (place / "again.html").read_bytes() == (place / "history.html").read_bytes()
