#!/usr/bin/env bash
# What metrics and traces cost: runs `upesi-bench transfer` in turn against a switch with all
# recording off, with metrics, and with metrics and traces of 1 % of the payments.
#
#   COLLECTOR=http://127.0.0.1:4318 docs/performance/observing.sh [ROUNDS] [SECONDS]
#
# Needs a build with `cargo build --profile dist --bin upesi --bin upesi-bench`, an OpenTelemetry
# collector, curl and jq. The column "traced" is the exported part of all spans. A run with traces
# whose part is not about 1 % fails. The simulators' trace ids have random low bits, by which the
# switch samples; figures from before they had them do not apply.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
rounds=${1:-2} seconds=${2:-8} bin=${BIN:-$PWD/target/dist}
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

# metric NAME: its value.
metric() { curl -sf "http://$(address admin)/metrics" | awk -v name="$1" '$1 == name { print $2 }'; }

# traced CONFIGURATION: the exported part of the spans. A committed transfer has 10: prepare and
# fulfil, each with three stages, and their two callbacks.
traced() {
    [ "$1" = traces ] || { echo 0; return; }
    sleep 3 # The queue is exported within seconds.
    local exported dropped committed
    exported=$(metric upesi_spans_exported_total) dropped=$(metric upesi_spans_dropped_total)
    committed=$(metric upesi_transfers_committed_total)
    [ "$dropped" = 0 ] || { echo "$dropped spans were dropped" >&2; return 1; }
    awk -v exported="$exported" -v spans="$((committed * 10))" 'BEGIN {
        part = exported / spans
        if (part < 0.007 || 0.013 < part) {
            print part " of the spans were exported, instead of 0.01" >"/dev/stderr"; exit 1
        }
        printf "%.4f\n", part
    }'
}

measure() {
    rm -rf "$work/data"
    "$bin/upesi" serve --data "$work/data" --config "$work/$1.toml" --fspiop 127.0.0.1:0 \
        --admin 127.0.0.1:0 >"$work/out" 2>"$work/err" &
    local pid=$!
    until grep -q 'ready; FSPIOP on' "$work/out"; do kill -0 "$pid"; sleep 0.1; done
    "$bin/upesi-bench" transfer --hub "http://$(address FSPIOP)" \
        --admin "http://$(address admin)" --token "$work/data/admin-token" --pid "$pid" \
        --seconds "$seconds" --concurrency 256 --json "$work/result.json" >"$work/bench" 2>&1
    local part
    part=$(traced "$1") || { kill "$pid"; exit 1; }
    kill "$pid"
    wait "$pid" || true
    jq -r --arg name "$1" --arg part "$part" '[$name, (.achieved_per_s | floor),
        .switch_cpu_ms_per_tx, .harness_cpu_ms_per_tx,
        .switch_cpu_ms_per_tx / .harness_cpu_ms_per_tx, $part] | @tsv' "$work/result.json"
}

printf 'recording\ttransfers/s\tswitch ms\tsimulators ms\tratio\ttraced\n'
for _ in $(seq "$rounds"); do
    for name in off metrics traces traces metrics off; do measure "$name"; done
done
