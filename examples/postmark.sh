#!/bin/sh
# Run PostMark in a directory of this thread's own, measured, in step with the others.
#
# Usage: postmark.sh          (an EXEC command; fs-setup.sh made $TESTROOT/mnt)
# Reads: TESTROOT, APTHREAD   where, and which of the concurrent processes this is
#        PM_FILES             files at the start, for each thread   (default 2000)
#        PM_TRANSACTIONS      transactions, for each thread         (default 5000)
#        PM_SIZE_LOW, PM_SIZE_HIGH   file sizes [bytes]      (default 500 to 10000)
#        PM_SUBDIRECTORIES    directories to spread them over       (default 0)
#        PM_READ, PM_WRITE    block sizes [bytes]                   (default 4096)
#        PM_SEED              of its random numbers; each thread adds its own number,
#                             so that threads do not march in step  (default 42)
# Source: J. Katcher, PostMark, TR3022, Network Appliance, 1997.
#
# Decisions: the configuration says `set location .`, because PostMark takes a blank
# in a path for the start of a weight. PostMark exits with 0 even when the disk is
# full, so its stderr decides: an error there fails the trial.
set -eu

fail() {
    echo "postmark.sh: $*" >&2
    exit 1
}

write_config() {
    cat <<CONFIG
set location .
set number ${PM_FILES:-2000}
set transactions ${PM_TRANSACTIONS:-5000}
set size ${PM_SIZE_LOW:-500} ${PM_SIZE_HIGH:-10000}
set read ${PM_READ:-4096}
set write ${PM_WRITE:-4096}
set seed $((${PM_SEED:-42} + thread))
CONFIG
    if [ "${PM_SUBDIRECTORIES:-0}" -gt 0 ]; then
        echo "set subdirectories $PM_SUBDIRECTORIES" # 0 is an error to PostMark
    fi
    printf 'run\nquit\n'
}

# shellcheck disable=SC2317 # it is reached: by the trap
remove_files() {
    cd /
    rm -rf -- "$location" "$config" "$errors"
}

thread=${APTHREAD:-1}
[ -d "${TESTROOT:?is not set}/mnt" ] || fail "there is no $TESTROOT/mnt: run fs-setup.sh first"
command -v postmark >/dev/null || fail "postmark is missing; Debian: apt-get install postmark"
location=$TESTROOT/mnt/thread-$thread
config=$TESTROOT/postmark-$thread.conf
errors=$TESTROOT/postmark-$thread.err

trap remove_files EXIT
trap 'exit 143' TERM INT HUP
rm -rf -- "$location"
mkdir -- "$location"
write_config >"$config"
cd -- "$location"

status=0
bw barrier -- bw measure -- postmark "$config" 2>"$errors" || status=$?

cat -- "$errors" >&2
if grep -q '^Error:' -- "$errors"; then
    fail "PostMark reported errors"
fi
exit "$status"
