#!/usr/bin/env bash
# Make the files of a release in dist/, and nothing else there: the source distribution, and the wheels for x86-64 and
# aarch64, both built from it, so that it is known to be complete.
#
# Usage: wheels.sh
# Reads: VENV   the virtual environment of scripts/setup.sh (default .venv)
#
# Decision: zig links against the symbols of glibc 2.28 (manylinux_2_28), on any host. Older ones would help nobody:
# google-re2 and numpy, which every installation needs, have no wheels below 2.26 and 2.27. Rejected: the containers of manylinux (a container
# runtime, an emulated one for aarch64) and the cross compiler of the host (its glibc is too new).
set -euo pipefail
cd "$(dirname "$0")/.."

machines=(x86_64 aarch64)
level=manylinux_2_28
tools=$(scripts/release_tools.sh)
python=${VENV:-.venv}/bin/python
# The time in the files is that of the commit.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH

say() { echo "wheels: $*" >&2; }

fail() {
    say "$@"
    exit 1
}

rust_for() {
    local target=$1-unknown-linux-gnu
    if [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then return; fi
    command -v rustup >/dev/null || fail "Rust for $target is missing, and rustup to install it too: https://rustup.rs"
    rustup target add "$target"
}

# maturin gives every file the mode 644; the hooks are executables.
restore_modes() {
    "$python" - "$1" <<'PYTHON'
import gzip
import os
import sys
import tarfile
from pathlib import Path

path = Path(sys.argv[1])
with (
    tarfile.open(path) as old,
    path.with_suffix(".new").open("wb") as file,
    gzip.GzipFile("", "wb", mtime=int(os.environ["SOURCE_DATE_EPOCH"]), fileobj=file) as zipped,
    tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as new,
):
    for member in old:
        source = Path(*Path(member.name).parts[1:])
        if source.is_file() and os.access(source, os.X_OK):
            member.mode = 0o755
        new.addfile(member, old.extractfile(member))
path.with_suffix(".new").rename(path)
PYTHON
}

[ -d python/benchwright/page/static/vendor ] || fail "the libraries of the report page are missing: make setup, with npm"
for machine in "${machines[@]}"; do rust_for "$machine"; done
rm -rf dist packaging/data/data target/sdist
mkdir -p dist target/sdist
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=python "$python" scripts/packaged_files.py

say "packing the source distribution"
"$tools/maturin" sdist --out dist 2>target/sdist.txt || fail "$(<target/sdist.txt)"
sdist=$(echo dist/*.tar.gz)
restore_modes "$sdist"
tar -xzf "$sdist" -C target/sdist --strip-components 1
for machine in "${machines[@]}"; do
    say "building the wheel for $machine"
    (
        out=$PWD/dist
        export CARGO_TARGET_DIR=$PWD/target/wheels PATH=$tools:$PATH
        cd target/sdist
        "$tools/maturin" build --quiet --release --locked --zig --target "$machine-unknown-linux-gnu" \
            --compatibility "$level" --out "$out"
    )
done
ls -l dist >&2
