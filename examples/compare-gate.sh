#!/bin/sh
# A gate for a build: is the new program slower than the old one by more than 3 %?
#
#   compare-gate.sh 'OLD COMMAND' 'NEW COMMAND'
#
# Exit status 0: no; 1: yes, or a command failed; 3: it cannot be told. The machine's noise
# is measured once for each study and shown beside every later answer. In the environment:
# STUDY (bw-gate), LIMIT (3%), JUNIT (gate.xml).
set -eu
study=${STUDY:-bw-gate}
if [ ! -d "$study" ]; then
    bw compare --null --quiet --study "$study" -- "$1"
fi
exec bw compare --quiet --study "$study" --margin "${LIMIT:-3%}" \
    --fail-if "slower by ${LIMIT:-3%}" --junit "${JUNIT:-gate.xml}" \
    --name old --name new -- "$1" "$2"
