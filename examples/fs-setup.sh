#!/bin/sh
# Make a file system of type FS and mount it on $TESTROOT/mnt, empty and uncached.
#
# Usage: fs-setup.sh FS      ext2, ext3, ext4, xfs, btrfs (as root), or what a hook
#                            mounts; plain / none: an ordinary directory, no root needed
# Reads: TESTROOT     absolute path of the directory to work in; made if missing
#        TESTDEV      a partition or disk to use whole, such as /dev/sdb1; without it an
#                     image file in TESTROOT on a loop device
#        TESTDEV_OVERWRITE   yes: what is on TESTDEV may be lost
#        FORMAT       yes (default): a new file system each time;
#                     no: keep the one of an earlier run, only mount it again
#        FSSIZE       size of the image file (default 1G; xfs wants 300M at least)
#        MKFSOPTS, MOUNTOPTS   more options: words for mkfs, a comma list for mount
#        LOOP_DIRECT  yes: the loop device bypasses the page cache of the disk below
#                     (default no: then unmounting does not empty that cache)
#        APLIB        directories, separated by colons, whose commonsettings.d has hooks,
#                     as that beside this script (events: mkfs, tune, mount, mounted;
#                     unmount in fs-cleanup.sh; how they are called: fs-common.sh)
#
# Vital statistics of the machine go to stdout, and so into the study's logs.
#
# TESTDEV is refused while a mount, swap, RAID, LVM or another program holds it (the
# kernel grants O_EXCL to one only), and where it holds anything known, a file system or
# partitions, that this script did not make. What it makes there it knows by its UUID,
# kept in $TESTROOT/testdev.uuid before the file system is made.
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

# Absolute, so that hooks and fs-cleanup.sh are found from anywhere.
here=$(cd -- "$(dirname -- "$0")" && pwd -P)
fs=${1-}
# shellcheck source=examples/fs-common.sh
. "$here/fs-common.sh"

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
    mkdir -p -- "$TESTROOT"
    owner=$(stat -L -c %u -- "$TESTROOT")
    [ "$owner" = "$(id -u)" ] || [ "$owner" = "${SUDO_UID:-none}" ] ||
        fail "TESTROOT=$TESTROOT belongs to user $owner, not to you: choose another"
    use_testroot
}

# The file systems that need no hook.
is_known() {
    case $fs in
    ext2 | ext3 | ext4 | xfs | btrfs) return 0 ;;
    *) return 1 ;;
    esac
}

check_means() {
    [ "$(id -u)" = 0 ] ||
        fail "$fs needs root for devices and mounts; the type 'plain' does not"
    is_known || return 0
    grep -qw -- "$fs" /proc/filesystems || modprobe -q -- "$fs" 2>/dev/null ||
        fail "this kernel has no $fs (see /proc/filesystems)"
    command -v "mkfs.$fs" >/dev/null ||
        fail "mkfs.$fs is missing; install e2fsprogs, xfsprogs or btrfs-progs"
}

check_device() {
    [ -b "$device" ] || fail "TESTDEV=$TESTDEV is not a block device"
    holder=$(findmnt -n -o TARGET --source "$device" | head -n 1)
    [ -z "$holder" ] || fail "TESTDEV=$TESTDEV is mounted on $holder: unmount it first"
    # Opens the device with O_EXCL, and writes nothing.
    why=$(wipefs --quiet --all --no-act -- "$device" 2>&1 >/dev/null) ||
        fail "TESTDEV=$TESTDEV is in use, or cannot be opened: ${why:-no reason given}"
    [ "${TESTDEV_OVERWRITE:-no}" != yes ] || return 0
    known=$(made_uuid)
    found=$(wipefs --noheadings --parsable --output UUID,TYPE -- "$device") ||
        fail "TESTDEV=$TESTDEV cannot be read: nobody knows what it holds"
    while IFS=, read -r uuid type; do
        if [ -n "$type" ] && [ "$uuid" != "${known:-unknown}" ]; then
            fail "TESTDEV=$TESTDEV holds $type that fs-setup.sh did not make;" \
                "TESTDEV_OVERWRITE=yes allows its loss"
        fi
    done <<FOUND
$found
FOUND
}

# Is there a file system of an earlier run to be mounted again?
is_formatted() {
    if [ -z "${TESTDEV:-}" ]; then
        [ -s "$device" ]
    elif is_known; then
        is_made "$device" && [ "$(blkid -p -s TYPE -o value -- "$device")" = "$fs" ]
    else
        is_made "$device"
    fi
}

format() {
    uuid=$(cat /proc/sys/kernel/random/uuid)
    if [ -n "${TESTDEV:-}" ]; then
        echo "$uuid" >"$made"
        sync -- "$made"
        wipefs --quiet --all -- "$device"
    else
        rm -f -- "$device"
        truncate -s "${FSSIZE:-1G}" -- "$device"
    fi
    if call_hooks mkfs "$device" one; then
        [ -z "${TESTDEV:-}" ] || blkid -p -s UUID -o value -- "$device" >"$made" || :
    elif is_known; then
        case $fs in
        ext2 | ext3 | ext4) set -- -q -F -U "$uuid" ;;
        xfs) set -- -q -f -m "uuid=$uuid" ;;
        btrfs) set -- -q -f -U "$uuid" ;;
        esac
        # shellcheck disable=SC2086 # MKFSOPTS is a list of words
        "mkfs.$fs" "$@" ${MKFSOPTS:-} "$device"
    elif [ -z "${TESTDEV:-}" ]; then
        rm -f -- "$device" # of a type that needs none
    fi
    call_hooks tune "$device" all || :
}

mount_it() {
    mkdir -p -- "$mount_point"
    if call_hooks mount "$device" one; then
        mountpoint -q -- "$mount_point" || fail "a hook mounted nothing on $mount_point"
    elif ! is_known; then
        fail "unknown file system '$fs': ext2, ext3, ext4, xfs, btrfs, plain, or a hook's"
    else
        how=loop
        [ -z "${TESTDEV:-}" ] || how=defaults
        mount -t "$fs" -o "$how${MOUNTOPTS:+,$MOUNTOPTS}" -- "$device" "$mount_point"
        if [ "${LOOP_DIRECT:-no}" = yes ] && [ -z "${TESTDEV:-}" ]; then
            losetup --direct-io=on "$(findmnt -n -o SOURCE --mountpoint "$mount_point")"
        fi
    fi
    call_hooks mounted "$device" all || :
}

undo_on_failure() {
    status=$?
    trap - EXIT
    [ "$status" -eq 0 ] || "$here/fs-cleanup.sh" "$fs" || :
    exit "$status"
}

[ $# -eq 1 ] || fail "usage: fs-setup.sh FS"
check_testroot

vital_statistics
open_testroot
exec 9<"$root"
flock -w 60 9 || fail "another process works in $root (see: fuser -v '$root')"
export TESTROOT_LOCKED=yes
"$here/fs-cleanup.sh" "$fs" # what an earlier run left

case $fs in
plain | none)
    mkdir -p -- "$mount_point"
    exit 0
    ;;
*[!A-Za-z0-9._-]* | -* | '') fail "'$fs' is no name of a file system" ;;
esac
check_means
device=$root/fs-$fs.img
if [ -n "${TESTDEV:-}" ]; then
    device=$(readlink -f -- "$TESTDEV")
    check_device
fi
trap undo_on_failure EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

if [ "${FORMAT:-yes}" != no ] || ! is_formatted; then
    format
fi
mount_it
