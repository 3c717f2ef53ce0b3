"""The browser of the tests, started once for each process that runs tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from visits import Visit, missing_tools, start_browser

VisitMaker = Callable[..., Visit]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser; fails, and does not skip, where there is none."""
    if missing := missing_tools():
        pytest.fail(missing, pytrace=False)
    with sync_playwright() as playwright:
        started = start_browser(playwright)
        yield started
        started.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[VisitMaker]:
    """Make pages: `visit(offline=True, scripts=True, width=1280, height=900, dark=False)`.

    A page is offline unless the test says otherwise: a report needs no network. A test of a server
    gives `offline=False` and looks at `requests`.
    """
    contexts = []

    def make(
        *,
        offline: bool = True,
        scripts: bool = True,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
    ) -> Visit:
        context = browser.new_context(
            offline=offline,
            java_script_enabled=scripts,
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        contexts.append(context)
        return Visit(context.new_page(), context)

    yield make
    for context in contexts:
        context.close()
