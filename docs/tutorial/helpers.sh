# Shell functions of docs/tutorial.md, for bash. Source it: . docs/tutorial/helpers.sh
#
#   admin METHOD PATH [BODY]         a call of the admin API, with the token
#   fsp NAME METHOD PATH [BODY]      an FSPIOP message of participant NAME
#   fsp NAME:TO METHOD PATH [BODY]   the same with FSPIOP-Destination TO
#   callbacks COUNT                  waits for COUNT more callbacks and prints them, sorted
#   in_seconds COUNT                 the time COUNT seconds from now, in FSPIOP format
#   base64url                        a filter: base64url without padding
#
# admin and fsp print status and body of the response.

UPESI=${UPESI:-target/release/upesi}
DATA=${DATA:-/tmp/upesi-try}
FSPIOP=${FSPIOP:-http://127.0.0.1:4000}
ADMIN=${ADMIN:-http://127.0.0.1:3001}
CALLBACKS=${CALLBACKS:-http://127.0.0.1:4500}
CALLBACK_LOG=${CALLBACK_LOG:-/tmp/upesi-try.callbacks}
echo 1 >"$CALLBACK_LOG.seen" # The first line only reports that the banks are ready.

admin() {
    local body=()
    [ $# -lt 3 ] || body=(-H 'Content-Type: application/json' -d "$3")
    call -X "$1" "$ADMIN$2" -H "Authorization: Bearer $(cat "$DATA/admin-token")" "${body[@]}"
}

fsp() {
    local more=() resource=${3#/}
    resource=${resource%%/*}
    local type="application/vnd.interoperability.$resource+json;version=1.1"
    [ "${1%%:*}" = "$1" ] || more+=(-H "FSPIOP-Destination: ${1#*:}")
    # curl would send "Accept: */*", which is not an FSPIOP media type.
    if [ "$2" = PUT ]; then more+=(-H 'Accept:'); else more+=(-H "Accept: $type"); fi
    [ $# -lt 4 ] || more+=(-d "$4")
    call -X "$2" "$FSPIOP$3" -H "Content-Type: $type" -H "FSPIOP-Source: ${1%%:*}" \
        -H "Date: $(http_date)" "${more[@]}"
}

call() {
    local answer body
    answer=$(curl -sS -w '\n%{http_code}' "$@")
    body=${answer%$'\n'*}
    printf '%s%s\n' "${answer##*$'\n'}" "${body:+ $body}"
}

callbacks() {
    local seen tries=100
    seen=$(cat "$CALLBACK_LOG.seen")
    until [ "$(wc -l <"$CALLBACK_LOG")" -ge $((seen + $1)) ] || [ $((tries -= 1)) -eq 0 ]; do
        sleep 0.1
    done
    tail -n +$((seen + 1)) "$CALLBACK_LOG" | tee "$CALLBACK_LOG.new" | sort
    echo $((seen + $(wc -l <"$CALLBACK_LOG.new"))) >"$CALLBACK_LOG.seen"
}

in_seconds() {
    python3 - "$1" <<'PYTHON'
import datetime, sys
moment = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=int(sys.argv[1]))
print(moment.strftime("%Y-%m-%dT%H:%M:%S.000Z"))
PYTHON
}

http_date() { LC_ALL=C date -u '+%a, %d %b %Y %H:%M:%S GMT'; }

base64url() { base64 | tr '+/' '-_' | tr -d '=\n'; }
