#!/bin/sh
# Unpack, configure and compile a package: three measured commands of one epoch. Packages
# differ in how they are configured and where they are built: the variables say it.
#
# Usage: compile.sh             (an EXEC command; fs-setup.sh made $TESTROOT/mnt and
#                                compile-package.sh the package)
# Reads: TESTROOT, APTHREAD   where, and which of the concurrent processes this is
#        PACKAGE              a tar archive with one directory in it, compressed or not
#                             (default $TESTROOT/package.tar.gz)
#        CONFIGURE            the script that configures, with options: words (default
#                             ./configure; OpenSSL's is ./config; none: no such script)
#        BUILD                in (default): in the source tree; out: in a directory of its
#                             own beside it, as GCC is built
#        TARGETS              of make: words (default: its first)
#        JOBS                 of make (default 1)
#
# `bw measure` writes a block for each command; they are unified into one result.
set -eu

: "${TESTROOT:?is not set}"
thread=${APTHREAD:-1}
location=$TESTROOT/mnt/thread-$thread
package=${PACKAGE:-$TESTROOT/package.tar.gz}

remove_files() {
    cd /
    rm -rf -- "$location"
}

trap remove_files EXIT
trap 'exit 143' TERM INT HUP
rm -rf -- "$location"
mkdir -- "$location"
cd -- "$location"

bw barrier
bw measure -- tar -xf "$package"
cd -- */
# shellcheck disable=SC2086 # CONFIGURE is a list of words
set -- ${CONFIGURE:-./configure}
case ${BUILD:-in} in
in) ;;
out)
    case ${1#./} in
    none | /*) ;;
    *)
        # Relative: make takes a blank in TESTROOT for the end of a name.
        script=../${PWD##*/}/${1#./}
        shift
        set -- "$script" "$@"
        ;;
    esac
    mkdir -- ../build
    cd -- ../build
    ;;
*)
    echo "compile.sh: BUILD=$BUILD is neither in nor out" >&2
    exit 2
    ;;
esac
if [ "$1" != none ]; then bw measure -- "$@"; fi
# shellcheck disable=SC2086 # TARGETS is a list of words
bw measure -- make -s -j "${JOBS:-1}" ${TARGETS:-}
