"""The policies of a peak search by name; imports are lazy, because a policy must not load the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchwright.features.search.types import PeakGoal

if TYPE_CHECKING:
    from benchwright.features.search.peak.policies.policy import Policy

DEFAULT_POLICY = "monotone"
FORMER_POLICIES = {"qgs": DEFAULT_POLICY}
"""Names of policies that earlier versions had, and which one a study or a command that names them
gets."""
POLICY_NAMES = (
    "monotone",
    "binsearch-honest",
    "binsearch",
    "linear",
    "model",
    "model-polynomial",
    "strawman",
)
"""Names for `--policy`; the last five are the workbench paper's, as published."""

POLICIES_WITH = {
    "accuracy": ("binsearch", "linear", "model", "model-polynomial"),
    "step": ("linear", "strawman"),
    "trials": ("strawman",),
}
"""The policies that have an input of their own, by the name of its option and key."""


def fixed_run_length_s(name: str, goal: PeakGoal) -> float | None:
    """Return the length of every trial of a policy with this goal [s]; None if the policy chooses."""
    from benchwright.features.search.peak.policies import published

    if goal.run_length_s is not None:
        return goal.run_length_s
    if name == "strawman":
        return published.STRAWMAN_RUN_LENGTH_S
    return None if name == DEFAULT_POLICY else published.PAPER_RUN_LENGTH_S


def policy_named(name: str) -> Policy:
    """Return a policy with its published parameters. Raises KeyError for an unknown name."""
    name = FORMER_POLICIES.get(name, name)
    if name not in POLICY_NAMES:
        raise KeyError(name)
    if name == DEFAULT_POLICY:
        from benchwright.features.search.peak.policies.monotone import Monotone

        return Monotone()
    if name == "strawman":
        from benchwright.features.search.peak.policies.published import Strawman

        return Strawman()
    return _published_policy(name)


def _published_policy(name: str) -> Policy:
    from benchwright.features.search.peak.policies.published import (
        Algorithm2,
        binsearch,
        judge_in_region,
        linear,
        model_guided,
        model_guided_polynomial,
    )

    if name == "binsearch-honest":
        return Algorithm2(name, binsearch, judge_in_region, cautions="")
    picking = {
        "binsearch": binsearch,
        "linear": linear,
        "model": model_guided,
        "model-polynomial": model_guided_polynomial,
    }[name]
    return Algorithm2(name, picking)
