#!/bin/sh
# Make nginx's directory: prepare.sh DIRECTORY PORT WORKERS GZIP_LEVEL
set -eu
here=$(dirname "$0")
mkdir -p "$1/files" "$1/tmp"
# 19 kB of text that gzip has some work with, the same every time.
seq 1 4000 > "$1/files/page.txt"
sed -e "s/PORT/$2/; s/WORKERS/$3/; s/GZIP/$4/" "$here/nginx.conf.in" > "$1/nginx.conf"
nginx -t -q -p "$1" -c "$1/nginx.conf"
