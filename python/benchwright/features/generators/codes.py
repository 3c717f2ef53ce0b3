"""The codes of the findings of this feature (findings/codes.py has the others)."""

from __future__ import annotations

from benchwright.core.results import Severity
from benchwright.findings.codes import Code

_COUNTED = (
    "{ratio:3}< ({shares})> of the asked rate in {marked} of {trials:#trial}[, and {unit:3} of it at all of the lower "
    "rates: a unit]"
)

CODES: dict[str, Code] = {
    "closed-loop-generator": Code(
        Severity.WARNING,
        "Use a generator with a schedule (engine, pgbench, wrk2, vegeta, oha): this one waits "
        "for its answers, so it reduces the load on an overloaded server.",
    ),
    "hides-lateness": Code(
        Severity.WARNING,
        "Use a generator that measures response time from the intended start (engine, pgbench, "
        "wrk2, vegeta, oha), or give this one more slots (depth, vus): the results do not "
        "include the time spent waiting for one.",
    ),
    "generator-saturated": Code(
        Severity.WARNING,
        "Give the generator more CPUs or threads: it used nearly all of its CPU time, "
        "so the limit may be its own and not the server's.",
    ),
    "rate-rounded": Code(
        Severity.NOTE,
        "Use fewer connections, or a generator that takes any rate: this one takes whole "
        "numbers for each of its parts.",
    ),
    "operations-skipped": Code(
        Severity.WARNING,
        "Give the generator more slots (vus, clients), or treat it as overload: operations "
        "that were due were not sent; they count as slower than all others.",
    ),
    "errors-in-response": Code(
        Severity.WARNING,
        "Use a generator that separates errors (engine, vegeta, k6): the mean and the "
        "percentiles of this one mix successes and errors, and an error is often fast.",
    ),
    "backlog-not-counted": Code(
        Severity.WARNING,
        "Treat it as overload, and use a generator that counts every arrival (engine, "
        "vegeta): requests that were due but unfinished at the end are not included.",
    ),
    "offered-differs": Code(
        Severity.WARNING,
        "Check how the generator is called ({rate} is per second, of all its connections together) and what its "
        "figures count: the server got another load than the one asked for.",
        says={
            "": "the generator counts " + _COUNTED,
            "both": "the generator counts "
            + _COUNTED
            + ": more in some and fewer in others, so their rates cannot be compared",
            "sum": "{counted} operations were counted in {trials:#trial}, {ratio:3} of the {asked} that the asked "
            "rates mean",
        },
    ),
    "operations-missing": Code(
        Severity.WARNING,
        "Let the generator report what it sent and what failed (--offered and --errors, or counts of [load]). Then "
        "a server that refuses can be told from a generator that is too slow.",
        says="the generator's series counts "
        + _COUNTED
        + ": its figures do not say whether the others were not sent, or not answered",
    ),
    "counts-contradict": Code(
        Severity.SERIOUS,
        "Check which operations each figure of the generator counts, and the pointers to them: one of them is not "
        "what it was taken for.",
        says="the generator's counts cannot all be true in {marked} of {trials:#trial}<; at {rate} for {lasted}: {counts}>",
    ),
    "lateness-unknown": Code(
        Severity.NOTE,
        "Let the generator report its lateness (--late, or late of [load]), or use one that does (engine, pgbench, "
        "vegeta). Give it CPUs of its own.",
    ),
    "refusals-unseen": Code(
        Severity.NOTE,
        "Let the generator report the share of operations that failed (--errors, or error_ratio in values of "
        "[load]), and limit it: --limit 'errors < 1%'.",
        says="the generator reports no errors: at {high} the mean response was {high_mean}, at {low} {low_mean}, and "
        "operations that the server refused would look the same",
    ),
}
