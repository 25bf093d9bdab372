"""Other ways to turn the same messages into Parquet, each run for as long on the same machine.

Each does less than the gateway: it reads files that are there already, knows no NULL, and promises nothing.
"""
