#!/bin/sh
# Undo fs-setup.sh: unmount $TESTROOT/mnt and release its loop device, also after a
# failed or killed run. Nothing to undo is success, so it can be called at any time.
#
# Usage: fs-cleanup.sh [FS]   FS is for the reader of the suite; all types are undone
# Reads: TESTROOT   absolute path of the directory that fs-setup.sh worked in
#        FORMAT     yes (default): the image is removed too; no: kept for the next run
#        APLIB      directories whose commonsettings.d has hooks (event: unmount)
#
# What is ours is asked of the kernel: a loop device is touched only if its backing
# file is $TESTROOT/fs-*.img, a TESTDEV only if it holds the file system that fs-setup.sh
# made there. Anything else on $TESTROOT/mnt is reported and left. The file system of a
# TESTDEV stays on it, unmounted.
set -eu

here=$(cd -- "$(dirname -- "$0")" && pwd -P)
fs=${1-}
# shellcheck source=examples/fs-common.sh
. "$here/fs-common.sh"

# A process of the trial may need a moment to die: try for some seconds.
unmount() {
    tries=0
    until umount -- "$mount_point" 2>/dev/null; do
        tries=$((tries + 1))
        [ "$tries" -lt 50 ] || break
        sleep 0.1
    done
    [ "$tries" -lt 50 ] || umount -- "$mount_point" ||
        fail "$mount_point is still in use (see: fuser -vm '$mount_point')"
}

check_testroot
[ -d "$TESTROOT" ] || exit 0
use_testroot

# A set-up that was killed has ended only when its last process has left the kernel.
if [ "${TESTROOT_LOCKED:-no}" != yes ]; then
    exec 9<"$root"
    flock -w 60 9 || fail "a set-up is still at work in $root (see: fuser -v '$root')"
fi

call_hooks unmount "" all || :
while mountpoint -q -- "$mount_point"; do
    device=$(findmnt -n -o SOURCE --mountpoint "$mount_point" | tail -n 1)
    device=${device%%\[*} # btrfs appends its subvolume
    is_image "${device#/dev/}" || is_made "$device" ||
        fail "$mount_point is a mount of $device, which is not ours: left alone"
    unmount
done

# Unmounting released the device; this is for one that was set up by other means.
for path in /sys/block/loop*/loop; do
    [ -d "$path" ] || continue
    name=${path%/loop}
    name=${name##*/}
    if is_image "$name"; then
        losetup -d "/dev/$name"
    fi
done

rm -rf -- "$mount_point"/thread-*
if [ "${FORMAT:-yes}" != no ]; then
    rm -f -- "$root"/fs-*.img
fi
rmdir -- "$mount_point" 2>/dev/null || :
