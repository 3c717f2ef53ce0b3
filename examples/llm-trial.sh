#!/bin/sh
# One trial of a setting of a language model's server, for bw compare: a new server with these words
# added to its command, a warm-up, an empty cache of prefixes, a load; then the server stops.
#
#   export SERVER='llama-server -m model.gguf --port 8467' URL=http://127.0.0.1:8467
#   bw compare --design abba --metric first_ns_p95 --metric tpot_ns_p50 --name np4 --name np8 -- \
#     'examples/llm-trial.sh -np 4' 'examples/llm-trial.sh -np 8'
#
# RATE, DURATION and LOAD (more options of bw load) change the load.
set -eu
: "${SERVER:?the command of the server, without the setting}" "${URL:?its http://HOST:PORT}"
model="--target $URL --llm chat --model ${MODEL:-any} ${LOAD:-}"

# shellcheck disable=SC2086 # the command has words
$SERVER "$@" >"${LOG:-/dev/null}" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null || true' EXIT
tries=0
until curl -sf -o /dev/null "$URL/v1/models"; do
    tries=$((tries + 1))
    if [ "$tries" -gt "${TRIES:-1200}" ] || ! kill -0 $server; then
        echo "the server does not answer at $URL/v1/models" >&2
        exit 1
    fi
    sleep 0.1
done

# The first answers of a server are slower: it allocates and compiles. This load is in no figure.
# shellcheck disable=SC2086
env -u APLOG bw load $model --rate "${RATE:-10}" --duration "${WARM_UP:-2s}" --quiet >/dev/null
# A new server has an empty cache but for the warm-up. vLLM and SGLang can empty it; others answer
# 404. Prompts of bw begin with other characters in each run, so that only a shared prefix is there.
curl -s -o /dev/null -X POST "$URL/reset_prefix_cache" || true
curl -s -o /dev/null -X POST "$URL/flush_cache" || true
# shellcheck disable=SC2086
bw load $model --rate "${RATE:-10}" --duration "${DURATION:-10s}" --quiet
