"""The checked request of `bw stats`: options and transformations, with all mistakes reported
together."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from benchwright.cli.rule_files import rules_and_mistakes
from benchwright.cli.shared_options import study_here
from benchwright.cli.stats_options import DRIFT_HINT, StatsOptions
from benchwright.core.comparison import Variances
from benchwright.core.errors import InputError
from benchwright.core.plan import SUCCESS
from benchwright.core.quantity import parse_share
from benchwright.inputs.option_reader import OptionReader
from benchwright.inputs.options import request_from
from benchwright.results.stats_request import StatsRequest, checked_steps
from benchwright.stats.aggregate import HEADING_COLUMNS

# --------------------------------------------------------------------------------------
# Options: checked before any file is read; all mistakes are reported together.


def request_of(arguments: argparse.Namespace) -> StatsRequest:
    """Return the request of the arguments. Raises InputError.

    Words after `--` are inputs too: Auto-pilot ends its predicate with `--` and appends the
    file.
    """
    words = getattr(arguments, "command_argv", None) or ()
    stats_options = request_from(StatsOptions, arguments)
    reader = OptionReader(stats_options)
    paths = (*stats_options.inputs, *words) or study_here()
    if not paths:
        hint = "give a study directory, a .res file, CSV, GNU time output or another tool's results"
        reader.wrong("INPUT", "", "no input, and no study ./bw-study", hint)
    threshold = reader.value("threshold", 2.0)
    confidence = reader.value("confidence", 0.95)
    ok_status = reader.value("ok_status", SUCCESS)
    variances = _variances(stats_options, reader)
    _note_contradictions(stats_options, reader)
    least_changes = _least_changes(stats_options.drift, reader)
    steps = checked_steps(stats_options.steps, reader.found)
    rules, wrong = rules_and_mistakes(stats_options.rules)
    if wrong := [*reader.found, *wrong]:
        raise InputError(wrong)
    return StatsRequest(
        paths=paths,
        predicate=stats_options.predicate,
        baseline=stats_options.baseline,
        format="json" if stats_options.json else stats_options.format or "table",
        everything=stats_options.all,
        metrics=stats_options.metrics,
        threshold=threshold,
        command=stats_options.command,
        ok_status=ok_status,
        confidence=confidence,
        dump=stats_options.dump,
        ttest=stats_options.ttest,
        variances=variances,
        steps=steps,
        least_changes=least_changes,
        rules=rules,
    )


def _note_contradictions(asked: StatsOptions, reader: OptionReader[StatsOptions]) -> None:
    """Report pairs of options that select different outputs."""
    form, hint = asked.format, "leave out one of the two"
    if asked.json and form not in (None, "json"):
        message = f"--json and --format {form} contradict"
        reader.wrong("--format", form or "", message, hint)
    if asked.dump:
        others = {
            "--ttest": asked.ttest,
            "--json": asked.json,
            "--format": form is not None and not asked.json,
            "--predicate": asked.predicate is not None,
        }
        what = "prints raw rows as CSV, which excludes"
        for one in [option for option, is_given in others.items() if is_given]:
            reader.wrong("--dump", "", f"--dump {what} {one}", hint)


def _least_changes(texts: Iterable[str], reader: OptionReader[StatsOptions]) -> dict[str, float]:
    """Return `--drift NAME=5%` as NAME -> 0.05."""
    found = (reader.named("--drift", text, parse_share, DRIFT_HINT) for text in texts)
    return {HEADING_COLUMNS.get(one[0], one[0]): one[1] for one in found if one}


def _variances(asked: StatsOptions, reader: OptionReader[StatsOptions]) -> Variances:
    """Return how t-tests treat variances; report its options if --ttest is not given."""
    if not (asked.equal_variance or asked.welch):
        return "auto"
    option = "--equal-variance" if asked.equal_variance else "--welch"
    if not asked.ttest:
        message = "only a t-test has variances to pool"
        reader.wrong(option, "", message, "add --ttest")
    return "equal" if asked.equal_variance else "welch"
