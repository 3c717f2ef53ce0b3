"""What an URL for a webhook may be. Pure: settings are checked by it, and what is sent."""

from __future__ import annotations

import urllib.parse

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Names of this machine itself: what is sent there crosses no network."""


def url_fault(url: str, *, with_token: bool) -> str:
    """Return what is wrong with an URL, which is not quoted; empty if nothing is."""
    try:
        parts = urllib.parse.urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"the URL cannot be read: {error}"
    if parts.scheme not in ("http", "https") or not host:
        return "the URL does not begin with https://HOST"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "the URL holds a space or a character that is not ASCII"
    if "@" in parts.netloc:
        return "the URL holds a user or password: give a token instead"
    if with_token and parts.scheme == "http" and host not in LOOPBACK:
        return "a token would cross the network in clear: use https://"
    return ""
