#!/bin/sh
# Make nginx's directory: prepare.sh DIRECTORY PORT WORKERS GZIP_LEVEL [FILES [BYTES]]
#
# LISTEN in the environment is the address at which it listens (127.0.0.1).
# It has page.txt, and FILES (1) files of BYTES (18893) bytes each: page-1.txt, page-2.txt, ...
set -eu
here=$(dirname "$0")
mkdir -p "$1/files" "$1/tmp"
# 19 kB of text that gzip has some work with, the same every time.
seq 1 4000 > "$1/files/page.txt"
rm -f "$1"/files/page-*.txt
seq 1 1000000 | head -c "${6:-18893}" > "$1/one"
for number in $(seq 1 "${5:-1}"); do cp "$1/one" "$1/files/page-$number.txt"; done
sed -e "s/LISTEN/${LISTEN:-127.0.0.1}/; s/PORT/$2/; s/WORKERS/$3/; s/GZIP/$4/" "$here/nginx.conf.in" > "$1/nginx.conf"
nginx -t -q -p "$1" -c "$1/nginx.conf"
