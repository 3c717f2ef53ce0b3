#!/usr/bin/env bash
# Run every linter, all of them even when one complains; fail if any did.
# Linters that come with neither Rust nor the virtual environment are skipped, aloud.
#
# Usage: lint.sh
# Reads: VENV   where the virtual environment is (default .venv)
set -uo pipefail
cd "$(dirname "$0")/.." || exit
bin=${VENV:-.venv}/bin
failed=0

# step COMMAND...: run it and remember whether it failed.
step() {
    echo "+ $*" >&2
    "$@" || failed=1
}

skip() { echo "SKIPPED: $1 (install it: $2)" >&2; }

# It uses one CPU; clippy leaves one idle while it waits for a crate that others need.
types=$(mktemp)
trap 'rm -f "$types"' EXIT
"$bin/mypy" >"$types" 2>&1 &
mypy=$!

if cargo fmt --version >/dev/null 2>&1; then
    step cargo fmt --check
else
    skip "cargo fmt" "rustup component add rustfmt"
fi
if cargo clippy --version >/dev/null 2>&1; then
    step cargo clippy -q --locked --all-targets -- -D warnings
    # The wheel for aarch64 is built only for a release; what does not compile there is found here.
    other=aarch64-unknown-linux-gnu
    if [ -d "$(rustc --print sysroot)/lib/rustlib/$other" ]; then
        step cargo clippy -q --locked --target $other -- -D warnings
    else
        skip "cargo clippy for aarch64" "rustup target add $other"
    fi
else
    skip "cargo clippy" "rustup component add clippy"
fi
step "$bin/ruff" check
echo "+ $bin/mypy" >&2
wait "$mypy" || failed=1
cat "$types"
page=python/benchwright/page/static/page.js
if [ ! -e "$page" ]; then
    :
elif [ -x node_modules/.bin/tsc ]; then
    step node_modules/.bin/tsc --project tsconfig.json
else
    skip "tsc $page" "make setup, with node and npm"
fi
if command -v shellcheck >/dev/null; then
    # ssh-options holds the options of ssh, one a line: no script.
    # shellcheck disable=SC2046
    step shellcheck -x scripts/*.sh examples/*.sh examples/commonsettings.d/* $(find python/benchwright/hooks python/benchwright/wrappers -type f ! -name ssh-options) .ci/run packaging/rc.local packaging/data/scripts/bw-resume-at-boot
else
    skip shellcheck "apt-get install shellcheck"
fi
exit "$failed"
