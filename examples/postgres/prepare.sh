#!/bin/sh
# Make a private PostgreSQL: prepare.sh DIRECTORY PORT SCALE SHARED_BUFFERS SYNCHRONOUS_COMMIT
# The database is made once for the directory and scale; the settings are written before each start.
set -eu
run=$(dirname "$0")/run.sh
data=$1/data
if [ "$(cat "$1/made" 2> /dev/null)" != "$3" ]; then
    rm -rf "$data" "$1/made"
    mkdir "$data"
    if [ "$(id -u)" -eq 0 ]; then chown postgres:postgres "$data"; fi
    "$run" initdb -D "$data" -U bench -A trust -N --no-instructions > "$1/initdb.log"
    "$run" pg_ctl -D "$data" -w -s -l "$data/log" -o "-p $2 -k $data -h 127.0.0.1 -F" start
    "$run" pgbench -i -q -s "$3" -h 127.0.0.1 -p "$2" -U bench postgres > "$1/fill.log" 2>&1 ||
        { cat "$1/fill.log" >&2; "$run" pg_ctl -D "$data" -m fast -s stop; exit 1; }
    "$run" pg_ctl -D "$data" -m fast -w -s stop
    # Otherwise the kernel writes the new tables while the server is measured.
    sync -f "$data"
    echo "$3" > "$1/made"
fi
cat > "$data/postgresql.auto.conf" <<END
port = $2
listen_addresses = '127.0.0.1'
unix_socket_directories = '$data'
shared_buffers = '$4'
synchronous_commit = '$5'
max_connections = 40
autovacuum = off
# No checkpoint during a search, and no whole pages in the log after one: both make some minutes slower than others.
checkpoint_timeout = '1h'
max_wal_size = '8GB'
full_page_writes = off
END
