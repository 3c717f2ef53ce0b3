#!/usr/bin/env bash
# Set up everything that Benchwright's own targets need: Debian packages, a virtual
# environment with the dependencies, the libraries of the report page, the Rust launcher,
# and the wheel installed with its bytecode. Does only what has changed since the last time.
#
# Usage: setup.sh
# Reads: VENV     where the virtual environment is (default .venv)
#        PYTHON   which Python to make it from (default: the first found, 3.11 or newer)
#
# Decision: the wheel is built and installed, not linked to the source tree, so that the
# tests run what a user would install: the hooks' executable bits, the launcher beside
# the interpreter, compiled bytecode. The price, 2 s after each change, is paid once.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${VENV:-.venv}
requirements=$venv/requirements.txt
# uPlot for the report page: in the wheel, not in git.
page_vendor=python/benchwright/page/static/vendor
# Set on some machines; bytecode must be written: `bw` starts in half the time with it.
unset PYTHONDONTWRITEBYTECODE

say() { echo "setup: $*" >&2; }

fail() {
    say "$@"
    exit 1
}

suits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null && suits "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    fail "no Python 3.11 or newer was found (tried ${PYTHON:-} python3, python3.11 to 3.14);" \
        "install one, or name it: make setup PYTHON=/path/to/python3"
}

check_rust() {
    command -v cargo >/dev/null ||
        fail "cargo is missing; install Rust 1.88 or newer: https://rustup.rs"
    command -v cc >/dev/null || fail "no C compiler (cc) to link with: apt-get install gcc"
}

debian_packages() {
    local plugins
    plugins=/usr/lib/$(uname -m)-linux-gnu/ganesha
    scripts/packages.sh postmark:postmark mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs valgrind:valgrind \
        mkfs.btrfs:btrfs-progs findmnt:util-linux losetup:mount /usr/bin/time:time perl:perl shellcheck:shellcheck \
        nginx:nginx-light apache2:apache2-bin fio:fio blkreplay:blkreplay \
        pg_ctlcluster:postgresql pgbench:postgresql redis-server:redis-server \
        memcached:memcached dnsmasq:dnsmasq-base \
        perf:linux-perf bpftrace:bpftrace strace:strace bonnie++:bonnie++ stress-ng:stress-ng \
        sshd:openssh-server ssh:openssh-client qemu-system-x86_64:qemu-system-x86 \
        busybox:busybox-static cpio:cpio debugfs:e2fsprogs \
        ab:apache2-utils wrk:wrk bindfs:bindfs curl:curl openssl:openssl ip:iproute2 \
        setpriv:util-linux unshare:util-linux ps:procps swapon:mount \
        chromium-headless-shell:chromium-headless-shell node:nodejs npm:npm \
        ganesha.nfsd:nfs-ganesha "$plugins/libfsalvfs.so:nfs-ganesha-vfs" \
        "$plugins/libfsalmem.so:nfs-ganesha-mem" rpcbind:rpcbind nfs-ls:libnfs-utils \
        hyperfine:hyperfine xmllint:libxml2-utils /usr/share/benchmark/compare.py:libbenchmark-tools \
        slurmctld:slurmctld slurmd:slurmd sbatch:slurm-client munged:munge \
        sadf:sysstat man:man-db groff:groff-base mandoc:mandoc zsh:zsh fish:fish
}

make_venv() {
    if [ -x "$venv/bin/python" ] && suits "$venv/bin/python"; then return; fi
    local python version
    python=$(find_python)
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        # Debian parts them from Python. A name that is no command: always "missing".
        scripts/packages.sh "/none:python$version-venv"
    fi
    say "making $venv with Python $version ($python)"
    "$python" -m venv --clear "$venv" ||
        fail "no virtual environment could be made: apt-get install python$version-venv"
}

# What the wheel needs to be built, to run, and to be worked on.
write_requirements() {
    "$venv/bin/python" - >"$requirements" <<'PYTHON'
import tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)
for part in (
    project["build-system"]["requires"],
    project["project"]["dependencies"],
    project["project"]["optional-dependencies"]["all"],
    project["dependency-groups"]["dev"],
):
    print("\n".join(part))
PYTHON
}

# unless_done NAME HASH COMMAND...: run COMMAND unless it was done with that HASH.
unless_done() {
    local stamp=$venv/.done-$1 hash=$2
    shift 2
    if [ -e "$stamp" ] && [ "$(<"$stamp")" = "$hash" ]; then return; fi
    rm -f "$stamp"
    "$@"
    echo "$hash" >"$stamp"
}

install_requirements() {
    say "installing the dependencies"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check -r "$requirements"
}

# The report page draws without uPlot too, with fewer charts that zoom; so its absence is no error here.
page_libraries() {
    if ! command -v npm >/dev/null; then
        say "npm is missing: the report page is built without uPlot, and its tests fail"
        return
    fi
    unless_done npm "$(cat package.json package-lock.json | sha256sum)" install_page_libraries
}

install_page_libraries() {
    say "installing the libraries of the report page"
    npm ci --ignore-scripts --silent ||
        fail "npm ci failed; the registry is $(npm config get registry)"
    rm -rf "$page_vendor"
    install -D -m 644 -t "$page_vendor" node_modules/uplot/dist/uPlot.iife.min.js \
        node_modules/uplot/dist/uPlot.min.css node_modules/uplot/LICENSE
}

source_hash() {
    {
        pwd
        find pyproject.toml Cargo.toml Cargo.lock README.md LICENSE* crates packaging python -type f \
            ! -path 'packaging/data/data/*' ! -name '*.pyc' ! -path '*/target/*' -printf '%p %m\n' -exec sha256sum {} + | sort
        cat "$requirements"
        cargo --version
    } | sha256sum
}

install_wheel() {
    local program
    say "building the launcher and the wheel"
    cargo build -q --release --locked
    rm -rf dist packaging/data/data
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=python "$venv/bin/python" scripts/packaged_files.py
    "$venv/bin/maturin" build -q --release --locked --out dist
    "$venv/bin/python" -m pip install -q --disable-pip-version-check \
        --force-reinstall --no-deps dist/*.whl
    "$venv/bin/python" -m compileall -q "$("$venv/bin/python" -c \
        'import sysconfig; print(sysconfig.get_path("purelib"))')/benchwright"
    for program in bw benchwright getstats graphit bw-launcher bw-engine bw-sampler; do
        [ -x "$venv/bin/$program" ] || fail "the wheel did not install $venv/bin/$program"
    done
}

check_rust
debian_packages
make_venv
write_requirements
unless_done requirements "$(sha256sum <"$requirements")" install_requirements
if [ ! -d node_modules ] || [ ! -d "$page_vendor" ]; then rm -f "$venv/.done-npm"; fi
page_libraries
if ! compgen -G "dist/*.whl" >/dev/null; then rm -f "$venv/.done-wheel"; fi
unless_done wheel "$(source_hash)" install_wheel
