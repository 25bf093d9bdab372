"""What talks to a gateway over HTTP, installable without the server's packages.

`http` is the client of the command line, and `retrying` says which requests are repeated, and when. `producer` numbers
requests, so that each lands once. `send` posts files of changes in requests that `chunking` cuts, in an order and to
tables that `file_paths` finds. `table_manifest` compares a YAML declaration of tables with those of a gateway.
"""
