"""Criteria and claims as users write them, and what is refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.core.criterion import Criterion
from benchwright.core.quantity import parse_confidence
from benchwright.features.load.criteria import (
    CRITERION_FORMS,
    parse_criteria,
    parse_criterion,
    percentile_key,
    within_ns,
)
from benchwright.features.search.types import Claim, ClaimKind, parse_claim


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("40ms", Criterion("response_ms_mean", 40.0)),
        ("mean response < 40ms", Criterion("response_ms_mean", 40.0)),
        ("response<=0.5s", Criterion("response_ms_mean", 500.0)),
        (
            "p99 response < 100ms",
            Criterion("response_ms_p99", 100.0, statistic="percentile", share=0.99),
        ),
        (
            "p99.9 < 2 s",
            Criterion("response_ms_p99_9", 2000.0, statistic="percentile", share=0.999),
        ),
        (
            "median response < 1ms",
            Criterion("response_ms_p50", 1.0, statistic="percentile", share=0.5),
        ),
        ("90% within 2s", Criterion("within_2s_share", 0.9, "", "higher", "share")),
        ("errors < 0.1%", Criterion("error_ratio", 0.001, "", "lower", "ratio")),
        ("errors <= 0", Criterion("error_ratio", 0.0, "", "lower", "ratio")),
        ("metric hits > 0.9", Criterion("hits", 0.9, "", "higher", "metric")),
        ("metric queue < 5", Criterion("queue", 5.0, "", "lower", "metric")),
    ],
)
def test_a_criterion_is_read(text: str, expected: Criterion) -> None:
    assert parse_criterion(text) == expected


def test_every_form_that_messages_name_is_read() -> None:
    assert len({parse_criterion(form) for form in CRITERION_FORMS}) == len(CRITERION_FORMS) - 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fast", "is not a criterion; must be one of: 40ms"),
        ("p99 response > 100ms", "write < instead of >"),
        ("p0 response < 1ms", "p99.9"),
        ("mean response < 40", "no unit of time"),
        ("mean response < 0ms", "zero"),
        ("150% within 2s", "outside"),
        ("errors < 100%", "always holds"),
        ("errors > 1%", "write <"),
        ("metric response_ms_mean < 3", "not a metric's name"),
        ("metric hits > many", "is not a criterion"),
        ("metric hits > 1e999", "too large"),
    ],
)
def test_what_is_no_criterion_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        parse_criterion(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("p99 latency < 50ms", "'p99 response < 50ms'"),
        ("average < 5ms", "'mean < 5ms'"),
        ("Avg response time <= 5ms", "'mean response <= 5ms'"),
        ("error rate < 1%", "'errors < 1%'"),
        ("errors < 1", "1%"),
    ],
)
def test_other_programs_words_are_answered_with_ours(text: str, meant: str) -> None:
    with pytest.raises(ValueError, match="did you mean") as caught:
        parse_criterion(text)
    assert str(caught.value).endswith(f"did you mean {meant}?")
    if meant.startswith("'"):
        parse_criterion(meant.strip("'"))


def test_a_value_has_one_limit() -> None:
    with pytest.raises(ValueError, match="response_ms_mean has two limits"):
        parse_criteria(["40ms", "mean response < 50ms"])
    assert len(parse_criteria(["40ms", "90% within 2s"])) == 2


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("region", Claim(ClaimKind.REGION)),
        ("region:10%", Claim(ClaimKind.REGION, 0.1)),
        ("rate:5%", Claim(ClaimKind.RATE, 0.05)),
        ("slo:95%", Claim(ClaimKind.SLO, confidence=0.95)),
    ],
)
def test_a_claim_is_read(text: str, claim: Claim) -> None:
    assert parse_claim(text) == claim


@pytest.mark.parametrize(
    "text", ["", "peak:5%", "rate:", "rate:100%", "rate:0%", "slo:40%", "slo:100%"]
)
def test_what_is_no_claim_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"such as 5%|not a claim|outside|not a share|not a conf"):
        parse_claim(text)


def test_a_confidence_is_at_least_a_half() -> None:
    assert parse_confidence("99%") == 0.99
    with pytest.raises(ValueError, match="not a confidence"):
        parse_confidence("20%")


@given(st.integers(min_value=1, max_value=10**6), st.sampled_from(["ns", "us", "ms", "s"]))
def test_the_key_of_a_share_keeps_its_limit(number: int, unit: str) -> None:
    criterion = parse_criterion(f"90% within {number}{unit}")
    scale = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}[unit]
    assert within_ns(criterion) == number * scale


def test_only_a_share_has_a_limit_in_its_key() -> None:
    assert within_ns(parse_criterion("40ms")) is None
    assert percentile_key(0.999) == "response_ms_p99_9"


@given(st.floats(min_value=0.001, max_value=0.999))
def test_a_claim_is_read_back_from_its_text(share: float) -> None:
    claim = Claim(ClaimKind.RATE, float(f"{share:.6g}"))
    assert parse_claim(claim.text).tolerance == pytest.approx(claim.tolerance)
