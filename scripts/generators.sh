#!/usr/bin/env bash
# Install the load generators that Debian does not package, for the tests of their adapters:
# k6, vegeta and ghz by Go, oha by cargo. They are built once, into a cache outside of the checkout;
# where a toolchain is missing, or with no network, the tests of that generator are skipped.
#
# Usage: generators.sh            prints the directory to put on PATH
# Reads: XDG_CACHE_HOME           where caches are (default ~/.cache)
set -uo pipefail
root=${XDG_CACHE_HOME:-$HOME/.cache}/benchwright/generators
mkdir -p "$root/bin"

say() { echo "generators: $*" >&2; }

# by_go NAME MODULE@VERSION
by_go() {
    if [ -x "$root/bin/$1" ]; then return; fi
    if ! command -v go >/dev/null; then say "$1 is not built: Go is missing"; return; fi
    say "building $1"
    GOBIN=$root/bin GOFLAGS=-modcacherw go install "$2" >"$root/$1.log" 2>&1 ||
        say "$1 was not built: $root/$1.log"
}

by_go vegeta github.com/tsenart/vegeta/v12@v12.13.0
by_go k6 go.k6.io/k6@v1.8.1
by_go ghz github.com/bojand/ghz/cmd/ghz@v0.93.0
if [ ! -x "$root/bin/oha" ]; then
    say "building oha"
    cargo install oha --version 1.16.0 --locked --root "$root" >"$root/oha.log" 2>&1 ||
        say "oha was not built: $root/oha.log"
fi
echo "$root/bin"
