"""The staging thread of an API process, which writes all accepted requests to Postgres.

`group_commit` has the thread, its transactions, its state and its health check. Requests, read or not, wait for it in a
`request_queue`.
"""
