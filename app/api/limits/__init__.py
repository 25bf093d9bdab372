"""Limits on what callers can use of one API process: memory, large bodies, time, and requests per second.

`memory_budget` bounds the requests under way and the bytes of their bodies, `body_semaphore` admits large bodies a few
at a time, `upload_deadline` bounds the time that a body takes, and `rate_limits` bounds the requests and bytes per
second of each key. `concurrency_limit` admits a few requests at a time that hold a connection for long.
`app.api.exchange` holds what one request has of them. All counts are per process: several API processes do not share
them.
"""
