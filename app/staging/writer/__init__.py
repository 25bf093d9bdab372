"""The staging thread of an API process, which writes all accepted requests to Postgres.

`group_commit` owns the thread. Requests (`waiting_request`), read or not, wait for it in a `request_queue`;
`group_transaction` stages a group of them in one transaction and gives each its receipts. `state` records how the
thread is doing and exports that as metrics; `writer_probe` finds out for health checks whether the thread can write.
"""
