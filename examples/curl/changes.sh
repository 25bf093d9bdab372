#!/usr/bin/env bash
# Register a table, post Arcion and Replicate changes, look at a rejection and read a table's status, with curl alone.
#
# MIRRORGATE_URL is the address of the gateway, MIRRORGATE_API_KEY a key with the rights ingest, read and register.
# The script may be run again after any failure: each request with changes has an idempotency key, so that a repeated
# one gets its first answer ("replayed": true) and stages nothing.
set -euo pipefail
: "${MIRRORGATE_URL:?set it to the address of the gateway}" "${MIRRORGATE_API_KEY:?set it to an API key}"

# curl repeats a request after 408, 429 and 5xx, and waits for the time that Retry-After gives. The key goes through a
# file descriptor, because other accounts of the machine can read a command line. Exit status 22 is a rejection.
call() {
  local path=$1
  shift
  curl --silent --show-error --fail-with-body --max-time 60 --retry 10 --retry-connrefused --write-out '\n' \
    --config <(printf 'header = "Authorization: Bearer %s"\n' "$MIRRORGATE_API_KEY") \
    --header "Content-Type: application/json" "$@" "$MIRRORGATE_URL$path"
}

echo "Register the table examples.returns"
call /v1/tables/examples.returns --request PUT --data @- <<'JSON'
{"key_columns": ["id"],
 "columns": [{"name": "id", "type": "int64", "nullable": false},
             {"name": "amount", "type": "decimal(8,2)"},
             {"name": "reason", "type": "string"}]}
JSON

echo "Post an insert and an update in Arcion format"
call /v1/changes/arcion --header "Idempotency-Key: returns-1" --data @- <<'JSON'
[{"tableName": {"namespace": {"schema": "examples"}, "name": "returns"}, "opType": "I",
  "after": {"id": "1", "amount": "19.90", "reason": null}, "exists": {"id": "1", "amount": "1", "reason": "1"}},
 {"tableName": {"namespace": {"schema": "examples"}, "name": "returns"}, "opType": "U",
  "before": {"id": "1", "amount": "19.90", "reason": null},
  "after": {"id": "1", "amount": "19.90", "reason": "too small"}, "exists": {"id": "3", "amount": "3", "reason": "3"}}]
JSON

echo "Post Replicate metadata, which registers the table examples.STAFF, and its first row"
call /v1/changes/replicate --header "Idempotency-Key: staff-1" --data @- <<'JSON'
[{"magic": "atMSG", "type": "MD", "message": {
   "schemaId": "5d3e", "lineage": {"schema": "examples", "table": "STAFF", "tableVersion": 1},
   "tableStructure": {"tableColumns": {
     "ID": {"ordinal": 1, "type": "INT4", "primaryKeyPosition": 1, "nullable": false},
     "NAME": {"ordinal": 2, "type": "STRING", "length": 80, "nullable": true}}}}},
 {"magic": "atMSG", "type": "DT", "messageSchemaId": "5d3e", "message": {
   "data": {"ID": 1, "NAME": "A. Name"}, "headers": {"operation": "INSERT"}}}]
JSON

echo "Post a change that is rejected: the answer says where, why and what to do, and nothing is staged"
call /v1/changes/arcion --data @- <<'JSON' || [ $? -eq 22 ]
{"tableName": {"namespace": {"schema": "examples"}, "name": "returns"}, "opType": "I",
 "after": {"id": "2", "amount": "a lot", "reason": null}, "exists": {"id": "1", "amount": "1", "reason": "1"}}
JSON

echo "Read what is accepted, staged and published"
call /v1/tables/examples.returns
call /v1/tables/examples.STAFF
