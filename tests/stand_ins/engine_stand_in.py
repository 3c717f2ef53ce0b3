"""A stand-in for bw-engine: what the command line asks, and says of what it is answered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

Done = subprocess.CompletedProcess[str]


class Engine:
    """A script that keeps the request and says its lines."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "bw-engine"

    def answers(self, *lines: dict[str, Any] | str, then: str = "", status: int = 0) -> None:
        """Let it do what `then` says, say these lines, and exit with a status."""
        texts = [one if isinstance(one, str) else json.dumps(one) for one in lines]
        self._says(texts)
        self._script(f'{then}cat "{self.directory}/lines"\nexit {status}\n')

    def answers_when_interrupted(
        self, *lines: dict[str, Any], first: str = "", status: int = 130
    ) -> None:
        """Let it say `first`, wait for SIGINT, then say the lines and exit with a status."""
        self._says([json.dumps(line) for line in lines])
        said = f"echo '{first}'\n" if first else ""
        self._script(
            f"trap 'cat \"{self.directory}/lines\"; exit {status}' INT\n"
            f'touch "{self.directory}/ready"\n{said}'
            "while :; do sleep 0.02; done\n"
        )

    def _says(self, texts: list[str]) -> None:
        (self.directory / "lines").write_text("".join(f"{text}\n" for text in texts))

    def _script(self, rest: str) -> None:
        text = f'#!/bin/sh\ncat > "{self.directory}/request"\n{rest}'
        self.path.write_text(text)
        self.path.chmod(0o755)

    @property
    def request(self) -> dict[str, Any]:
        """What it was asked."""
        found: dict[str, Any] = json.loads((self.directory / "request").read_text())
        return found

    @property
    def environment(self) -> dict[str, str]:
        """Where bw finds it."""
        return {**os.environ, "BW_ENGINE": str(self.path), "COLUMNS": "100"}

    def bw(self, *words: str, **more: str) -> Done:
        """Run bw with this engine."""
        return subprocess.run(
            [sys.executable, "-m", "benchwright.cli.main", *words],
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=60,
            env={**self.environment, **more},
        )
