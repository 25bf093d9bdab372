"""Tools for any landing zone of open mirroring: its files alone, without Postgres and Spark.

`verify` checks a zone, and `emulator` is Fabric on this machine, against which `emulator.certify` runs a publisher.
`commands` has the commands `mirrorgate verify`, `certify` and `emulator`.
"""
