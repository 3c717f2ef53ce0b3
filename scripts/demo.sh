#!/usr/bin/env bash
# The demonstration: PostMark over the file systems that this machine offers, one, two
# and four at a time, until stable; then the table. A minute or two.
#
# Usage: demo.sh
# Reads: VENV   where the virtual environment is (default .venv)
# Writes: .demo/study, or .demo/study-2 and so on: an earlier one is never touched
set -euo pipefail
cd "$(dirname "$0")/.."
bw=$(cd "${VENV:-.venv}/bin" && pwd)/bw

fail() {
    echo "demo: $*" >&2
    exit 1
}

# The first name that is free; mkdir is what makes it ours.
new_study() {
    local n=1 directory=.demo/study
    mkdir -p .demo
    until mkdir "$directory" 2>/dev/null; do
        n=$((n + 1))
        [ "$n" -lt 1000 ] || fail "no new directory can be made in .demo"
        directory=.demo/study-$n
    done
    echo "$directory"
}

# Those that can really be made and mounted here: being root is not enough in a container.
file_systems() {
    local fs found=()
    for fs in ext2 ext4 xfs; do
        if [ "$(id -u)" = 0 ] && examples/fs-setup.sh "$fs" >/dev/null 2>&1; then
            examples/fs-cleanup.sh "$fs" && found+=("$fs")
        fi
    done
    echo "${found[*]:-plain}"
}

command -v postmark >/dev/null || fail "postmark is missing: sudo apt-get install postmark"
study=$(new_study)
export TESTROOT=$PWD/$study/testroot
trap 'examples/fs-cleanup.sh' EXIT
list=$(file_systems)
settings=(-D "TESTFS=$list")
if [ "$list" = plain ]; then
    echo "demo: no loop devices here (that takes root): a plain directory instead" >&2
    # A disk that others use too is many times slower than an image in the page cache.
    settings+=(-D PM_FILES=500 -D PM_TRANSACTIONS=1000)
fi

echo "+ bw run examples/demo.ap ${settings[*]@Q} --study $study" >&2
status=0
"$bw" run examples/demo.ap "${settings[@]}" --study "$study" || status=$?
exit "$status"
