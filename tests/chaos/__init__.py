"""Random failures of the real parts: clients, drains, storage and Postgres fail, and an oracle checks what landed.

The oracle compares the landing zone with what was acknowledged. `make chaos MINUTES=n` runs it with processes; a short,
seeded run is a test.
"""
