"""Load sessions: a reload of a table beside its stream of changes (decision 0069).

`load_mode` says what completing one deletes, `load_session` what a request may do with it in each state, and
`loaded_rows` which rows of a request land. Data passes from `app.ingest` to `app.staging.batches.load_transaction`,
which decides by these rules.
"""
