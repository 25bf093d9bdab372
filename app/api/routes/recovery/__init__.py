"""Routes that make a table equal to its source again.

`loads` has the load sessions beside the stream of changes; `app.api.operations.loads` carries them out.
"""
