#!/usr/bin/env bash
# The cost of encryption at rest: runs `upesi-bench transfer` in turn against a switch without and
# with a master key, under load and with one transfer in flight, and verifies each log.
#
#   docs/performance/encryption.sh [ROUNDS] [SECONDS]
#
# Needs a build with `cargo build --profile dist --bin upesi --bin upesi-bench`, openssl and jq. BIN
# names another directory of the two programs. The last line has the ratios of the medians, with a
# master key to without: rate, p50 with one in flight, time of `upesi verify`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
rounds=${1:-4} seconds=${2:-8} bin=${BIN:-$PWD/target/dist}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 077
openssl rand -hex 32 >"$work/master.key"
printf '%s\n' '[transfers]' 'confirm_to_payee = false' >"$work/plain.toml"
{ cat "$work/plain.toml"; printf '%s\n' '[encryption]' "key = \"file:$work/master.key\""; } \
    >"$work/encrypted.toml"

# address KIND: the printed address.
address() { sed -n "s|.*$1 on http://\([0-9.]*:[0-9]*\).*|\1|p" "$work/out" | head -n 1; }

# load CONCURRENCY NAME: one run of the bench.
load() {
    "$bin/upesi-bench" transfer --hub "http://$(address FSPIOP)" \
        --admin "http://$(address admin)" --token "$work/data/admin-token" \
        --seconds "$seconds" --concurrency "$1" --json "$work/$2.json" >"$work/bench" 2>&1
}

# measure FORM: rate under load, p50 with one in flight, milliseconds of `verify`.
measure() {
    rm -rf "$work/data"
    "$bin/upesi" serve --data "$work/data" --config "$work/$1.toml" --fspiop 127.0.0.1:0 \
        --admin 127.0.0.1:0 >"$work/out" 2>"$work/err" &
    local pid=$! begin end key=()
    until grep -q 'ready; FSPIOP on' "$work/out"; do kill -0 "$pid"; sleep 0.1; done
    load 256 full
    load 1 single
    kill "$pid"
    wait "$pid" || true
    [ "$1" = plain ] || key=(--encryption-key "file:$work/master.key")
    begin=$(date +%s%3N)
    "$bin/upesi" verify --data "$work/data" "${key[@]}" >"$work/verified"
    end=$(date +%s%3N)
    # The length of the log differs between runs: milliseconds per 100,000 records.
    local records
    records=$("$bin/upesi" verify --json --data "$work/data" "${key[@]}" | jq '.records')
    jq -rn --slurpfile full "$work/full.json" --slurpfile single "$work/single.json" \
        --argjson verify "$(((end - begin) * 100000 / records))" \
        '[($full[0].achieved_per_s | floor), $single[0].steady.latency_ms.p50, $verify] | @tsv'
}

median() { sort -n | awk '{ all[NR] = $1 } END { print (all[int((NR + 1) / 2)] + all[int(NR / 2) + 1]) / 2 }'; }

printf 'form\trate/s\tp50 ms, one in flight\tverify ms per 100,000 records\n'
for ((round = 0; round < rounds; round++)); do
    for form in plain encrypted; do
        line=$(measure "$form")
        printf '%s\t%s\n' "$form" "$line" | tee -a "$work/all"
    done
done
column() { awk -F'\t' -v form="$1" -v at="$2" '$1 == form { print $at }' "$work/all" | median; }
for at in 2 3 4; do
    awk -v a="$(column encrypted $at)" -v b="$(column plain $at)" 'BEGIN { printf "%.3f ", a / b }'
done
echo
