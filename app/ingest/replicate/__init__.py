"""Replicate requests: metadata messages change tables, data messages are routed to them.

`tables` applies the metadata messages of a request and routes its data messages. It asks `destinations` which table a
message is for, and `registration` registers and evolves tables. `source_cache` remembers sources for requests that
need no query. `app.formats.replicate` reads the messages.
"""
