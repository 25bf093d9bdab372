"""Load sessions: a reload of a table beside its stream of changes (decision 0069).

`load_session` has the session and what a request may do with it in each state; `loaded_rows` says which rows of a
request land. Data passes from `app.ingest` through both to `app.staging.batches.load_transaction`.
"""
