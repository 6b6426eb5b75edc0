#!/usr/bin/env bash
# What metrics and traces cost: runs `upesi-bench transfer` in turn against a switch with all
# recording off, with metrics, and with metrics and traces of 1 % of the payments.
#
#   COLLECTOR=http://127.0.0.1:4318 docs/performance/observing.sh [ROUNDS] [SECONDS]
#
# Needs a build with `cargo build --profile dist --bin upesi --bin upesi-bench`, an OpenTelemetry
# collector, and jq.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
rounds=${1:-2} seconds=${2:-8} bin=$PWD/target/dist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

common='[transfers]
confirm_to_payee = false'
printf '%s\n' "$common" '[metrics]' 'histograms = false' 'mojaloop_names = "off"' >"$work/off.toml"
printf '%s\n' "$common" >"$work/metrics.toml"
printf '%s\n' "$common" '[traces]' "endpoint = \"${COLLECTOR:?}\"" 'ratio = 0.01' \
    >"$work/traces.toml"

# address KIND: the printed address.
address() { sed -n "s|.*$1 on http://\([0-9.]*:[0-9]*\).*|\1|p" "$work/out" | head -n 1; }

measure() {
    rm -rf "$work/data"
    "$bin/upesi" serve --data "$work/data" --config "$work/$1.toml" --fspiop 127.0.0.1:0 \
        --admin 127.0.0.1:0 >"$work/out" 2>"$work/err" &
    local pid=$!
    until grep -q 'ready; FSPIOP on' "$work/out"; do kill -0 "$pid"; sleep 0.1; done
    "$bin/upesi-bench" transfer --hub "http://$(address FSPIOP)" \
        --admin "http://$(address admin)" --token "$work/data/admin-token" --pid "$pid" \
        --seconds "$seconds" --concurrency 256 --json "$work/result.json" >"$work/bench" 2>&1
    kill "$pid"
    wait "$pid" || true
    jq -r --arg name "$1" '[$name, (.achieved_per_s | floor), .switch_cpu_ms_per_tx,
        .harness_cpu_ms_per_tx, .switch_cpu_ms_per_tx / .harness_cpu_ms_per_tx] | @tsv' \
        "$work/result.json"
}

printf 'recording\ttransfers/s\tswitch ms\tsimulators ms\tratio\n'
for _ in $(seq "$rounds"); do
    for name in off metrics traces traces metrics off; do measure "$name"; done
done
