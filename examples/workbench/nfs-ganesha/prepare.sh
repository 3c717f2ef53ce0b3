#!/bin/sh
# Write the configuration of NFS-Ganesha: prepare.sh STATE EXPORT THREADS [FSAL]
#
# It exports the directory EXPORT as /export over NFS version 3, with at most THREADS threads for requests (at least 2). FSAL is VFS (a local
# file system, the default) or MEM (the first 64 KiB of each file in memory, other bytes are not stored: the speed of the protocol).
set -eu
state=$1 export=$2 threads=$3 fsal=${4:-VFS}
if [ "$threads" -lt 2 ]; then
    echo "NFS-Ganesha needs at least 2 threads for requests, not $threads" >&2
    exit 1
fi
for plugins in /usr/lib/*/ganesha /usr/lib64/ganesha; do
    if [ -e "$plugins/libfsal$(echo "$fsal" | tr '[:upper:]' '[:lower:]').so" ]; then break; fi
done
if [ ! -d "$plugins" ]; then
    echo "NFS-Ganesha's FSAL $fsal is missing (Debian: nfs-ganesha-vfs, nfs-ganesha-mem)" >&2
    exit 1
fi
mkdir -p "$export"
# With cgroups of version 1 a limit of memory does not slow down a program that writes faster than its disks: the kernel ends it instead. So the
# striped disks of bw may have only this much unwritten data. The setting ends with their file system.
case $fsal:$export in
VFS:*/bw-disks-*/disk1/*)
    bdi=/sys/fs/btrfs/$(findmnt -n -o UUID -T "$export")/bdi
    if [ -w "$bdi/max_bytes" ]; then
        echo 1 > "$bdi/strict_limit"
        echo $((4 << 20)) > "$bdi/max_bytes"
    fi
    ;;
esac
cat > "$state/ganesha.conf" <<END
NFS_CORE_PARAM {
    Protocols = 3;
    mount_path_pseudo = true;
    RPC_Ioq_ThrdMax = $threads;
    Enable_NLM = false;
    Enable_RQUOTA = false;
    Enable_UDP = false;
    Plugins_Dir = "$plugins";
}
EXPORT {
    Export_Id = 1;
    Path = "$export";
    Pseudo = /export;
    Access_Type = RW;
    Squash = No_Root_Squash;
    SecType = sys;
    Protocols = 3;
    Transports = TCP;
    FSAL { Name = $fsal; }
}
# An entry takes about 2 KB: the default of 100,000 alone exceeds a small limit of memory, at which the kernel ends the server.
MDCACHE { Entries_HWMark = 10000; }
MEM { Inode_Size = 65536; }
LOG { Default_Log_Level = EVENT; }
END
