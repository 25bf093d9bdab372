"""The change endpoints, `POST /v1/changes/{arcion,replicate,rows,arrow}`, which are answered without the framework.

`endpoints` takes one request from its head to its answer, and reads and expands its body; `parameters` reads its query
and the headers that name it. app/api/routes/changes.py declares the endpoints as routes, for the contract.
"""
