#!/usr/bin/env bash
# Make a small aarch64 system in a directory, for the check of the aarch64 wheel on x86-64: QEMU's user mode, and the
# Python of Debian 13 with the libraries that it needs. Nothing is installed on this machine: Debian's packages are
# unpacked (20 MB to fetch for aarch64, 71 MB for QEMU, of which one program is kept). An older QEMU does not do:
# that of Debian 12 has no CLONE_PIDFD, which the launcher needs.
#
# Usage: aarch64.sh              prints the directory: qemu, and root/ with the aarch64 files
# Reads: XDG_CACHE_HOME          where caches are (default ~/.cache)
#
# Decision: programs find their libraries by `qemu -L root`, and an emulated program starts another one by a script
# (tests/stand_ins/emulated.py). Rejected: binfmt_misc with a chroot, which changes the machine and needs root; a whole
# virtual machine, which takes minutes to install.
set -euo pipefail
place=${XDG_CACHE_HOME:-$HOME/.cache}/benchwright/aarch64
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
packages=(python3.13-minimal libpython3.13-stdlib libstdc++6 python3-pip-whl)

say() { echo "aarch64: $*" >&2; }

# apt-get for an aarch64 system with a state of its own below the directory `apt`, on which nothing is installed.
apt_aarch64() {
    apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64,amd64 -o APT::Sandbox::User="$(id -un)" \
        -o Dir::Etc::SourceList="$place/apt/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State="$place/apt" \
        -o Dir::State::Status="$place/apt/status" -o Dir::Cache="$place/apt" "$@"
}

make_system() {
    say "making $place"
    rm -rf "$place"
    mkdir -p "$place/apt/lists/partial" "$place/apt/archives/partial" "$place/root" "$place/unpacked"
    cd "$place"
    : >apt/status
    echo "deb [arch=arm64,amd64 signed-by=$keyring] http://deb.debian.org/debian trixie main" >apt/sources.list
    apt_aarch64 update
    apt_aarch64 download qemu-user:amd64
    dpkg-deb -x qemu-user_*.deb unpacked
    mv unpacked/usr/bin/qemu-aarch64 qemu
    apt_aarch64 install --download-only --yes --no-install-recommends "${packages[@]}"
    for package in apt/archives/*.deb; do dpkg-deb -x "$package" root; done
    ln -s usr/lib root/lib # as base-files does, which is not here
    rm -r apt unpacked qemu-user_*.deb
    touch complete
}

for needed in apt-get dpkg-deb "$keyring"; do
    command -v "$needed" >/dev/null || [ -e "$needed" ] || {
        say "$needed is missing: this needs Debian, or its packages apt, dpkg and debian-archive-keyring"
        exit 1
    }
done
[ -e "$place/complete" ] || make_system >&2
echo "$place"
