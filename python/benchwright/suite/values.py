"""Parses values of directives, keys and options: loops, levels, commands, threads, timeouts,
output; and the syntax of metrics, gates and stopping rules.
"""

from __future__ import annotations

import decimal
import functools
import operator
import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Literal, TypeVar, cast

import msgspec

from benchwright.core.comparison import Gate
from benchwright.core.errors import InputError
from benchwright.core.expression import PREDICATE_VARIABLES, EvaluationError, Expression, parse
from benchwright.core.pattern import PatternError, compile_pattern
from benchwright.core.plan import (
    Command,
    FixedCount,
    LevelKind,
    MetricSpec,
    OutputPolicy,
    Replicated,
    ReplicateLevel,
    Replication,
    StoppingRule,
    UntilPrecise,
    UntilPredicate,
    UntilProgram,
)
from benchwright.core.quantity import parse_change, parse_duration_ns, parse_size_bytes
from benchwright.core.results import SlowRuns
from benchwright.core.text import percent_text
from benchwright.inputs.mistakes import Fault, Where, WrongText, mistake, raised
from benchwright.inputs.template import Word, expanded, one_of, split_words

# --------------------------------------------------------------------------------------
# `NAME[:higher][=/json/pointer | ~regex(group)]`, for `.ap` and the command line.
#
# Sources: RFC 6901 for pointers; RE2 for patterns (core/pattern.py).

ALWAYS = ("elapsed", "user", "system", "rss_bytes")
"""Metrics that are measured for every command, never read from its output."""
METRIC_CODE = "suite-metric"
METRIC_SYNTAX = "write NAME, NAME:higher, NAME=/json/pointer or NAME~regex(group)"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*", re.ASCII)
_MARKS = re.compile(r"[:=~]")
"""What can follow the name of a metric."""
_BAD_ESCAPE = re.compile(r"~(?![01])")


def parse_metric(text: str) -> tuple[MetricSpec | None, list[Fault]]:
    """Return the metric that a text declares, or None, and its faults."""
    name = _NAME.match(text)
    if name is None:
        return None, [Fault(METRIC_CODE, f"{text!r} does not start with a name", METRIC_SYNTAX)]
    if (whole := _MARKS.split(text, maxsplit=1)[0]) != name[0]:
        return None, [_not_a_name(whole, name.end())]
    at, better, faults = _direction(text, name.end())
    if faults:
        return None, faults
    source = text[at:]
    if source and source[0] not in "=~":
        return None, [Fault(METRIC_CODE, f"{source!r} is not expected here", METRIC_SYNTAX, at)]
    if source and name[0] in ALWAYS:
        message = f"{name[0]} is measured, not read from the output"
        return None, [Fault(METRIC_CODE, message, "give the metric another name", at)]
    if source.startswith("=~"):
        hint = f"write {text[:at]}{source[1:]}"
        message = "a regular expression follows ~ without ="
        return None, [Fault(METRIC_CODE, message, hint, at)]
    try:
        spec = MetricSpec(
            name[0],
            pointer(source[1:]) if source.startswith("=") else None,
            pattern(source[1:]) if source.startswith("~") else None,
            better=better,
        )
    except WrongText as error:
        return None, [error.fault.moved(at + 1)]
    return spec, []


def metric(text: str) -> MetricSpec:
    """Return the metric that a text declares. Raises WrongText with its first fault."""
    spec, faults = parse_metric(text)
    if spec is None:
        raise WrongText.of(faults[0])
    return spec


def metric_name(name: str) -> str:
    """Return a metric's name. Raises WrongText."""
    if not _NAME.fullmatch(name):
        raise WrongText.of(_not_a_name(name))
    return name


def _not_a_name(text: str, at: int = 0) -> Fault:
    hint = "letters from a to z, digits, _ . -, beginning with a letter or _"
    return Fault(METRIC_CODE, f"{text!r} is not a metric's name", hint, at)


def pointer(text: str) -> str:
    """Return a JSON pointer. Raises WrongText."""
    if not text.startswith("/"):
        raise WrongText(METRIC_CODE, f"{text!r} is not a JSON pointer", "it begins with /")
    if escape := _BAD_ESCAPE.search(text):
        hint = "in a pointer ~0 stands for ~ and ~1 for /"
        raise WrongText(METRIC_CODE, "~ is not followed by 0 or 1", hint, escape.start())
    return text


def pattern(text: str) -> str:
    """Return a regular expression with one group. Raises WrongText."""
    try:
        groups = compile_pattern(text).groups
    except PatternError as error:
        message = f"bad regular expression: {error.message}"
        raise WrongText(METRIC_CODE, message, error.hint, error.offset) from None
    if groups != 1:
        hint = "exactly one ( ) around the number; (?: ) for others"
        raise WrongText(METRIC_CODE, f"the regular expression has {groups} groups", hint)
    return text


def _direction(text: str, at: int) -> tuple[int, Literal["lower", "higher"], list[Fault]]:
    if text[at : at + 1] != ":":
        return at, "lower", []
    for word in ("higher", "lower"):
        end = at + 1 + len(word)
        if text.startswith(word, at + 1) and text[end : end + 1] in ("", "=", "~"):
            return end, "higher" if word == "higher" else "lower", []
    message = "the better direction is given by :higher or :lower"
    return at, "lower", [Fault(METRIC_CODE, message, METRIC_SYNTAX, at + 1)]


# -- `[METRIC] slower|faster by SHARE`: a gate, the value of --fail-if -----------------

GATE_SYNTAX = "write 'slower by 3%' or 'METRIC faster by 5%'"
_CODE = "suite-gate"
_SPACED = re.compile(r"(?<=\d)\s+%\s*\Z")
"""The blank in `3 %`, the spelling in our reports."""
_WORD = re.compile(r"\S+")


def _condition_words(text: str) -> tuple[list[re.Match[str]], str]:
    """Return the words of a condition, and the name of its metric, which can have blanks."""
    words = list(_WORD.finditer(_SPACED.sub("%", text)))
    return words, " ".join(word[0] for word in words[:-3])


def gated_metric(text: str) -> str:
    """Return the metric that a gate's text names; empty if it names none."""
    return _condition_words(text)[1]


def parse_gate(text: str, known: Sequence[str]) -> tuple[Gate | None, Fault | None]:
    """Return the gate that a text describes, or its fault.

    `known`: the compared metrics. A gate without a metric applies to the first of them.
    """
    words, name = _condition_words(text)
    at = len(words) - 3
    if at < 0 or (at > 1 and name not in known):
        return None, Fault(_CODE, f"{text!r} is not a condition", GATE_SYNTAX)
    direction, by, share = words[at:]
    if direction[0] not in ("slower", "faster"):
        message = f"{direction[0]!r} is neither slower nor faster"
        return None, Fault(_CODE, message, GATE_SYNTAX, direction.start())
    if by[0] != "by":
        return None, Fault(_CODE, f"{by[0]!r} should be `by`", GATE_SYNTAX, by.start())
    try:
        size = parse_change(share[0])
    except ValueError as error:
        return None, Fault(_CODE, str(error), GATE_SYNTAX, share.start())
    metric = name or known[0]
    if metric not in known:
        there = ", ".join(dict.fromkeys(known))
        hint = f"compared metrics: {there}; --metric declares others"
        return None, Fault(_CODE, f"{metric} is not compared", hint, words[0].start())
    way = cast(Literal["slower", "faster"], direction[0])
    return Gate(metric, way, size, " ".join(word[0] for word in words)), None


# -- When a test stops: `COUNT`, or `BEGIN INCREMENT [PROGRAM... [--]]` of TEST --------
#
# getstats with a --predicate becomes `UntilPredicate`, which is evaluated in this process; any
# other program is executed. A trailing `--` asks for the results file as last argument; that is
# always appended, so the `--` is dropped. Source: Auto-pilot paper, section 3.1.

RULE_CODE = "suite-test-arguments"
RULE_SYNTAX = "write TEST NAME COUNT, or TEST NAME BEGIN INCREMENT PROGRAM"
MAX_EPOCHS = 10**9


_HEAD = re.compile(r"\s*(\S+)(?:\s+(\S+)(?:\s+(\S.*))?)?\s*\Z", re.DOTALL)
_TRAILING_MARK = re.compile(r"(?:\A|\s)--\s*\Z")


def parse_termination(text: str) -> tuple[StoppingRule | None, list[Fault]]:
    """Return the rule in the text after a test's name, or None, and its faults."""
    head = _HEAD.match(text)
    if head is None:
        return None, [Fault(RULE_CODE, "TEST needs a name and a count", RULE_SYNTAX, len(text))]
    faults: list[Fault] = []
    begin = _epochs(head[1], "the count", head.start(1), faults)
    if head[2] is None:
        return (None, faults) if faults else (FixedCount(begin), faults)
    increment = _epochs(head[2], "the increment", head.start(2), faults)
    program = _TRAILING_MARK.sub("", head[3] or "").rstrip()
    if not program:
        return (None, faults) if faults else (FixedCount(begin), faults)
    rule = _rule(program, head.start(3), begin, increment, faults)
    return (None, faults) if faults else (rule, faults)


def expression_faults(text: str, variables: Collection[str] | None = None) -> list[Fault]:
    """Return the mistakes in an expression; names are checked if it may have these alone."""
    try:
        parse(text, variables=variables)
    except InputError as error:
        return [Fault(d.code, d.message, d.hint, d.column - 1) for d in error.diagnostics]
    return []


def epochs(text: str, what: str = "the number of runs") -> int:
    """Return a number of epochs. Raises WrongText."""
    text = text.strip()
    if not re.fullmatch(r"[0-9]{1,18}", text, re.ASCII) or int(text) < 1:
        message = f"{what} {text!r} is not a whole number of at least 1"
        raise WrongText(RULE_CODE, message, RULE_SYNTAX)
    if int(text) > MAX_EPOCHS:
        raise WrongText(RULE_CODE, f"{what} {text} is more than {MAX_EPOCHS}", RULE_SYNTAX)
    return int(text)


def _epochs(text: str, what: str, offset: int, faults: list[Fault]) -> int:
    try:
        return epochs(text, what)
    except WrongText as error:
        faults.append(error.fault.moved(offset))
        return 1


def _rule(
    program: str, offset: int, begin: int, increment: int, faults: list[Fault]
) -> StoppingRule:
    words, wrong = split_words(program)
    if words and posixpath.basename(words[0].text) == "getstats":
        faults += [f.moved(offset) for f in wrong]
        predicate = _predicate(words, offset + len(program), faults)
        if predicate is not None:
            at = predicate.offsets
            for f in expression_faults(predicate.text, PREDICATE_VARIABLES):
                place = offset + at[min(f.offset, len(at) - 1)]
                faults.append(Fault(f.code, f.message, f.hint, place))
            return UntilPredicate(begin, increment, predicate.text)
    return UntilProgram(begin, increment, Command.from_text(program))


def _predicate(words: list[Word], end: int, faults: list[Fault]) -> Word | None:
    """Return the predicate's word, with offsets in the text of the program."""
    for number, word in enumerate(words):
        if word.text == "--predicate":
            if number + 1 < len(words):
                return words[number + 1]
            hint = "expected an expression after --predicate"
            faults.append(Fault(RULE_CODE, "--predicate has no expression", hint, end))
        if word.text.startswith("--predicate="):
            skip = len("--predicate=")
            return Word(word.text[skip:], word.offsets[skip], word.offsets[skip:])
    return None


T = TypeVar("T")


def too_few_for(rare: SlowRuns, most: int, needed: int | None = None) -> str:
    """Return that so many trials, or blocks, may show none of these slow runs; `needed`: how many
    do."""
    share = percent_text(rare.share, 10)
    return f"{most} may show no slow run of {share}: that takes {needed or rare.trials}"


# -- The values of `FOR V=A TO B [FACTOR M|ADD I]` -------------------------------------
#
# Decision: decimal arithmetic, so that 0.1 TO 0.5 ADD 0.1 has five values and 1 TO 32
# FACTOR 2 yields integers. A loop that cannot reach its end is an error before its first
# turn. Source: Auto-pilot paper, section 3.1, FOR.

_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})\Z", re.ASCII)
_CONTEXT = decimal.Context(prec=40)

LoopPart = Literal["begin", "end", "factor", "add"]


class NeverEnds(Exception):
    """Raised for a loop without an end; `part` is the cause."""

    def __init__(self, part: LoopPart, message: str) -> None:
        self.part = part
        self.message = message
        super().__init__(message)


def decimal_number(text: str) -> Decimal:
    """Return a number of at most 18 digits before the point and 9 after it.

    Raises ValueError; its message states what was expected.
    """
    text = text.strip()
    if not _NUMBER.match(text):
        raise ValueError(f"{text!r} is not a number")
    return Decimal(text)


def counted(
    begin: Decimal, end: Decimal, *, factor: Decimal | None, add: Decimal | None
) -> Iterator[str]:
    """Return the values as texts; none if the loop starts beyond `end`.

    Raises NeverEnds when called, before the first value.
    """
    if factor is None:
        step = Decimal(1) if add is None else add
        if step == 0:
            raise NeverEnds("add", "ADD 0 never changes the value")
        return _turns(begin, end, step, _CONTEXT.add, rising=step > 0)
    return _turns(begin, end, factor, _CONTEXT.multiply, rising=_rises(begin, end, factor))


def _rises(begin: Decimal, end: Decimal, factor: Decimal) -> bool:
    """Return whether the values grow. Raises NeverEnds if they cannot pass `end`."""
    if factor <= 0 or factor == 1:
        raise NeverEnds("factor", f"FACTOR {factor} never reaches the end")
    if begin == 0:
        raise NeverEnds("begin", "0 multiplied by a factor stays 0")
    rising = (factor > 1) == (begin > 0)
    shrinks = factor < 1
    if shrinks and (end <= 0 if begin > 0 else end >= 0):
        raise NeverEnds("end", f"FACTOR {factor} approaches 0 and never passes {end}")
    if not shrinks and not rising and end > begin:
        raise NeverEnds("begin", f"{begin} times {factor} moves away from {end}")
    return rising


def _turns(
    begin: Decimal,
    end: Decimal,
    step: Decimal,
    move: Callable[[Decimal, Decimal], Decimal],
    *,
    rising: bool,
) -> Iterator[str]:
    value = begin
    while value <= end if rising else value >= end:
        yield _without_exponent(value)
        value = move(value, step)


def _without_exponent(value: Decimal) -> str:
    return f"{value.normalize(_CONTEXT) + 0:f}"


def check_ends(numbers: Mapping[LoopPart, Decimal], *, complete: bool) -> None:
    """Raise NeverEnds if the known numbers show that the loop cannot end.

    `complete`: all numbers of the loop are known.
    """
    if numbers.get("add") == 0:
        raise NeverEnds("add", "ADD 0 never changes the value")
    factor = numbers.get("factor")
    if factor is not None and (factor <= 0 or factor == 1):
        raise NeverEnds("factor", f"FACTOR {factor} never reaches the end")
    if factor is not None and numbers.get("begin") == 0:
        raise NeverEnds("begin", "0 multiplied by a factor stays 0")
    if complete:
        begin, end = numbers["begin"], numbers["end"]
        counted(begin, end, factor=factor, add=numbers.get("add"))


# --------------------------------------------------------------------------------------
# Parses texts: commands, durations, counts, comparisons.
#
# One parser for each value: of options, of keys, and of texts of a suite, which the compiler checks
# if they have no variables (`fault_of`), and the interpreter reads when they have their values
# (`at_run_time`).

MAX_THREADS = 4096
MAX_WARMUP = 1_000_000
OUTPUT_MODES = ("null", "bounded", "file", "inherit")
_FORBIDDEN = re.compile(r"[/\x00-\x1f\x7f]")
_ORDER: dict[str, Callable[[Decimal, Decimal], bool]] = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def command(text: str, where: Where, drawn: Sequence[str] = ()) -> Command:
    """Return the command of a text, in which inputs of these names are. Raises InputError if it is
    empty."""
    try:
        return Command.from_text(text, drawn)
    except ValueError:
        hint = "it is empty after substitution"
        raise mistake(where, "suite-no-command", "the command is empty", hint) from None


def at_run_time(parse: Callable[[str], T], text: str, where: Where) -> T:
    """Return the value of a text that exists only at run time. Raises InputError."""
    try:
        return parse(text)
    except WrongText as error:
        raise raised([error.fault], where, text) from None


def _count(text: str, what: str, code: str, least: int, most: int) -> int:
    text = text.strip()
    if re.fullmatch(r"[0-9]{1,7}", text, re.ASCII) and least <= int(text) <= most:
        return int(text)
    message = f"{text!r} is not a number of {what}"
    raise WrongText(code, message, f"a whole number from {least} to {most}")


def threads(text: str) -> int:
    """Return a number of threads. Raises WrongText."""
    return _count(text, "threads", "suite-threads", 1, MAX_THREADS)


def timeout_ns(text: str) -> int | None:
    """Return a time limit [ns], None for `none`. Raises WrongText."""
    text = text.strip()
    if text == "none":
        return None
    try:
        limit = parse_duration_ns(text)
    except ValueError as error:
        hint = "such as 30s or 10m; none: no limit"
        raise WrongText("suite-duration", str(error), hint) from None
    if not 0 < limit < 2**63:
        raise WrongText("suite-duration", f"{text!r} is not a time limit")
    return limit


_LARGEST_STATUS = 255
_STATUS_HINT = "such as 0,1 or 0,2..4; 128 + N is a command that signal N ended"


def statuses(text: str) -> tuple[int, ...]:
    """Return exit statuses: numbers and ranges, separated by commas. Raises WrongText."""
    code = "suite-status"
    try:
        found = [level for part in text.split(",") for level in expanded(part.strip())]
    except ValueError as error:
        raise WrongText(code, str(error), _STATUS_HINT) from None
    for one in found:
        if re.fullmatch("[0-9]{1,3}", one, re.ASCII) is None or int(one) > _LARGEST_STATUS:
            message = f"{one!r} is not an exit status: 0 to {_LARGEST_STATUS}"
            raise WrongText(code, message, _STATUS_HINT)
    return tuple(sorted({int(one) for one in found}))


def warmup(text: str) -> int:
    """Return a number of warm-up trials. Raises WrongText."""
    return _count(text, "warm-up trials", "suite-warmup", 0, MAX_WARMUP)


def output(text: str) -> OutputPolicy:
    """Return the output policy of a text. Raises WrongText."""
    mode, colon, limit = text.strip().partition(":")
    if mode not in OUTPUT_MODES:
        modes = ", ".join(OUTPUT_MODES)
        hint = f"must be one of {modes}; file:4G allows 4 GiB a trial"
        raise WrongText("suite-output", f"unknown output {mode!r}", hint)
    chosen = msgspec.convert({"mode": mode}, OutputPolicy)
    if not colon:
        return chosen
    try:
        size = parse_size_bytes(limit)
        if not 0 < size < 2**63:
            raise ValueError(f"{limit!r} is not a size limit")
    except ValueError as error:
        offset = len(mode) + 1
        raise WrongText("suite-output", str(error), "such as file:4G", offset) from None
    return msgspec.structs.replace(chosen, limit_bytes=size)


def rest_command(text: str) -> str:
    """Return the command of SETUP that pauses for a duration. Raises WrongText."""
    try:
        pause = parse_duration_ns(text.strip())
    except ValueError as error:
        raise WrongText("suite-duration", str(error), "such as 500ms or 2s") from None
    if not 0 < pause < 2**63:
        raise WrongText("suite-duration", f"{text.strip()!r} is not a pause")
    return f"sleep {Decimal(pause) / 10**9:f}"


def name_of_test(name: str) -> str:
    """Return a test's name, which must be valid in file names. Raises WrongText."""
    code, hint = "suite-test-name", "the name also names the test's files"
    if not name or name in (".", "..") or name[0] in "_-":
        raise WrongText(code, f"{name!r} cannot name a test", hint)
    if bad := _FORBIDDEN.search(name):
        message = f"{bad[0]!r} cannot be in a test's name"
        raise WrongText(code, message, hint, bad.start())
    if len(name.encode("utf-8", "replace")) > 200:
        raise WrongText(code, "a test's name of more than 200 bytes is too long", hint)
    return name


def compare(left: str, relation: str, right: str, where: Where) -> bool:
    """Return whether a comparison of IF or WHILE holds.

    `=` and `!=` compare numbers if both sides are numbers, else texts; the other relations
    need numbers. Raises InputError.
    """
    try:
        numbers = decimal_number(left), decimal_number(right)
    except ValueError as error:
        if relation in ("=", "!="):
            return (left == right) is (relation == "=")
        hint = f"{relation} compares numbers; = and != compare texts too"
        raise mistake(where, "suite-not-a-number", str(error), hint) from None
    if relation in ("=", "!="):
        return (numbers[0] == numbers[1]) is (relation == "=")
    return _ORDER[relation](*numbers)


@functools.lru_cache(maxsize=256)
def _parse(text: str) -> Expression:
    return parse(text, variables=None)


def expression(text: str, where: Where) -> Expression:
    """Return the expression of a text after substitution. Raises InputError."""
    try:
        return _parse(text)
    except InputError:
        raise raised(expression_faults(text), where, text) from None


def no_value(error: EvaluationError, where: Where) -> InputError:
    """Return the InputError for an expression that has no value."""
    fault = Fault(error.code, error.message, "", error.column - 1)
    return raised([fault], where, error.text)


# -- Levels of replication -----------------------------------------------------------------

NO_RANDOM_ADDRESSES = "aslr=off"
"""In place of a level: programs start without random addresses."""
_LEVELS = ("env", "directory", "build", "process", "boot", "host", "time")
OUTERMOST = (LevelKind.BOOT, LevelKind.HOST, LevelKind.TIME)
"""Levels that no other level is outside of."""
_LEVEL = re.compile(r"([^=:\s]+)(?:=([^:]*))?(?::(.*))?", re.DOTALL)
LEVEL_HINT = "write --replicate env=10, or --replicate 'build=5:make SEED={seed}'"
MAX_REPLICATES = 10_000


def replicate_level(text: str) -> ReplicateLevel | None:
    """Return the level of `LEVEL[=N][:COMMAND]`, without the span of `time`; None for a choice about
    addresses. Raises ValueError."""
    match = _LEVEL.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not LEVEL=N")
    word, number, command = match.groups()
    if word == "aslr":
        if number not in ("on", "off") or command is not None:
            raise ValueError("aslr is on or off: random addresses, or the same in each trial")
        return None
    kind = LevelKind(one_of(word, _LEVELS, "level"))
    count = None
    if number is not None:
        if (
            not re.fullmatch("[0-9]{1,6}", number, re.ASCII)
            or not 2 <= int(number) <= MAX_REPLICATES
        ):
            raise ValueError(
                f"{number!r} is not a number of replicates from 2 to {MAX_REPLICATES:,}"
            )
        count = int(number)
    if (kind is LevelKind.BUILD) is not bool(command and command.strip()):
        if kind is LevelKind.BUILD:
            raise ValueError("build has no command")
        raise ValueError(f"{word} has no command: only build has")
    return ReplicateLevel(kind, count, command)


def has_fixed_addresses(words: Sequence[str]) -> bool:
    """Return whether the words of `--replicate` ask for programs without random addresses."""
    chosen = [word.strip() for word in words if word.strip().startswith("aslr=")]
    return chosen[-1:] == [NO_RANDOM_ADDRESSES]


def replicated(
    rule: StoppingRule, levels: Sequence[ReplicateLevel], metrics: Sequence[str], seed: int
) -> tuple[StoppingRule, tuple[str, str] | tuple[()]]:
    """Return a test's rule with levels of replication, and what is wrong with the two together: a
    message and a hint, or nothing."""
    are_counted = all(level.count for level in levels)
    if isinstance(rule, FixedCount):
        replication = Replication(tuple(levels), seed, rule.count)
        if not are_counted:
            hint = "write --replicate env=10, or add --precision 2%"
            return rule, ("a level has no number, and no precision decides it", hint)
        return Replicated(replication, tuple(metrics)), ()
    if not isinstance(rule, UntilPrecise):
        hint = "give a number of trials, or a precision"
        return rule, ("a predicate or a program does not decide about replicates", hint)
    if levels and levels[0].kind is LevelKind.HOST:
        hint = "give --runs and a number for each level, without --precision"
        return rule, ("hosts run side by side, so all numbers are given before", hint)
    if rule.share is not None or rule.rare is not None or rule.mode != "plan":
        hint = "leave out --of, --rare and --mode"
        return rule, ("replicates are for means, by plan", hint)
    if are_counted:
        hint = "leave out a number, as in --replicate env, or leave out --precision"
        return rule, ("all levels have a number: nothing is left to decide by a precision", hint)
    return Replicated(Replication(tuple(levels), seed), rule.metrics, rule), ()
