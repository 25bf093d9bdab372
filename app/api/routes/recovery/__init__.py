"""Routes that make a table equal to its source again.

`loads` has the load sessions beside the stream of changes; `app.api.operations.loads` carries them out. `source_checks`
compares a table with its source, so that a difference is found before a user does.
"""
