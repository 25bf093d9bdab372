"""The rules of publication: which batches make which file, and what is recorded of it.

`drain_plan` groups staged blocks into files, `metadata_chain` binds schemas and files by hash, and `landing_zone`
identifies the zone. `backlog` says when a table can take no more, and `failure` puts any exception into a safe text.
"""
