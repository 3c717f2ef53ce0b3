"""The options of `bw stats` and `getstats`, apart from what reads them (stats_request.py)."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated

import msgspec

from benchwright.core.quantity import parse_share
from benchwright.inputs.options import Option, Text
from benchwright.inputs.template import named
from benchwright.suite.common_options import FOR_SCRIPTS, Confidence, OkStatus, RuleFiles, Verbose

_FORMATS = ("table", "csv", "json", "markdown", "latex")
STEPS = "transformations"
_step = partial(Option, group=STEPS)
DRIFT_HINT = "write NAME=SHARE, such as elapsed=2%"


def _threshold(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value > 0 or math.isinf(value):
        raise ValueError(f"{text!r} is not a positive number, such as 2 or 3.5")
    return value


class StatsOptions(msgspec.Struct, frozen=True):
    """The options of `bw stats`."""

    inputs: Annotated[
        tuple[str, ...],
        Option(
            "study or results file",
            "INPUT",
            default="./bw-study",
            positional=True,
            names="file",
            default_key="study",
        ),
    ] = ()
    predicate: Annotated[
        Text,
        Option(
            "exit with 0 if E holds for every quantity, else with 1", "E", no_default=FOR_SCRIPTS
        ),
    ] = None
    baseline: Annotated[
        Text,
        Option(
            "input that O/H refers to",
            "X",
            default="the session's, else the first",
            no_default="it names one of the inputs",
        ),
    ] = None
    ttest: Annotated[bool, Option("print t-tests against the baseline")] = False
    equal_variance: Annotated[
        bool, Option("pool the variances, whatever the F-test says", excludes="variances")
    ] = False
    welch: Annotated[bool, Option("never pool the variances", excludes="variances")] = False
    format: Annotated[
        Text,
        Option("format of the report", default="table", choices=_FORMATS, no_default=FOR_SCRIPTS),
    ] = None
    json: Annotated[bool, Option("same as --format json", no_default=FOR_SCRIPTS)] = False
    all: Annotated[bool, Option("show also peak RSS, faults, switches, block I/O")] = False
    metrics: Annotated[
        tuple[str, ...], Option("show also this quantity", "NAME", flag="--metric")
    ] = ()
    threshold: Annotated[Text, Option("warn of z-scores above Z", "Z", _threshold, default="2")] = (
        None
    )
    drift: Annotated[
        tuple[str, ...],
        Option(
            "report no drift of NAME below the share P of its median",
            "NAME=P",
            named(parse_share),
            hint=DRIFT_HINT,
        ),
    ] = ()
    command: Annotated[Text, Option("read only blocks of this command", "NAME")] = None
    ok_status: OkStatus = None
    confidence: Confidence = None
    dump: Annotated[bool, Option("print the raw rows as CSV", no_default=FOR_SCRIPTS)] = False
    rules: RuleFiles = ()
    verbose: Verbose = False
    steps: Annotated[
        tuple[tuple[str, str], ...],
        _step("add a column NAME", "NAME=E", flag="--derive"),
        _step("keep the rows for which E is true", "E", flag="--select"),
        _step("print a table for each value of COLUMN", "COLUMN", flag="--group"),
        _step("report a finding that names the rows for which E is true", "E", flag="--warn"),
        _step(
            "merge the rows of a trial into one, NAME by HOW: sum, mean, max, min, median, count",
            "NAME=HOW",
            flag="--aggregate",
        ),
        _step(
            "merge the commands of a thread into one row here", default="at the end", flag="--unify"
        ),
        _step("print a table for each command", flag="--no-unify"),
    ] = ()
    """The steps in order, each as (option, text)."""
