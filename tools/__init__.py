"""Programs for the development of Mirrorgate; the wheel does not contain them.

`reference` writes the generated parts of docs/, `change_codes` is the list behind one of them, `openapi` writes the
HTTP contract, `conformance` tries everything in a tenant of Fabric, and `make_venv.sh` makes `.venv`. The Makefile
calls them.
"""
