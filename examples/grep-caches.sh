#!/bin/sh
# The parts of grep-caches.ap: a source tree on a file system of its own, cold or warm.
#
# Usage: grep-caches.sh make          make the file system and the tree (once), warm
#        grep-caches.sh cool METHOD   before an epoch; METHOD as in grep-caches.ap
#        grep-caches.sh grep          read the tree: what is measured
#        grep-caches.sh end           unmount
# Reads: TESTROOT     absolute path of the directory to work in; made if missing
#        DEVICE       a block device with an empty ext4 file system; else a file in
#                     TESTROOT behind a loop device
#        FILES        source files in the tree (default 2000, of 8 KiB)
# Needs root, to mount.
set -eu
root=${TESTROOT:?}
mnt=$root/mnt
tree=$mnt/src

is_mounted() {
  grep -q " $mnt " /proc/mounts
}

mount_it() {
  if [ -n "${DEVICE:-}" ]; then
    mount -t ext4 "$DEVICE" "$mnt"
  else
    mount -t ext4 -o loop "$root/caches.img" "$mnt"
  fi
}

make_it() {
  mkdir -p "$mnt"
  if is_mounted; then return; fi
  # A file that is there is the tree of an earlier test, or of an earlier start.
  if [ -e "$root/caches.made" ]; then
    mount_it
    return
  fi
  if [ -z "${DEVICE:-}" ]; then
    truncate -s $((16 + FILES / 32))M "$root/caches.img"
    mke2fs -q -F -t ext4 "$root/caches.img"
  fi
  mount_it
  write_tree
  sync
  : >"$root/caches.made"
}

# Lines that look like a program's, other ones in each file, the same on each machine.
write_tree() {
  mkdir -p "$tree"
  awk -v tree="$tree" -v files="$FILES" 'BEGIN {
    srand(1)
    for (n = 0; n < files; n++) {
      directory = tree "/part" int(n / 50)
      if (n % 50 == 0) system("mkdir -p " directory)
      file = directory "/file" n ".c"
      for (size = 0; size < 8192; size += length(line) + 1) {
        line = sprintf("  state[%d] = next_state(%d, &table[%d]);", \
          rand() * 1000, rand() * 1000000, rand() * 100)
        print line > file
      }
      close(file)
    }
  }'
}

cool() {
  is_mounted || mount_it # after a restart of the machine
  case $1 in
  sequential | reboot) ;;
  chill | reboot+chill) bw chill --method chill --check "$tree" ;;
  remount) bw chill --method remount --mount "$mnt" --check "$tree" ;;
  remount+chill)
    bw chill --method remount --mount "$mnt"
    bw chill --method chill --check "$tree"
    ;;
  *)
    echo "grep-caches.sh: no method $1" >&2
    exit 2
    ;;
  esac
}

# The words are nowhere in the tree: grep reads all of it, and exits with 1.
read_tree() {
  status=0
  grep -rq 'no such words' "$tree" || status=$?
  [ "$status" -eq 1 ]
}

: "${FILES:=2000}"
case ${1:-} in
make)
  make_it
  read_tree
  ;;
cool) cool "$2" ;;
grep) read_tree ;;
end) ! is_mounted || umount "$mnt" ;;
*)
  echo "usage: grep-caches.sh make | cool METHOD | grep | end" >&2
  exit 2
  ;;
esac
