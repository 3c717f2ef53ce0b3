"""docs/other-tools.md and docs/limits.md agree with the program: what they name exists, and what
the program has is named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from benchwright.cli.main import main
from benchwright.features.generators.registry import GENERATORS
from benchwright.features.load import request as r
from benchwright.features.load import workload as w
from benchwright.features.load.requests_toml import REQUEST_KEYS
from benchwright.features.load.workload_toml import WorkloadContext, filament_forms
from benchwright.features.search.server.toml import IO, RESOURCES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "other-tools.md").read_text()
LIMITS = " ".join((DOCS / "limits.md").read_text().split())
ROWS = {
    cells[0]: cells[1]
    for line in PAGE.splitlines()
    if len(cells := [one.strip() for one in line.strip("|").split(" | ")]) > 4
}
"""What Benchwright does, by the first cell of a row."""
COMMANDS = sorted(set(re.findall(r"`bw ([a-z]+)(?: (--[a-z]+))?[^`]*`", PAGE + LIMITS)))
TARGETS = {
    "null": "",  # no server, file or device
    "file": "files, devices",
    "dir": "directories (`dir:`)",
    "nfs": "NFS 3",
    "http": "HTTP/1.1 and 2",
    "redis": "Redis",
    "postgres": "PostgreSQL",
    "tcp": "TCP, TLS",
    "udp": "UDP",
    "several": "several at once",
    "websocket": "WebSocket",
}
"""The words of the row of targets, by the kind of target."""
ARRIVALS = {"on-off": "on/off", "poisson": "Poisson", "recorded": "recorded arrivals"}


def tags_of(union: object) -> list[str]:
    """Return the tags of a union of tagged types."""
    return [str(one.__struct_config__.tag) for one in get_args(union)]


@pytest.mark.parametrize(("command", "option"), COMMANDS, ids=" ".join)
def test_every_command_and_option_exists(
    command: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert option in re.findall(r"--[a-z-]+", shown) or not option


def test_every_row_of_a_load_names_what_the_engine_has() -> None:
    assert set(TARGETS) == set(tags_of(r.LoadTarget))
    assert [one for one in TARGETS.values() if one not in ROWS["targets"]] == []
    arrivals = [ARRIVALS.get(one, one) for one in tags_of(w.Arrival)]
    assert [one for one in arrivals if one not in ROWS["open loop"]] == []
    assert {"python", "process"} <= set(filament_forms(WorkloadContext(False, ".")))
    assert "`expect`" in ROWS["checks answers"]
    assert "expect" in REQUEST_KEYS
    assert "expect" in r.UdpTarget.__struct_fields__


def test_the_generators_are_those_of_the_registry() -> None:
    (sentence,) = re.findall(r"can use (.*?) as\s+generators", PAGE, re.DOTALL)
    assert sorted(re.findall(r"`([\w-]+)`", sentence)) == sorted(GENERATORS)


def test_what_is_not_supported_is_not_there() -> None:
    assert "HTTP/3" in LIMITS
    assert get_args(get_type_hints(r.HttpTarget)["http"]) == ("1.1", "2")
    assert "certificates of the client" in LIMITS
    assert set(r.Tls.__struct_fields__) == {"ca", "insecure", "server_name"}
    assert "Swap is not limited" in LIMITS
    assert [key.name for form in (RESOURCES, IO) for key in form.keys if "swap" in key.name] == []
