"""Mistakes of .ap suites: each at its file, line and column, with what was expected."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from benchwright.core.errors import Diagnostic, InputError
from benchwright.suite.compile import load
from benchwright.suite.values import parse_metric

NONE: Mapping[str, str] = {}


def mistakes(
    text: str,
    files: Mapping[str, str | Exception] = NONE,
    defines: Mapping[str, str] = NONE,
    name: str = "s.ap",
) -> tuple[Diagnostic, ...]:
    """Return every mistake of a suite; there is at least one."""
    texts = {name: text, **files}

    def read(path: str) -> str:
        if path not in texts:
            raise FileNotFoundError(path)
        found = texts[path]
        if isinstance(found, Exception):
            raise found
        return found

    with pytest.raises(InputError) as caught:
        load(name, read, defines=defines)
    return caught.value.diagnostics


BODY = "\nEXEC x\nDONE"


@pytest.mark.parametrize(
    ("text", "line", "column", "code", "part"),
    [
        ("ECHO a\n  ECKO b", 2, 3, "suite-unknown-directive", "did you mean ECHO?"),
        ("echo a", 1, 1, "suite-unknown-directive", "did you mean ECHO?"),
        ("EVAL $x = 1", 1, 1, "suite-unknown-directive", "VAREX"),
        ("FOO=1", 1, 1, "suite-unknown-directive", "VAR FOO=VALUE"),
        ("VAR", 1, 4, "suite-arguments", "VAR NAME=VALUE"),
        ("VAR A", 1, 5, "suite-assignment", "VAR NAME=VALUE"),
        ("VAR 1=2", 1, 5, "suite-assignment", "VAR NAME=VALUE"),
        ("VAREX A=", 1, 9, "suite-arguments", "VAREX NAME=EXPRESSION"),
        ("VAREX A=1 +", 1, 12, "expression-syntax", "expected a number"),
        ("VAR B=1\nVAREX A=1+$C", 2, 11, "expression-unknown-name", "known"),
        ("VAR LONGNAME=1\nECHO x %LONGNAM%", 2, 8, "suite-unknown-variable", "LONGNAME"),
        ("IF NOPE = 1\nFI", 1, 4, "suite-unknown-variable", "-D NOPE=VALUE"),
        ("THREADS=", 1, 9, "suite-arguments", "THREADS=N"),
        ("THREADS=0", 1, 9, "suite-threads", "from 1 to"),
        ("THREADS two", 1, 9, "suite-threads", "whole number"),
        ("TIMEOUT 30", 1, 9, "suite-duration", "30s"),
        ("TIMEOUT", 1, 8, "suite-arguments", "TIMEOUT 30s"),
        ("METRIC", 1, 7, "suite-arguments", "METRIC NAME"),
        ("METRIC a=b", 1, 10, "suite-metric", "begins with /"),
        ("METRIC a:higher=~b (c)", 1, 16, "suite-metric", "write a:higher~b (c)"),
        ("METRIC a=/b~2", 1, 12, "suite-metric", "~0 stands for ~"),
        ("METRIC a~b", 1, 10, "suite-metric", "exactly one"),
        ("METRIC a~(b", 1, 10, "suite-metric", ""),
        ("METRIC a:upper", 1, 10, "suite-metric", "NAME:higher"),
        ("METRIC elapsed=/x", 1, 15, "suite-metric", "another name"),
        ("SYSTEM", 1, 7, "suite-arguments", "SYSTEM COMMAND"),
        ("STOP now", 1, 6, "suite-arguments", "STOP alone"),
        ("INCLUDE", 1, 8, "suite-arguments", "INCLUDE NAME"),
        ("INCLUDE a b", 1, 11, "suite-arguments", "INCLUDE NAME"),
        ("INCLUDE nope.inc", 1, 9, "suite-not-found", "looked for nope.inc"),
        ("FOREACH", 1, 8, "suite-arguments", "FOREACH NAME VALUE..."),
        ("FOREACH F\nDONE", 1, 10, "suite-arguments", "FOREACH NAME VALUE..."),
        ("FOREACH %F% a\nDONE", 1, 9, "suite-arguments", "FOREACH NAME VALUE..."),
        ("FOR I\nDONE", 1, 5, "suite-assignment", "FOR NAME=A TO B"),
        ("FOR I=1\nDONE", 1, 8, "suite-arguments", "FOR NAME=A TO B"),
        ("FOR I=1 UNTIL 2\nDONE", 1, 9, "suite-arguments", "FOR NAME=A TO B"),
        ("FOR I=1 TO x\nDONE", 1, 12, "suite-not-a-number", "FOR NAME=A TO B"),
        ("FOR I=1 TO 2 STEP 3\nDONE", 1, 14, "suite-arguments", "FOR NAME=A TO B"),
        ("FOR I=1 TO 2 ADD\nDONE", 1, 14, "suite-arguments", "FOR NAME=A TO B"),
        ("FOR I=1 TO 2 ADD 0\nDONE", 1, 18, "suite-endless", "never end"),
        ("FOR I=1 TO 2 FACTOR 1\nDONE", 1, 21, "suite-endless", "never end"),
        ("FOR I=1 TO 2 FACTOR -2\nDONE", 1, 21, "suite-endless", "never end"),
        ("FOR I=0 TO 2 FACTOR 2\nDONE", 1, 7, "suite-endless", "never end"),
        ("FOR I=-1 TO 2 FACTOR 2\nDONE", 1, 7, "suite-endless", "never end"),
        ("FOR I=8 TO 0 FACTOR 0.5\nDONE", 1, 12, "suite-endless", "never end"),
        ("IF\nFI", 1, 3, "suite-arguments", "NAME OP VALUE"),
        ("IF THREADS\nFI", 1, 11, "suite-condition", "NAME OP VALUE"),
        ("IF = 3\nFI", 1, 4, "suite-condition", "NAME OP VALUE"),
        ("IF THREADS == 3\nFI", 1, 12, "suite-condition", "single ="),
        ("IF THREADS < x\nFI", 1, 14, "suite-not-a-number", "compare texts"),
        ("WHILE a b = 3\nDONE", 1, 7, "suite-condition", "NAME OP VALUE"),
        ("ELSE", 1, 1, "suite-blocks", "no block is open"),
        ("FI", 1, 1, "suite-blocks", "no block is open"),
        ("DONE", 1, 1, "suite-blocks", "no block is open"),
        ("IF THREADS = 1\nDONE", 2, 1, "suite-blocks", "the IF opened at s.ap:1 expects FI"),
        ("IF THREADS = 1\nELSE\nELSE\nFI", 3, 1, "suite-blocks", "already has an ELSE"),
        ("IF THREADS = 1\nELSE IF THREADS = 2\nFI", 2, 6, "suite-unknown-directive", "ELSE-IF"),
        ("FOREACH A 1\nECHO", 1, 1, "suite-blocks", "expected DONE before the end"),
        ("EXEC x", 1, 1, "suite-outside-test", "TEST NAME COUNT"),
        ("TEST", 1, 5, "suite-arguments", "TEST NAME COUNT"),
        ("TEST t" + BODY, 1, 7, "suite-test-arguments", "TEST NAME COUNT"),
        ("TEST t x" + BODY, 1, 8, "suite-test-arguments", "TEST NAME BEGIN INCREMENT"),
        ("TEST t 0" + BODY, 1, 8, "suite-test-arguments", "TEST NAME BEGIN INCREMENT"),
        ("TEST t 3 x" + BODY, 1, 10, "suite-test-arguments", "TEST NAME BEGIN INCREMENT"),
        ("TEST a/b 3" + BODY, 1, 7, "suite-test-name", "names the test's files"),
        ("TEST t 3\nSETUP x\nDONE", 1, 1, "suite-no-exec", "add EXEC"),
        ("TEST a 1\nTEST b 1\nEXEC x\nDONE\nEXEC x\nDONE", 2, 1, "suite-nested-test", "s.ap:1"),
        ("TEST t 3 1 getstats --predicate 1+" + BODY, 1, 35, "expression-syntax", "expected"),
        ("TEST t 3 1 getstats --predicate" + BODY, 1, 32, "suite-test-arguments", "expression"),
        ("TEST t 3 1 getstats --predicate 'x" + BODY, 1, 33, "suite-quote", "ends with '"),
        ("TEST t 3 1 getstats \\\n --predicate \\\n  '1 + $maen'" + BODY, 3, 8, "expression-unknown-name", "$mean"),
        ("ECHO \\\n a \\\n  %NOPE%", 3, 3, "suite-unknown-variable", "-D NOPE=VALUE"),
    ],
)  # fmt: skip
def test_one_mistake(text: str, line: int, column: int, code: str, part: str) -> None:
    found = mistakes(text)
    here = [d for d in found if (d.code, d.line, d.column) == (code, line, column)]
    assert here, found
    only = here[0]
    assert part in only.hint
    assert only.text == text.split("\n")[line - 1]
    assert only.file == "s.ap"


def test_all_mistakes_of_all_files_in_reading_order() -> None:
    files = {"a.inc": "ECKO\nVAR\n", "b.inc": "THREADS=x"}
    found = mistakes("INCLUDE a.inc\nSTOP it\nINCLUDE b.inc\nFI\n", files)
    assert [(d.file, d.line) for d in found] == [
        ("s.ap", 2),
        ("s.ap", 4),
        ("a.inc", 1),
        ("a.inc", 2),
        ("b.inc", 1),
    ]


def test_a_block_left_open_does_not_hide_what_follows() -> None:
    found = mistakes("IF THREADS = 1\nFOREACH A 1\nFI\nSTOP it\nECHO %NOPE%")
    assert [(d.line, d.code) for d in found] == [
        (3, "suite-blocks"),
        (4, "suite-arguments"),
        (5, "suite-unknown-variable"),
    ]


def test_an_include_loop_names_its_chain() -> None:
    found = mistakes("INCLUDE a.inc", {"a.inc": "INCLUDE b.inc", "b.inc": "\nINCLUDE a.inc"})
    only = found[0]
    assert (only.code, only.file, only.line) == ("suite-include-loop", "b.inc", 2)
    assert only.hint == "a.inc -> b.inc -> a.inc"


def test_includes_that_double_have_a_limit() -> None:
    files: dict[str, str | Exception] = {
        f"{n}.inc": f"INCLUDE {n + 1}.inc\nINCLUDE {n + 1}.inc\n" for n in range(40)
    }
    files["40.inc"] = "ECHO\n"
    found = mistakes("INCLUDE 0.inc", files)
    assert {d.code for d in found} == {"suite-too-long"}


def test_blocks_too_deep() -> None:
    deep = "IF THREADS = 1\n" * 100 + "FI\n" * 100
    assert {d.code for d in mistakes(deep)} == {"suite-too-deep"}


@pytest.mark.parametrize(
    ("content", "code", "part"),
    [
        (PermissionError(13, "Permission denied"), "suite-unreadable", "Permission denied"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"), "suite-unreadable", "not UTF-8"),
        ("ECHO a\nEC\0HO", "suite-unreadable", "NUL"),
    ],
)
def test_files_that_cannot_be_used(content: str | Exception, code: str, part: str) -> None:
    included = mistakes("\nINCLUDE x.inc", {"x.inc": content})[0]
    assert included.code == code
    assert part in included.message
    assert included.line == 2
    main = mistakes("", {"s.ap": content})[0]
    assert (main.code, main.file) == (code, "s.ap")


def test_files_that_are_not_there_or_no_suites() -> None:
    assert mistakes("", name="other.ap", files={"other.ap": FileNotFoundError()})[0].code == (
        "suite-not-found"
    )
    assert mistakes("", name="suite.sh")[0].code == "suite-language"


def test_a_define_that_nothing_reads() -> None:
    found = mistakes("VAR NTHREADS=3\nECHO %NTHREADS%", defines={"NTHREAD": "1"})
    assert (found[0].code, found[0].file) == ("suite-unused-define", "-D")
    assert "NTHREADS" in found[0].hint


@pytest.mark.parametrize("text", ["größe", "größe:higher", "größe=/a", "B/op"])
def test_what_is_no_name_of_a_metric_is_shown_whole(text: str) -> None:
    spec, (fault,) = parse_metric(text)
    assert spec is None
    assert fault.message.startswith(repr(re.split("[:=]", text)[0]))
