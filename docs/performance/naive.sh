#!/usr/bin/env bash
# The rate of Upesi against that of a naive switch: one thread that only forwards over the same HTTP
# library, without checks, ledger and log. Runs `upesi-bench transfer` against both in turn.
#
#   docs/performance/naive.sh [ROUNDS] [SECONDS] [CONCURRENCY]
#
# Needs jq and a build with
#   cargo build --profile dist --bin upesi --bin upesi-bench --example naive_switch
# BIN names another directory of these programs. The last line has the medians and their ratio.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
rounds=${1:-5} seconds=${2:-10} concurrency=${3:-256} bin=${BIN:-$PWD/target/dist}
port=${PORT:-24100} fsps=8
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# measure NAME ARGUMENTS: one run of the bench; prints its rate.
measure() {
    "$bin/upesi-bench" transfer --seconds "$seconds" --concurrency "$concurrency" --fsps "$fsps" --first 1 \
        --json "$work/$1.json" "${@:2}" >"$work/bench" 2>&1 || { cat "$work/bench" >&2; exit 1; }
    jq '.achieved_per_s | floor' "$work/$1.json"
}

naive() {
    "$bin/examples/naive_switch" 127.0.0.1:0 "$port" "$fsps" >"$work/out" 2>"$work/err" &
    local pid=$! rate
    until grep -q ready "$work/out"; do kill -0 "$pid" || { cat "$work/err" >&2; exit 1; }; sleep 0.1; done
    rate=$(measure naive --hub "$(sed -n 's/ready on //p' "$work/out")" --existing --port "$port")
    kill "$pid"
    wait "$pid" || true
    echo "$rate"
}

median() { sort -n | awk '{ all[NR] = $1 } END { print (all[int((NR + 1) / 2)] + all[int(NR / 2) + 1]) / 2 }'; }

printf 'upesi/s\tnaive/s\tratio\n'
for ((round = 0; round < rounds; round++)); do
    upesi=$(measure upesi)
    naive=$(naive)
    printf '%s\t%s\n' "$upesi" "$naive" | awk '{ printf "%s\t%s\t%.3f\n", $1, $2, $1 / $2 }' |
        tee -a "$work/all"
done
printf '%s\t%s\t%s\tmedians\n' "$(cut -f1 "$work/all" | median)" \
    "$(cut -f2 "$work/all" | median)" "$(cut -f3 "$work/all" | median)"
