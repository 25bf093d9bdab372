"""Plain ASGI middleware around the application, which every request passes from top to bottom.

`request_log` gives the request its id, log line and metrics; `well_formed_url` rejects URLs that are not text;
`admission` attaches the memory reservation and the permit for a large body; `upload_timeout` and `body_limit` bound
the time and the bytes of a body; `body_authentication` lets no byte of a body be read without a valid key;
`fast_dispatch` calls the change routes. `request_body` and `decompression` read the body for a route. `error_handlers`
turns exceptions into answers and `rejection_audit` records them. app/api/application.py puts the middleware in order.
"""
