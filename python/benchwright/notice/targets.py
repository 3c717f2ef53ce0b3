"""The targets of notices: names for messages, and the request to the sending program. Pure."""

from __future__ import annotations

import urllib.parse

import msgspec

from benchwright.core.notice import (
    AppriseTarget,
    CommandTarget,
    MailTarget,
    Notice,
    NoticeTarget,
    WebhookTarget,
)

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Names of this machine itself: data sent there crosses no network."""


class SendRequest(msgspec.Struct, frozen=True):
    """What `deliver` requests from the program `send`."""

    target: MailTarget | WebhookTarget | AppriseTarget
    notice: Notice
    answer_s: float
    """Limit for one response of a server [s]."""
    pauses_s: tuple[float, ...]
    """Pauses between attempts [s]: one attempt more than pauses."""


def url_fault(url: str, *, with_token: bool) -> str:
    """Return what is wrong with a webhook's URL, without quoting it; empty if nothing is."""
    try:
        parts = urllib.parse.urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"the URL cannot be read: {error}"
    if parts.scheme not in ("http", "https") or not host:
        return "the URL does not begin with https://HOST"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "the URL contains a space or a character that is not ASCII"
    if "@" in parts.netloc:
        return "the URL contains a user or password: give a token instead"
    if with_token and parts.scheme == "http" and host not in LOOPBACK:
        return "the token would cross the network unencrypted: use https://"
    return ""


def target_name(target: NoticeTarget) -> str:
    """Return the name of a target for messages, without parts that may be secret."""
    match target:
        case MailTarget(to=to, host=host):
            return f"mail to {', '.join(to)} by {host}"
        case WebhookTarget(url="", url_from=secret):
            assert secret is not None, "a webhook has an URL or a place to find it"
            return f"webhook of {secret.kind} {secret.name}"
        case WebhookTarget(url=url):
            return f"webhook {url.partition('?')[0]}"
        case CommandTarget(argv=argv):
            return f"command {argv[0]}"
        case AppriseTarget(urls_from=secret):
            return f"apprise by {secret.kind} {secret.name}"
