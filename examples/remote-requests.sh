#!/bin/sh
# Ask a web server for one page again and again, over one connection.
#
# Usage: remote-requests.sh URL ENCODING COUNT
set -eu
i=0
while [ "$i" -lt "$3" ]; do
    printf 'url = "%s"\noutput = "/dev/null"\n' "$1"
    i=$((i + 1))
done | curl --silent --show-error --fail --noproxy '*' -H "Accept-Encoding: $2" -K -
