"""A stopping rule has one wording."""

from __future__ import annotations

from benchwright.core.comparison import describe_rule
from benchwright.core.plan import Command, FixedCount, UntilPrecise, UntilPredicate, UntilProgram


def test_rules_in_words() -> None:
    assert describe_rule(FixedCount(1)) == "1 trial"
    assert describe_rule(UntilPredicate(10, 1, "$count > 3", 30)) == (
        "10 trials, then 1 more at a time until $count > 3, at most 30 trials"
    )
    program = UntilProgram(5, 2, Command(("check", "it")))
    assert describe_rule(program) == (
        "5 trials, then 2 more at a time until `check it` exits with 0"
    )
    assert describe_rule(UntilPrecise(0.05, max_time_ns=10**10)) == (
        "until elapsed within ±5 % at 95 % confidence, 30 to 1000 trials, at most 10 s"
    )
    usual = UntilPrecise(0.05, long_minimum=10, give_up_ns=120 * 10**9)
    assert describe_rule(usual) == (
        "until elapsed within ±5 % at 95 % confidence, 30 (10 if they take long) to 1000 trials; "
        "gives up after 2 min if that is out of reach"
    )
    watched = UntilPrecise(0.01, minimum=20, mode="watch", share=0.9)
    assert describe_rule(watched) == (
        "until the p90 of elapsed within ±1 % at 95 % confidence, watched, 20 to 1000 trials"
    )
