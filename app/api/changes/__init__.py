"""The change endpoints, `POST /v1/changes/{arcion,replicate,rows,arrow}`, which are answered without the framework.

`endpoints` takes one request from its head to its answer; `parameters` reads its query and the headers that name it;
`body` reads and expands its body, with `decompression`. app/api/routes/changes.py declares the endpoints as routes, for
the contract.
"""
