"""Nobody but root may log in: a file that login and sshd look for (nologin(5))."""

# A setting fills a slot: it is given what any setting might want to know.
# ruff: noqa: ARG002

from __future__ import annotations

from pathlib import Path

from benchwright.machine.quiet.host import Host
from benchwright.machine.quiet.setting import Plan, lacking, unknown_item
from benchwright.model.quiet import Change, Wish

_OURS = "A benchmark is running on this machine (bw quiet). Please come back later."
_ABSENT = "absent"


class Nologin:
    """/run/nologin, or /etc/nologin where there is no /run. One that is there is left."""

    name = "nologin"

    def plan(self, host: Host, wish: Wish) -> Plan:
        """Return the file that is to be made."""
        if any(path.exists() for path in _places(host)):
            return Plan()
        for path in _places(host):
            if path.parent.is_dir():
                item = str(path.relative_to(host.root))
                if not host.writable(path.parent):
                    return lacking(f"/{item} may not be made: run as root")
                return Plan((Change(self.name, item, _ABSENT, _OURS),))
        return lacking("there is neither /run nor /etc")

    def now(self, host: Host) -> str:
        """Return which file forbids it, if any does."""
        there = [path for path in _places(host) if path.exists()]
        return f"forbidden by {there[0]}" if there else "allowed"

    def check(self, host: Host, change: Change) -> None:
        """Refuse what is neither of the two files."""
        if host.root / change.item not in _places(host):
            raise unknown_item(change)

    def read(self, host: Host, change: Change) -> str | None:
        """Return the file's text, or `absent`."""
        text = host.read(host.root / change.item)
        # Empty: we were killed between making it and writing it.
        return _ABSENT if text is None else text or change.new

    def write(self, host: Host, change: Change, value: str) -> str:
        """Make the file, or remove it if it is still ours."""
        path = host.root / change.item
        if value != _ABSENT:
            host.create(path, value)
        else:
            host.remove(path)
        return ""


def _places(host: Host) -> tuple[Path, Path]:
    return host.root / "run/nologin", host.root / "etc/nologin"
