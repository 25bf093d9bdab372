"""Proves against a real tenant that Fabric reads what Mirrorgate writes: `make conformance WORKSPACE=…`.

`__main__` asks and starts, `run` goes through the steps, `content` has the tables and rows that they publish, `gateway`
starts a gateway on the new database's landing zone and talks to it, and `report` keeps what happened and writes it.
Invariant: a run deletes the database that it created, however it ends, unless it was told to keep it or was killed.
"""
