"""Secrets taken out by the name of a setting, and by the shape of its value."""

from __future__ import annotations

import pytest

from benchwright.machine.redact import (
    REDACTED,
    is_secret_name,
    recorded_settings,
    redacted_text,
    redacted_variable,
)

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-DEF_123"
PEM = "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----"


SECRET_NAMES = (
    *("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "MYSQL_PWD", "PGPASSWORD"),
    *("api_key", "apikey", "GOOGLE_APPLICATION_CREDENTIALS", "HTTP_AUTHORIZATION"),
    *("SESSION_COOKIE", "SENTRY_DSN", "PASS", "SSH_PASSPHRASE", "SLACK_WEBHOOK_URL"),
    *("LICENSE_KEY", "jwt", "CONNECTION_STRING", "DB_PASS", "WIFI_PSK", "PSK", "sig"),
    *("Pwd", "mysqlpwd", "SSHPASS", "LDAP_BINDPW", "USERPASS"),
)


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)
    assert redacted_variable(name, "abc") == REDACTED


@pytest.mark.parametrize("name", ["PATH", "PWD", "OLDPWD", "LANG", "COMPASS", "BYPASS", "SHLVL"])
def test_names_of_no_secrets(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    "value",
    [
        JWT,
        PEM,
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_0123456789abcdefABCDEF0123456789abcd",
        "xoxb-1234-5678-abcdef",
        "sk-proj-0123456789abcdef",
        "0123456789abcdef0123456789abcdef",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "123e4567-e89b-12d3-a456-426614174000",
        "c2VjcmV0IHdvcmRzIGFyZSBoZXJl0123==",
    ],
)
def test_shapes_of_secrets_are_taken_out_whole(value: str) -> None:
    assert redacted_variable("SETTING", value) == REDACTED


@pytest.mark.parametrize(
    "value",
    [
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin",
        "/root/.pyenv/versions/3.11.7/lib/x86_64-linux-gnu",
        "C.UTF-8",
        "-O2 -march=native -flto",
        "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1",
        "1,2,3-7",
        "a_long_name_of_words_without_numbers_in_it",
        "/opt/homebrew/opt/openssl@3/bin:/usr/bin:/opt/python@3.11/bin",
        "docker run -u 1000:1000 --user=0:0 -p 8080:80 redis",
        "mysql -p -P 3306 -h db",
        "curl -A 'Mozilla/5.0 (X11; rv:1)' -U http://host/",
        "PWD=/home/me OLDPWD=/tmp",
        "rs=0:di=01;34:ln=01;36:*.tar=01;31",
        "basic usage: basic authentication, BASIC programming language",
        "fio --profile basic --level=basic run",
        "the bearer of news",
        "wrk http://localhost:8080/@me http://127.0.0.1:80/a@2x.png http://[::1]:80/@x",
        "curl https://host/img@2x.png?size=a@b https://registry/@scope/package",
        "mailto:me@example.org git@github.com:me/project.git",
        "sip:alice@atlanta.com sips:bob@h xmpp:a@h acct:a@h",
        f"docker run registry:5000/bench@sha256:{'0a1b2c3d' * 8} run",
    ],
)
def test_ordinary_values_stay(value: str) -> None:
    assert redacted_variable("SETTING", value) == value


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:pw@host/x?y=1", "https://[redacted]@host/x?y=1"),
        ("https://host/x?token=abc&y=1", "https://host/x?token=[redacted]&y=1"),
        ("rw,username=a,password=b,vers=3", "rw,username=a,password=[redacted],vers=3"),
        ("root=/dev/sda1 luks.key=abc quiet", "root=/dev/sda1 luks.key=[redacted] quiet"),
        ("curl -H 'Authorization: Bearer x'", "curl -H 'Authorization: [redacted]'"),
        ("curl -H 'Cookie: a=\"b\"' url", "curl -H 'Cookie: [redacted]' url"),
        ("Cookie: a='b c'", "Cookie: [redacted]"),
        ("send 'Basic dXNlcjpwYXNz' x", "send '[redacted]' x"),
        ("x basic dXNlcjpwYXM= y", "x [redacted] y"),
        ("x Basic dXNlcjpwYXM y", "x [redacted] y"),
        ('x Basic "bWU6cMOkc3M-Pz8_" y', 'x [redacted]" y'),
        ("x Basic c2VjcmV0cw== y", "x [redacted] y"),
        ("x Bearer abc$def y", "x [redacted] y"),
        ("x BEARER 'abcdef' y", "x [redacted]' y"),
        ("curl -HAuthorization: a b", "curl -HAuthorization: [redacted]"),
        ('{"Authorization": "Basic eA==", "x": 1}', '{"Authorization": [redacted], "x": 1}'),
        ("x Basic dXNlcjpwYXNzCg== y", "x [redacted] y"),
        ("x Basic dXNlcjpwYXNzDQo= y", "x [redacted] y"),
        ("x Basic dXNlcjpwYXMK y", "x [redacted] y"),
        ("x Basic 5DpwYXNz y", "x [redacted] y"),
        ("//me:pw@host/share", "//[redacted]@host/share"),
        (
            "pip install git+https://s3cr3t@github.com/org/repo@v1.0",
            "pip install git+https://[redacted]@v1.0",
        ),
        ("https://hunter2@host/img@2x.png", "https://[redacted]@2x.png"),
        ("https://hunter2@h/x#a@b", "https://[redacted]@b"),
        ("smb://hunter2@h/a@b", "smb://[redacted]@b"),
        ("sip:1001:hunter2@10.0.0.1", "[redacted]@10.0.0.1"),
        ("sips:alice:secretword@atlanta.com", "[redacted]@atlanta.com"),
        ("sip:alice:se@cret@atlanta.com", "[redacted]@atlanta.com"),
        ("https://token@host/x", "https://[redacted]@host/x"),
        ("https://mirror/https://me:pw@h/x", "https://mirror/https://[redacted]@h/x"),
        ("http://localhost:pw@h/x", "http://[redacted]@h/x"),
        ("--proxy=me:pw@h:3128", "--proxy=[redacted]@h:3128"),
        ('PASSWORD="two words" run', "PASSWORD=[redacted] run"),
        ("PASSWORD=\"a b\"'c'd run", "PASSWORD=[redacted] run"),
        ("user:hunter2@proxy:3128", "[redacted]@proxy:3128"),
        ("proxy=u:hun/t#er@2@proxy:3128 x", "proxy=[redacted]@proxy:3128 x"),
        ("postgres://u:hunter/2@h/db", "postgres://[redacted]@h/db"),
        ("postgres://u:hunter#2@h/db", "postgres://[redacted]@h/db"),
        ("postgres://u:hun'ter?2@h/db x", "postgres://[redacted]@h/db x"),
        ("Server=x;Pwd=hunter2;", "Server=x;Pwd=[redacted];"),
        ("UID=me;PWD=hunter2;", "UID=me;PWD=[redacted];"),
        ("https://x/?sv=1&sig=abc%2Bdef", "https://x/?sv=1&sig=[redacted]"),
        ("PSK=hunter2 ssid=x", "PSK=[redacted] ssid=x"),
        ('password => "hunter2"', "password => [redacted]"),
        ("run --password -hunter2 x", "run --password [redacted] x"),
        ("curl -u a:pw https://h", "curl -u [redacted] https://h"),
        ("curl -ua:pw https://h", "curl -u[redacted] https://h"),
        ("curl -u 'a:p w' https://h", "curl -u [redacted] https://h"),
        ("curl -U a:pw --proxy-user b:pw h", "curl -U [redacted] --proxy-user [redacted] h"),
        ("ab -A user:pw -P u:pw http://h/", "ab -A [redacted] -P [redacted] http://h/"),
        ("x --user=admin:pw y", "x --user=[redacted] y"),
        ("smbclient -U user%pw //h/s", "smbclient -U [redacted] //h/s"),
        ("sshpass -p pw ssh h", "sshpass -p [redacted] ssh h"),
        ("sshpass -ppw ssh h", "sshpass -p[redacted] ssh h"),
        ("redis-cli -h h -a pw ping", "redis-cli -h h -a [redacted] ping"),
        ("mysql -h db -phunter2 -u me", "mysql -h db -p[redacted] -u me"),
        (f"run {JWT} now", f"run {REDACTED} now"),
        ("root=UUID=123e4567-e89b-12d3-a456-426614174000 ro",) * 2,
        ("fio --name=job --bs=4k --rw=randread",) * 2,
    ],
)
def test_texts_keep_all_but_the_secret(text: str, shown: str) -> None:
    assert redacted_text(text) == shown


def test_settings_have_values_of_listed_names_only() -> None:
    text = "rw,vers=3,password=a,size=sk-proj-0123456789abcdef"
    shown = "rw,vers=3,password=set,size=[redacted]"
    assert recorded_settings(text, {"vers", "size"}, ",") == shown
    assert recorded_settings("ro  a=b c=d=e", {"c"}) == "ro a=set c=d=e"


def test_the_directories_of_a_shell_stay() -> None:
    for name in ("PWD", "OLDPWD"):
        assert redacted_variable(name, "/home/me") == "/home/me"
    assert redacted_variable("PWD", "hunter2") == REDACTED


def test_an_empty_secret_is_said_to_be_empty() -> None:
    assert redacted_variable("TOKEN", "") == ""
