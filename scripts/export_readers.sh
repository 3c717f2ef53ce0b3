#!/usr/bin/env bash
# Install the readers of exports that are not in the virtual environment, for the tests of `bw export`:
# benchstat by Go, Apache Otava from PyPI in an environment of its own (its dependencies are those of
# a service), promtool out of Debian's package prometheus, which is not installed, because it would start a server;
# and actionlint by Go, which reads the release workflow.
# They are made once, into a cache outside of the checkout; what cannot be had is left out, and
# its tests are skipped.
#
# Usage: export_readers.sh        prints the directory to put on PATH
# Reads: XDG_CACHE_HOME           where caches are (default ~/.cache)
#        PYTHON                   the Python of Otava's environment (default python3)
set -uo pipefail
root=${XDG_CACHE_HOME:-$HOME/.cache}/benchwright/readers
mkdir -p "$root/bin"

say() { echo "export_readers: $*" >&2; }

# made NAME COMMAND...: run COMMAND, which makes bin/NAME, unless it is there.
made() {
    local name=$1
    shift
    if [ -x "$root/bin/$name" ]; then return; fi
    say "making $name"
    "$@" >"$root/$name.log" 2>&1 || say "$name was not made: $root/$name.log"
}

benchstat() {
    GOBIN=$root/bin GOFLAGS=-modcacherw go install golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
}

actionlint() {
    GOBIN=$root/bin GOFLAGS=-modcacherw go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
}

otava() {
    "${PYTHON:-python3}" -m venv --clear "$root/otava" &&
        "$root/otava/bin/python" -m pip install -q --disable-pip-version-check apache-otava==0.8.0 &&
        ln -sf "$root/otava/bin/otava" "$root/bin/otava"
}

promtool() {
    local place
    place=$(mktemp -d) || return
    (cd "$place" && apt-get download prometheus && dpkg-deb -x prometheus_*.deb . &&
        install -m 755 usr/bin/promtool "$root/bin/promtool")
    local status=$?
    rm -rf "$place"
    return $status
}

made benchstat benchstat
made actionlint actionlint
made otava otava
made promtool promtool
echo "$root/bin"
