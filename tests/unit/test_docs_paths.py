"""Every link of the documentation, and every file of the repository that it names, exists."""

from __future__ import annotations

import re
from functools import cache
from importlib import util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    {
        *(ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "GLOSSARY")),
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "crates" / "README.md",
        *(ROOT / "python" / "benchwright" / "features").rglob("*.md"),
    }
)
PACKAGE = ROOT / "python" / "benchwright"
ROOMS = "|".join(
    # A study has a folder `results` too.
    sorted(one.name for one in PACKAGE.iterdir() if one.is_dir() and one.name != "results")
)
TOP = "docs|tests|crates|examples|scripts|benches|packaging|python"
PATH = re.compile(rf"(?<![\w/.~$-])(?!\w+/\d)(?:{TOP}|{ROOMS})/[\w./*{{}},@-]*[\w*}}/]")
"""A path from the root, or from the package, as pages abbreviate them."""
SPEC = util.spec_from_file_location("site_pages", ROOT / "scripts" / "site_pages.py")
assert SPEC is not None
assert SPEC.loader is not None
site_pages = util.module_from_spec(SPEC)
SPEC.loader.exec_module(site_pages)
MADE = {ROOT / "docs" / path for path, _text in site_pages.pages()}
"""Pages that exist on the site only."""
FILE = re.compile(r"(?<![\w/*])(test_[\w*]+\.py|\w+\.rs)\b")
"""A file of the tests or of a crate by its name alone."""


@cache
def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_paths_exist(page: Path) -> None:
    text = page.read_text()
    missing = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        if "://" in link:
            continue
        if target in MADE:
            continue
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            missing.append(link)
    for named in PATH.findall(text):
        missing.extend(one for one in spelled_out(named) if not is_there(one))
    for name in FILE.findall(text):
        if not any(any((ROOT / top).rglob(name)) for top in ("tests", "crates")):
            missing.append(name)
    assert sorted(set(missing)) == []


@pytest.mark.parametrize(
    "page", sorted((PACKAGE / "features").rglob("*.md")), ids=lambda page: page.parent.name
)
def test_modules_that_a_feature_names_exist(page: Path) -> None:
    text = page.read_text()
    named = re.findall(r"`([\w/]+\.py)`", text)
    missing = [one for one in named if not any(page.parent.rglob(one)) and not is_there(one)]
    assert missing == []
    assert len(text.splitlines()) <= 60


def spelled_out(named: str) -> list[str]:
    """Return the paths that a path with one pair of braces means."""
    braces = re.search(r"\{([^{}]*,[^{}]*)\}", named)
    if braces is None:
        return [named]
    return [named.replace(braces[0], one) for one in braces[1].split(",")]


def is_there(named: str) -> bool:
    """Return whether a path, from the root or the package, matches a file or a folder."""
    return any(any(base.glob(named.rstrip("/"))) for base in (ROOT, PACKAGE))
