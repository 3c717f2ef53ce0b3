"""No secret survives, wherever it stands, and nothing of it is left but the mark."""

from __future__ import annotations

import base64
import string

from hypothesis import assume, given
from hypothesis import strategies as st

from benchwright.machine.redact import REDACTED, recorded_settings, redacted_text, redacted_variable

LETTERS = string.ascii_letters + string.digits
NAMES = st.sampled_from(
    ["TOKEN", "api_key", "DB_PASSWORD", "client.secret", "AUTH", "COOKIE", "SENTRY_DSN"]
)
# A word of characters that no quoting and no URL touches, and that is in no text around it.
PLAIN = st.text(LETTERS, min_size=6, max_size=60).filter(lambda word: word.lower() not in REDACTED)
MIXED = st.tuples(st.text(LETTERS, min_size=29, max_size=80), st.integers(0, 1 << 30)).map(
    lambda pair: "aZ7" + pair[0]
)
HEX = st.binary(min_size=16, max_size=64).map(bytes.hex)
JWT = st.binary(min_size=12, max_size=60).map(
    lambda data: "eyJ" + base64.urlsafe_b64encode(data).decode() + "." + "sig" * 5
)
PREFIXED = st.tuples(
    st.sampled_from(["ghp_", "github_pat_", "glpat-", "sk_live_", "npm_", "hf_"]),
    st.text(LETTERS, min_size=20, max_size=40),
).map("".join)
SHAPED = st.one_of(MIXED, HEX.filter(lambda h: any(c.isalpha() for c in h)), JWT, PREFIXED)
SHAPED = SHAPED.filter(lambda s: not s.isalpha() and not s.isdigit())


def lost(secret: str, shown: str) -> None:
    """Assert that no part of a secret as long as half of it is left."""
    half = max(4, len(secret) // 2)
    parts = (secret[at : at + half] for at in range(len(secret) - half + 1))
    assert not any(part in shown for part in parts), (secret, shown)


@given(NAMES, PLAIN)
def test_what_a_name_calls_secret_leaves_nothing(name: str, secret: str) -> None:
    assert redacted_variable(name, secret) == REDACTED
    assume(secret.lower() not in name.lower())
    lost(secret, redacted_text(f"rw,{name}={secret},vers=3"))
    lost(secret, redacted_text(f"a {name}={secret} b"))
    lost(secret, redacted_text(f"sh -c 'a --{name} {secret} b'"))
    lost(secret, redacted_text(f'{{"x": 1, "{name}": "{secret}"}}'))
    lost(secret, redacted_text(f"https://host/?{name}={secret}&x=1"))


@given(PLAIN, PLAIN)
def test_passwords_in_urls_leave_nothing(user: str, secret: str) -> None:
    text = f"postgres://{user}:{secret}@db:5432/x"
    assert redacted_text(text) == f"postgres://{REDACTED}@db:5432/x"
    assert redacted_variable("SERVER", text) == f"postgres://{REDACTED}@db:5432/x"


ODD = st.text(LETTERS + "/#?@:%=&;,", min_size=6, max_size=60).filter(
    lambda word: word.lower() not in REDACTED and not word.startswith("/")
)


@given(PLAIN, ODD)
def test_userinfo_leaves_nothing_whatever_is_in_it(user: str, secret: str) -> None:
    assert redacted_text(f"amqp://{user}:{secret}@h/x") == f"amqp://{REDACTED}@h/x"
    assert redacted_text(f"{user}:{secret}@h:3128") == f"{REDACTED}@h:3128"
    shown = redacted_variable("http_proxy", f"{user}:{secret}@h:3128")
    assert shown in (REDACTED, f"{REDACTED}@h:3128")


@given(
    st.sampled_from(["curl -u", "curl -U", "ab -A", "x --user", "x --proxy-user"]),
    PLAIN.filter(lambda word: not word.isdecimal()),
    ODD,
)
def test_a_password_with_its_user_leaves_nothing(command: str, user: str, secret: str) -> None:
    program, option = command.split()
    words = [program, option, f"{user}:{secret}", "last"]
    assert redacted_text(" ".join(words)) == f"{command} {REDACTED} last"


@given(st.sampled_from(["https", "git+https", "smb"]), PLAIN, ODD)
def test_a_user_alone_leaves_nothing_whatever_follows_its_server(
    scheme: str, secret: str, rest: str
) -> None:
    text = f"{scheme}://{secret}@h/{rest}@v1"
    assert redacted_text(text) == f"{scheme}://{REDACTED}@v1"


@given(st.sampled_from(["sip", "sips", "mailto", "xmpp"]), PLAIN, ODD)
def test_a_password_of_an_address_leaves_nothing(scheme: str, user: str, secret: str) -> None:
    assert redacted_text(f"{scheme}:{user}:{secret}@h") == f"{REDACTED}@h"


@given(st.sampled_from(["sshpass -p", "redis-cli -a", "ipmitool -P"]), ODD)
def test_a_password_after_a_letter_leaves_nothing(command: str, secret: str) -> None:
    program, option = command.split()
    words = [program, option, secret, "last"]
    assert redacted_text(" ".join(words)) == f"{command} {REDACTED} last"


@given(PLAIN, ODD)
def test_credentials_in_base64_leave_nothing(user: str, secret: str) -> None:
    pair = f"{user}:{secret}".encode()
    word = base64.b64encode(pair).decode()
    ended = [base64.b64encode(pair + end).decode() for end in (b"\n", b"\r\n")]
    other = base64.b64encode(f"ä{user}:{secret}".encode("latin-1")).decode()
    url = base64.urlsafe_b64encode(pair).decode()
    for one in (word, word.rstrip("="), url, *ended, other):
        assert redacted_text(f"x Basic {one} y") == f"x {REDACTED} y"


@given(SHAPED)
def test_what_looks_secret_leaves_nothing_wherever_it_stands(secret: str) -> None:
    lost(secret, redacted_variable("SETTING", secret))
    lost(secret, redacted_text(f"run {secret} now"))
    lost(secret, redacted_text(f"run --setting={secret} now"))
    lost(secret, redacted_text(f"run 'x: {secret}' now"))


PIECES = st.sampled_from(
    [
        *("token", "=", ":", " ", "'", '"', "abc", "https://", "@", "/", "?", "&", ","),
        *(
            "-",
            "Authorization",
            "bearer",
            "Basic ",
            "dXNlcjpwYXNz",
            "localhost:80",
            "aZ7aZ7aZ7aZ7aZ7aZ7aZ7",
            "eyJ",
            ".",
            "==",
            "x",
            "-u",
            "sshpass -p",
            "://",
            "=>",
            "sig",
        ),
    ]
)


@given(st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=20).map("".join)))
def test_any_text_can_be_looked_at_twice(text: str) -> None:
    once = redacted_text(text)
    assert redacted_text(once) == once


@given(NAMES, st.text(LETTERS + "/#?@:%=&;", min_size=1, max_size=60))
def test_a_setting_that_is_not_listed_has_no_value(name: str, secret: str) -> None:
    shown = recorded_settings(f"rw,{name}={secret},vers=3", {"vers"}, ",")
    assert shown == f"rw,{name}=set,vers=3"
