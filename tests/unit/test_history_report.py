"""The answer of a history: levels, steps, verdicts, gates, acceptances, text, documents and feeds."""

from __future__ import annotations

import json
import math
import random
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from benchwright.core.history import (
    Acceptance,
    Environment,
    HistoryPoint,
    Run,
    RunHistory,
    SeriesKey,
)
from benchwright.core.machine import Fact
from benchwright.page.history import history_page
from benchwright.page.html import render_page
from benchwright.report.documents import encode
from benchwright.report.feeds import atom_feed, feed_entries, json_feed
from benchwright.report.history import (
    HistoryQuestion,
    SeriesAnswer,
    history_answer,
)
from benchwright.report.history_document import history_document
from benchwright.report.history_newest import hold_gate
from benchwright.report.history_text import gate_lines, history_lines
from benchwright.study.history import history_of

DAY_NS = 86_400 * 10**9
OLD, NEW = (
    Environment(name, (Fact("kernel.release", release),))
    for name, release in (("e1", "6.1.0-17"), ("e2", "6.1.0-21"))
)


def series_of(
    test: str,
    levels: dict[int, float],
    *,
    runs: int = 60,
    noise: float = 0.01,
    spike: int | None = None,
    changed: int | None = None,
    metric: str = "elapsed",
    unit: str = "s",
    better: str = "lower",
    codes: tuple[str, ...] = (),
) -> list[Run]:
    """Return the runs of one series; `levels` by the first run of each."""
    rng = random.Random(test)
    found = []
    for at in range(runs):
        level = [value for first, value in levels.items() if first <= at][-1]
        value = level * math.exp(rng.gauss(0, noise)) * (1.5 if at == spike else 1)
        environment = NEW if changed is not None and at >= changed else OLD
        point = HistoryPoint(
            run=f"{test}-{at}",
            study="bw-study",
            session=at + 1,
            started_ns=1_790_000_000 * 10**9 + at * DAY_NS,
            estimate=value,
            low=value * (1 - noise / 2),
            high=value * (1 + noise / 2),
            confidence=0.95,
            trials=10,
            unit=unit,
            better=better,
            commit=f"{at:07x}" + "0" * 33,
            environment=environment.id,
            command=test,
            codes=codes if at == runs - 1 else (),
        )
        key = SeriesKey(test, metric, "0123abcd")
        found.append(
            Run(points=((key, point),), environment=environment, machine="AMD, 2 CPUs")
        )
    return found


def history(*runs: list[Run], accepted: tuple[Acceptance, ...] = ()) -> RunHistory:
    return history_of((run for some in runs for run in some), accepted)


def only(history: RunHistory, **asked: object) -> SeriesAnswer:
    (found,) = history_answer(history, HistoryQuestion(**asked)).series  # type: ignore[arg-type]
    return found


def acceptance(run: int) -> Acceptance:
    return Acceptance(
        key=SeriesKey("sort", "elapsed", "0123abcd"),
        run=f"sort-{run}",
        reason="checks its input",
        accepted_ns=1,
        by="me",
    )


# -- levels and steps ----------------------------------------------------------------------


def test_a_step_has_its_commits_its_size_and_two_levels() -> None:
    found = only(history(series_of("sort", {0: 1.0, 40: 1.1})))
    (step,) = found.steps
    assert step.first <= 40 <= step.last
    assert step.ratio.low < 1.1 < step.ratio.high
    assert step.is_worse
    assert [round(level.value, 1) for _, _, level in found.levels if level] == [
        1.0,
        1.1,
    ]
    assert found.newest.verdict == "no difference"


def test_a_spike_is_a_finding_and_no_step() -> None:
    found = only(history(series_of("sort", {0: 1.0}, spike=30)))
    assert found.steps == ()
    assert found.outliers == (30,)
    (finding,) = found.findings
    assert finding.code == "outlier-run"
    assert "000001e" in finding.evidence


def test_a_level_that_wanders_is_a_finding() -> None:
    wave = {at: 1 + 0.2 * math.sin(at / 8) for at in range(60)}
    found = only(history(series_of("sort", wave, noise=0.003)))
    assert [finding.code for finding in found.findings] == ["level-wanders"]
    assert all(math.isnan(step.p) for step in found.steps)


def test_runs_of_two_environments_are_not_compared() -> None:
    runs = series_of("sort", {0: 1.0, 30: 1.2}, changed=30)
    found = only(history(runs))
    assert found.steps == ()
    assert [(one.first, one.last) for one in found.segments] == [(0, 29), (30, 59)]
    (finding,) = found.findings
    assert finding.code == "environment-changed-between-runs"
    assert "kernel.release: 6.1.0-17, then 6.1.0-21" in finding.evidence
    (joined,) = only(history(runs), ignored=("kernel.*",)).steps
    assert joined.index == 30


@pytest.mark.parametrize(
    ("runs", "verdict"),
    [(41, "undecided"), (44, "slower"), (47, "slower"), (60, "no difference")],
)
def test_a_change_is_the_answer_until_its_level_is_known(
    runs: int, verdict: str
) -> None:
    found = only(history(series_of("sort", {0: 1.0, 40: 1.2}, runs=runs)))
    assert found.newest.verdict == verdict
    if verdict == "slower":
        assert found.newest.since == 40
        assert found.newest.ratio is not None
        assert found.newest.ratio.low < 1.2 < found.newest.ratio.high


def test_direction_and_unit_choose_the_words() -> None:
    rate = series_of(
        "serve",
        {0: 100.0, 40: 80.0},
        runs=44,
        metric="rate",
        unit="1/s",
        better="higher",
    )
    assert only(history(rate)).newest.verdict == "worse"
    faster = series_of("sort", {0: 1.0, 40: 0.8}, runs=44)
    assert only(history(faster)).newest.verdict == "faster"


def test_few_runs_and_values_without_a_logarithm_are_undecided() -> None:
    few = only(history(series_of("sort", {0: 1.0}, runs=4)))
    assert (few.newest.verdict, few.newest.more) == ("undecided", 5)
    zero = only(history(series_of("faults", {0: 0.0}, unit="")))
    assert zero.newest.verdict == "undecided"
    assert zero.level is None


def test_an_accepted_level_is_the_normal_one() -> None:
    runs = series_of("sort", {0: 1.0, 40: 1.2}, runs=52)
    accepted = only(history(runs, accepted=(acceptance(40),)))
    (step,) = accepted.steps
    assert step.accepted is not None
    assert step.accepted.reason == "checks its input"
    early = only(history(runs[:43], accepted=(acceptance(40),)))
    assert early.newest.verdict == "undecided"
    assert early.newest.why.startswith("3 runs so far")


def test_a_difference_among_many_series_must_be_clearer() -> None:
    slower = series_of("sort", {0: 1.0, 40: 1.1}, runs=44)
    alone = only(history(slower)).newest
    others = [series_of(f"t{at}", {0: 1.0}, runs=44) for at in range(40)]
    answer = history_answer(history(slower, *others), HistoryQuestion())
    among = next(one.newest for one in answer.series if one.key.test == "sort")
    assert (alone.verdict, alone.p_adjusted) == ("slower", alone.p)
    assert among.p == alone.p < 0.05 < among.p_adjusted
    assert among.verdict == "undecided"
    assert "among 41 series" in among.why
    assert hold_gate(answer, 0.03).outcome == "undecided"
    later = history(series_of("sort", {0: 1.0, 40: 1.1}, runs=47), *others)
    answer = history_answer(later, HistoryQuestion())
    among = next(one.newest for one in answer.series if one.key.test == "sort")
    assert among.p_adjusted < 0.05
    assert among.verdict == "slower"


def test_the_same_history_gives_the_same_bytes() -> None:
    runs = series_of("sort", {0: 1.0, 40: 1.1}, spike=10)
    texts = {
        encode(
            history_document(history_answer(history(some), HistoryQuestion()), None, 0)
        )
        for some in (runs, runs[::-1])
    }
    assert len(texts) == 1


# -- what is asked -------------------------------------------------------------------------


def test_tests_metrics_and_time_select_series() -> None:
    user = [
        msgspec.structs.replace(
            run,
            points=tuple(
                (k, msgspec.structs.replace(p, asked=False)) for k, p in run.points
            ),
        )
        for run in series_of("sort", {0: 1.0}, metric="user")
    ]
    every = history(series_of("sort", {0: 1.0}), series_of("gzip:n=1", {0: 1.0}), user)

    def names(**asked: object) -> list[str]:
        found = history_answer(every, HistoryQuestion(**asked))  # type: ignore[arg-type]
        return [one.name for one in found.series]

    assert names() == ["gzip:n=1", "sort"]
    assert names(tests=("gz*",)) == ["gzip:n=1"]
    assert names(metrics=("user", "elapsed")) == [
        "gzip:n=1 elapsed",
        "sort elapsed",
        "sort user",
    ]
    since = history_answer(
        every, HistoryQuestion(since_ns=1_790_000_000 * 10**9 + 50 * DAY_NS)
    )
    assert [len(one.series.points) for one in since.series] == [10, 10]


# -- the gate ------------------------------------------------------------------------------


def test_a_gate_fails_for_a_worse_newest_run_alone() -> None:
    slower = history_answer(
        history(series_of("sort", {0: 1.0, 40: 1.1}, runs=44)), HistoryQuestion()
    )
    assert hold_gate(slower, 0.03).outcome == "failed"
    assert hold_gate(slower, 0.30).outcome == "passed"
    faster = history_answer(
        history(series_of("sort", {0: 1.0, 40: 0.9}, runs=44)), HistoryQuestion()
    )
    assert hold_gate(faster, 0.03).outcome == "passed"


def test_a_gate_below_the_noise_of_one_run_is_undecided() -> None:
    noisy = history_answer(
        history(series_of("sort", {0: 1.0}, noise=0.1)), HistoryQuestion()
    )
    assert hold_gate(noisy, 0.5).outcome == "passed"
    gate = hold_gate(noisy, 0.05)
    assert gate.outcome == "undecided"
    assert "one run is known to" in gate.undecided[0]
    assert hold_gate(noisy, 0.0).outcome == "passed"


def test_a_serious_finding_makes_a_gate_undecided() -> None:
    runs = series_of("sort", {0: 1.0, 40: 1.1}, runs=44, codes=("command-failed",))
    answer = history_answer(history(runs), HistoryQuestion())
    gate = hold_gate(answer, 0.03)
    assert (gate.outcome, gate.exit_status) == ("undecided", 3)
    assert "command-failed" in gate_lines(gate, 100)[1]
    assert hold_gate(answer, 0.03, ("command-failed",)).outcome == "failed"


# -- forms ---------------------------------------------------------------------------------


def whole() -> RunHistory:
    return history(
        series_of("sort", {0: 1.0, 40: 1.1}, runs=47),
        series_of("gzip:level=9 <b>", {0: 2.0, 20: 1.8}, spike=50, changed=10),
        accepted=(),
    )


def test_the_text_is_the_recorded_one() -> None:
    golden = Path(__file__).parents[1] / "golden" / "history" / "answer.txt"
    lines = history_lines(history_answer(whole(), HistoryQuestion()), 100)
    assert "\n".join(lines) + "\n" == golden.read_text()


def test_the_document_has_what_the_text_shows() -> None:
    answer = history_answer(whole(), HistoryQuestion())
    document = json.loads(encode(history_document(answer, None, 0)))
    assert document["schema"] == "benchwright/history/1"
    sort = next(one for one in document["series"] if one["test"] == "sort")
    assert sort["newest"]["verdict"] == "slower"
    assert len(sort["points"]) == 47
    (step,) = sort["steps"]
    assert step["up_to_commit"] == sort["points"][step["last"]]["commit"]


def test_feeds_have_an_entry_for_each_step_with_a_lasting_id() -> None:
    entries = feed_entries(history_answer(whole(), HistoryQuestion()))
    assert len(entries) == 2
    atom = atom_feed(entries, "https://example.com/changes.xml")
    root = ElementTree.fromstring(atom)
    space = "{http://www.w3.org/2005/Atom}"
    assert [one.findtext(f"{space}id") for one in root.iter(f"{space}entry")] == [
        one.id for one in entries
    ]
    feed = json.loads(json_feed(entries))
    assert feed["version"] == "https://jsonfeed.org/version/1.1"
    assert [one["id"] for one in feed["items"]] == [one.id for one in entries]
    later = history(series_of("sort", {0: 1.0, 40: 1.1}, runs=58))
    again = feed_entries(history_answer(later, HistoryQuestion()))
    assert {one.id for one in again} <= {one.id for one in entries}


@pytest.mark.skipif(shutil.which("xmllint") is None, reason="there is no xmllint")
@pytest.mark.parametrize("empty", [False, True])
def test_an_atom_feed_fits_the_schema(tmp_path: Path, *, empty: bool) -> None:
    """The RELAX NG schema of RFC 4287, appendix B, for the elements that we write."""
    entries = () if empty else feed_entries(history_answer(whole(), HistoryQuestion()))
    feed = tmp_path / "changes.xml"
    feed.write_text(atom_feed(entries, "https://example.com/changes.xml"))
    schema = Path(__file__).parents[1] / "data" / "atom.rng"
    done = subprocess.run(
        ["xmllint", "--noout", "--relaxng", str(schema), str(feed)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_page_has_the_answer_and_hostile_names_are_text() -> None:
    page = render_page(history_page(history_answer(whole(), HistoryQuestion())))
    assert "<b>" not in page.replace("&lt;b&gt;", "")
    assert "2 series: 1 is slower and 1 has no difference" in page
    keys = re.findall(r'data-key="?([^" >]+)', page)
    assert len(keys) == len(set(keys))
