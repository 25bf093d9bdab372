"""Mirrorgate, an ingestion gateway for Microsoft Fabric open mirroring.

How a batch travels through the packages: a source application posts change messages. `api` authenticates, bounds and
decompresses the request; `formats` decodes its bytes strictly into changes, keeping positions for error messages;
`domain` types them into landing rows, an Arrow record batch of the table's schema version with the row marker.
`ingest` ties these together. `staging` locks the table's counters, takes the next batch sequence, inserts the payload
and commits; only then does the request get its receipt.

The drain (`spark_jobs`) takes over from there: it claims the table, records in the landing ledger which consecutive
batches make which file, lets Spark tasks build those files in scratch, and publishes them in order. `landing` renames
each one to `<table>/<20 digits>.parquet`, and the ledger records it.

The other packages: `cli` and `client` talk to a running gateway, `local` runs one on this machine, `checks` compare
database and landing zone, `observability` has logs and metrics, `settings` reads the environment, `errors` holds every
error code. docs/contribute/architecture.md has the picture.
"""
