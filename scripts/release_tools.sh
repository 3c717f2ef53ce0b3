#!/usr/bin/env bash
# Install what only a release needs (the dependency group `release` of pyproject.toml) into an environment of its own:
# zig alone has 450 MB, and no test needs it.
#
# Usage: release_tools.sh      prints the directory of the programs
# Reads: VENV   the virtual environment of scripts/setup.sh (default .venv)
set -euo pipefail
cd "$(dirname "$0")/.."

place=$PWD/target/release-tools
wanted=$("${VENV:-.venv}/bin/python" - <<'PYTHON'
import tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)
print("\n".join(project["build-system"]["requires"] + project["dependency-groups"]["release"]))
PYTHON
)
if [ ! -e "$place/requirements.txt" ] || [ "$(<"$place/requirements.txt")" != "$wanted" ]; then
    echo "release_tools: installing $place" >&2
    "${VENV:-.venv}/bin/python" -m venv --clear "$place"
    "$place/bin/python" -m pip install -q --disable-pip-version-check -r <(echo "$wanted") >&2
    echo "$wanted" >"$place/requirements.txt"
fi
echo "$place/bin"
