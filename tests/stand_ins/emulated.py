"""A virtual environment of an aarch64 Python, run by QEMU's user mode on this machine
(scripts/aarch64.sh).

QEMU passes the start of a program on to this machine's kernel, which starts no aarch64 program. So
each aarch64 program of the environment is a script that starts it by QEMU; other programs, such as
`gzip`, are this machine's.
"""

from __future__ import annotations

import shlex
import zipfile
from dataclasses import dataclass
from pathlib import Path

from new_environment import NewEnvironment

PYTHON = "python3.13"


@dataclass(frozen=True)
class EmulatedEnvironment(NewEnvironment):
    """A new environment as on a machine with aarch64 CPUs and Debian 13."""

    system: Path
    """What scripts/aarch64.sh made."""

    @classmethod
    def emulated(cls, place: Path, system: Path) -> EmulatedEnvironment:
        """Make the environment, with pip."""
        new = cls(place, system)
        new.link_programs()
        (new.packages).mkdir(parents=True)
        new.bin.mkdir()
        new.write_start(new.bin / "python", new.root / "usr" / "bin" / PYTHON)
        (place / "venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
        (pip,) = (new.root / "usr" / "share" / "python-wheels").glob("pip-*.whl")
        with zipfile.ZipFile(pip) as wheel:
            wheel.extractall(new.packages)
        return new

    @property
    def root(self) -> Path:
        """Return the directory of the aarch64 system's files."""
        return self.system / "root"

    @property
    def packages(self) -> Path:
        return self.place / "venv" / "lib" / PYTHON / "site-packages"

    def write_start(self, script: Path, program: Path) -> None:
        """Write a script that starts an aarch64 program."""
        words = shlex.join((str(self.system / "qemu"), "-L", str(self.root)))
        script.write_text(f'#!/bin/sh\nexec {words} -0 "$0" {program} "$@"\n')
        script.chmod(0o755)

    def wrap_programs(self) -> list[str]:
        """Replace each aarch64 program that was installed by a script that starts it; return their
        names."""
        aside = self.place / "venv" / "aarch64"
        aside.mkdir()
        wrapped = []
        for script in sorted(self.bin.iterdir()):
            with script.open("rb") as file:
                is_native = file.read(4) == b"\x7fELF"
            if is_native:
                self.write_start(script, script.rename(aside / script.name))
                wrapped.append(script.name)
        return wrapped
