"""Random torture of the real parts: clients, drains, storage and Postgres fail at random; an oracle compares what
landed with what was acknowledged. `make chaos MINUTES=n` runs it with processes; a short, seeded run is a test.
"""
