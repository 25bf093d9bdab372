"""One module per resource of the API.

A route reads its input, calls a use case of `app.ingest` or queries of `app.staging` in one transaction, and returns a
model of `app.api.schemas`. Its summary and docstring appear in the contract, so they are written for callers. The
change routes (`changes`) take the request alone and parse it themselves with `app.api.changes.parameters`.
"""
