"""The commands that install: they find the wheel that `make build`, or a release, left in dist/."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/install.md")
MACHINE = platform.machine()
BUILT = f"benchwright-0.1.0-py3-none-manylinux_2_34_{MACHINE}.whl"
RELEASED = f"benchwright-0.1.0-py3-none-manylinux_2_28_{MACHINE}.whl"
OTHER = "benchwright-0.1.0-py3-none-manylinux_2_28_other.whl"


def commands(page: str) -> list[str]:
    """Return the lines of a page that install from dist/."""
    lines = (ROOT / page).read_text().splitlines()
    shown = [re.sub(r"^(\$| {3}) ", "", line) for line in lines]
    return [one for one in shown if re.match(r"pip install .*dist/.*\.whl", one)]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(
    ("wheels", "installed"),
    [
        ((BUILT,), BUILT),
        ((RELEASED, OTHER), RELEASED),
        ((RELEASED, OTHER, BUILT), BUILT),
        ((BUILT, OTHER, RELEASED), RELEASED),
    ],
)
def test_the_newest_wheel_of_this_machine_is_installed_with_its_extras(
    tmp_path: Path, page: str, wheels: tuple[str, ...], installed: str
) -> None:
    (tmp_path / "dist").mkdir()
    for at, name in enumerate(wheels):
        wheel = tmp_path / "dist" / name
        wheel.touch()
        os.utime(wheel, (at, at))
    pip = tmp_path / "pip"
    pip.write_text('#!/bin/sh\nprintf "%s\\n" "$@" >given\n')
    pip.chmod(0o755)
    (command,) = commands(page)
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True, env={"PATH": path})
    given = (tmp_path / "given").read_text().splitlines()
    assert given == ["install", f"dist/{installed}[all]"]


def test_no_page_and_no_source_installs_a_bare_name() -> None:
    """The package is on no index, where the name may be somebody else's."""
    bare = re.compile(r"(pip|pipx|uv)( tool)? (install|add) (-\S+ )*['\"]?benchwright\b(?!-)")
    files = [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    files += (ROOT / "python").rglob("*.py")
    assert bare.search("pip install 'benchwright[plot]'")
    assert [str(one) for one in files if bare.search(one.read_text())] == []
