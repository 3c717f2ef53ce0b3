"""What is typed after `bw compare`: arms, rule, gates, and every mistake at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchwright.core.comparison import ComparisonDesign, ComparisonRule, StoredArm
from benchwright.core.errors import InputError
from benchwright.core.plan import TestPlan
from benchwright.suite import effects as effect
from benchwright.suite.comparison import ComparisonRequest, program_from_comparison
from benchwright.suite.interpret import execute
from benchwright.suite.values import parse_gate

KNOWN = ("elapsed", "ops")


def compared(*commands: str, **more: Any) -> effect.RunComparison:
    """Return the one effect of a request that matters."""
    request = ComparisonRequest(commands or ("./a 1", "./b 2"), **more)
    steps = execute(program_from_comparison(request), defines={}, environment={})
    (found,) = [one for one in steps if isinstance(one, effect.RunComparison)]
    return found


def plans(*commands: str, **more: Any) -> tuple[TestPlan, ...]:
    return compared(*commands, **more).plans


def rule(**more: Any) -> ComparisonRule:
    return compared(**more).rule


def mistakes(*commands: str, **more: Any) -> list[tuple[str, int, str]]:
    """Return each mistake's option, column and message."""
    with pytest.raises(InputError) as caught:
        program_from_comparison(ComparisonRequest(commands or ("a", "b"), **more))
    return [(d.file, d.column, d.message) for d in caught.value.diagnostics]


def test_a_word_is_a_command_line_and_a_shells_only_if_it_has_to_be() -> None:
    found = plans("sort -n x", "sort x | head", "A=1 ./b")
    assert [p.phases.exec[0].argv for p in found] == [
        ("sort", "-n", "x"),
        ("/bin/sh", "-c", "sort x | head"),
        ("/bin/sh", "-c", "A=1 ./b"),
    ]
    assert [p.name for p in found] == ["sort", "sort-2", "b"]


def test_a_gate_of_a_metric_with_a_wrong_declaration_is_no_mistake_of_its_own() -> None:
    wrong = {"metrics": ("ops~(",), "fail_if": ("ops slower by 3%",)}
    assert [file for file, _, _ in mistakes(**wrong)] == ["--metric"]
    wrong["fail_if"] = ("ops slwer by 3%", "x slower by 3%")
    assert [file for file, _, _ in mistakes(**wrong)] == ["--metric", "--fail-if"]
    alone = mistakes(fail_if=("ops slower by 3%",))
    assert [file for file, _, _ in alone] == ["--fail-if"]


def test_arms_are_told_apart_and_know_their_comparison() -> None:
    found = plans("x", "x", "x", names=("x-2", "y"), token="t", warmup="3")
    assert [p.name for p in found] == ["x-2", "y", "x"]
    arms = [p.arm for p in found if p.arm is not None]
    assert [arm.place for arm in arms] == [0, 1, 2]
    assert {arm.names for arm in arms} == {("x-2", "y", "x")}
    assert {(arm.comparison, arm.warmup, arm.paired) for arm in arms} == {("t", 3, True)}
    abba = plans(design="abba", warmup="3")[0].arm
    assert abba is not None
    assert (abba.trials_per_block, abba.warmup) == (2, 6)


def test_each_trial_has_what_surrounds_it() -> None:
    found = plans(
        setup="mkdir x",
        cleanup="rm -r x",
        rest="250ms",
        threads="4",
        timeout="3s",
        metrics=("ops:higher=/ops",),
    )
    for plan in found:
        assert [c.text for c in plan.phases.setup] == ["sleep 0.25", "mkdir x"]
        assert [c.text for c in plan.phases.cleanup] == ["rm -r x"]
        assert (plan.threads, plan.timeout_ns) == (4, 3 * 10**9)
        assert plan.metrics[0].better == "higher"
        assert not plan.fail_fast


def test_the_rule_of_a_request() -> None:
    plain = rule()
    assert (plain.minimum, plain.maximum, plain.warmup) == (10, 200, 1)
    assert (plain.mode, plain.design, plain.margin) == ("watch", ComparisonDesign.BLOCKS, 0.01)
    judged = [(m.name, m.judged) for m in plain.metrics]
    assert judged == [("elapsed", True), ("user", False), ("system", False), ("rss_bytes", False)]
    named = rule(metrics=("user",), fail_if=("rss_bytes slower by 10%",))
    assert [m.name for m in named.metrics if m.judged] == ["elapsed", "user", "rss_bytes"]
    assert rule(min_blocks="3", mode="plan").minimum == 10, "a pilot has at least 10"
    assert rule(mode="plan").minimum == 20
    assert rule(mode="plan", max_blocks="15").minimum == 15
    assert rule(min_blocks="3").minimum == 3
    assert rule(max_blocks="5").minimum == 5
    assert rule(design="sequence").maximum == 30


def test_a_null_comparison_is_of_one_command_for_a_fixed_number_of_blocks() -> None:
    found = compared("./a", is_null=True)
    assert [p.phases.exec for p in found.plans] == [found.plans[0].phases.exec] * 2
    assert found.names == ("a", "a-2")
    assert found.rule.exactly == 40
    assert compared("./a", is_null=True, max_blocks="25").rule.exactly == 25


def test_a_stored_baseline_is_an_arm_that_does_not_run() -> None:
    stored = StoredArm("sort", "old", {"elapsed": (1.0, 1.1)})
    found = compared("sort x", stored=stored)
    assert found.names == ("sort", "sort-2")
    (plan,) = found.plans
    assert plan.arm is not None
    assert (plan.arm.place, plan.arm.paired) == (1, False)
    assert (found.rule.arms, found.rule.mode) == (2, "plan")


def test_all_mistakes_are_told_each_at_its_place() -> None:
    found = mistakes(
        "a",
        "",
        margin="x",
        confidence="40%",
        power="100%",
        warmup="-1",
        seed="a",
        threads="0",
        metrics=("ops~(", "ops", "ops"),
        fail_if=("slower by 3%", "ops faster by"),
        timeout="soon",
        max_time="never",
        setup=" ",
    )
    assert {option for option, _, _ in found} == {
        *("--", "--margin", "--confidence", "--power", "--warmup", "--seed"),
        *("--threads", "--metric", "--fail-if", "--timeout", "--max-time", "--setup"),
    }


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        ("slower", 1),
        ("slower by 3% or so", 1),
        ("quicker by 3%", 1),
        ("slower than 3%", 8),
        ("slower by 200000%", 11),
        ("slower by 3", 11),
        ("slower by -3%", 11),
        ("  lag slower by 3%", 3),
    ],
)
def test_a_bad_gate_is_pointed_at(text: str, column: int) -> None:
    gate, fault = parse_gate(text, KNOWN)
    assert gate is None
    assert fault is not None
    assert fault.offset + 1 == column


@pytest.mark.parametrize(("text", "share"), [("150%", 1.5), ("900 %", 9.0)])
def test_a_gate_may_be_above_100_percent(text: str, share: float) -> None:
    gate, fault = parse_gate(f"slower by {text}", KNOWN)
    assert fault is None
    assert gate is not None
    assert gate.share == share


def test_a_gate_is_about_the_first_metric_unless_it_names_one() -> None:
    gate, fault = parse_gate("slower by 3%", KNOWN)
    assert fault is None
    assert gate is not None
    assert (gate.metric, gate.direction, gate.share) == ("elapsed", "slower", 0.03)
    assert parse_gate("slower by 3 %", KNOWN)[0] == gate
    gate, _ = parse_gate("  ops   faster by 0.5 ", KNOWN)
    assert gate is not None
    assert (gate.metric, gate.direction, gate.share) == ("ops", "faster", 0.5)
    assert gate.text == "ops faster by 0.5"


@settings(max_examples=300)
@given(
    st.one_of(
        st.text(max_size=40),
        st.lists(
            st.sampled_from(["slower", "faster", "by", "3%", "ops", "0", "1e9", "%"]), max_size=6
        ).map(" ".join),
    )
)
def test_any_text_is_a_gate_or_a_placed_mistake(text: str) -> None:
    gate, fault = parse_gate(text, KNOWN)
    assert (gate is None) is (fault is not None)
    if fault is not None:
        assert 0 <= fault.offset <= len(text)
    if gate is not None:
        assert gate.metric in KNOWN
        assert 0 < gate.share <= 1
        assert parse_gate(gate.text, KNOWN)[0] == gate
