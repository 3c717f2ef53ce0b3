#!/bin/sh
# Put the machine in order for a suite: services stopped, nobody logs in.
#
# Usage: noservices.sh        (SYSTEM noservices.sh, before the tests)
# Reads: BW_QUIET   settings of `bw quiet`, in words   (default: services nologin)
#
# What is changed is kept in a log and put back by services.sh, by the end or the death of
# the session, or by the next `bw`; Auto-pilot's script of this name left it stopped.
# A setting that is unavailable is reported and does not fail; add --require to BW_QUIET to make it fail.
# ssh is left alone; `services=ssh,cron` names what is stopped, and ssh only goes
# while nobody is logged in through it. Swap: BW_QUIET="services nologin swap".
set -eu

# The words are meant to be split.
# shellcheck disable=SC2086
exec bw quiet ${BW_QUIET:-services nologin} --keep
