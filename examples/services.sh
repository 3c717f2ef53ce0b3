#!/bin/sh
# Put back what noservices.sh changed: exactly that, as it was.
#
# Usage: services.sh          (SYSTEM services.sh, after the tests)
set -eu

exec bw quiet --restore
