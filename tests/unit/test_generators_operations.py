"""From single operations to values: against a plain count."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.features.generators import output
from benchwright.features.generators.adapter import UnreadableOutput
from benchwright.features.generators.output import OperationLog
from benchwright.features.load.criteria import parse_criteria, percentile_key

RESPONSES = st.lists(st.one_of(st.floats(0, 1e4), st.just(math.nan)), min_size=1, max_size=60)
CRITERIA = parse_criteria(["90% within 40ms", "p70 < 40ms"])


@given(RESPONSES)
def test_percentiles_and_shares_are_those_of_a_plain_count(responses: list[float]) -> None:
    values = output.operation_values(np.array(responses), CRITERIA)
    slowest = [math.inf if math.isnan(one) else one for one in responses]
    within = sum(one <= 40 for one in slowest) / len(slowest)
    assert values["within_40ms_share"] == pytest.approx(within)
    # The smallest response that at least 70 % are not above.
    least = min(
        one
        for one in [*slowest, math.inf]
        if sum(other <= one for other in slowest) >= 0.7 * len(slowest) - 1e-9
    )
    assert values["response_ms_p70"] == least
    lost = sum(map(math.isnan, responses)) / len(responses)
    assert values["error_ratio"] == pytest.approx(lost)
    assert ("response_ms_mean" in values) == (lost < 1)


@given(RESPONSES, st.integers(1, 5))
def test_bins_hold_every_operation_of_the_run(responses: list[float], seconds: int) -> None:
    at_s = np.linspace(0, seconds, len(responses), endpoint=False)
    log = OperationLog(at_s=at_s, response_ms=np.array(responses))
    found = output.operations_measurement(log, CRITERIA, float(seconds))
    assert sum(found.series.counts) == len(responses)
    assert len(found.series.at_s) == int(at_s[-1]) + 1
    assert (found.completed or 0) + found.errors == len(responses)
    for column in found.series.values.values():
        assert not any(math.isnan(one) for one in column)


def test_what_came_after_the_load_is_in_no_bin() -> None:
    log = OperationLog(at_s=np.array([0.5, 1.5, 2.5]), response_ms=np.ones(3))
    assert output.operations_measurement(log, (), 2.0).series.counts == (1, 1)


@pytest.mark.parametrize(("at_s", "lasted_s"), [(0.5, 1e30), (0.5, math.nan), (math.inf, 1.0)])
def test_a_damaged_time_is_refused(at_s: float, lasted_s: float) -> None:
    log = OperationLog(at_s=np.array([at_s]), response_ms=np.ones(1))
    with pytest.raises(UnreadableOutput, match="no believable time"):
        output.operations_measurement(log, (), lasted_s)


def test_a_bin_without_a_response_leaves_the_series_without_means() -> None:
    log = OperationLog(at_s=np.array([0.5, 1.5]), response_ms=np.array([1.0, np.nan]), skipped=1)
    found = output.operations_measurement(log, CRITERIA, 2.0)
    assert found.series.values["within_40ms_share"] == (1.0, 0.0)
    assert "response_ms_mean" not in found.series.values


def test_columns_leave_out_a_line_without_its_end() -> None:
    assert output.columns("1 2 3\n4 5 6\n7 8", 2).tolist() == [[1, 2], [4, 5]]
    assert output.columns("", 2).shape == (0, 2)


@pytest.mark.parametrize("text", ["1 2 3\n4 5\n", "1\n", "1 x\n"])
def test_columns_refuse_ragged_lines(text: str) -> None:
    with pytest.raises(ValueError, match="numbers on every line"):
        output.columns(text, 2)


def test_a_summary_has_no_percentile_among_those_that_failed() -> None:
    values = output.summary_values(2.0, {0.5: 1.0, 0.9: 3.0, 0.99: 9.0}, failed=0.05)
    assert values[percentile_key(0.9)] == 3.0
    assert math.isinf(values[percentile_key(0.99)])
