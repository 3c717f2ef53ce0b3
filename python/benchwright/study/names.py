"""Test names as file names: readable, safe, and distinct for distinct names."""

from __future__ import annotations

from hashlib import blake2b
from urllib.parse import quote

_SAFE = " :=,+@()[]~"
_LONGEST = 120


def file_name(test: str) -> str:
    """Return one path component for a test's name.

    Letters, digits and common punctuation stay; anything else is percent-encoded. A
    name too long for a file gets its hash in place of its end, after `%-`, which no
    encoding yields: distinct names stay distinct.
    """
    assert test, "a test has a name"
    name = quote(test, safe=_SAFE, errors="surrogatepass")
    if name.startswith((".", "_")):
        name = f"%{ord(name[0]):02X}{name[1:]}"
    if len(name) > _LONGEST:
        key = test.encode(errors="surrogatepass")
        digest = blake2b(key, digest_size=8).hexdigest()
        name = f"{name[: _LONGEST - len(digest) - 2]}%-{digest}"
    return name
