"""The fast paths of ingestion: requests for one cached table, without a schema change or a source order.

`columnar_requests` decides whether a request qualifies. Small requests are typed together in the staging thread; large
columnar ones in the thread of `columnar_reader`. A fast path declines and never rejects: everything else, also every
request that will be rejected, takes `app.ingest.slow_path`.
"""
