#!/bin/sh
# Runs a command while holding a lock of the sidecar, and ends it if the lock is lost. Needs curl and jq.
#
#   TENURE_SIDECAR=http://127.0.0.1:8087 TENURE_TOKEN_FILE=/etc/tenure/token locked.sh backup ./dump.sh
#
# The command finds its token in TENURE_TOKEN, to write with. Exit code: the command's own; 75 if others hold the lock; 124 if it was
# lost; 69 if the sidecar, or its store, did not answer.
set -u
name=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Not on the command line, which everybody on this machine can read.
printf 'header = "Authorization: Bearer %s"\n' "$(cat "$TENURE_TOKEN_FILE")" >"$folder/curl"

ask() { # METHOD PATH [BODY]
    curl --silent --show-error --config "$folder/curl" --request "$1" --header 'Content-Type: application/json' \
        --data "${3:-}" --output "$folder/answer" --write-out '%{http_code}' "$TENURE_SIDECAR$2"
}

case $(ask POST "/v1/locks/$name" "{\"wait_s\": ${WAIT_S:-0}}") in
200) ;;
423) echo "others hold $name" >&2; exit 75 ;;
*) jq --raw-output '.detail' "$folder/answer" >&2; exit 69 ;;
esac
id=$(jq --raw-output .id "$folder/answer")
TENURE_TOKEN=$(jq .token "$folder/answer")
export TENURE_TOKEN

"$@" &
command=$!
trap 'kill -TERM "$command" 2>/dev/null' TERM INT
# The lock is held while this connection is open. What comes over it, every few seconds, says how it stands, and its end says that
# nobody knows any more. If this script is killed, the lock is held for as long as the command goes on, and not for longer.
mkfifo "$folder/stream"
curl --silent --no-buffer --config "$folder/curl" "$TENURE_SIDECAR/v1/candidacies/$id/stream" >"$folder/stream" &
stream=$!
(
    while read -r line; do
        case $line in *'"state":"lost"'* | *'"state":"ended"'*) break ;; esac
        kill -0 "$command" 2>/dev/null || { kill "$stream"; exit; }
    done <"$folder/stream"
    : >"$folder/lost"
    kill -TERM "$command" 2>/dev/null
) &
watch=$!

wait "$command"
code=$?
# A signal ends the waiting, and not the command: until that has stopped it works, and needs the lock.
while kill -0 "$command" 2>/dev/null; do
    wait "$command"
    code=$?
done
if [ -e "$folder/lost" ]; then
    code=124
fi
kill "$watch" 2>/dev/null
ask DELETE "/v1/locks/$id" >/dev/null
kill "$stream" 2>/dev/null
wait 2>/dev/null
exit "$code"
