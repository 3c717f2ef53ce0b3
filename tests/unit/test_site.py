"""The documentation site: it is whole, requests nothing, and its reference is that of the code."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

from benchwright.cli.schemas import document_types, json_schema

ROOT = Path(__file__).parents[2]
SPEC = util.spec_from_file_location("site_pages", ROOT / "scripts" / "site_pages.py")
assert SPEC is not None
assert SPEC.loader is not None
site_pages = util.module_from_spec(SPEC)
SPEC.loader.exec_module(site_pages)

REQUEST = re.compile(
    r"<(?:script|img|iframe)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\s>]+"
    r"|<link\b[^>]*\bhref=[\"']?(?:https?:)?//[^\s>]+"
    r"|url\([\"']?(?:https?:)?//[^)]+",
    re.IGNORECASE,
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the site as `make site` builds it: a broken link, or a page in no list, is an error."""
    directory = tmp_path_factory.mktemp("site")
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir")
    done = subprocess.run([*command, str(directory)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return directory


def test_no_page_requests_anything_from_another_host(site: Path) -> None:
    pages = [file for file in site.rglob("*") if file.suffix in (".html", ".css")]
    assert len(pages) >= 80
    asked = {
        (str(page.relative_to(site)), found)
        for page in pages
        for found in REQUEST.findall(page.read_text())
    }
    assert asked == set()


def test_a_backslash_of_a_page_is_in_the_site(site: Path) -> None:
    page = html.unescape((site / "running.html").read_text())
    assert "Ctrl-\\" in page


def test_the_search_has_the_text_of_the_pages(site: Path) -> None:
    """A page opened from a file cannot read search_index.json: the index is a script too."""
    index = (site / "search" / "search_index.js").read_text()
    for phrase in ("Coordinated omission", "--fail-if", "noisy-neighbour"):
        assert phrase in index


def test_every_option_of_a_command_is_on_its_page(site: Path) -> None:
    assert "run" in site_pages.commands()
    assert "trace stat" in site_pages.commands()
    for words, parser in site_pages.commands().items():
        page = site / "reference" / f"{site_pages.slug(words)}.html"
        text = html.unescape(re.sub(r"<[^>]+>", "", page.read_text()))
        flags = {flag for action in parser._actions for flag in action.option_strings}
        assert {flag for flag in flags if flag not in text} == set(), words


def test_every_member_of_a_document_is_on_its_page(site: Path) -> None:
    for kind, document in document_types().items():
        text = (site / "documents" / f"{kind}.html").read_text()
        parts = json_schema(document)["$defs"].values()
        members = {name for part in parts for name in part.get("properties", ())}
        assert {one for one in members if f"<code>{one}</code>" not in text} == set()


def test_the_meaning_of_a_member_is_its_docstring() -> None:
    page = site_pages.document_page("peak")
    assert "| `binding` | string or null | The key of the binding criterion. |" in page
