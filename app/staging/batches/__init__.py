"""Batches in Postgres: how requests become staged blocks, in one transaction.

`stage_transaction` stages a group of requests: it locks the tables (`sequence_lock`), checks each request again under
the locks, gives each batch its sequence (`LockedTable.add`), inserts one block per table (`staged_blocks`) and writes
what belongs to it: row images, source positions, receipts (`idempotency`), load sessions and dead letters. `batch`
defines what goes in and out.
"""
