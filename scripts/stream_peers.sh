#!/usr/bin/env bash
# Install the load generators for language models that benches/streams.py runs beside ours, from PyPI, each in
# an environment of its own. They are made once, into a cache outside of the checkout, of several GB; what cannot
# be installed is left out, and its log says why.
#
# Usage: stream_peers.sh          prints the directory with the environments aiperf and guidellm
# Reads: XDG_CACHE_HOME           where caches are (default ~/.cache)
#        PYTHON                   the Python of the environments (default python3)
set -uo pipefail
root=${XDG_CACHE_HOME:-$HOME/.cache}/benchwright/stream-peers
mkdir -p "$root"

say() { echo "stream_peers: $*" >&2; }

# by_pip NAME REQUIREMENT
by_pip() {
    local name=$1
    if [ -e "$root/$name/made" ]; then return; fi
    say "installing $2"
    if "${PYTHON:-python3}" -m venv --clear "$root/$name" >"$root/$name.log" 2>&1 &&
        "$root/$name/bin/python" -m pip install --disable-pip-version-check "$2" >>"$root/$name.log" 2>&1; then
        touch "$root/$name/made"
    else
        say "$2 was not installed: $root/$name.log"
    fi
}

by_pip aiperf aiperf==0.13.0
by_pip guidellm guidellm==0.8.1
echo "$root"
