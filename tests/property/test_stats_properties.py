"""Laws of the figures and of the aggregation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from benchwright.core.observation import MeasurementBlock
from benchwright.findings.examine import compute_findings
from benchwright.findings.result import TestResult
from benchwright.report.stats_document import compose_report, section_of, table_of
from benchwright.stats.aggregate import MetricRules, aggregate_trial, summarise
from benchwright.stats.sample import moments, z_scores
from benchwright.views.stats import RENDERERS, render_stats

ANY = st.floats(width=64)
SANE = st.floats(-1e6, 1e6)
POSITIVE = st.floats(1e-3, 1e3)


@given(st.lists(ANY, max_size=30))
def test_no_values_break_a_summary(values: list[float]) -> None:
    found = summarise("x", values)
    finite = [v for v in values if math.isfinite(v)]
    assert found.count == len(finite)
    if finite:
        assert min(finite) <= found.median <= max(finite)
        assert min(finite) <= math.nextafter(found.mean, math.inf)
        assert math.nextafter(found.mean, -math.inf) <= max(finite)


@given(st.lists(SANE, min_size=2, max_size=30), st.floats(-1e6, 1e6))
def test_a_shift_moves_the_mean_and_not_the_spread(values: list[float], shift: float) -> None:
    before, after = moments(values), moments([v + shift for v in values])
    room = 1e-9 * (1 + max(map(abs, values)) + abs(shift))
    assert after.mean == pytest.approx(before.mean + shift, abs=room)
    assert after.sdev == pytest.approx(before.sdev, abs=room)


@given(st.lists(SANE, min_size=2, max_size=30), st.integers(-900, 900))
def test_a_power_of_two_scales_exactly(values: list[float], power: int) -> None:
    assume(all(v == 0 or abs(v) > 1e-6 for v in values))
    before, after = moments(values), moments([math.ldexp(v, power) for v in values])
    assert after.mean == math.ldexp(before.mean, power)
    assert after.sdev == pytest.approx(math.ldexp(before.sdev, power), rel=1e-12)


@example([0.0, 5e-324])
@given(st.lists(SANE, min_size=2, max_size=40))
def test_no_z_score_exceeds_what_the_sample_size_allows(values: list[float]) -> None:
    n = len(values)
    assert z_scores(np.array(values)).max() <= (n - 1) / math.sqrt(n) * (1 + 1e-6)


@given(
    st.lists(
        st.fixed_dictionaries({"elapsed": POSITIVE, "user": POSITIVE, "system": POSITIVE}),
        min_size=1,
        max_size=8,
    ),
    st.randoms(use_true_random=False),
)
def test_threads_have_no_order(rows: list[dict[str, float]], random: object) -> None:
    blocks = [MeasurementBlock(k, 1, "c", 0, values) for k, values in enumerate(rows, 1)]
    mixed = list(blocks)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    rules = MetricRules(())
    of_mixed = aggregate_trial(mixed, rules).values
    assert of_mixed == aggregate_trial(blocks, rules).values


@given(
    st.lists(
        st.builds(
            MeasurementBlock,
            thread=st.integers(0, 3),
            epoch=st.integers(1, 5),
            command=st.text(max_size=5),
            status=st.integers(0, 2),
            values=st.dictionaries(
                st.sampled_from(["elapsed", "user", "system", "ops", "a_b&%"]), ANY
            ),
        ),
        max_size=20,
    )
)
def test_any_rows_can_be_reported_in_any_form(blocks: list[MeasurementBlock]) -> None:
    one = TestResult("x", tuple(blocks))
    entry = section_of(one, table_of(one))
    document = compose_report([entry, entry], compute_findings(one))
    for form in RENDERERS:
        text = render_stats(document, form)
        assert "nan" not in text
        assert "inf" not in text.replace("inf ", "")
