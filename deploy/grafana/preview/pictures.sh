#!/usr/bin/env bash
# Makes the pictures of the boards in docs/operating again: draws them from a real Prometheus that
# scrapes a switch with its log in files, and three nodes over three brokers, of which one is killed
# after half of the time and started again. Participants pay each other; some are slow or fail.
#
#   deploy/grafana/preview/pictures.sh [SECONDS]
#
# Needs Rust, Java and Maven for the brokers, Node.js with npm, Chromium, Prometheus and curl.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
seconds=${1:-240}
rate=${RATE:-10}
root=$PWD
upesi=${UPESI:-$root/target/debug/upesi}
work=$(mktemp -d)
pids=()

end() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    cargo --quiet xtask kafka down --dir "$work/kafka" || true
    rm -rf "$work"
}
trap end EXIT

[[ -x $upesi ]] || cargo build --locked --package upesi
cargo --quiet xtask kafka up --dir "$work/kafka" | tee "$work/kafka.txt"
bootstrap=$(sed -n 's/^kafka: ready on \([0-9.:,]*\),.*/\1/p' "$work/kafka.txt")

# start NODE FSPIOP ADMIN [ARGUMENTS]: starts a node on these addresses.
start() {
    local node=$1 fspiop=$2 admin=$3
    mkdir -p "$work/backup-$node"
    printf '[backup]\nto = "file://%s"\n' "$work/backup-$node" >"$work/$node.toml"
    "$upesi" serve --data "$work/$node" --config "$work/$node.toml" --fspiop "$fspiop" \
        --admin "$admin" "${@:4}" >"$work/$node.out" 2>"$work/$node.err" &
    pids+=($!)
    printf '%s' $! >"$work/$node.pid"
    for _ in $(seq 600); do
        grep -q 'ready; FSPIOP on' "$work/$node.out" && return
        sleep 0.1
    done
    cat "$work/$node.out" "$work/$node.err" >&2
    exit 1
}

# address NODE KIND: the printed address.
address() { sed -n "s|.*$2 on http://\([0-9.]*:[0-9]*\).*|\1|p" "$work/$1.out" | head -n 1; }

# target NODE JOB: a job of one node under a short name.
target() {
    printf '  - {job_name: %s-%s, static_configs: [{targets: ["%s"], labels: {%s}}]}\n' \
        "$2" "$1" "$(address "$1" admin)" "instance: $1, job: $2"
}

# pay NODE FIRST [ARGUMENTS]: participants of this node pay each other.
pay() {
    "$upesi" simulate --hub "http://$(address "$1" FSPIOP)" \
        --admin "http://$(address "$1" admin)" --token "$work/$1/admin-token" \
        --rate "$rate" --subscribers 20 --first "$2" "${@:3}" >"$work/pay-$1.txt" 2>&1 &
    pids+=($!)
}

any=127.0.0.1:0
start one $any $any
for node in a b c; do
    start "$node" $any $any --node "$node" --log "kafka://$bootstrap/upesi"
done
{
    echo 'global: {scrape_interval: 2s, evaluation_interval: 2s}'
    echo "rule_files: ['$root/deploy/prometheus/rules.yaml']"
    echo 'scrape_configs:'
    target one upesi
    for node in a b c; do target "$node" cluster; done
} >"$work/prometheus.yaml"
prometheus --config.file "$work/prometheus.yaml" --storage.tsdb.path "$work/prometheus" \
    --web.listen-address $any --enable-feature=exemplar-storage 2>"$work/prometheus.err" &
pids+=($!)

pay one 201 --fsps 8 --behaviour fsp202=slow:150 --behaviour fsp204=error:5100
for node in a b c; do
    case $node in a) pay a 201 --fsps 4 ;; b) pay b 211 --fsps 4 ;; c) pay c 221 --fsps 4 ;; esac
done

# Low caps, so that positions come near them.
cap() {
    local limit='{"type": "NET_DEBIT_CAP", "value": '$2', "alarmPercentage": 60}'
    curl -s -o "$work/cap" --retry 30 --retry-all-errors --fail -X PUT \
        -d "{\"currency\": \"USD\", \"limit\": $limit}" \
        -H "authorization: Bearer $(cat "$work/one/admin-token")" \
        -H 'content-type: application/json' \
        "http://$(address one admin)/participants/$1/limits"
}
for number in 1 2 3 4 5 6 7 8; do cap "fsp20$number" $((8000 + number * 500)); done

half() {
    for _ in $(seq $((seconds / 2))); do
        # A message without a body is refused.
        curl -s -o "$work/refused" -X POST "http://$(address one FSPIOP)/transfers" \
            -H 'content-type: application/vnd.interoperability.transfers+json;version=1.1' \
            -H 'accept: application/vnd.interoperability.transfers+json;version=1.1' \
            -H 'date: Tue, 15 Nov 1994 08:12:31 GMT' -H 'fspiop-source: fsp201' -d '{}'
        sleep 1
    done
}
half
"$upesi" settlement run --admin "http://$(address one admin)" --token "$work/one/admin-token"
fspiop=$(address c FSPIOP) admin=$(address c admin)
kill -9 "$(cat "$work/c.pid")"
sleep 10
start c "$fspiop" "$admin" --node c --log "kafka://$bootstrap/upesi"
half

tools=$root/target/boards
mkdir -p "$tools"
cp deploy/grafana/preview/{package.json,render.mjs} "$tools"
(cd "$tools" && npm install --no-audit --no-fund --silent)
at=http://$(sed -n 's/.*msg="Listening on" address=//p' "$work/prometheus.err")
for board in deploy/grafana/dashboards/*.json; do
    job=upesi
    [[ $board == */cluster.json ]] && job=cluster
    node "$tools/render.mjs" "$at" docs/operating "$seconds" "$board" \
        participant=fsp202 currency=USD "job=$job"
done
