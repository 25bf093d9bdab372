"""The layers that every request passes before and after its route.

`request_entry` is the application that uvicorn calls: it rejects URLs that are not text, gives a request its id and its
limits, calls a change endpoint or the framework, and answers what nothing else has answered. It writes the log line and
the metrics. `error_handlers` turns exceptions into answers, and records those that the audit keeps.
"""
