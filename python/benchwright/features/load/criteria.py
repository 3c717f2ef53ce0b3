"""Criteria as users write them: `p99 response < 100ms`, `90% within 2s`.

Purpose: one parser for `[peak]` of a spec, and for `--limit` of searches and of single loads.
Decision: short sentences of a fixed form. Rejected: an expression language, because the
search must know the shape and noise of a criterion (`Criterion.statistic`), which an expression
would hide. Every function raises ValueError with a message that states the expected form.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from benchwright.core.comparison import GateOutcome
from benchwright.core.criterion import Criterion
from benchwright.core.quantity import parse_duration_ns, parse_share, parse_statistic
from benchwright.features.load.request import GOOD_LIMITS, StreamLimit
from benchwright.features.load.types import GOOD_KEY, STREAM_TIMES, LimitVerdict

CRITERION_FORMS = (
    "40ms",
    "mean response < 40ms",
    "p99 response < 100ms",
    "90% within 2s",
    "errors < 0.1%",
    "metric hits > 0.9",
    "p95 first < 500ms",
    "95% good",
    "read@disk1 p99 < 5ms",
    "p99 < 5ms of GET /a",
)
"""An example of each form, for messages."""

_RESPONSE = re.compile(
    r"(?:(mean|median|p[0-9.]+)(?:\s+response)?|response)\s*(<=?|>=?)\s*(.+)", re.ASCII
)
_OF_STREAMS = "|".join(name.replace("_", " ") for name in STREAM_TIMES)
_STREAMED = re.compile(
    rf"(?:(mean|median|p[0-9.]+)\s+)?({_OF_STREAMS})\s*(<=?|>=?)\s*(.+)", re.ASCII
)
_GOOD = re.compile(r"([0-9.]+(?:\s*+%)?)\s+good", re.ASCII)
_GOOD_LIMIT = re.compile(
    rf"({'|'.join(name.replace('_', ' ') for name in GOOD_LIMITS)})\s*(<=?|>=?)\s*(.+)", re.ASCII
)
_WITHIN = re.compile(r"([0-9.]+(?:\s*+%)?)\s+within\s++(.+)", re.ASCII)
_ERRORS = re.compile(r"(?:errors|error_ratio)\s*(<=?|>=?)\s*(.+)", re.ASCII)
_METRIC = re.compile(
    r"metric\s+([A-Za-z_][\w.-]*)\s*(<=?|>=?)\s*"
    r"([-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)",
    re.ASCII,
)
_WITHIN_KEY = re.compile(r"within_([0-9.]+[a-z]+)_share", re.ASCII)
_GROUP_AHEAD = re.compile(r"filament [^<>]+|[^@<>]*@[^<>]+")
_SYNONYMS = (
    ("average|avg", "mean"),
    ("latency|response[ _]time|time", "response"),
    ("error[ _-]?(?:rate|ratio|share)|error|failures", "errors"),
    ("in|under|below", "within"),
    ("ttft|time to first token|first[ _]token", "first"),
    ("itl|inter[- _]?token[ _]latency", "gap"),
    ("goodput", "good"),
)
"""Terms of other programs (as patterns), with our terms."""
_RESERVED = re.compile(
    rf"(?:response|{'|'.join(STREAM_TIMES)})_ms_\w+|within_\w+_share|{GOOD_KEY}|error_ratio",
    re.ASCII,
)


def parse_criterion(text: str) -> Criterion:
    """Return a criterion from a text like one of `CRITERION_FORMS`, of all operations or of a group:
    `read@data p99 < 5ms`, `p99 < 5ms of filament pages`. A bare time limits the mean. Raises
    ValueError."""
    bare, of = _split_group(text)
    criterion = _criterion(bare)
    if not of:
        return criterion
    if stream_value(criterion) is not None:
        raise ValueError(f"{text!r}: the times of streams are known of all operations together")
    if criterion.statistic == "metric":
        raise ValueError(f"{text!r}: the name of a metric says what it is of")
    return msgspec.structs.replace(criterion, key=f"{criterion.key} of {of}", of=of)


def _split_group(text: str) -> tuple[str, str]:
    """Return the criterion and the group of `read@data p99 < 5ms` or `p99 < 5ms of read@data`; an
    empty group: all operations. Raises ValueError."""
    bare, word, of = text.strip().partition(" of ")
    parts = bare.split()
    # A name may have blanks: what follows it is the longest criterion.
    for place in range(1, len(parts)):
        group, rest = " ".join(parts[:place]), " ".join(parts[place:])
        if not _GROUP_AHEAD.fullmatch(group) or not _is_criterion(rest):
            continue
        if word:
            raise ValueError(f"{text!r}: two groups of operations; one is enough")
        return rest, group
    return bare, of.strip()


def _criterion(text: str) -> Criterion:
    """Return a criterion of all operations."""
    bare = text.strip()
    if match := _RESPONSE.fullmatch(bare):
        return _timed("response", match[1] or "mean", match[2], match[3])
    if match := _STREAMED.fullmatch(bare):
        return _timed(match[2].replace(" ", "_"), match[1] or "mean", match[3], match[4])
    if match := _GOOD.fullmatch(bare):
        return _good(match[1])
    if match := _WITHIN.fullmatch(bare):
        return _within(match[1], match[2])
    if match := _ERRORS.fullmatch(bare):
        return _errors(match[1], match[2])
    if match := _METRIC.fullmatch(bare):
        return _metric(match[1], match[2], match[3])
    if bare[:1].isdigit() and " " not in bare:
        return _timed("response", "mean", "<", bare)
    if (meant := _with_standard_words(bare)) != bare and _is_criterion(meant):
        raise ValueError(f"{text!r} is not a criterion: did you mean {meant!r}?")
    raise ValueError(f"{text!r} is not a criterion; must be one of: {'; '.join(CRITERION_FORMS)}")


def _with_standard_words(text: str) -> str:
    """Return a criterion with other programs' terms replaced by ours."""
    for theirs, ours in _SYNONYMS:
        text = re.sub(rf"\b(?:{theirs})\b", ours, text, flags=re.IGNORECASE)
    return text


def _is_criterion(text: str) -> bool:
    try:
        parse_criterion(text)
    except ValueError:
        return False
    return True


def parse_criteria(texts: Sequence[str]) -> tuple[Criterion, ...]:
    """Return several criteria; each limits a different value."""
    criteria = tuple(parse_criterion(text) for text in texts)
    keys = [criterion.key for criterion in criteria]
    for key in keys:
        if keys.count(key) > 1:
            raise ValueError(f"{key} has two limits: the stricter one is enough")
    return criteria


class LoadLimit(msgspec.Struct, frozen=True):
    """A limit of a load."""

    text: str
    """As the user wrote it."""
    criterion: Criterion


def parse_limit(text: str) -> LoadLimit:
    """Return a limit: a criterion, also one of a group of operations. Raises ValueError."""
    return LoadLimit(text.strip(), parse_criterion(text))


def check_limits(limits: Sequence[LoadLimit]) -> None:
    """Raise ValueError if two limits are of the same value."""
    keys = [limit.criterion.key for limit in limits]
    for key in keys:
        if keys.count(key) > 1:
            raise ValueError(f"{key} has two limits: the stricter one is enough")


def exit_status(verdicts: Sequence[LimitVerdict]) -> int:
    """Return the exit status of a load with these verdicts: 1 if a limit is missed, 3 if one is
    undecided."""
    outcomes = {verdict.outcome for verdict in verdicts}
    if GateOutcome.FAILED in outcomes:
        return 1
    return 3 if GateOutcome.UNDECIDED in outcomes else 0


def stream_value(criterion: Criterion) -> str | None:
    """Return which value of streams a criterion limits: one of STREAM_TIMES, or GOOD_KEY; None: it
    is of whole operations."""
    if criterion.key == GOOD_KEY:
        return GOOD_KEY
    name, is_time, _ = criterion.value.partition("_ms_")
    return name if is_time and name in STREAM_TIMES else None


def within_ns(criterion: Criterion) -> int | None:
    """Return the time limit of a criterion such as `90% within 2s` [ns]; None if the
    criterion is of another kind."""
    match = _WITHIN_KEY.fullmatch(criterion.value)
    return parse_duration_ns(match[1]) if match else None


def percentile_key(share: float, of: str = "response") -> str:
    """Return the key of a percentile of the response time, or of another: `response_ms_p99_9`."""
    return f"{of}_ms_p{100 * share:.10g}".replace(".", "_")


def _timed(of: str, statistic: str, sign: str, limit: str) -> Criterion:
    """Return the criterion of a statistic of the response time, or of a time of streams."""
    _below(sign, "a response time" if of == "response" else f"a time such as {of!r}")
    share = parse_statistic(statistic)
    limit_ms = _some_ns(limit) / 1e6
    if share is None:
        return Criterion(f"{of}_ms_mean", limit_ms)
    return Criterion(percentile_key(share, of), limit_ms, statistic="percentile", share=share)


def _good(share: str) -> Criterion:
    return Criterion(GOOD_KEY, parse_share(share), unit="", better="higher", statistic="share")


def parse_good(text: str) -> StreamLimit:
    """Return a limit that each good stream meets, such as `first < 500ms`. Raises ValueError."""
    match = _GOOD_LIMIT.fullmatch(text.strip())
    if match is None:
        meant = _with_standard_words(text.strip())
        if _GOOD_LIMIT.fullmatch(meant):
            raise ValueError(f"{text!r} is not a limit of a stream: did you mean {meant!r}?")
        names = ", ".join(name.replace("_", " ") for name in GOOD_LIMITS)
        raise ValueError(
            f"{text!r} is not a limit of a stream, such as 'first < 500ms'; it can be of {names}"
        )
    _below(match[2], "a time of a stream")
    return StreamLimit(match[1].replace(" ", "_"), _some_ns(match[3]))


def _within(share: str, limit: str) -> Criterion:
    key = f"within_{_shortest(_some_ns(limit))}_share"
    return Criterion(key, parse_share(share), unit="", better="higher", statistic="share")


def _errors(sign: str, limit: str) -> Criterion:
    _below(sign, "the share of errors")
    none = limit.strip() in ("0", "0%")
    share = 0.0 if none else parse_share(limit)
    if share == 1:
        meant = ": did you mean 1%?" if limit.strip() == "1" else ""
        raise ValueError(f"errors < 100% always holds{meant}")
    return Criterion("error_ratio", share, unit="", statistic="ratio")


def _metric(name: str, sign: str, limit: str) -> Criterion:
    if _RESERVED.fullmatch(name):
        raise ValueError(f"{name} is not a metric's name: it is a value of every load")
    better: Literal["lower", "higher"] = "lower" if sign[0] == "<" else "higher"
    number = float(limit)
    if not math.isfinite(number):
        raise ValueError(f"{limit} is too large")
    return Criterion(name, number, unit="", better=better, statistic="metric")


def _below(sign: str, what: str) -> None:
    if sign[0] == ">":
        raise ValueError(f"{what} is limited from above: write < instead of {sign}")


def _some_ns(text: str) -> int:
    limit_ns = parse_duration_ns(text)
    if not limit_ns:
        raise ValueError(f"{text.strip()!r} is zero; it must be more")
    return limit_ns


def _shortest(ns: int) -> str:
    """Return a time as written in its key: a whole number of the largest possible unit."""
    for unit, scale in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if ns % scale == 0:
            return f"{ns // scale}{unit}"
    return f"{ns}ns"
