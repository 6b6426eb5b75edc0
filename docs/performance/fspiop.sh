#!/usr/bin/env bash
# What recorded quotes and oracles cost.
#
#   docs/performance/fspiop.sh quotes [ROUNDS] [SECONDS]   whole transactions, quotes kept or not
#   docs/performance/fspiop.sh lookups [ROUNDS] [SECONDS]  look-ups, own directory or an oracle
#
# The oracle is a second switch on this machine, and answers are not cached. Look-ups are sent at 200
# a second, whole transactions 64 at a time. Each round measures both in turn.
#
# Needs a build with `cargo build --profile dist --bin upesi --bin upesi-bench` (or BIN, the
# directory of the programs), curl and jq.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
rounds=${2:-3} seconds=${3:-10} bin=${BIN:-$PWD/target/dist}
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT

# address SWITCH KIND: the printed address.
address() { sed -n "s|.*$2 on http://\([0-9.]*:[0-9]*\).*|\1|p" "$work/$1.out" | head -n 1; }

# start SWITCH: with SWITCH.toml and a new directory; its process id is in SWITCH.pid.
start() {
    rm -rf "$work/$1"
    : >"$work/$1.out" # Not the address of the switch before.
    "$bin/upesi" serve --data "$work/$1" --config "$work/$1.toml" --fspiop 127.0.0.1:0 \
        --admin 127.0.0.1:0 >"$work/$1.out" 2>"$work/$1.err" &
    echo $! >"$work/$1.pid"
    until grep -q 'ready; FSPIOP on' "$work/$1.out"; do kill -0 "$(cat "$work/$1.pid")"; sleep 0.1; done
}

stop() {
    kill "$(cat "$work/$1.pid")"
    wait "$(cat "$work/$1.pid")" || true
}

# bench SWITCH SCENARIO OPTIONS: the results are in result.json.
bench() {
    "$bin/upesi-bench" "$2" --hub "http://$(address "$1" FSPIOP)" \
        --admin "http://$(address "$1" admin)" --token "$work/$1/admin-token" \
        --pid "$(cat "$work/$1.pid")" "${@:3}" --json "$work/result.json" >"$work/bench" 2>&1 ||
        { cat "$work/bench" >&2; exit 1; }
}

# metric SWITCH NAME: the sum of its values.
metric() {
    curl -sf "http://$(address "$1" admin)/metrics" |
        awk -v name="$2" '$1 ~ "^" name "($|{)" { sum += $2 } END { print sum + 0 }'
}

print() {
    jq -r --arg name "$1" '[$name, (.achieved_per_s | floor), .latency_ms.p50, .latency_ms.p99,
        (.switch_cpu_ms_per_tx * 1000 | floor) / 1000] | join("\t")' "$work/result.json"
}

quotes() {
    common='[transfers]
confirm_to_payee = false
[quotes]
keep_seconds = 60'
    printf '%s\npersist = false\n' "$common" >"$work/forwarded.toml"
    printf '%s\npersist = true\n' "$common" >"$work/recorded.toml"
    for name in "$@"; do
        start "$name"
        bench "$name" whole --seconds "$seconds" --concurrency 64
        print "$name"
        stop "$name"
    done
}

lookups() {
    printf '[oracles]\ncache_seconds = 0\nnegative_cache_seconds = 0\n' >"$work/own.toml"
    cp "$work/own.toml" "$work/by-oracle.toml"
    printf '[oracle_api]\nlisten = "127.0.0.1:0"\n' >"$work/oracle.toml"
    for name in "$@"; do
        start "$name"
        if [ "$name" = own ]; then
            bench own lookup --seconds "$seconds" --rate 200
        else
            start oracle
            bench oracle lookup --seconds 1 --rate 50 # Registers the subscribers there.
            "$bin/upesi" oracle add MSISDN "http://$(address oracle 'oracle API')" \
                --admin "http://$(address "$name" admin)" --token "$work/$name/admin-token" \
                >/dev/null
            bench "$name" lookup --registered --seconds "$seconds" --rate 200
            local calls
            calls=$(metric "$name" upesi_oracle_calls_total)
            [ "$calls" -ge $((200 * seconds)) ] || { echo "only $calls calls" >&2; exit 1; }
        fi
        print "$name"
        stop "$name"
        [ "$name" = own ] || stop oracle
    done
}

printf 'switch\tper second\tp50 ms\tp99 ms\tCPU ms\n'
for _ in $(seq "$rounds"); do
    case ${1:-} in
        quotes) quotes forwarded recorded recorded forwarded ;;
        lookups) lookups own by-oracle by-oracle own ;;
        *) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
