"""What a notice says, and which event an end is."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from benchwright.core.notice import Notice, NoticeEvent, NoticeFinding, NoticeResult, NoticeSettings
from benchwright.notice.text import MOST_LINES, body, document, subject, variables
from benchwright.run.findings import NoticeContents, SessionEnd, event_of, notice_of, subject_of
from benchwright.run.session import SessionVerdict
from benchwright.study.journal import SessionInfo

NOTICE = Notice(
    event=NoticeEvent.UNDECIDED,
    study="/s",
    session=2,
    host="vm",
    suite="a.toml",
    status="undecided",
    exit_status=3,
    reason="no answer for it",
    tests=("it", "and it"),
    results=(
        NoticeResult("it", "elapsed", "s", 30, 0.51, 0.02, 0.95),
        NoticeResult("it", "ops", "", 1, 7.0, None, 0.95),
        NoticeResult("it", "gone", "B", 0, None, None, 0.95),
    ),
    findings=(
        NoticeFinding("drift", "warning", "it elapsed"),
        NoticeFinding("drift", "note", "it"),
    ),
    at_ns=1_795_303_460_609_507_493,
)


def test_a_body_says_what_why_which_and_where() -> None:
    assert body(NOTICE) == (
        "bw: a.toml ended undecided on vm.\n\n"
        "no answer for it\ntests: it, and it\n\n"
        "findings:\n  drift (warning): it elapsed\n  drift (note): it\n\n"
        "it elapsed: 0.51 +- 0.02 s (n 30)\nit ops: 7 (n 1)\nit gone: absent B (n 0)\n\n"
        "study: /s on vm, session 2\nstatus: undecided, exit status 3\n"
        "at: 2026-11-21T23:24:20Z, bw \n"
    )


def test_a_summary_stands_for_the_figures_and_is_cut() -> None:
    lines = "\n".join(str(n) for n in range(MOST_LINES + 5))
    text = body(msgspec.structs.replace(NOTICE, summary=lines))
    assert "+-" not in text
    assert f"\n{MOST_LINES - 1}\n... 5 more lines: bw stats /s\n" in text


def test_what_is_cut_of_a_load_that_is_kept_nowhere_is_nowhere_to_be_read() -> None:
    lines = "x\n" * (MOST_LINES + 5)
    text = body(msgspec.structs.replace(NOTICE, study="", summary=lines))
    assert "\n... 5 more lines\n" in text
    assert "bw stats" not in text


def test_one_line_more_is_not_several() -> None:
    text = body(msgspec.structs.replace(NOTICE, summary="x\n" * (MOST_LINES + 1)))
    assert "\n... 1 more line: bw stats /s\n" in text


def test_a_subject_is_one_line() -> None:
    odd = msgspec.structs.replace(NOTICE, suite="a\r\nBcc: x@y\x1b[m" + "z" * 500)
    assert subject(odd).isprintable()
    assert len(subject(odd)) == 200


def test_the_document_is_told_by_its_schema_and_reads_back() -> None:
    fields = json.loads(document(NOTICE))
    assert next(iter(fields)) == "schema"
    assert fields["at"] == "2026-11-21T23:24:20Z"
    assert fields["results"][2]["mean"] is None
    assert msgspec.json.decode(document(NOTICE), type=Notice) == NOTICE


def test_a_command_finds_codes_once_and_tests_one_a_line() -> None:
    found = variables(NOTICE)
    assert found["BW_NOTICE_FINDINGS"] == "drift"
    assert found["BW_NOTICE_TESTS"] == "it\nand it"
    assert found["BW_NOTICE_EXIT_STATUS"] == "3"


@pytest.mark.parametrize(
    ("status", "exit_status", "broken", "event"),
    [
        ("complete", 0, False, NoticeEvent.DONE),
        ("complete", 1, False, NoticeEvent.FAILURE),
        ("failed", 1, False, NoticeEvent.FAIL_FAST),
        ("failed", 1, True, NoticeEvent.FAILURE),
        ("failed", 2, True, NoticeEvent.FAILURE),
        ("undecided", 3, False, NoticeEvent.UNDECIDED),
        ("stopped", 0, False, NoticeEvent.DONE),
        ("interrupted", 130, False, NoticeEvent.INTERRUPTED),
    ],
)
def test_each_end_is_one_event(
    status: str, exit_status: int, broken: bool, event: NoticeEvent
) -> None:
    verdict = SessionVerdict(status, "", exit_status)
    assert event_of(SessionEnd(Path("s"), 1, verdict, broken=broken)) is event


@pytest.mark.parametrize(
    ("kind", "sources", "named"),
    [
        ("run", (("s.toml", ""),), "s.toml"),
        ("peak", (("<request>", "{}"), ("web.toml", "")), "web.toml"),
        ("ramp", (("<request>", "{}"),), "<ramp>"),
    ],
)
def test_a_notice_is_named_after_what_was_run(
    kind: str, sources: tuple[tuple[str, str], ...], named: str
) -> None:
    main = sources[0][0]
    info = SessionInfo(0, "", "", "/", (), (), main, sources, {}, kind)
    assert subject_of(info) == named


def test_a_load_that_is_kept_in_no_study_says_so() -> None:
    contents = NoticeContents(summary="10/s")
    end = SessionEnd(None, 0, SessionVerdict("complete", "", 0), contents)
    notice = notice_of("<load>", end)
    assert notice.study == ""
    told = body(notice)
    assert "\n10/s\n\nnot stored in a study; ran on " in told
    assert "session" not in told


def test_failure_stands_for_fail_fast_and_nothing_else() -> None:
    notify = NoticeSettings((), (NoticeEvent.FAILURE,))
    assert [e for e in NoticeEvent if notify.wants(e)] == [
        NoticeEvent.FAIL_FAST,
        NoticeEvent.FAILURE,
    ]
