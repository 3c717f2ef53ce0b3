#!/bin/sh
# Run a program of PostgreSQL's: run.sh PROGRAM ARGUMENT...
# It refuses to work as root, so root becomes the user postgres for it.
set -eu
for bin in /usr/lib/postgresql/*/bin; do PATH=$bin:$PATH; done
export PATH
if [ "$(id -u)" -eq 0 ]; then
    exec setpriv --reuid=postgres --regid=postgres --clear-groups "$@"
fi
exec "$@"
