"""Sends a notice by the library apprise (chat rooms, telephones, pagers): an extra.

Decision: a well-kept library for the hundred services that have a form of their own. It is
imported only when a notice is sent, and asked for nothing but a title and a text.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from benchwright.core.notice import AppriseTarget, Notice, NoticeEvent
from benchwright.notice import text
from benchwright.notice.failure import Undelivered
from benchwright.notice.secret import revealed

_KINDS = {
    NoticeEvent.FAIL_FAST: "failure",
    NoticeEvent.FAILURE: "failure",
    NoticeEvent.DONE: "success",
    NoticeEvent.UNDECIDED: "warning",
    NoticeEvent.INTERRUPTED: "warning",
}


def send(
    target: AppriseTarget,
    notice: Notice,
    environment: Mapping[str, str],
    timeout_s: float,
) -> None:
    """Notify each of the URLs. Raises Undelivered."""
    urls = revealed(target.urls_from, environment).split()
    library = _library()
    sender: Any = library.Apprise()
    for number, url in enumerate(urls, 1):
        if not sender.add(_limited(url, timeout_s)):
            raise Undelivered(f"apprise does not know the form of URL {number}")
    taken = sender.notify(
        title=text.subject(notice),
        body=text.body(notice),
        notify_type=_KINDS[notice.event],
    )
    if not taken:
        raise Undelivered("apprise could not deliver it to every URL", again=False)


def _library() -> Any:
    try:
        return importlib.import_module("apprise")
    except ImportError:
        raise Undelivered(
            "apprise is not installed: pip install 'benchwright[notify]'"
        ) from None


def _limited(url: str, timeout_s: float) -> str:
    """Return an URL with apprise's own limits of connecting and reading, unless set."""
    if "cto=" in url:
        return url
    joint = "&" if "?" in url else "?"
    return f"{url}{joint}cto={timeout_s:g}&rto={timeout_s:g}"
