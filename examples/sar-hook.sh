#!/bin/sh
# Measurement hook: the figures of sar(1) beside each trial, an example of a hook for a program that
# records while it runs (docs/running.md). Needs sysstat.
#
#   bw run --hook examples/sar-hook.sh -- CMD
#
# Reads: BW_HOOK_STATE   a private directory kept between the calls
#        SAR_OPTIONS     what of sar's figures (default: -u -w -b -q: CPU, switches, I/O, run queue)
# Prints at end: the mean of each column over the measurement, sar_user_percent, sar_cswch_per_s,
# sar_runq_sz, ... A measurement below two seconds has none: sar looks once a second.
set -eu
LC_ALL=C
export LC_ALL
: "${BW_HOOK_STATE:?set it to a private directory}"
record=$BW_HOOK_STATE/sar.data
running=$BW_HOOK_STATE/sar.pid

case ${1-} in
premeasure | final) ;;
start)
    rm -f "$record"
    # A group of its own: sar starts sadc, which records.
    setsid sar -A -o "$record" 1 >/dev/null 2>&1 &
    echo $! >"$running"
    ;;
end)
    [ -e "$running" ] || exit 0
    if ! command -v sar >/dev/null; then
        echo "# error: sar-hook: there is no program sar"
        exit 0
    fi
    read -r group <"$running"
    rm -f "$running"
    kill -s TERM -- "-$group" 2>/dev/null || :
    # They end when they get a CPU, which takes a while on a busy machine.
    for _ in $(seq 50); do
        kill -s 0 -- "-$group" 2>/dev/null || break
        sleep 0.1
    done
    [ -s "$record" ] || exit 0
    # shellcheck disable=SC2086 # a list of options
    sadf -d "$record" -- ${SAR_OPTIONS:--u -w -b -q} 2>/dev/null | awk -F ';' '
        # The first three columns say where and when; a CPU of -1 is all of them.
        /^#/ { for (i = 4; i <= NF; i++) name[i] = $i; columns = NF; next }
        {
            for (i = 4; i <= columns; i++) if (name[i] != "CPU") {
                if (!(name[i] in count)) order[++names] = name[i]
                sum[name[i]] += $i; count[name[i]]++
            }
        }
        END {
            for (n = 1; n <= names; n++) {
                column = said = order[n]
                percent = sub(/^%/, "", said) ? "_percent" : ""
                sub(/\/s$/, "_per_s", said); gsub(/[^A-Za-z0-9_]/, "_", said)
                printf "sar_%s%s = %.4f\n", said, percent, sum[column] / count[column]
            }
        }'
    ;;
*)
    echo "usage: sar-hook.sh premeasure|start|end|final" >&2
    exit 2
    ;;
esac
