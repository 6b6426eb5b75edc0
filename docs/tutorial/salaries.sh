#!/usr/bin/env bash
# A salary run of 10,000 payments in one bulk transfer, against a new switch: see docs/bulk.md.
#
# Greenbank pays the salaries, bluebank has the accounts. Sends the bulk with curl, answers it for
# bluebank, and compares states, results and positions. Exits with 0 if all figures agree.
#
# UPESI names the program; without it target/release/upesi is run. Needs bash, curl and python3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

dir=$(mktemp -d)
DATA=$dir/data CALLBACK_LOG=$dir/callbacks
FSPIOP=http://127.0.0.1:4710 ADMIN=http://127.0.0.1:3711 CALLBACKS=http://127.0.0.1:4711
. docs/tutorial/helpers.sh
COUNT=${COUNT:-10000}
trap 'kill $SWITCH $BANKS 2>/dev/null || true; rm -rf "$dir"' EXIT

cat >"$dir/upesi.toml" <<CONFIG
[fspiop]
listen = "127.0.0.1:4710"
[admin]
listen = "127.0.0.1:3711"
[transfers]
bulk_items_max = 10000
CONFIG
"$UPESI" serve --data "$DATA" --config "$dir/upesi.toml" & SWITCH=$!
python3 docs/tutorial/callbacks.py 4711 >"$CALLBACK_LOG" & BANKS=$!
until curl -sf "$ADMIN/health" >/dev/null && [ -s "$CALLBACK_LOG" ]; do sleep 0.1; done

fail() {
    printf 'salaries: %s\n' "$*" >&2
    exit 1
}
# Waits for a callback, and prints its body: callback TEXT.
callback() {
    for _ in $(seq 600); do
        if grep -m1 -F "$1" "$CALLBACK_LOG" >"$dir/line"; then
            sed 's/^[^{]*//' "$dir/line"
            return
        fi
        sleep 0.1
    done
    fail "no callback: $1"
}
send() {
    curl -sS -w '%{http_code}' -X "$2" "$FSPIOP$3" -H "FSPIOP-Source: $1" -H "Date: $(http_date)" \
        -H 'Content-Type: application/vnd.interoperability.bulkTransfers+json;version=1.1' \
        -H 'Accept: application/vnd.interoperability.bulkTransfers+json;version=1' \
        --data-binary "@$4"
}
position() {
    curl -sS "$ADMIN/participants/$1/accounts" | python3 -c '
import json, sys
print(next(it["value"] for it in json.load(sys.stdin) if it["ledgerAccountType"] == "POSITION"))'
}

for type in HUB_RECONCILIATION HUB_MULTILATERAL_SETTLEMENT; do
    admin POST /participants/Hub/accounts '{"currency":"USD","type":"'$type'"}' >/dev/null
done
for bank in greenbank bluebank; do
    admin POST /participants '{"name":"'$bank'","currency":"USD"}' >/dev/null
    admin POST /participants/$bank/initialPositionAndLimits \
        '{"currency":"USD","limit":{"type":"NET_DEBIT_CAP","value":10000000},"initialPosition":0}' \
        >/dev/null
    while read -r kind path; do
        admin POST /participants/$bank/endpoints \
            '{"type":"FSPIOP_CALLBACK_URL_BULK_TRANSFER_'$kind'","value":"'$CALLBACKS/$bank$path'"}' \
            >/dev/null
    done <<'ENDPOINTS'
POST /bulkTransfers
PUT /bulkTransfers/{{id}}
ERROR /bulkTransfers/{{id}}/error
ENDPOINTS
done
account=$(curl -sS "$ADMIN/participants/greenbank/accounts" | python3 -c '
import json, sys
print(next(it["id"] for it in json.load(sys.stdin) if it["ledgerAccountType"] == "SETTLEMENT"))')
admin POST "/participants/greenbank/accounts/$account" '{"transferId":
    "b51ec534-ee48-4575-b6a9-ead2955b8069", "externalReference":"deposit", "action":"recordFundsIn",
    "reason":"salaries", "amount":{"amount":"10000000","currency":"USD"}}' >/dev/null

python3 docs/tutorial/salaries.py bulk "$COUNT" "$(in_seconds 600)" >"$dir/bulk.json"
bulk=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["bulkTransferId"])' \
    "$dir/bulk.json")
printf 'POST /bulkTransfers, %s salaries, %s bytes: ' "$COUNT" "$(wc -c <"$dir/bulk.json")"
send greenbank POST /bulkTransfers "$dir/bulk.json"
callback "bluebank <- POST /bulkTransfers" >"$dir/received.json"
printf '\nposition of greenbank: %s\n' "$(position greenbank)"

python3 docs/tutorial/salaries.py answer "$dir/received.json" >"$dir/answer.json"
printf 'PUT /bulkTransfers/%s: ' "$bulk"
send bluebank PUT "/bulkTransfers/$bulk" "$dir/answer.json"
callback "greenbank <- PUT /bulkTransfers/$bulk" >"$dir/result.json"
printf '\nposition of bluebank: %s\n' "$(position bluebank)"
python3 - "$dir/bulk.json" "$dir/result.json" "$(position greenbank)" "$(position bluebank)" <<'PYTHON'
import json, sys
bulk, result = (json.load(open(name)) for name in sys.argv[1:3])
total = sum(int(it["transferAmount"]["amount"]) for it in bulk["individualTransfers"])
done = [it for it in result["individualTransferResults"] if "fulfilment" in it]
print(f"{result['bulkTransferState']}: {len(done)} of {len(bulk['individualTransfers'])} salaries, "
      f"{total} USD")
agree = len(done) == len(bulk["individualTransfers"]) and result["bulkTransferState"] == "COMPLETED"
sys.exit(0 if agree and sys.argv[3:] == [str(total), str(-total)] else 1)
PYTHON
