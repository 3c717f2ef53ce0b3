"""A page as a browser shows it, and what the browser reported about it.

The browser is Debian's chromium-headless-shell, driven by Playwright; Playwright's own browsers are
downloads that a test must not make. Without the browser, or without the libraries of the page, a
test of the page fails: a skipped test would look like one that passed.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, Playwright

ROOT = Path(__file__).parents[2]
CHROMIUM = "/usr/bin/chromium-headless-shell"
FLAGS = (
    "--no-sandbox",  # the tests run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    # Each of these would look up hosts of the vendor at every start.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
TELEPHONES = (320, 360, 375, 380, 400)
STRETCHED = (
    ("as it is", "", ""),
    ("numbers", "\u2212123\u202f456\u202f789\u202f012.345\u202f678\u00a0GiB/s", "data"),
    ("paths", "/srv/data/" + "abcdefghij_" * 8, "*"),
    ("words", "W" * 60, "*"),
)
"""Texts in place of those of elements, and of which."""
_STRETCH = """([text, selector]) => {
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const nodes = [];
    while (walk.nextNode()) nodes.push(walk.currentNode);
    for (const node of nodes)
        if (node.textContent.trim() && node.parentElement.closest(selector)
            && !node.parentElement.closest("svg, script, style, template, button, .brand"))
            node.textContent = text;
}"""
NODE_MODULES = ROOT / "node_modules"


def missing_tools() -> str:
    """Return what a test in the browser lacks on this machine and how to get it, or ''."""
    if not shutil.which(CHROMIUM):
        return f"{CHROMIUM} is missing: apt-get install chromium-headless-shell"
    if not (NODE_MODULES / "axe-core").is_dir():
        return f"{NODE_MODULES} is incomplete: install node and npm, then make setup"
    return ""


def start_browser(playwright: Playwright) -> Browser:
    """Start the browser; the caller closes it."""
    return playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))


@dataclass
class Visit:
    """One page in a context of its own, with everything that the browser reported."""

    page: Page
    context: BrowserContext
    errors: list[str] = field(default_factory=list)
    """Uncaught exceptions, and messages of the console that are errors or warnings."""
    requests: list[str] = field(default_factory=list)
    """URLs in the order of the requests, without `data:` and `blob:`, which are none."""

    def __post_init__(self) -> None:
        page = self.page
        page.on("pageerror", lambda error: self.errors.append(f"exception: {error}"))
        page.on(
            "console",
            lambda message: (
                self.errors.append(f"{message.type}: {message.text}")
                if message.type in ("error", "warning")
                else None
            ),
        )
        page.on(
            "request",
            lambda request: (
                self.requests.append(request.url)
                if not request.url.startswith(("data:", "blob:"))
                else None
            ),
        )

    def open(self, target: str | Path) -> Page:
        """Load a file or a URL and return the page."""
        url = target.resolve().as_uri() if isinstance(target, Path) else target
        self.page.goto(url, wait_until="load")
        return self.page

    def sideways(self) -> list[str]:
        """Return where the page scrolls sideways on a telephone: the texts and the width.

        As it is, and with a word without a place to break, a path, and a long number in the place
        of every text: names and figures of a result can be any of these.
        """
        page, found = self.page, []
        page.eval_on_selector_all("details", "all => all.forEach(one => one.open = true)")
        for what, text, selector in STRETCHED:
            if text:
                page.evaluate(_STRETCH, [text, selector])
            for width in TELEPHONES:
                page.set_viewport_size({"width": width, "height": 740})
                wide = page.evaluate("document.documentElement.scrollWidth")
                if wide > width:
                    found.append(f"{what}: {wide} of {width} px")
        return found

    def serious_violations(self) -> list[str]:
        """Return what axe-core finds serious or critical: rule, help text and the first element.

        axe is evaluated by the debugger, so the page's Content-Security-Policy stays as it is.
        """
        self.page.evaluate((NODE_MODULES / "axe-core" / "axe.min.js").read_text())
        report: dict[str, Any] = self.page.evaluate("axe.run()")
        return [
            f"{found['id']}: {found['help']}: {found['nodes'][0]['html']}"
            for found in report["violations"]
            if found["impact"] in ("serious", "critical")
        ]
