#!/usr/bin/env bash
# What open consoles cost: runs `upesi-bench transfer` in turn against a switch without a console
# and with ten open overview pages.
#
#   docs/performance/console.sh [ROUNDS] [SECONDS]
#
# Needs a build with `cargo build --profile dist --bin upesi --bin upesi-bench`, node and jq. BIN
# names another directory of the two programs. The last line has the ratio of the median rates.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
rounds=${1:-4} seconds=${2:-8} bin=${BIN:-$PWD/target/dist}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '%s\n' '[transfers]' 'confirm_to_payee = false' >"$work/upesi.toml"

# address KIND: the printed address.
address() { sed -n "s|.*$1 on http://\([0-9.]*:[0-9]*\).*|\1|p" "$work/out" | head -n 1; }

# measure CLIENTS: the rate, and the CPU time of the switch per transfer.
measure() {
    rm -rf "$work/data"
    "$bin/upesi" serve --data "$work/data" --config "$work/upesi.toml" --fspiop 127.0.0.1:0 \
        --admin 127.0.0.1:0 >"$work/out" 2>"$work/err" &
    local pid=$! clients
    until grep -q 'ready; FSPIOP on' "$work/out"; do kill -0 "$pid"; sleep 0.1; done
    node docs/performance/console-clients.mjs "http://$(address admin)" "$work/data/admin-token" \
        "$1" >"$work/clients" &
    clients=$!
    "$bin/upesi-bench" transfer --hub "http://$(address FSPIOP)" \
        --admin "http://$(address admin)" --token "$work/data/admin-token" --pid "$pid" \
        --seconds "$seconds" --concurrency 256 --json "$work/result.json" >"$work/bench" 2>&1
    kill "$clients" 2>/dev/null || true # Without clients it has ended.
    wait "$clients" || { cat "$work/clients" >&2; exit 1; }
    kill "$pid"
    wait "$pid" || true
    jq -r '[(.achieved_per_s | floor), .switch_cpu_ms_per_tx] | @tsv' "$work/result.json"
}

median() { sort -n | awk '{ all[NR] = $1 } END { print (all[int((NR + 1) / 2)] + all[int(NR / 2) + 1]) / 2 }'; }

for ((round = 1; round <= rounds; round++)); do
    for clients in 0 10; do
        result=$(measure "$clients")
        printf '%s clients\t%s\t%s\n' "$clients" "$result" "$(cat "$work/clients")"
        cut -f 1 <<<"$result" >>"$work/rates-$clients"
    done
done
closed=$(median <"$work/rates-0") open=$(median <"$work/rates-10")
awk -v closed="$closed" -v open="$open" \
    'BEGIN { printf "closed %.0f/s, open %.0f/s, ratio %.3f\n", closed, open, open / closed }'
