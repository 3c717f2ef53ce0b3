"""Removes secrets from captures and notices.

Purpose: captures are shown, mailed and compared, and notices leave the machine; neither may
contain a secret. Decision: captures record values of listed names only (variables, mount
options, kernel parameters) and no arguments of commands. Three filters apply to recorded values
and to notices; a match of any one redacts: the name of a setting (TOKEN, PASSW, ...), the shape
of its value (a password in a URL, a key's known prefix, a long random word), and options that
take a password (`curl -u`, `sshpass -p`). A redacted secret leaves neither hash nor length: a
short secret can be found from its hash. Redacting too much costs little. Non-goal: a secret
that is an ordinary word under an ordinary name cannot be recognised.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec

REDACTED = "[redacted]"
SET = "set"
"""Stands for a value that is not recorded."""
_PASSES = 4
"""The most passes of the filters over a text, until it no longer changes."""

_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|PASSCODE|CREDENTIAL|AUTH|COOKIE|SESSION|DSN|KEY"
    r"|APIKEY|PRIVATE|SIGNATURE|WEBHOOK|LICEN[CS]E|BEARER|OTP|PWD|(?<![A-Z])PIN(?![A-Z])"
    r"|(?<![A-Z])(PASS|PW|HMAC|UNSEAL|SALT|JWT|SAS|CREDS?|NONCE|PSK|SIG|SEED_PHRASE|MNEMONIC)(?![A-Z])"
    r"|CONN(ECTION)?_?STR",
    re.IGNORECASE,
)
_SECRET_ENDING = re.compile(r"[A-Z](?<!COM)(?<!BY)(?<!SUR)(?<!RES)(PASS|PW)\Z")
"""The ending of a variable or macro in capitals: SSHPASS, LDAP_BINDPW, -DPASS; not COMPASS."""
_PEM = re.compile(r"-----BEGIN .*?(-----END [^-\n]*-----|\Z)", re.DOTALL)
_WORD = re.compile(r"\S+")
_PLACE = r"(?:localhost|\d+(?:\.\d+){3}|\[[^\]]*\]):\d+[/?#]"
"""A server with port and path, which must not be read as user and password."""
_PAIR = re.compile(
    rf"(?<![^'\"=,;(])(?!(?:mailto|sips?|xmpp|acct):[^:]*\Z|{_PLACE})[^:/@'\"=,;(]+:(?!//)"
)
"""Where `user:password` may begin in a word that is checked up to its last `@`; a mail or
telephone address has a scheme and no second colon, unless it contains a password."""
_AUTHORITY = re.compile(rf"//(?!{_PLACE})(?=[^/?#]*[:@]|(?<=://)[^/?#]*\Z)")
"""The `//` before `user:password`, or before a user alone, in a URL."""
_DIGEST = re.compile(r"@sha(?:256|512):(?=(?:[0-9a-f]{64}){1,2}(?![\w+=-]))")
"""The digest of a container's image: it looks random, but identifies the image."""
_HEADER_NAME = r"((?:proxy-)?authorization|(?:set-)?cookie|x-(?=[\w-]{0,80}(?:key|token|auth))[\w-]{1,99}+)(\s*[:=]\s*)"
_QUOTED_HEADER = re.compile(rf"([\"']){_HEADER_NAME}(?:(?!\1)[^\n])*", re.IGNORECASE)
_HEADER = re.compile(rf"(?:(?<![\w\"'-])|(?<=-H)){_HEADER_NAME}[^\n]*", re.IGNORECASE)
_BEARER = re.compile(r"\bbearer\s+[\"']?[^\s'\",;]{4,}", re.IGNORECASE)
_BASIC = re.compile(r"\bbasic\s+[\"']?([\w+/-]{4,}={0,2})(?![\w+/=-])", re.IGNORECASE | re.ASCII)
_JWT = re.compile(r"(?<![\w-])(?=[\w-]++=*\.)([\w-]*?)eyJ[\w-]{4,}=*(?:\.[\w=-]*){1,4}")
"""A JSON web token, at any place of a word: the first lookahead makes a long word without one cost
one pass."""
_PREFIXED = re.compile(
    r"(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[0-9A-Z]{12,}"
    r"|gh[pousr]_\w{8,}|github_pat_\w{8,}|gl(?:pat|dt|rt|cbt|ptt|soat)-[\w-]{8,}"
    r"|xox[a-z]-[\w-]{6,}|xapp-[\w-]{6,}|[spr]k_(?:live|test)_\w{6,}"
    r"|whsec_\w{8,}|AIza[\w-]{16,}|ya29\.[\w.-]{8,}|npm_\w{16,}|pypi-[\w-]{16,}"
    r"|(?<=hooks\.slack\.com/services/)\S+"
    r"|SG\.[\w-]{8,}\.[\w-]{8,}|hf_\w{12,}|do[opr]_v1_\w{8,}|shp(?:at|ca|pa|ss)_\w{8,}"
    r"|hv[sbr]\.[\w-]{12,}|dapi[0-9a-f]{16,}|AGE-SECRET-KEY-\w+"
    # Only at the start of a word: `sk-` also occurs inside ordinary words (disk-cache).
    r"|(?<![A-Za-z0-9])(?:sk|key)-[\w-]{16,}"
)
_RUN = re.compile(r"[A-Za-z0-9+_=-]{20,}")
_WHOLE = re.compile(r"[A-Za-z0-9+/_-]{20,}={0,2}\Z")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.IGNORECASE)
# Anchored at the start of a word, so that a long word is checked once, not at each letter.
_KEY = re.compile(r"(?<![\w.-])([\w.-]+)[\"']?\s*(?:=>|[=:])\s*")
_OPTION = re.compile(r"(?<![\w.-])(--?[A-Za-z][\w.-]*)\s+(?!--|-[A-Za-z](?!\w))")
# A shell joins quoted and other parts to one word: "a"'b'c.
_VALUE = re.compile(r"(?:\"[^\"]*\"?|'[^']*'?|[^\s,;&'\"])+")
_SHELL_WORD = r"(?:\"[^\"]*\"?|'[^']*'?|[^\s'\"])+"
_PAIRED = r"-[uUAP]|--(?:[\w-]*-)?user(?:name|pwd)?"
"""Options whose value may be `user:password`: curl, ab, smbclient and others."""
_PAIR_OPTION = re.compile(
    rf"(?<![^\s'\"])((?:{_PAIRED})[\s=]+|-[uUAP])"
    # Two numbers are a user and a group, or ports.
    rf"(?!['\"]?\d+:\d+(?!\w|[^\s'\"]))(?=['\"]?[^\s:%/=]*[:%](?!//)[^\s'\"]){_SHELL_WORD}"
)
_PASSWORD_LETTERS = {
    **dict.fromkeys(("sshpass", "mongo", "mongosh", "mongodump", "mongorestore"), "p"),
    **dict.fromkeys(("redis-cli", "redis-benchmark", "memtier_benchmark"), "a"),
    **dict.fromkeys(("ipmitool", "mosquitto_pub", "mosquitto_sub"), "P"),
    **dict.fromkeys(("ldapsearch", "ldapadd", "ldapmodify", "ldapwhoami"), "w"),
}
"""Programs with a one-letter option that takes a password."""
_ATTACHED_LETTERS = dict.fromkeys(
    (
        *("mysql", "mysqladmin", "mysqldump", "mysqlimport", "mysqlslap", "mysqlshow"),
        *("mysqlcheck", "mariadb", "mariadb-admin", "mariadb-dump", "mariadb-slap"),
    ),
    "p",
)
"""Programs whose password must be attached to the option; the next word is something else."""


_NEAR = 200
"""The most characters between a program and its option, which limits the time of a search."""


def _password_option(programs: dict[str, str], between: str) -> re.Pattern[str]:
    """Return a pattern that finds the password in a text with one of these programs."""
    by_program = "|".join(
        rf"{re.escape(name)}(?=\s)[^\n;|&]{{0,{_NEAR}}}?\s-{letter}"
        for name, letter in programs.items()
    )
    return re.compile(rf"((?<![\w.-])(?:{by_program}){between}){_SHELL_WORD}")


@cache
def _password_options() -> tuple[re.Pattern[str], ...]:
    """Return the patterns that find passwords. They are compiled on first use: that takes as
    long as compiling all other patterns, and hardly any text has such a program."""
    return (_password_option(_PASSWORD_LETTERS, r"\s*"), _password_option(_ATTACHED_LETTERS, ""))


_ADDRESSES = frozenset({"SSH_AUTH_SOCK", "XAUTHORITY"})
"""Variables whose names look secret, but whose values are only file names."""
_DIRECTORIES = frozenset({"PWD", "OLDPWD"})
"""Directories in a shell's environment; passwords in a database's connection string."""


def is_secret_name(name: str) -> bool:
    """Return whether a setting with this name may hold a secret."""
    match = _SECRET_NAME.search(name) or _SECRET_ENDING.search(name)
    return match is not None and name not in _ADDRESSES | _DIRECTORIES


def _is_secret(name: str, value: str) -> bool:
    """Return whether a setting in a text may hold a secret."""
    return is_secret_name(name) or (name in _DIRECTORIES and value[:1] != "/")


def redacted_variable(name: str, value: str) -> str:
    """Return an environment variable's value with possible secrets redacted."""
    if not value:
        return value
    if _is_secret(name, value) or _UUID.match(value) or _is_random(value):
        return REDACTED
    return redacted_text(value)


def redacted_text(text: str) -> str:
    """Return a text (a command line, mount options) with possible secrets redacted."""
    return _redacted(text, guessed=True)


def _redacted(text: str, *, guessed: bool) -> str:
    """Return a text redacted; `guessed`: also words that only look random."""
    # After one filter changed the text, another may find more.
    for _ in range(_PASSES):
        text, before = _redacted_once(text, guessed=guessed), text
        if text == before:
            break
    return text


def _redacted_once(text: str, *, guessed: bool) -> str:
    if _PEM.search(text):
        return REDACTED
    text = _QUOTED_HEADER.sub(rf"\1\2\3{REDACTED}", text)
    text = _HEADER.sub(rf"\1\2{REDACTED}", text)
    text = _PAIR_OPTION.sub(rf"\1{REDACTED}", text)
    if any(name in text for name in (*_PASSWORD_LETTERS, *_ATTACHED_LETTERS)):
        for option in _password_options():
            text = option.sub(rf"\1{REDACTED}", text)
    text = _WORD.sub(_without_userinfo, text)
    text = _BASIC.sub(_without_basic, text)
    text = _JWT.sub(rf"\1{REDACTED}", text)
    for shape in (_BEARER, _PREFIXED):
        text = shape.sub(REDACTED, text)
    text = _without_valued(_without_valued(text, _KEY), _OPTION)
    return _RUN.sub(_run, text) if guessed else text


def recorded_settings(text: str, valued: Collection[str], separator: str | None = None) -> str:
    """Return `NAME` and `NAME=VALUE` settings with the values of names in `valued` only.

    Other settings with a value become `NAME=set`. The separator None means white space.
    """
    shown = []
    for word in text.split(separator):
        name, sign, _ = word.partition("=")
        hidden = bool(sign) and name not in valued
        shown.append(f"{name}={SET}" if hidden else redacted_text(word))
    return (separator or " ").join(shown)


def _without_userinfo(match: re.Match[str]) -> str:
    """Return a word with the `user:password` before its last `@` redacted.

    A password may contain `/`, `#` and `@`, although the standard forbids it.
    """
    word = match[0]
    digest = _DIGEST.search(word)
    end = max(word.rfind("@", 0, digest.start() if digest else None), 0)
    begins = [one.end() for one in _AUTHORITY.finditer(word, 0, end)]
    pair = _PAIR.search(word, 0, end)
    begins += [pair.start()] if pair else []
    return f"{word[: min(begins)]}{REDACTED}{word[end:]}" if begins else word


def _without_basic(match: re.Match[str]) -> str:
    """Return the word after `Basic`, redacted if it is credentials."""
    return REDACTED if _is_credentials(match[1]) else match[0]


def _is_credentials(word: str) -> bool:
    """Return whether a word is `user:password` in base64 (RFC 7617, section 2), or other
    base64 text with padding, which few ordinary words have.

    User and password may have another character set than UTF-8; text encoded in a shell may
    end with a newline (`echo user:pass | base64`).
    """
    bare = word.rstrip("=")
    if len(bare) % 4 == 1:
        return False
    data = base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_")
    data = data.rstrip(b"\r\n")
    user, colon, _ = data.partition(b":")
    if any(byte < 32 or byte == 127 for byte in data):
        return False
    if word != bare and data.isascii():
        return True
    return bool(colon) and (_is_name(user) or _is_utf8(data))


def _is_name(user: bytes) -> bool:
    """Return whether bytes are text in ASCII or a character set like Latin-1."""
    return bool(user) and not any(128 <= byte < 160 for byte in user)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _without_valued(text: str, name: re.Pattern[str]) -> str:
    """Return a text with the values after names of secrets redacted."""
    kept = []
    at = 0
    for match in name.finditer(text):
        if text.startswith(REDACTED, match.end()):
            continue
        # The name is checked first: matching every long value would take too long.
        begins = text[match.end() : match.end() + 1]
        if match.start() < at or not _is_secret(match[1].lstrip("-"), begins):
            continue
        value = _VALUE.match(text, match.end())
        if value is not None:
            kept += [text[at : match.end()], REDACTED]
            at = value.end()
    return "".join(kept) + text[at:]


def _run(match: re.Match[str]) -> str:
    digest = _DIGEST.match(match.string, max(match.start() - len("@sha256:"), 0))
    if digest is not None and digest.end() == match.start():
        return match[0]
    # A run with `=` inside is a setting: check both sides.
    parts = re.split(r"(=+(?!\Z))", match[0])
    return "".join(REDACTED if _is_random(part) else part for part in parts)


def _is_random(word: str) -> bool:
    """Return whether a word looks random: people do not write such mixes of characters."""
    if not _WHOLE.match(word) or _UUID.match(word):
        return False
    if word.startswith("/") or word.count("/") > max(2, len(word) // 16):
        return False
    classes = [
        any(c.isdigit() for c in word),
        any(c.islower() for c in word),
        any(c.isupper() for c in word),
    ]
    if all(classes):
        return True
    bare = word.replace("-", "").replace("_", "")
    return len(bare) >= 32 and classes[0] and (classes[1] or classes[2])


# --------------------------------------------------------------------------------------
# What a session's command line has of secrets, removed from what is shown of the session.
#
# Purpose: pages, exports and histories are shared, and a test without a name is called as its
# command. Decision: only what an option, a name, a place or a prefix marks as a secret, and no
# plain number: words that look random and `--key-size=16` tell tests apart. A secret is removed
# with the words around it, wherever they occur: `--auth=none` must not remove every `none`. Two
# secrets have two marks, so that names that differ in them stay different.

_PLAIN_NUMBER = re.compile(r"[\"']?[-+]?[0-9][0-9.,_]*[A-Za-z%]{0,3}[\"']?")
_TELLING = 8
"""A secret of so many characters is removed without the words around it too."""
_CUT = "…"
"""The sign of a text that was shortened, in which the end of a secret may be missing."""


class _Secret(NamedTuple):
    """A secret of a command line, what stands around it, and what stands for it."""

    before: str
    secret: str
    after: str
    mark: str = REDACTED

    def removed(self, text: str) -> str:
        """Return a text without this secret."""
        whole = "".join((self.before, self.secret, self.after))
        text = text.replace(whole, f"{self.before}{self.mark}{self.after}")
        if len(self.secret) >= _TELLING:
            text = text.replace(self.secret, self.mark)
        start = text.find(self.before) if self.before and _CUT in text else -1
        while start >= 0:
            start += len(self.before)
            end = text.find(_CUT, start)
            if start < end and self.secret.startswith(text[start:end]):
                text = f"{text[:start]}{self.mark}{text[end:]}"
            start = text.find(self.before, start)
        return text


def _secrets_of(line: str) -> Iterator[_Secret]:
    first, *rest = _redacted(line, guessed=False).split(REDACTED)
    at = len(first)
    for piece in rest:
        end = line.find(piece, at + 1) if piece else len(line)
        secret = line[at:end]
        begin = max(line.rfind(" ", 0, at), 0)
        if begin == at - 1:  # a word of its own: the option before it belongs to it
            begin = max(line.rfind(" ", 0, begin), 0)
        after = piece.split(" ", 1)[0]
        if secret and not _PLAIN_NUMBER.fullmatch(secret):
            yield _Secret(line[begin:at].lstrip(), secret, after)
        at = end + len(piece)


def _marked(commands: Sequence[str]) -> list[_Secret]:
    """Return the secrets of commands, each with its mark, the longest first."""
    found: dict[_Secret, None] = {}
    marks: dict[str, str] = {}
    for line in (line for text in commands for line in text.split("\n")):
        for one in _secrets_of(line):
            more = REDACTED.replace("]", f" {len(marks) + 1}]") if marks else REDACTED
            mark = marks.setdefault(one.secret, more)
            found[one._replace(mark=mark)] = None
    return sorted(found, key=lambda one: -len(one.secret))


def without_secrets(shown: Any, commands: Sequence[str]) -> Any:
    """Return a value (texts in structures and tuples) without the secrets that commands contain."""
    secrets = _marked(commands)
    if not secrets:
        return shown

    def changed(text: str) -> str:
        for secret in secrets:
            text = secret.removed(text)
        return text

    def walked(value: Any) -> Any:
        if type(value) is str:
            return changed(value)
        if isinstance(value, msgspec.Struct):
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            new = {name: walked(field) for name, field in fields.items()}
            other = {k: v for k, v in new.items() if v is not fields[k]}
            return msgspec.structs.replace(value, **other) if other else value
        if isinstance(value, dict):
            return {walked(key): walked(one) for key, one in value.items()}
        if isinstance(value, (tuple, list)):
            parts = [walked(one) for one in value]
            if all(a is b for a, b in zip(parts, value, strict=True)):
                return value
            named = hasattr(value, "_fields")
            return type(value)(*parts) if named else type(value)(parts)
        return value

    return walked(shown)
