"""The layers that every request passes before and after its route.

`request_entry` is the application that uvicorn calls: it gives a request its id and its limits, calls a change endpoint
or the framework, and answers what nothing else has answered; `request_log` writes the log line and the metrics;
`well_formed_url` rejects URLs that are not text. `error_handlers` turns exceptions into answers and `rejection_audit`
records them.
"""
