"""Arbitrary and mutated text into every front end: never anything but an InputError.

Every Diagnostic names a file, a line that exists and a column on it; what compiles can
be planned, and compiles again from its stored texts to an equal program.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from benchwright.core.errors import InputError
from benchwright.inputs.template import MOST, expanded
from benchwright.suite import effects as effect
from benchwright.suite.command_line import CommandRequest, program_from_command
from benchwright.suite.compile import compile_sources, load
from benchwright.suite.interpret import execute
from benchwright.suite.program import Program

FILES = {
    "common.inc": "ECHO begin\nVAR TERMINATE=3 1 getstats --predicate '$count > 5' --\n",
    "loop.inc": "INCLUDE loop.inc\n",
    "inc/deep.inc": "INCLUDE ../common.inc\nFI\n",
}
AP = r"""#!/usr/bin/perl
INCLUDEPATH inc
INCLUDE common.inc
OPTINCLUDE local.inc
FASTFAIL mail root
VAR N=2
ENVEX M=%N% * 2 + $N
FOREACH FS ext2 ext3
  FOR T=1 TO %M% FACTOR 2
    THREADS=%T%
    IF FS = ext2
      TIMEOUT 30s
    ELSE-IF T !> 1
      METRIC ops:higher=/ops
    ELSE
      HOOKS disk-io
    FI
    TEST %FS%:%T% 10 1 getstats \
       --predicate '("$delta" < 0.05 * $mean) \
|| ($count > 30)'
      PRESETUP a %EPOCH%
      SETUP b
      EXEC c %THREADS% | d
      CLEANUP e
    DONE
  DONE
DONE
WHILE N < 5
  VAREX N=%N%+1
  CHECKPOINT state
  IF RESTORE = 1
    SYSTEM reboot
    STOP
  FI
DONE
"""
TOML = r"""name = "postmark"
threads = [1, 2]
timeout = "10m"
hooks = ["disk-io"]
skip = '$fs eq "xfs" && $threads > 1'
only = ['$size < 3']
[factors]
fs = ["ext4", "xfs"]
size = [1, 2.5]
[variables]
dir = "/mnt/{fs}"
[environment]
FSSIZE = "{size}G"
[[test]]
presetup = "mkfs.{fs} x | cat"
exec = [["a", "{fs}"], ["b {print}"]]
[test.until]
precision = "5%"
metrics = ["elapsed", "ops"]
[test.metrics]
ops = {pointer = "/ops", unit = "1/s", better = "higher"}
[[test]]
name = "second-{fs}"
exec = '''true'''
until = {predicate = "$count > 3", min_runs = 3}
[[test]]
name = "third\u0020"
exec = "x"
until = {program = "stable.sh", increment = 2}
"""
ODD = r"""% %X% %%A% \ ' " = DONE FI TEST { } [ ] 1e999 -1 0 é"""
WORDS = st.sampled_from(
    [*(AP + TOML + ODD).split(), "\\\n", "9" * 5000, "\t", "\r", "\x0b", "\u2028", "\0"]
)


@st.composite
def mutated(draw: st.DrawFn, whole: str) -> str:
    """Return a suite with some of its pieces cut, copied, swapped or replaced."""
    lines = whole.split("\n")
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, max(0, len(lines) - 1)))
        match draw(st.integers(0, 4)):
            case 0 if lines:
                del lines[at]
            case 1 if lines:
                lines.insert(draw(st.integers(0, len(lines))), lines[at])
            case 2:
                lines.insert(at, " ".join(draw(st.lists(WORDS, max_size=5))))
            case 3 if lines:
                cut = draw(st.integers(0, len(lines[at])))
                lines[at] = lines[at][:cut] + draw(WORDS) + lines[at][cut:]
            case _ if lines:
                cut = draw(st.integers(0, len(lines[at])))
                lines[at] = lines[at][:cut]
    return "\n".join(lines)


def check_places(error: InputError, texts: dict[str, str]) -> None:
    """Every Diagnostic has a place, and the place exists."""
    for d in error.diagnostics:
        assert d.code
        assert d.message
        assert d.file
        assert d.line >= 1
        assert d.column >= 1
        assert d.render()
        if d.file in texts:
            lines = texts[d.file].split("\n")
            assert d.line <= len(lines)
            assert d.column <= len(lines[d.line - 1]) + 1


def compiled(name: str, text: str) -> Program | None:
    """Compile, plan, and compile again from what was kept."""
    texts = {**FILES, name: text}

    def read(path: str) -> str:
        if path not in texts:
            raise FileNotFoundError(path)
        return texts[path]

    try:
        program = load(name, read)
    except InputError as error:
        check_places(error, texts)
        return None
    assert compile_sources(name, program.sources) == program
    return program


def drive(program: Program, answers: Callable[[effect.Effect], int], texts: str) -> None:
    """Run a program against odd answers; only an InputError may come out."""
    steps = execute(program, defines={}, environment={}, turns=50)
    answer = None
    try:
        for _ in range(200):
            what = steps.send(answer)
            answer = None
            match what:
                case effect.AskNext() | effect.RunSystem() | effect.WriteCheckpoint():
                    answer = answers(what)
                case effect.RunEpochs(_, _, count):
                    answer = max(0, count - answers(what) % 2)
    except StopIteration:
        pass
    except InputError as error:
        check_places(error, {"s.ap": texts, **FILES})


@settings(max_examples=400)
@given(text=mutated(AP))
def test_mutated_ap_is_a_program_or_an_input_error(text: str) -> None:
    compiled("s.ap", text)


@settings(max_examples=200)
@given(text=st.one_of(st.text(), st.lists(WORDS).map(" ".join), st.lists(WORDS).map("\n".join)))
def test_arbitrary_text_is_no_traceback(text: str) -> None:
    compiled("s.ap", text)
    compiled("s.toml", text)


@settings(max_examples=400)
@given(text=mutated(TOML))
def test_mutated_toml_is_a_program_or_an_input_error(text: str) -> None:
    compiled("s.toml", text)


@settings(max_examples=200)
@given(text=mutated(AP), numbers=st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_the_interpreter_survives_any_answers(text: str, numbers: list[int]) -> None:
    program = compiled("s.ap", text)
    if program is not None:
        cycle = itertools.cycle(numbers)
        drive(program, lambda _: next(cycle), text)


@settings(max_examples=300)
@given(
    words=st.lists(st.one_of(st.text(max_size=8), WORDS), max_size=3),
    factors=st.lists(st.one_of(st.text(max_size=8), st.just("fs=a,b/c")), max_size=3),
    values=st.lists(
        st.one_of(st.none(), st.text(max_size=8), st.sampled_from(("5%", "3", "1s", "1,2"))),
        min_size=8,
        max_size=8,
    ),
    metrics=st.lists(st.sampled_from(("a:higher=/x", "b~(x)", "c~((", "=", "elapsed")), max_size=3),
    shell=st.one_of(st.none(), st.text(max_size=4)),
)
def test_any_command_line_is_a_program_or_an_input_error(
    words: list[str],
    factors: list[str],
    values: list[str | None],
    metrics: list[str],
    shell: str | None,
) -> None:
    threads, least, most, precision, max_time, setup, timeout, name = values
    request = CommandRequest(
        () if shell is not None else tuple(words),
        commands=tuple(words) if shell is not None else (),
        shell=shell or None,
        runs=name,
        warmup=threads,
        seed=least,
        factors=factors,
        threads=threads,
        min_runs=least,
        max_runs=most,
        precision=precision,
        max_time=max_time,
        metrics=metrics,
        setup=setup,
        timeout=timeout,
        name=name,
    )
    try:
        program = program_from_command(request)
    except InputError as error:
        check_places(error, {})
        return
    drive(program, lambda _: 1, "")


NUMBERS = st.decimals(-999, 999, places=2, allow_nan=False)


@settings(max_examples=300)
@given(first=NUMBERS, count=st.integers(0, 300), step=st.decimals("0.01", 99, places=2))
def test_a_range_counts_from_its_first_level_by_its_step(
    first: Decimal, count: int, step: Decimal
) -> None:
    last = first + count * step
    for end in (last, last + step / 2):
        levels = expanded(f"{first:f}..{end:.3f}:{step:f}")
        assert [Decimal(level) for level in levels] == [
            first + place * step for place in range(count + 1)
        ]
    assert len(set(levels)) == count + 1
    assert not any(level.endswith((".", ".0")) or "E" in level for level in levels)


@settings(max_examples=300)
@given(first=st.integers(1, 99), times=st.integers(2, 9), over=st.integers(0, 10**9))
def test_a_range_multiplies_up_to_its_end(first: int, times: int, over: int) -> None:
    last = first + over
    levels = [int(level) for level in expanded(f"{first}..{last}*{times}")]
    assert levels[0] == first
    assert all(b == a * times for a, b in itertools.pairwise(levels))
    assert levels[-1] <= last < levels[-1] * times


@settings(max_examples=300)
@given(st.from_regex(r"-?[0-9]{1,3}\.\.-?[0-9]{1,5}([:*][0-9.]{1,4})?", fullmatch=True))
def test_any_range_is_a_few_distinct_levels_or_an_error(text: str) -> None:
    try:
        levels = expanded(text)
    except ValueError:
        return
    assert 1 <= len(set(levels)) == len(levels) <= MOST
