#!/usr/bin/env bash
# Runs every command of docs/tutorial.md against a new switch on free ports, and compares the
# output with the document. Only times, digests and durations may differ.
#
#   docs/tutorial/run.sh           exits with 0 if the document is correct, otherwise with 1
#   docs/tutorial/run.sh --write   updates the document with the output
#
# UPESI names the program; without it target/release/upesi is run. Needs bash, curl, python3 and
# openssl.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

run_mode=${1:-check}
run_document=docs/tutorial.md
run_dir=$(mktemp -d)
DATA=$run_dir/data
CALLBACK_LOG=$run_dir/callbacks
SWITCH='' BANKS=''
trap 'kill $SWITCH $BANKS 2>/dev/null || true; rm -rf "$run_dir"' EXIT

# wait_for TEXT FILE: the first line of FILE that has TEXT.
wait_for() {
    local tries=200
    until grep -m 1 "$1" "$2" 2>/dev/null; do
        [ $((tries -= 1)) -gt 0 ] || { cat "$2" >&2; return 1; }
        sleep 0.05
    done
}

start() {
    local line
    "${UPESI:-target/release/upesi}" serve --data "$DATA" --fspiop 127.0.0.1:0 \
        --admin 127.0.0.1:0 >"$run_dir/switch" 2>&1 & SWITCH=$!
    python3 docs/tutorial/callbacks.py 0 >"$CALLBACK_LOG" 2>"$run_dir/banks" & BANKS=$!
    line=$(wait_for 'upesi: ready' "$run_dir/switch")
    FSPIOP=$(grep -o 'http://[0-9.:]*' <<<"$line" | sed -n 1p)
    ADMIN=$(grep -o 'http://[0-9.:]*' <<<"$line" | sed -n 2p)
    line=$(wait_for 'callbacks: ready' "$CALLBACK_LOG")
    CALLBACKS=http://127.0.0.1:${line##* }
}

# Replaces values that differ from run to run.
normalize() {
    sed -E -e 's/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{12}Z/TIME/g' -e 's/[0-9a-f]{64}/DIGEST/g' \
        -e 's/in [0-9.]+ s, [0-9,]+ records.s/in SECONDS/' -e 's/[0-9]+ records in [0-9]+ batches/RECORDS/' \
        -e 's/outcomes of [0-9]+ batches/outcomes of BATCHES/' -e 's/reaches record [0-9]+/reaches RECORD/'
}

# Runs the pending command and compares its output, or writes it.
run_pending() {
    [ -n "$run_command" ] || return 0
    set +eu
    eval "$run_command" >"$run_dir/output" 2>&1
    set -eu
    run_commands=$((run_commands + 1))
    if [ "$run_mode" = --write ]; then
        cat "$run_dir/output"
    elif ! diff <(printf '%s' "$run_expected" | normalize) <(normalize <"$run_dir/output") \
        >"$run_dir/diff"; then
        printf '%s:%s: $ %s\n' "$run_document" "$run_line" "$run_command" >&2
        cat "$run_dir/diff" >&2
        run_differences=$((run_differences + 1))
    fi
    run_command='' run_expected=''
}

# Reads the document. In a block of kind "console", lines after a dollar sign are
# commands, "> " continues one, and the rest is expected output.
walk() {
    local line number=0 inside=''
    while IFS= read -r line <&3; do
        number=$((number + 1))
        if [ -n "$inside" ] && [[ $line == '```' || $line == '$ '* ]]; then
            run_pending
        fi
        case $inside$line in
        '```console') inside='! ' ;;
        '! ```') inside='' ;;
        '! $ '*) run_command=${line#'$ '} run_line=$number ;;
        '! > '*) run_command+=$'\n'${line#'> '} ;;
        '! '*)
            run_expected+=$line$'\n'
            continue
            ;;
        esac
        [ "$run_mode" != --write ] || printf '%s\n' "$line"
    done 3<"$run_document"
}

start
. docs/tutorial/helpers.sh
run_command='' run_expected='' run_line=0 run_commands=0 run_differences=0
if [ "$run_mode" = --write ]; then
    walk >"$run_dir/written"
    cp "$run_dir/written" "$run_document"
else
    walk
fi
echo "$run_document: $run_commands commands, $run_differences differ"
[ "$run_commands" -gt 0 ] && [ "$run_differences" -eq 0 ]
