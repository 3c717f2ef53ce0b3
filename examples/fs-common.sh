# shellcheck shell=sh
# Sourced by fs-setup.sh and fs-cleanup.sh: TESTROOT, the hooks, and what is ours.
#
# Needs: here, the directory of the scripts; fs, a file system's type (or nothing)
# Sets:  root, the real path of TESTROOT; mount_point

: "${here:?is set by the script that sources this}"
PATH=$PATH:/usr/sbin:/sbin

fail() {
    echo "${0##*/}: $*" >&2
    exit 1
}

check_testroot() {
    [ -n "${TESTROOT:-}" ] || fail "TESTROOT is not set"
    case $TESTROOT in
    / | // | /.) fail "TESTROOT is /: give it a directory of its own" ;;
    /*) ;;
    *) fail "TESTROOT=$TESTROOT is not an absolute path" ;;
    esac
}

use_testroot() {
    root=$(cd -- "$TESTROOT" && pwd -P)
    mount_point=$root/mnt
    made=$root/testdev.uuid
}

# is_image NAME: does the loop device NAME (as "loop0") stand on one of our images?
is_image() {
    backing=
    { IFS= read -r backing <"/sys/block/$1/loop/backing_file"; } 2>/dev/null || return 1
    case ${backing% (deleted)} in
    "$root"/fs-*.img) return 0 ;;
    *) return 1 ;;
    esac
}

# made_uuid: the file system that fs-setup.sh made last on a TESTDEV, by its UUID.
made_uuid() {
    uuid=
    { IFS= read -r uuid <"$made"; } 2>/dev/null || :
    echo "$uuid"
}

# is_made DEVICE: does the device hold that file system?
is_made() {
    known=$(made_uuid)
    [ -n "$known" ] && [ "$(blkid -p -s UUID -o value -- "$1" 2>/dev/null)" = "$known" ]
}

# A hook is obeyed as these scripts are: nobody may have put it there but who owns them.
check_owner() {
    owner=$(stat -L -c %u -- "$1")
    [ "$owner" = 0 ] || [ "$owner" = "$(id -u)" ] || [ "$owner" = "${SUDO_UID:-0}" ] ||
        [ "$owner" = "$(stat -L -c %u -- "$here")" ] ||
        fail "$1 belongs to user $owner: not used as a hook"
    case $(stat -L -c %a -- "$1") in
    *[2367]) fail "everybody may write $1: not used as a hook (chmod o-w)" ;;
    esac
}

# call_hooks EVENT DEVICE one|all: call the executables of commonsettings.d beside the
# scripts and in the directories of APLIB, in order of name, as
#     HOOK EVENT FS DEVICE MOUNT_POINT
# A hook exits with 0 (it did it) or 3 (not mine); anything else ends the script. `one`
# stops at the first that did it. Returns whether any did.
call_hooks() {
    event=$1 on=$2 how=$3 taken=no called=:
    set -f
    IFS=:
    # shellcheck disable=SC2086 # APLIB is a list of directories
    set -- "$here" ${APLIB:-}
    unset IFS
    set +f
    for directory do
        directory=$(cd -- "$directory/commonsettings.d" 2>/dev/null && pwd -P) || continue
        case $called in
        *":$directory:"*) continue ;;
        esac
        called=$called$directory:
        check_owner "$directory"
        for hook in "$directory"/*; do
            if [ ! -f "$hook" ] || [ ! -x "$hook" ]; then continue; fi
            check_owner "$hook"
            status=0
            "$hook" "$event" "${fs:-}" "$on" "$mount_point" || status=$?
            case $status in
            0) taken=yes ;;
            3) continue ;;
            *) fail "the hook $hook failed at $event: exit status $status" ;;
            esac
            [ "$how" = all ] || return 0
        done
    done
    [ "$taken" = yes ]
}
