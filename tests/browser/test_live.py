"""The live view: a page that follows a session, whoever looks and whenever they come."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page

from bw_command import bw, bw_words
from visits import Visit

HOLD = "hold"
"""While this file exists, a trial does not end."""
WORK = (
    f"read n < count; echo $((n + 1)) > count; [ $n != $HOLD_AT ] || : > {HOLD};"
    f" while [ -e {HOLD} ]; do sleep 0.02; done"
)
"""A trial; the trial with the number HOLD_AT makes the file, whatever the machine's speed."""
MARKUP = "</script><img src=x onerror=alert(1)><b>"
"""A word of every command here."""
DEADLINE_S = 120


class LiveRun:
    """A `bw` with a live view, whose trials the test holds and releases."""

    def __init__(self, runs: list[LiveRun], place: Path, *words: str) -> None:
        self.place = place
        self._log = place / f"{words[0]}.log"
        self.hold = place / HOLD
        with self._log.open("w") as log:
            self.process = subprocess.Popen(bw_words(*words), cwd=place, stdout=log, stderr=log)
        runs.append(self)
        self.url = wait_for(self._printed_url, "the address")

    def _printed_url(self) -> str | None:
        found = re.search(r"http://127\.0\.0\.1:\d+/\S+/", self._log.read_text())
        return found[0] if found else None

    def release(self) -> None:
        self.hold.unlink()

    def ended(self) -> int:
        return self.process.wait(DEADLINE_S)


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[list[LiveRun]]:
    """The runs of a test; what is left of them is ended by its process id."""
    started: list[LiveRun] = []
    yield started
    for run in started:
        run.hold.unlink(missing_ok=True)
        with contextlib.suppress(ProcessLookupError):
            run.process.kill()
        run.process.wait()


def wait_for(what, described: str):
    """Return the first true value of `what`; the deadline is for what never comes."""
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        if found := what():
            return found
        time.sleep(0.05)
    pytest.fail(f"{described} did not come")


def held(
    place: Path, runs: list[LiveRun], *, trials: int = 12, name: str = "work", hold_at: int = 5
) -> LiveRun:
    """Start a run whose first trial waits, and a later one after the first release."""
    (place / HOLD).touch()
    (place / "count").write_text("1\n")
    work = f"HOLD_AT={hold_at}; {WORK}"
    words = ("--min-runs", str(trials), "--max-runs", str(trials), "--name", name)
    command = ("sh", "-c", work, MARKUP)
    return LiveRun(runs, place, "run", "--live", "--study", "study", *words, "--", *command)


def state(page: Page) -> str | None:
    return page.get_attribute("#live-state", "data-state")


def wait_for_state(page: Page, wanted: str) -> None:
    page.wait_for_selector(f"#live-state[data-state={wanted}]", timeout=DEADLINE_S * 1000)


def row_of(page: Page) -> int:
    return int(page.get_attribute("body", "data-last-event") or 0)


def wait_for_row_after(page: Page, row: int) -> None:
    until = time.monotonic() + DEADLINE_S
    while row_of(page) <= row:
        assert time.monotonic() < until, f"no event after row {row}"
        page.wait_for_timeout(50)


def wait_for_all_rows(page: Page, study: Path) -> None:
    """Wait until the page shows every row of the journal, so that nothing changes while a trial
    waits."""
    journal = sqlite3.connect(f"file:{study}/journal.sqlite?mode=ro", uri=True)
    with contextlib.closing(journal):
        ((last,),) = journal.execute("SELECT max(seq) FROM entry")
    wait_for_row_after(page, last - 1)


def sections(page: Page) -> dict[str, str]:
    """Return the HTML of each section of a page."""
    return page.evaluate(
        "() => Object.fromEntries([...document.querySelectorAll('main section[id]')]"
        ".map(one => [one.id, one.outerHTML]))"
    )


def answers(run: LiveRun, path: str, **headers: str) -> int:
    return status_of(run, "GET", path, headers)


def status_of(run: LiveRun, method: str, path: str, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection(urlsplit(run.url).netloc, timeout=30)
    with contextlib.closing(connection):
        connection.request(method, path, headers=headers)
        return connection.getresponse().status


def is_gone(run: LiveRun) -> bool:
    try:
        answers(run, "/")
    except ConnectionError:
        return True
    return False


def open_live(visit, run: LiveRun) -> tuple[Visit, Page]:
    seen = visit(offline=False)
    return seen, seen.open(run.url)


def test_pages_joined_at_start_middle_and_end_show_the_report(
    visit, runs: list[LiveRun], tmp_path: Path
) -> None:
    run = held(tmp_path, runs)
    first, at_start = open_live(visit, run)
    wait_for_state(at_start, "running")
    begun = row_of(at_start)
    run.release()
    wait_for_row_after(at_start, begun)
    wait_for(run.hold.exists, "the trial that waits again")
    second, in_middle = open_live(visit, run)
    wait_for_state(in_middle, "running")
    run.release()
    for page in (at_start, in_middle):
        wait_for_state(page, "ended")
    assert run.ended() == 0
    assert is_gone(run), "the server ends with the session"

    viewer = LiveRun(runs, tmp_path, "live", "study")
    third, at_end = open_live(visit, viewer)
    wait_for_state(at_end, "ended")
    report = tmp_path / "report.html"
    assert bw(tmp_path, "report", "study", "-o", str(report)).returncode == 0
    stored = sections(visit().open(report))
    assert len(stored) >= 4
    assert sections(at_start) == sections(in_middle) == sections(at_end) == stored
    for seen in (first, second, third):
        assert seen.errors == []
        assert len({urlsplit(url).netloc for url in seen.requests}) == 1
        assert sum(urlsplit(url).path.endswith("/") for url in seen.requests) == 1
    viewer.process.send_signal(signal.SIGINT)
    assert viewer.ended() == 0


def test_the_stream_goes_on_after_a_kill_and_a_resume(
    visit, runs: list[LiveRun], tmp_path: Path
) -> None:
    run = held(tmp_path, runs)
    seen, page = open_live(visit, run)
    wait_for_state(page, "running")
    begun = row_of(page)
    run.release()
    wait_for_row_after(page, begun)
    wait_for(run.hold.exists, "the trial that waits again")
    os.kill(run.process.pid, signal.SIGKILL)
    wait_for_state(page, "interrupted")
    assert "bw resume" in page.inner_text("#live-state")
    page.evaluate("() => { window.isTheSamePage = true; }")
    run.release()
    resumed = bw(tmp_path, "resume", "study", "--live")
    assert resumed.returncode == 0, resumed.stderr
    assert run.url in resumed.stderr, "its address is that of the page that is open"
    wait_for_state(page, "ended")
    assert page.evaluate("() => window.isTheSamePage")
    assert seen.errors == []
    report = tmp_path / "report.html"
    assert bw(tmp_path, "report", "study", "-o", str(report)).returncode == 0
    assert sections(page) == sections(visit().open(report))
    wait_for(lambda: is_gone(run), "the end of the server")


def test_the_viewer_of_a_killed_session_ends_when_nobody_looks(
    runs: list[LiveRun], tmp_path: Path
) -> None:
    run = held(tmp_path, runs)
    os.kill(run.process.pid, signal.SIGKILL)
    wait_for(lambda: is_gone(run), "the end of the server")


def test_hostile_names_are_text(visit, runs: list[LiveRun], tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(2)><b>"
    run = held(tmp_path, runs, name=name, trials=4)
    seen, page = open_live(visit, run)
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    run.release()
    wait_for_state(page, "ended")
    shown = page.inner_text("main")
    assert name in shown
    assert MARKUP in shown
    assert page.locator("main img").count() == 0
    assert (dialogs, seen.errors) == ([], [])


def test_who_is_refused(runs: list[LiveRun], tmp_path: Path) -> None:
    run = held(tmp_path, runs, trials=2)
    address = urlsplit(run.url)
    assert answers(run, "/") == 404
    assert answers(run, f"/{'x' * 32}/") == 404
    assert answers(run, f"/{'x' * 32}/events") == 404
    assert answers(run, f"{address.path}nothing") == 404
    rebound = f"example.com:{address.port}"
    assert answers(run, address.path, Host=rebound) == 403
    assert answers(run, f"{address.path}events", Host=rebound) == 403
    assert answers(run, address.path, Origin="http://example.com") == 403
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD"):
        assert status_of(run, method, address.path, {}) == 405
    listening = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    bound = re.findall(rf" ([0-9A-F]+):{address.port:04X} 0+:0000 0A", listening)
    assert bound == ["0100007F"], "it listens on 127.0.0.1 only"


def test_a_page_keeps_what_a_reader_opened(visit, runs: list[LiveRun], tmp_path: Path) -> None:
    run = held(tmp_path, runs)
    _, page = open_live(visit, run)
    run.release()
    page.wait_for_selector("main details", state="attached", timeout=DEADLINE_S * 1000)
    wait_for(run.hold.exists, "the trial that waits again")
    name = page.evaluate(
        "() => { const one = document.querySelector('main details[id]');"
        " one.open = true; return one.id; }"
    )
    page.evaluate("() => window.scrollTo(0, 400)")
    run.release()
    wait_for_state(page, "ended")
    assert page.evaluate("name => document.getElementById(name).open", name)
    assert page.evaluate("() => window.scrollY") > 0
    assert run.ended() == 0


def test_a_page_keeps_its_zoom(visit, runs: list[LiveRun], tmp_path: Path) -> None:
    run = held(tmp_path, runs, trials=2200, hold_at=2000)
    run.release()
    wait_for(run.hold.exists, "the trial that waits again")
    seen, page = open_live(visit, run)
    wait_for_all_rows(page, tmp_path / "study")
    series = page.locator("[data-series]").first
    # The last rows may draw it anew meanwhile.
    page.evaluate("() => document.querySelector('[data-series]').scrollIntoView()")
    chart = series.locator(".u-over")
    chart.wait_for(timeout=DEADLINE_S * 1000)
    box = chart.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.3 * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], middle, steps=5)
    page.mouse.up()
    shown = (
        "() => { const one = document.querySelector('[data-zoomed]');"
        " return one && [one.dataset.from, one.dataset.to]; }"
    )
    zoomed = page.evaluate(shown)
    assert zoomed is not None
    run.release()
    wait_for_state(page, "ended")
    assert page.evaluate(shown) == zoomed
    assert seen.errors == []


def test_a_lost_server_is_shown(visit, runs: list[LiveRun], tmp_path: Path) -> None:
    done = bw(tmp_path, "run", "--study", "study", "--runs", "3", "--", "true")
    assert done.returncode == 0, done.stderr
    viewer = LiveRun(runs, tmp_path, "live", "study")
    _, page = open_live(visit, viewer)
    wait_for_state(page, "ended")
    viewer.process.kill()
    wait_for_state(page, "lost")
    assert len(sections(page)) >= 4


def test_short_trials_get_few_events(runs: list[LiveRun], tmp_path: Path) -> None:
    """At most one event a second, and the last one."""
    words = ("--min-runs", "600", "--max-runs", "600", "--study", "study", "--quiet")
    begun = time.monotonic()
    run = LiveRun(runs, tmp_path, "run", "--live", *words, "--", "sleep", "0.005")
    connection = http.client.HTTPConnection(urlsplit(run.url).netloc, timeout=DEADLINE_S)
    with contextlib.closing(connection):
        connection.request("GET", urlsplit(run.url).path + "events")
        text = connection.getresponse().read().decode()
    assert run.ended() == 0
    events = [block for block in text.split("\n\n") if block.startswith("id:")]
    assert '"state":"ended"' in events[-1]
    assert 2 <= len(events) <= time.monotonic() - begun + 2
