#!/bin/sh
# Run NFS-Ganesha and its portmapper in the foreground until SIGTERM: run.sh STATE
#
# In a network of its own ([server] network = "private"): the portmapper listens on all addresses. The files of both programs in /run and
# /var/lib/nfs have names that no option changes, so they are in a mount namespace of this server.
set -eu
if [ "$1" != --inside ]; then exec unshare --mount "$0" --inside "$1"; fi
state=$2
for directory in /run /var/lib/nfs; do
    mkdir -p "$directory"
    mount -t tmpfs -o mode=755 tmpfs "$directory"
done
mkdir -p /run/ganesha /var/lib/nfs/ganesha

server='' stopped=''
trap 'stopped=yes; if [ -n "$server" ]; then kill "$server" || true; fi' TERM INT
rpcbind -f -w &
portmapper=$!
while [ ! -S /run/rpcbind.sock ] && kill -0 "$portmapper" && [ -z "$stopped" ]; do sleep 0.02; done
[ -z "$stopped" ] || { kill "$portmapper"; exit 0; }
ganesha.nfsd -F -f "$state/ganesha.conf" -L STDERR -p /run/ganesha.pid &
server=$!
# A signal ends `wait`, not the server.
status=0
wait "$server" || status=$?
while kill -0 "$server" 2> /dev/null; do
    status=0
    wait "$server" || status=$?
done
kill "$portmapper"
wait "$portmapper" || true
exit "$status"
