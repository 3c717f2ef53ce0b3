#!/bin/sh
# Unpack, configure and compile a package: three measured commands of one epoch.
#
# Usage: compile.sh             (an EXEC command; fs-setup.sh made $TESTROOT/mnt and
#                                compile-package.sh the package)
# Reads: TESTROOT, APTHREAD   where, and which of the concurrent processes this is
#        PACKAGE              a .tar.gz with one directory, a ./configure and a Makefile
#                             in it (default $TESTROOT/package.tar.gz)
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
bw measure -- tar -xzf "$package"
cd -- */
bw measure -- ./configure
bw measure -- make -s -j "${JOBS:-1}"
