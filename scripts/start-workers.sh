#!/usr/bin/env bash
# Starts N worker processes of a program and stops them together.
#
#   scripts/start-workers.sh N [COMMAND [ARGUMENT…]]
#   scripts/start-workers.sh --partitions N [COMMAND [ARGUMENT…]]
#
# With --partitions each of them is one fixed partition: PARTITION_KEY is 0 to N-1 and TOTAL_PARTITIONS is N in its
# environment. Without, they share the work and find each other.
#
# Each line of their output begins with the number of the worker, or of the partition. Ctrl-C or SIGTERM tells all of
# them to stop (SIGTERM) and waits until they have: a worker finishes its batches and hands its slots over. The
# exit code is 0 if all of them ended with 0, otherwise that of the first that did not.
#
# Without a command it runs the workers of examples/scaling, on the database of ANABRANCH_URL or DATABASE_URL or else
# sqlite:scaling.db in the current folder.
set -uo pipefail

usage() {
    echo "usage: ${0##*/} N [COMMAND [ARGUMENT...]]" >&2
    echo "       ${0##*/} --partitions N [COMMAND [ARGUMENT...]]" >&2
    exit 2
}

partitions=false
case ${1-} in
--partitions)
    partitions=true
    shift
    ;;
--partitions=*)
    partitions=true
    set -- "${1#*=}" "${@:2}"
    ;;
esac
[[ ${1-} =~ ^[1-9][0-9]{0,2}$ ]] || usage
count=$1
shift

if (($# == 0)); then
    root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) || exit 1
    cargo build --quiet --release --manifest-path "$root/Cargo.toml" -p anabranch --example scaling || exit 1
    set -- "${CARGO_TARGET_DIR:-$root/target}/release/examples/scaling" work
fi
command -v -- "$1" >/dev/null || {
    echo "error: there is no command \`$1\`" >&2
    exit 127
}

pipes=$(mktemp -d) || exit 1
trap 'rm -rf "$pipes"' EXIT

workers=()
printers=()
interrupted=false
stopping=false

stop() {
    interrupted=true
    stopping=true
    # Those that have ended already are none of its business.
    ((${#workers[@]} == 0)) || kill -TERM "${workers[@]}" 2>/dev/null
}
trap stop INT TERM HUP

# It ends with its worker, not with the Ctrl-C that both of them get from the terminal.
number_lines() {
    local line
    trap '' INT TERM HUP
    while IFS= read -r line || [[ -n $line ]]; do
        printf '[%s] %s\n' "$1" "$line"
    done
}

# The status of a child, however often a signal interrupts the wait.
ended() {
    local status
    while true; do
        interrupted=false
        wait "$1"
        status=$?
        $interrupted || return "$status"
    done
}

# Partitions are counted from 0, workers from 1.
first=1
word=worker
if $partitions; then
    first=0
    word=partition
    # Another name for the same setting: one that is set for all of them would contradict.
    unset PARTITION_INDEX
    export TOTAL_PARTITIONS=$count
fi

code=0
for ((number = first; number < first + count; number++)); do
    if $stopping; then
        break
    fi
    if ! mkfifo "$pipes/$number"; then
        # Those that run already are not left behind.
        code=1
        stop
        break
    fi
    number_lines "$number" <"$pipes/$number" &
    printers+=("$!")
    if $partitions; then
        export PARTITION_KEY=$number
    fi
    "$@" >"$pipes/$number" 2>&1 </dev/null &
    workers+=("$!")
done
# A signal may have come between the start of a worker and the line that notes it.
if $stopping; then
    stop
fi

for number in "${!workers[@]}"; do
    ended "${workers[number]}"
    status=$?
    if ((status != 0)); then
        echo "$word $((number + first)) ended with $status" >&2
        ((code != 0)) || code=$status
    fi
done
for printer in "${printers[@]}"; do
    ended "$printer"
done
exit "$code"
