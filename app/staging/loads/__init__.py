"""Load sessions in Postgres: `sessions` begins, ends and reads them, `unseen_rows` finds what completing one deletes.

What a request with rows of a load stages is decided in `app.staging.batches.load_transaction`.
"""
