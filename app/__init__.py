"""Mirrorgate, the ingestion gateway for Microsoft Fabric open mirroring. The way of one batch:

A source application posts change messages. `api` authenticates, bounds and decompresses the request;
`formats` turns its bytes into changes, strictly, keeping positions for error messages; `domain` types them
into landing rows, an Arrow record batch of the table's schema version with the row marker added. `ingest`
ties these together. `staging` locks the table's counters, allots the batch sequence, inserts the payload
and commits; only then is the request answered with its receipt.

From there the drain (`spark_jobs`) takes over: it claims the table, records in the landing ledger which
consecutive batches make which file, lets Spark tasks build those files in scratch, and publishes them
in order. `landing` renames each into `<table>/<20 digits>.parquet`; the ledger records it.
"""
