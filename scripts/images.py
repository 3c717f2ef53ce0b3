#!/usr/bin/env python3
"""Draw the images of docs/ again, each by the command that its page shows; `make images` runs it.

The commands read stored data (docs/images/data): results files, and studies in archives. An
image whose data is not stored (traces that we may not distribute, a load of this machine) is
drawn only where --data names a directory that has it. The workbench paper's figures are drawn
by benches/paper_workbench.py, the issue errors by benches/issue_error.py --plots docs/images.

Usage: scripts/images.py [--data DIR] [--out DIR] [IMAGE...]
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
DATA = IMAGES / "data"
PAGES = (
    "plots.md",
    "chill.md",
    "traces.md",
    "workload-toml.md",
    "decisions/0006-engine.md",
    "decisions/0026-workbench-paper.md",
    "engine-measured.md",
)
PROGRAMS = Path(sys.executable).parent


def commands() -> dict[str, list[str]]:
    """Return the words of the command that draws each image, by the image's name."""
    found = {}
    for page in PAGES:
        text = (ROOT / "docs" / page).read_text()
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
            for line in block.replace("\\\n", "").splitlines():
                image = re.search(r"docs/images/([\w-]+\.png)", line)
                if image:
                    found[image[1]] = shlex.split(line)
    return found


def inputs_of(words: list[str], directory: Path) -> list[str]:
    """Return the arguments of a command that are neither options nor in the directory."""
    files = [word for word in words if re.search(r"\.(gz|vscsi|bw|csv)$", word)]
    studies = [word.split(":")[0] for word in words if re.match(r"\w+:", word)]
    if "--study" in words:
        studies.append(words[words.index("--study") + 1])
    if words[1] == "plot" and re.fullmatch(r"\w+", words[-1]):
        studies.append(words[-1])
    patterns = [word for word in words if word.endswith(".res")]
    absent = [one for one in (*files, *studies) if not (directory / one).exists()]
    return absent + [one for one in patterns if not list(directory.glob(one))]


def lay_out(directory: Path, data: Path | None, out: Path) -> None:
    """Make a directory in which the commands of the pages run as printed."""
    for file in DATA.iterdir():
        if file.name.endswith(".tar.xz"):
            with tarfile.open(file) as archive:
                archive.extractall(directory, filter="data")
        else:
            (directory / file.name).symlink_to(file)
    for file in data.resolve().iterdir() if data else ():
        if not (directory / file.name).exists():
            (directory / file.name).symlink_to(file)
    (directory / "benches").symlink_to(ROOT / "benches")
    (directory / "docs").mkdir()
    (directory / "docs" / "images").symlink_to(out.resolve())


def main() -> int:
    """Draw the images that are named, or all whose data there is; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", nargs="*", metavar="IMAGE", help="such as bar.png")
    parser.add_argument("--data", type=Path, help="further studies and traces")
    parser.add_argument("--out", type=Path, default=IMAGES)
    arguments = parser.parse_args()
    known = commands()
    if unknown := set(arguments.images) - set(known):
        parser.error(f"no page has a command for {', '.join(sorted(unknown))}")
    status = 0
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        lay_out(directory, arguments.data, arguments.out)
        for image in arguments.images or known:
            words = known[image]
            measures = words[1] == "load" and image not in arguments.images
            absent = inputs_of(words, directory)
            if measures or absent:
                why = "a load of this machine" if measures else f"no {absent[0]}"
                print(f"{image}: not drawn: {why}")
                continue
            program = shutil.which(words[0], path=str(PROGRAMS)) or words[0]
            done = subprocess.run([program, *words[1:]], cwd=directory, stdout=subprocess.DEVNULL)
            print(f"{image}: {'drawn' if done.returncode == 0 else 'failed'}")
            status |= done.returncode
    return status


if __name__ == "__main__":
    sys.exit(main())
