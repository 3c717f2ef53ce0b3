"""The wheel in a new virtual environment, as a user installs it, and the first commands of the
README with it."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROGRAMS = ("sh", "gzip")
"""What the README's first commands start, apart from `bw`."""
# On a busy machine a precision can take minutes.
CONFIGURATION = '[run]\nmax-time = "8s"\n[compare]\nmax-time = "8s"\n'
UNDECIDED = 3


def readme_commands() -> list[str]:
    """Return the commands of the README that need no server and end in seconds, in its order."""
    text = (ROOT / "README.md").read_text()
    return re.findall(r"^\$ (bw (?:compare|run|load) .*)$", text, re.MULTILINE)


@dataclass(frozen=True)
class NewEnvironment:
    """A virtual environment in which nothing is installed yet; its PATH has no compiler."""

    place: Path

    @classmethod
    def made(cls, place: Path) -> NewEnvironment:
        """Make the environment, with pip."""
        subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
        new = cls(place)
        new.link_programs()
        return new

    def link_programs(self) -> None:
        """Make the directory of what is on PATH beside the environment's own programs."""
        (self.place / "programs").mkdir()
        for name in PROGRAMS:
            found = shutil.which(name)
            assert found, f"{name} is not installed"
            (self.place / "programs" / name).symlink_to(found)

    @property
    def bin(self) -> Path:
        """Return the directory of its programs."""
        return self.place / "venv" / "bin"

    @property
    def packages(self) -> Path:
        """Return the directory of its packages."""
        (found,) = (self.place / "venv" / "lib").glob("python*/site-packages")
        return found

    def run(
        self,
        *words: str | Path,
        statuses: Sequence[int] = (0,),
        timeout: float = 280,
        cwd: Path | None = None,
    ) -> str:
        """Run a program of the environment; return what it wrote to stdout and stderr.

        `timeout` [s] is for what hangs.
        """
        path = f"{self.bin}:{self.place / 'programs'}"
        assert shutil.which("cc", path=path) is None
        config = self.place / "config.toml"
        config.write_text(CONFIGURATION)
        program = shutil.which(words[0], path=path)
        assert program, f"{words[0]} is not installed"
        done = subprocess.run(
            [program, *words[1:]],
            cwd=cwd or self.place,
            env={"PATH": path, "HOME": str(self.place), "BW_CONFIG": str(config)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode in statuses, f"{words}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def link_requirements(self) -> None:
        """Link what the installed wheel requires, and what that requires, from the environment of
        the tests.

        Nothing is asked of a package index, and an import that the wheel does not declare fails.
        """
        (wheel,) = metadata.distributions(name="benchwright", path=[str(self.packages)])
        wanted, linked = [wheel], {"benchwright"}
        while wanted:
            for text in wanted.pop().requires or ():
                requirement = Requirement(text)
                marker = requirement.marker
                if requirement.name in linked or (marker and not marker.evaluate({"extra": ""})):
                    continue
                linked.add(requirement.name)
                found = metadata.distribution(requirement.name)
                wanted.append(found)
                for top in {Path(file).parts[0] for file in found.files or ()}:
                    if top not in ("..", "__pycache__"):
                        link = self.packages / top
                        link.symlink_to(str(found.locate_file(top)))

    def run_first_commands(self, seconds: float = 280) -> None:
        """Run the first commands of the README, and the report of what they measured."""
        assert "bw " in self.run("bw", "--version")
        assert self.run("benchwright", "--version") == self.run("bw", "--version")
        study = self.place / "first"
        study.mkdir()
        # 1 MB, of which each compression takes some 50 ms.
        numbers = random.Random(1)
        words = (str(numbers.getrandbits(24)) for _ in range(120_000))
        (study / "big.txt").write_text(" ".join(words))
        commands = readme_commands()
        assert [one.split()[1] for one in commands] == ["compare", "run", "load"]
        for command in commands:
            self.run("sh", "-c", command, statuses=(0, UNDECIDED), timeout=seconds, cwd=study)
        self.run("bw", "report", "-o", "report.html", cwd=study)
        page = (study / "report.html").read_text()
        assert "gzip" in page
        vendor = self.packages / "benchwright" / "page" / "static" / "vendor"
        assert {"uPlot.iife.min.js", "uPlot.min.css", "LICENSE"} <= {
            one.name for one in vendor.iterdir()
        }
