#!/usr/bin/env bash
# Costs and latency of events: `upesi-bench transfer` in turn against a switch that publishes its
# events and one that does not, then the latency of events at 20 transfers a second.
#
#   BROKERS=127.0.0.1:9092 docs/performance/events.sh [ROUNDS] [SECONDS]
#
# Needs a build with `cargo build --profile dist --bin upesi --bin upesi-bench` (or BIN, the
# directory of the programs), a broker, curl and jq. KINDS: a TOML list of kinds [default: all].
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
rounds=${1:-3} seconds=${2:-10} bin=${BIN:-$PWD/target/dist}
work=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid"; rm -rf "$work"' EXIT

printf '[transfers]\nconfirm_to_payee = false\n' >"$work/off.toml"
{
    cat "$work/off.toml"
    printf '[events]\nbrokers = "%s"\n' "${BROKERS:?}"
    [ -z "${KINDS:-}" ] || printf 'kinds = %s\n' "$KINDS"
} >"$work/on.toml"

# address KIND: the printed address.
address() { sed -n "s|.*$1 on http://\([0-9.]*:[0-9]*\).*|\1|p" "$work/out" | head -n 1; }

admin() { curl -sf -H "authorization: Bearer $(cat "$work/data/admin-token")" "http://$(address admin)$1"; }

# start CONFIGURATION
start() {
    rm -rf "$work/data"
    : >"$work/out" # Not the address of the switch before.
    "$bin/upesi" serve --data "$work/data" --config "$work/$1.toml" --fspiop 127.0.0.1:0 \
        --admin 127.0.0.1:0 >"$work/out" 2>"$work/err" &
    pid=$!
    until grep -q 'ready; FSPIOP on' "$work/out"; do kill -0 "$pid"; sleep 0.1; done
}

stop() {
    kill "$pid"
    wait "$pid" || true
    pid=
}

bench() {
    "$bin/upesi-bench" transfer --hub "http://$(address FSPIOP)" --admin "http://$(address admin)" \
        --token "$work/data/admin-token" --pid "$pid" "$@" --json "$work/result.json" \
        >"$work/bench" 2>&1
}

# measure CONFIGURATION: the rate, and the events that were published during it.
measure() {
    start "$1"
    bench --seconds "$seconds" --concurrency 256
    local published
    published=$(admin /status | jq '.eventPublishing | "\(.published // 0)\t\(.recordsAfter // 0)"' -r)
    stop
    jq -r --arg name "$1" --arg published "$published" \
        '[$name, (.achieved_per_s | floor), .switch_cpu_ms_per_tx, $published] | join("\t")' \
        "$work/result.json"
}

printf 'events\ttransfers/s\tswitch CPU ms\tpublished\trecords that wait\n'
for _ in $(seq "$rounds"); do
    for name in off on on off; do measure "$name"; done
done

start on
bench --seconds 15 --rate 20 &
load=$!
sleep 3 # The topics exist, and connections are open.
"$bin/upesi-bench" stream --brokers "$BROKERS" --event-latency upesi-events --seconds 10
wait "$load"
bench --seconds 15 --rate 20 &
load=$!
sleep 3
timeout 10 "$bin/upesi" events --follow --json --after "$(admin '/events?after=0&limit=1' | jq .end)" \
    --admin "http://$(address admin)" --token "$work/data/admin-token" |
    jq --unbuffered '(now - (.time[0:19] + "Z" | fromdate)) * 1000 - (.time[20:23] | tonumber)' |
    sort -n | awk '{ all[NR] = $1 } END {
        printf "%d events as server-sent events: p50 %.2f ms, p99 %.2f ms\n",
            NR, all[int(NR / 2) + 1], all[int(NR * 0.99) + 1]
    }' || true # The client ends by the timeout.
wait "$load"
stop
