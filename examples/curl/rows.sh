#!/usr/bin/env bash
# Register a table, post plain rows as JSON and as CSV, delete a row and look at a rejection, with curl alone.
#
# MIRRORGATE_URL is the address of the gateway, MIRRORGATE_API_KEY a key with the rights ingest, read and register.
set -euo pipefail
: "${MIRRORGATE_URL:?set it to the address of the gateway}" "${MIRRORGATE_API_KEY:?set it to an API key}"

# curl repeats a request after 408, 429 and 5xx, and waits for the time that Retry-After gives. The key goes through a
# file descriptor, because other accounts of the machine can read a command line. Exit status 22 is a rejection.
call() {
  local path=$1 type=$2
  shift 2
  curl --silent --show-error --fail-with-body --max-time 60 --retry 10 --retry-connrefused --write-out '\n' \
    --config <(printf 'header = "Authorization: Bearer %s"\n' "$MIRRORGATE_API_KEY") \
    --header "Content-Type: $type" "$@" "$MIRRORGATE_URL$path"
}

echo "Register the table examples.visits"
call /v1/tables/examples.visits application/json --request PUT --data @- <<'JSON'
{"key_columns": ["id"],
 "columns": [{"name": "id", "type": "int64", "nullable": false},
             {"name": "page", "type": "string"},
             {"name": "seconds", "type": "decimal(8,1)"}]}
JSON

echo "Post rows as NDJSON: each inserts the row with its key or replaces it"
call "/v1/changes/rows?table=examples.visits" application/x-ndjson --header "Idempotency-Key: visits-1" --data-binary @- <<'JSON'
{"id": 1, "page": "/", "seconds": 4.5}
{"id": 2, "page": "/search", "seconds": null}
JSON

echo "Post rows as CSV: the header names the columns, and a field without a value is NULL"
call "/v1/changes/rows?table=examples.visits" text/csv --header "Idempotency-Key: visits-2" --data-binary @- <<'CSV'
id,page,seconds
3,"/cart, step 1",61.0
4,/help,
CSV

echo "Delete a row by its key"
call "/v1/changes/rows?table=examples.visits&op=delete" application/json --header "Idempotency-Key: visits-3" --data '{"id": 2}'

echo "Post a row that is rejected: the answer says where, why and what to do, and nothing is staged"
call "/v1/changes/rows?table=examples.visits" application/json --data '{"id": 5, "page": "/", "seconds": "long"}' || [ $? -eq 22 ]

echo "Read what is accepted, staged and published"
call /v1/tables/examples.visits application/json
