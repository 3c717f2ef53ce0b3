"""The answer of a history: levels, steps, verdicts, gates, acceptances, text, documents and feeds."""

from __future__ import annotations

import json
import math
import random
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest

from benchwright.core.machine import Fact
from benchwright.core.results import Estimate
from benchwright.features.history.answer import HistoryQuestion, SeriesAnswer, history_answer
from benchwright.features.history.document import (
    atom_feed,
    feed_entries,
    history_document,
    json_feed,
)
from benchwright.features.history.newest import NewestAnswer, change_and_interval, hold_gate
from benchwright.features.history.page import history_page, history_part
from benchwright.features.history.store import history_of
from benchwright.features.history.text import gate_lines, headline, history_lines
from benchwright.features.history.types import (
    Acceptance,
    Environment,
    HistoryPoint,
    Run,
    RunHistory,
    SeriesKey,
)
from benchwright.page.html import render_page
from benchwright.report.documents import encode
from benchwright.stats.steps import find_steps, may_step

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
        found.append(Run(points=((key, point),), environment=environment, machine="AMD, 2 CPUs"))
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
    assert [round(level.value, 1) for _, _, level in found.levels if level] == [1.0, 1.1]
    assert found.newest.verdict == "no difference"


@pytest.mark.parametrize("has_commits", [True, False])
@pytest.mark.parametrize("runs_a_day", [1, 20, 60])
def test_a_step_names_its_runs_where_a_day_does_not(runs_a_day: int, has_commits: bool) -> None:
    """Files of other tools have no commits, and often one time."""

    def moved(run: Run, at: int) -> Run:
        ((key, point),) = run.points
        more = {} if has_commits else {"commit": None, "study": f"/data/r{at:02}.csv", "session": 0}
        started_ns = 1_790_000_000 * 10**9 + at // runs_a_day * DAY_NS
        point = msgspec.structs.replace(point, started_ns=started_ns, **more)
        return msgspec.structs.replace(run, points=((key, point),))

    runs = series_of("sort", {0: 1.0, 40: 1.3})
    answer = history_answer(
        history([moved(run, at) for at, run in enumerate(runs)]), HistoryQuestion()
    )
    text = "\n".join(history_lines(answer, 200))
    is_placed = runs_a_day > 1 and not has_commits
    for after, file in ((40, "r39.csv"), (41, "r40.csv")):
        assert (f" run {after} ({file})" in text) == is_placed
    assert (re.search(r" run \d+ \(", text) is not None) == is_placed


def test_a_spike_is_a_finding_and_no_step() -> None:
    found = only(history(series_of("sort", {0: 1.0}, spike=30)))
    assert found.steps == ()
    assert found.outliers == (30,)
    (finding,) = found.findings
    assert finding.code == "outlier-run"
    assert "000001e" in finding.evidence


def test_several_spikes_are_one_sentence() -> None:
    def evidence(spikes: dict[int, float]) -> str:
        runs = series_of("sort", {0: 1.0}, noise=0.001)
        for at, factor in spikes.items():
            ((key, point),) = runs[at].points
            value = 1.0 * factor
            moved = msgspec.structs.replace(
                point, estimate=value, low=value * 0.999, high=value * 1.001
            )
            runs[at] = msgspec.structs.replace(runs[at], points=((key, moved),))
        (finding,) = only(history(runs)).findings
        assert finding.code == "outlier-run"
        return finding.evidence

    two = evidence({20: 1.5, 40: 1.3})
    assert two.startswith("2 runs are 30 to 50 % above its level; 2026-")
    assert ("0000014" in two, "0000028" in two) == (True, True)
    both = evidence({20: 1.5, 40: 0.7})
    assert both.startswith("one run is 50 % above and one run is 30 % below its level;")
    many = evidence({at: 1.3 + at / 100 for at in range(10, 60, 10)})
    assert many.startswith("5 runs are 40 to 80 % above its level;")


def test_runs_of_another_level_after_which_all_is_as_before_are_no_steps() -> None:
    found = only(history(series_of("sort", {0: 1.0, 40: 2.0, 45: 1.0})))
    assert found.steps == ()
    (pattern,) = found.patterns
    assert (pattern.kind, pattern.first, pattern.last) == ("excursion", 40, 44)
    assert pattern.ratio == pytest.approx(2.0, rel=0.02)
    (finding,) = found.findings
    assert finding.code == "level-excursion"
    assert finding.evidence.startswith("runs 41 to 45 were 100 % slower, then as before; 2026-")
    assert found.level is not None
    assert found.level.value == pytest.approx(1.0, rel=0.01)
    (first,) = only(history(series_of("sort", {0: 2.0, 4: 1.0}))).findings
    assert first.evidence.startswith("runs 1 to 4 were 99 % slower than those after;")


def test_what_is_no_step_is_in_every_form() -> None:
    slope = {at: 1 + 0.002 * at for at in range(60)}
    rng = random.Random(4)
    modes = {at: rng.choice((1.0, 1.0, 1.3)) for at in range(60)}
    runs = history(
        series_of("slope", slope),
        series_of("modes", modes),
        series_of("day", {0: 1.0, 40: 2.0, 45: 1.0}),
    )
    answer = history_answer(runs, HistoryQuestion())
    assert [one.steps for one in answer.series] == [()] * 3
    texts = {one.name: one.findings[0] for one in answer.series}
    assert {name: one.code for name, one in texts.items()} == {
        "slope": "level-drifts",
        "modes": "several-levels",
        "day": "level-excursion",
    }
    assert " slower from run 1 to run 60, steadily" in texts["slope"].evidence
    assert texts["modes"].evidence.startswith("two levels at the same time, ")
    document = json.loads(encode(history_document(answer, None, 0)))
    kinds = [[one["kind"] for one in each["patterns"]] for each in document["series"]]
    assert kinds == [["excursion"], ["modes"], ["drift"]]
    text = "\n".join(history_lines(answer, 100))
    page = render_page(history_page(answer))
    for shown in (text, page):
        assert "99 % slower, then as before" in " ".join(shown.split())


def test_steps_and_looks_that_disagree_say_so() -> None:
    slope = {at: 1 + 0.002 * at for at in range(60)}
    found = only(history(series_of("slope", slope)))
    assert found.steps == ()
    (said,) = [one for one in found.findings if one.code == "steps-and-looks-differ"]
    assert said.evidence.startswith("a look after a run found a change at run 40 where")
    agreed = only(history(series_of("sort", {0: 1.0, 40: 1.2})))
    assert len(agreed.steps) == 1
    assert agreed.findings == ()


def test_a_change_of_few_runs_says_that_it_may_end() -> None:
    found = only(history(series_of("sort", {0: 1.0, 40: 1.2}, runs=44)))
    assert found.newest.verdict == "slower"
    assert "may also be a disturbance that ends" in found.newest.why
    later = only(history(series_of("sort", {0: 1.0, 40: 1.2}, runs=60)))
    assert later.newest.why == ""


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
    ("runs", "verdict"), [(41, "undecided"), (44, "slower"), (47, "slower"), (60, "no difference")]
)
def test_a_change_is_the_answer_until_its_level_is_known(runs: int, verdict: str) -> None:
    found = only(history(series_of("sort", {0: 1.0, 40: 1.2}, runs=runs)))
    assert found.newest.verdict == verdict
    if verdict == "slower":
        assert found.newest.since == 40
        assert found.newest.ratio is not None
        assert found.newest.ratio.low < 1.2 < found.newest.ratio.high


def test_direction_and_unit_choose_the_words() -> None:
    rate = series_of(
        "serve", {0: 100.0, 40: 80.0}, runs=44, metric="rate", unit="1/s", better="higher"
    )
    assert only(history(rate)).newest.verdict == "worse"
    faster = series_of("sort", {0: 1.0, 40: 0.8}, runs=44)
    assert only(history(faster)).newest.verdict == "faster"


def test_few_runs_and_values_without_a_logarithm_are_undecided() -> None:
    few = only(history(series_of("sort", {0: 1.0}, runs=4)))
    assert (few.newest.verdict, few.newest.more) == ("undecided", 5)
    for values in ([1.0] * 20 + [0.0], [0.0] * 20 + [1.0], [-1.0] * 20):
        zero = only(with_values(values))
        assert zero.newest.verdict == "undecided"
        assert zero.newest.why.endswith("bw history --metric NAME")
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
    assert "among 41 series is above 5 %" in among.why
    later = history(series_of("sort", {0: 1.0, 40: 1.1}, runs=47), *others)
    answer = history_answer(later, HistoryQuestion())
    among = next(one.newest for one in answer.series if one.key.test == "sort")
    assert among.p_adjusted < 0.05
    assert among.verdict == "slower"


def test_a_newest_run_back_at_the_old_level_says_what_the_change_is_of() -> None:
    runs = series_of("sort", {0: 1.0, 11: 1.33, 15: 1.0}, runs=16)
    newest = only(history(runs)).newest
    assert newest.verdict == "undecided"
    assert newest.why.startswith("the runs since its last step are +")
    assert "is above 5 %" in newest.why
    assert "among" not in newest.why
    later = series_of("sort", {0: 1.0, 11: 1.33, 15: 1.0}, runs=18)
    assert only(history(later)).newest.verdict == "no difference"


def test_the_same_history_gives_the_same_bytes() -> None:
    runs = series_of("sort", {0: 1.0, 40: 1.1}, spike=10)
    texts = {
        encode(history_document(history_answer(history(some), HistoryQuestion()), None, 0))
        for some in (runs, runs[::-1])
    }
    assert len(texts) == 1


# -- what is asked -------------------------------------------------------------------------


def test_tests_metrics_and_time_select_series() -> None:
    user = [
        msgspec.structs.replace(
            run, points=tuple((k, msgspec.structs.replace(p, asked=False)) for k, p in run.points)
        )
        for run in series_of("sort", {0: 1.0}, metric="user")
    ]
    every = history(series_of("sort", {0: 1.0}), series_of("gzip:n=1", {0: 1.0}), user)

    def names(**asked: object) -> list[str]:
        found = history_answer(every, HistoryQuestion(**asked))  # type: ignore[arg-type]
        return [one.name for one in found.series]

    assert names() == ["gzip:n=1", "sort"]
    assert names(tests=("gz*",)) == ["gzip:n=1"]
    assert names(metrics=("user", "elapsed")) == ["gzip:n=1 elapsed", "sort elapsed", "sort user"]
    since = history_answer(every, HistoryQuestion(since_ns=1_790_000_000 * 10**9 + 50 * DAY_NS))
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


def test_a_gate_fails_from_a_step_on_until_it_is_accepted_or_made_good() -> None:
    others = [series_of(f"t{at}", {0: 1.0}, runs=120) for at in range(6)]
    outcomes = []
    for runs in range(40, 121):
        levels = {0: 1.0, 50: 1.3, 90: 1.0}
        one = series_of("sort", levels, runs=runs)
        each = [run[:runs] for run in others]
        answer = history_answer(history(one, *each), HistoryQuestion())
        outcomes.append(hold_gate(answer, 0.05).outcome)
    first = outcomes.index("failed")
    assert first + 40 <= 60, "found within ten runs"
    assert set(outcomes[first : 90 - 40]) == {"failed"}
    assert outcomes[-1] == "passed"
    slower = series_of("sort", {0: 1.0, 50: 1.3}, runs=80)
    answer = history_answer(history(slower), HistoryQuestion())
    gate = hold_gate(answer, 0.05)
    assert gate.failed == ("sort",)
    assert len(gate.steps) == 1
    assert "slower +3" in gate.steps[0]
    assert "30 runs" in gate.steps[0]
    assert hold_gate(answer, 0.5).outcome == "passed"
    key = answer.series[0].key
    meant = Acceptance(key=key, run="sort-50", reason="meant", accepted_ns=1)
    known = history(slower, accepted=(meant,))
    answer = history_answer(known, HistoryQuestion())
    assert hold_gate(answer, 0.05).outcome == "passed"


def test_a_gate_sees_a_step_of_quiet_levels_after_a_noisy_one() -> None:
    rng = np.random.default_rng(5)
    lengths = [80, 20, 20]
    noise = np.repeat([0.15, 0.002, 0.002], lengths) * rng.standard_normal(120)
    values = np.repeat([1.4, 1.0, 1.06], lengths) * np.exp(noise)
    logs = np.log(values)
    assert not any(one.change > 0 for one in find_steps(logs).steps)
    answer = history_answer(with_values(values.tolist(), 0.001), HistoryQuestion())
    gate = hold_gate(answer, 0.05)
    assert (gate.outcome, len(gate.steps)) == ("failed", 1)
    assert "20 runs ago" in gate.steps[0]
    assert hold_gate(answer, 0.07).outcome == "passed"


@pytest.mark.parametrize("noise", ["normal", "heavy", "correlated", "whole"])
def test_values_that_may_have_no_step_have_none(noise: str) -> None:
    rng = np.random.default_rng(7)
    found = missed = skipped = 0
    for _ in range(600):
        n = int(rng.integers(8, 120))
        values = rng.normal(0, 1, n)
        if noise == "heavy":
            values = rng.standard_t(3, n)
        if noise == "correlated":
            for at in range(1, n):
                values[at] += 0.5 * values[at - 1]
        if noise == "whole":
            values = np.round(values)
        if rng.random() < 0.5:
            values[int(rng.integers(2, n - 1)) :] += rng.choice([1, 2, 4, 10, -10])
        has_step = bool(find_steps(values).steps)
        may = bool(may_step(values[None])[0])
        found, missed = found + has_step, missed + (has_step and not may)
        skipped += not may
    assert found > 100
    assert missed <= found / 100
    assert skipped > 30


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ((1.1079, 1.1144), "+11.1 % (+10.8 to +11.4 %)"),
        ((1.05, 1.17), "+11 % (+5 to +17 %)"),
        ((1.1111, 1.1112), "+11.11 % (+11.11 to +11.12 %)"),
        # All values of both levels are equal.
        ((1.1111, 1.1111), "+11.11 % (+11.11 to +11.11 %)"),
    ],
)
def test_an_interval_is_not_rounded_to_a_point(ends: tuple[float, float], words: str) -> None:
    assert change_and_interval(Estimate(1.1111, *ends, 0.95, "steps", 9)) == words


def test_a_gate_below_the_noise_of_one_run_is_undecided() -> None:
    noisy = history_answer(history(series_of("sort", {0: 1.0}, noise=0.1)), HistoryQuestion())
    assert hold_gate(noisy, 0.5).outcome == "passed"
    gate = hold_gate(noisy, 0.05)
    assert gate.outcome == "undecided"
    assert "one run is known to" in gate.undecided[0]
    assert hold_gate(noisy, 0.0).outcome == "passed"


def with_values(values: Sequence[float], half: float = 0.03) -> RunHistory:
    runs = []
    for run, value in zip(series_of("job", {0: 1.0}, runs=len(values)), values, strict=True):
        ((key, point),) = run.points
        new = msgspec.structs.replace(
            point, estimate=value, low=value * (1 - half), high=value * (1 + half)
        )
        runs.append(msgspec.structs.replace(run, points=((key, new),)))
    return history(runs)


NOISY = (64.4, 64.9, 59.4, 61.2, 58, 57.6, 91, 57.7, 60.9, 58.2, 59.8)


@pytest.mark.parametrize("direction", [1, -1])
def test_a_newest_run_beyond_its_interval_is_undecided_in_every_form(direction: int) -> None:
    values = [one**direction for one in (*NOISY, 73.0)]
    answer = history_answer(with_values(values), HistoryQuestion())
    (found,) = answer.series
    newest, ratio = found.newest, found.newest.ratio
    assert ratio is not None
    assert not ratio.low <= 1 <= ratio.high
    assert newest.verdict == "undecided"
    assert "1 of the 11 runs before it" in newest.why
    gate = hold_gate(answer, 0.05)
    if direction > 0:
        assert gate.undecided == (f"job: {newest.why}",)
        assert hold_gate(answer, 0.0).outcome == "undecided"
    # An interval that is within the limit decides.
    assert gate.outcome == ("undecided" if direction > 0 else "passed")
    assert hold_gate(answer, ratio.high - 1).outcome == "passed"
    text = "\n".join(history_lines(answer, 300))
    document = encode(history_document(answer, gate, gate.exit_status))
    page = render_page(history_page(answer))
    for form in (text, document, page):
        assert "no difference" not in form
        assert "1 of the 11 runs before it" in form


def beside(values: Sequence[float], others: int) -> NewestAnswer:
    """Return the answer about these values, beside series without a difference."""
    job = with_values(values)
    equal = [series_of(f"other{at}", {0: 1.0}) for at in range(others)]
    answer = history_answer(
        msgspec.structs.replace(job, series=(*job.series, *history(*equal).series)),
        HistoryQuestion(),
    )
    return answer.series[0].newest


def simulated(seed: int, correlation: float) -> list[float]:
    """Return noise with outliers around a level, and perhaps some values of another level."""
    rng = random.Random(seed)
    level, sdev = rng.uniform(0.001, 1000), rng.choice((0.005, 0.05, 0.2))
    logs = [rng.gauss(0, sdev)]
    for _ in range(rng.randint(0, 50)):
        new = rng.gauss(0, sdev) * math.sqrt(1 - correlation**2)
        logs.append(correlation * logs[-1] + new)
    for _ in range(rng.randint(0, 2)):
        logs[rng.randrange(len(logs))] += rng.choice((0.3, 0.5, -0.4))
    change = rng.uniform(-4, 4) * sdev
    logs += [rng.gauss(change, sdev) for _ in range(rng.randint(0, 6))]
    return [level * math.exp(one) for one in logs]


@pytest.mark.parametrize(("correlation", "others"), [(0.0, 0), (0.9, 0), (0.0, 10)])
def test_the_further_runs_that_are_named_decide(correlation: float, others: int) -> None:
    found = Counter[str]()
    first = 620 if correlation else 0
    for seed in range(first, first + 60):
        values = simulated(seed, correlation)
        newest = beside(values, others)
        if newest.verdict != "undecided":
            continue
        words = re.search(r" more runs? like (it|the last (\d+)) would ", newest.why)
        assert words is not None
        again = values[-int(words[2] or 1) :]
        found["stated" if newest.more else "none"] += 1
        for further in range(1, (newest.more or 30) + 1):
            values.append(again[(further - 1) % len(again)])
            is_undecided = beside(values, others).verdict == "undecided"
            assert is_undecided == (further != newest.more), seed
    assert found["stated"] > 10, found
    assert bool(found["none"]) == bool(correlation), found


@pytest.mark.parametrize(
    ("newest", "verdict", "words"),
    [
        (60.5, "no difference", "has its level"),
        (63.5, "no difference", "6 of the 60 runs before it"),
        (64.0, "undecided", "2 of the 60 runs before it"),
        (64.6, "undecided", "farther from its level than each of the 60 runs"),
    ],
)
def test_a_newest_run_like_one_in_twenty_is_no_difference(
    newest: float, verdict: str, words: str
) -> None:
    values = [60 + 1.2 * (-1) ** at for at in range(60)]
    values[20:26] = [63.6, 56.4, 63.6, 56.4, 64.2, 55.8]
    found = history_answer(with_values([*values, newest]), HistoryQuestion())
    (one,) = found.series
    assert one.newest.verdict == verdict
    assert words in headline(found)[0]


def test_equal_values_are_no_difference() -> None:
    assert only(with_values([0.1 + 0.2] * 30)).newest.verdict == "no difference"
    found = history_answer(with_values([0.0] * 30), HistoryQuestion())
    (zeros,) = found.series
    assert (zeros.newest.verdict, zeros.steps, zeros.findings) == (*("no difference", ()), ())
    assert zeros.level is not None
    assert zeros.level.value == 0
    assert hold_gate(found, 0.1).outcome == "passed"


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


@pytest.mark.parametrize(
    ("levels", "accepted", "is_open"),
    [
        ({0: 1.0, 20: 1.2}, (), [True]),
        ({0: 1.0, 20: 0.8}, (), [False]),
        # Later ones made good for it, in whole or in part.
        ({0: 1.0, 20: 1.2, 40: 1.0}, (), [False, False]),
        ({0: 1.0, 20: 1.2, 40: 1.1}, (), [True, False]),
        ({0: 1.0, 20: 1.2, 40: 1.4}, (), [True, True]),
        # Accepted itself, or a later level.
        ({0: 1.0, 20: 1.2}, (20,), [False]),
        ({0: 1.0, 20: 1.2, 40: 1.4}, (40,), [False, False]),
        ({0: 1.0, 20: 1.2, 40: 1.4}, (20,), [False, True]),
        ({0: 1.0, 20: 1.2}, (45,), [False]),
    ],
)
def test_a_step_is_open_until_it_is_accepted_or_made_good_for(
    levels: dict[int, float], accepted: tuple[int, ...], is_open: list[bool]
) -> None:
    some = history(series_of("sort", levels), accepted=tuple(map(acceptance, accepted)))
    assert [one.is_open for one in only(some).steps] == is_open
    whole = history_answer(some, HistoryQuestion())
    count = sum(is_open)
    said = [one for one in headline(whole) if "not accepted" in one]
    assert len(said) == (count > 0)
    assert all(one.startswith(f"{count} step") for one in said)
    assert (history_part(whole).tone == "bad") == (count > 0)


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
    about = "" if empty else "1 step not accepted."
    feed.write_text(atom_feed(entries, "https://example.com/changes.xml", about))
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
