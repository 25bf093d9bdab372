"""Other tools that turn the same messages into Parquet, each run for the same time on the same machine.

Each does less than the gateway: it reads files that exist already, does not handle NULL, and gives no guarantees.
"""
