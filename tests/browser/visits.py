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
