"""The report page in a browser: offline, inert, the same numbers as JSON, readable for everyone."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchwright.page.charts import course
from benchwright.page.document import ReportDocument
from benchwright.page.files import gather_document
from benchwright.page.html import render_page
from benchwright.report.charts.trials import ShownTest, ShownTrial, metric_axis
from benchwright.report.documents import encode
from benchwright.study.catalogue import StudyPart
from benchwright.views.blocks import Section
from needs_perf import needs_perf

HOSTILE = "</script><img src=x onerror=\"document.title='run'\">'&"
"""For names that may contain any character; a test's name has no slash."""
HOSTILE_NAME = "<img src=x onerror=document.title='run'>"
KINDS = (
    *("run", "scan", "compare", "failed", "load", "ramp", "peak", "surface"),
    *("interrupted", pytest.param("profiled", marks=needs_perf)),
)
GENERATOR = f"{sys.executable} queue.py"
QUEUE = """\
import json, sys
load = float(sys.argv[1])
threads = float(sys.argv[2]) if len(sys.argv) > 2 else 3
left = 1 - load / (100 * threads)
print(json.dumps({"mean_ms": 10 / left if left > 0 else 900, "tps": 300 * load / (load + 9)}))
"""
SURFACE = f"""\
[load]
generator = "command"
command = "{GENERATOR} {{rate}} {{threads}}"
values = {{ response_ms_mean = "/mean_ms" }}
[factors]
threads = [1, 2, 4, 8]
[peak]
criteria = ["mean response < 40ms"]
claim = "rate:10%"
max_trials = 8
[surface]
samples = 3
degree = 1
"""
SHELL_BYTES = 90_000
# The digits of what is measured differ: 254 to 258 kB were seen.
TYPICAL_BYTES = 265_000
"""Without what depends on the machine and on what else it does: findings, limits, facts."""
LONG_BYTES = 1_500_000


def bw(directory: Path, *words: str) -> str:
    """Run bw and return its standard output."""
    done = subprocess.run(
        [sys.executable, "-m", "benchwright.cli.main", *words],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1, 3, 130), done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a small study of each kind, each with its page `KIND.html`."""
    here = tmp_path_factory.mktemp("studies")
    (here / "queue.py").write_text(QUEUE)
    (here / "surface.toml").write_text(SURFACE)
    script = f'echo "{HOSTILE_NAME}" >&2; exit 3'
    stop = "test $APEPOCH != 3 || { kill -INT $(cat $BW_STUDY/lock); sleep 9; }"
    spin = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done"
    search = ("--hold", "1s", "--highest", "8")
    words = {
        "run": ("run", "--runs", "12", "--", "true"),
        "scan": (
            *("run", "--runs", "4", "-P", f"x=1,2,{HOSTILE}", "--name", HOSTILE_NAME),
            *("--metric", "m~([0-9])", "--", "echo", "{x} 7"),
        ),
        "compare": ("compare", "--max-blocks", "10", "--", "true", "sleep 0.003"),
        "failed": ("run", "--name", HOSTILE_NAME, "--", "sh", "-c", script),
        "interrupted": ("run", "--runs", "9", "--", "sh", "-c", stop),
        "profiled": ("run", "--profile", "--runs", "3", "--", "sh", "-c", spin),
        "load": ("load", "--rate", "1k", "--duration", "2s", "--target", "null"),
        "ramp": (
            *("ramp", "--command", f"{GENERATOR} {{users}}", *search),
            *("--throughput", "/tps", "--response", "/mean_ms"),
        ),
        "peak": (
            *("peak", "--command", f"{GENERATOR} {{rate}}", "--response", "/mean_ms"),
            *("--limit", "40ms", "--max-trials", "6", "--run-length", "1s"),
        ),
        "surface": ("surface", "surface.toml"),
    }
    for kind, (command, *rest) in words.items():
        if kind == "profiled" and needs_perf.args[0]:
            continue
        bw(here, command, "--study", kind, "--quiet", *rest)
        bw(here, "report", kind, "-o", f"{kind}.html")
    return here


def numbers_of(value: Any) -> dict[str, float | None]:
    """Return the numbers of a document by their keys, with the ends of intervals."""
    found: dict[str, float | None] = {}
    if isinstance(value, list):
        for one in value:
            found |= numbers_of(one)
    elif isinstance(value, dict):
        if "key" in value and "text" in value:
            found[value["key"]] = value["value"]
            if "low_text" in value:
                found[f"{value['key']}.low"] = value.get("low")
                found[f"{value['key']}.high"] = value.get("high")
        else:
            for one in value.values():
                found |= numbers_of(one)
    return found


def shown_numbers(page: Any) -> dict[str, float | None]:
    """Return the value of each `data` element that has a text, by its key."""
    pairs = page.eval_on_selector_all(
        "data[data-key]",
        "all => all.filter(one => one.textContent.trim())"
        ".map(one => [one.dataset.key, one.getAttribute('value')])",
    )
    return {key: float(value) if value else None for key, value in pairs}


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
@pytest.mark.parametrize("kind", KINDS)
def test_all_numbers_of_the_document_are_on_the_page(
    visit, studies: Path, kind: str, scripts: bool
) -> None:
    seen = visit(scripts=scripts)
    # Without scripts, Playwright evaluates nothing in the page: its text is read by another one.
    page = seen.open(studies / f"{kind}.html")
    if not scripts:
        text = page.content()
        reader = visit()
        reader.page.set_content(re.sub(r"<script(?! type).*?</script>", "", text, flags=re.DOTALL))
        page = reader.page
    document = json.loads(bw(studies, "report", "--json", kind))
    numbers = numbers_of(document)
    assert len(numbers) > 20 or kind == "failed"
    assert shown_numbers(page) == numbers


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_makes_one_request_and_reports_no_error(visit, studies: Path, kind: str) -> None:
    seen = visit()
    page = seen.open(studies / f"{kind}.html")
    page.keyboard.press("End")
    page.wait_for_timeout(100)
    assert seen.errors == []
    assert len(seen.requests) == 1


@pytest.mark.parametrize("kind", ["scan", "failed"])
def test_hostile_names_are_text(visit, studies: Path, kind: str) -> None:
    page = visit().open(studies / f"{kind}.html")
    assert page.title() == kind
    assert page.locator("img").count() == 0
    text = page.locator("main").text_content() or ""
    assert "<img src=x" in text
    if kind == "scan":
        assert HOSTILE in text


@pytest.mark.parametrize("kind", KINDS)
def test_the_policy_permits_only_the_page_itself(studies: Path, kind: str) -> None:
    text = (studies / f"{kind}.html").read_text()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    policy = policy.replace("&#39;", "'")
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["connect-src"] == rules["base-uri"] == "'none'"
    for element, rule in (("style", "style-src"), ("script", "script-src")):
        (content,) = re.findall(f"<{element}>(.*?)</{element}>", text, re.DOTALL)
        digest = hashlib.sha256(content.encode()).digest()
        assert rules[rule] == f"'sha256-{base64.b64encode(digest).decode()}'"


@pytest.mark.parametrize("kind", KINDS)
def test_no_element_has_a_handler_or_a_style_of_its_own(visit, studies: Path, kind: str) -> None:
    page = visit().open(studies / f"{kind}.html")
    names = page.evaluate(
        "[...new Set([...document.querySelectorAll('*')].flatMap("
        "one => [...one.attributes].map(two => two.name)))]"
    )
    assert "data-key" in names
    assert [name for name in names if name == "style" or name.startswith("on")] == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_serious_keeps_a_reader_out(visit, studies: Path, kind: str, dark: bool) -> None:
    seen = visit(dark=dark)
    seen.open(studies / f"{kind}.html")
    seen.page.eval_on_selector_all("details", "all => all.forEach(one => one.open = true)")
    assert seen.serious_violations() == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_telephone_does_not_scroll_sideways(visit, studies: Path, kind: str) -> None:
    seen = visit(width=360, height=740)
    seen.open(studies / f"{kind}.html")
    assert seen.sideways() == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_is_in_the_first_screen(visit, studies: Path, kind: str) -> None:
    for width, height in ((1280, 800), (360, 740)):
        page = visit(width=width, height=height).open(studies / f"{kind}.html")
        box = page.locator(".verdict p").first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < height


@pytest.mark.parametrize("kind", KINDS)
def test_two_renderings_are_the_same_bytes(studies: Path, kind: str) -> None:
    bw(studies, "report", kind, "-o", "again.html")
    assert (studies / "again.html").read_bytes() == (studies / f"{kind}.html").read_bytes()


def test_the_page_of_an_interrupted_study_says_so(visit, studies: Path) -> None:
    page = visit().open(studies / "interrupted.html")
    assert page.locator(".eyebrow .mark").text_content() == "interrupted"
    assert "nterrupted" in (page.locator(".verdict").text_content() or "")


def test_links_lead_to_the_trials(visit, studies: Path) -> None:
    page = visit().open(studies / "scan.html")
    link = page.locator("#p1-answers data a").first
    trials = (link.get_attribute("href") or "")[1:]
    link.click()
    assert page.locator(f'[id="{trials}"]').evaluate("one => one.open")


def test_the_theme_can_be_chosen(visit, studies: Path) -> None:
    page = visit().open(studies / "run.html")
    colors = (
        "['--paper', '--series-1'].map(name =>"
        " getComputedStyle(document.documentElement).getPropertyValue(name))"
    )
    light = page.evaluate(colors)
    page.locator("#theme").click()
    dark = page.evaluate(colors)
    assert all(one != other for one, other in zip(light, dark, strict=True))
    page.emulate_media(color_scheme="dark")
    page.locator("#theme").click()
    assert page.evaluate(colors) == light


def test_paper_is_light(visit, studies: Path) -> None:
    page = visit(dark=True).open(studies / "run.html")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_paper_has_every_section(visit, studies: Path, tmp_path: Path) -> None:
    page = visit().open(studies / "compare.html")
    page.emulate_media(media="print")
    headings = page.locator("h2").all_text_contents()
    assert {"Comparison", "Tests", "Why", "Environment", "Data"} <= set(headings)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    for heading in page.locator("h2").all():
        assert heading.is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() > 0
    printed = page.pdf(path=tmp_path / "report.pdf", print_background=True)
    assert printed.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) >= 3


def long_document(count: int, one: ReportDocument) -> ReportDocument:
    """Return a document with the course of this many trials in place of its sections."""
    trials = tuple(
        ShownTrial(at, 0.01 + (at * 7919 % 10007) / 1e6 + 0.1 * (at == count // 2))
        for at in range(1, count + 1)
    )
    picture = course("p1-long", ShownTest("t", trials), metric_axis("elapsed", "s"))
    section = Section(id="p1-tests", title="Test", blocks=(picture,))
    (part,) = one.parts
    part = msgspec.structs.replace(part, sections=(section,))
    return msgspec.structs.replace(one, parts=(part,))


def test_a_long_series_has_zoom_and_cursor(visit, studies: Path, tmp_path: Path) -> None:
    document = long_document(100_000, gather_document([StudyPart(studies / "run")]))
    text = render_page(document)
    assert len(text.encode()) <= LONG_BYTES
    (tmp_path / "long.html").write_text(text)
    seen = visit()
    page = seen.open(tmp_path / "long.html")
    chart = page.locator(".uplot .u-over")
    chart.scroll_into_view_if_needed()
    chart.wait_for()
    place = page.locator("[data-series]")
    assert place.get_attribute("data-to") == "100000"
    box = chart.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 4, middle)
    values = page.locator(".u-legend .u-value").all_text_contents()
    assert float(values[0].replace(",", "")) == pytest.approx(25_000, rel=0.05)
    assert float(values[1]) > 0
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, middle, steps=5)
    page.mouse.up()
    low, high = (int(place.get_attribute(name) or "") for name in ("data-from", "data-to"))
    assert low == pytest.approx(25_000, rel=0.05)
    assert high == pytest.approx(50_000, rel=0.05)
    page.mouse.dblclick(box["x"] + 20, middle)
    assert place.get_attribute("data-from") == "0"
    assert place.get_attribute("data-to") == "100000"
    assert seen.errors == []
    assert len(seen.requests) == 1


def test_a_page_is_small(tmp_path: Path, studies: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Budgets: the shell with uPlot; 20 tests with 30 trials. A long series has its own test."""
    one = gather_document([StudyPart(studies / "run")])
    empty = msgspec.structs.replace(long_document(501, one))
    whole = render_page(empty)
    shell = sum(
        len(content.encode())
        for element in ("style", "script")
        for content in re.findall(f"<{element}>(.*?)</{element}>", whole, re.DOTALL)
    )
    levels = ",".join(map(str, range(1, 21)))
    bw(tmp_path, "run", "--quiet", "--runs", "30", "-P", f"n={levels}", "--", "echo", "{n}")
    document = gather_document([StudyPart(tmp_path / "bw-study")])
    (part,) = document.parts
    sections = tuple(
        section
        for section in part.sections
        if section.id.removeprefix("p1-") in ("results", "tests", "data")
    )
    assert len(sections) == 3
    part = msgspec.structs.replace(part, findings=(), sections=sections)
    page = render_page(msgspec.structs.replace(document, parts=(part,)))
    typical = len(page.encode())
    with capsys.disabled():
        print(f"\nreport page: shell {shell:,} B, 20 tests of 30 trials {typical:,} B")
    assert "uPlot" in whole
    assert shell <= SHELL_BYTES
    assert typical <= TYPICAL_BYTES


def test_the_time_until_a_page_is_readable_is_printed(
    visit, studies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wall-clock time is no criterion: the page's own clock is only printed."""
    page = visit().open(studies / "scan.html")
    readable = page.evaluate(
        "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
    )
    painted = page.evaluate(
        "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"
    )
    with capsys.disabled():
        print(f"\nreport page: content {readable:.0f} ms, first paint {painted:.0f} ms")
    assert readable > 0


def test_the_document_is_what_the_command_prints(studies: Path) -> None:
    document = gather_document([StudyPart(studies / "run")])
    printed = bw(studies, "report", "--json", str(studies / "run"))
    assert json.loads(printed) == json.loads(encode(document))


def test_the_numbers_are_those_of_the_other_reports(studies: Path) -> None:
    """`bw stats` and the page summarize a test alike."""
    stats = json.loads(bw(studies, "stats", "--json", "scan"))
    numbers = numbers_of(json.loads(bw(studies, "report", "--json", "scan")))
    compared = 0
    for place, one in enumerate(stats["inputs"], 1):
        for quantity in one["quantities"]:
            key = f"p1.t{place}.{quantity['name']}"
            if f"{key}.mean" in numbers:
                assert numbers[f"{key}.mean"] == quantity["mean"]
                assert numbers[f"{key}.median"] == quantity["median"]
                assert numbers[f"{key}.max"] == quantity["max"]
                compared += 1
    assert compared >= 6
