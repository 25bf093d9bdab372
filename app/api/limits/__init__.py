"""Limits on what callers can use of one API process: memory, large bodies, time, and requests per second.

`memory_budget` bounds the requests under way and the bytes of their bodies and answers, with a fair share for each key
and a small room for callers without one; `body_semaphore` admits large bodies a few at a time, `transfer_deadline`
bounds the time that a body or an answer takes, and `rate_limits` bounds the requests and bytes per second of each key.
`concurrency_limit` admits a few requests at a time that hold a connection for long. `app.api.exchange` holds what one
request has of them. All counts are per process: several API processes do not share them.
"""
