"""Limits on what callers can use of one API process: memory, large bodies, and requests per second.

`memory_budget` bounds the requests under way and the bytes of their bodies, `body_semaphore` admits large bodies a few
at a time, and `rate_limits` bounds the requests and bytes per second of each key. The middleware attaches a
reservation and a permit to the ASGI scope of each request; the code that reads the body takes them from there. All
counts are per process: several API processes do not share them.
"""
