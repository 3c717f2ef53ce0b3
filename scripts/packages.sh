#!/usr/bin/env bash
# Install the Debian packages of the commands and files named, where they are missing: as root on
# a system with apt-get. Otherwise say in one line what to install, and go on: what
# needs them is skipped or says so itself.
#
# Usage: packages.sh COMMAND:PACKAGE...      e.g. packages.sh mkfs.xfs:xfsprogs /usr/share/x:y
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin # where mkfs and losetup are, for users other than root too

present() {
    case $1 in
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

missing=()
for pair in "$@"; do
    present "${pair%%:*}" || missing+=("${pair#*:}")
done
[ ${#missing[@]} -gt 0 ] || exit 0
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)

install_with_apt() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -q --no-install-recommends "${missing[@]}" && return
    apt-get update -q && apt-get install -y -q --no-install-recommends "${missing[@]}"
}

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "setup: installing ${missing[*]}" >&2
    if install_with_apt >&2; then exit 0; fi
fi
echo "setup: to install: sudo apt-get install ${missing[*]}" >&2
