#!/usr/bin/env bash
# A day of a scheme, from onboarding to verification, against a new switch on free ports.
#
# Onboards the scheme of docs/tutorial/scheme.toml, sends 10,000 transfers between four simulated
# DFSPs, closes a settlement window under load, takes funds out, settles every model in all steps,
# aborts a settlement, and compares windows, settlements and accounts to the last unit. At the end
# it stops the switch and verifies its log. Exits with 0 if all figures agree.
#
# UPESI names the program; without it target/release/upesi is run. Needs bash, curl and python3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

UPESI=${UPESI:-target/release/upesi}
TRANSFERS_USD=6000 TRANSFERS_KES=4000 SUBSCRIBERS=50
# The window is closed when this number of transfers has been committed.
CLOSE_AFTER=2000
dir=$(mktemp -d)
DATA=$dir/data
SWITCH='' LOAD=''
trap 'kill $SWITCH $LOAD 2>/dev/null || true; rm -rf "$dir"' EXIT

say() { printf '\n== %s\n\n' "$*"; }

fail() {
    printf 'scheme day: %s\n' "$*" >&2
    exit 1
}

# Shows a command of upesi and its output.
show() {
    printf '$ upesi %s\n' "$*"
    upesi "$@"
}

upesi() { "$UPESI" "$@" --admin "$ADMIN" --token "$DATA/admin-token"; }

admin() {
    curl -sS --fail-with-body -X "$1" "$ADMIN$2" -H "Authorization: Bearer $(<"$DATA/admin-token")" \
        -H 'Content-Type: application/json' ${3:+-d "$3"}
}

metric() { curl -sS "$ADMIN/metrics" | sed -n "s/^$1 //p"; }

# Figures of the switch, compared without rounding: check NAME [ARGUMENT...].
check() { ADMIN=$ADMIN DATA=$DATA python3 docs/tutorial/scheme_day.py "$@" || fail "$1 failed"; }

simulate() {
    "$UPESI" simulate --hub "$FSPIOP" --no-onboard --port "$PORT" --fsps 4 \
        --subscribers "$SUBSCRIBERS" --concurrency 32 "$@" 2>"$dir/progress"
}

start() {
    local tries=400 line
    "$UPESI" serve --data "$DATA" --fspiop 127.0.0.1:0 --admin 127.0.0.1:0 >"$dir/switch" 2>&1 &
    SWITCH=$!
    until line=$(grep -m 1 'upesi: ready' "$dir/switch"); do
        [ $((tries -= 1)) -gt 0 ] || { cat "$dir/switch" >&2; fail 'the switch does not start'; }
        sleep 0.05
    done
    FSPIOP=$(grep -o 'http://[0-9.:]*' <<<"$line" | sed -n 1p)
    ADMIN=$(grep -o 'http://[0-9.:]*' <<<"$line" | sed -n 2p)
}

say 'Morning: the switch starts, and the scheme is onboarded from a file'
start
PORT=$(python3 docs/tutorial/scheme_day.py ports)
sed -e "s/:4601/:$PORT/" -e "s/:4602/:$((PORT + 1))/" -e "s/:4603/:$((PORT + 2))/" \
    -e "s/:4604/:$((PORT + 3))/" docs/tutorial/scheme.toml >"$dir/scheme.toml"
show apply "$dir/scheme.toml"
upesi apply "$dir/scheme.toml" --json >"$dir/again"
! grep -qE '"done":"(created|updated|differs)"' "$dir/again" || fail 'a second run changes something'
echo 'A second run finds every part equal.'
python3 docs/tutorial/scheme_day.py subscribers "$SUBSCRIBERS" >"$dir/parties.csv"
show party import "$dir/parties.csv"

say "The day: 10,000 transfers; the window is closed while they run"
simulate --transactions "$TRANSFERS_USD" >"$dir/usd" & LOAD=$!
until [ "$(metric upesi_transfers_committed_total)" -ge "$CLOSE_AFTER" ]; do
    kill -0 "$LOAD" 2>/dev/null || { cat "$dir/usd" "$dir/progress" >&2; fail 'the load has ended'; }
    sleep 0.05
done
show settlement close --reason 'midday'
echo "$(metric upesi_transfers_committed_total) transfers were committed just after the close."
wait "$LOAD" || { cat "$dir/usd" "$dir/progress" >&2; fail 'USD transfers failed'; }
LOAD=''
simulate --transactions "$TRANSFERS_KES" --currency KES >"$dir/kes" ||
    { cat "$dir/kes" "$dir/progress" >&2; fail 'KES transfers failed'; }
for currency in usd kes; do
    echo "The DFSPs counted in ${currency^^}:"
    cat "$dir/$currency"
done
check counts "$TRANSFERS_USD" "$TRANSFERS_KES" "$dir/usd" "$dir/kes"

say 'Funds out: fsp201 takes 250,000.25 USD out, in two phases'
check funds-out fsp201 USD 250000.25

say 'Evening: the second window is closed; the first one is settled DFSP by DFSP'
show settlement close --reason 'end of day'
show settlement create --model DEFERREDNETUSD --window 1
for state in PS_TRANSFERS_RECORDED PS_TRANSFERS_RESERVED PS_TRANSFERS_COMMITTED SETTLED; do
    for fsp in fsp201 fsp202 fsp203 fsp204; do
        upesi settlement advance 1 --to "$state" --participant "$fsp" --reference "advice of $fsp"
    done
done
show settlement show 1

say 'A settlement of the second window is aborted, and every balance returns'
check remember
show settlement create --model DEFERREDNETUSD --window 2
show settlement advance 2 --to PS_TRANSFERS_RESERVED
check differs
show settlement abort 2 --reason 'the bank has no liquidity'
check same

say 'Both models settle the second window in all steps'
show settlement run --reason 'end of day'
show settlement windows
for settlement in 3 4; do show settlement show "$settlement"; done

say 'Statements: nets add up to zero and tie to the ledger'
check ties
show statement settlement 3
show statement participant fsp201 --currency USD
check statements

say 'Night: the switch stops, and its log is verified'
kill "$SWITCH"
wait "$SWITCH" || { cat "$dir/switch" >&2; fail 'the switch did not stop cleanly'; }
SWITCH=''
"$UPESI" verify --data "$DATA" || fail 'the log was not verified'
printf '\nThe day is over: 10,000 transfers settled and verified in %s s.\n' "$SECONDS"
