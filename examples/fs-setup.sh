#!/bin/sh
# Make a file system of type FS and mount it on $TESTROOT/mnt, empty and uncached.
#
# Usage: fs-setup.sh FS      ext2, ext3, ext4, xfs, btrfs (as root, on a loop device),
#                            or plain / none: an ordinary directory, no root needed
# Reads: TESTROOT     absolute path of the directory to work in; made if missing
#        FORMAT       yes (default): a new file system each time;
#                     no: keep the one of an earlier run, only mount it again
#        FSSIZE       size of the file system (default 1G; xfs wants 300M at least)
#        MKFSOPTS, MOUNTOPTS   more options: words for mkfs, a comma list for mount
#        LOOP_DIRECT  yes: the loop device bypasses the page cache of the disk below
#                     (default no: then unmounting does not empty that cache)
#
# Vital statistics of the machine go to stdout, and so into the study's logs.
#
# Decision: the image is a sparse file and the loop device is made by `mount -o loop`,
# which the kernel takes down with the mount. So there is no moment at which a kill -9
# leaves a device that nobody knows of, and the kernel's own list (mounts, backing
# files) is the only state: fs-cleanup.sh reads it and undoes what is ours. A file
# with the device's name, written after losetup, would have such a moment. A killed
# mount(8) may still be busy in the kernel when its shell is gone: all processes of a set-up
# hold a lock on TESTROOT (descriptor 9, inherited), and fs-cleanup.sh waits for it.
set -eu
umask 022

fail() {
    echo "fs-setup.sh: $*" >&2
    exit 1
}

vital_statistics() {
    echo "== system"
    uname -srvm
    sed -n 's/^PRETTY_NAME=//p' /etc/os-release 2>/dev/null || :
    echo "== processors: $(nproc)"
    grep -m 1 -E '^(model name|Model|Hardware|cpu model)' /proc/cpuinfo || :
    echo "== memory"
    head -n 3 /proc/meminfo
    echo "== partitions"
    cat /proc/partitions
    echo "== mounts"
    cat /proc/mounts
}

# Root must not be led astray by a directory that somebody else put there.
open_testroot() {
    case $TESTROOT in
    / | // | /.) fail "TESTROOT is /: give it a directory of its own" ;;
    /*) ;;
    *) fail "TESTROOT=$TESTROOT is not an absolute path" ;;
    esac
    mkdir -p -- "$TESTROOT"
    owner=$(stat -L -c %u -- "$TESTROOT")
    [ "$owner" = "$(id -u)" ] || [ "$owner" = "${SUDO_UID:-none}" ] ||
        fail "TESTROOT=$TESTROOT belongs to user $owner, not to you: choose another"
    root=$(cd -- "$TESTROOT" && pwd -P)
}

check_means() {
    [ "$(id -u)" = 0 ] ||
        fail "$fs needs root for loop devices and mounts; the type 'plain' does not"
    grep -qw -- "$fs" /proc/filesystems || modprobe -q -- "$fs" 2>/dev/null ||
        fail "this kernel has no $fs (see /proc/filesystems)"
    command -v "mkfs.$fs" >/dev/null ||
        fail "mkfs.$fs is missing; install e2fsprogs, xfsprogs or btrfs-progs"
}

format() {
    rm -f -- "$image"
    truncate -s "${FSSIZE:-1G}" -- "$image"
    case $fs in
    ext2 | ext3 | ext4) set -- -q -F ;;
    *) set -- -q -f ;;
    esac
    # shellcheck disable=SC2086 # MKFSOPTS is a list of words
    "mkfs.$fs" "$@" ${MKFSOPTS:-} "$image"
}

undo_on_failure() {
    status=$?
    trap - EXIT
    [ "$status" -eq 0 ] || "$here/fs-cleanup.sh" "$fs" || :
    exit "$status"
}

[ $# -eq 1 ] || fail "usage: fs-setup.sh FS"
fs=$1
here=$(dirname -- "$0")
PATH=$PATH:/usr/sbin:/sbin
[ -n "${TESTROOT:-}" ] || fail "TESTROOT is not set"

vital_statistics
open_testroot
exec 9<"$root"
flock -w 60 9 || fail "another process works in $root (see: fuser -v '$root')"
export TESTROOT_LOCKED=yes
"$here/fs-cleanup.sh" "$fs" # what an earlier run left
mount_point=$root/mnt

case $fs in
plain | none)
    mkdir -p -- "$mount_point"
    exit 0
    ;;
ext2 | ext3 | ext4 | xfs | btrfs) check_means ;;
*) fail "unknown file system '$fs': ext2, ext3, ext4, xfs, btrfs, plain" ;;
esac

image=$root/fs-$fs.img
trap undo_on_failure EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

if [ "${FORMAT:-yes}" != no ] || [ ! -s "$image" ]; then
    format
fi
mkdir -p -- "$mount_point"
mount -t "$fs" -o "loop${MOUNTOPTS:+,$MOUNTOPTS}" -- "$image" "$mount_point"
if [ "${LOOP_DIRECT:-no}" = yes ]; then
    losetup --direct-io=on "$(findmnt -n -o SOURCE --mountpoint "$mount_point")"
fi
